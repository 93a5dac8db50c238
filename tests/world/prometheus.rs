//! A real Prometheus of Debian's `prometheus` package, on a free loopback port, with a data folder of its own.
//!
//! It lives as long as its value: dropping it ends the process by its own handle.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::certificates;
use super::series::{Cluster, STEP, Series};

/// What a client has to bring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Security {
    /// Basic auth with [`USER`] and [`PASSWORD`].
    pub(crate) basic_auth: bool,
    /// HTTPS with a certificate for `127.0.0.1` that only [`Prometheus::ca_file`] vouches for.
    pub(crate) tls: bool,
}

pub(crate) const USER: &str = "reader";
pub(crate) const PASSWORD: &str = "only-for-tests";
/// bcrypt of [`PASSWORD`] with the lowest cost.
const PASSWORD_BCRYPT: &str = "$2b$04$abcdefghijklmnopqrstuuSOASZ5gFdIXxQU/MI4albXfVKBHc6R2";

const START_DEADLINE: Duration = Duration::from_secs(60);
/// Blocks as long as the longest window: what is written series by series, not by time, is in order for each series,
/// and nothing is compacted while a test runs.
const BLOCK: &str = "120d";

/// A running Prometheus that accepts remote write.
pub(crate) struct Prometheus {
    child: Child,
    address: String,
    security: Security,
    home: TempDir,
}

/// One row of an instant query's answer: labels and value.
pub(crate) type Sample = (BTreeMap<String, String>, f64);

impl Prometheus {
    /// An empty one.
    pub(crate) fn start() -> Self {
        Self::spawn(tempfile::tempdir().unwrap(), Security::default())
    }

    /// One that holds the history of these clusters, by remote write.
    pub(crate) fn holding(clusters: &[&Cluster]) -> Self {
        let server = Self::start();
        for cluster in clusters {
            server.push(&cluster.series());
        }
        server
    }

    /// One whose blocks `promtool` made from OpenMetrics files (a file a UTC day) before it started.
    pub(crate) fn from_openmetrics(files: &[PathBuf]) -> Self {
        let home = tempfile::tempdir().unwrap();
        for file in files {
            // `--max-block-duration` is hidden in 2.42's help, works, and saves reading the file once per two hours.
            let output = Command::new(installed("promtool"))
                .args(["tsdb", "create-blocks-from", "openmetrics", "--max-block-duration=24h", "-q"])
                .arg(file)
                .arg(home.path().join("data"))
                .output()
                .unwrap();
            let complaint = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "promtool refused `{}`: {complaint}", file.display());
        }
        Self::spawn(home, Security::default())
    }

    /// The same data behind another door; the old process is ended first.
    pub(crate) fn restart(mut self, security: Security) -> Self {
        self.end();
        let home = std::mem::replace(&mut self.home, tempfile::tempdir().unwrap());
        Self::spawn(home, security)
    }

    fn spawn(home: TempDir, security: Security) -> Self {
        let program = installed("prometheus");
        let at = |name: &str| home.path().join(name);
        // Nothing is scraped: only what a test writes is there.
        std::fs::write(at("prometheus.yml"), "global: {scrape_interval: 60s}\n").unwrap();
        write_web_config(home.path(), security);
        let mut child = Command::new(program)
            .arg(format!("--config.file={}", at("prometheus.yml").display()))
            .arg(format!("--web.config.file={}", at("web.yml").display()))
            .arg(format!("--storage.tsdb.path={}", at("data").display()))
            .arg(format!("--storage.tsdb.min-block-duration={BLOCK}"))
            .arg(format!("--storage.tsdb.max-block-duration={BLOCK}"))
            // The windows of the tests lie in the past for good.
            .args(["--storage.tsdb.retention.time=100y", "--web.enable-remote-write-receiver"])
            .args(["--web.listen-address=127.0.0.1:0", "--query.timeout=10m"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = read_log(child.stderr.take().expect("the log is piped"));
        match wait_for_address(&log) {
            Ok(address) => Self { child, address, security, home },
            Err(seen) => {
                let _ = child.kill();
                let _ = child.wait();
                panic!("Prometheus did not become ready within {START_DEADLINE:?}; its log:\n{seen}");
            }
        }
    }

    /// `http://127.0.0.1:<port>`, or `https://…`.
    pub(crate) fn url(&self) -> String {
        let scheme = if self.security.tls { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// The certificate to trust; there is one when TLS is on.
    pub(crate) fn ca_file(&self) -> Option<PathBuf> {
        self.security.tls.then(|| self.home.path().join("ca.pem"))
    }

    /// Writes series by remote write. Each call must be later in time than the one before, for each series.
    pub(crate) fn push(&self, series: &[Series]) {
        self.push_rows(series.iter().map(|one| {
            let mut labels: Vec<(&str, &str)> = vec![("__name__", one.name)];
            labels.extend(one.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())));
            let times = (0..).map(|n| (one.first + n * STEP) * 1_000);
            (labels, one.values.iter().copied().zip(times).collect())
        }));
    }

    /// Writes rows of labels (with `__name__`) and samples (value, time in milliseconds) by remote write.
    ///
    /// The next batch is made while the server takes the one before.
    pub(crate) fn push_rows<'a>(
        &self,
        rows: impl Iterator<Item = (Vec<(&'a str, &'a str)>, Vec<(f64, i64)>)>,
    ) {
        const BATCH_BYTES: usize = 4 << 20;
        let (send, receive) = std::sync::mpsc::sync_channel::<Vec<u8>>(1);
        std::thread::scope(|scope| {
            scope.spawn(move || receive.iter().for_each(|body| self.remote_write(&body)));
            let mut body = Vec::new();
            for (labels, samples) in rows {
                field(&mut body, 1, &time_series(labels, &samples));
                if body.len() > BATCH_BYTES {
                    send.send(std::mem::take(&mut body)).expect("the writer says itself what went wrong");
                }
            }
            if !body.is_empty() {
                send.send(body).expect("the writer says itself what went wrong");
            }
            drop(send);
        });
    }

    fn remote_write(&self, body: &[u8]) {
        // Snappy's block format with one literal: nothing is compressed, and no crate is needed.
        let mut framed = Vec::with_capacity(body.len() + 16);
        varint(&mut framed, body.len() as u64);
        framed.push(63 << 2);
        framed.extend(u32::try_from(body.len() - 1).expect("a batch is a few MiB").to_le_bytes());
        framed.extend(body);
        let headers = "Content-Type: application/x-protobuf\r\nContent-Encoding: snappy\r\n\
                       X-Prometheus-Remote-Write-Version: 0.1.0\r\n";
        let (status, answer) = self.http("POST", "/api/v1/write", headers, &framed);
        assert!(status == 204 || status == 200, "remote write: {status}: {answer}");
    }

    /// Answers an instant query at `time` (seconds). For looking at the data; the bot has its own client.
    pub(crate) fn instant(&self, query: &str, time: i64) -> Vec<Sample> {
        let form = format!("query={}&time={time}", form_encoded(query));
        let headers = "Content-Type: application/x-www-form-urlencoded\r\n";
        let (status, answer) = self.http("POST", "/api/v1/query", headers, form.as_bytes());
        assert_eq!(status, 200, "`{query}`: {answer}");
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        let rows = answer["data"]["result"].as_array().expect("a vector");
        rows.iter()
            .map(|row| {
                let labels = serde_json::from_value(row["metric"].clone()).unwrap();
                let value = row["value"][1].as_str().expect("a sample").parse().unwrap();
                (labels, value)
            })
            .collect()
    }

    /// HTTP/1.0 on a fresh connection, so that the answer ends where the connection does.
    fn http(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> (u16, String) {
        assert_eq!(self.security, Security::default(), "write and look before `restart` closes the door");
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nHost: {}\r\n{headers}Content-Length: {length}\r\n\r\n",
            self.address
        )
        .unwrap();
        stream.write_all(body).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").expect("an HTTP answer");
        let status = head.split(' ').nth(1).expect("a status line").parse().unwrap();
        (status, body.to_owned())
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        self.end();
    }
}

