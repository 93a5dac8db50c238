//! How fast deliveries are acknowledged, beside Probot, and what 100,000 of them cost in memory.
//!
//! `cargo bench --bench hooks` needs `wrk`, `node` and `npm` on the path, and Debian's PostgreSQL. It sends signed comments,
//! each another one and of the size that GitHub's are, with a command in each: the server has to read and prove it, to find
//! the command, and to write down what is to be done, through to the disk, before it answers. Its workers go on meanwhile,
//! with a forge that takes 100 ms for each answer and knows of nothing. Probot gets the same bytes, proves and reads them, and hands them to an app that does
//! nothing; it writes nothing down.
//!
//! `SLICEWRIGHT_BENCH_MEMORY=1` sends 100,000 deliveries instead, and tells how much memory the server holds on the way.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on ends there")]
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
#![allow(dead_code, unused_imports, reason = "the world is the tests': the benchmark needs a part of it")]

#[path = "../tests/world/mod.rs"]
mod world;

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use world::forge::state::INFRA;
use world::postgres::Postgres;
use world::served::{SECRET, Served};

const HOOK: &str = "/hooks/github/forge";
/// The number of the first comment.
const FIRST: u64 = 100_000_000_000;
/// Deliveries that are signed beforehand.
const N_SIGNED: u64 = 600_000;
/// Connections of the client that sends as fast as it can.
const CONNECTIONS: u32 = 64;
const SECONDS: u32 = 8;
/// A client that sends so many at a time, and how often, for the memory.
const N_LONG: u32 = 100_000;

/// Where wrk finds what it sends.
struct Deliveries {
    folder: tempfile::TempDir,
    next: u64,
}

impl Deliveries {
    /// Signs them all.
    fn new() -> Self {
        let body = body();
        let (before, after) = body.split_once(&FIRST.to_string()).unwrap();
        let start = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap().chain_update(before);
        let mut signatures = String::new();
        for n in 0..N_SIGNED {
            let mac = start.clone().chain_update((FIRST + n).to_string()).chain_update(after);
            for byte in mac.finalize().into_bytes() {
                use std::fmt::Write as _;
                write!(signatures, "{byte:02x}").unwrap();
            }
        }
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("before", before), ("after", after), ("signatures", &signatures)] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        println!("deliveries of {} bytes", body.len());
        Self { folder, next: 0 }
    }
}

/// A comment as GitHub tells of it, by its published example, with a command in it.
fn body() -> String {
    let file = std::fs::File::open(world::checkout("tests/cases/webhook/github-examples.json.gz")).unwrap();
    let all: Vec<serde_json::Value> =
        serde_json::from_reader(BufReader::new(flate2::read::GzDecoder::new(file))).unwrap();
    let published = all.iter().find(|one| one["event"] == "issue_comment").unwrap();
    let mut comment = published["examples"][0].clone();
    comment["action"] = "created".into();
    comment["repository"]["full_name"] = INFRA.into();
    comment["issue"]["pull_request"] = serde_json::json!({"url": "x"});
    comment["comment"]["body"] = "slicewright why item=search/ocr-svc".into();
    comment["comment"]["user"]["type"] = "User".into();
    comment["comment"]["id"] = FIRST.into();
    let body = comment.to_string();
    assert_eq!(body.matches(&FIRST.to_string()).count(), 1);
    body
}

/// What a run of wrk came to.
#[derive(Clone, Copy)]
struct Figures {
    per_second: f64,
    p99_ms: f64,
}

impl Deliveries {
    /// Sends as fast as it goes over so many connections, or with a pause of so many ms before each.
    fn send(&mut self, url: &str, connections: u32, pause_ms: u32, seconds: u32) -> Figures {
        let script = world::checkout("benches/rival/load.lua");
        let output = Command::new("wrk")
            .args(["-t1", &format!("-c{connections}"), &format!("-d{seconds}s"), "--latency", "-s"])
            .arg(script)
            .arg(format!("{url}{HOOK}"))
            .arg("--")
            .arg(self.folder.path())
            .args([self.next.to_string(), pause_ms.to_string()])
            .output()
            .expect("wrk is on the path: it is Debian's package `wrk`");
        let text = String::from_utf8(output.stdout).unwrap();
        let figures = text.lines().find_map(|line| line.strip_prefix("figures ")).expect(&text);
        let figures: Vec<u64> = figures.split(' ').map(|figure| figure.parse().unwrap()).collect();
        let [n, microseconds, failed, p99] = figures[..] else { panic!("{figures:?}") };
        assert_eq!(failed, 0, "every delivery must be acknowledged: {text}");
        // Those that were under way at the end count as sent.
        self.next += n + u64::from(connections);
        assert!(self.next < N_SIGNED, "more deliveries are needed");
        Figures { per_second: n as f64 * 1e6 / microseconds as f64, p99_ms: p99 as f64 / 1e3 }
    }

