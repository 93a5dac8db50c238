//! The forge of the tests itself, judged by a client that is not ours.

use super::{SignIn, Story};
use crate::world::forge::state::{INFRA, TOKEN};
use crate::world::{checkout, python_tool};

#[test]
fn githubkit_takes_it_for_a_github() {
    let story = Story::new(SignIn::Token);
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
    closed closed False
    labels ['gpu']
    ");
}
