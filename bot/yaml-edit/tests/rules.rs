//! Rules in small: what the cases leave open, appending and removing, refusals with their places.

use super::*;
use crate::{MAX_BYTES, Refusal, RefusalKind};

fn one(at: &[Step], op: Op) -> Edit {
    Edit { document: Document::default(), at: at.to_vec(), op, shared: Shared::Refuse }
}

/// `a.0.b` as steps.
fn path(at: &str) -> Vec<Step> {
    let step = |part: &str| part.parse::<usize>().map_or_else(|_| Step::from(part), Step::from);
    if at.is_empty() { Vec::new() } else { at.split('.').map(step).collect() }
}

fn refused(text: &str, at: &str, op: Op) -> Refusal {
    edit(text, &[one(&path(at), op)]).expect_err("a refusal")
}

#[track_caller]
fn check(text: &str, at: &str, op: Op, expected: &str) {
    assert_eq!(edit(text, &[one(&path(at), op)]).as_deref(), Ok(expected));
}

fn set(value: impl Into<Value>) -> Op {
    Op::Set { value: value.into() }
}

fn put(value: impl Into<Value>) -> Op {
    Op::Put { value: value.into() }
}

fn append(value: impl Into<Value>) -> Op {
    Op::Append { value: value.into() }
}

fn mapping(entries: &[(&str, &str)]) -> Value {
    Value::Mapping(entries.iter().map(|&(key, value)| (key.to_owned(), value.into())).collect())
}

#[test]
fn appends_below_the_last_entry_and_its_comments() {
    check(
        "a:\n  - x\n  # own\n\n# far\nb: 1\n",
        "a",
        append("z"),
        "a:\n  - x\n  # own\n  - z\n\n# far\nb: 1\n",
    );
}

#[test]
fn appends_above_a_comment_of_the_next_key() {
    check("a:\n- x\n# of b\nb: 1\n", "a", append("z"), "a:\n- x\n- z\n# of b\nb: 1\n");
}

#[test]
fn an_appended_mapping_takes_the_gap_of_the_last_dash() {
    let value = mapping(&[("k", "v"), ("l", "w")]);
    check("a:\n-   k: u\n", "a", append(value.clone()), "a:\n-   k: u\n-   k: v\n    l: w\n");
    check("a:\r\n  - k: u", "a", append(value), "a:\r\n  - k: u\r\n  - k: v\r\n    l: w");
}

#[test]
fn appends_to_flow_sequences_in_their_style() {
    check("a: [1]\n", "a", append("x"), "a: [1, x]\n");
    check("a: [ \"sh\", \"-c\" ]\n", "a", append("x"), "a: [ \"sh\", \"-c\", \"x\" ]\n");
    check("a: []\n", "a", append(mapping(&[("k", "v")])), "a: [{k: v}]\n");
    check("a: [\n  1,\n  2, # c\n]\n", "a", append(3), "a: [\n  1,\n  2, # c\n  3,\n]\n");
    check("{\"a\": []}", "a", append("x"), "{\"a\": [\"x\"]}");
}

#[test]
fn an_empty_value_becomes_a_sequence() {
    check("a:\n    b: # c\n    d: 1\n", "a.b", append("x"), "a:\n    b: # c\n        - x\n    d: 1\n");
    check("a: ~\n", "a", append("x"), "a:\n  - x\n");
}

#[test]
fn only_sequences_take_entries() {
    assert_eq!(refused("a: {}\n", "a", append("x")).kind, RefusalKind::NotAMapping);
    assert_eq!(refused("a: 1\n", "a", append("x")).kind, RefusalKind::NotAMapping);
    assert_eq!(refused("a: 1\n", "b", append("x")).kind, RefusalKind::PathNotFound);
    assert_eq!(refused("a: &a [1]\nb: *a\n", "b", append("x")).kind, RefusalKind::PathThroughAlias);
    assert_eq!(refused("a: &a [1]\nb: *a\n", "a", append("x")).kind, RefusalKind::SharedAnchor);
}

