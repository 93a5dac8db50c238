//! What anybody may send: refused without a word too many, and nothing breaks.

use std::io::Read as _;

use serde_json::{Value, json};

use super::{Service, on_both};
use crate::world::checkout;
use crate::world::forge::Face;
use crate::world::forge::state::{KIM, TOKEN};
use crate::world::golden;
use crate::world::prometheus::Prometheus;
use crate::world::served::{SECRET, Sent};

fn github() -> Service {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    Service::new(Face::GitHub, &prometheus, "").proposed()
}

/// The checklist of receivers, each item as whoever ignores it would break it.
#[test]
fn what_is_no_delivery_is_refused_by_its_kind() {
    on_both(|service, _| {
        let face = service.fake.face();
        let (_, sent) = service.told(KIM, "slicewright help");
        let server = service.server();
        let without = |name: &str| {
            let mut sent = sent.clone();
            sent.headers.retain(|(known, _)| known != name);
            server.deliver(&sent).status
        };
        let with = |name: &str, value: &str| {
            let mut sent = sent.clone();
            sent.headers.retain(|(known, _)| known != name);
            sent.headers.push((name.to_owned(), value.to_owned()));
            server.deliver(&sent).status
        };
        let (event, proof) = match face {
            Face::GitHub => ("x-github-event", "x-hub-signature-256"),
            Face::GitLab => ("x-gitlab-event", "x-gitlab-token"),
        };
        assert_eq!((without(event), without(proof)), (400, 400));
        assert_eq!(with("content-type", "application/x-www-form-urlencoded"), 415);
        for wrong in ["", "sha256=", "sha256=zz", "sha1=0000", &"0".repeat(5_000)] {
            assert_eq!(with(proof, wrong), 401, "{wrong}");
        }
        let mut other = sent.clone();
        other.body.push(b' ');
        if face == Face::GitHub {
            assert_eq!(server.deliver(&other).status, 401, "the very bytes are signed");
            let broken = Sent::of_bytes(face, "issue_comment", "k1", b"{\"action\":".to_vec());
            assert_eq!(server.deliver(&broken).status, 400);
            // GitLab's headers at GitHub's door, and the other way round.
            let gitlab =
                Sent { path: sent.path.clone(), ..Sent::new(Face::GitLab, "Note Hook", "k2", &json!({})) };
            assert_eq!(server.deliver(&gitlab).status, 400);
        }
        for path in ["/hooks/github/other", "/hooks/bitbucket/forge", "/hooks/github", "/hooks//forge", "/x"]
        {
            assert_eq!(server.deliver(&Sent { path: path.to_owned(), ..sent.clone() }).status, 404, "{path}");
        }
        assert_eq!(server.get(&sent.path).status, 405);
        let head = format!(
            "POST {} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 30000000\r\ncontent-type: application/json\r\n{}\r\n",
            sent.path,
            sent.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect::<String>()
        );
        assert_eq!(server.say(head.as_bytes()).status, 413, "before a byte of it is read");
        let quiet = service.words().len();
        assert_eq!(server.deliver(&sent).status, 202, "the delivery itself is good");
        assert!(quiet <= service.words().len());
        let answers: Vec<String> = server.log();
        assert!(answers.iter().all(|line| !line.contains(SECRET)), "no secret in the log");
    });
}

/// runatlantis/atlantis#6622: a page for setting the App up gave its key to whoever asked first. Keys come from files here,
/// and nothing can be set up from outside.
#[test]
fn nothing_is_set_up_over_the_network() {
    on_both(|service, _| {
        let server = service.server();
        for path in [
            "/setup",
            "/github-app/setup",
            "/github-app/exchange-code?code=1",
            "/hooks/github/forge/setup",
            "/api/config",
            "/config",
            "/slicewright.yaml",
            "/token",
            "/hook-secret",
            "/.env",
            "/debug/pprof",
        ] {
            for method in ["GET", "POST", "PUT", "DELETE"] {
                let heard = server.ask(method, path, &[("content-type", "application/json")], b"{}");
                assert!([404, 405].contains(&heard.status), "{method} {path}: {heard:?}");
            }
        }
        for path in ["/", "/pools/dc1/a100-40gb", "/healthz", "/readyz", "/metrics"] {
            let body = server.get(path).body;
            assert!(!body.contains(SECRET) && !body.contains(TOKEN), "{path} shows a secret");
        }
    });
}

