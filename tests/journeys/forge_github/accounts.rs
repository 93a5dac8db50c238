//! How the bot signs in, who it is then, and what stands in its way.

use super::*;
use crate::world::forge::github::{GraphQl, Permission};
use crate::world::forge::state::Role;

fn identity(story: &Story) -> (Vec<String>, Vec<String>) {
    let identity = story.done(story.bot.identity()).unwrap();
    (identity.emails.into_iter().collect(), identity.forge_emails.into_iter().collect())
}

/// Every commit of the bot is one that it knows as its own.
fn knows_its_own_commits(story: &Story) {
    let identity = story.done(story.bot.identity()).unwrap();
    for commit in story.find().commits {
        let [author, committer] = commit.emails;
        assert!(identity.emails.contains(&author), "{author} is not in {identity:?}");
        assert!(identity.emails.contains(&committer) || identity.forge_emails.contains(&committer));
    }
}

#[test]
fn an_account_with_a_token_signs_with_the_configured_author() {
    let mut story = Story::new(SignIn::Token);
    story.restart(|settings, target| {
        settings.former_emails = vec!["former@example.com".into()];
        target.former_emails = vec!["older@example.com".into()];
    });
    let own = "900+slicewright-bot@users.noreply.127.0.0.1";
    let (emails, forge) = identity(&story);
    assert_eq!(emails, [own, "bot@example.com", "former@example.com", "older@example.com"]);
    assert_eq!(forge, ["noreply@127.0.0.1"]);
    story.propose();
    knows_its_own_commits(&story);
}

/// bors-ng/bors-ng#1098: an App that was installed anew has another number, and the old one was kept for ever.
#[test]
fn an_app_signs_in_for_the_one_repository_and_its_commits_are_githubs() {
    let story = Story::new(SignIn::App);
    assert_eq!(identity(&story).0, ["900+slicewright[bot]@users.noreply.127.0.0.1"]);
    story.propose();
    knows_its_own_commits(&story);
    assert_eq!(story.find().commits[0].emails[1], "noreply@127.0.0.1");
    let n_tokens = story.asked().iter().filter(|line| line.path.contains("access_tokens")).count();
    assert_eq!(n_tokens, 1);

    // Removed and installed again: another number, and the token of before is worth nothing.
    story.state().github.installation = Some((4712, Permission::Write));
    story.state().tokens.clear();
    assert!(story.find().request.unwrap().by_bot);
}

#[test]
fn an_app_that_is_not_there_or_may_too_little_says_what_to_do() {
    let story = Story::new(SignIn::App);
    story.state().github.installation = Some((4711, Permission::Read));
    is_blocked(story.done(story.bot.head()), "may not write `contents`");
    story.state().github.installation = None;
    is_blocked(story.done(story.bot.head()), "is not installed on acme/infra");
    let mut settings = story.settings.clone();
    let not_a_key = story.folder.path().join("wrong.pem");
    std::fs::write(&not_a_key, "hello").unwrap();
    settings.app.as_mut().unwrap().key_file = Some(not_a_key);
    is_blocked(connect(&settings, story.target.clone()).map(drop), "no RSA key");
}

/// peter-evans/create-pull-request#3979: the setting that forbids workflows to open pull requests looked like a fault.
#[test]
fn a_workflows_token_is_known_for_what_it_is() {
    let story = Story::new(SignIn::Workflow);
    assert_eq!(identity(&story).0, ["900+slicewright[bot]@users.noreply.127.0.0.1"]);
    story.propose();
    knows_its_own_commits(&story);

    let story = Story::new(SignIn::Workflow);
    story.state().github.graphql = GraphQl::Absent;
    assert_eq!(identity(&story).0, ["41898282+github-actions[bot]@users.noreply.127.0.0.1"]);

    let story = Story::new(SignIn::Workflow);
    story.state().github.actions_may_not_open = true;
    let head = story.publish(None, "gpu: 0.5\n").unwrap();
    let opened = story.done(story.bot.write_request(BRANCH, None, &text(&head, "Words")));
    is_blocked(opened, "Allow GitHub Actions to create and approve pull requests");

    let story = Story::new(SignIn::Workflow);
    story.state().infra().roles.insert(BOT, Role::Read);
    is_blocked(story.publish(None, "gpu: 0.5\n"), "permissions: {contents: write");
}

