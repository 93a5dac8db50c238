//! What GitLab's webhooks tell. Fields that the bot needs and nothing more: others come and go.

use serde_json::Value;
use slicewright_core::review::boxes;

use crate::forge::contact::Person;
use crate::forge::webhook::{Event, News, What};

/// What the event `name` with this payload tells.
pub(in crate::forge) fn news(name: &str, said: &Value) -> News {
    let repository = said["project"]["path_with_namespace"].as_str();
    let what = match name {
        "Note Hook" | "Confidential Note Hook" => note(said),
        "Issue Hook" => ticks(said),
        "Merge Request Hook" => request(said),
        "Push Hook" => push(said),
        _ => return News::Nothing("the bot does not act upon this event"),
    };
    match (repository, what) {
        (_, Err(why)) => News::Nothing(why),
        (None, _) => News::Nothing("no project is named"),
        (Some(repository), Ok(what)) => News::Event(Event { repository: repository.to_owned(), what }),
    }
}

fn note(said: &Value) -> Result<What, &'static str> {
    const LACKS: &str = "a field of the comment is missing";
    let note = &said["object_attributes"];
    if note["noteable_type"] != "MergeRequest" {
        return Err("it is on no merge request");
    }
    if note["system"] == true {
        return Err("GitLab itself noted it");
    }
    // Older servers say nothing about it, and tell of new ones only.
    if !matches!(note["action"].as_str(), None | Some("create")) {
        return Err("a comment that is edited asks for nothing");
    }
    let (request, user) = (&said["merge_request"], &said["user"]);
    Ok(What::Comment {
        request: request["iid"].as_u64().ok_or(LACKS)?.to_string(),
        comment: note["id"].as_u64().ok_or(LACKS)?.to_string(),
        author: Person {
            id: user["id"].as_u64().ok_or(LACKS)?,
            login: user["username"].as_str().ok_or(LACKS)?.to_owned(),
        },
        // It does not say; whoever acts on it asks.
        is_bot: false,
        text: note["note"].as_str().unwrap_or_default().replace("\r\n", "\n"),
        head: request["last_commit"]["id"].as_str().map(str::to_owned),
        internal: note["internal"] == true || note["confidential"] == true,
    })
}

/// Boxes that were ticked on an issue: a change of its text, which whoever made it is told of here alone.
fn ticks(said: &Value) -> Result<What, &'static str> {
    const LACKS: &str = "a field of the issue is missing";
    let text = &said["changes"]["description"];
    let (Some(before), Some(after)) = (text["previous"].as_str(), text["current"].as_str()) else {
        return Err("nobody changed the text of an issue");
    };
    let pools = boxes::ticked(before, after);
    if pools.is_empty() {
        return Err("no box was ticked");
    }
    Ok(What::Ticked {
        issue: said["object_attributes"]["iid"].as_u64().ok_or(LACKS)?.to_string(),
        pools,
        by: Person {
            id: said["user"]["id"].as_u64().ok_or(LACKS)?,
            login: said["user"]["username"].as_str().ok_or(LACKS)?.to_owned(),
        },
        // It does not say; whoever acts on it asks.
        is_bot: false,
    })
}

fn request(said: &Value) -> Result<What, &'static str> {
    let request = &said["object_attributes"];
    let number = request["iid"].as_u64().ok_or("the merge request has no number")?;
    let is_here =
        request["source_project_id"].is_u64() && request["source_project_id"] == request["target_project_id"];
    let branch = request["source_branch"].as_str().filter(|_| is_here).map(str::to_owned);
    Ok(What::Request { request: number.to_string(), branch })
}

fn push(said: &Value) -> Result<What, &'static str> {
    let branch = said["ref"].as_str().and_then(|name| name.strip_prefix("refs/heads/"));
    Ok(What::Push { branch: branch.ok_or("no branch was moved")?.to_owned() })
}
