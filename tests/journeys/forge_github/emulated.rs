//! The bot on a GitHub that others wrote, and that knows neither the bot nor the stand-in of the other stories.
//!
//! It has no GraphQL, so that branches are moved by REST with a look before and after; no archives, so that files are read
//! one by one.

use reqwest::Method;
use serde_json::{Value, json};
use slicewright::forge::webhook::Rejected;
use slicewright::forge::{Check, Conclusion};

use super::super::bot::{AT, ok, run};
use super::*;
use crate::world::deliveries::{Deliveries, read};
use crate::world::emulate::{self, Emulate, Hook};
use crate::world::golden;
use crate::world::prometheus::Prometheus;
use crate::world::repo::example;

/// The bot on it.
struct Emulated {
    bot: Box<dyn Forge>,
    there: Emulate,
    settings: Settings,
    target: Target,
    runtime: tokio::runtime::Runtime,
    _folder: tempfile::TempDir,
}

impl Emulated {
    /// With more files than are read one by one where there are archives.
    fn new(sign_in: SignIn, hook: Option<&Hook<'_>>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let repo = folder.path().join("repo");
        std::fs::create_dir_all(repo.join("apps/more")).unwrap();
        std::fs::write(repo.join(FILE), "gpu: 1\n").unwrap();
        for n in 0..12 {
            std::fs::write(repo.join(format!("apps/more/{n} ä.yaml")), format!("n: {n}\r\n")).unwrap();
        }
        let there = Emulate::holding(&repo, hook);
        let secret = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).unwrap();
            Some(folder.path().join(name))
        };
        let mut settings = Settings {
            name: "github".to_owned(),
            // It has its interface where github.com has it, not below `/api/v3`.
            api_url: Some(there.api_url().to_owned()),
            ..Settings::default()
        };
        match sign_in {
            SignIn::App => {
                let key_file = secret("key.pem", crate::world::forge::github::APP_KEY);
                let id = crate::world::forge::github::APP;
                settings.app = Some(AppSettings { id, key_file, key_env: None });
            }
            _ => settings.token_file = secret("token", emulate::TOKEN),
        }
        settings.check().unwrap();
        let target = Target {
            repository: INFRA.to_owned(),
            branch_prefix: "slicewright".to_owned(),
            author_name: "Slicewright".to_owned(),
            author_email: "bot@example.com".to_owned(),
            ..Target::default()
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let bot = connect(&settings, target.clone()).unwrap();
        Self { bot, there, settings, target, runtime, _folder: folder }
    }

    /// The bot starts anew, as `change` says.
    fn restart(&mut self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.settings);
        self.bot = connect(&self.settings, self.target.clone()).unwrap();
    }

    fn done<T>(&self, step: impl Future<Output = Result<T, ForgeError>>) -> Result<T, ForgeError> {
        self.runtime.block_on(step)
    }

    fn find(&self) -> Found {
        self.done(async { self.bot.find(BRANCH, &self.bot.head().await?).await }).unwrap()
    }

    fn publish(&self, expected: Option<&str>, text: &str) -> Result<String, ForgeError> {
        let commit = Commit {
            base: self.there.head(MAIN).unwrap(),
            message: "Share the cards of ranker\n\nFrees two.\n".to_owned(),
            files: BTreeMap::from([(FILE.to_owned(), Some(text.as_bytes().to_vec()))]),
        };
        self.done(self.bot.publish(BRANCH, expected, &commit))
    }

    fn write(&self, open: Option<&str>, head: &str, words: &str) -> Result<String, ForgeError> {
        self.done(self.bot.write_request(BRANCH, open, &text(head, words)))
    }

    fn say(&self, topic: Topic, text: Option<&str>) {
        self.done(self.bot.say(BRANCH, "1", topic, text)).unwrap();
    }

    /// Who commented on the first pull request, and what.
    fn comments(&self) -> Vec<(String, String)> {
        let shown = self.there.shown("/issues/1/comments");
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let comments = shown.as_array().expect("a list").iter();
        comments.map(|one| (word(&one["user"]["login"]), word(&one["body"]))).collect()
    }
}

fn signed_in_either_way(story: impl Fn(&Emulated, &str)) {
    for (sign_in, login) in [(SignIn::App, emulate::APP_LOGIN), (SignIn::Token, emulate::BOT)] {
        story(&Emulated::new(sign_in, None), login);
    }
}