#[test]
fn a_removed_key_takes_its_own_lines_and_no_comments() {
    check(
        "a: 1\n# of b\nb: # c\n  c: |\n    t\n\n# of d\nd: 2\n",
        "b",
        Op::Remove,
        "a: 1\n# of b\n\n# of d\nd: 2\n",
    );
    check("a: 1\r\nb: 2", "b", Op::Remove, "a: 1");
    check("? a\n: 1\n? b # c\n: 2\n", "b", Op::Remove, "? a\n: 1\n");
}

#[test]
fn a_first_key_beside_a_dash_gives_its_place_to_the_next() {
    check("- a: 1\n  b: 2\n- c: 3\n", "0.a", Op::Remove, "- b: 2\n- c: 3\n");
    check("- a: 1 # x\n  # of b\n  b: 2\n", "0.a", Op::Remove, "-\n  # of b\n  b: 2\n");
    check("- - 1\n  - 2\n", "0.0", Op::Remove, "- - 2\n");
}

#[test]
fn removed_entries_of_sequences() {
    check("a:\n- x\n- y: 1\n  z: 2\n-\n- w\n", "a.1", Op::Remove, "a:\n- x\n-\n- w\n");
    check("a:\n- x\n-\n- w\n", "a.1", Op::Remove, "a:\n- x\n- w\n");
    check("a: [1, 2, 3]\n", "a.0", Op::Remove, "a: [2, 3]\n");
    check("a: [1, 2, 3]\n", "a.2", Op::Remove, "a: [1, 2]\n");
}

#[test]
fn removed_entries_of_flow_mappings_leave_the_commas_right() {
    check("{ a: 1, b: 2, }\n", "b", Op::Remove, "{ a: 1, }\n");
    check("{\n  a: 1, # x\n  b: 2\n}\n", "b", Op::Remove, "{\n  a: 1 # x\n}\n");
    check("{\n  a: 1, # x\n  b: 2\n}\n", "a", Op::Remove, "{\n  b: 2\n}\n");
    check("{\n  a: 1,\n  b: 2, # y\n}\n", "b", Op::Remove, "{\n  a: 1,\n}\n");
    check("{ a: 1,\n  b: 2 }\n", "b", Op::Remove, "{ a: 1 }\n");
}

#[test]
fn the_last_entry_leaves_an_empty_collection() {
    check("a:\n  # note\n  b: 1 # c\nd: 2\n", "a.b", Op::Remove, "a: {}\n  # note\nd: 2\n");
    check("a:\n- 1\n", "a.0", Op::Remove, "a: []\n");
    check("a: { b: 1 }\n", "a.b", Op::Remove, "a: {}\n");
}

#[test]
fn an_anchor_that_is_used_is_not_removed() {
    let text = "a:\n  b: &x 1\n  c: 2\nd: *x\n";
    assert_eq!(refused(text, "a.b", Op::Remove).kind, RefusalKind::SharedAnchor);
    let forced = Edit { shared: Shared::Edit, ..one(&path("a.b"), Op::Remove) };
    assert_eq!(edit(text, &[forced]).unwrap_err().kind, RefusalKind::ResultDiffers);
    check(text, "d", Op::Remove, "a:\n  b: &x 1\n  c: 2\n");
}

#[test]
fn an_alias_may_be_replaced_but_not_passed() {
    check("a: &x {b: 1}\nc: *x\n", "c", set(2), "a: &x {b: 1}\nc: 2\n");
    assert_eq!(refused("a: &x {b: 1}\nc: *x\n", "c.b", set(2)).kind, RefusalKind::PathThroughAlias);
}

#[test]
fn a_value_inside_an_alias_target_is_shared_all_the_way_up() {
    assert_eq!(refused("a: &x\n  b:\n    c: 1\nd: *x\n", "a.b.c", set(2)).kind, RefusalKind::SharedAnchor);
    assert_eq!(refused("a: &x\n  b:\n    c: 1\nd: *x\n", "a.b.e", put(2)).kind, RefusalKind::SharedAnchor);
    assert_eq!(refused("a:\n  b: &x 1\nd: *x\n", "a", set(2)).kind, RefusalKind::SharedAnchor);
}

