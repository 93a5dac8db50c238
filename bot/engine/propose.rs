//! From plans to merge requests: the text of the change, the text about it, and what to do given what is there.

mod room;
mod there;

use std::collections::BTreeMap;

use anyhow::Context as _;
use slicewright_core::ids::{PoolId, slug};
use slicewright_core::plan::pool::Pool;
use slicewright_core::plan::unsure::unsure;
use slicewright_core::plan::{Outcome, Plan};
use slicewright_core::policy::freeze::held;
use slicewright_core::review::board::{Section, Standing as Where, section};
use slicewright_core::review::lifecycle::Action;
use slicewright_core::review::metadata::State;

pub(super) use there::There;

use room::{Room, Tally};
use there::branches;

use super::analyse::Analysis;
use super::onboarding::Waiting;
use super::orphans::Orphan;
use super::pass::{Done, Doubt, Pass, Ready, Subject, noted};
use super::proposal::{Proposal, wanted, write};
use super::review::{Asking, Obeyed, Taken, day};
use super::{Engine, Inputs, configuration};
use crate::forge::settings::RemoteKind;
use crate::forge::{Forge, Found, Identity};
use crate::prometheus::Progress;
use crate::render::{self, Dialect};
use crate::settings::{ClusterSettings, RepositorySettings, repo};

/// What is asked of one run.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    /// One cluster; else all.
    pub cluster: Option<String>,
    /// One pool; else all.
    pub pool: Option<String>,
    /// A person asked for that pool: how many proposals there may be holds nothing up.
    pub asked: bool,
    /// Decide and show, but write nothing.
    pub dry_run: bool,
}

/// What came of one run.
pub struct Report {
    /// One entry a cluster.
    pub clusters: Vec<ClusterReport>,
    /// Repositories in which nothing is proposed before their people said so.
    pub waiting: Vec<Waiting>,
    /// Branches that belong to no pool, in the repositories that were looked at as a whole.
    pub orphans: Vec<Orphan>,
}

/// What came of one cluster.
pub struct ClusterReport {
    /// Facts and decisions.
    pub analysis: Analysis,
    /// One entry a pool.
    pub pools: Vec<PoolReport>,
}

/// What came of one pool.
pub struct PoolReport {
    /// The pool.
    pub pool: PoolId,
    /// Its branch.
    pub branch: String,
    /// What was decided.
    pub action: Action,
    /// Where it stands among the pools of its repository.
    pub section: Section,
    /// Its merge request is open, and the bot's.
    pub is_open: bool,
    /// GPUs that the plan frees; 0 without one.
    pub cards_freed: u32,
    /// The text, where there is something to propose.
    pub proposal: Option<Proposal>,
    /// Where a person finds the merge request; `None` where there is none or nothing was written.
    pub url: Option<String>,
    /// A few lines for a terminal: the plan, or why there is none.
    pub summary: String,
    /// What changed for whoever asked, or why nothing was done.
    pub(super) obeyed: Option<Result<Obeyed, String>>,
}

impl Report {
    /// Something is or would be proposed.
    pub fn has_findings(&self) -> bool {
        self.clusters.iter().flat_map(|cluster| &cluster.pools).any(|pool| pool.proposal.is_some())
    }
}

impl Engine {
    /// Analyses, then opens, updates, leaves or withdraws one merge request a pool.
    ///
    /// # Errors
    /// When a cluster cannot be measured or read, or a write fails. Clusters before it are done then.
    pub async fn propose(
        &self,
        inputs: &Inputs,
        wishes: &Wishes,
        progress: &dyn Progress,
    ) -> anyhow::Result<Report> {
        self.run(inputs, wishes, None, progress).await
    }