#[test]
fn a_proposal_begins_changes_and_ends() {
    signed_in_either_way(|story, login| {
        assert_eq!(story.done(story.bot.base_branch()).unwrap(), MAIN);
        let main = story.done(story.bot.head()).unwrap();
        assert_eq!(Some(&main), story.there.head(MAIN).as_ref());
        let tree = story.done(story.bot.read_tree(&main)).unwrap();
        assert_eq!(tree.files.len(), 14, "with the README that is there from the start");
        assert_eq!(tree.files["apps/more/11 ä.yaml"], b"n: 11\r\n");

        let head = story.publish(None, "gpu: 0.5\n").unwrap();
        assert_eq!(story.publish(Some(&head), "gpu: 0.5\n").unwrap(), head, "it is there already");
        let url = story.write(None, &head, "Saves two cards.").unwrap();
        assert_eq!(url, format!("{}/{INFRA}/pull/1", emulate::URL));
        let found = story.find();
        let identity = story.done(story.bot.identity()).unwrap();
        let [commit] = &found.commits[..] else { panic!("one commit: {:?}", found.commits) };
        assert_eq!(commit.id, head);
        assert!(commit.emails.iter().all(|email| identity.emails.contains(email)), "{commit:?} {identity:?}");
        assert_eq!(found.base, Some(main));
        assert_eq!(found.changed, BTreeMap::from([(FILE.to_owned(), Some(b"gpu: 0.5\n".to_vec()))]));
        let request = found.request.unwrap();
        assert!(request.by_bot && request.open && !request.draft && !request.conflicted && !found.merged);
        assert_eq!((request.id.as_str(), request.base_branch.as_deref()), ("1", Some(MAIN)));

        // Main moves on, and so does the proposal.
        story.there.commit_as_kim(MAIN, &[("apps/other.yaml", "gpu: 3\n")], "Other");
        is_conflict(story.publish(None, "gpu: 0.25\n"));
        let next = story.publish(Some(&head), "gpu: 0.25\n").unwrap();
        is_conflict(story.publish(Some(&head), "gpu: 0.125\n"));
        story.write(Some("1"), &next, "Saves three cards.").unwrap();
        assert!(story.find().request.unwrap().body.contains("three"));
        assert_eq!(story.there.shown("/pulls?state=all").as_array().map(Vec::len), Some(1));

        story.say(Topic::Status, Some("Done."));
        story.say(Topic::Edited, Some("Yours."));
        story.say(Topic::Status, Some("Done again."));
        let own = |topic: Topic, words: &str| (login.to_owned(), format!("{}\n{words}", topic.mark()));
        assert_eq!(story.comments(), [own(Topic::Status, "Done again."), own(Topic::Edited, "Yours.")]);
        story.done(story.bot.hush(BRANCH, "1", &[Topic::Edited, Topic::Warning])).unwrap();
        assert_eq!(story.comments(), [own(Topic::Status, "Done again.")]);

        story.done(story.bot.close(BRANCH, Some(&next), Some("1"), "Closed", "Because.")).unwrap();
        assert_eq!(story.there.head(BRANCH), None);
        let pull = story.there.shown("/pulls/1");
        assert_eq!([&pull["state"], &pull["title"], &pull["body"]], ["closed", "Closed", "Because."]);
        let found = story.find();
        assert!(found.branch_head.is_none() && !found.merged && !found.request.unwrap().open);
    });
}

#[test]
fn a_commit_of_many_files_is_one_and_changes_what_it_says() {
    signed_in_either_way(|story, _| {
        let mut files: BTreeMap<String, Option<Vec<u8>>> =
            (0..110).map(|n| (format!("many/{n}.yaml"), Some(format!("n: {n}\r\n").into_bytes()))).collect();
        files.insert(FILE.to_owned(), Some(b"\xef\xbb\xbfgpu: 0.5\r\n".to_vec()));
        files.insert("apps/more/0 ä.yaml".to_owned(), None);
        files.insert("binary".to_owned(), Some(vec![0xff, 0, 0xfe]));
        let base = story.there.head(MAIN).unwrap();
        let commit = Commit { base: base.clone(), message: "Many".to_owned(), files: files.clone() };
        let head = story.done(story.bot.publish(BRANCH, None, &commit)).unwrap();
        let found = story.find();
        assert_eq!((found.commits.len(), found.base), (1, Some(base)));
        assert_eq!(found.changed, files);
        let tree = story.done(story.bot.read_tree(&head)).unwrap();
        assert_eq!(tree.files.len(), 14 + 110 + 1 - 1);
    });
}

