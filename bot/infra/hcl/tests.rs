use hcl_edit::structure::Body;
use proptest::prelude::*;

use super::*;

fn group(body: &Body) -> Option<Holder<'_>> {
    body.blocks().find(|block| block.ident.as_str() == "group").map(Holder::block)
}

fn inner(body: &Body) -> Option<Holder<'_>> {
    match group(body)?.get("groups")? {
        Expression::Object(object) => match Holder::Object(object).get("gpu")? {
            Expression::Object(object) => Some(Holder::Object(object)),
            _ => None,
        },
        _ => None,
    }
}

const KEY: &str = "nvidia.com/mig.config";

fn check(find: for<'b> fn(&'b Body) -> Option<Holder<'b>>, input: &str, expected: &str) {
    let changed = put(input, &find, "labels", KEY, "all-1g.5gb");
    assert_eq!(changed.as_deref(), Ok(expected), "{input}");
    assert_eq!(put(expected, &find, "labels", KEY, "all-1g.5gb").as_deref(), Ok(expected), "the second time");
    let crlf = |text: &str| text.replace('\n', "\r\n");
    assert_eq!(put(&crlf(input), &find, "labels", KEY, "all-1g.5gb").as_deref(), Ok(crlf(expected).as_str()));
}

fn refuse(input: &str, expected: &str) {
    let refused = put(input, &group, "labels", KEY, "all-1g.5gb").unwrap_err();
    assert!(refused.contains(expected), "{refused}");
}

#[test]
fn a_value_is_replaced_and_nothing_else() {
    check(
        group,
        "group \"a\" {\n  labels = { # why\n    a                       = 1 /* b */\n    \"nvidia.com/mig.config\" = \"old\" # keep\n  }\n}\n",
        "group \"a\" {\n  labels = { # why\n    a                       = 1 /* b */\n    \"nvidia.com/mig.config\" = \"all-1g.5gb\" # keep\n  }\n}\n",
    );
}

#[test]
fn an_entry_is_added_in_the_style_of_its_map() {
    check(
        group,
        "group \"a\" {\n  labels = {\n    workload                = \"gpu\"\n    \"a.example.com/long-key\" = \"x\" # c\n  }\n}\n",
        "group \"a\" {\n  labels = {\n    workload                = \"gpu\"\n    \"a.example.com/long-key\" = \"x\" # c\n    \"nvidia.com/mig.config\"  = \"all-1g.5gb\"\n  }\n}\n",
    );
    check(
        group,
        "group \"a\" {\n  labels = {\n    a = \"x\", # c\n  }\n}\n",
        "group \"a\" {\n  labels = {\n    a = \"x\", # c\n\n    \"nvidia.com/mig.config\" = \"all-1g.5gb\",\n  }\n}\n",
    );
    check(
        group,
        "group \"a\" {\n  labels = { a : \"x\", b : \"}\" }\n}\n",
        "group \"a\" {\n  labels = { a : \"x\", b : \"}\", \"nvidia.com/mig.config\" : \"all-1g.5gb\" }\n}\n",
    );
    check(
        group,
        "group \"a\" {\n  labels = {}\n}\n",
        "group \"a\" {\n  labels = { \"nvidia.com/mig.config\" = \"all-1g.5gb\" }\n}\n",
    );
    check(
        group,
        "group \"a\" {\n  labels = {\n  }\n}\n",
        "group \"a\" {\n  labels = {\n    \"nvidia.com/mig.config\" = \"all-1g.5gb\"\n  }\n}\n",
    );
}

#[test]
fn the_last_map_of_a_merge_takes_the_entry() {
    check(
        group,
        "group \"a\" {\n  labels = merge(local.labels, {\n    a = \"x\"\n  })\n}\n",
        "group \"a\" {\n  labels = merge(local.labels, {\n    a = \"x\"\n\n    \"nvidia.com/mig.config\" = \"all-1g.5gb\"\n  })\n}\n",
    );
    refuse("group \"a\" {\n  labels = merge({}, local.labels)\n}\n", "what comes last in `merge` decides");
    refuse("group \"a\" {\n  labels = local.labels\n}\n", "`labels` is `local.labels`");
    refuse("group \"a\" {\n  labels = { (var.k) = 1 }\n}\n", "line 2 computes a key");
    refuse("group \"a\" {\n  labels = { \"nvidia.com/mig.config\" = var.mig }\n}\n", "not to a plain string");
}

