//! Reading: raw texts, aliases and merge keys, places.

use super::*;
use crate::{Via, read};

#[test]
fn texts_are_raw() {
    let stream = read("a: on\nb: 0755\nc: 'x'\nd: ~\ne:\nf: \"~\"\ng: |\n  t\nh: !!str null\n").unwrap();
    let root = stream.document(0).unwrap();
    let text = |key: &str| root.get(key).and_then(|node| node.as_str());
    assert_eq!(
        (text("a"), text("b"), text("c"), text("f")),
        (Some("on"), Some("0755"), Some("x"), Some("~"))
    );
    assert_eq!((text("d"), text("e"), text("g"), text("h")), (None, None, Some("t\n"), Some("null")));
    assert!(root.get("e").unwrap().is_null() && root.get("a").unwrap().is_plain());
    assert!(!root.get("c").unwrap().is_plain() && root.get("g").unwrap().is_literal());
}

#[test]
fn every_document_counts() {
    let stream = read("---\n--- # x\na: 1\n---\n").unwrap();
    let kinds: Vec<(bool, bool)> =
        stream.documents().map(|root| (root.is_null(), root.is_mapping())).collect();
    assert_eq!(kinds, [(true, false), (false, true), (true, false)]);
    assert_eq!(read("# only\n").unwrap().documents().len(), 0);
}

#[test]
fn aliases_and_merge_keys_are_followed_and_told() {
    let text = "d: &d {x: 1, y: {z: 2}}\ne: &e {x: 9, w: 3}\np:\n  <<: [*d, *e]\n  y: own\nq: *d\n";
    let stream = read(text).unwrap();
    let root = stream.document(0).unwrap();
    let pool = root.get("p").unwrap();
    assert_eq!(pool.get("x").unwrap().as_str(), Some("1"));
    assert_eq!(pool.get("x").unwrap().via(), Via { alias: true, merge: true, shared: true });
    assert_eq!(pool.get("w").unwrap().as_str(), Some("3"));
    assert_eq!(pool.get("y").unwrap().via(), Via::default());
    let keys: Vec<&str> = pool.entries().iter().map(|entry| entry.0).collect();
    assert_eq!(keys, ["y", "x", "w"]);
    let z = root.at(&["q".into(), "y".into(), "z".into()]).unwrap();
    assert_eq!((z.as_str(), z.via().alias, z.via().merge), (Some("2"), true, false));
    assert!(root.get("d").unwrap().via().shared && !root.get("p").unwrap().via().shared);
}

#[test]
fn merge_keys_in_a_ring_end() {
    let stream = read("a: &a\n  <<: *a\n  b: 1\nc: &c\n  d: &d\n    <<: [*c, *d, *a]\n").unwrap();
    let root = stream.document(0).unwrap();
    assert!(root.get("a").unwrap().get("x").is_none());
    let ring = root.at(&["c".into(), "d".into()]).unwrap();
    assert_eq!(ring.get("b").and_then(|node| node.as_str()), Some("1"));
    assert_eq!(ring.entries().len(), 2);
}

#[test]
fn merge_keys_do_not_multiply_work() {
    let mut text = String::from("a0: &a0 {x: 1}\n");
    for level in 1..60 {
        let below = format!("*a{}", level - 1);
        text.push_str(&format!("a{level}: &a{level} {{<<: [{}]}}\n", vec![below; 10].join(", ")));
    }
    let stream = read(&text).unwrap();
    let top = stream.document(0).unwrap().get("a59").unwrap();
    assert_eq!(top.get("x").and_then(|node| node.as_str()), Some("1"));
    assert!(top.get("y").is_none());
    assert_eq!(top.entries().len(), 1);
}

#[test]
fn places_are_those_of_the_value() {
    let text = "\u{feff}é: &x 'v' # c\nlist:\n- - 1\n- k: |2\n    t\n";
    let stream = read(text).unwrap();
    let root = stream.document(0).unwrap();
    let value = root.get("é").unwrap();
    assert_eq!((&text[value.span()], value.line(), value.column(), value.anchor()), ("'v'", 1, 7, Some("x")));
    let list = root.get("list").unwrap();
    assert_eq!((&text[list.span()], list.line(), list.column()), ("- - 1\n- k: |2\n    t", 3, 1));
    assert_eq!(&text[list.item(1).unwrap().get("k").unwrap().span()], "|2\n    t");
}

#[test]
fn a_key_that_stands_twice_is_told() {
    let stream = read("a: 1\n\"a\": 2\n").unwrap();
    let root = stream.document(0).unwrap();
    assert!(root.has_duplicate_key());
    assert_eq!(root.get("a").and_then(|node| node.as_str()), Some("2"));
    assert_eq!(root.entries().len(), 1);
}

/// A release build takes 0.2 s alone; the bounds leave room for a busy machine and still catch quadratic work.
#[test]
fn a_megabyte_is_edited_in_linear_time() {
    let one = "---\nkind: Deployment\nmetadata: {name: w, labels: {app: w}}\nspec:\n  containers:\n  - name: c # comment\n    resources:\n      limits: {nvidia.com/gpu: 1}\n";
    let text = one.repeat(1_000_000 / one.len());
    let last = text.matches("---").count() - 1;
    let one = Edit {
        document: Document::Index(last),
        at: ["spec", "containers"]
            .map(Step::from)
            .into_iter()
            .chain([0.into(), "resources".into(), "limits".into(), "nvidia.com/gpu".into()])
            .collect(),
        op: Op::RenameKey { to: "nvidia.com/mig-1g.5gb".into() },
        shared: Shared::Refuse,
    };
    let start = std::time::Instant::now();
    let changed = edit(&text, &[one]).unwrap();
    let took = start.elapsed();
    assert_eq!(changed.len(), text.len() + "mig-1g.5gb".len() - "gpu".len());
    let limit_ms = if cfg!(debug_assertions) { 30_000 } else { 5_000 };
    assert!(took.as_millis() < limit_ms, "{took:?}");
}
