//! What the target `yaml_edit` does with its bytes; run over the corpus by the tests of `slicewright-yaml`.

use slicewright_yaml::{
    Document, Edit, Node, Op, RefusalKind, Shared, Step, Value, edit, edit_embedded, read,
};

/// Enough to reach every node of a short input.
const MAX_PLACES: usize = 64;

/// Reads `data` and tries edits at its places.
pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(stream) = read(text) else {
        assert!(edit(text, &[]).is_err(), "what cannot be read cannot be edited");
        return;
    };
    let mut places = Vec::new();
    for (document, root) in stream.documents().enumerate() {
        collect(root, document, &mut Vec::new(), &mut places);
    }
    for (document, at) in places {
        let below: Vec<Step> = at.iter().cloned().chain([Step::from("new")]).collect();
        let nested =
            Value::Mapping(vec![("k".to_owned(), Value::Sequence(vec!["l1\nl2".into(), Value::Null]))]);
        let edits = [
            (at.clone(), Op::Set { value: "word".into() }),
            (at.clone(), Op::Set { value: nested.clone() }),
            (at.clone(), Op::Append { value: "- a: b".into() }),
            (at.clone(), Op::RenameKey { to: "on".to_owned() }),
            (at.clone(), Op::Remove),
            (below, Op::Put { value: nested }),
        ];
        for (path, op) in edits {
            let one = Edit { document: Document::Index(document), at: path, op, shared: Shared::Edit };
            if let Ok(changed) = edit(text, std::slice::from_ref(&one)) {
                assert!(read(&changed).is_ok(), "{one:?} led to a text that cannot be read");
            }
            let inner = Edit { document: Document::default(), at: one.at.clone(), ..one };
            if let Err(refusal) = edit_embedded(text, &Document::Index(document), &at, &[inner]) {
                assert!(refusal.line > 0 && refusal.column > 0, "{refusal:?}");
                assert_ne!(refusal.kind, RefusalKind::AmbiguousDocument);
            }
        }
    }
}

fn collect(node: Node<'_>, document: usize, at: &mut Vec<Step>, places: &mut Vec<(usize, Vec<Step>)>) {
    if places.len() >= MAX_PLACES || node.via().alias {
        return;
    }
    places.push((document, at.clone()));
    let entries = node.entries().into_iter().map(|(key, value)| (Step::from(key), value));
    let items = node.items().enumerate().map(|(position, item)| (Step::from(position), item));
    for (step, child) in entries.chain(items) {
        at.push(step);
        collect(child, document, at, places);
        at.pop();
    }
}
