//! The forge of the tests itself, judged by a client that is not ours.

use super::{SignIn, Story};
use crate::world::forge::hooks::Hook;
use crate::world::forge::state::{BOT, INFRA, Role, TOKEN};
use crate::world::{checkout, python_tool};

#[test]
fn githubkit_takes_it_for_a_github() {
    let story = Story::new(SignIn::Token);
    {
        let mut state = story.state();
        state.infra().roles.insert(BOT, Role::Admin);
        state.infra().hooks.push(Hook::new(1, "https://bot.example.com/hooks"));
        state.tell(1, "first", "ping");
        state.infra().hooks[0].answers = 502;
        state.tell(1, "second", "issue_comment");
    }
    let output = std::process::Command::new(python_tool("python"))
        .arg(checkout("tests/tools/drive_github.py"))
        .args([&story.forge.url(), TOKEN, INFRA])
        .env("NO_PROXY", "127.0.0.1")
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    insta::assert_snapshot!(String::from_utf8_lossy(&output.stdout), @r"
    signed in as slicewright-bot
    default branch main
    nothing: Not Found
    tree 3 False
    branch exists: Something went wrong while executing your query.
    another: Validation Failed
    comments ['Said again']
    roles {'robin': ('write', 'maintain'), 'kim': ('write', 'write'), 'alex': ('read', 'read')}
    nobody: Not Found
    deliveries [('first', 'ping', 200, False), ('second', 'issue_comment', 502, False)]
    closed closed False
    labels ['gpu']
    ");
}
