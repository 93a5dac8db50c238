//! What must hold for any text and any edit.

use std::rc::Rc;

use proptest::prelude::*;

use super::*;

use crate::tree::{Id, Kind, Stream};
use crate::{Refusal, RefusalKind, edit_embedded, read};

/// Every path of every document, each with its node.
fn paths(stream: &Stream) -> Vec<(usize, Vec<Step>, Id)> {
    fn below(
        stream: &Stream,
        document: usize,
        at: &mut Vec<Step>,
        id: Id,
        found: &mut Vec<(usize, Vec<Step>, Id)>,
    ) {
        found.push((document, at.clone(), id));
        match &stream.slot(id).kind {
            Kind::Sequence { items, .. } => {
                for (position, &item) in items.iter().enumerate() {
                    at.push(position.into());
                    below(stream, document, at, item, found);
                    at.pop();
                }
            }
            Kind::Mapping { entries, .. } => {
                for &(key, value) in entries {
                    if let Some(key) = stream.key_text(key) {
                        at.push(key.into());
                        below(stream, document, at, value, found);
                        at.pop();
                    }
                }
            }
            Kind::Scalar { .. } | Kind::Alias(_) => {}
        }
    }
    let mut found = Vec::new();
    for (document, root) in stream.roots.iter().enumerate() {
        below(stream, document, &mut Vec::new(), root.node, &mut found);
    }
    found
}

fn values() -> Vec<Value> {
    let nested = Value::Mapping(vec![
        ("limits".into(), Value::Mapping(vec![("nvidia.com/gpu".into(), 1.into())])),
        (
            "on".into(),
            Value::Sequence(vec![
                "a".into(),
                Value::Mapping(vec![("x".into(), "l1\nl2\n".into()), ("y".into(), Value::Null)]),
            ]),
        ),
    ]);
    vec![
        Value::Null,
        true.into(),
        (-7).into(),
        Value::Float(1.5e10),
        "word".into(),
        "two words: no".into(),
        "0755".into(),
        "".into(),
        "a, b".into(),
        "{{ .x }}".into(),
        "one\ntwo".into(),
        "one\n\ntwo\n".into(),
        " lead\ntail\n".into(),
        "many\n\n\n".into(),
        "\n".into(),
        "tab\there\u{7}".into(),
        Value::Mapping(vec![]),
        Value::Sequence(vec![]),
        nested.clone(),
        Value::Sequence(vec![1.into(), nested, Value::Sequence(vec!["q".into(), Value::Sequence(vec![])])]),
    ]
}

fn ops() -> Vec<Op> {
    let mut ops: Vec<Op> = values()
        .into_iter()
        .flat_map(|value| [Op::Set { value: value.clone() }, Op::Append { value }])
        .collect();
    ops.push(Op::Remove);
    ops.extend(["renamed", "on", "a: b", "x\ny", ""].map(|to| Op::RenameKey { to: to.into() }));
    ops
}

/// Texts whose shapes the cases do not have.
const ODD: &[&str] = &[
    "- - - a\n  - b\n-\n- \n- # c\n- ~ # d\n-   k: v\n    l: # e\n      - 1\n",
    "k:\n- - z\n- y: 1\n  z:\n  - 2\n# below\nl:\n  - a\n  # own\n\nm: &x !!map\n  # cc\n  n: 1\n  # tail\n",
    "? a\n? b # c\n: d\n? - k1\n: - k2\n? |\n  foo\n: bar\n? e: f\n: g: h\n",
    "[a: 1, ? b, \"c\": , {x: &x 1}: y, [], {}, [ ], { }, *x]\n",
    "{a: &x 1, b, c: , \"d\":2, ? e : f, g: {h: [1,2, 3 ,]},}\n",
    "{\n  # only a comment\n}\n",
    "a: {\n  b: 1, c: 2, # three\n  d: [\n    1,\n    # four\n    2 ],\n  e: { f: 1,\n g: 2, }\n}\nh: [\n]\n",
    "a: |\n\n  x\n # c\n\n# d\nb: |-\nc: |+\n\n\nd: >2-\n    two\n   one\ne: >+\n  k\n\nf: |  # c\n\ng: |1\n  a\n\n   \nh:\n  |\n  own\ni:\n  plain\n  more\n",
    "---\n---\n# c\n--- # d\n...\n--- a\n--- |\n x\n--- [1]\n---\n&r !!map\nk: 1\n",
    "\u{feff}k: v\n# c\n",
    "\u{feff}- 1\n-\n  - 2\n",
    "&a a: *a\n*a : b\nc: &c\n  &k d: *c\n<<: *c\n<<: [*c, {e: f}]\n",
    "a: \"x\n  y\" # c\nb: 'it''s'\n\"c\" : d # e\n'f': !t g\nh: !!str\ni: &y\nj: &z ~\nk: *z",
    "a:\r  b: 1\r  c: [1]\rd: |\r  t\r",
    "plain\n",
    "a: x\n   y\n   # c\nb:\n    c:\n            d: 1\n    e:\n            - f\n",
    "x: 1\n  \n\t\n   # deep\n",
    "a:   # c\n  # d\n\n  b: 1\n  # e\n\n# f\n",
    "a:\n  - b: |\n      t\n\n  - c: >-\n      u\n    # x\n    d: |+\n      v\n\n\n  - e\n",
    "%YAML 1.2\n---\na: 1\n...\n# end\n",
    "",
    "# only\n",
];

