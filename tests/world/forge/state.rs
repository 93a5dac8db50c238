//! What a forge knows, whatever it looks like.

use std::collections::{BTreeMap, BTreeSet};

use super::hooks::{Group, Hook, Schedule};
use crate::world::repo::{BareRepo, MAIN};

/// The bot's own account.
pub(crate) const BOT: u64 = 900;
/// Robin, who maintains the repository: the author of `BareRepo::commit_as_human`.
pub(crate) const ROBIN: u64 = 11;
/// Kim, who may write.
pub(crate) const KIM: u64 = 12;
/// Alex, who may only read.
pub(crate) const ALEX: u64 = 13;

/// The bot's access token.
pub(crate) const TOKEN: &str = "forge-token-of-the-bot";

/// The repository's path.
pub(crate) const INFRA: &str = "acme/infra";

/// Seconds since 1970 at which the forge's clock starts: 2026-01-15 00:00 UTC. It goes on by a second a write.
pub(crate) const CLOCK: i64 = 1_768_435_200;

/// The whole forge.
pub(crate) struct State {
    /// Where it listens.
    pub(crate) url: String,
    pub(crate) users: BTreeMap<u64, User>,
    /// Whose a token is.
    pub(crate) tokens: BTreeMap<String, u64>,
    /// Administrators of the whole forge.
    pub(crate) admins: BTreeSet<u64>,
    /// Last day of the bot's token.
    pub(crate) token_ends: Option<String>,
    /// What the bot's token was made for; `None`: the forge does not say.
    pub(crate) token_scopes: Option<Vec<String>>,
    /// Calls and replies are held against the published schemas. A benchmark does without: it measures the bot.
    pub(crate) checks: bool,
    /// By path, `acme/infra`.
    pub(crate) repositories: BTreeMap<String, Repository>,
    /// The group of the repositories; without one they are somebody's own.
    pub(crate) group: Option<Group>,
    /// What GitHub alone knows.
    pub(crate) github: super::github::Own,
    clock: i64,
    next_id: u64,
}

/// An account.
#[derive(Clone, Debug)]
pub(crate) struct User {
    pub(crate) id: u64,
    pub(crate) login: String,
    pub(crate) name: String,
    pub(crate) email: String,
    pub(crate) is_bot: bool,
    /// Blocked by an administrator.
    pub(crate) blocked: bool,
}

/// What somebody may do in a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    Read,
    Triage,
    Write,
    Maintain,
    Admin,
}

/// A repository.
pub(crate) struct Repository {
    pub(crate) id: u64,
    pub(crate) path: String,
    pub(crate) git: BareRepo,
    pub(crate) default_branch: String,
    pub(crate) archived: bool,
    /// Merge requests are switched off.
    pub(crate) requests_disabled: bool,
    /// Paths under which it was known before.
    pub(crate) former_paths: Vec<String>,
    pub(crate) roles: BTreeMap<u64, Role>,
    pub(crate) labels: BTreeSet<String>,
    /// Patterns of protected branches, with `*`.
    pub(crate) protected: Vec<String>,
    pub(crate) requests: Vec<Request>,
    /// Members who wait for somebody to let them in.
    pub(crate) awaiting: BTreeSet<u64>,
    pub(crate) hooks: Vec<Hook>,
    pub(crate) schedules: Vec<Schedule>,
    /// Files by name.
    pub(crate) uploads: Vec<(String, Vec<u8>)>,
    pub(crate) issues: Vec<Issue>,
    /// States reported for a commit.
    pub(crate) statuses: Vec<Status>,
    /// Who put which branch where, oldest first.
    pub(crate) pushes: Vec<Push>,
}

/// A branch that was put somewhere, over the API or by git.
#[derive(Clone, Debug)]
pub(crate) struct Push {
    pub(crate) user: u64,
    pub(crate) branch: String,
    pub(crate) from: Option<String>,
    /// `None`: it was deleted.
    pub(crate) to: Option<String>,
    pub(crate) at: i64,
}