#[test]
fn a_stranger_is_told_nothing_that_was_sent() {
    let service = github();
    let sent = Sent::new(Face::GitHub, "push", "k", &json!({"token": "s3cr3t-of-somebody"}));
    let mut wrong = sent.clone();
    wrong.headers.retain(|(name, _)| name != "x-hub-signature-256");
    wrong.headers.push(("x-hub-signature-256".into(), format!("sha256={}", "ab".repeat(32))));
    let heard = service.server().deliver(&wrong);
    assert_eq!((heard.status, heard.body.as_str()), (401, "the signature does not hold\n"));
    for header in ["content-security-policy", "x-content-type-options: nosniff", "x-request-id"] {
        assert!(heard.headers.contains(header), "{header}: {}", heard.headers);
    }
    let ping = Sent::new(Face::GitHub, "ping", "k2", &json!({"zen": "Keep it logically awesome."}));
    assert_eq!(service.server().deliver(&ping).status, 200);
}

/// bors-ng#425 answered 500 to events that it did not know, probot#921 after the work was done.
#[test]
fn every_published_payload_is_answered_and_nothing_falls_over() {
    let service = github();
    let file = std::fs::File::open(checkout("tests/cases/webhook/github-examples.json.gz")).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    let all: Vec<Value> = serde_json::from_str(&text).unwrap();
    let mut n = 0;
    for event in &all {
        let name = event["event"].as_str().unwrap();
        for example in event["examples"].as_array().unwrap() {
            n += 1;
            let heard = service.server().deliver(&Sent::new(Face::GitHub, name, &format!("k{n}"), example));
            assert_eq!(heard.status, 200, "{name}: {heard:?}");
        }
    }
    assert!(n > 150, "{n}");
    assert_eq!(service.server().get("/healthz").status, 200);
}

#[test]
fn gitlabs_payloads_are_answered_too() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    let service = Service::new(Face::GitLab, &prometheus, "").proposed();
    for entry in std::fs::read_dir(checkout("tests/cases/webhook/gitlab")).unwrap() {
        let path = entry.unwrap().path();
        let body = std::fs::read(&path).unwrap();
        for event in ["Note Hook", "Merge Request Hook", "Push Hook", "Job Hook", "Nonsense Hook", ""] {
            let key = format!("{}-{event}", path.file_stem().unwrap().to_string_lossy());
            let heard = service.server().deliver(&Sent::of_bytes(Face::GitLab, event, &key, body.clone()));
            assert_eq!(heard.status, 200, "{}: {heard:?}", path.display());
        }
    }
}

/// What is refused GitHub does not send again: a burst waits for its turn instead.
#[test]
fn a_burst_of_deliveries_is_taken_as_a_whole() {
    let service = github();
    let body = |n: u64| {
        json!({
            "action": "created",
            "issue": {"number": 1, "pull_request": {}},
            "comment": {"id": n, "body": "slicewright help", "user": {"id": 77, "login": "nobody", "type": "User"}},
            "repository": {"full_name": crate::world::forge::state::INFRA},
        })
    };
    let server = service.server();
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let send = |n: u64| {
            let sent = Sent::new(Face::GitHub, "issue_comment", &format!("burst-{n}"), &body(100_000 + n));
            scope.spawn(move || server.deliver(&sent).status)
        };
        let all: Vec<_> = (0..600).map(send).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(statuses.iter().all(|status| *status == 202), "{statuses:?}");
}