#[test]
fn a_token_that_was_replaced_is_read_again() {
    let story = Story::new(SignIn::Token);
    story.done(story.bot.head()).unwrap();
    {
        let mut state = story.state();
        state.tokens.clear();
        state.tokens.insert("the-next-token".to_owned(), BOT);
    }
    is_blocked(story.done(story.look()), "Bad credentials");
    std::fs::write(story.folder.path().join("token"), "the-next-token\n").unwrap();
    story.propose();
}

#[test]
fn what_stands_in_the_way_is_told_apart() {
    let blocked = |change: &dyn Fn(&mut State), words: &str| {
        let story = Story::new(SignIn::Token);
        change(&mut story.state());
        is_blocked(story.done(story.bot.head()), words);
    };
    blocked(&|state| state.infra().archived = true, "is archived");
    blocked(&|state| state.infra().requests_disabled = true, "pull requests switched off");
    blocked(
        &|state| {
            state.infra().roles.insert(BOT, Role::Read);
        },
        "slicewright-bot may not write",
    );
    blocked(&|state| state.infra().git.git(&["update-ref", "-d", "refs/heads/main"]).clear(), "is empty");

    let story = Story::new(SignIn::Token);
    story.state().infra().roles.remove(&BOT);
    let missing = story.done(story.bot.base_branch()).unwrap_err();
    assert!(
        matches!(&missing, ForgeError::NotFound { what } if what.contains("may not see it")),
        "{missing}"
    );

    let mut story = Story::new(SignIn::Token);
    story.restart(|_, target| target.default_branch = Some("production".into()));
    assert_eq!(story.done(story.bot.base_branch()).unwrap(), "production");
    let missing = story.done(story.bot.head()).unwrap_err();
    assert!(matches!(&missing, ForgeError::NotFound { what } if what.contains("`production`")), "{missing}");

    let mut target = story.target.clone();
    target.repository = "acme/group/infra".into();
    is_blocked(connect(&story.settings, target).map(drop), "owner/name");
}

#[test]
fn a_renamed_repository_is_followed() {
    let mut story = Story::new(SignIn::Token);
    story.state().infra().former_paths.push("acme/old-name".into());
    story.restart(|_, target| target.repository = "acme/old-name".into());
    story.propose();
    assert_eq!(story.find().request.unwrap().id, "1");
    let old = story.asked().iter().filter(|line| line.path.contains("old-name")).count();
    assert_eq!(old, 1, "asked for under its old name once");
}

#[test]
fn the_interface_may_be_where_it_is_said_to_be() {
    let mut story = Story::new(SignIn::App);
    let url = story.forge.url();
    story.restart(|settings, _| {
        settings.url = Some("https://github.example.com".into());
        settings.api_url = Some(url);
    });
    story.state().users.get_mut(&BOT).unwrap().email.clear();
    assert_eq!(identity(&story).1, ["noreply@github.example.com"]);
    story.propose();
    assert!(story.asked().iter().all(|line| !line.path.starts_with("/api/")));
}

#[test]
fn git_itself_clones_what_was_proposed() {
    let story = Story::new(SignIn::Token);
    let head = story.propose();
    let to = story.folder.path().join("clone");
    let address = format!("{}/{INFRA}.git", story.forge.url());
    let mut git = std::process::Command::new("git");
    git.env("GIT_TERMINAL_PROMPT", "0").env("GIT_CONFIG_GLOBAL", "/dev/null");
    git.args(["-c", &format!("http.extraHeader=Authorization: Bearer {TOKEN}"), "clone", "--quiet"]);
    git.args(["--branch", BRANCH, &address]).arg(&to);
    assert!(git.status().unwrap().success());
    let mut cloned = std::process::Command::new("git");
    let cloned = cloned.arg("-C").arg(&to).args(["rev-parse", "HEAD"]).output().unwrap();
    assert_eq!(String::from_utf8(cloned.stdout).unwrap().trim(), head);
}
