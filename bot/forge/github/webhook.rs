//! What GitHub's webhooks tell. Fields that the bot needs and nothing more: others come and go.

use serde_json::Value;
use slicewright_core::review::boxes;

use crate::forge::contact::Person;
use crate::forge::webhook::{Event, News, What};

/// What the event `name` with this payload tells.
pub(in crate::forge) fn news(name: &str, said: &Value) -> News {
    let repository = said["repository"]["full_name"].as_str();
    let what = match name {
        "ping" => return News::Ping,
        "installation" | "installation_repositories" => return News::Installation,
        "issue_comment" => comment(said),
        "issues" => ticks(said),
        "pull_request" | "pull_request_review" => request(said),
        "push" => push(said),
        _ => return News::Nothing("the bot does not act upon this event"),
    };
    match (repository, what) {
        (_, Err(why)) => News::Nothing(why),
        (None, _) => News::Nothing("no repository is named"),
        (Some(repository), Ok(what)) => News::Event(Event { repository: repository.to_owned(), what }),
    }
}

fn comment(said: &Value) -> Result<What, &'static str> {
    const LACKS: &str = "a field of the comment is missing";
    if !said["issue"]["pull_request"].is_object() {
        return Err("it is on an issue");
    }
    let (comment, user) = (&said["comment"], &said["comment"]["user"]);
    let id = comment["id"].as_u64().ok_or(LACKS)?.to_string();
    let request = said["issue"]["number"].as_u64().ok_or(LACKS)?.to_string();
    match said["action"].as_str() {
        Some("created") => {}
        Some("deleted") => return Ok(What::CommentGone { request, comment: id }),
        _ => return Err("a comment that is edited asks for nothing"),
    }
    Ok(What::Comment {
        request,
        comment: id,
        author: Person {
            id: user["id"].as_u64().ok_or(LACKS)?,
            login: user["login"].as_str().ok_or(LACKS)?.to_owned(),
        },
        is_bot: user["type"] != "User" || comment["performed_via_github_app"].is_object(),
        text: comment["body"].as_str().unwrap_or_default().replace("\r\n", "\n"),
        head: None,
        internal: false,
    })
}

/// Boxes that were ticked on an issue: a change of its text, which whoever made it is told of here alone.
fn ticks(said: &Value) -> Result<What, &'static str> {
    const LACKS: &str = "a field of the issue is missing";
    let (issue, sender) = (&said["issue"], &said["sender"]);
    if said["action"] != "edited" {
        return Err("nobody changed the text of an issue");
    }
    let before = said["changes"]["body"]["from"].as_str().ok_or("the text of the issue is as it was")?;
    let pools = boxes::ticked(before, issue["body"].as_str().unwrap_or_default());
    if pools.is_empty() {
        return Err("no box was ticked");
    }
    Ok(What::Ticked {
        issue: issue["number"].as_u64().ok_or(LACKS)?.to_string(),
        pools,
        by: Person {
            id: sender["id"].as_u64().ok_or(LACKS)?,
            login: sender["login"].as_str().ok_or(LACKS)?.to_owned(),
        },
        is_bot: sender["type"] != "User",
    })
}

fn request(said: &Value) -> Result<What, &'static str> {
    let pull = &said["pull_request"];
    let number = pull["number"].as_u64().ok_or("the pull request has no number")?;
    let head = &pull["head"];
    let is_here =
        head["repo"]["full_name"].is_string() && head["repo"]["full_name"] == said["repository"]["full_name"];
    let branch = head["ref"].as_str().filter(|_| is_here).map(str::to_owned);
    Ok(What::Request { request: number.to_string(), branch })
}

fn push(said: &Value) -> Result<What, &'static str> {
    let branch = said["ref"].as_str().and_then(|name| name.strip_prefix("refs/heads/"));
    Ok(What::Push { branch: branch.ok_or("no branch was moved")?.to_owned() })
}
