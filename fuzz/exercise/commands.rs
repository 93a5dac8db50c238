//! Any text as a comment: commands, a refusal or nothing, and what is shown of a command is that command.

use slicewright_core::review::command::{Parsed, parse};

const HANDLE: &str = "slicewright";

pub(crate) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let parsed = parse(&text, HANDLE);
    assert_eq!(parsed, parse(&text, HANDLE), "the same text says the same");
    if !text.to_ascii_lowercase().contains(HANDLE) {
        assert_eq!(parsed, Parsed::Nothing, "nobody spoke to the bot");
    }
    match parsed {
        Parsed::Nothing => {}
        Parsed::Refused(refusal) => assert!(!refusal.why.contains('\n'), "{refusal:?}"),
        Parsed::Commands(commands) => {
            assert!((1..=3).contains(&commands.len()));
            for command in commands {
                let again = parse(&format!("/slicewright {command}"), HANDLE);
                assert_eq!(again, Parsed::Commands(vec![command]));
            }
        }
    }
}
