//! YAML inside block scalars.

use super::*;
use crate::{Refusal, RefusalKind, edit_embedded};

fn run(text: &str, at: &[&str], edits: &[(&[&str], Op)]) -> Result<String, Refusal> {
    let steps = |keys: &[&str]| {
        keys.iter().map(|&key| key.parse::<usize>().map_or_else(|_| key.into(), Step::from)).collect()
    };
    let edits: Vec<Edit> = edits
        .iter()
        .map(|(at, op)| Edit {
            document: Document::default(),
            at: steps(at),
            op: op.clone(),
            shared: Shared::Refuse,
        })
        .collect();
    let at: Vec<Step> = steps(at);
    edit_embedded(text, &Document::default(), &at, &edits)
}

const CONFIG: &str = "kind: ConfigMap\ndata:\n  config.yaml: |   # mig-parted\n    version: v1\n    mig-configs:\n\n      all-1g:   # one each\n      - devices: all\n        mig-devices: {1g.5gb: 7}\n  # below\n  other: x\n";

#[test]
fn changes_only_the_bytes_of_the_inner_edit() {
    let set = Op::Set { value: 3.into() };
    let rename = Op::RenameKey { to: "2g.10gb".into() };
    let at: &[&str] = &["mig-configs", "all-1g", "0", "mig-devices", "1g.5gb"];
    let got = run(CONFIG, &["data", "config.yaml"], &[(at, set), (at, rename)]).unwrap();
    assert_eq!(got, CONFIG.replace("1g.5gb: 7", "2g.10gb: 3"));
}

#[test]
fn added_lines_take_the_indentation_of_the_scalar() {
    let value = Value::Sequence(vec![Value::Mapping(vec![
        ("devices".into(), "all".into()),
        ("mig-enabled".into(), false.into()),
    ])]);
    let got = run(CONFIG, &["data", "config.yaml"], &[(&["mig-configs", "off"], Op::Put { value })]).unwrap();
    let added = "7}\n      \"off\":\n        - devices: all\n          mig-enabled: false\n";
    assert_eq!(got, CONFIG.replace("7}\n", added));
    let back = run(&got, &["data", "config.yaml"], &[(&["mig-configs", "off"], Op::Remove)]).unwrap();
    assert_eq!(back, CONFIG);
}

#[test]
fn works_with_crlf_open_ends_and_short_blank_lines() {
    let crlf = CONFIG.replace('\n', "\r\n");
    let put = || Op::Put { value: "v".into() };
    let got = run(&crlf, &["data", "config.yaml"], &[(&["k"], put())]).unwrap();
    assert_eq!(got, crlf.replace("7}\r\n", "7}\r\n    k: v\r\n"));
    assert_eq!(
        run("a: |\n  b: 1\n \n  c: 2", &["a"], &[(&["k"], put())]).unwrap(),
        "a: |\n  b: 1\n \n  c: 2\n  k: v"
    );
    assert_eq!(
        run("a: |-\n  b: 1\n \n\nd: 2\n", &["a"], &[(&["k"], put())]).unwrap(),
        "a: |-\n  b: 1\n  k: v\n \n\nd: 2\n"
    );
    assert_eq!(
        run("a: |+\n  b: 1\n\nd: 2\n", &["a"], &[(&["b"], Op::Set { value: 2.into() })]).unwrap(),
        "a: |+\n  b: 2\n\nd: 2\n"
    );
}

#[test]
fn removes_first_and_last_lines() {
    assert_eq!(run("a: |\n  b: 1\n  c: 2\n", &["a"], &[(&["b"], Op::Remove)]).unwrap(), "a: |\n  c: 2\n");
    assert_eq!(
        run("a: |\n  b: 1\n  c: 2\nd: 3\n", &["a"], &[(&["c"], Op::Remove)]).unwrap(),
        "a: |\n  b: 1\nd: 3\n"
    );
    assert_eq!(
        run("a: |\n  - b: 1\n    c: 2\n", &["a"], &[(&["0", "b"], Op::Remove)]).unwrap(),
        "a: |\n  - c: 2\n"
    );
    assert_eq!(run("a: |\n  b: 1", &["a"], &[(&["b"], Op::Remove)]).unwrap(), "a: |\n  {}");
}

#[test]
fn block_scalars_nest() {
    let text = "a: |\n  b: |2\n     c\n  d: 1\n";
    let op = Op::Set { value: "x\n\ny\n".into() };
    assert_eq!(run(text, &["a"], &[(&["b"], op)]).unwrap(), "a: |\n  b: |2\n    x\n\n    y\n  d: 1\n");
}

#[test]
fn only_literal_block_scalars_are_entered() {
    let put = || [(&["k"] as &[&str], Op::Put { value: 1.into() })];
    for text in
        ["a: >\n  b: 1\n", "a: 'b: 1'\n", "a: \"b: 1\\n\"\n", "a: b\n", "a: {b: 1}\n", "a: |\n", "a:\n"]
    {
        assert_eq!(run(text, &["a"], &put()).unwrap_err().kind, RefusalKind::NotAMapping, "{text}");
    }
    assert_eq!(run("a: 1\n", &["b"], &put()).unwrap_err().kind, RefusalKind::PathNotFound);
    assert_eq!(
        run("a: &x |\n  b: 1\nc: *x\n", &["c"], &put()).unwrap_err().kind,
        RefusalKind::PathThroughAlias
    );
    assert_eq!(run("a: &x |\n  b: 1\nc: *x\n", &["a"], &put()).unwrap_err().kind, RefusalKind::SharedAnchor);
}

#[test]
fn refusals_point_into_the_whole_text() {
    let refusal = run(CONFIG, &["data", "config.yaml"], &[(&["version", "x"], Op::Put { value: 1.into() })])
        .unwrap_err();
    assert_eq!((refusal.kind, refusal.line, refusal.column), (RefusalKind::NotAMapping, 4, 14));
    let refusal = run("a: |\n  b: 1\n  c: {{ x }}\n", &["a"], &[(&["b"], Op::Remove)]).unwrap_err();
    assert_eq!((refusal.kind, refusal.line, refusal.column), (RefusalKind::Template, 3, 6));
}