#[test]
fn a_map_is_added_where_there_is_none() {
    check(
        group,
        "group \"a\" {\n  count_ = 1\n  name   = \"x\" # c\n\n  nested {\n    labels = {}\n  }\n}\n",
        "group \"a\" {\n  count_ = 1\n  name   = \"x\" # c\n\n  labels = {\n    \"nvidia.com/mig.config\" = \"all-1g.5gb\"\n  }\n\n  nested {\n    labels = {}\n  }\n}\n",
    );
    check(
        group,
        "group \"a\" {\n  nested {}\n}\n",
        "group \"a\" {\n  labels = {\n    \"nvidia.com/mig.config\" = \"all-1g.5gb\"\n  }\n  nested {}\n}\n",
    );
    check(
        group,
        "group \"a\" {\n  text = <<-EOT\n    labels = {}\n    EOT\n}\n",
        "group \"a\" {\n  text = <<-EOT\n    labels = {}\n    EOT\n\n  labels = {\n    \"nvidia.com/mig.config\" = \"all-1g.5gb\"\n  }\n}\n",
    );
    refuse("group \"a\" { name = 1 }\n", "one line");
}

#[test]
fn a_map_of_a_module_is_edited_where_it_stands() {
    check(
        inner,
        "group \"a\" {\n  groups = {\n    cpu = { min_size = 1 }\n    gpu = {\n      min_size = 0 # c\n    }\n  }\n}\n",
        "group \"a\" {\n  groups = {\n    cpu = { min_size = 1 }\n    gpu = {\n      min_size = 0 # c\n\n      labels = {\n        \"nvidia.com/mig.config\" = \"all-1g.5gb\"\n      }\n    }\n  }\n}\n",
    );
    check(
        inner,
        "group \"a\" {\n  groups = { gpu = { min_size = 0 } }\n}\n",
        "group \"a\" {\n  groups = { gpu = { min_size = 0, labels = { \"nvidia.com/mig.config\" = \"all-1g.5gb\" } } }\n}\n",
    );
}

#[test]
fn deep_and_broken_texts_are_refused() {
    for text in [
        format!("a = {}", "(".repeat(100_000)),
        format!("a = {}", "!".repeat(100_000)),
        format!("a = 1 {}", "+ 1 ".repeat(100_000)),
        format!("a = {}", "[".repeat(5_000)),
        format!("{}\n", "b {\n".repeat(5_000)),
        format!("a = {}", "\"${".repeat(5_000)),
        "a = {".to_owned(),
        "a = { b = 1, b = 2 }\n".to_owned(),
    ] {
        assert!(parse(&text).is_err());
    }
}

/// A text that is as deep as the parser goes, of every thing that nests: none takes long.
#[test]
fn deep_texts_are_read_in_no_time() {
    let started = std::time::Instant::now();
    for (open, middle, close) in [
        ("{ a = ", "1", " }"),
        ("[", "1", "]"),
        ("(", "1", ")"),
        ("\"${", "1", "}\""),
        ("f(", "1", ")"),
        ("a[", "1", "]"),
        ("-", "1", ""),
        ("!", "1", ""),
        ("{ for k, v in x : k => ", "1", " }"),
        ("[for v in ", "x", " : v]"),
        ("true ? 1 : ", "1", ""),
        ("{ (", "1", ") = 1 }"),
        ("merge({ \"${", "1", "}\" = 1 })"),
    ] {
        for depth in [15, 31, 60, 70] {
            let text = format!("a = {}{middle}{}\n", open.repeat(depth), close.repeat(depth));
            let _ = parse(&text);
            let _ = parse(&text.replace(middle, "?"));
        }
    }
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}

