//! `emulate`, a GitHub that others wrote (npm, Vercel Labs), with the organization `acme` and its private repository
//! `infra`.
//!
//! It lives as long as its value: dropping it ends the process by its own handle. It checks an App's token and what an
//! installation may, keeps git objects by their true ids, and delivers signed webhooks. It has no GraphQL, no archives and
//! no commit statuses.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::forge::github::{APP, APP_KEY};
use super::prometheus::read_log;
use super::repo::{MAIN, files_below};
use super::{checkout, npm_script, python_tool};

/// The token of [`BOT`].
pub(crate) const TOKEN: &str = "emulated-token";
/// The bot where it signs in with a token.
pub(crate) const BOT: &str = "slicewright-bot";
/// The account of the App.
pub(crate) const APP_LOGIN: &str = "slicewright[bot]";
/// Where people open it, as it says.
pub(crate) const URL: &str = "http://emulate.test";

const REPOSITORY: &str = "/repos/acme/infra";
const KIMS_TOKEN: &str = "kims-token";

const START_DEADLINE: Duration = Duration::from_secs(60);

/// A running one.
pub(crate) struct Emulate {
    child: Child,
    url: String,
    runtime: tokio::runtime::Runtime,
    http: reqwest::Client,
    _home: TempDir,
}

/// Where an App's webhooks go, and the secret that signs them.
pub(crate) struct Hook<'a> {
    pub(crate) url: &'a str,
    pub(crate) secret: &'a str,
}