    /// As [`Engine::propose`], with what a person asked for about the one pool that is wished for.
    ///
    /// # Errors
    /// As there.
    pub(super) async fn run(
        &self,
        inputs: &Inputs,
        wishes: &Wishes,
        asking: Option<&Asking>,
        progress: &dyn Progress,
    ) -> anyhow::Result<Report> {
        let mut clusters = Vec::new();
        let mut waiting: Vec<Waiting> = Vec::new();
        // Clusters may share a repository, and its limits with it.
        let mut standings: BTreeMap<String, Tally> = BTreeMap::new();
        for settings in self.clusters_in(inputs, wishes.cluster.as_deref())? {
            let forge = inputs.forges.get(&settings.name).context("the cluster has no repository")?;
            if waiting.iter().any(|known| known.repository == settings.repository.place()) {
                continue;
            }
            let tree = self.tree(settings, inputs).await?;
            if !wishes.dry_run {
                let asked = self.onboard(settings, forge.as_ref(), &tree, inputs.at).await;
                if let Some(asked) = asked.with_context(|| format!("cluster `{}`", settings.name))? {
                    waiting.push(asked);
                    continue;
                }
            }
            let mut analysis = self.survey_of(settings, inputs, tree, progress).await?;
            anyhow::ensure!(
                analysis.measured.data_quality.n_cards > 0,
                "cluster `{}`: no sample of `DCGM_FI_DEV_FB_USED` in {} days, so nothing is proposed and nothing is \
                 closed: check `prometheus.url` and `prometheus.matchers`; `slicewright doctor` says more",
                settings.name,
                self.settings().window_days()
            );
            let base_branch = forge
                .base_branch()
                .await
                .with_context(|| format!("cluster `{}`: cannot tell the default branch", settings.name))?;
            let repo = analysis.repo.clone().unwrap_or_default();
            let branches = branches(
                self.settings().branch_prefix(),
                analysis.pools.iter().map(|pool| pool.id.clone()).collect(),
                self.meets_another(&analysis.cluster),
            );
            let mut there = self.look(forge.as_ref(), &analysis.snapshot.commit, branches).await?;
            self.plan(&mut analysis, &there.wishes());
            let found = asking.and_then(|asking| there.at.get(asking.pool())).map(|(_, found)| found);
            let order = asking.and_then(|asking| asking.order(found, day(analysis.at)));
            let taken = match &order {
                Some(order) => Some(self.take_up(order, &mut analysis, forge.as_ref(), &mut there).await?),
                None => None,
            };
            let run = Run {
                analysis: &analysis,
                taken,
                forge: forge.as_ref(),
                identity: forge.identity().await.context("cannot tell who the bot is")?,
                base_branch: &base_branch,
                labels: settings.repository.labels.iter().chain(&repo.labels).cloned().collect(),
                dialect: self.dialect(&settings.repository),
                handle: self.hears(&settings.repository).then(|| self.settings().handle()),
                checks: settings.repository.checks,
                wishes,
            };
            if run.checks && !wishes.dry_run {
                configuration::show(run.forge, &analysis, run.dialect).await;
            }
            let tally = standings.entry(settings.repository.place()).or_default();
            let limits = self.settings().limits_of(&settings.repository).narrowed(&repo.proposals);
            let mut room = Room { limits, tally };
            self.count_others(settings, &run, &mut room)
                .await
                .with_context(|| format!("cluster `{}`", settings.name))?;
            let pools = self.propose_pools(&run, &there, room).await?;
            clusters.push(ClusterReport { analysis, pools });
        }
        let mut report = Report { clusters, waiting, orphans: Vec::new() };
        // A run over some pools would leave the others out.
        if wishes.pool.is_none() {
            report.orphans = self.orphans(inputs, &report).await;
            if !wishes.dry_run {
                self.show_boards(inputs, &report).await;
            }
        }
        Ok(report)
    }

    /// Whether a server is told of comments in a repository.
    pub(super) fn hears(&self, repository: &RepositorySettings) -> bool {
        let told = |forge: &str| self.settings().server.hooks.iter().any(|hook| hook.forge == forge);
        repository.remote().is_some_and(told)
    }

    /// How texts are written for a repository.
    pub(super) fn dialect(&self, repository: &RepositorySettings) -> Dialect {
        match self.settings().forge_of(repository).map(|forge| forge.kind) {
            None => Dialect::Local,
            Some(RemoteKind::GitHub) => Dialect::GitHub,
            Some(RemoteKind::GitLab) => Dialect::GitLab,
        }
    }