#[test]
fn the_bots_comment_is_found_among_many() {
    signed_in_either_way(|story, login| {
        let head = story.publish(None, "gpu: 0.5\n").unwrap();
        story.write(None, &head, "Saves two cards.").unwrap();
        let quoted = format!("{}\nHa", Topic::Status.mark());
        for n in 0..120 {
            let words = if n == 0 { quoted.clone() } else { format!("Number {n}") };
            story.there.done(Method::POST, "/issues/1/comments", &json!({"body": words}));
        }
        story.say(Topic::Status, Some("Done."));
        story.say(Topic::Status, Some("Done again."));
        let second_page = story.there.shown("/issues/1/comments?per_page=100&page=2");
        let comments = second_page.as_array().expect("a list");
        assert_eq!(comments.len(), 21);
        let last = &comments[20];
        assert_eq!(last["user"]["login"], login);
        assert!(last["body"].as_str().is_some_and(|body| body.ends_with("Done again.")), "{last}");
    });
}

#[test]
fn what_keeps_the_bot_from_writing_is_said_with_the_way_out() {
    let story = Emulated::new(SignIn::App, None);
    let head = story.publish(None, "gpu: 0.5\n").unwrap();
    let review = json!({"required_approving_review_count": 1});
    let rule = json!({"required_pull_request_reviews": review, "enforce_admins": true});
    story.there.done(Method::PUT, &format!("/branches/{BRANCH}/protection"), &rule);
    is_blocked(story.publish(Some(&head), "gpu: 0.25\n"), "a branch protection rule");
    assert_eq!(story.there.head(BRANCH), Some(head));

    story.there.done(Method::PATCH, "", &json!({"archived": true}));
    let mut story = story;
    story.restart(|_| {});
    is_blocked(story.done(story.bot.head()), "is archived");
}

#[test]
fn what_a_person_wrote_on_the_branch_stays_and_a_merge_is_seen() {
    signed_in_either_way(|story, _| {
        let head = story.publish(None, "gpu: 0.5\n").unwrap();
        story.write(None, &head, "Saves two cards.").unwrap();
        let theirs = story.there.commit_as_kim(BRANCH, &[("NOTES.md", "mine\n")], "Note");
        is_conflict(story.publish(Some(&head), "gpu: 0.25\n"));
        is_conflict(story.done(story.bot.close(BRANCH, Some(&head), Some("1"), "t", "b")));
        assert_eq!(story.there.head(BRANCH), Some(theirs.clone()));
        let found = story.find();
        assert_eq!(found.commits.len(), 2);
        assert_eq!(found.commits[1].emails, ["kim@example.com", "kim@example.com"]);
        assert_eq!(found.changed.keys().collect::<Vec<_>>(), ["NOTES.md", FILE]);

        story.there.merge(1);
        let found = story.find();
        assert!(found.merged && !found.request.unwrap().open);
    });
}

#[test]
fn a_dashboard_and_checks_are_written() {
    let story = Emulated::new(SignIn::App, None);
    let main = story.done(story.bot.head()).unwrap();
    let check = |conclusion: Conclusion| Check {
        name: "slicewright".into(),
        conclusion,
        sentence: "It may be merged.".into(),
        text: "All of it.".into(),
        url: None,
    };
    for conclusion in [Conclusion::Passed, Conclusion::Passed, Conclusion::Failed] {
        story.done(story.bot.check(&main, &check(conclusion))).unwrap();
        let words = format!("{conclusion:?}");
        let url = story.done(story.bot.show_board("Where it stands", &words)).unwrap();
        assert_eq!(url, Some(format!("{}/{INFRA}/issues/1", emulate::URL)));
    }
    let board = story.there.shown("/issues?state=all");
    let [board] = board.as_array().expect("a list").as_slice() else { panic!("one issue: {board}") };
    assert!(board["body"].as_str().is_some_and(|body| body.ends_with("Failed")), "{board}");
    // It does not say whose a check is, so that the bot says it again rather than take another's for its own.
    let runs = story.there.shown(&format!("/commits/{main}/check-runs?filter=latest"));
    let [run] = runs["check_runs"].as_array().expect("a list").as_slice() else { panic!("one name: {runs}") };
    assert_eq!([&run["conclusion"], &run["output"]["title"]], ["failure", "It may be merged."]);
}

#[test]
fn an_app_that_is_not_known_there_is_told_what_to_check() {
    let mut story = Emulated::new(SignIn::App, None);
    story.restart(|settings| settings.app.as_mut().expect("an App").id += 1);
    is_blocked(story.done(story.bot.head()), "does not know the token or the App");
}