fn file() -> impl Strategy<Value = String> {
    let blank = prop_oneof![Just(""), Just(" "), Just("  # c\n  "), Just("\n"), Just(" /* } */ ")];
    let item = (
        0..6_usize,
        prop_oneof![Just("="), Just(":")],
        0..7_usize,
        prop_oneof![Just(""), Just(","), Just(" # c"), Just(", # \"nvidia.com/mig.config\" = {")],
    );
    let keys = ["a", "\"b\"", "(c)", "\"nvidia.com/mig.config\"", "(\"nvidia.com/mig.config\")", "\"${d}\""];
    let values =
        ["1", "\"x\"", "\"a\\\"}\"", "[1, {}]", "\"${f({ a = 1 })}\"", "true ? 1 : 2", "<<E\nlabels = {\nE"];
    (prop::collection::vec(item, 0..4), blank, any::<bool>(), 0..4_usize, any::<bool>()).prop_map(
        move |(items, blank, on_lines, shape, crlf)| {
            let items: Vec<String> = items
                .iter()
                .map(|(key, sign, value, end)| {
                    format!("{} {sign} {}{}", keys[*key], values[*value], if on_lines { end } else { "" })
                })
                .collect();
            let inside = if on_lines { format!("\n{}\n", items.join("\n")) } else { items.join(", ") };
            let map = format!("{{{blank}{inside}{blank}}}");
            let group = match shape {
                0 => format!("  labels = {map}\n"),
                1 => format!("  labels = merge(x, {map})\n  z = {map}\n"),
                2 => format!("  b {{\n  labels = {map}\n  }}\n"),
                _ => format!("  y = {map}\n\n  b {{}}\n"),
            };
            let text = format!("other {{\n  labels = {{ a = 1 }}\n}}\ngroup \"a\" {{\n{group}}}\n# end\n");
            if crlf { text.replace('\n', "\r\n") } else { text }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn an_edit_changes_one_entry_and_keeps_all_other_bytes(text in file()) {
        let Ok(before) = parse(&text) else { return Err(TestCaseError::reject("no such text")) };
        // Too many that are refused would fail the test: most maps can be edited.
        let Ok(changed) = put(&text, &group, "labels", KEY, "all-1g.5gb") else {
            return Err(TestCaseError::reject("left to people"));
        };
        let after = parse(&changed).unwrap();
        let holder = group(&after).unwrap();
        let Ok(Map::Literal { object, .. }) = map(&changed, &holder, "labels") else { panic!("{changed}") };
        let (held, _) = entry(&changed, object, KEY).unwrap().unwrap();
        prop_assert_eq!(held, "all-1g.5gb");
        // One piece differs: what stands before and after it is as it was.
        let same = text.bytes().zip(changed.bytes()).take_while(|(a, b)| a == b).count();
        let same_end = text.bytes().rev().zip(changed.bytes().rev()).take_while(|(a, b)| a == b).count();
        let kept = (same + same_end).min(text.len());
        prop_assert!(text.len() - kept <= "\"a\\\"}\"".len().max(6), "{}", changed);
        prop_assert_eq!(text.contains("\r\n"), changed.contains("\r\n"));
        if text.contains("\r\n") {
            prop_assert_eq!(changed.matches('\n').count(), changed.matches("\r\n").count());
        }
        let (old, new) = (leaves(&text, &before), leaves(&changed, &after));
        let lost = old.keys().filter(|leaf| !new.contains_key(*leaf)).count();
        prop_assert!(lost <= 1);
        prop_assert_eq!(put(&changed, &group, "labels", KEY, "all-1g.5gb"), Ok(changed.clone()));
    }

    #[test]
    fn no_text_makes_it_panic(text in file(), at in 0..200_usize, with in "[ \\n{}\"=,(\\[$<#/*a-]{0,6}") {
        let at = (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let text = format!("{}{with}{}", &text[..at], &text[at..]);
        let _ = put(&text, &group, "labels", KEY, "all-1g.5gb");
    }
}
