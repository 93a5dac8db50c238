//! The forge of the tests itself, judged by a client that is not ours.

use super::story::Story;
use crate::world::forge::state::{INFRA, TOKEN};
use crate::world::{checkout, python_tool};

#[test]
fn python_gitlab_takes_it_for_a_gitlab() {
    let story = Story::new();
    let output = std::process::Command::new(python_tool("python"))
        .arg(checkout("tests/tools/drive_gitlab.py"))
        .args([&story.forge.url(), TOKEN, INFRA])
        .env("NO_PROXY", "127.0.0.1")
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    insta::assert_snapshot!(String::from_utf8_lossy(&output.stdout), @r"
    signed in as slicewright[bot]
    users ['kim']
    default branch main
    tree 4
    branch exists: A branch called
    branches ['main', 'slicewright/judge/one']
    another: ['Another open merge request already exists for this source branch: !1']
    notes 40
    pushes ['created', 'pushed', 'removed']
    ");
}