#[test]
fn the_whole_program_goes_from_the_first_contact_to_the_end_of_a_proposal() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    let home = tempfile::tempdir().unwrap();
    let there = Emulate::holding(&example("golden-dc1"), None);
    std::fs::write(home.path().join("key.pem"), crate::world::forge::github::APP_KEY).unwrap();
    let text = format!(
        "forges:\n  - {{name: github, kind: github, api_url: '{}', app: {{id: {}, key_file: key.pem}}}}\nclusters:\n  \
         - name: dc1\n    prometheus: {{url: '{}'}}\n    repository: {{forge: github, name: {INFRA}, labels: [gpu], \
         checks: true, dashboard: true}}\n    pools:\n      - {{name: a100-40gb, nodes: 'dc1-gpu-.*'}}\n",
        there.api_url(),
        crate::world::forge::github::APP,
        prometheus.url()
    );
    std::fs::write(home.path().join("slicewright.yaml"), text).unwrap();
    let propose = |more: &[&str]| ok(&run(home.path(), &[&["propose", "--at", AT], more].concat()));
    let pulls = || -> Vec<(u64, String, String)> {
        let shown = there.shown("/pulls?state=all&direction=asc");
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let pulls = shown.as_array().expect("a list").iter();
        pulls
            .map(|one| (one["number"].as_u64().unwrap(), word(&one["head"]["ref"]), word(&one["state"])))
            .collect()
    };
    let shown = propose(&["--dry-run"]);
    assert!(shown.contains("would open a merge request") && pulls().is_empty(), "{shown}");
    let shown = propose(&[]);
    assert!(shown.contains("nothing is proposed before its people said so"), "{shown}");
    propose(&[]);
    let onboarding = (1, "slicewright/onboarding".to_owned(), "open".to_owned());
    assert_eq!(pulls(), [onboarding]);
    there.merge(1);
    let shown = propose(&[]);
    assert!(shown.contains("opened: http://emulate.test/acme/infra/pull/2"), "{shown}");
    let pull = there.shown("/pulls/2");
    assert_eq!([&pull["title"], &pull["labels"][0]["name"]], ["Free 2 GPUs in dc1/a100-40gb by MIG", "gpu"]);
    let head = there.head("slicewright/dc1/a100-40gb").expect("the branch");
    let runs = there.shown(&format!("/commits/{head}/check-runs"));
    assert_eq!(runs["check_runs"][0]["conclusion"], "success");
    assert!(there.shown("/issues/3")["body"].as_str().is_some_and(|board| board.contains("free 2 GPUs")));
    let shown = propose(&[]);
    assert!(shown.contains("nothing differs"), "{shown}");

    // Somebody changes a file that the proposal changes, and another declines what came of it.
    let path = "apps/search/ocr-svc.yaml";
    let text = std::fs::read_to_string(example("golden-dc1").join(path)).unwrap();
    there.commit_as_kim(MAIN, &[(path, &format!("{text}# Kim was here\n"))], "Say so");
    let shown = propose(&[]);
    assert!(shown.contains("updated") && shown.contains(path), "{shown}");
    let comments = there.shown("/issues/2/comments");
    let [comment] = comments.as_array().expect("a list").as_slice() else {
        panic!("one comment: {comments}")
    };
    assert_eq!(comment["user"]["login"], emulate::APP_LOGIN);
    assert!(comment["body"].as_str().is_some_and(|body| body.contains("**Updated:**")), "{comment}");
    there.done(Method::PATCH, "/pulls/2", &json!({"state": "closed"}));
    let shown = propose(&[]);
    assert!(shown.contains("declined") && shown.contains("a person closed it"), "{shown}");
    assert_eq!(there.head("slicewright/dc1/a100-40gb"), None);
}

/// What others wrote that GitHub's webhooks are like, and the bot's own reader.
#[test]
fn deliveries_are_signed_over_the_bytes_that_came() {
    const SECRET: &str = "only-for-tests";
    let taken = Deliveries::take();
    let story = Emulated::new(SignIn::App, Some(&Hook { url: taken.url(), secret: SECRET }));
    let head = story.publish(None, "gpu: 0.5\n").unwrap();
    story.write(None, &head, "Saves two cards.").unwrap();
    story.there.done(Method::POST, "/issues/1/comments", &json!({"body": "Why “two”?"}));
    let by = |login: &'static str| move |body: &Value| body["sender"]["login"] == login;
    for delivery in [
        taken.wait_for("push", by("kim")),
        taken.wait_for("pull_request", by(emulate::APP_LOGIN)),
        taken.wait_for("issue_comment", by("kim")),
    ] {
        assert_eq!(delivery.json()["installation"]["id"], 4711);
        let read_as = |secret| read(&delivery, secret);
        let told = read_as(SECRET).unwrap_or_else(|error| panic!("{error}: {delivery:?}"));
        assert_eq!(Some(told.name.as_str()), delivery.header("x-github-event"));
        assert_eq!(Some(told.key.as_str()), delivery.header("x-github-delivery"));
        assert_eq!(read_as("another secret"), Err(Rejected::Signature));
        let mut other = delivery.clone();
        *other.body.last_mut().expect("a body") = b' ';
        assert_eq!(read(&other, SECRET), Err(Rejected::Signature));
    }
}
