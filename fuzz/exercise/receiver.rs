//! Any bytes as a delivery: taken where its signature holds, refused otherwise, and never with a panic.
//!
//! `github` or `gitlab` on a line, headers as `name: value` on a line each, an empty line, and the body.

use hmac::{Hmac, KeyInit as _, Mac as _};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use secrecy::SecretString;
use sha2::Sha256;
use slicewright::forge::settings::RemoteKind;
use slicewright::forge::webhook::{Rejected, Secrets, look, read};

const SECRET: &str = "a-secret-of-the-hooks-for-tests";

pub(crate) fn run(data: &[u8]) {
    let Some((kind, mut headers, body)) = delivery(data) else { return };
    let now = jiff::Timestamp::UNIX_EPOCH;
    let secret = || vec![SecretString::from(SECRET)];
    let known = Secrets { signing: secret(), tokens: secret() };
    let none = Secrets::default();

    let looked = look(kind, &headers);
    let taken = read(kind, &headers, body, &known, now);
    assert!(looked.is_ok() || taken.is_err(), "what its headers refuse is not read");
    assert!(read(kind, &headers, body, &none, now).is_err(), "without a secret nothing is taken");

    // As the forge would have signed it.
    let proof = match kind {
        RemoteKind::GitHub => {
            let mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).expect("a key of any length");
            let mac = mac.chain_update(body).finalize().into_bytes();
            let digits: String = mac.iter().map(|byte| format!("{byte:02x}")).collect();
            ("x-hub-signature-256", format!("sha256={digits}"))
        }
        RemoteKind::GitLab => {
            headers.remove("webhook-signature");
            ("x-gitlab-token", SECRET.to_owned())
        }
    };
    headers.insert(proof.0, HeaderValue::try_from(proof.1).expect("plain letters"));
    let signed = read(kind, &headers, body, &known, now);
    assert_ne!(signed, Err(Rejected::Signature));
    assert_eq!(signed, read(kind, &headers, body, &known, now), "the same bytes tell the same");
    if kind == RemoteKind::GitHub && look(kind, &headers).is_ok() {
        let other = [body, b" "].concat();
        assert_eq!(read(kind, &headers, &other, &known, now), Err(Rejected::Signature));
    }
}

fn delivery(data: &[u8]) -> Option<(RemoteKind, HeaderMap, &[u8])> {
    let (kind, mut rest) = line(data)?;
    let kind = match kind {
        b"github" => RemoteKind::GitHub,
        b"gitlab" => RemoteKind::GitLab,
        _ => return None,
    };
    let mut headers = HeaderMap::new();
    loop {
        let (header, after) = line(rest)?;
        rest = after;
        if header.is_empty() {
            return Some((kind, headers, rest));
        }
        let colon = header.iter().position(|byte| *byte == b':')?;
        let (name, value) = (&header[..colon], header[colon + 1..].trim_ascii());
        let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) else {
            continue;
        };
        headers.append(name, value);
    }
}

fn line(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = data.iter().position(|byte| *byte == b'\n')?;
    Some((&data[..end], &data[end + 1..]))
}