/// Data alone: what a model-based editor would work on. Every scalar is its text; aliases are left out.
fn data(node: crate::Node<'_>, depth: usize) -> Value {
    if depth > 60 || node.via().alias {
        return Value::Null;
    }
    if node.is_mapping() {
        let entries = node.entries().into_iter();
        Value::Mapping(entries.map(|(key, value)| (key.to_owned(), data(value, depth + 1))).collect())
    } else if node.is_sequence() {
        Value::Sequence(node.items().map(|item| data(item, depth + 1)).collect())
    } else {
        node.as_str().map_or(Value::Null, Value::from)
    }
}

/// A value as `data` shows it after it was written.
fn as_read(value: &Value) -> Value {
    match value {
        Value::Null => Value::Null,
        Value::Bool(_) | Value::Integer(_) | Value::Float(_) => {
            Value::String(crate::render::flow(value, false))
        }
        Value::String(text) => Value::String(text.clone()),
        Value::Sequence(items) => Value::Sequence(items.iter().map(as_read).collect()),
        Value::Mapping(entries) => {
            Value::Mapping(entries.iter().map(|(key, value)| (key.clone(), as_read(value))).collect())
        }
    }
}

/// The place of a model that a path names.
fn place<'v>(model: &'v mut Value, at: &[Step]) -> Option<&'v mut Value> {
    at.iter().try_fold(model, |here, step| match (here, step) {
        (Value::Mapping(entries), Step::Key(key)) => {
            entries.iter_mut().find(|(name, _)| name == key).map(|(_, value)| value)
        }
        (Value::Sequence(items), Step::Position(position)) => items.get_mut(*position),
        _ => None,
    })
}

/// What the edit does to a model.
fn apply_to_model(model: &mut Value, at: &[Step], op: &Op) -> Option<()> {
    let (last, way) = at.split_last()?;
    match (op, last) {
        (Op::Set { value }, _) => *place(model, at)? = as_read(value),
        (Op::Append { value }, _) => match place(model, at)? {
            Value::Sequence(items) => items.push(as_read(value)),
            null => *null = Value::Sequence(vec![as_read(value)]),
        },
        (Op::Put { value }, Step::Key(key)) => {
            if !way.is_empty() && place(model, way).is_none() {
                return None;
            }
            match place(model, way)? {
                Value::Mapping(entries) => match entries.iter_mut().find(|(name, _)| name == key) {
                    Some((_, old)) => *old = as_read(value),
                    None => entries.push((key.clone(), as_read(value))),
                },
                null => *null = Value::Mapping(vec![(key.clone(), as_read(value))]),
            }
        }
        (Op::RenameKey { to }, Step::Key(key)) => match place(model, way)? {
            Value::Mapping(entries) => entries.iter_mut().find(|(name, _)| name == key)?.0.clone_from(to),
            _ => return None,
        },
        (Op::Remove, step) => match (place(model, way)?, step) {
            (Value::Mapping(entries), Step::Key(key)) => entries.retain(|(name, _)| name != key),
            (Value::Sequence(items), Step::Position(position)) => drop(items.remove(*position)),
            _ => return None,
        },
        _ => return None,
    }
    Some(())
}

/// The inputs of the cases and the odd texts, with LF and CRLF, with and without a break at the end.
fn corpus() -> Vec<(String, String)> {
    let mut texts: Vec<(String, String)> =
        cases(&folder()).into_iter().map(|case| (case.name, case.input)).collect();
    texts.extend(ODD.iter().enumerate().map(|(n, text)| (format!("odd text {n}"), (*text).to_owned())));
    let mut all = Vec::new();
    for (name, text) in texts {
        let crlf = text.replace("\r\n", "\n").replace('\n', "\r\n");
        let open = text.trim_end_matches(['\n', '\r']).to_owned();
        all.push((format!("{name} with CRLF"), crlf));
        all.push((format!("{name} without break"), open));
        all.push((name, text));
    }
    all
}

