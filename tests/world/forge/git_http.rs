//! Clone and push over HTTP: git's own `http-backend`.

use std::io::Write as _;
use std::process::{Command, Stdio};

use super::state::{Role, State};
use super::{Call, Reply};
use crate::world::repo::git_program;

/// The repository that a call of git is about: `/acme/infra.git/info/refs` is about `acme/infra`.
pub(crate) fn repository_of(call: &Call) -> Option<(String, String)> {
    let (path, rest) = call.path.split_once(".git/")?;
    let rest = format!("/{rest}");
    let ends = ["/info/refs", "/git-upload-pack", "/git-receive-pack"];
    ends.contains(&rest.as_str()).then(|| (path.trim_start_matches('/').to_owned(), rest))
}

/// Asks `git http-backend`, for those who may.
pub(crate) fn answer(state: &mut State, call: &Call) -> Reply {
    let Some((path, rest)) = repository_of(call) else { return Reply { status: 404, ..Reply::default() } };
    let token = call.header("authorization").and_then(token_of);
    let Some(user) = token.and_then(|token| state.tokens.get(&token).copied()) else {
        let asks = Reply { status: 401, ..Reply::default() };
        return asks.with("www-authenticate", "Basic realm=\"git\"");
    };
    let Some(repository) = state.repositories.get(&path) else {
        return Reply { status: 404, ..Reply::default() };
    };
    let writes = rest == "/git-receive-pack" || call.asked("service") == Some("git-receive-pack");
    let role = repository.roles.get(&user).copied();
    if role.is_none_or(|role| writes && role < Role::Write) || writes && repository.archived {
        return Reply { status: 403, ..Reply::default() };
    }
    let protected: Vec<String> =
        repository.git.branches().into_iter().filter(|name| repository.protects(name)).collect();
    let before: Vec<_> = protected.iter().map(|name| repository.git.head(name)).collect();
    let folder = repository.git.path().to_path_buf();
    let reply = match rest.as_str() {
        "/git-receive-pack" => state.pushing(&path, user, |_| backend(&folder, call, &rest)),
        _ => backend(&folder, call, &rest),
    };
    let repository = &state.repositories[&path];
    for (name, head) in protected.iter().zip(before) {
        assert_eq!(repository.git.head(name), head, "the protected branch `{name}` was pushed to");
    }
    reply
}

/// The token of `Basic <base64 of user:token>` or `Bearer <token>`.
fn token_of(header: &str) -> Option<String> {
    if let Some(token) = header.strip_prefix("Bearer ") {
        return Some(token.to_owned());
    }
    let plain = String::from_utf8(from_base64(header.strip_prefix("Basic ")?)?).ok()?;
    plain.split_once(':').map(|(_, token)| token.to_owned())
}

/// Base64 with `+` and `/` (RFC 4648, section 4).
pub(crate) fn from_base64(text: &str) -> Option<Vec<u8>> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace() && *byte != b'=').collect();
    let mut out = Vec::new();
    for chunk in digits.chunks(4) {
        let mut group = 0_u32;
        for digit in chunk {
            group = group << 6 | u32::try_from(ALPHABET.iter().position(|known| known == digit)?).ok()?;
        }
        group <<= 6 * (4 - chunk.len());
        out.extend_from_slice(&group.to_be_bytes()[1..chunk.len().max(1)]);
    }
    Some(out)
}

fn backend(repository: &std::path::Path, call: &Call, rest: &str) -> Reply {
    let mut command = Command::new(git_program());
    let header = |name: &str| call.header(name).unwrap_or_default().to_owned();
    command
        .arg("http-backend")
        .env_clear()
        .env("PATH", std::env::var_os("PATH").expect("PATH is set"))
        .env("GIT_PROJECT_ROOT", repository)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .envs([("GIT_CONFIG_COUNT", "3")])
        .envs([("GIT_CONFIG_KEY_0", "http.receivepack"), ("GIT_CONFIG_VALUE_0", "true")])
        .envs([("GIT_CONFIG_KEY_1", "uploadpack.allowFilter"), ("GIT_CONFIG_VALUE_1", "true")])
        .envs([("GIT_CONFIG_KEY_2", "uploadpack.allowAnySHA1InWant"), ("GIT_CONFIG_VALUE_2", "true")])
        .env("PATH_INFO", rest)
        .env("REQUEST_METHOD", &call.method)
        .env("QUERY_STRING", &call.raw_query)
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", call.body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"))
        .env("REMOTE_USER", "somebody")
        .env("REMOTE_ADDR", "127.0.0.1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("`git http-backend` is installed");
    let (mut stdin, body) = (child.stdin.take().expect("piped"), call.body.clone());
    let feeder = std::thread::spawn(move || drop(stdin.write_all(&body)));
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    let end = output.stdout.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or_else(|| {
        panic!("git http-backend: {}", String::from_utf8_lossy(&output.stderr));
    });
    let mut reply = Reply { status: 200, headers: Vec::new(), body: output.stdout[end + 4..].to_vec() };
    for line in String::from_utf8_lossy(&output.stdout[..end]).lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        match name.to_ascii_lowercase().as_str() {
            "status" => {
                reply.status = value.trim().split(' ').next().unwrap_or_default().parse().unwrap_or(500)
            }
            name => reply.headers.push((name.to_owned(), value.trim().to_owned())),
        }
    }
    reply
}