/// A merge request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) number: u64,
    pub(crate) title: String,
    pub(crate) body: String,
    pub(crate) source: String,
    pub(crate) target: String,
    pub(crate) author: u64,
    pub(crate) state: RequestState,
    pub(crate) draft: bool,
    pub(crate) labels: BTreeSet<String>,
    pub(crate) reviewers: BTreeSet<u64>,
    /// Who approved, and the head that they saw.
    pub(crate) approvals: Vec<(u64, String)>,
    pub(crate) comments: Vec<Comment>,
    /// Head when it was closed or merged: the branch may be gone since.
    pub(crate) last_head: Option<String>,
    /// It is being merged: in a queue, or waiting for its pipeline.
    pub(crate) merging: bool,
    /// Number of the fork that its branch is in, if it is not in the repository itself.
    pub(crate) fork: Option<u64>,
    /// How many more looks find the forge still working out whether it can be merged.
    pub(crate) unchecked: u32,
    pub(crate) created: i64,
    pub(crate) updated: i64,
    pub(crate) closed: Option<i64>,
}

/// Where a merge request stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestState {
    Open,
    Closed,
    /// With the commit that it became on the target branch.
    Merged(String),
}

/// An issue that is no merge request.
#[derive(Clone, Debug)]
pub(crate) struct Issue {
    pub(crate) number: u64,
    pub(crate) title: String,
    pub(crate) body: String,
    pub(crate) author: u64,
    pub(crate) open: bool,
    pub(crate) created: i64,
    pub(crate) updated: i64,
}

/// A comment.
#[derive(Clone, Debug)]
pub(crate) struct Comment {
    pub(crate) id: u64,
    pub(crate) author: u64,
    pub(crate) body: String,
    /// Who reacted, and how.
    pub(crate) reactions: Vec<(u64, String)>,
    /// Written down by the forge itself.
    pub(crate) system: bool,
    /// For members only.
    pub(crate) internal: bool,
    pub(crate) created: i64,
    pub(crate) updated: i64,
}

impl Comment {
    /// One that everybody sees.
    pub(crate) fn new(id: u64, author: u64, body: &str, now: i64) -> Self {
        let body = body.to_owned();
        let reactions = Vec::new();
        Self { id, author, body, reactions, system: false, internal: false, created: now, updated: now }
    }
}

/// A state reported for a commit.
#[derive(Clone, Debug)]
pub(crate) struct Status {
    pub(crate) id: u64,
    pub(crate) commit: String,
    pub(crate) name: String,
    pub(crate) state: String,
    pub(crate) sentence: String,
    pub(crate) text: String,
    /// One of GitHub's check runs, which only Apps make.
    pub(crate) by_app: bool,
}

impl State {
    /// One repository, `acme/infra`, with its people and the bot, who may write.
    pub(crate) fn new(git: BareRepo) -> Self {
        let user = |id: u64, login: &str, name: &str, is_bot: bool| {
            let email = match is_bot {
                true => format!("{id}+{login}@users.noreply.example.com"),
                false => format!("{login}@example.com"),
            };
            (id, User { id, login: login.to_owned(), name: name.to_owned(), email, is_bot, blocked: false })
        };
        let mut state = Self {
            url: String::new(),
            users: BTreeMap::from([
                user(BOT, "slicewright[bot]", "slicewright[bot]", true),
                user(ROBIN, "robin", "Robin Ops", false),
                user(KIM, "kim", "Kim Writer", false),
                user(ALEX, "alex", "Alex Reader", false),
            ]),
            tokens: BTreeMap::from([(TOKEN.to_owned(), BOT)]),
            admins: BTreeSet::new(),
            token_ends: None,
            token_scopes: None,
            checks: true,
            repositories: BTreeMap::new(),
            group: None,
            github: super::github::Own::default(),
            clock: CLOCK,
            next_id: 1_000,
        };
        state.add(INFRA, git);
        state
    }

