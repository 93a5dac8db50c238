//! GraphQL documents and their variables, held against GitHub's published schema.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use graphql_parser::query::{
    Definition, Document, OperationDefinition, Selection, SelectionSet, Type, TypeCondition, Value as Given,
    VariableDefinition, parse_query,
};
use graphql_parser::schema::{Definition as Declared, Field, InputValue, TypeDefinition, parse_schema};
use serde_json::{Value, json};

use super::super::Call;

/// One call of the GraphQL interface.
pub(super) struct Asked {
    /// The first field: `updateRefs`.
    pub(super) field: String,
    pub(super) variables: Value,
}

/// The published types, by name.
type Types = BTreeMap<String, TypeDefinition<'static, String>>;

fn types() -> &'static Types {
    static TYPES: OnceLock<Types> = OnceLock::new();
    TYPES.get_or_init(|| {
        let schema = parse_schema::<String>(include_str!("schema.graphql")).unwrap().into_static();
        let of = |definition| match definition {
            Declared::TypeDefinition(definition) => Some((name_of(&definition).to_owned(), definition)),
            Declared::SchemaDefinition(_) | Declared::TypeExtension(_) | Declared::DirectiveDefinition(_) => {
                None
            }
        };
        schema.definitions.into_iter().filter_map(of).collect()
    })
}

fn name_of<'a>(definition: &'a TypeDefinition<'static, String>) -> &'a str {
    match definition {
        TypeDefinition::Scalar(one) => &one.name,
        TypeDefinition::Object(one) => &one.name,
        TypeDefinition::Interface(one) => &one.name,
        TypeDefinition::Union(one) => &one.name,
        TypeDefinition::Enum(one) => &one.name,
        TypeDefinition::InputObject(one) => &one.name,
    }
}

/// Reads a call and adds what the published schema does not take.
pub(super) fn read(call: &Call, broken: &mut Vec<String>) -> Option<Asked> {
    let body = call.json();
    let asked = checked(&body);
    asked.map_err(|what| broken.push(format!("POST /graphql: {what} in {body}"))).ok()
}

fn checked(body: &Value) -> Result<Asked, String> {
    let query = body["query"].as_str().ok_or("no query")?;
    let document: Document<'_, String> = parse_query(query).map_err(|error| error.to_string())?;
    let [Definition::Operation(operation)] = &document.definitions[..] else {
        return Err("not one operation".to_owned());
    };
    let (root, declared, fields) = match operation {
        OperationDefinition::Query(one) => ("Query", &one.variable_definitions, &one.selection_set),
        OperationDefinition::Mutation(one) => ("Mutation", &one.variable_definitions, &one.selection_set),
        OperationDefinition::SelectionSet(set) => ("Query", const { &Vec::new() }, set),
        OperationDefinition::Subscription(_) => return Err("a subscription".to_owned()),
    };
    let variables = body.get("variables").cloned().unwrap_or_else(|| json!({}));
    for name in variables.as_object().ok_or("variables that are no object")?.keys() {
        if !declared.iter().any(|one| one.name == *name) {
            return Err(format!("the variable `{name}` is not declared"));
        }
    }
    for one in declared {
        value(&one.var_type, &variables[&one.name], &one.name)?;
    }
    selection(root, fields, declared)?;
    match fields.items.first() {
        Some(Selection::Field(field)) => Ok(Asked { field: field.name.clone(), variables }),
        _ => Err("nothing is asked for".to_owned()),
    }
}

