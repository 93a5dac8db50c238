//! What it costs to look after many repositories: requests a proposal, time and memory.
//!
//! `cargo bench --bench forge` makes 200 repositories with 20 open proposals each behind the fake GitHub of the tests, and
//! lets the bot look at all of them twice, each time with nothing to do. The second time is what a bot does all day. The
//! rival is the forge itself: a client that adds nothing would take its time alone.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on ends there")]
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
#![allow(dead_code, unused_imports, reason = "the world is the tests': the benchmark needs a part of it")]

#[path = "../tests/world/mod.rs"]
mod world;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::Instant;

use slicewright::engine::pass::{Pass, Ready, Subject};
use slicewright::forge::settings::{RemoteKind, Settings};
use slicewright::forge::{Forge, Target, connect};
use slicewright::render::Dialect;
use slicewright_core::ids::PoolId;
use slicewright_core::review::lifecycle::Wanted;
use slicewright_core::review::metadata::Metadata;
use slicewright_core::review::overrides::Overrides;
use world::forge::state::{BOT, INFRA, Request, State, TOKEN};
use world::forge::{Face, FakeForge};
use world::repo::{BareRepo, MAIN};

const N_REPOSITORIES: usize = 200;
const N_POOLS: usize = 20;
/// Files of each repository, of 3 KiB each.
const N_FILES: usize = 200;
/// Where the forge is, for the process of the bot.
const URL: &str = "SLICEWRIGHT_BENCH_FORGE";
const EMAIL: &str = "bot@slicewright.invalid";
/// Repositories that are looked at at once.
const AT_ONCE: usize = 4;

fn branch(pool: usize) -> String {
    format!("slicewright/dc1/pool-{pool}")
}

fn content(pool: usize, slice: &str) -> String {
    format!("# Pool {pool}.\nlimits:\n  {slice}: 1\n{}", "# padding\n".repeat(300))
}

/// One repository as a stream for `git fast-import`: `main`, and a branch of the bot a pool.
fn stream() -> String {
    let mut stream = String::new();
    let commit = |stream: &mut String, name: &str, email: &str, from: &str, files: &[(String, String)]| {
        let mark = if from.is_empty() { "mark :1\n" } else { "" };
        write!(
            stream,
            "commit refs/heads/{name}\n{mark}author B <{email}> 1768435200 +0000\ncommitter B <{email}> 1768435200 \
             +0000\ndata 1\nx\n{from}"
        )
        .unwrap();
        for (path, text) in files {
            write!(stream, "M 100644 inline {path}\ndata {}\n{text}\n", text.len()).unwrap();
        }
        stream.push('\n');
    };
    let files: Vec<_> =
        (0..N_FILES).map(|n| (format!("pools/{n}.yaml"), content(n, "nvidia.com/gpu"))).collect();
    commit(&mut stream, MAIN, "robin@example.com", "", &files);
    for pool in 0..N_POOLS {
        let file = (format!("pools/{pool}.yaml"), content(pool, "nvidia.com/mig-2g.10gb"));
        commit(&mut stream, &branch(pool), EMAIL, "from :1\n", &[file]);
    }
    stream
}

fn ready(pool: usize) -> Ready {
    let text = content(pool, "nvidia.com/mig-2g.10gb");
    Ready {
        wanted: Wanted {
            title: "Share GPUs".to_owned(),
            body: "The text.".to_owned(),
            fingerprint: "f".to_owned(),
            files: BTreeMap::from([(format!("pools/{pool}.yaml"), Some(text.into_bytes()))]),
            method: "MIG".to_owned(),
            cards_freed: 2,
            shares: BTreeMap::new(),
            outgrown: Vec::new(),
        },
        message: "Share GPUs".to_owned(),
        draft: false,
        reviewers: Vec::new(),
    }
}

fn path(repository: usize) -> String {
    if repository == 0 { INFRA.to_owned() } else { format!("acme/infra-{repository}") }
}

/// A forge with all repositories and proposals.
fn forge() -> FakeForge {
    let stream = stream();
    let make = || {
        let repo = BareRepo::empty();
        repo.git_with(&["fast-import", "--quiet"], &stream);
        repo
    };
    let mut state = State::new(make());
    state.checks = false;
    for repository in 1..N_REPOSITORIES {
        state.add(&path(repository), make());
    }
    for repository in 0..N_REPOSITORIES {
        let repository = state.repositories.get_mut(&path(repository)).unwrap();
        let heads = repository.git.heads();
        for pool in 0..N_POOLS {
            let noted = Metadata {
                cluster: "dc1".to_owned(),
                pool: format!("pool-{pool}"),
                base_branch: MAIN.to_owned(),
                base_commit: heads[MAIN].clone(),
                head: heads[&branch(pool)].clone(),
                fingerprint: "f".to_owned(),
                title: "Share GPUs".to_owned(),
                method: "MIG".to_owned(),
                cards_freed: 2,
                ..Metadata::default()
            };
            repository.requests.push(Request {
                number: pool as u64 + 1,
                title: "Share GPUs".to_owned(),
                body: noted.attach("The text.", None),
                source: branch(pool),
                target: MAIN.to_owned(),
                author: BOT,
                ..Request::new(world::forge::state::CLOCK)
            });
        }
    }
    FakeForge::start(Face::GitHub, state)
}