/// A place of some text, and the edits that are tried there.
fn all_edits() -> Vec<(Rc<str>, Rc<str>, Edit)> {
    let (ops, values) = (ops(), values());
    let mut all = Vec::new();
    for (name, text) in corpus() {
        let (name, text): (Rc<str>, Rc<str>) = (name.into(), text.into());
        let Ok(stream) = read(&text) else { continue };
        for (document, at, _) in paths(&stream) {
            let here = ops.iter().map(|op| (at.clone(), op.clone()));
            let new = values.iter().flat_map(|value| {
                ["new", "ne w: "].map(|key| {
                    let path: Vec<Step> = at.iter().cloned().chain([Step::from(key)]).collect();
                    (path, Op::Put { value: value.clone() })
                })
            });
            all.extend(here.chain(new).map(|(at, op)| {
                let edit = Edit { document: Document::Index(document), at, op, shared: Shared::Refuse };
                (name.clone(), text.clone(), edit)
            }));
        }
    }
    all
}

/// Refusals that the editor may give although the edit makes sense: it says that it cannot write there.
fn is_known_limit(refusal: &Refusal) -> bool {
    [
        "the tag",
        "an empty value without",
        "a key that is a block scalar",
        "a mapping without braces",
        "the text ends in a block scalar",
    ]
    .iter()
    .any(|start| refusal.message.starts_with(start))
}

#[path = "../../../fuzz/exercise/yaml_edit.rs"]
mod exercise;

#[test]
fn the_fuzz_target_holds_on_its_corpus() {
    for (_, text) in corpus().into_iter().skip(2).step_by(3) {
        exercise::run(text.as_bytes());
    }
}

#[test]
fn odd_texts_parse() {
    for text in ODD {
        Stream::parse((*text).to_owned()).unwrap_or_else(|refusal| panic!("{text:?}: {refusal}"));
    }
}

#[test]
fn every_place_takes_every_edit() {
    let mut failures = Vec::new();
    // A prime step, so that every text, place and value has its turn; all 200,000 take a minute in a release build.
    for (name, text, edit_here) in all_edits().into_iter().step_by(53) {
        let shown = || format!("{name} {:?} {:?}", edit_here.at, edit_here.op);
        let Document::Index(document) = edit_here.document else { continue };
        match edit(&text, std::slice::from_ref(&edit_here)) {
            Ok(changed) => {
                let pure_crlf = |text: &str| !text.replace("\r\n", "").contains(['\n', '\r']);
                if text.contains("\r\n") && pure_crlf(&text) && !pure_crlf(&changed) {
                    failures.push(format!("{}: a line ends without CRLF", shown()));
                }
                let has_break = |text: &str| text.ends_with(['\n', '\r']);
                // A blank line before a last line that goes stays as it is.
                let may_end_so = edit_here.at.is_empty() || edit_here.op == Op::Remove;
                if !may_end_so && has_break(&changed) && !has_break(&text) {
                    failures.push(format!("{}: a break was added at the end", shown()));
                }
                let is_json =
                    |text: &str| serde_json::from_str::<serde_json::Map<String, Json>>(text).is_ok();
                if !edit_here.at.is_empty() && is_json(&text) && !is_json(&changed) {
                    failures.push(format!("{}: no JSON any more\n{changed}", shown()));
                }
                let (before, after) = (read(&text).unwrap(), read(&changed).unwrap());
                let mut model = data(before.document(document).unwrap(), 0);
                let got = data(after.document(document).unwrap(), 0);
                // Keys that are collections are not in the model.
                let is_modelled = apply_to_model(&mut model, &edit_here.at, &edit_here.op).is_some();
                let has_aliases = !before.anchors.is_empty();
                if is_modelled && !has_aliases && model != got {
                    failures.push(format!("{}: {model:?} became {got:?}", shown()));
                }
            }
            Err(refusal) if refusal.kind == RefusalKind::ResultDiffers && !is_known_limit(&refusal) => {
                // Blank lines are content after `|+`, so that what follows cannot always go.
                if !(matches!(edit_here.op, Op::Remove) && text.contains(['+'])) {
                    failures.push(format!("{}: {refusal}", shown()));
                }
            }
            Err(_) => {}
        }
    }
    assert!(
        failures.is_empty(),
        "{} failures, among them\n{}",
        failures.len(),
        failures[..failures.len().min(20)].join("\n")
    );
}

