//! Comments as people write them, and as they should not be understood.

use proptest::prelude::*;

use super::*;

fn commands(comment: &str) -> Vec<Command> {
    match parse(comment, "slicewright") {
        Parsed::Commands(commands) => commands,
        other @ (Parsed::Nothing | Parsed::Refused(_)) => panic!("{comment}: {other:?}"),
    }
}

fn refusal(comment: &str) -> Refusal {
    match parse(comment, "slicewright") {
        Parsed::Refused(refusal) => refusal,
        other @ (Parsed::Nothing | Parsed::Commands(_)) => panic!("{comment}: {other:?}"),
    }
}

#[test]
fn every_example_is_understood_as_its_own_verb() {
    for spec in COMMANDS {
        for trigger in ["@slicewright", "/slicewright", "slicewright"] {
            let command = &commands(&format!("{trigger} {}", spec.example))[0];
            assert_eq!(command.spec().verb, spec.verb);
        }
        let names = std::iter::once(&spec.verb).chain(spec.aliases);
        for name in names {
            let alone = spec.example.split_once(' ').map_or("", |(_, rest)| rest);
            assert_eq!(commands(&format!("@slicewright {name} {alone}"))[0].spec().verb, spec.verb);
        }
    }
}

#[test]
fn several_commands_are_done_in_order_and_more_than_three_not_at_all() {
    let two = commands("Thanks!\n\n@slicewright status\n@slicewright why item=2\n\nWill look.");
    assert_eq!(two, [Command::Status, Command::Why(Some(Item::Number(2)))]);
    let four = "@slicewright status\n".repeat(4);
    assert!(refusal(&four).why.contains("more than 3"));
}

#[test]
fn one_line_that_cannot_be_meant_stops_the_whole_comment() {
    let refused = refusal("@slicewright pause\n@slicewright set headroom=lots");
    assert!(refused.why.contains("no percentage"), "{refused:?}");
    assert_eq!(refused.line, "@slicewright set headroom=lots");
    assert!(refusal("@slicewright pause now=yes").why.contains("takes nothing, and not `now`"));
    assert!(refusal("@slicewright regenerate discard-edits=no").why.contains("only `discard-edits=yes`"));
    assert!(refusal("@slicewright snooze").why.contains("say how long"));
    assert!(refusal("@slicewright snooze for=14d until=2026-12-24").why.contains("say how long"));
    assert!(refusal("@slicewright set").why.contains("say what to set"));
    assert!(refusal(&format!("@slicewright set a={}", "x".repeat(600))).line.ends_with('…'));
}

#[test]
fn a_mistyped_verb_gets_the_nearest_and_a_sentence_gets_silence() {
    assert_eq!(refusal("slicewright regenrate").nearest, Some("regenerate"));
    assert_eq!(refusal("@slicewright hlep").nearest, Some("help"));
    assert_eq!(refusal("@slicewright merge").nearest, None);
    for sentence in [
        "slicewright is great",
        "slicewright help would be nice",
        "slicewright said so",
        "@slicewright let me think about it",
        "slicewright merge",
        "I asked @slicewright status",
        "thanks @slicewright",
        "@slicewright",
    ] {
        assert_eq!(parse(sentence, "slicewright"), Parsed::Nothing, "{sentence}");
    }
}

/// What a reviewer of bots checks first: nobody's merge is a word away.
#[test]
fn what_the_forge_itself_guards_is_no_command() {
    for verb in ["merge", "approve", "close", "reopen", "squash", "ship", "lgtm"] {
        assert!(COMMANDS.iter().all(|spec| spec.verb != verb && !spec.aliases.contains(&verb)));
    }
}

#[test]
fn what_is_quoted_or_shown_is_not_done() {
    for comment in [
        "> @slicewright pause",
        "```\n@slicewright pause\n```",
        "`@slicewright pause`",
        "<!-- @slicewright pause -->",
        "<details>\n@slicewright pause\n</details>",
        "- @slicewright pause",
        "[@slicewright pause](https://example.com)",
        "\\@slicewright pause",
        "&#64;slicewright pause",
        "@slice\u{200b}wright pause",
    ] {
        assert_eq!(parse(comment, "slicewright"), Parsed::Nothing, "{comment}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_without_a_panic(text in "\\PC{0,400}", handle in "[a-z-]{1,20}") {
        let _ = parse(&text, &handle);
    }

    #[test]
    fn any_arguments_are_read_without_a_panic(text in "[ a-z=\"%/\\\\`<>@\n\t-]{0,200}") {
        for spec in COMMANDS {
            let _ = parse(&format!("@slicewright {} {text}", spec.verb), "slicewright");
        }
    }

    #[test]
    fn a_comment_that_does_not_name_the_bot_says_nothing(text in "[^sS@/]{0,300}") {
        prop_assert_eq!(parse(&text, "slicewright"), Parsed::Nothing);
    }
}

/// What is shown of a command is that command.
#[test]
fn a_command_that_is_shown_can_be_given_again() {
    for spec in COMMANDS {
        for line in [
            spec.example,
            "regenerate discard-edits=yes headroom=default",
            "snooze until=2026-12-24",
            "decline",
        ] {
            let Parsed::Commands(commands) = parse(&format!("slicewright {line}"), "slicewright") else {
                panic!("{line}");
            };
            let shown = commands[0].to_string();
            assert_eq!(
                parse(&format!("slicewright {shown}"), "slicewright"),
                Parsed::Commands(commands),
                "{shown}"
            );
        }
    }
}
