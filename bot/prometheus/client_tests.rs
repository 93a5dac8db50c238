use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use super::super::{Recorded, RecordedAnswer, Recorder};
use super::*;

const EMPTY: &str = r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#;

/// A server that gives canned answers in order, the last one for ever, and keeps what it was asked.
struct Canned {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

fn canned(answers: &[(u16, &str, &str)]) -> Canned {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/prefix/", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&asked);
    let answers: Vec<(u16, String, String)> = answers
        .iter()
        .map(|(status, headers, body)| (*status, (*headers).to_owned(), (*body).to_owned()))
        .collect();
    std::thread::spawn(move || {
        for (n, stream) in listener.incoming().enumerate() {
            let Ok(mut stream) = stream else { return };
            let mut request = Vec::new();
            let mut buffer = [0; 4_096];
            while let Ok(read) = stream.read(&mut buffer) {
                request.extend_from_slice(&buffer[..read]);
                let text = String::from_utf8_lossy(&request);
                let length = text
                    .lines()
                    .find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
                let body = text.split_once("\r\n\r\n").map_or(0, |(_, body)| body.len());
                if read == 0 || length.is_some_and(|length| body >= length) {
                    break;
                }
            }
            kept.lock().unwrap().push(String::from_utf8_lossy(&request).into_owned());
            let (status, headers, body) = &answers[n.min(answers.len() - 1)];
            let answer = format!(
                "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n{body}",
                body.len()
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    Canned { url, asked }
}

fn question() -> Ask {
    Ask {
        name: "up",
        what: "whether targets are up".into(),
        query: "up{job=\"a&b\"}".into(),
        time: "2026-01-14T23:59:59.999Z".parse().unwrap(),
    }
}

fn ask_with(settings: &Settings) -> Result<Answer, AskError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::new(settings).unwrap().with_first_pause(Duration::from_millis(1));
        client.instant(&question()).await
    })
}

fn check(answers: &[(u16, &str, &str)]) -> (Result<Answer, AskError>, Vec<String>) {
    let server = canned(answers);
    let result = ask_with(&Settings { url: server.url.clone(), ..Settings::default() });
    let asked = server.asked.lock().unwrap().clone();
    (result, asked)
}

fn problem(answers: &[(u16, &str, &str)]) -> (Problem, usize) {
    let (result, asked) = check(answers);
    (result.unwrap_err().problem, asked.len())
}

#[test]
fn questions_are_posted_with_their_time_and_limits() {
    let (result, asked) = check(&[(200, "", EMPTY)]);
    assert!(result.unwrap().series.is_empty());
    assert!(asked[0].starts_with("POST /prefix/api/v1/query HTTP/1.1"), "{}", asked[0]);
    for part in
        ["query=up%7Bjob%3D%22a%26b%22%7D", "time=1768435199.999", "timeout=120s", "partial_response=false"]
    {
        assert!(asked[0].contains(part), "{part} in {}", asked[0]);
    }
}

#[test]
fn passing_troubles_are_asked_again() {
    let (result, asked) = check(&[(500, "", "oops"), (429, "retry-after: 0\r\n", ""), (200, "", EMPTY)]);
    assert!(result.is_ok());
    assert_eq!(asked.len(), 3);
    assert_eq!(problem(&[(500, "", "oops")]), (Problem::Unreachable, 4));
}

#[test]
fn too_much_is_told_apart_from_wrong() {
    let too_many = r#"{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory in query execution"}"#;
    assert_eq!(problem(&[(422, "", too_many)]), (Problem::TooMuch, 1));
    let timeout =
        r#"{"status":"error","errorType":"timeout","error":"query timed out in expression evaluation"}"#;
    assert_eq!(problem(&[(503, "", timeout)]), (Problem::TooMuch, 1));
    let wrong =
        r#"{"status":"error","errorType":"execution","error":"found duplicate series for the match group"}"#;
    assert_eq!(problem(&[(422, "", wrong)]), (Problem::Refused, 1));
    assert_eq!(
        problem(&[(400, "", r#"{"status":"error","errorType":"bad_data","error":"parse error"}"#)]).0,
        Problem::Refused
    );
    assert_eq!(problem(&[(413, "", "")]), (Problem::TooMuch, 1));
}

#[test]
fn every_error_names_its_way_out() {
    let (result, _) = check(&[(401, "", "<html>login</html>")]);
    let error = result.unwrap_err();
    assert_eq!(error.problem, Problem::Denied);
    assert!(error.advice.contains("bearer_token_file"), "{}", error.advice);
    assert_eq!(
        error.to_string(),
        "cannot read whether targets are up: the server refuses the credentials: status 401: an HTML page"
    );
    let (result, _) = check(&[(404, "", "404 page not found")]);
    assert!(result.unwrap_err().advice.contains("/prefix/api/v1/query"));
    let (result, asked) = check(&[(302, "location: http://127.0.0.1:1/elsewhere\r\n", "")]);
    assert_eq!((result.unwrap_err().problem, asked.len()), (Problem::NotFound, 1));
    let refused =
        ask_with(&Settings { url: "http://127.0.0.1:1".into(), ..Settings::default() }).unwrap_err();
    assert_eq!(refused.problem, Problem::Unreachable);
    assert!(refused.advice.contains("`url`"), "{}", refused.advice);
}

#[test]
fn incomplete_and_foreign_answers_are_not_answers() {
    let warned =
        r#"{"status":"success","warnings":["store down"],"data":{"resultType":"vector","result":[]}}"#;
    assert_eq!(problem(&[(200, "", warned)]).0, Problem::Partial);
    let partial = r#"{"status":"success","isPartial":true,"data":{"resultType":"vector","result":[]}}"#;
    assert_eq!(problem(&[(200, "", partial)]).0, Problem::Partial);
    assert_eq!(problem(&[(200, "", "<html>please log in</html>")]).0, Problem::Malformed);
    let huge = "x".repeat(2 << 20);
    let server = canned(&[(200, "", &huge)]);
    let result = ask_with(&Settings { url: server.url, max_answer_mib: Some(1), ..Settings::default() });
    assert_eq!(result.unwrap_err().problem, Problem::TooMuch);
}

#[test]
fn secrets_are_sent_and_never_shown() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "s3cr3t-token\n").unwrap();
    let server = canned(&[(403, "", "no")]);
    let headers = std::collections::BTreeMap::from([
        ("X-Scope-OrgID".to_owned(), HeaderValue::Plain("team-a".into())),
        ("X-Api-Key".to_owned(), HeaderValue::File { file: token.clone() }),
    ]);
    let settings =
        Settings { url: server.url.clone(), bearer_token_file: Some(token), headers, ..Settings::default() };
    let error = ask_with(&settings).unwrap_err();
    let asked = server.asked.lock().unwrap()[0].to_lowercase();
    assert!(asked.contains("authorization: bearer s3cr3t-token"), "{asked}");
    assert!(asked.contains("x-scope-orgid: team-a") && asked.contains("x-api-key: s3cr3t-token"));
    assert!(!format!("{error:?} {error} {settings:?}").contains("s3cr3t"));
}

#[test]
fn settings_that_cannot_work_are_named() {
    let fails = |settings: Settings| match Client::new(&settings) {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    };
    let base = || Settings { url: "https://p.example".into(), ..Settings::default() };
    assert_eq!(fails(base()), "");
    assert!(fails(Settings { url: "prometheus:9090".into(), ..base() }).contains("http://"));
    assert!(fails(Settings { url: "https://u:p@p.example".into(), ..base() }).contains("credentials"));
    assert!(fails(Settings { username: Some("u".into()), ..base() }).contains("password_file"));
    let missing = Some("/nowhere/token".into());
    assert!(fails(Settings { bearer_token_file: missing, ..base() }).contains("`/nowhere/token`"));
    let unset = Some("SLICEWRIGHT_TEST_UNSET".to_owned());
    assert!(fails(Settings { bearer_token_env: unset, ..base() }).contains("SLICEWRIGHT_TEST_UNSET"));
}

#[test]
fn settings_refuse_what_they_do_not_know() {
    let good = "url: http://p\nheaders:\n  X-Scope-OrgID: a\n  X-Key: {env: KEY}\nmatchers: {cluster: dc1}\n";
    let settings: Settings = serde_saphyr::from_str(good).unwrap();
    assert_eq!(settings.headers["X-Key"], HeaderValue::Env { env: "KEY".into() });
    assert!(serde_saphyr::from_str::<Settings>("url: http://p\npassword: x\n").is_err());
}

#[test]
fn a_recording_answers_as_the_server_did_errors_included() {
    let row = r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{"b":"1","a":"2"},"value":[1,"0.1"]}]}}"#;
    let server = canned(&[(200, "", row), (422, "", "too many samples")]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::new(&Settings { url: server.url, ..Settings::default() }).unwrap();
        let recorder = Recorder::new(client);
        let other = Ask { query: "down".into(), ..question() };
        let first = recorder.instant(&question()).await.unwrap();
        let second = recorder.instant(&other).await.unwrap_err();
        let text = serde_json::to_string(&recorder.finish()).unwrap();
        let answers: Vec<RecordedAnswer> = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&answers).unwrap(), text);
        let replay = Recorded::new(answers);
        assert_eq!(replay.instant(&question()).await.unwrap().series, first.series);
        assert_eq!(replay.instant(&other).await.unwrap_err(), second);
        let unknown = Ask { query: "other".into(), ..question() };
        assert_eq!(replay.instant(&unknown).await.unwrap_err().problem, Problem::NotRecorded);
    });
}
