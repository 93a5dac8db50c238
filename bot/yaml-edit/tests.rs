//! The cases of `tests/cases/yaml-edit`, rules in small, and what must hold for any text.

mod always;
mod embedded;
mod plain;
mod reading;
mod rules;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use crate::{Document, Edit, Op, Shared, Step, Value, edit};

struct Case {
    name: String,
    input: String,
    edits: Vec<Edit>,
    expected: String,
    /// The code of the refusal, where one is expected.
    refusal: Option<String>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases/yaml-edit")
}

fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(truth) => Value::Bool(*truth),
        Json::Number(number) => match number.as_i64() {
            Some(number) => Value::Integer(number),
            None => Value::Float(number.as_f64().unwrap()),
        },
        Json::String(text) => Value::String(text.clone()),
        Json::Array(items) => Value::Sequence(items.iter().map(value).collect()),
        Json::Object(entries) => {
            Value::Mapping(entries.iter().map(|(key, inner)| (key.clone(), value(inner))).collect())
        }
    }
}

fn position(json: &Json) -> usize {
    usize::try_from(json.as_u64().unwrap()).unwrap()
}

fn one_edit(json: &Json) -> Edit {
    let at = json["at"].as_array().unwrap().iter();
    let at = at.map(|step| match step.as_str() {
        Some(key) => Step::from(key),
        None => Step::from(position(step)),
    });
    let document = match &json["in"] {
        Json::Null => Document::default(),
        place if place["index"].is_u64() => Document::Index(position(&place["index"])),
        place => Document::Named {
            kind: place["kind"].as_str().unwrap().to_owned(),
            name: place["name"].as_str().unwrap().to_owned(),
        },
    };
    let op = match json["op"].as_str().unwrap() {
        "rename-key" => Op::RenameKey { to: json["to"].as_str().unwrap().to_owned() },
        "set" => Op::Set { value: value(&json["value"]) },
        "put" => Op::Put { value: value(&json["value"]) },
        "append" => Op::Append { value: value(&json["value"]) },
        "remove" => Op::Remove,
        other => panic!("unknown op `{other}`"),
    };
    let shared = if json["shared"] == "edit" { Shared::Edit } else { Shared::Refuse };
    Edit { document, at: at.collect(), op, shared }
}

fn cases(folder: &Path) -> Vec<Case> {
    let mut folders: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    let read = |path: PathBuf| {
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let cases: Vec<Case> = folders
        .into_iter()
        .map(|folder| {
            let json: Json = serde_json::from_str(&read(folder.join("edit.json"))).unwrap();
            Case {
                name: folder.file_name().unwrap().to_string_lossy().into_owned(),
                input: read(folder.join("input.yaml")),
                edits: json["edits"].as_array().unwrap().iter().map(one_edit).collect(),
                expected: read(folder.join("expected.yaml")),
                refusal: json["refusal"].as_str().map(str::to_owned),
            }
        })
        .collect();
    assert!(!cases.is_empty(), "{} holds no cases", folder.display());
    cases
}

/// What went wrong with a case, for people.
fn failure(case: &Case) -> Option<String> {
    let got = edit(&case.input, &case.edits);
    match (&got, &case.refusal) {
        (Ok(text), None) if *text == case.expected => None,
        (Err(refusal), Some(code)) if refusal.kind.code() == code && case.expected == case.input => None,
        (Ok(text), None) => Some(format!("{}:\n{}", case.name, difference(&case.expected, text))),
        (Ok(_), Some(code)) => Some(format!("{}: edited, but {code} was expected", case.name)),
        (Err(refusal), _) => {
            Some(format!("{}: {} ({refusal}), expected {:?}", case.name, refusal.kind.code(), case.refusal))
        }
    }
}

fn difference(expected: &str, got: &str) -> String {
    let (expected, got): (Vec<&str>, Vec<&str>) = (expected.split('\n').collect(), got.split('\n').collect());
    let same = expected.iter().zip(&got).take_while(|(a, b)| a == b).count();
    let shown = |lines: &[&str]| format!("{:?}", lines.iter().skip(same).take(6).collect::<Vec<_>>());
    format!("  from line {}\n  expected {}\n  got      {}", same + 1, shown(&expected), shown(&got))
}

#[expect(clippy::print_stderr, reason = "a test says how many extra cases it ran")]
fn extra_cases() -> Vec<Case> {
    let Some(extra) = std::env::var_os("SLICEWRIGHT_EXTRA_CASES") else { return Vec::new() };
    let found = cases(&Path::new(&extra).join("yaml-edit"));
    eprintln!("yaml-edit: {} extra cases", found.len());
    found
}

#[test]
fn every_case_is_met_byte_for_byte() {
    let mut all = cases(&folder());
    all.extend(extra_cases());
    let failures: Vec<String> = all.iter().filter_map(failure).collect();
    assert!(
        failures.is_empty(),
        "{} of {} cases failed:\n{}",
        failures.len(),
        all.len(),
        failures.join("\n")
    );
}
