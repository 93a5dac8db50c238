//! GitHub's published schemas: which calls there are, what they may say, and what a reply must say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use jsonschema::Validator;
use serde_json::{Map, Value, json};

use super::super::{Call, Reply};

/// One operation of the REST interface.
pub(super) struct Operation {
    /// `GET /repos/{owner}/{repo}`.
    pub(super) name: String,
    method: String,
    template: Vec<String>,
    query: BTreeSet<String>,
    /// Schema of the body, and whether there must be one.
    body: Option<(Value, bool)>,
    /// Schemas of replies by status; `Null` where nothing is said about the body.
    replies: BTreeMap<u16, Value>,
}

/// All of them.
struct Api {
    operations: Vec<Operation>,
    components: Value,
    validators: Mutex<BTreeMap<String, Arc<Validator>>>,
}

fn api() -> &'static Api {
    static API: OnceLock<Api> = OnceLock::new();
    API.get_or_init(|| {
        let published: Value = serde_json::from_str(include_str!("openapi.json")).unwrap();
        let published = json_schema(published);
        let mut operations = Vec::new();
        for (path, methods) in published["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                operations.push(read(path, method, operation));
            }
        }
        Api { operations, components: published["components"].clone(), validators: Mutex::default() }
    })
}

fn read(path: &str, method: &str, operation: &Value) -> Operation {
    let parameters = operation["parameters"].as_array().unwrap().iter();
    let method = method.to_uppercase();
    Operation {
        name: format!("{method} {path}"),
        method,
        template: path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect(),
        query: (parameters.filter(|one| one["in"] == "query"))
            .map(|one| one["name"].as_str().unwrap().to_owned())
            .collect(),
        body: operation
            .get("requestBody")
            .map(|body| (body["schema"].clone(), body["required"] == json!(true))),
        replies: (operation["responses"].as_object().unwrap().iter())
            .filter_map(|(status, schema)| Some((status.parse().ok()?, schema.clone())))
            .collect(),
    }
}

/// The published schemas say `nullable`, which plain JSON Schema does not know.
fn json_schema(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(json_schema).collect(),
        Value::Object(fields) => {
            let mut fields: Map<String, Value> =
                fields.into_iter().map(|(name, value)| (name, json_schema(value))).collect();
            if fields.get("nullable") != Some(&json!(true)) {
                return Value::Object(fields);
            }
            fields.remove("nullable");
            json!({"anyOf": [fields, {"type": "null"}]})
        }
        plain => plain,
    }
}

/// The operation that a call (its path below the interface's root) is for, with the path's parameters.
pub(super) fn operation(method: &str, path: &[String]) -> Option<(&'static Operation, Vec<String>)> {
    let all = api().operations.iter().filter(|one| one.method == method);
    all.filter_map(|one| Some((one, one.parameters(path)?))).min_by_key(|(_, parameters)| parameters.len())
}

impl Operation {
    /// The parameters of `path`; the last one takes all that is left where names of branches stand.
    fn parameters(&self, path: &[String]) -> Option<Vec<String>> {
        let mut parameters = Vec::new();
        for (at, part) in self.template.iter().enumerate() {
            let given = path.get(at)?;
            if !part.starts_with('{') {
                if part != given {
                    return None;
                }
                continue;
            }
            if part == "{ref}" && at + 1 == self.template.len() {
                parameters.push(path[at..].join("/"));
                return Some(parameters);
            }
            parameters.push(given.clone());
        }
        (path.len() == self.template.len()).then_some(parameters)
    }

    /// Adds what the call says and must not.
    pub(super) fn check_call(&self, call: &Call, broken: &mut Vec<String>) {
        let mut wrong = |what: String| broken.push(format!("{}: {what}", self.name));
        for (name, _) in &call.query {
            if !self.query.contains(name) {
                wrong(format!("no such query parameter: `{name}`"));
            }
        }
        let said = (!call.body.is_empty()).then(|| call.json());
        match (&self.body, said) {
            (None, None) | (Some((_, false)), None) => {}
            (None, Some(body)) => wrong(format!("takes no body, and got {body}")),
            (Some((_, true)), None) => wrong("needs a body".to_owned()),
            (Some((schema, _)), Some(body)) => {
                if let Some(problem) = problem(&format!("{} body", self.name), schema, &body) {
                    wrong(format!("{problem} in {body}"));
                }
                let known = schema.get("properties").and_then(Value::as_object);
                let unknown = body.as_object().into_iter().flat_map(Map::keys);
                for name in unknown.filter(|name| known.is_some_and(|known| !known.contains_key(*name))) {
                    wrong(format!("the body says `{name}`, which is nothing here"));
                }
            }
        }
    }