    /// Counts the proposals of the other clusters of a repository, whether this run comes to them or not: those of pools
    /// that the configuration names, since the others are known by what is measured.
    async fn count_others(
        &self,
        settings: &ClusterSettings,
        run: &Run<'_>,
        room: &mut Room<'_>,
    ) -> anyhow::Result<()> {
        if room.limits.max_open.is_none() && room.limits.max_per_hour.is_none() {
            return Ok(());
        }
        let place = settings.repository.place();
        let others = self.settings().clusters.iter();
        for other in others.filter(|other| other.name != settings.name && other.repository.place() == place) {
            let id = |name: &str| PoolId { cluster: other.name.clone(), pool: name.to_owned() };
            let pools = other.pools.iter().map(|pool| id(&pool.name)).collect();
            let meets = self.meets_another(&other.name);
            for branch in branches(self.settings().branch_prefix(), pools, meets).values() {
                if !room.tally.counted.contains(branch) {
                    room.count(branch, &run.find(branch).await?);
                }
            }
        }
        Ok(())
    }

    /// Another cluster has a name of the same slug.
    fn meets_another(&self, cluster: &str) -> bool {
        let mut others = self.settings().clusters.iter().filter(|other| other.name != cluster);
        others.any(|other| slug(&other.name) == slug(cluster))
    }

    /// What is there for every pool's branch, beside the commit that was read.
    async fn look(
        &self,
        forge: &dyn Forge,
        commit: &str,
        branches: BTreeMap<PoolId, String>,
    ) -> anyhow::Result<There> {
        let mut there = There { keys: self.signing_keys.clone(), at: BTreeMap::new() };
        for (pool, branch) in branches {
            let found = forge.find(&branch, commit).await;
            let found = found.with_context(|| format!("cannot look at branch `{branch}`"))?;
            there.at.insert(pool, (branch, found));
        }
        Ok(there)
    }

    async fn propose_pools(
        &self,
        run: &Run<'_>,
        there: &There,
        mut room: Room<'_>,
    ) -> anyhow::Result<Vec<PoolReport>> {
        let (analysis, wishes) = (run.analysis, run.wishes);
        if let Some(only) = &wishes.pool
            && !analysis.pools.iter().any(|pool| pool.id.pool == *only)
        {
            let known: Vec<_> = analysis.pools.iter().map(|pool| format!("`{}`", pool.id.pool)).collect();
            anyhow::bail!(
                "cluster `{}` has no pool `{only}`; it has {}",
                analysis.cluster,
                if known.is_empty() { "none".to_owned() } else { known.join(", ") }
            );
        }
        there.at.values().for_each(|(branch, found)| room.count(branch, found));
        let mut reports = Vec::new();
        for (pool, outcome) in analysis.pools.iter().zip(&analysis.outcomes) {
            if wishes.pool.as_ref().is_some_and(|only| pool.id.pool != *only) {
                continue;
            }
            let (branch, found) = &there.at[&pool.id];
            let at = Place { settings: pool, branch, found };
            let report = self
                .propose_pool(run, &at, there, outcome, &mut room)
                .await
                .with_context(|| format!("cannot propose the change of pool `{}`", pool.id))?;
            reports.push(report);
        }
        Ok(reports)
    }