#[test]
fn collections_replace_scalars_and_scalars_replace_collections() {
    check("a: 1 # c\nb: 2\n", "a", set(mapping(&[("k", "v")])), "a: # c\n  k: v\nb: 2\n");
    check("a: # c\n  k: v\n  # d\nb: 2\n", "a", set("x"), "a: x # c\n  # d\nb: 2\n");
    check("a:\n- 1\n- 2\n", "a", set(mapping(&[("k", "v")])), "a:\n  k: v\n");
    check("a:\n    k: v\n", "a", set(Value::Sequence(vec![1.into(), 2.into()])), "a:\n    - 1\n    - 2\n");
    check("a: {k: v}\n", "a", set(Value::Sequence(vec![1.into()])), "a: [1]\n");
    check("- k: v\n  l: w # c\n- 2\n", "0", set("x"), "- x # c\n- 2\n");
    check("- 1 # c\n", "0", set(mapping(&[("k", "v"), ("l", "w")])), "- k: v # c\n  l: w\n");
}

#[test]
fn block_scalars_keep_a_header_that_fits() {
    check("a: |2 # c\n   x\n", "a", set("y\nz\n"), "a: |2 # c\n  y\n  z\n");
    check("a: |+\n    x\n\n\nb: 1\n", "a", set("y\n\n"), "a: |+\n    y\n\nb: 1\n");
    check("a: |+\n    x\n\nb: 1\n", "a", set("y\nz"), "a: |-\n    y\n    z\nb: 1\n");
    check("a: >\n  x\n", "a", set("y\nz\n"), "a: >\n  y\n\n  z\n");
    check("a: |-\n", "a", set("y\nz"), "a: |-\n  y\n  z\n");
    check("a: |\n  x\n", "a", set("y\n\n"), "a: \"y\\n\\n\"\n");
    check("- |\n  x\n- 1\n", "0", set(mapping(&[("k", "v"), ("l", "w")])), "- k: v\n  l: w\n- 1\n");
}

#[test]
fn a_deep_comment_below_forces_double_quotes() {
    check("a: 1\n   # deep\nb: 2\n", "a", set("x\ny"), "a: \"x\\ny\"\n   # deep\nb: 2\n");
    check("a: 1\n  # deep\n", "a", set(7), "a: 7\n  # deep\n");
}

#[test]
fn a_file_without_a_last_line_break_cannot_end_in_a_block_scalar_that_has_one() {
    // Go's reader, and so Kubernetes, would lose the line break.
    check("a: 1", "a", set("x\ny\n"), "a: \"x\\ny\\n\"");
    check("a: 1", "b", put("x\ny"), "a: 1\nb: |-\n  x\n  y");
    let refusal = refused("a: |\n  x", "b", put(1));
    assert_eq!((refusal.kind, refusal.line), (RefusalKind::ResultDiffers, 2));
    check("a: |-\n  x", "b", put(1), "a: |-\n  x\nb: 1");
}

#[test]
fn quotes_stay_where_they_can() {
    check("a: 'x' # c\n", "a", set("it's"), "a: 'it''s' # c\n");
    check("a: 'x'\n", "a", set("l1\nl2"), "a: \"l1\\nl2\"\n");
    check("a: \"x\"\n", "a", set("é\u{1}"), "a: \"é\\u0001\"\n");
    check("a: \"x\"\n", "a", set(true), "a: true\n");
    check("'a': 1\n", "a", Op::RenameKey { to: "on".into() }, "'on': 1\n");
    check("a: 1\n", "a", Op::RenameKey { to: "on".into() }, "\"on\": 1\n");
}

#[test]
fn json_stays_json() {
    check("{\"a\":{\"b\":1}}", "a.b", set("x"), "{\"a\":{\"b\":\"x\"}}");
    check("{\"a\": null}", "a", put("x"), "{\"a\": \"x\"}");
    check("{\"a\": {}}", "a.b.c", put("x"), "{\"a\": {\"b\": {\"c\": \"x\"}}}");
    check("{\n  \"a\": {\n  }\n}\n", "a.b", put(1), "{\n  \"a\": {\n    \"b\": 1\n  }\n}\n");
}