impl Emulate {
    /// One whose repository has the files of a folder in one commit on top of the first, which it makes itself.
    pub(crate) fn holding(folder: &Path, hook: Option<&Hook<'_>>) -> Self {
        let home = tempfile::tempdir().unwrap();
        let seed = home.path().join("seed.json");
        std::fs::write(&seed, seed_text(hook).to_string()).unwrap();
        let mut child = Command::new(python_tool("node"))
            .arg("--import")
            .arg(checkout("tests/tools/loopback.mjs"))
            .arg(npm_script("emulate", "dist/index.js"))
            .args(["start", "--service", "github", "--base-url", URL, "--seed"])
            .arg(&seed)
            .env_clear()
            .current_dir(home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let words = read_log(child.stdout.take().expect("it is piped"));
        let Some(port) = wait_for_port(&words) else {
            let _ = child.kill();
            panic!("emulate did not listen within {START_DEADLINE:?}: {:?}", child.wait());
        };
        let emulate = Self {
            child,
            url: format!("http://127.0.0.1:{port}"),
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap(),
            http: reqwest::Client::builder().no_proxy().build().unwrap(),
            _home: home,
        };
        let read = |path: &String| std::fs::read_to_string(folder.join(path)).unwrap();
        let files: Vec<(String, String)> =
            files_below(folder).into_iter().map(|path| (path.clone(), read(&path))).collect();
        let files: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        emulate.commit_as_kim(MAIN, &files, "What runs where");
        emulate
    }

    /// Where its REST interface is.
    pub(crate) fn api_url(&self) -> &str {
        &self.url
    }

    /// What Kim is answered, whatever the status: `path` is below the repository's.
    pub(crate) fn ask(&self, method: reqwest::Method, path: &str, body: Option<&Value>) -> (u16, Value) {
        let mut request =
            self.http.request(method, format!("{}{REPOSITORY}{path}", self.url)).bearer_auth(KIMS_TOKEN);
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        self.runtime.block_on(async {
            let response = request.send().await.unwrap();
            let status = response.status().as_u16();
            (status, serde_json::from_str(&response.text().await.unwrap()).unwrap_or_default())
        })
    }

    /// What is there, as Kim sees it.
    pub(crate) fn shown(&self, path: &str) -> Value {
        let (status, shown) = self.ask(reqwest::Method::GET, path, None);
        assert_eq!(status, 200, "{path}: {shown}");
        shown
    }

    /// What Kim does; it must succeed.
    pub(crate) fn done(&self, method: reqwest::Method, path: &str, body: &Value) -> Value {
        let (status, answer) = self.ask(method, path, Some(body));
        assert!((200..300).contains(&status), "{path}: {status} {answer}");
        answer
    }

    /// Where a branch stands.
    pub(crate) fn head(&self, branch: &str) -> Option<String> {
        let (status, shown) = self.ask(reqwest::Method::GET, &format!("/git/ref/heads/{branch}"), None);
        (status == 200).then(|| shown["object"]["sha"].as_str().expect("a commit").to_owned())
    }

    /// A commit of Kim's on a branch that is there; returns its id.
    pub(crate) fn commit_as_kim(&self, branch: &str, files: &[(&str, &str)], message: &str) -> String {
        let head = self.head(branch).expect("the branch is there");
        let base = self.shown(&format!("/git/commits/{head}"))["tree"]["sha"].clone();
        let entry = |(path, text): &(&str, &str)| json!({"path": path, "mode": "100644", "type": "blob", "content": text});
        let entries: Vec<Value> = files.iter().map(entry).collect();
        let made = |path: &str, body: Value| self.done(reqwest::Method::POST, path, &body)["sha"].clone();
        let tree = made("/git/trees", json!({"base_tree": base, "tree": entries}));
        let commit = made("/git/commits", json!({"message": message, "tree": tree, "parents": [head]}));
        let at = format!("/git/refs/heads/{branch}");
        self.done(reqwest::Method::PATCH, &at, &json!({"sha": commit}));
        commit.as_str().expect("an id").to_owned()
    }

    /// Kim merges a pull request and keeps its branch.
    pub(crate) fn merge(&self, number: u64) {
        self.done(reqwest::Method::PUT, &format!("/pulls/{number}/merge"), &json!({}));
    }
}

impl Drop for Emulate {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The port that it says it listens on.
fn wait_for_port(words: &Receiver<String>) -> Option<u16> {
    let deadline = Instant::now() + START_DEADLINE;
    loop {
        let line = words.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()?;
        if let Some(port) = line.strip_prefix("listening on port ") {
            return port.parse().ok();
        }
    }
}

fn seed_text(hook: Option<&Hook<'_>>) -> Value {
    // GitHub makes an App's account with the App, and puts the account's number into its address. emulate makes it with its
    // first write, which is too late to know it by, and puts the App's number there. One that is seeded is used; seeded
    // accounts are counted from 3. The first of them is also who comes with a token that nobody has: on GitHub that is 401.
    let account = json!({"login": APP_LOGIN, "name": "Slicewright", "email": format!("4+{APP_LOGIN}@users.noreply.github.com")});
    let people = json!([
        {"login": "nobody"},
        account,
        {"login": BOT, "name": "Slicewright", "email": "bot@example.com"},
        {"login": "kim", "name": "Kim", "email": "kim@example.com"},
    ]);
    let may = json!({"contents": "write", "pull_requests": "write", "issues": "write", "checks": "write"});
    json!({
        "tokens": {
            TOKEN: {"login": BOT, "scopes": ["repo"]},
            KIMS_TOKEN: {"login": "kim", "scopes": ["repo"]},
        },
        "github": {
            "users": people,
            "orgs": [{"login": "acme", "members": [{"login": BOT, "role": "admin"}, {"login": "kim", "role": "admin"}]}],
            "repos": [{"owner": "acme", "name": "infra", "private": true, "auto_init": true}],
            "apps": [{
                "app_id": APP,
                "slug": "slicewright",
                "name": "Slicewright",
                "private_key": APP_KEY,
                "permissions": may,
                "events": ["push", "pull_request", "issue_comment"],
                "webhook_url": hook.map(|hook| hook.url),
                "webhook_secret": hook.map(|hook| hook.secret),
                "installations": [{"installation_id": 4711, "account": "acme", "repository_selection": "all"}],
            }],
        },
    })
}