    /// Adds what is wrong with a reply: then this stand-in itself is no GitHub.
    pub(super) fn check_reply(&self, reply: &Reply, broken: &mut Vec<String>) {
        let name = format!("{} {}", self.name, reply.status);
        let Some(schema) = self.replies.get(&reply.status) else {
            // Not allowed, not found, renamed, too many: any operation may answer so.
            if ![301, 401, 403, 404, 409, 410, 429, 500, 502, 503].contains(&reply.status) {
                broken.push(format!("{name}: not an answer of this operation"));
            }
            return;
        };
        if schema.is_null() || reply.body.is_empty() {
            return;
        }
        match serde_json::from_slice(&reply.body) {
            Ok(said) => {
                if let Some(problem) = problem(&name, schema, &said) {
                    broken.push(format!("the stand-in's reply to {name}: {problem}"));
                }
            }
            Err(_) => broken.push(format!("the stand-in's reply to {name} is no JSON")),
        }
    }
}

/// What is wrong with `value`, if anything.
fn problem(name: &str, schema: &Value, value: &Value) -> Option<String> {
    let api = api();
    let mut validators = api.validators.lock().unwrap_or_else(PoisonError::into_inner);
    let validator = Arc::clone(validators.entry(name.to_owned()).or_insert_with(|| {
        let whole = json!({"allOf": [schema], "components": api.components});
        Arc::new(jsonschema::validator_for(&whole).unwrap())
    }));
    drop(validators);
    validator.validate(value).err().map(|error| format!("{error} at `{}`", error.instance_path()))
}

/// A value of the published schema `name`: what `given` says, and nothing in particular where more must be said.
pub(super) fn shaped(name: &str, given: Value) -> Value {
    fill(&json!({"$ref": format!("#/components/schemas/{name}")}), given)
}

fn fill(schema: &Value, given: Value) -> Value {
    if given.is_null() && takes_null(schema) {
        return Value::Null;
    }
    let schema = resolved(schema);
    let fields = match given {
        Value::Object(fields) => fields,
        // Nothing was given: the least that the schema takes.
        Value::Null => match plain(schema) {
            Some(value) => return value,
            None => Map::new(),
        },
        other => return other,
    };
    let mut fields = fields;
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    for name in required {
        if !fields.contains_key(name) {
            let value = fill(&schema["properties"][name], Value::Null);
            fields.insert(name.to_owned(), value);
        }
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let inner = resolved(property);
        if let Some(value) = fields.get_mut(name).filter(|value| value.is_object())
            && inner["properties"].is_object()
        {
            *value = fill(inner, value.take());
        }
    }
    Value::Object(fields)
}

fn takes_null(schema: &Value) -> bool {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap();
        return takes_null(&api().components["schemas"][name]);
    }
    let alternatives = schema["anyOf"].as_array().into_iter().flatten();
    schema["type"] == "null" || alternatives.into_iter().any(takes_null)
}

/// What a schema stands for: references followed, and of alternatives the first.
fn resolved(schema: &Value) -> &Value {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap();
        return resolved(&api().components["schemas"][name]);
    }
    for alternatives in ["anyOf", "oneOf", "allOf"] {
        if let Some(first) = schema[alternatives].as_array().and_then(|all| all.first()) {
            return resolved(first);
        }
    }
    schema
}

/// The least value of a schema that is no object.
fn plain(schema: &Value) -> Option<Value> {
    if let Some(first) = schema["enum"].as_array().and_then(|all| all.first()) {
        return Some(first.clone());
    }
    match schema["type"].as_str() {
        Some("string") if schema["format"] == "uri" => Some(json!("https://example.com/")),
        Some("string") if schema["format"] == "date-time" => Some(json!("2026-01-15T00:00:00Z")),
        Some("string") => Some(json!("")),
        Some("integer" | "number") => Some(json!(0)),
        Some("boolean") => Some(json!(false)),
        Some("array") => Some(json!([])),
        _ => None,
    }
}