#[test]
fn whole_documents_and_empty_ones() {
    check("---\n# c\n", "a.b", put(1), "---\na:\n  b: 1\n# c\n");
    check("--- 1\n", "", set("x"), "--- x\n");
    check("a: 1\nb: 2\n", "", set(mapping(&[("k", "v")])), "k: v\n");
    assert_eq!(refused("", "a", put(1)).kind, RefusalKind::PathNotFound);
    assert_eq!(refused("# c\n", "a", put(1)).kind, RefusalKind::PathNotFound);
}

#[test]
fn tags_that_no_longer_fit_are_refused() {
    assert_eq!(refused("a: !!int 1\n", "a", set("x")).kind, RefusalKind::ResultDiffers);
    check("a: !!str 1\n", "a", set("2"), "a: !!str \"2\"\n");
    check("a: !Ref x\n", "a", set("z"), "a: !Ref z\n");
}

#[test]
fn a_flow_entry_without_colon_gets_one() {
    check("{a, b: }\n", "a", set(1), "{a: 1, b: }\n");
    check("{a, b: }\n", "b.c", put(1), "{a, b: {c: 1} }\n");
}

#[test]
fn refusals_say_where() {
    let refusal = refused("a:\n  b: &x {c: 1}\nd: *x\n", "a.b.c", set(2));
    assert_eq!((refusal.line, refusal.column), (2, 9));
    assert_eq!(
        refusal.to_string(),
        "line 2, column 9: the anchor `&x` is used once more, which would change too"
    );
    let refusal = refused("é: 1\na:\n\tb: 1\n", "a.b", set(2));
    assert_eq!((refusal.kind, refusal.line), (RefusalKind::NotYaml, 3));
    let refusal = refused("a: 1\nb: {{ .x }}\n", "a", set(2));
    assert_eq!((refusal.kind, refusal.line, refusal.column), (RefusalKind::Template, 2, 4));
    let refusal = refused("a:\n- b: 1\n", "a.3.c", set(2));
    assert_eq!(refusal.message, "`a[3]` is not in the text");
    let refusal = refused("a:\n  b.c: 1\n  \"b.c\": 2\n", "a.x", put(2));
    assert_eq!(
        refusal.to_string(),
        "line 3, column 3: `a` has the key `b.c` twice, and readers disagree on which one counts"
    );
}

#[test]
fn positions_do_not_create_sequences() {
    assert_eq!(refused("a:\n", "a.0", put(1)).kind, RefusalKind::PathNotFound);
    assert_eq!(refused("a: [1]\n", "a.1", put(1)).kind, RefusalKind::PathNotFound);
    assert_eq!(refused("a: [1]\n", "a.b", put(1)).kind, RefusalKind::NotAMapping);
}

#[test]
fn too_large_too_deep_and_too_many_are_refused() {
    assert_eq!(edit(&"#".repeat(MAX_BYTES + 1), &[]).unwrap_err().kind, RefusalKind::NotYaml);
    assert_eq!(edit(&"[".repeat(100_000), &[]).unwrap_err().kind, RefusalKind::NotYaml);
    assert_eq!(
        edit(&format!("[{}]", "1,".repeat(crate::MAX_NODES)), &[]).unwrap_err().kind,
        RefusalKind::NotYaml
    );
    let deep = (0..=Value::MAX_DEPTH).fold(Value::Null, |inner, _| Value::Sequence(vec![inner]));
    assert_eq!(refused("a: 1\n", "a", set(deep)).kind, RefusalKind::ResultDiffers);
    let twice = mapping(&[("k", "v"), ("k", "w")]);
    assert_eq!(refused("a: 1\n", "a", set(twice)).kind, RefusalKind::ResultDiffers);
}

#[test]
fn nesting_up_to_the_limits_does_not_exhaust_the_stack() {
    let blocks: String = (0..250).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    let text = format!("{blocks}{}a: {}1{}\n", " ".repeat(250), "[".repeat(250), "]".repeat(250));
    let at = vec![Step::from("a"); 251];
    let changed = edit(&text, &[one(&at, set(2))]).unwrap();
    assert!(changed.ends_with("a: 2\n") || changed.ends_with("a:\n"), "{}", &changed[changed.len() - 20..]);
}