/// One look at one repository; everything must be as it should be.
async fn look(forge: &dyn Forge) {
    let identity = forge.identity().await.unwrap();
    let base_branch = forge.base_branch().await.unwrap();
    let base_commit = forge.head().await.unwrap();
    forge.read_tree(&base_commit).await.unwrap();
    for pool in 0..N_POOLS {
        let id = PoolId { cluster: "dc1".to_owned(), pool: format!("pool-{pool}") };
        let subject = Subject {
            pool: &id,
            branch: &branch(pool),
            base_branch: &base_branch,
            base_commit: &base_commit,
            at: "2026-01-15T12:00:00Z".parse().unwrap(),
            metrics: &[],
            labels: &[],
            dialect: Dialect::GitHub,
            keys: &[],
            checks: false,
            asked: None,
            overrides: &Overrides::default(),
        };
        let ready = ready(pool);
        let pass = Pass::new(forge, subject, &identity, Some(&ready), None);
        let found = forge.find(&branch(pool), &base_commit).await.unwrap();
        let action = pass.decide(&found);
        let done = pass.carry_out(&found, action).await.unwrap();
        assert_eq!(done.action.reason(), "nothing differs", "{:?}", done.action);
    }
}

/// Memory of this process, in MiB.
fn memory_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1_024.0
}

/// One bot a repository.
fn bots(url: &str) -> Vec<Box<dyn Forge>> {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("token"), TOKEN).unwrap();
    let settings = Settings {
        name: "forge".to_owned(),
        kind: RemoteKind::GitHub,
        url: Some(url.to_owned()),
        token_file: Some(home.path().join("token")),
        timeout_seconds: Some(120),
        former_emails: vec![EMAIL.to_owned()],
        ..Settings::default()
    };
    let bot = |n| {
        let target = Target {
            repository: path(n),
            branch_prefix: "slicewright".to_owned(),
            author_name: "Slicewright".to_owned(),
            author_email: EMAIL.to_owned(),
            ..Target::default()
        };
        connect(&settings, target).unwrap()
    };
    (0..N_REPOSITORIES).map(bot).collect()
}

/// The bot, in a process of its own: its memory is not the forge's. A line comes in for each look, and one goes out after
/// it: seconds, and MiB that the bot has more than before the first.
fn look_when_told(url: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let inside = runtime.enter();
    let bots = bots(url);
    drop(inside);
    let before = memory_mib();
    for _ in std::io::stdin().lines() {
        let started = Instant::now();
        runtime.block_on(async {
            use futures_util::StreamExt as _;
            futures_util::stream::iter(&bots).for_each_concurrent(AT_ONCE, |bot| look(bot.as_ref())).await;
        });
        println!("{} {}", started.elapsed().as_secs_f64(), memory_mib() - before);
    }
}

fn main() {
    if let Ok(url) = std::env::var(URL) {
        return look_when_told(&url);
    }
    let fake = forge();
    let n_proposals = (N_REPOSITORIES * N_POOLS) as f64;
    let content_mib = (N_REPOSITORIES * N_FILES * content(0, "nvidia.com/gpu").len()) as f64 / 1_048_576.0;
    println!(
        "{N_REPOSITORIES} repositories of {N_FILES} files ({content_mib:.0} MiB), {N_POOLS} proposals each"
    );
    let mut bot = Command::new(std::env::current_exe().unwrap())
        .env(URL, fake.url())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut tell, mut told) =
        (bot.stdin.take().unwrap(), BufReader::new(bot.stdout.take().unwrap()).lines());
    for round in ["first look", "second look, nothing changed"] {
        fake.take_log();
        fake.take_busy();
        writeln!(tell).unwrap();
        let line = told.next().expect("the bot went on").unwrap();
        let (wall, memory) = line.split_once(' ').unwrap();
        let (wall, memory): (f64, f64) = (wall.parse().unwrap(), memory.parse().unwrap());
        let log = fake.take_log();
        let unchanged = log.iter().filter(|line| line.status == 304).count();
        println!(
            "{round}: {:.2} requests a proposal, {:.2} of them answered with 304; {wall:.1} s, {:.2} times the forge's own time; \
             {memory:.0} MiB more, {:.2} times the files",
            log.len() as f64 / n_proposals,
            unchanged as f64 / n_proposals,
            wall / fake.take_busy(),
            memory / content_mib,
        );
    }
    drop(tell);
    bot.wait().unwrap();
}
