//! What holds from the next SIGHUP on, and what does not.

use std::path::Path;

use crate::world::certificates;
use crate::world::served::{SECRET, Served};
use crate::world::wait::until;

/// A server for a forge that is not there. `more` goes into `server:`, indented by two blanks.
fn configure(home: &Path, listen: &str, more: &str) {
    std::fs::write(home.join("token"), "x").unwrap();
    std::fs::write(home.join("hook"), SECRET).unwrap();
    let text = format!(
        "forges: [{{name: forge, kind: github, url: 'http://127.0.0.1:1', token_file: token}}]\nclusters:\n  \
         - name: dc1\n    prometheus: {{url: 'http://127.0.0.1:1'}}\n    repository: {{forge: forge, name: acme/infra}}\n    \
         pools:\n      - {{name: a100-40gb, nodes: 'dc1-gpu-.*'}}\nserver:\n  listen: {listen}\n  hooks:\n    \
         - {{forge: forge, secrets: [{{file: hook}}]}}\n{more}"
    );
    std::fs::write(home.join("slicewright.yaml"), text).unwrap();
}

fn says(server: &Served, words: &str) {
    until(30, words, || server.log().iter().any(|line| line.contains(words)).then_some(()));
}

#[test]
fn what_holds_only_from_the_next_start_on_is_said() {
    let home = tempfile::tempdir().unwrap();
    configure(home.path(), "127.0.0.1:0", "");
    // Not as JSON: the log that people read.
    let server = Served::start_in(home.path(), &["--log-format", "text"], &[("RUST_LOG", "info")]);
    says(&server, "path=\"/hooks/github/forge\"");
    configure(home.path(), "127.0.0.1:1", "  workers: 3\n  pages: {user: ops, password_file: hook}\n");
    server.reload();
    says(&server, "as it is now");
    for setting in ["listen", "workers", "pages"] {
        says(&server, &format!("`server.{setting}` is another one now"));
    }
    let log = server.log().join("\n");
    assert!(!log.contains("`server.store` is another") && !log.contains("`server.tls` is another"), "{log}");
    assert!(!log.contains('\u{1b}'), "colours are for terminals: {log}");
    assert_eq!(server.get("/").status, 200, "the pages are as they were");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_was_renewed_is_shown_after_the_next_reload() {
    let home = tempfile::tempdir().unwrap();
    certificates::make(home.path());
    configure(home.path(), "127.0.0.1:0", "  tls: {certificate_file: server.pem, key_file: server.key}\n");
    let server = Served::start(home.path(), super::AT);
    assert!(server.url().starts_with("https://"), "{}", server.url());
    let client = || {
        let ca = std::fs::read(home.path().join("ca.pem")).unwrap();
        let ca = reqwest::Certificate::from_pem(&ca).unwrap();
        reqwest::Client::builder().no_proxy().tls_certs_only([ca]).build().unwrap()
    };
    let url = format!("{}/healthz", server.url());
    assert_eq!(client().get(&url).send().await.unwrap().status(), 200);

    std::fs::write(home.path().join("server.pem"), "nonsense").unwrap();
    server.reload();
    says(&server, "the certificate stays as it was: `server.tls`");
    assert_eq!(client().get(&url).send().await.unwrap().status(), 200);

    certificates::make(home.path());
    assert!(client().get(&url).send().await.is_err(), "nobody trusts the old one any more");
    server.reload();
    until(30, "both reloads", || {
        (server.log().iter().filter(|line| line.contains("as it is now")).count() == 2).then_some(())
    });
    assert_eq!(client().get(&url).send().await.unwrap().status(), 200);
}

#[test]
fn a_store_that_cannot_be_used_is_named_with_the_way_out() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("junk.db"), "this is no database but a text of some length, is it not?")
        .unwrap();
    std::fs::write(
        home.path().join("url"),
        "postgres://bot:a-secret-word@127.0.0.1:1/bot?sslpassword=a-secret-word",
    )
    .unwrap();
    for (store, named) in [
        ("{path: none/x.db}", vec!["none/x.db.lock`", "`server.store.path`"]),
        ("{path: junk.db}", vec!["`server.store`", "junk.db`", "move the file away"]),
        ("{url_file: url}", vec!["`server.store`", "`url`", "`url_file`", "refused"]),
        ("{url_env: NOBODY_SET_THIS}", vec!["`server.store`", "NOBODY_SET_THIS"]),
    ] {
        configure(home.path(), "127.0.0.1:0", &format!("  store: {store}\n"));
        let output = crate::journeys::bot::run(home.path(), &["serve"]);
        let said = crate::journeys::bot::failed(&output, 1);
        for word in named {
            assert!(said.contains(word), "{store}: {word}: {said}");
        }
        assert!(!said.contains("a-secret-word"), "{said}");
    }
}
