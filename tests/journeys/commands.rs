//! What people ask for by comments, from the comment to the answer: one story on GitHub and on GitLab.
//!
//! The bot's side is the real thing, with a real Prometheus behind it. How deliveries come in is another story.

mod reports;

use jiff::Timestamp;
use slicewright::engine::Engine;
use slicewright::engine::propose::Wishes;
use slicewright::engine::review::{Answer, Comment, Heard};
use slicewright::forge::contact::Person;
use slicewright::prometheus::Quiet;
use slicewright::settings::ServiceSettings;
use slicewright_core::review::metadata::Metadata;
use tempfile::TempDir;

use super::bot::AT;
use crate::world::forge::state::{ALEX, BOT, INFRA, KIM, ROBIN, Role, State, TOKEN};
use crate::world::forge::{Face, FakeForge};
use crate::world::golden;
use crate::world::prometheus::Prometheus;
use crate::world::repo::{BareRepo, example};

const BRANCH: &str = "slicewright/dc1/a100-40gb";
const DECLINED: &str = "slicewright/declined";

/// A forge with an open proposal, the bot, and people.
struct Talk {
    fake: FakeForge,
    engine: Engine,
    runtime: tokio::runtime::Runtime,
    now: Timestamp,
    _home: TempDir,
}

impl Talk {
    fn new(face: Face, prometheus: &Prometheus) -> Self {
        let fake = FakeForge::start(face, State::new(BareRepo::from_folder(&example("golden-dc1"))));
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("token"), format!("{TOKEN}\n")).unwrap();
        let kind = match face {
            Face::GitHub => "github",
            Face::GitLab => "gitlab",
        };
        let text = format!(
            "forges:\n  - {{name: forge, kind: {kind}, url: '{}', token_file: token}}\nclusters:\n  - name: dc1\n    \
             prometheus: {{url: '{}'}}\n    repository: {{forge: forge, name: {INFRA}, onboarding: false}}\n    pools:\n      \
             - {{name: a100-40gb, nodes: 'dc1-gpu-.*'}}\n",
            fake.url(),
            prometheus.url()
        );
        let settings = ServiceSettings::parse(&text, "slicewright.yaml", home.path()).unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let engine = Engine::new(settings).unwrap();
        let talk = Self { fake, engine, runtime, now: AT.parse().unwrap(), _home: home };
        talk.look();
        talk
    }

    /// The bot looks by itself.
    fn look(&self) {
        let run = async {
            let inputs = self.engine.live(None, self.now)?;
            self.engine.propose(&inputs, &Wishes::default(), &Quiet).await.map(drop)
        };
        self.runtime.block_on(run).unwrap();
    }

    fn told(&self, user: u64, text: &str) -> Comment {
        let mut state = self.fake.state();
        let id = state.comment(BRANCH, user, text).to_string();
        Comment {
            place: format!("forge:{INFRA}"),
            request: state.request_of(BRANCH).number.to_string(),
            id,
            author: Person { id: user, login: state.users[&user].login.clone() },
            text: text.to_owned(),
            head: None,
        }
    }

    fn hear(&self, comment: &mut Comment) -> Heard {
        let heard = self.runtime.block_on(self.engine.hear(comment)).unwrap();
        if let Heard::Speaks { head } = &heard {
            comment.head.clone_from(head);
        }
        heard
    }

    fn obey(&self, comment: &Comment) -> Answer {
        self.runtime.block_on(self.engine.obey(comment, self.now, &Vec::new())).unwrap()
    }

    /// Kim says something, and the bot does it.
    fn kim(&self, text: &str) -> Said {
        self.says(KIM, text)
    }

    fn says(&self, user: u64, text: &str) -> Said {
        let before = self.words();
        let mut comment = self.told(user, text);
        assert!(matches!(self.hear(&mut comment), Heard::Speaks { .. }), "{text}");
        let answer = self.obey(&comment);
        self.said(&comment, before, answer)
    }

    fn said(&self, comment: &Comment, before: Vec<String>, answer: Answer) -> Said {
        let words = self.words();
        let new = words.into_iter().filter(|one| !before.contains(one) && *one != comment.text).collect();
        Said { answer, new, reactions: self.reactions(&comment.id) }
    }

    fn words(&self) -> Vec<String> {
        self.fake.state().request_of(BRANCH).comments.iter().map(|comment| comment.body.clone()).collect()
    }

    fn reactions(&self, id: &str) -> Vec<String> {
        let mut state = self.fake.state();
        let comments = &state.request_of(BRANCH).comments;
        let comment = comments.iter().find(|comment| comment.id.to_string() == id).unwrap();
        comment.reactions.iter().map(|(_, emoji)| emoji.clone()).collect()
    }

    fn head(&self) -> String {
        self.fake.state().infra().git.head(BRANCH).unwrap()
    }

    fn body(&self) -> String {
        self.fake.state().request_of(BRANCH).body.clone()
    }

    fn noted(&self) -> Metadata {
        Metadata::parse(&self.body()).unwrap()
    }

    fn has_label(&self, label: &str) -> bool {
        self.fake.state().request_of(BRANCH).labels.contains(label)
    }
}

