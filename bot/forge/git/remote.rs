//! A repository on a server: fetched from and pushed to over HTTP, with nothing secret in an argument or an address.
//!
//! A push is the one way on some forges to move a branch only if nobody else did meanwhile.

use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};

use super::Git;
use crate::forge::{ForgeError, one_line};

/// Where the environment says how to get out.
const PROXIES: [&str; 8] = [
    "http_proxy",
    "HTTP_PROXY",
    "https_proxy",
    "HTTPS_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "no_proxy",
    "NO_PROXY",
];

/// A repository on a server.
pub(in crate::forge) struct Remote {
    /// `https://HOST/group/project.git`; plain `http` only for this machine.
    pub(in crate::forge) url: String,
    /// Value of the header `Authorization`.
    pub(in crate::forge) authorization: SecretString,
    /// PEM file with the certificate authorities to trust.
    pub(in crate::forge) ca_file: Option<PathBuf>,
    /// How long one command may take.
    pub(in crate::forge) timeout: Duration,
}

/// What became of a push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::forge) enum Pushed {
    /// The branch is where it was to be put.
    Done,
    /// The branch was not where it was said to be; it is untouched.
    Stale,
    /// The server would not have it, in its own words.
    Refused(String),
}

impl Git {
    /// Brings `commit` and its folders here, without the contents of files and without its history.
    ///
    /// # Errors
    /// [`ForgeError::Unanswered`] when it may go better the next time, else [`ForgeError::Failed`]: git does not get
    /// through.
    pub(in crate::forge) async fn fetch(&self, remote: &Remote, commit: &str) -> Result<(), ForgeError> {
        super::refuse_options(commit)?;
        let arguments = [
            "fetch",
            "--quiet",
            "--depth=1",
            "--filter=blob:none",
            "--no-tags",
            "--no-write-fetch-head",
            "--",
            &remote.url,
            commit,
        ];
        let output = self.speak(remote, &arguments).await?;
        if output.status.success() {
            return Ok(());
        }
        Err(failure(format!("`git fetch` of {commit} from {}", remote.url), &output))
    }

    /// Moves `branch` from `expected` to `new`, or deletes it, in one step or not at all.
    ///
    /// # Errors
    /// [`ForgeError::Unanswered`] when it is not known what became of it; [`ForgeError::Failed`] when git does not get
    /// through, and nothing was written.
    pub(in crate::forge) async fn push(
        &self,
        remote: &Remote,
        branch: &str,
        expected: &str,
        new: Option<&str>,
    ) -> Result<Pushed, ForgeError> {
        let name = format!("refs/heads/{branch}");
        let lease = format!("--force-with-lease={name}:{expected}");
        let order = format!("{}:{name}", new.unwrap_or_default());
        let arguments = ["push", "--porcelain", "--no-verify", &lease, "--", &remote.url, &order];
        let output = self.speak(remote, &arguments).await?;
        if output.status.success() {
            return Ok(Pushed::Done);
        }
        let told = String::from_utf8_lossy(&output.stdout);
        let line =
            told.lines().find_map(|line| line.strip_prefix("!\t")?.split('\t').nth(1)).unwrap_or_default();
        let faster = [
            "stale info",
            "cannot lock ref",
            "failed to update ref",
            "fetch first",
            "remote ref does not exist",
        ];
        if faster.iter().any(|sign| line.contains(sign)) {
            return Ok(Pushed::Stale);
        }
        if line.starts_with("[rejected]") || line.starts_with("[remote rejected]") {
            return Ok(Pushed::Refused(format!("{line} {}", complaint(&output)).trim().to_owned()));
        }
        Err(failure(format!("`git push` of `{branch}` to {}", remote.url), &output))
    }