#[test]
fn an_added_key_is_removed_without_a_trace() {
    let mut n_tried = 0;
    for (name, text) in corpus() {
        let Ok(stream) = Stream::parse(text.clone()) else { continue };
        for (document, at, id) in paths(&stream) {
            // A trailing comma goes with the entry that it follows, and an empty collection is written anew.
            let is_open =
                matches!(&stream.slot(id).kind, Kind::Mapping { entries, .. } if !entries.is_empty());
            if !is_open {
                continue;
            }
            for value in values().into_iter().skip(n_tried % 7).step_by(7) {
                let at: Vec<Step> = at.iter().cloned().chain([Step::from("new")]).collect();
                let one = |op| Edit {
                    document: Document::Index(document),
                    at: at.clone(),
                    op,
                    shared: Shared::Edit,
                };
                let Ok(added) = edit(&text, &[one(Op::Put { value: value.clone() })]) else { continue };
                let back = edit(&added, &[one(Op::Remove)]);
                n_tried += 1;
                assert_eq!(back.as_deref(), Ok(text.as_str()), "{name} {at:?} {value:?} by way of\n{added}");
            }
        }
    }
    assert!(n_tried > 1_000, "{n_tried}");
}

#[test]
fn a_renamed_key_is_renamed_back_without_a_trace() {
    for (name, text) in corpus() {
        let Ok(stream) = Stream::parse(text.clone()) else { continue };
        for (document, at, id) in paths(&stream) {
            let Some((Step::Key(old), way)) = at.split_last() else { continue };
            let one = |at: &[Step], to: &str| Edit {
                document: Document::Index(document),
                at: at.to_vec(),
                op: Op::RenameKey { to: to.to_owned() },
                shared: Shared::Edit,
            };
            let Ok(renamed) = edit(&text, &[one(&at, "renamed")]) else { continue };
            let parent = stream.slot(id).parent.unwrap();
            let Kind::Mapping { entries, .. } = &stream.slot(parent).kind else { continue };
            let key = stream.slot(entries.iter().find(|entry| entry.1 == id).unwrap().0);
            assert!(
                renamed.starts_with(&text[..key.start]) && renamed.ends_with(&text[key.end..]),
                "{name} {at:?}"
            );
            if crate::quote::is_plain_safe(old, true) {
                let renamed_at: Vec<Step> = way.iter().cloned().chain([Step::from("renamed")]).collect();
                assert_eq!(
                    edit(&renamed, &[one(&renamed_at, old)]).as_deref(),
                    Ok(text.as_str()),
                    "{name} {at:?}"
                );
            }
        }
    }
}

/// fluxcd/image-automation-controller#528, fluxcd/flux2#1441: texts were written anew, and comments moved.
#[test]
fn set_leaves_everything_outside_the_scalar() {
    for (name, text) in corpus() {
        let Ok(stream) = Stream::parse(text.clone()) else { continue };
        for (document, at, id) in paths(&stream) {
            let slot = stream.slot(id);
            let is_inline = matches!(&slot.kind, Kind::Scalar { block: None, .. } if !slot.is_missing());
            for value in [Value::from("a: b"), 7.into()] {
                let op = Op::Set { value };
                let one =
                    Edit { document: Document::Index(document), at: at.clone(), op, shared: Shared::Edit };
                if let Ok(changed) = edit(&text, &[one])
                    && is_inline
                {
                    assert!(
                        changed.starts_with(&text[..slot.start]) && changed.ends_with(&text[slot.end..]),
                        "{name} {at:?}"
                    );
                }
            }
        }
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let text =
        prop_oneof!["[a-z0-9 :#,{}\\[\\]'\"\\\\|>~!&*%@=.+_-]{0,12}", "[ a-z\n\t#-]{0,16}", any::<String>(),];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Integer),
        any::<f64>().prop_map(Value::Float),
        text.clone().prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        let key = prop_oneof!["[a-z./-]{1,8}", text.clone()];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Sequence),
            prop::collection::btree_map(key, inner, 0..4)
                .prop_map(|map| Value::Mapping(map.into_iter().collect())),
        ]
    })
}