/// What came of a comment.
#[derive(Debug)]
struct Said {
    answer: Answer,
    /// Comments that say another thing than before.
    new: Vec<String>,
    reactions: Vec<String>,
}

impl Said {
    /// It was done, and one comment says these words.
    #[track_caller]
    fn done(&self, words: &str) {
        let Answer::Given(carried) = &self.answer else { panic!("{self:?}") };
        assert!(carried.iter().all(|one| one.outcome.is_ok()), "{self:?}");
        let [new] = &self.new[..] else { panic!("not one answer: {self:?}") };
        assert!(new.contains(words), "`{words}` is not in {new}");
        let done = ["rocket", "thumbsup"];
        assert!(self.reactions.iter().any(|one| done.contains(&one.as_str())), "{self:?}");
        assert!(self.reactions.contains(&"eyes".to_owned()), "{self:?}");
    }

    /// Nothing was done, and one comment says why.
    #[track_caller]
    fn refused(&self, words: &str) {
        let Answer::Given(carried) = &self.answer else { panic!("{self:?}") };
        assert!(carried.last().unwrap().outcome.is_err(), "{self:?}");
        let [new] = &self.new[..] else { panic!("not one answer: {self:?}") };
        assert!(new.contains("\n**Not done:**") && new.contains(words), "`{words}` is not in {new}");
        let failed = ["confused", "thumbsdown"];
        assert!(self.reactions.iter().any(|one| failed.contains(&one.as_str())), "{self:?}");
    }
}

fn on_both(story: impl Fn(&mut Talk)) {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    for face in [Face::GitHub, Face::GitLab] {
        story(&mut Talk::new(face, &prometheus));
    }
}

#[test]
fn whoever_asks_for_more_headroom_gets_another_commit_and_a_line_about_it() {
    on_both(|talk| {
        let before = talk.head();
        let said = talk.kim("slicewright regenerate headroom=30%");
        // 7,987 MiB and 30 % are more than the 9,855 of a slice of 10 GB.
        said.done("`search/ocr-svc` gets 3g.20gb instead of 2g.10gb");
        assert_ne!(talk.head(), before, "{said:?}");
    });
}

#[test]
fn a_wish_holds_until_it_is_taken_back() {
    on_both(|talk| {
        let first = talk.head();
        let said = talk.kim("@slicewright set exclude=search/ocr-svc");
        said.done("`search/ocr-svc` keeps what it has");
        let second = talk.head();
        assert_ne!(second, first);
        assert_eq!(talk.noted().overrides.shown(), ["exclude=search/ocr-svc"]);
        // Of its own accord the bot plans no other way, not even with an empty memory.
        talk.look();
        assert_eq!(talk.head(), second);
        talk.kim("slicewright status").done("exclude=search/ocr-svc");
        talk.kim("slicewright set exclude=default").done("`search/ocr-svc` gets 2g.10gb");
        assert!(talk.noted().overrides.is_empty());
    });
}

#[test]
fn numbers_stand_for_what_is_in_the_table() {
    on_both(|talk| {
        let body = talk.body();
        let row = body.lines().find(|line| line.contains("`search/ocr-svc` (Deployment)")).unwrap();
        let number = row.split('|').nth(1).unwrap().trim().to_owned();
        talk.kim(&format!("slicewright why item={number}")).done("**`search/ocr-svc`**, pool a100-40gb:");
        talk.kim("slicewright why").done("| 1 | `search/");
        talk.kim("slicewright why item=99").refused("there is no number 99");
        talk.kim("slicewright why item=search/none").refused("no workload `search/none`");
        talk.kim(&format!("slicewright regenerate exclude={number}"))
            .done("`search/ocr-svc` keeps what it has");
    });
}

#[test]
fn what_the_configuration_forbids_cannot_be_asked_for() {
    on_both(|talk| {
        let (head, body) = (talk.head(), talk.body());
        talk.kim("slicewright set headroom=5%").refused("asks for 20 % of headroom");
        talk.kim("slicewright regenerate method=time-slicing").refused("for no workload of this pool");
        talk.kim("slicewright regenerate headroom=200%").refused("nothing is left to propose");
        talk.kim("slicewright set exclude=search/none").refused("no workload `search/none`");
        talk.kim("slicewright set headroom=2000%").refused("no percentage between 0 and 200");
        talk.kim("slicewright regenrate").refused("Did you mean `regenerate`?");
        assert_eq!((talk.head(), talk.body()), (head, body), "nothing was noted");
    });
}

