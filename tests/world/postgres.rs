//! A real PostgreSQL of Debian's package, on a free loopback port, with a data folder of its own.
//!
//! A shell keeps the server: it does what it is told through its standard input, and when that ends, as it does when the
//! value is dropped or the test process is gone in whichever way, it stops the server and deletes the folder. So one server
//! may be shared by all tests from a static, which is never dropped.

use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Receiver;
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

use super::prometheus::read_log;

const START_DEADLINE: Duration = Duration::from_secs(60);

/// Where Debian keeps the programs, by version.
const DEBIAN: &str = "/usr/lib/postgresql";

/// Who the tests are on the server.
const USER: &str = "app";

/// `$1` the programs, `$2` the folder, `$3` the port, `$4` whether it waits for the disk (`on`, `off`). Its own lines go to standard output, the server's to standard error.
const KEEPER: &str = r#"
end() { kill -INT "$server" 2>/dev/null; wait "$server"; }
start() {
    "$1/postgres" -D "$2/data" -p "$3" -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync="$4" \
        -c log_min_messages=warning -c log_min_error_statement=panic </dev/null &
    server=$!
}
"$1/initdb" -D "$2/data" -U app --auth=trust --no-sync -E UTF8 --locale=C.UTF-8 >/dev/null || exit 1
start "$@"
while read -r word; do
    case $word in
        crash) kill -QUIT "$server"; wait "$server" ;;
        start) start "$@" ;;
    esac
    echo "$word"
done
end
rm -rf "$2"
"#;

/// A running server.
pub(crate) struct Postgres {
    keeper: Child,
    said: Receiver<String>,
    log: Receiver<String>,
    port: u16,
    n_databases: u32,
}

/// The server that tests share which do it no harm.
static SHARED: LazyLock<Mutex<Postgres>> = LazyLock::new(|| Mutex::new(Postgres::start()));

/// The URL of a new, empty database on the server that all tests share.
pub(crate) fn new_database() -> String {
    SHARED.lock().expect("it was made, and makes databases").new_database()
}

impl Postgres {
    /// One of one's own. It does not wait for the disk: no test ends the machine.
    pub(crate) fn start() -> Self {
        Self::with_fsync("off")
    }

    /// One that waits for the disk or does not (`on`, `off`).
    pub(crate) fn with_fsync(fsync: &str) -> Self {
        let mut seen = String::new();
        // A port that is free now may be taken when the server asks for it.
        for _ in 0..5 {
            match Self::try_start(fsync) {
                Ok(server) => return server,
                Err(log) => seen.push_str(&log),
            }
        }
        panic!("PostgreSQL did not become ready; its log:\n{seen}");
    }

    fn try_start(fsync: &str) -> Result<Self, String> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let home = tempfile::Builder::new().prefix("postgres").tempdir().unwrap().keep();
        let mut command = Command::new("sh");
        command.args(["-c", KEEPER, "keeper"]).arg(programs()).arg(&home).arg(port.to_string()).arg(fsync);
        if let Some((user, group)) = other_user() {
            chown(&home, Some(user), Some(group)).unwrap();
            command.uid(user).gid(group);
        }
        let mut keeper = command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").expect("PATH is set"))
            .current_dir("/")
            // What a terminal sends to end the tests is not for it: it sees that they are gone, and cleans up.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = read_log(keeper.stdout.take().expect("it is piped"));
        let log = read_log(keeper.stderr.take().expect("it is piped"));
        let server = Self { keeper, said, log, port, n_databases: 0 };
        server.wait_until_ready().map(|()| server)
    }

    /// It says that it is ready on its log, at a level that is always printed.
    fn wait_until_ready(&self) -> Result<(), String> {
        let deadline = Instant::now() + START_DEADLINE;
        let mut seen = String::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = self.log.recv_timeout(left) else { return Err(seen) };
            if line.contains("database system is ready to accept connections") {
                return Ok(());
            }
            let gone = line.contains("database system is shut down");
            seen.push_str(&line);
            seen.push('\n');
            if gone {
                return Err(seen);
            }
        }
    }

    /// The URL of a new, empty database.
    pub(crate) fn new_database(&mut self) -> String {
        self.n_databases += 1;
        let name = format!("t{}", self.n_databases);
        let output = Command::new(programs().join("createdb"))
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", USER, &name])
            .output()
            .unwrap();
        assert!(output.status.success(), "createdb: {}", String::from_utf8_lossy(&output.stderr));
        format!("postgres://{USER}@127.0.0.1:{}/{name}", self.port)
    }

    /// Its port on the loopback address.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Ends it as a failure of the machine would: nothing is written any more, nobody is told.
    pub(crate) fn crash(&mut self) {
        self.tell("crash");
    }

    /// Starts it again after [`Postgres::crash`].
    pub(crate) fn start_again(&mut self) {
        // What it said when it ended is no answer to this.
        while self.log.try_recv().is_ok() {}
        self.tell("start");
        self.wait_until_ready().unwrap();
    }

    fn tell(&mut self, word: &str) {
        let keeper = self.keeper.stdin.as_mut().expect("it is piped");
        writeln!(keeper, "{word}").unwrap();
        assert_eq!(self.said.recv_timeout(START_DEADLINE).as_deref(), Ok(word));
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// The folder with the programs of the newest version.
fn programs() -> PathBuf {
    let versions = std::fs::read_dir(DEBIAN).into_iter().flatten();
    let folders = versions.map(|entry| entry.unwrap().path().join("bin"));
    folders
        .filter(|folder| folder.join("postgres").is_file())
        .max_by_key(|folder| version(folder))
        .unwrap_or_else(|| {
            panic!("there is no PostgreSQL below `{DEBIAN}`: run `tests/run`, which installs it")
        })
}

fn version(bin: &Path) -> Option<u32> {
    bin.parent()?.file_name()?.to_str()?.parse().ok()
}

/// User and group to run as, when the tests run as root: PostgreSQL refuses to.
fn other_user() -> Option<(u32, u32)> {
    let id = |arguments: &[&str]| -> u32 {
        let output = Command::new("id").args(arguments).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.trim().parse().expect("`id` prints a number: Debian's package makes the user `postgres`")
    };
    (id(&["-u"]) == 0).then(|| (id(&["-u", "postgres"]), id(&["-g", "postgres"])))
}
