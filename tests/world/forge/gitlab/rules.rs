//! What GitLab takes and gives, held against its schemas: every request and every reply.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use jsonschema::Validator;
use serde_json::{Value, json};

use super::{Call, Reply};

/// Parameters that every list has.
const PAGING: [&str; 4] = ["page", "per_page", "pagination", "page_token"];

struct Endpoint {
    query: Vec<String>,
    list: bool,
    /// The body is a form with files.
    form: bool,
    request: Option<Validator>,
    replies: BTreeMap<u16, Validator>,
}

struct Api {
    endpoints: BTreeMap<String, Endpoint>,
    error: Validator,
}

fn api() -> &'static Api {
    static API: OnceLock<Api> = OnceLock::new();
    API.get_or_init(|| {
        let file: Value = serde_json::from_str(include_str!("api.json")).unwrap();
        let validator = |schema: &Value| {
            let whole = json!({ "definitions": file["definitions"], "allOf": [schema] });
            jsonschema::options().should_validate_formats(true).build(&whole).unwrap()
        };
        let endpoint = |known: &Value| Endpoint {
            query: serde_json::from_value(known["query"].clone()).unwrap(),
            list: known["list"].as_bool().unwrap_or(false),
            form: known["form"].as_bool().unwrap_or(false),
            request: known.get("request").map(validator),
            replies: (known["replies"].as_object().unwrap().iter())
                .map(|(status, schema)| (status.parse().unwrap(), validator(schema)))
                .collect(),
        };
        let endpoints = file["endpoints"].as_object().unwrap();
        Api {
            endpoints: endpoints.iter().map(|(name, known)| (name.clone(), endpoint(known))).collect(),
            error: validator(&json!({ "$ref": "#/definitions/error" })),
        }
    })
}

/// Adds what is wrong with a request to `broken`.
pub(super) fn check_request(name: &str, call: &Call, broken: &mut Vec<String>) {
    let Some(known) = api().endpoints.get(name) else {
        broken.push(format!("{} {}: no such endpoint ({name})", call.method, call.path));
        return;
    };
    let paging = if known.list { &PAGING[..] } else { &[] };
    for (parameter, _) in &call.query {
        if !known.query.contains(parameter) && !paging.contains(&parameter.as_str()) {
            broken.push(format!("{name}: there is no parameter `{parameter}`"));
        }
    }
    match &known.request {
        None if !call.body.is_empty() && !known.form => broken.push(format!("{name}: a body is not read")),
        None => {}
        Some(validator) => {
            let kind = call.header("content-type").unwrap_or_default();
            if !kind.starts_with("application/json") {
                broken.push(format!("{name}: the body is sent as `{kind}`"));
            }
            let body = call.json();
            let wrong = validator.iter_errors(&body).map(|error| format!("{name}: the request: {error}"));
            broken.extend(wrong);
        }
    }
}

/// Adds what is wrong with a reply to `broken`: then it is this forge that is wrong.
pub(super) fn check_reply(name: &str, reply: &Reply, broken: &mut Vec<String>) {
    let Some(known) = api().endpoints.get(name) else { return };
    let validator = match reply.status {
        400.. => Some(&api().error),
        status => known.replies.get(&status),
    };
    let Some(validator) = validator else { return };
    let body: Value = serde_json::from_slice(&reply.body).unwrap_or(Value::Null);
    let wrong = validator.iter_errors(&body).map(|error| {
        format!("{name}: the reply with status {}: {error} at {}", reply.status, error.instance_path())
    });
    broken.extend(wrong);
}