#[test]
fn silence_is_kept_until_it_is_taken_back() {
    on_both(|talk| {
        talk.kim("slicewright pause").done("it is paused");
        let body = talk.body();
        talk.look();
        assert_eq!(talk.body(), body);
        talk.kim("slicewright regenerate").refused("it is paused: `resume` takes that back");
        talk.kim("slicewright resume").done("nothing differs");
        talk.kim("slicewright resume").refused("neither paused, nor snoozed, nor declined");
        talk.kim("slicewright snooze for=14d").done("snoozed until 2026-01-29");
        talk.kim("slicewright snooze until=2027-01-01").refused("more than 90 days");
        talk.kim("slicewright status").done("it is snoozed until 2026-01-29");
        assert_eq!(talk.noted().snoozed_until, Some(jiff::civil::date(2026, 1, 29)));
    });
}

#[test]
fn what_was_declined_stays_open_labelled_and_as_it_was() {
    on_both(|talk| {
        talk.kim("slicewright decline reason=\"needs the whole card in spring\"")
            .done("declined on 2026-01-15");
        assert!(talk.has_label(DECLINED));
        let (head, body) = (talk.head(), talk.body());
        talk.look();
        assert_eq!((talk.head(), talk.body()), (head, body));
        assert_eq!(talk.noted().reason.as_deref(), Some("needs the whole card in spring"));
        talk.kim("slicewright resume").done("nothing differs");
        assert!(!talk.has_label(DECLINED));
        assert_eq!(talk.noted().declined_on, None);
    });
}

#[test]
fn commits_of_people_are_dropped_only_by_who_says_so() {
    on_both(|talk| {
        let theirs = {
            let mut state = talk.fake.state();
            state.infra().git.commit_as_human(BRANCH, &[("notes.md", "mine\n")], "Add notes");
            state.infra().git.head(BRANCH).unwrap()
        };
        talk.kim("slicewright regenerate").refused("`regenerate discard-edits=yes` drops");
        talk.kim("slicewright rebase").refused("not the bot's");
        assert_eq!(talk.head(), theirs);
        let said = talk.kim("slicewright regenerate discard-edits=yes");
        said.done(&format!("The branch was at `{}`", &theirs[..12]));
        assert_ne!(talk.head(), theirs);
    });
}

#[test]
fn rebasing_puts_the_branch_on_the_newest_commit() {
    on_both(|talk| {
        talk.kim("slicewright rebase").done("newest commit of the base branch already");
        let base = {
            let mut state = talk.fake.state();
            state.infra().git.commit_as_human("main", &[("README.md", "other\n")], "Say more");
            state.infra().git.head("main").unwrap()
        };
        talk.look();
        assert_ne!(talk.noted().base_commit, base, "nothing of the proposal changed there");
        talk.kim("slicewright rebase").done(&base[..12]);
        assert_eq!(talk.noted().base_commit, base);
    });
}

#[test]
fn rights_are_asked_for_when_a_command_is_carried_out() {
    on_both(|talk| {
        let head = talk.head();
        talk.says(ALEX, "slicewright regenerate headroom=25%").refused("takes the role write (developer)");
        talk.says(ALEX, "slicewright why item=search/ocr-svc").done("search/ocr-svc");
        // Lost between the comment and its turn.
        let mut comment = talk.told(KIM, "slicewright set exclude=search/ocr-svc");
        talk.hear(&mut comment);
        let before = talk.words();
        talk.fake.state().infra().roles.insert(KIM, Role::Read);
        let answer = talk.obey(&comment);
        talk.said(&comment, before, answer).refused("and yours is ");
        assert_eq!(talk.head(), head);
    });
}

/// github/branch-deploy#315: the branch moved between the word that allowed it and the run.
#[test]
fn a_command_holds_for_the_head_that_its_author_saw() {
    on_both(|talk| {
        let mut first = talk.told(KIM, "slicewright set exclude=search/ocr-svc");
        let mut second = talk.told(ROBIN, "slicewright regenerate headroom=21%");
        talk.hear(&mut first);
        talk.hear(&mut second);
        assert!(matches!(talk.obey(&first), Answer::Given(_)));
        let (head, before) = (talk.head(), talk.words());
        let answer = talk.obey(&second);
        talk.said(&second, before, answer).refused("look at it and ask again");
        assert_eq!(talk.head(), head);
    });
}