    /// Runs one command that speaks to the server.
    async fn speak(&self, remote: &Remote, arguments: &[&str]) -> Result<Output, ForgeError> {
        let verb = arguments.first().copied().unwrap_or_default();
        let unanswered = |cause: Option<std::io::Error>| ForgeError::Unanswered {
            what: format!("`git {verb}` with {}, within {} s", remote.url, remote.timeout.as_secs()),
            cause: cause.map(Into::into),
        };
        let mut command = self.command();
        // Our own address is `http` only where that stays on this machine.
        let protocol = if remote.url.starts_with("http://") { "http" } else { "https" };
        command.env("GIT_ALLOW_PROTOCOL", protocol);
        for name in PROXIES {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        let header = format!("Authorization: {}", remote.authorization.expose_secret());
        let seconds = remote.timeout.as_secs().max(1).to_string();
        let ca_file = remote.ca_file.as_ref().map(|path| path.display().to_string());
        let mut settings = vec![
            ("http.extraHeader", header.as_str()),
            // The header would go along.
            ("http.followRedirects", "false"),
            ("http.lowSpeedLimit", "1"),
            ("http.lowSpeedTime", &seconds),
            ("credential.helper", ""),
            // The server knows the base although no branch may be at it any more; without this all of it is sent back.
            ("push.negotiate", "true"),
            // A delta would be made from contents that were left on the server. The few files of a change go whole;
            // `--no-thin` does not arrive at the program that packs for HTTP.
            ("pack.window", "0"),
        ];
        settings.extend(ca_file.as_deref().map(|path| ("http.sslCAInfo", path)));
        command.env("GIT_CONFIG_COUNT", settings.len().to_string());
        for (at, (name, value)) in settings.iter().enumerate() {
            command.env(format!("GIT_CONFIG_KEY_{at}"), name).env(format!("GIT_CONFIG_VALUE_{at}"), value);
        }
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut command = tokio::process::Command::from(command);
        let running = command.kill_on_drop(true).output();
        match tokio::time::timeout(remote.timeout, running).await {
            Ok(Ok(output)) => Ok(output),
            Ok(Err(cause)) => Err(ForgeError::Failed {
                what: format!("cannot run `git {verb}`"),
                cause: Some(Box::new(cause)),
            }),
            Err(_) => Err(unanswered(None)),
        }
    }
}

/// What a command that failed means: what the network does to it may pass, what the server says stays.
fn failure(what: String, output: &Output) -> ForgeError {
    const PASSING: [&str; 14] = [
        "returned error: 5",
        "returned error: 429",
        "HTTP 5",
        "HTTP 429",
        "Could not resolve",
        "Failed to connect",
        "Couldn't connect",
        "timed out",
        "Operation too slow",
        "Empty reply",
        "reset by peer",
        "Recv failure",
        "early EOF",
        "hung up",
    ];
    let said = complaint(output);
    let what = format!("{what}: {said}");
    if PASSING.iter().any(|sign| said.contains(sign)) {
        return ForgeError::Unanswered { what, cause: None };
    }
    ForgeError::Failed { what, cause: None }
}

/// What git and the server said, on one line.
fn complaint(output: &Output) -> String {
    one_line(&String::from_utf8_lossy(&output.stderr))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn what_may_pass_is_told_from_what_stays() {
        let passes = |said: &str| {
            let status = std::process::ExitStatus::from_raw(128 << 8);
            let output = Output { status, stdout: Vec::new(), stderr: said.into() };
            matches!(failure("x".into(), &output), ForgeError::Unanswered { .. })
        };
        assert!(passes("fatal: unable to access 'https://x/': Could not resolve host: x"));
        assert!(passes("error: RPC failed; HTTP 502 curl 22 The requested URL returned error: 502"));
        assert!(passes("fatal: unable to access 'https://x/': Empty reply from server"));
        assert!(!passes(
            "remote: Git access over HTTP is not allowed\nfatal: The requested URL returned error: 403"
        ));
        assert!(!passes("fatal: couldn't find remote ref 4f2c"));
        assert!(!passes("fatal: unable to access 'https://x/': SSL certificate problem"));
    }
}