/// The path of a program of Debian's `prometheus` package.
fn installed(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").expect("PATH is set");
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
        .unwrap_or_else(|| {
            panic!("`{program}` is not installed: run `tests/run`, which installs what the tests need")
        })
}

/// Reads the log for as long as the process lives, so that its pipe never fills.
pub(crate) fn read_log(log: impl Read + Send + 'static) -> Receiver<String> {
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(log).lines().map_while(Result::ok) {
            let _ = send.send(line);
        }
    });
    receive
}

/// Prometheus picks the port itself and says which, then says that it is ready. `Err` is the log so far.
fn wait_for_address(log: &Receiver<String>) -> Result<String, String> {
    let deadline = Instant::now() + START_DEADLINE;
    let (mut address, mut ready, mut seen) = (None, false, String::new());
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let line = match log.recv_timeout(left) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Err(seen),
        };
        writeln!(seen, "{line}").expect("a string takes all");
        if let Some((_, rest)) = line.split_once("msg=\"Listening on\" address=") {
            address = Some(rest.trim().to_owned());
        }
        ready |= line.contains("Server is ready to receive web requests");
        if let (Some(address), true) = (&address, ready) {
            return Ok(address.clone());
        }
    }
}

fn write_web_config(home: &Path, security: Security) {
    let mut text = String::new();
    if security.tls {
        certificates::make(home);
        text.push_str("tls_server_config: {cert_file: server.pem, key_file: server.key}\n");
    }
    if security.basic_auth {
        writeln!(text, "basic_auth_users: {{{USER}: '{PASSWORD_BCRYPT}'}}").expect("a string takes all");
    }
    std::fs::write(home.join("web.yml"), text).unwrap();
}