    /// The most per second; then the latency at half of that.
    fn measure(&mut self, url: &str) -> (Figures, Figures) {
        self.send(url, CONNECTIONS, 0, 2);
        let most = self.send(url, CONNECTIONS, 0, SECONDS);
        // Each connection sends once in about 20 ms then.
        let connections = (most.per_second / 2.0 * 0.020).ceil();
        let half = self.send(url, whole(connections).max(1), 20, SECONDS);
        (most, half)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small count of connections")]
fn whole(n: f64) -> u32 {
    n as u32
}

/// A forge that takes its time, as forges do, and at which nothing is found.
fn empty_forge() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let app = axum::Router::new().fallback(|| async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let body = [("content-type", "application/json")];
        (axum::http::StatusCode::NOT_FOUND, body, r#"{"message": "Not Found"}"#)
    });
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            axum::serve(listener, app).await.unwrap();
        });
    });
    url
}

/// The program, with this store (a line of YAML below `server`).
fn server(home: &Path, forge: &str, store: &str) -> Served {
    std::fs::write(home.join("token"), "x").unwrap();
    std::fs::write(home.join("hook-secret"), SECRET).unwrap();
    let text = format!(
        "forges:\n  - {{name: forge, kind: github, url: '{forge}', token_file: token}}\nclusters:\n  - name: dc1\n    \
         prometheus: {{url: 'http://127.0.0.1:1'}}\n    repository: {{forge: forge, name: {INFRA}}}\n    pools:\n      \
         - {{name: a100-40gb, nodes: 'dc1-gpu-.*'}}\nserver:\n  listen: 127.0.0.1:0\n  hooks:\n    - {{forge: forge, \
         secrets: [{{file: hook-secret}}]}}\n{store}"
    );
    std::fs::write(home.join("slicewright.yaml"), text).unwrap();
    Served::start_with(home, &[], "warn")
}

/// Probot, until it is dropped.
struct Probot {
    child: Child,
    url: String,
}

impl Probot {
    fn start() -> Self {
        let home = world::checkout("target/rival/probot");
        std::fs::create_dir_all(&home).unwrap();
        for name in ["package.json", "package-lock.json", "server.mjs"] {
            std::fs::copy(world::checkout("benches/rival/probot").join(name), home.join(name)).unwrap();
        }
        let npm = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
        let installed = Command::new("npm").args(npm).current_dir(&home).status();
        assert!(installed.expect("npm is on the path").success(), "npm could not install Probot");
        let mut child = Command::new("node")
            .args(["server.mjs", SECRET, HOOK])
            .current_dir(&home)
            .env("NODE_ENV", "production")
            .stdout(Stdio::piped())
            .spawn()
            .expect("node is on the path");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, url: line.trim().to_owned() }
    }
}

impl Drop for Probot {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn main() {
    let mut deliveries = Deliveries::new();
    let forge = empty_forge();
    if std::env::var_os("SLICEWRIGHT_BENCH_MEMORY").is_some() {
        return hold(&mut deliveries, &forge);
    }
    let rival = {
        let probot = Probot::start();
        deliveries.measure(&probot.url)
    };
    print("Probot, which writes nothing down", rival, None);
    for (name, store) in [("SQLite", None), ("PostgreSQL", Some(Postgres::with_fsync("on")))] {
        let home = tempfile::tempdir().unwrap();
        let (line, _database) = match store {
            None => (String::new(), None),
            Some(mut database) => {
                std::fs::write(home.path().join("url"), database.new_database()).unwrap();
                ("  store: {url_file: url}\n".to_owned(), Some(database))
            }
        };
        let served = server(home.path(), &forge, &line);
        let figures = deliveries.measure(&served.url());
        print(name, figures, Some(rival));
        println!("  memory afterwards: {} MiB", served.memory_mib());
    }
}

fn print(name: &str, (most, half): (Figures, Figures), rival: Option<(Figures, Figures)>) {
    let ratio = rival.map(|(rival, _)| format!(", {:.2} of the rival's", most.per_second / rival.per_second));
    println!(
        "{name}: {:.0} deliveries a second{}; at {:.0} a second 99 of 100 within {:.1} ms",
        most.per_second,
        ratio.unwrap_or_default(),
        half.per_second,
        half.p99_ms
    );
}

/// 100,000 deliveries on SQLite, at a pace that the workers cannot keep up with.
fn hold(deliveries: &mut Deliveries, forge: &str) {
    let home = tempfile::tempdir().unwrap();
    let served = server(home.path(), forge, "");
    println!("before the first delivery: {} MiB", served.memory_mib());
    let file = || std::fs::metadata(home.path().join("slicewright.db")).map_or(0, |file| file.len()) >> 20;
    while deliveries.next < u64::from(N_LONG) {
        deliveries.send(&served.url(), CONNECTIONS, 10, SECONDS);
        let memory = served.memory_mib();
        println!("after {} deliveries: {memory} MiB, and {} MiB on disk", deliveries.next, file());
    }
}
