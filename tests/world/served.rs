//! The program as a server, in a process of its own, and what forges send it.
//!
//! It lives as long as its value: dropping it ends the process by its own handle.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use super::forge::Face;
use super::forge::state::{INFRA, State};
use super::wait::until;

/// What hooks are signed with.
pub(crate) const SECRET: &str = "a-secret-of-the-hooks-for-tests";

/// A running server.
pub(crate) struct Served {
    child: Child,
    url: String,
    address: String,
    log: Arc<Mutex<Vec<String>>>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) status: u16,
    pub(crate) headers: String,
    pub(crate) body: String,
}

impl Served {
    /// Starts it in `home`, where its `slicewright.yaml` is; `listen` must be a port of 0.
    pub(crate) fn start(home: &Path, at: &str) -> Self {
        Self::start_with(home, &["--at", at], "warn,slicewright=info")
    }

    /// As [`Served::start`], with these arguments and this much log.
    pub(crate) fn start_with(home: &Path, more: &[&str], log: &str) -> Self {
        Self::start_in(home, more, &[("RUST_LOG", log)])
    }

    /// As [`Served::start`], with these arguments and variables.
    pub(crate) fn start_in(home: &Path, more: &[&str], variables: &[(&str, &str)]) -> Self {
        // A write past what `room` leaves is an error then, as on a full disk, and not the end of the process.
        let mut child = Command::new("sh")
            .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_slicewright")])
            .current_dir(home)
            .arg("serve")
            .args(if more.contains(&"--log-format") { &[][..] } else { &["--log-format", "json"] })
            .args(more)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let lines = Arc::clone(&log);
        let stderr = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        });
        let mut served = Self { child, url: String::new(), address: String::new(), log };
        served.url = until(60, "the server to listen", || {
            let said = served.log();
            assert!(served.child.try_wait().unwrap().is_none(), "the server ended: {said:?}");
            let listening = said.iter().find_map(|line| line.split_once("listening on "));
            listening.map(|(_, url)| url.trim().to_owned())
        });
        served.address = served.url.split_once("://").unwrap().1.to_owned();
        served
    }

    /// Memory that it holds, in MiB.
    pub(crate) fn memory_mib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1_024
    }

    /// What it logged.
    pub(crate) fn log(&self) -> Vec<String> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    /// Ends it at once, wherever it is.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Asks it to end, and waits for that; returns its exit code.
    pub(crate) fn stop(mut self) -> Option<i32> {
        self.signal("-TERM");
        until(40, "the server to end", || self.child.try_wait().unwrap()).code()
    }

    /// Lets no file that it writes grow past so many bytes; `None`: as long as there is room.
    pub(crate) fn room(&self, bytes: Option<u64>) {
        let most = bytes.map_or("unlimited".to_owned(), |bytes| bytes.to_string());
        let set = Command::new("prlimit")
            .args(["--pid", &self.child.id().to_string(), &format!("--fsize={most}:unlimited")])
            .status()
            .unwrap();
        assert!(set.success());
    }

    /// Asks it to read its configuration again.
    pub(crate) fn reload(&self) {
        self.signal("-HUP");
    }

    /// Sends a request as it is, and reads the answer to its end.
    pub(crate) fn say(&self, request: &[u8]) -> Heard {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(40))).unwrap();
        // It may answer before it has read everything.
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (headers, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = headers.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
        Heard { status, headers: headers.to_lowercase(), body: body.to_owned() }
    }

    /// Sends a request with these headers and this body.
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Heard {
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: {}\r\n",
            self.address,
            body.len()
        );
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        let mut request = format!("{request}\r\n").into_bytes();
        request.extend(body);
        self.say(&request)
    }

    pub(crate) fn get(&self, path: &str) -> Heard {
        self.ask("GET", path, &[], b"")
    }

    /// Delivers as the forge does.
    pub(crate) fn deliver(&self, delivery: &Sent) -> Heard {
        let headers: Vec<(&str, &str)> =
            delivery.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        self.ask("POST", &delivery.path, &headers, &delivery.body)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A delivery of a forge.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Sent {
    /// Signed, with this key.
    pub(crate) fn new(face: Face, event: &str, key: &str, body: &Value) -> Self {
        Self::of_bytes(face, event, key, serde_json::to_vec(body).unwrap())
    }

    pub(crate) fn of_bytes(face: Face, event: &str, key: &str, body: Vec<u8>) -> Self {
        let (path, headers) = match face {
            Face::GitHub => {
                let mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
                let mac = mac.chain_update(&body).finalize().into_bytes();
                let digits: String = mac.iter().map(|byte| format!("{byte:02x}")).collect();
                let signature = format!("sha256={digits}");
                let headers = [
                    ("x-github-event", event),
                    ("x-github-delivery", key),
                    ("x-hub-signature-256", &signature),
                ];
                (
                    "/hooks/github/forge",
                    headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
                )
            }
            Face::GitLab => {
                let headers =
                    [("x-gitlab-event", event), ("idempotency-key", key), ("x-gitlab-token", SECRET)];
                (
                    "/hooks/gitlab/forge",
                    headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
                )
            }
        };
        let mut all = headers;
        all.push(("content-type".to_owned(), "application/json".to_owned()));
        Self { path: path.to_owned(), headers: all, body }
    }
}

impl State {
    /// What the forge sends about a comment that `user` just wrote; the comment's number beside it.
    pub(crate) fn told_by(&mut self, face: Face, branch: &str, user: u64, text: &str) -> (String, Sent) {
        let id = self.comment(branch, user, text);
        let (login, is_bot) = {
            let user = &self.users[&user];
            (user.login.clone(), user.is_bot)
        };
        let number = self.request_of(branch).number;
        let head = self.infra().git.head(branch);
        let key = format!("delivery-{id}");
        let sent = match face {
            Face::GitHub => Sent::new(
                face,
                "issue_comment",
                &key,
                &json!({
                    "action": "created",
                    "issue": {"number": number, "pull_request": {"url": "x"}},
                    "comment": {
                        "id": id,
                        "body": text,
                        "user": {"id": user, "login": login, "type": if is_bot { "Bot" } else { "User" }},
                        // What GitHub says of members who keep their membership to themselves.
                        "author_association": "NONE",
                    },
                    "repository": {"full_name": INFRA},
                }),
            ),
            Face::GitLab => Sent::new(
                face,
                "Note Hook",
                &key,
                &json!({
                    "object_kind": "note",
                    "user": {"id": user, "username": login},
                    "project": {"path_with_namespace": INFRA},
                    "object_attributes": {
                        "id": id, "note": text, "noteable_type": "MergeRequest", "system": false, "action": "create",
                    },
                    "merge_request": {"iid": number, "last_commit": {"id": head}},
                }),
            ),
        };
        (id.to_string(), sent)
    }

    /// What the forge sends when `user` ticks the box of a pool on the first issue of `acme/infra`.
    pub(crate) fn ticked_by(&mut self, face: Face, user: u64, pool: &str) -> Sent {
        let (login, is_bot) = {
            let user = &self.users[&user];
            (user.login.clone(), user.is_bot)
        };
        let key = format!("delivery-{}", self.new_id());
        let issue = &mut self.infra().issues[0];
        let before = issue.body.clone();
        let after = before.replace(&format!("- [ ] `{pool}`"), &format!("- [x] `{pool}`"));
        assert_ne!(before, after, "there is an empty box");
        issue.body.clone_from(&after);
        let number = issue.number;
        let (event, body) = match face {
            Face::GitHub => (
                "issues",
                json!({
                    "action": "edited",
                    "changes": {"body": {"from": before}},
                    "issue": {"number": number, "body": after},
                    "sender": {"id": user, "login": login, "type": if is_bot { "Bot" } else { "User" }},
                    "repository": {"full_name": INFRA},
                }),
            ),
            Face::GitLab => (
                "Issue Hook",
                json!({
                    "object_kind": "issue",
                    "user": {"id": user, "username": login},
                    "project": {"path_with_namespace": INFRA},
                    "object_attributes": {"iid": number, "action": "update", "description": after},
                    "changes": {"description": {"previous": before, "current": after}},
                }),
            ),
        };
        Sent::new(face, event, &key, &body)
    }

    /// What the forge sends about a branch that was moved.
    pub(crate) fn pushed(&mut self, face: Face, branch: &str) -> Sent {
        let key = format!("delivery-{}", self.new_id());
        let event = match face {
            Face::GitHub => "push",
            Face::GitLab => "Push Hook",
        };
        let body = json!({
            "ref": format!("refs/heads/{branch}"),
            "repository": {"full_name": INFRA},
            "project": {"path_with_namespace": INFRA},
        });
        Sent::new(face, event, &key, &body)
    }
}
