//! The forge of the tests itself, judged by a client that is not ours.

use super::story::Story;
use crate::world::forge::hooks::{Hook, Schedule};
use crate::world::forge::state::{INFRA, KIM, ROBIN, TOKEN};
use crate::world::{checkout, python_tool};

#[test]
fn python_gitlab_takes_it_for_a_gitlab() {
    let story = Story::new();
    let maintainer = "forge-token-of-a-maintainer";
    {
        let mut state = story.forge.state();
        state.tokens.insert(maintainer.to_owned(), ROBIN);
        state.token_scopes = Some(vec!["api".to_owned()]);
        state.infra().hooks.push(Hook::new(1, "https://bot.example.com/hooks"));
        state.tell(1, "first", "push_hooks");
        state.infra().hooks[0].answers = 0;
        state.tell(1, "second", "note_hooks");
        let schedule = Schedule { name: "nightly".to_owned(), active: true, owner: Some(KIM) };
        state.infra().schedules.push(schedule);
    }
    let output = std::process::Command::new(python_tool("python"))
        .arg(checkout("tests/tools/drive_gitlab.py"))
        .args([&story.forge.url(), TOKEN, INFRA, maintainer])
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
    twice: 404 Award Emoji Name has already been taken Not Found
    notes 40
    roles [('robin', 40, 'active'), ('kim', 30, 'active'), ('alex', 20, 'active')]
    token ['api']
    upload ![judge](/uploads/66dbcd21ec5d24ed6ea225176098d52b/judge.png)
    schedules [('nightly', True, 'kim')]
    events [('second', 'internal error'), ('first', '200')]
    sent again {'response_status': 'internal error'}
    pushes ['created', 'pushed', 'removed']
    ");
}