/// One of the texts with parts cut out, doubled or overwritten.
fn mutated() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "\n", "\r\n", "\r", " ", "  ", "\t", ":", ": ", "- ", "-", "? ", "#", " #", "{", "}", "[", "]", ",",
        "&a ", "*a", "!!str ", "|", "|+\n", ">-\n", "\"", "'", "---\n", "...\n", "%", "{{", "}}", "<<: ",
        "\u{feff}", "é", "\u{85}", "\u{0}",
    ]);
    let change = (any::<prop::sample::Index>(), 0..12_usize, pieces);
    let texts: Vec<String> = corpus().into_iter().map(|(_, text)| text).collect();
    (prop::sample::select(texts), prop::collection::vec(change, 0..6)).prop_map(|(text, changes)| {
        let mut chars: Vec<char> = text.chars().collect();
        for (at, len, piece) in changes {
            let at = at.index(chars.len() + 1);
            let end = (at + len).min(chars.len());
            let kept: Vec<char> = if len % 3 == 0 { chars[at..end].to_vec() } else { Vec::new() };
            chars.splice(at..end, kept.into_iter().chain(piece.chars()));
        }
        chars.into_iter().collect()
    })
}

/// Reads and edits wherever the text lets us; nothing may panic, and what comes out must hold the model's data.
fn exercise(text: &str, value: &Value, pick: prop::sample::Index) -> Result<(), TestCaseError> {
    let Ok(stream) = read(text) else {
        prop_assert!(edit(text, &[]).is_err());
        return Ok(());
    };
    for root in stream.documents() {
        data(root, 0);
    }
    let all = paths(&stream);
    if all.is_empty() {
        return Ok(());
    }
    let (document, at, id) = &all[pick.index(all.len())];
    prop_assert!(text.get(stream.slot(*id).start..stream.slot(*id).end).is_some());
    let below: Vec<Step> = at.iter().cloned().chain([Step::from("new")]).collect();
    let edits = [
        (at.clone(), Op::Set { value: value.clone() }),
        (at.clone(), Op::Append { value: value.clone() }),
        (at.clone(), Op::Remove),
        (at.clone(), Op::RenameKey { to: "renamed".to_owned() }),
        (below, Op::Put { value: value.clone() }),
    ];
    for (at, op) in edits {
        for shared in [Shared::Refuse, Shared::Edit] {
            let one = Edit { document: Document::Index(*document), at: at.clone(), op: op.clone(), shared };
            let Ok(changed) = edit(text, std::slice::from_ref(&one)) else { continue };
            let after = read(&changed).unwrap();
            let mut model = data(stream.document(*document).unwrap(), 0);
            if stream.anchors.is_empty()
                && !text.contains("<<")
                && apply_to_model(&mut model, &one.at, &one.op).is_some()
            {
                prop_assert_eq!(
                    model,
                    data(after.document(*document).unwrap(), 0),
                    "{:?} {:?} on {:?}",
                    one.at,
                    one.op,
                    text
                );
            }
        }
    }
    let inner = Edit {
        document: Document::Index(0),
        at: vec!["a".into()],
        op: Op::Put { value: value.clone() },
        shared: Shared::Refuse,
    };
    let _unused = edit_embedded(text, &Document::Index(*document), at, &[inner]);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_value_can_be_put_and_read_again(value in any_value()) {
        for text in ["a:\n  b: 1\nc: 2\n", "a: {b: 1}\n", "- a: 1\r\n- [x]\r\n", "{\"a\": {\n  \"b\": 1\n}}", "a:\n    b: |\n        t\n"] {
            let root = if text.starts_with('-') { vec![Step::from(0)] } else { vec![Step::from("a")] };
            let at: Vec<Step> = root.into_iter().chain([Step::from("new")]).collect();
            let one = Edit { document: Document::Index(0), at: at.clone(), op: Op::Put { value: value.clone() }, shared: Shared::Refuse };
            let changed = edit(text, &[one]);
            let Ok(changed) = changed else {
                // Only `a: 1` as a sequence entry has no mapping below it.
                prop_assert!(text.starts_with('-') || changed.is_ok(), "{:?} into {:?}: {:?}", value, text, changed);
                continue;
            };
            let after = read(&changed).unwrap();
            let found = after.document(0).unwrap().at(&at).map(|node| data(node, 0));
            prop_assert_eq!(found, Some(as_read(&value)));
        }
    }

    #[test]
    fn mutated_texts_never_panic(text in mutated(), value in any_value(), pick in any::<prop::sample::Index>()) {
        exercise(&text, &value, pick)?;
    }

    #[test]
    fn arbitrary_texts_never_panic(text in any::<String>(), yaml in "[a-c:?,\\[\\]{}&*!|>'\"%#@ \n\r\t-]{0,40}", value in any_value(), pick in any::<prop::sample::Index>()) {
        exercise(&text, &value, pick)?;
        exercise(&yaml, &value, pick)?;
    }
}
