//! Official signature vectors, and payloads as forges send them.

use std::io::Read as _;

use hmac::{Hmac, KeyInit as _, Mac as _};
use reqwest::header::{HeaderName, HeaderValue};
use serde_json::{Value, json};
use slicewright_core::review::boxes;

use super::*;

const SECRET: &str = "a secret of more than 24 bytes";

fn secrets(signing: &[&str], tokens: &[&str]) -> Secrets {
    let all = |texts: &[&str]| texts.iter().map(|text| SecretString::from((*text).to_owned())).collect();
    Secrets { signing: all(signing), tokens: all(tokens) }
}

fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
    let header = |(name, value): &(&'static str, &str)| {
        (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
    };
    let json = (CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
    all.iter().map(header).chain([json]).collect()
}

fn cases(name: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/webhook").join(name)
}

fn vectors() -> Value {
    serde_json::from_slice(&std::fs::read(cases("signature-vectors.json")).unwrap()).unwrap()
}

fn now() -> Timestamp {
    "2026-01-15T12:00:00Z".parse().unwrap()
}

/// A delivery as GitHub signs it.
fn from_github(event: &str, body: &[u8]) -> Result<Delivery, Rejected> {
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    mac.update(body);
    let signature = format!("sha256={:x}", HexOf(&mac.finalize().into_bytes()));
    let headers = headers(&[
        ("x-github-event", event),
        ("x-github-delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958"),
        ("x-hub-signature-256", &signature),
    ]);
    read(RemoteKind::GitHub, &headers, body, &secrets(&["the old secret, still known", SECRET], &[]), now())
}

fn from_gitlab(event: &str, body: &[u8]) -> Result<Delivery, Rejected> {
    let headers = headers(&[("x-gitlab-event", event), ("x-gitlab-token", SECRET), ("idempotency-key", "k")]);
    read(RemoteKind::GitLab, &headers, body, &secrets(&[], &[SECRET]), now())
}

/// probot/probot#1974: a body that was read and written again did not fit its signature; the bytes themselves are signed.
#[test]
fn githubs_signatures_hold_as_its_vectors_say() {
    let vectors = vectors();
    let all = vectors["github"]["cases"].as_array().unwrap();
    assert_eq!(all.len(), 10);
    for case in all {
        let text = |name: &str| case[name].as_str().unwrap();
        let headers = headers(&[
            ("x-github-event", "ping"),
            ("x-github-delivery", "d"),
            ("x-hub-signature-256", text("signature")),
        ]);
        let read = read(
            RemoteKind::GitHub,
            &headers,
            text("body").as_bytes(),
            &secrets(&[text("secret")], &[]),
            now(),
        );
        // The bodies of the vectors are not all JSON: that is looked at after the signature.
        let holds = read != Err(Rejected::Signature);
        assert_eq!(json!(holds), case["valid"], "{}: {read:?}", text("name"));
    }
}

#[test]
fn standard_webhooks_hold_as_their_vectors_say() {
    let vectors = vectors();
    let all = vectors["standard_webhooks"]["cases"].as_array().unwrap();
    assert!(all.len() >= 6);
    for case in all {
        let text = |name: &str| case[name].as_str().unwrap().to_owned();
        let number =
            |name: &str| case[name].as_i64().unwrap_or_else(|| case[name].as_str().unwrap().parse().unwrap());
        let headers = headers(&[
            ("x-gitlab-event", "Push Hook"),
            ("webhook-id", &text("id")),
            ("webhook-timestamp", &number("timestamp").to_string()),
            ("webhook-signature", &text("signature")),
        ]);
        let now = Timestamp::from_second(number("now")).unwrap();
        let read = read(
            RemoteKind::GitLab,
            &headers,
            text("body").as_bytes(),
            &secrets(&[&text("secret")], &[]),
            now,
        );
        assert_eq!(json!(read.is_ok()), case["valid"], "{}: {read:?}", text("name"));
        if let Ok(delivery) = read {
            assert_eq!(delivery.key, text("id"));
        }
    }
}

/// runatlantis/atlantis#2391, and every receiver that took an empty secret for none.
#[test]
fn nothing_is_taken_without_a_proof() {
    let body = b"{}";
    let gitlab = |more: &[(&'static str, &str)], secrets: &Secrets| {
        let all = [&[("x-gitlab-event", "Push Hook")], more].concat();
        read(RemoteKind::GitLab, &headers(&all), body, secrets, now()).map(drop)
    };
    let both = secrets(&["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], &[SECRET]);
    assert_eq!(gitlab(&[("x-gitlab-token", SECRET)], &both), Ok(()));
    assert_eq!(gitlab(&[("x-gitlab-token", "wrong")], &both), Err(Rejected::Signature));
    assert_eq!(gitlab(&[("x-gitlab-token", "")], &secrets(&[], &[""])), Err(Rejected::Signature));
    assert_eq!(gitlab(&[("x-gitlab-token", "")], &Secrets::default()), Err(Rejected::Signature));
    assert_eq!(gitlab(&[], &both), Err(Rejected::Header("webhook-signature")));
    // A token does not stand in for a signature that does not hold.
    let signed = [
        ("x-gitlab-token", SECRET),
        ("webhook-id", "1"),
        ("webhook-timestamp", "1768478400"),
        ("webhook-signature", "v1,AAAA"),
    ];
    assert_eq!(gitlab(&signed, &both), Err(Rejected::Signature));
    let hub = [("x-github-event", "ping"), ("x-github-delivery", "d"), ("x-hub-signature-256", "sha256=")];
    let unsigned = read(RemoteKind::GitHub, &headers(&hub), body, &secrets(&[""], &[]), now());
    assert_eq!(unsigned.map(drop), Err(Rejected::Signature));
}

#[test]
fn what_can_be_refused_by_its_headers_is() {
    let body = br#"{"zen": "x"}"#;
    let mut form = headers(&[
        ("x-github-event", "ping"),
        ("x-github-delivery", "d"),
        ("x-hub-signature-256", "sha256=00"),
    ]);
    assert_eq!(look(RemoteKind::GitHub, &form), Ok(()));
    form.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
    assert_eq!(look(RemoteKind::GitHub, &form), Err(Rejected::ContentType));
    assert_eq!(look(RemoteKind::GitHub, &headers(&[])), Err(Rejected::Header("x-github-event")));
    assert_eq!(from_github("ping", body).unwrap().news, News::Ping);
    for malformed in [&b"[]"[..], b"", b"{", b"null", "[".repeat(9_999).as_bytes()] {
        assert_eq!(from_github("push", malformed), Err(Rejected::Malformed));
        assert_eq!(from_gitlab("Push Hook", malformed), Err(Rejected::Malformed));
    }
}

#[test]
fn every_payload_of_github_is_news_or_none() {
    let packed = std::fs::File::open(cases("github-examples.json.gz")).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(packed).read_to_string(&mut text).unwrap();
    let all: Vec<Value> = serde_json::from_str(&text).unwrap();
    let mut n_read = 0;
    let mut told: std::collections::BTreeMap<String, usize> = Default::default();
    for kind in &all {
        let event = kind["event"].as_str().unwrap();
        for example in kind["examples"].as_array().unwrap() {
            let delivery = from_github(event, example.to_string().as_bytes()).unwrap();
            n_read += 1;
            let word = match delivery.news {
                News::Event(Event { what: What::Comment { .. }, repository }) => {
                    assert!(repository.contains('/'));
                    "comment"
                }
                News::Event(Event { what: What::CommentGone { .. }, .. }) => "comment gone",
                News::Event(Event { what: What::Request { .. }, .. }) => "request",
                News::Event(Event { what: What::Push { .. }, .. }) => "push",
                News::Event(Event { what: What::Ticked { .. }, .. }) => "ticked",
                News::Ping => "ping",
                News::Installation => "installation",
                News::Nothing(_) => "nothing",
            };
            *told.entry(format!("{event}: {word}")).or_default() += 1;
        }
    }
    assert_eq!(n_read, 154);
    assert_eq!(told["ping: ping"], 4);
    assert_eq!(told["pull_request: request"], 29);
    assert_eq!(told["pull_request_review: request"], 4);
    assert_eq!(told["installation: installation"], 7);
    assert!(told.contains_key("push: push") && told.contains_key("issues: nothing"), "{told:?}");
}

#[test]
fn boxes_are_read_from_what_changed_in_an_issue() {
    let pool = PoolId { cluster: "dc1".into(), pool: "a100".into() };
    let before = boxes::part(std::slice::from_ref(&pool));
    let after = before.replacen("- [ ]", "- [x]", 1);
    let ticked = |is_bot| {
        let by = Person { id: 3, login: "kim".into() };
        let what = What::Ticked { issue: "4".into(), pools: vec![pool.clone()], by, is_bot };
        News::Event(Event { repository: "acme/infra".into(), what })
    };
    let github = |action: &str, from: Option<&str>, to: &str, kind: &str| {
        let said = json!({
            "action": action,
            "changes": from.map_or_else(|| json!({}), |from| json!({"body": {"from": from}})),
            "issue": {"number": 4, "body": to},
            "sender": {"id": 3, "login": "kim", "type": kind},
            "repository": {"full_name": "acme/infra"},
        });
        from_github("issues", said.to_string().as_bytes()).unwrap().news
    };
    assert_eq!(github("edited", Some(&before), &after, "User"), ticked(false));
    assert_eq!(github("edited", Some(&before), &after, "Bot"), ticked(true));
    for (action, from, to) in [
        ("edited", Some(&after), &before),
        ("edited", Some(&after), &after),
        ("edited", None, &after),
        ("opened", Some(&before), &after),
    ] {
        let news = github(action, from.map(String::as_str), to, "User");
        assert!(matches!(news, News::Nothing(_)), "{action}: {news:?}");
    }

    let gitlab = |changes: &Value| {
        let said = json!({
            "user": {"id": 3, "username": "kim"},
            "project": {"path_with_namespace": "acme/infra"},
            "object_attributes": {"iid": 4, "action": "update", "description": after},
            "changes": changes,
        });
        told(RemoteKind::GitLab, "Issue Hook", said.to_string().as_bytes()).unwrap()
    };
    assert_eq!(gitlab(&json!({"description": {"previous": before, "current": after}})), ticked(false));
    for changes in [json!({}), json!({"title": {"previous": "a", "current": "b"}}), json!(null)] {
        assert!(matches!(gitlab(&changes), News::Nothing(_)), "{changes}");
    }
}

#[test]
fn a_comment_on_githubs_pull_request_is_read_and_one_on_an_issue_is_not() {
    let mut said = json!({
        "action": "created",
        "issue": {"number": 7, "pull_request": {"url": "x"}},
        "comment": {"id": 11, "body": "slicewright status\r\nplease", "user": {"id": 3, "login": "kim", "type": "User"}},
        "repository": {"full_name": "acme/infra"},
    });
    let news = |said: &Value| from_github("issue_comment", said.to_string().as_bytes()).unwrap().news;
    let expected = What::Comment {
        request: "7".into(),
        comment: "11".into(),
        author: Person { id: 3, login: "kim".into() },
        is_bot: false,
        text: "slicewright status\nplease".into(),
        head: None,
        internal: false,
    };
    assert_eq!(news(&said), News::Event(Event { repository: "acme/infra".into(), what: expected }));
    said["comment"]["user"]["type"] = json!("Bot");
    assert!(matches!(news(&said), News::Event(Event { what: What::Comment { is_bot: true, .. }, .. })));
    said["action"] = json!("edited");
    assert_eq!(news(&said), News::Nothing("a comment that is edited asks for nothing"));
    said["action"] = json!("deleted");
    assert!(matches!(news(&said), News::Event(Event { what: What::CommentGone { .. }, .. })));
    said["issue"]["pull_request"] = Value::Null;
    assert_eq!(news(&said), News::Nothing("it is on an issue"));
}

#[test]
fn every_payload_of_gitlab_is_news_or_none() {
    let read = |file: &str, event: &str| {
        from_gitlab(event, &std::fs::read(cases("gitlab").join(file)).unwrap()).unwrap()
    };
    let note = read("note_merge_request.json", "Note Hook");
    assert_eq!(note.key, "k");
    let News::Event(Event { repository, what: What::Comment { request, comment, author, text, head, .. } }) =
        note.news
    else {
        panic!("a comment on a merge request");
    };
    assert_eq!((repository.as_str(), request.as_str()), ("gitlab-org/gitlab-test", "1"));
    assert_eq!((comment.as_str(), author.login.as_str()), ("1244", "root"));
    assert_eq!(text, "This MR needs work.");
    assert!(head.is_some());
    let request = read("merge_request.json", "Merge Request Hook");
    assert!(matches!(request.news, News::Event(Event { what: What::Request { .. }, .. })));
    let push = read("push.json", "Push Hook");
    assert!(matches!(push.news, News::Event(Event { what: What::Push { .. }, .. })), "{push:?}");
    for (file, event) in [
        ("note_issue.json", "Note Hook"),
        ("note_commit.json", "Note Hook"),
        ("issue.json", "Issue Hook"),
        ("job.json", "Job Hook"),
        ("pipeline.json", "Pipeline Hook"),
        ("tag_push.json", "Tag Push Hook"),
        ("tag_push.json", "Push Hook"),
    ] {
        assert!(matches!(read(file, event).news, News::Nothing(_)), "{file} as {event}");
    }
}

#[test]
fn a_delivery_without_a_number_has_its_contents_for_one() {
    let headers = headers(&[("x-gitlab-event", "Push Hook"), ("x-gitlab-token", SECRET)]);
    let key =
        |body: &[u8]| read(RemoteKind::GitLab, &headers, body, &secrets(&[], &[SECRET]), now()).unwrap().key;
    assert_eq!(key(b"{}"), key(b"{}"));
    assert_ne!(key(b"{}"), key(b"{ }"));
    assert!(key(b"{}").starts_with("sha256-44136fa355b3678a"));
}