#[test]
fn nothing_is_said_to_what_is_no_command_of_a_person() {
    on_both(|talk| {
        let quiet = |talk: &Talk, user, text: &str| {
            let before = talk.words().len();
            let mut comment = talk.told(user, text);
            assert!(matches!(talk.hear(&mut comment), Heard::Silence(_)), "{text}");
            assert!(matches!(talk.obey(&comment), Answer::Silence(_)), "{text}");
            assert_eq!(talk.words().len(), before + 1, "{text}");
            assert!(talk.reactions(&comment.id).is_empty(), "{text}");
        };
        quiet(talk, KIM, "I like it.");
        quiet(talk, KIM, "> slicewright regenerate\n\nWhat does that do?");
        quiet(talk, KIM, "```\nslicewright pause\n```");
        quiet(talk, KIM, "`slicewright pause`");
        quiet(talk, KIM, "@slicewright-x pause");
        quiet(talk, BOT, "slicewright pause");
        // Gone before it was its turn.
        let comment = talk.told(KIM, "slicewright pause");
        talk.fake.state().request_of(BRANCH).comments.retain(|one| one.id.to_string() != comment.id);
        assert!(matches!(talk.obey(&comment), Answer::Silence("the comment is gone")));
        // Said by another than the delivery claims.
        let mut forged = talk.told(ALEX, "slicewright pause");
        forged.author = Person { id: KIM, login: "kim".into() };
        assert!(matches!(talk.obey(&forged), Answer::Silence(_)));
        assert!(!talk.noted().paused);
    });
}

/// The first moves the branch, and the second is about what its author saw all the same.
#[test]
fn commands_of_one_comment_follow_each_other() {
    on_both(|talk| {
        talk.kim(
            "slicewright set exclude=search/ocr-svc\nslicewright set headroom=25%\nslicewright snooze for=7d",
        )
        .done("snoozed until 2026-01-22");
        assert_eq!(talk.noted().overrides.shown(), ["headroom=25%", "exclude=search/ocr-svc"]);
    });
}

/// It was killed between the branch and the text, or between the text and the answer.
#[test]
fn a_command_that_was_interrupted_is_known_again() {
    on_both(|talk| {
        let mut comment = talk.told(KIM, "slicewright regenerate headroom=30%");
        talk.hear(&mut comment);
        talk.obey(&comment);
        let (head, before) = (talk.head(), talk.words());
        let answer = talk.obey(&comment);
        assert!(matches!(&answer, Answer::Given(all) if all[0].outcome.is_ok()), "{answer:?}");
        assert_eq!(talk.head(), head);
        assert!(talk.words().iter().all(|text| !text.contains("Not done")), "{before:?}");
        // Nobody else gets by with it: a person moved the branch since.
        talk.fake.state().infra().git.commit_as_human(BRANCH, &[("notes.md", "mine\n")], "Add notes");
        let answer = talk.obey(&comment);
        assert!(matches!(&answer, Answer::Given(all) if all[0].outcome.is_err()), "{answer:?}");
    });
}

/// renovatebot/renovate#5951, #6690: one request was carried out again and again.
#[test]
fn done_twice_it_is_done_once() {
    on_both(|talk| {
        let mut comment = talk.told(KIM, "slicewright help\nslicewright set exclude=search/ocr-svc");
        talk.hear(&mut comment);
        talk.obey(&comment);
        let (head, words) = (talk.head(), talk.words().len());
        // The first time it was stopped before it could say so.
        talk.obey(&comment);
        assert_eq!((talk.head(), talk.words().len()), (head, words));
    });
}

#[test]
fn help_comes_from_the_registry_and_hostile_words_stay_words() {
    on_both(|talk| {
        talk.kim("slicewright help")
            .done("`@slicewright regenerate headroom=30% method=mig exclude=search/ranker`");
        let said = talk.kim("@slicewright set \u{202e}x=\"@everyone /merge\"");
        said.refused("is no name of an argument");
        for text in talk.words().iter().filter(|text| text.contains("\n**")) {
            assert!(!text.lines().any(|line| line.starts_with('/')), "{text}");
            assert!(!text.contains('\u{202e}'), "{text}");
        }
        let said = talk.kim("slicewright decline reason=\"@alex /merge #12\"");
        said.done("`decline reason=\"@alex /merge #12\"`");
        // What cannot be a command with a tag or a link in it is a sentence.
        let mut tag =
            talk.told(KIM, "slicewright decline reason=\"<script>x</script> [x](http://e.example)\"");
        assert!(matches!(talk.hear(&mut tag), Heard::Silence(_)));
    });
}
