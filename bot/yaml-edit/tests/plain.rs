//! What is read line by line is what the whole parser reads.

use proptest::prelude::*;

use crate::plain;
use crate::tree::Stream;

/// Whether a text is read line by line; then it must be as the parser has it.
fn is_plain(text: &str) -> Result<bool, TestCaseError> {
    if plain::read(text).is_none() {
        return Ok(false);
    }
    let (quick, whole) = (Stream::parse(text.to_owned()), Stream::parse_all(text.to_owned()));
    prop_assert!(whole.is_ok(), "{:?} is no YAML: {:?}", text, whole.err());
    prop_assert_eq!(format!("{:#?}", quick.unwrap()), format!("{:#?}", whole.unwrap()), "{:?}", text);
    Ok(true)
}

fn files(folder: &std::path::Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|end| end == "yaml" || end == "yml") {
            found.extend(std::fs::read_to_string(&path));
        }
    }
}

#[test]
fn manifests_are_read_line_by_line_to_the_same_tree() {
    let mut texts = Vec::new();
    for folder in ["tests/cases", "demo", "config"] {
        files(&super::folder().join("../../..").join(folder), &mut texts);
    }
    let n_plain = texts.iter().filter(|text| is_plain(text).unwrap()).count();
    // The cases are odd on purpose, so that the share says that the quick way is alive, and no more.
    assert!(n_plain * 3 > texts.len(), "{n_plain} of {} files", texts.len());
}

#[test]
fn what_is_not_understood_at_once_is_left_to_the_parser() {
    for text in [
        "",
        "# c\n",
        "---\n",
        "a\n",
        "a:\n",
        "a: b\n  c\n",
        "a: [b]\n",
        "a: &x b\n",
        "a: *x\n",
        "a: \"\\n\"\n",
        "a: 'it''s'\n",
        "a:\tb\n",
        "a: b\r\n",
        "- - a\n",
        "-\n  a: b\n",
        "a: b: c\n",
        "a: {{ .x }}\n",
        "a: |\n",
        "a: |\n  b",
        "? a\n: b\n",
        "a: b\n...\n",
        "a: !t b\n",
        "a: |2\n   b\n",
        "a: >\n  b\n",
        "<<: a\n",
        "a: 'b\n  c'\n",
        "\u{feff}a: b\n",
        "a: b\n---\n",
    ] {
        assert!(!is_plain(text).unwrap(), "{text:?}");
    }
}

fn lines() -> impl Strategy<Value = String> {
    const PARTS: &[&str] = &[
        "a:",
        "a: b",
        "- a",
        "- a: b",
        "- a:",
        "b: |",
        "b: |-",
        "- |",
        "- |-",
        "# c",
        "",
        "  ",
        "---",
        "a: {}",
        "a: []",
        "a: \"x\" # c",
        "a: 'y' ",
        "text",
        "more text",
        "- - a",
        "-",
        "- # c",
        "a: b # c",
        "a: b#c",
        "a: -",
        "a: - b",
        "...",
        "é: ü",
        "a: é # ö",
        "a : b",
        "a:b",
        ": a",
        "a: ~",
        "a: :80",
        "a: b: c",
        "- \"x\": y",
        "'a': b",
        "a: --b",
        "- --b",
        "a: -1",
        "a: -",
        "a: 1 2",
        "a: 'x'#c",
        "a:  b  ",
        "-   a:   b",
        "a: (b)",
        "a: $(b)",
        "a: b,c]}",
        "a: b:",
        "a.b/c-d_e: f",
        "1: 2",
        "\"#\"",
        "- '# x'",
        "a: |  ",
        "a: | # c",
        "a: {} # c",
        "a: []x",
        "--- a",
        "---  ",
        "%a",
        "a: #c",
        "a:# c",
        "-a: b",
        "a: \u{1f600}",
        "a: ？",
        "a: x\u{3000}",
        "a: \u{301}",
        "a: '\u{fe0f}'",
        "- a: |",
        "- a: |-",
        "a: =b",
        "- =",
        "a: .",
        "a: ...",
        "a: ---",
        "- ---",
        "a: +1",
        "a: /b",
        "_: a",
    ];
    let line =
        (0_usize..7, prop::sample::select(PARTS)).prop_map(|(n, part)| format!("{}{part}\n", " ".repeat(n)));
    (prop::collection::vec(line, 1..9), any::<bool>()).prop_map(|(lines, end)| {
        let text = lines.concat();
        if end { text } else { text.trim_end_matches('\n').to_owned() }
    })
}

/// As [`lines`], and most of it well-formed: columns follow from the line before.
fn nested() -> impl Strategy<Value = String> {
    const PARTS: &[&str] = &[
        "a:",
        "a: b",
        "- a",
        "- a: b",
        "- a:",
        "b: |",
        "- |-",
        "# c",
        "",
        "a: {}",
        "a: \"x\" # c",
        "text",
        "---",
    ];
    let line =
        (prop::sample::select(&[0_usize, 0, 0, 2, 2, 2, 1, 4][..]), 0_usize..4, prop::sample::select(PARTS));
    prop::collection::vec(line, 1..14).prop_map(|lines| {
        let mut column = 0_usize;
        let mut text = String::new();
        for (more, back, part) in lines {
            column = if part == "---" { 0 } else { (column + more).saturating_sub(2 * (back / 3)) };
            text.push_str(&format!("{}{part}\n", " ".repeat(column)));
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn lines_are_read_as_the_parser_reads_them(text in lines(), other in nested()) {
        is_plain(&text)?;
        is_plain(&other)?;
    }

    #[test]
    fn any_characters_are_read_as_the_parser_reads_them(text in "a: [^\"'|>&*!?@`%\\[\\]{}]{0,6}\n(# .{0,4}\n)?b: '[^'\n]{0,3}'\n") {
        is_plain(&text)?;
    }
}