/// Every field that is asked of a type is one of its own, with the arguments that it takes.
fn selection(
    of: &str,
    set: &SelectionSet<'_, String>,
    declared: &[VariableDefinition<'_, String>],
) -> Result<(), String> {
    let fields: &[Field<'static, String>] = match types().get(of) {
        Some(TypeDefinition::Object(object)) => &object.fields,
        Some(TypeDefinition::Interface(interface)) => &interface.fields,
        _ => return Err(format!("fields of `{of}`, which has none")),
    };
    for item in &set.items {
        let asked = match item {
            Selection::Field(field) => field,
            Selection::InlineFragment(part) => {
                let Some(TypeCondition::On(kind)) = &part.type_condition else {
                    return Err("a fragment of no type".to_owned());
                };
                selection(kind, &part.selection_set, declared)?;
                continue;
            }
            Selection::FragmentSpread(_) => return Err("a named fragment".to_owned()),
        };
        let known = fields.iter().find(|field| field.name == asked.name);
        let known = known.ok_or_else(|| format!("`{of}` has no field `{}`", asked.name))?;
        arguments(&known.arguments, &asked.arguments, declared)
            .map_err(|what| format!("{what} of `{}`", asked.name))?;
        let inner = innermost(&known.field_type);
        let is_plain = matches!(types().get(inner), None | Some(TypeDefinition::Scalar(_)));
        match (is_plain, asked.selection_set.items.is_empty()) {
            (true, true) => {}
            (false, false) => selection(inner, &asked.selection_set, declared)?,
            _ => return Err(format!("`{}` with too few or too many fields", asked.name)),
        }
    }
    Ok(())
}

/// Arguments are given by variables of their very type.
fn arguments(
    known: &[InputValue<'static, String>],
    given: &[(String, Given<'_, String>)],
    declared: &[VariableDefinition<'_, String>],
) -> Result<(), String> {
    for (name, value) in given {
        let argument = known.iter().find(|one| one.name == *name);
        let argument = argument.ok_or_else(|| format!("no argument `{name}`"))?;
        let Given::Variable(variable) = value else { return Err(format!("a value for `{name}`")) };
        let variable = declared.iter().find(|one| one.name == *variable);
        let variable = variable.ok_or_else(|| format!("no variable for `{name}`"))?;
        if variable.var_type.to_string() != argument.value_type.to_string() {
            return Err(format!("a variable of another type for `{name}`"));
        }
    }
    let missing = known.iter().find(|one| {
        matches!(one.value_type, Type::NonNullType(_)) && !given.iter().any(|(name, _)| *name == one.name)
    });
    missing.map_or(Ok(()), |one| Err(format!("no `{}`", one.name)))
}

fn innermost<'a>(kind: &'a Type<'static, String>) -> &'a str {
    match kind {
        Type::NamedType(name) => name,
        Type::ListType(inner) | Type::NonNullType(inner) => innermost(inner),
    }
}

/// A value is what its type takes.
fn value(kind: &Type<'_, String>, given: &Value, place: &str) -> Result<(), String> {
    let wrong = |why: &str| Err(format!("`{place}` {why}: {given}"));
    match (kind, given) {
        (Type::NonNullType(_), Value::Null) => wrong("is missing"),
        (Type::NonNullType(inner), _) => value(inner, given, place),
        (_, Value::Null) => Ok(()),
        (Type::ListType(inner), Value::Array(items)) => {
            items.iter().try_for_each(|item| value(inner, item, &format!("{place}[]")))
        }
        (Type::ListType(_), _) => wrong("is no list"),
        (Type::NamedType(name), _) => match (name.as_str(), types().get(name)) {
            (_, Some(TypeDefinition::InputObject(object))) => {
                let Value::Object(fields) = given else { return wrong("is no object") };
                if let Some(name) =
                    fields.keys().find(|name| object.fields.iter().all(|one| one.name != **name))
                {
                    return wrong(&format!("has `{name}`, which is nothing here"));
                }
                object.fields.iter().try_for_each(|field| {
                    value(&field.value_type, &given[&field.name], &format!("{place}.{}", field.name))
                })
            }
            ("ID" | "String", _) if given.is_string() => Ok(()),
            ("Boolean", _) if given.is_boolean() => Ok(()),
            ("Int", _) if given.is_i64() => Ok(()),
            ("GitObjectID", _) => match given.as_str() {
                Some(id) if id.len() == 40 && id.bytes().all(|digit| digit.is_ascii_hexdigit()) => Ok(()),
                _ => wrong("is no id of an object"),
            },
            ("GitRefname", _) => match given.as_str() {
                Some(name) if name.starts_with("refs/") => Ok(()),
                _ => wrong("is no whole name of a ref"),
            },
            _ => wrong(&format!("is no `{name}`")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(query: &str, variables: Value) -> Result<String, String> {
        checked(&json!({"query": query, "variables": variables})).map(|asked| asked.field)
    }

    #[test]
    fn what_the_schema_does_not_take_is_seen() {
        let query = "mutation($input: UpdateRefsInput!) { updateRefs(input: $input) { clientMutationId } }";
        let update = json!({"name": "refs/heads/x", "afterOid": "a".repeat(40), "force": true});
        let input = |update: &Value| json!({"input": {"repositoryId": "R_1", "refUpdates": [update]}});
        assert_eq!(verdict(query, input(&update)).unwrap(), "updateRefs");
        for (field, bad) in [
            ("name", json!("x")),
            ("afterOid", json!("abc")),
            ("afterOid", Value::Null),
            ("force", json!("yes")),
            ("expected", json!(1)),
        ] {
            let mut update = update.clone();
            update[field] = bad;
            verdict(query, input(&update)).unwrap_err();
        }
        verdict(query, json!({"input": {"refUpdates": []}})).unwrap_err();
        verdict(&query.replace("UpdateRefsInput!", "UpdateRefsInput"), input(&update)).unwrap_err();
        verdict(&query.replace("clientMutationId", "ref"), input(&update)).unwrap_err();
        verdict(&query.replace("updateRefs(", "updateRef("), input(&update)).unwrap_err();
        verdict("query { viewer }", json!({})).unwrap_err();
        verdict("query { viewer { login } }", json!({"x": 1})).unwrap_err();
        assert_eq!(verdict("query { viewer { login } }", json!({})).unwrap(), "viewer");
    }
}