    /// Decides about one pool's proposal and carries it out.
    #[tracing::instrument(name = "pool", skip_all, fields(pool = %at.settings.id))]
    async fn propose_pool(
        &self,
        run: &Run<'_>,
        at: &Place<'_>,
        there: &There,
        outcome: &Outcome,
        room: &mut Room<'_>,
    ) -> anyhow::Result<PoolReport> {
        let (analysis, found) = (run.analysis, at.found);
        let pool = &at.settings.id;
        let proposal = plan_of(outcome)
            .map(|plan| {
                write(analysis, self.catalog(), plan, at.branch, run.base_branch, run.dialect, run.handle)
            })
            .transpose()
            .context("cannot write the text about the change")?;
        let known = noted(found);
        let shares = known.as_ref().map(|known| known.shares.clone()).unwrap_or_default();
        let both = proposal.as_ref().zip(plan_of(outcome));
        let ready = both.map(|(proposal, plan)| Ready {
            wanted: wanted(proposal, plan, &shares),
            message: proposal.message.clone(),
            draft: proposal.draft,
            reviewers: proposal.summary.owners.clone(),
        });
        let rests_on = known.filter(|known| known.state == State::Open);
        let rests_on = rests_on.map(|known| known.metrics).unwrap_or_default();
        // What is missing now may be why a plan is gone or looks different; in a freeze not even that is acted upon.
        let doubt = unsure(at.settings, &analysis.inventory, &analysis.measured, &rests_on)
            .or_else(|| held(&at.settings.freeze, analysis.at).map(|hold| format!("held: {hold}")));
        let paused = || format!("held: `paused` in `{}`", repo::PLACE);
        let doubt = match &analysis.repo {
            Err(problem) => Some(Doubt::Configuration(problem.clone())),
            Ok(repo) => repo.paused.then(paused).or(doubt).map(Doubt::Wait),
        };
        let subject = Subject {
            pool,
            branch: at.branch,
            base_branch: run.base_branch,
            base_commit: &analysis.snapshot.commit,
            at: analysis.at,
            metrics: &analysis.measured.data_quality.metrics,
            labels: &run.labels,
            dialect: run.dialect,
            keys: &self.signing_keys,
            checks: run.checks,
            asked: run.taken.as_ref().and_then(|taken| taken.as_ref().ok()?.asked),
            overrides: &there.overrides(pool),
        };
        let pass = Pass::new(run.forge, subject, &run.identity, ready.as_ref(), doubt);
        // Whoever opens a closed proposal again asks for it.
        let reopened = found.request.as_ref().is_some_and(|request| request.open);
        let action = room.allow(pass.decide(found), analysis.at, run.wishes.asked || reopened);
        // Whoever asked for what cannot be done gets that for an answer, and nothing else happens.
        let refused = matches!(run.taken, Some(Err(_)));
        let done = if run.wishes.dry_run || refused {
            Done {
                action,
                url: found.request.as_ref().map(|request| request.url.clone()),
                head: found.branch_head.clone(),
                undecided: true,
            }
        } else {
            pass.carry_out(found, action).await?
        };
        let standing = Where {
            action: &done.action,
            was_open: found.request.as_ref().is_some_and(|request| request.open && request.by_bot),
            // Declined by a comment it stays open.
            state: noted(found)
                .map(|known| if known.declined_on.is_some() { State::Declined } else { known.state }),
            has_plan: ready.is_some(),
            misconfigured: analysis.repo.is_err(),
        };
        let obeyed = run.taken.as_ref().map(|taken| {
            let taken = taken.as_ref().map_err(Clone::clone)?;
            taken.obeyed(found, ready.as_ref().map(|ready| &ready.wanted), &done)
        });
        Ok(PoolReport {
            obeyed,
            is_open: standing.is_open(),
            section: section(&standing),
            cards_freed: plan_of(outcome).map_or(0, |plan| plan.saving.cards_freed),
            pool: pool.clone(),
            branch: at.branch.to_owned(),
            url: done.url,
            action: done.action,
            summary: match (&proposal, outcome) {
                (Some(proposal), _) => proposal.terminal.clone(),
                (None, Outcome::Nothing(nothing)) => render::nothing(pool, &nothing.reasons, &nothing.kept),
                (None, Outcome::Plan(_)) => String::new(),
            },
            proposal,
        })
    }
}

/// What holds for every pool of one cluster in one run.
struct Run<'a> {
    analysis: &'a Analysis,
    taken: Option<Result<Taken, String>>,
    forge: &'a dyn Forge,
    identity: Identity,
    base_branch: &'a str,
    labels: Vec<String>,
    dialect: Dialect,
    /// What people mention to give a command; `None`: nobody listens.
    handle: Option<&'a str>,
    checks: bool,
    wishes: &'a Wishes,
}

impl Run<'_> {
    /// What is there for a branch, beside the commit that was read.
    async fn find(&self, branch: &str) -> anyhow::Result<Found> {
        let found = self.forge.find(branch, &self.analysis.snapshot.commit).await;
        found.with_context(|| format!("cannot look at branch `{branch}`"))
    }
}

/// One pool, its branch, and what is there.
struct Place<'a> {
    settings: &'a Pool,
    branch: &'a str,
    found: &'a Found,
}

fn plan_of(outcome: &Outcome) -> Option<&Plan> {
    match outcome {
        Outcome::Plan(plan) => Some(plan),
        Outcome::Nothing(_) => None,
    }
}
