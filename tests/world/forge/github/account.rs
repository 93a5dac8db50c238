//! Who asks: tokens, and Apps with their signed word.

use octocrab::jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde::Deserialize;
use serde_json::json;

use super::super::state::{BOT, State, User, time};
use super::super::{Call, Reply};
use super::schema::shaped;
use super::{not_found, shown_user};

/// The App's number.
pub(crate) const APP: u64 = 77;

/// The App's private key; it opens nothing but this stand-in.
pub(crate) const APP_KEY: &str = include_str!("test-only-app-key.pem");

const PUBLIC_KEY: &str = include_str!("test-only-app-key.pub.pem");

/// What an installation was granted for contents and pull requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    Read,
    Write,
}

/// The account that a call's token stands for.
pub(super) fn signed_in(state: &State, call: &Call) -> Result<User, Reply> {
    let bad = || Reply::json(401, &json!({"message": "Bad credentials"}));
    let header = call.header("authorization").unwrap_or_default();
    // GitHub takes the older word as well.
    let token = header.strip_prefix("Bearer ").or_else(|| header.strip_prefix("token "));
    let id = token.and_then(|token| state.tokens.get(token)).ok_or_else(bad)?;
    Ok(state.users[id].clone())
}

#[derive(Deserialize)]
struct Claims {
    iss: serde_json::Value,
    iat: u64,
    exp: u64,
}

/// Whether the call is signed with the App's key, as GitHub wants it: RS256, for at most 10 minutes.
fn signed(call: &Call, broken: &mut Vec<String>) -> bool {
    let Some(token) = call.header("authorization").and_then(|header| header.strip_prefix("Bearer ")) else {
        return false;
    };
    if token.split('.').count() != 3 {
        return false;
    }
    let header = decode_header(token).unwrap();
    let mut validation = Validation::new(Algorithm::RS256);
    validation.set_required_spec_claims(&["exp"]);
    let key = DecodingKey::from_rsa_pem(PUBLIC_KEY.as_bytes()).unwrap();
    let Ok(said) = decode::<Claims>(token, &key, &validation) else { return false };
    let mut wrong = |what: &str| broken.push(format!("the App's token: {what}"));
    if header.alg != Algorithm::RS256 || header.typ.as_deref() != Some("JWT") {
        wrong("its header");
    }
    if said.claims.iss != json!(APP) && said.claims.iss != json!(APP.to_string()) {
        wrong("`iss` is not the App");
    }
    let now = u64::try_from(jiff::Timestamp::now().as_second()).unwrap();
    if said.claims.iat > now || said.claims.exp > now + 600 {
        wrong("`iat` is to come, or `exp` is more than 10 minutes away");
    }
    true
}

/// Operations for Apps; `None` for the others.
pub(super) fn for_apps(
    state: &mut State,
    name: &str,
    parameters: &[String],
    call: &Call,
    broken: &mut Vec<String>,
) -> Option<Reply> {
    let ours = [
        "GET /app",
        "GET /app/hook/config",
        "GET /app/hook/deliveries",
        "POST /app/hook/deliveries/{delivery_id}/attempts",
        "GET /repos/{owner}/{repo}/installation",
        "POST /app/installations/{installation_id}/access_tokens",
    ];
    if !ours.contains(&name) {
        return None;
    }
    if !signed(call, broken) {
        let message = "A JSON web token could not be decoded";
        return Some(Reply::json(401, &json!({"message": message})));
    }
    if name == "GET /app" {
        let owner = json!({"login": "acme", "id": 1, "type": "Organization"});
        let app = json!({"id": APP, "slug": "slicewright", "name": "Slicewright", "owner": owner, "permissions": {}});
        return Some(Reply::json(200, &shaped("integration", app)));
    }
    if name.contains("/app/hook/") {
        return Some(super::hooks::of_app(state, name, parameters, call));
    }
    let Some((id, permission)) = state.github.installation else { return Some(not_found()) };
    let granted = if permission == Permission::Write { "write" } else { "read" };
    let mut permissions = json!({"contents": granted, "pull_requests": granted, "metadata": "read"});
    for more in &state.github.granted {
        permissions[*more] = json!("write");
    }
    if name == "GET /repos/{owner}/{repo}/installation" {
        if !state.repositories.contains_key(&format!("{}/{}", parameters[0], parameters[1])) {
            return Some(not_found());
        }
        let account = json!({"login": "acme", "id": 1, "type": "Organization"});
        let shown = json!({
            "id": id, "app_id": APP, "app_slug": "slicewright", "permissions": permissions, "account": account,
            "repository_selection": "selected",
        });
        return Some(Reply::json(200, &shaped("installation", shown)));
    }
    if parameters[0] != id.to_string() {
        return Some(not_found());
    }
    if call.json()["repositories"] != json!(["infra"]) {
        broken.push("the installation's token is for more than the one repository".to_owned());
    }
    let asked = &call.json()["permissions"];
    let mut least = json!({"contents": "write", "pull_requests": "write"});
    for more in &state.github.granted {
        least[*more] = json!("write");
    }
    if *asked != least {
        broken.push(format!("the installation's token is for {asked}"));
    }
    let number = state.new_id();
    let token = format!("installation-token-{number}");
    state.tokens.insert(token.clone(), BOT);
    let expires = time(jiff::Timestamp::now().as_second() + 3_600);
    let shown = json!({"token": token, "expires_at": expires, "permissions": permissions});
    Some(Reply::json(201, &shaped("installation-token", shown)))
}

/// The account itself. An installation has none.
pub(super) fn own_user(who: &User) -> Reply {
    match who.is_bot {
        true => super::denied(who),
        false => {
            let shown = json!({"id": who.id, "login": who.login, "type": "User", "name": who.name});
            Reply::json(200, &shaped("private-user", shown))
        }
    }
}

pub(super) fn user(user: Option<&User>) -> Reply {
    match user {
        None => not_found(),
        Some(user) => Reply::json(200, &shaped("public-user", shown_user(user))),
    }
}
