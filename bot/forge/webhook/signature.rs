//! Whether a delivery comes from whom it says: HMAC over its bytes, or a token. All comparisons take the same time
//! whatever is wrong, so that nobody can feel a way through.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use reqwest::header::HeaderMap;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::Sha256;

use super::{Rejected, Secrets, text};

/// Seconds that a signature holds, and that clocks may differ. Doubled, a stolen delivery can be sent again for twice as
/// long.
const TOLERANCE_SECONDS: i64 = 300;

/// `X-Hub-Signature-256: sha256=<hex>` over the body.
pub(super) fn github(headers: &HeaderMap, body: &[u8], secrets: &Secrets) -> Result<(), Rejected> {
    let given = text(headers, "x-hub-signature-256").and_then(|text| text.strip_prefix("sha256="));
    let given = given.and_then(bytes).ok_or(Rejected::Signature)?;
    let holds = |secret: &SecretString| signed_with(secret.expose_secret().as_bytes(), &[body], &given);
    any(&secrets.signing, holds)
}

/// Standard Webhooks where the delivery is signed, else the plain token.
pub(super) fn gitlab(
    headers: &HeaderMap,
    body: &[u8],
    secrets: &Secrets,
    now: Timestamp,
) -> Result<(), Rejected> {
    if !headers.contains_key("webhook-signature") {
        let given = text(headers, "x-gitlab-token").unwrap_or_default();
        return any(&secrets.tokens, |token| same(token.expose_secret().as_bytes(), given.as_bytes()));
    }
    let header = |name: &'static str| text(headers, name).ok_or(Rejected::Header(name));
    let (id, at, given) = (header("webhook-id")?, header("webhook-timestamp")?, header("webhook-signature")?);
    let given: Vec<Vec<u8>> =
        given.split(' ').filter_map(|one| STANDARD.decode(one.strip_prefix("v1,")?).ok()).collect();
    any(&secrets.signing, |secret| {
        let key = secret.expose_secret();
        let key = STANDARD.decode(key.strip_prefix("whsec_").unwrap_or(key)).unwrap_or_default();
        let message: [&[u8]; 5] = [id.as_bytes(), b".", at.as_bytes(), b".", body];
        // Every one is looked at, so that the time tells nothing.
        given.iter().fold(false, |holds, one| holds | signed_with(&key, &message, one))
    })?;
    let seconds: i64 = at.parse().map_err(|_| Rejected::Stale)?;
    let away = now.as_second().saturating_sub(seconds).saturating_abs();
    if away <= TOLERANCE_SECONDS { Ok(()) } else { Err(Rejected::Stale) }
}

fn any(secrets: &[SecretString], holds: impl Fn(&SecretString) -> bool) -> Result<(), Rejected> {
    let holds = secrets.iter().fold(false, |known, secret| known | holds(secret));
    if holds { Ok(()) } else { Err(Rejected::Signature) }
}

/// An empty key proves nothing.
fn signed_with(key: &[u8], message: &[&[u8]], given: &[u8]) -> bool {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return false };
    message.iter().for_each(|part| mac.update(part));
    !key.is_empty() && mac.verify_slice(given).is_ok()
}

/// Two texts, by their codes under a key of no meaning: the comparison's time says nothing about either.
fn same(secret: &[u8], given: &[u8]) -> bool {
    let code =
        |text: &[u8]| Hmac::<Sha256>::new_from_slice(b"slicewright").map(|mac| mac.chain_update(text)).ok();
    let (Some(known), Some(given)) = (code(secret), code(given)) else { return false };
    !secret.is_empty() && known.verify(&given.finalize().into_bytes()).is_ok()
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    if !hex.len().is_multiple_of(2) || !hex.is_ascii() {
        return None;
    }
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok()).collect()
}