/// A message `TimeSeries` of remote write.
fn time_series(mut labels: Vec<(&str, &str)>, samples: &[(f64, i64)]) -> Vec<u8> {
    let mut message = Vec::with_capacity(64 * labels.len() + 18 * samples.len());
    labels.sort_unstable();
    for (name, value) in labels {
        let mut label = Vec::with_capacity(name.len() + value.len() + 8);
        field(&mut label, 1, name.as_bytes());
        field(&mut label, 2, value.as_bytes());
        field(&mut message, 1, &label);
    }
    for (value, time) in samples {
        // Sample { 1: double value, 2: int64 milliseconds }, of 16 bytes: times of our age take six bytes as a varint.
        let mut sample = [0x12, 16, 0x09, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0];
        sample[3..11].copy_from_slice(&value.to_le_bytes());
        assert!((1 << 35..1 << 42).contains(time), "{time} is not milliseconds of our age");
        let bits = time.unsigned_abs();
        for (n, byte) in sample[12..].iter_mut().enumerate() {
            *byte = ((bits >> (7 * n)) & 127) as u8 | if n < 5 { 128 } else { 0 };
        }
        message.extend_from_slice(&sample);
    }
    message
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value > 127 {
        out.push((value & 127) as u8 | 128);
        value >>= 7;
    }
    out.push((value & 127) as u8);
}

/// A length-delimited protobuf field.
fn field(out: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    out.push(number << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend(bytes);
}

fn form_encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").expect("a string takes all");
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::golden;
    use crate::world::series::{Dialect, END, HostLabel, PodLabels, SCRAPE_LEAD};

    /// The peaks of one service, as a client would ask for them.
    fn peaks(server: &Prometheus, pod: &str) -> Vec<f64> {
        let query = format!(r#"max by (UUID) (max_over_time(DCGM_FI_DEV_FB_USED{{{pod}}}[15d]))"#);
        server.instant(&query, END).into_iter().map(|(_, value)| value).collect()
    }

    #[test]
    fn a_pushed_cluster_answers_with_exact_peaks_and_days() {
        let cluster = golden::dc1();
        let server = Prometheus::holding(&[&cluster]);
        for (service, peak, sm) in golden::DC1_SERVICES {
            assert_eq!(peaks(&server, &format!(r#"pod=~"{service}-.*""#)), [peak as f64]);
            let day =
                format!(r#"quantile_over_time(0.99, DCGM_FI_PROF_SM_ACTIVE{{pod=~"{service}-.*"}}[1d])"#);
            let worst = server.instant(&day, END)[0].1;
            assert!((worst - sm).abs() < 1e-9, "{service}: {worst}");
        }
        let counted = server.instant("count_over_time(DCGM_FI_DEV_FB_USED[1d])", END - 86_400);
        assert!(counted.len() == 3 && counted.iter().all(|(_, n)| (*n - 288.0).abs() < 0.1), "{counted:?}");
        let owners = server.instant(r#"kube_replicaset_owner{owner_name="embed-svc"}"#, END);
        assert_eq!(owners.len(), 1, "an instant query at the end sees the last scrape");
    }

    #[test]
    fn blocks_made_by_promtool_hold_the_same() {
        let mut cluster = golden::dev_use1(golden::Notebooks::Dev);
        cluster.days = 2;
        cluster.dialect =
            Dialect { host_label: HostLabel::Lower, pod_labels: PodLabels::Exported, ..Dialect::default() };
        for workload in &mut cluster.workloads {
            workload.days = 0..2;
            if let crate::world::series::Memory::Peak { peak_day, .. } = &mut workload.load.memory {
                *peak_day = 1;
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let server = Prometheus::from_openmetrics(&cluster.write_openmetrics(folder.path()));
        let found = peaks(&server, r#"exported_namespace="dev-notebooks",hostname!="""#);
        assert_eq!(found.len(), 4);
        assert!((found.iter().sum::<f64>() - 17_920.0).abs() < 0.1, "{found:?}");
        let last = server.instant("max(timestamp(DCGM_FI_DEV_FB_USED))", END)[0].1;
        assert!((last - (END - SCRAPE_LEAD) as f64).abs() < 0.1);
    }

    #[tokio::test]
    async fn basic_auth_and_tls_guard_the_same_data() {
        let mut cluster = golden::train1();
        cluster.days = 1;
        cluster.workloads.iter_mut().for_each(|workload| workload.days = 0..1);
        let server = Prometheus::holding(&[&cluster]).restart(Security { basic_auth: true, tls: true });
        let ca = std::fs::read(server.ca_file().expect("TLS is on")).unwrap();
        let ca = reqwest::Certificate::from_pem(&ca).unwrap();
        let client = reqwest::Client::builder().no_proxy().tls_certs_only([ca]).build().unwrap();
        let url = format!("{}/api/v1/query?query=count(DCGM_FI_DEV_FB_USED)&time={END}", server.url());
        let refused = client.get(&url).send().await.unwrap();
        assert_eq!(refused.status(), 401);
        let answer = client.get(&url).basic_auth(USER, Some(PASSWORD)).send().await.unwrap();
        let text = answer.text().await.unwrap();
        assert!(text.contains(r#""9""#), "{text}");
    }
}