    /// Another repository with the same people.
    pub(crate) fn add(&mut self, path: &str, git: BareRepo) {
        let repository = Repository {
            id: self.new_id(),
            path: path.to_owned(),
            git,
            default_branch: MAIN.to_owned(),
            archived: false,
            requests_disabled: false,
            former_paths: Vec::new(),
            roles: BTreeMap::from([
                (BOT, Role::Write),
                (ROBIN, Role::Maintain),
                (KIM, Role::Write),
                (ALEX, Role::Read),
            ]),
            labels: BTreeSet::new(),
            protected: vec![MAIN.to_owned()],
            requests: Vec::new(),
            awaiting: BTreeSet::new(),
            hooks: Vec::new(),
            schedules: Vec::new(),
            uploads: Vec::new(),
            issues: Vec::new(),
            statuses: Vec::new(),
            pushes: Vec::new(),
        };
        self.repositories.insert(path.to_owned(), repository);
    }

    /// `acme/infra`.
    pub(crate) fn infra(&mut self) -> &mut Repository {
        self.repositories.get_mut(INFRA).expect("made in `new`")
    }

    /// A number that nothing has yet.
    pub(crate) fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// The forge's time, which goes on.
    pub(crate) fn tick(&mut self) -> i64 {
        self.clock += 1;
        self.clock
    }

    /// The forge's time is the present, as a server sees it.
    pub(crate) fn set_clock_to_now(&mut self) {
        self.clock = jiff::Timestamp::now().as_second();
    }

    /// The account that a login stands for.
    pub(crate) fn user_named(&self, login: &str) -> Option<&User> {
        self.users.values().find(|user| user.login.eq_ignore_ascii_case(login))
    }
}

impl State {
    /// Does something to the branches of a repository, and notes who put which where.
    pub(crate) fn pushing<T>(&mut self, path: &str, user: u64, act: impl FnOnce(&mut Self) -> T) -> T {
        let heads = |state: &Self| -> BTreeMap<String, String> { state.repositories[path].git.heads() };
        let before = heads(self);
        let done = act(self);
        let (after, at) = (heads(self), self.clock);
        let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        let moved = names.into_iter().filter(|name| before.get(*name) != after.get(*name)).map(|name| Push {
            user,
            branch: name.clone(),
            from: before.get(name).cloned(),
            to: after.get(name).cloned(),
            at,
        });
        let moved: Vec<Push> = moved.collect();
        self.repositories.get_mut(path).expect("it is there").pushes.extend(moved);
        done
    }
}

impl Repository {
    /// The next number of a merge request or issue.
    pub(crate) fn next_number(&self) -> u64 {
        let numbers = self.requests.iter().map(|request| request.number);
        numbers.chain(self.issues.iter().map(|issue| issue.number)).max().unwrap_or(0) + 1
    }

    pub(crate) fn request(&self, number: u64) -> Option<&Request> {
        self.requests.iter().find(|request| request.number == number)
    }

    pub(crate) fn request_mut(&mut self, number: u64) -> Option<&mut Request> {
        self.requests.iter_mut().find(|request| request.number == number)
    }

    /// The head of a merge request: its branch while it is open, else where the branch stood.
    pub(crate) fn head_of(&self, request: &Request) -> Option<String> {
        match request.state {
            RequestState::Open => self.git.head(&request.source).or_else(|| request.last_head.clone()),
            _ => request.last_head.clone(),
        }
    }

    /// Whether a branch is protected.
    pub(crate) fn protects(&self, branch: &str) -> bool {
        self.protected.iter().any(|pattern| match pattern.split_once('*') {
            None => pattern == branch,
            Some((start, end)) => {
                branch.len() >= start.len() + end.len() && branch.starts_with(start) && branch.ends_with(end)
            }
        })
    }

    /// Whether `branch` can be merged into `target` as it is.
    pub(crate) fn merges(&self, target: &str, branch: &str) -> bool {
        let id = |name: &str| self.git.head(name).unwrap_or_else(|| name.to_owned());
        self.git.try_git(&["merge-tree", "--write-tree", &id(target), &id(branch)]).is_some()
    }
}

/// `2026-01-15T00:00:07Z`.
pub(crate) fn time(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds).unwrap().to_string()
}
