//! From plans to merge requests: the text of the change, the text about it, and what to do given what is there.

use std::collections::BTreeMap;

use anyhow::Context as _;
use slicewright_core::fit::FitReport;
use slicewright_core::ids::{PoolId, slug};
use slicewright_core::plan::pool::Pool;
use slicewright_core::plan::unsure::unsure;
use slicewright_core::plan::{Outcome, Plan};
use slicewright_core::policy::freeze::held;
use slicewright_core::review::codeowners::{self, CodeOwners};
use slicewright_core::review::lifecycle::{Action, Own, Wanted, decide};
use slicewright_core::review::limits::{Limits, Standing};
use slicewright_core::review::metadata::{Metadata, State, strip};
use slicewright_core::usage::ComputeSource;

use super::analyse::Analysis;
use super::{Engine, Inputs, VERSION};
use crate::forge::{Commit, Forge, ForgeError, Found, RequestText};
use crate::infra::{self, ChangeSet};
use crate::prometheus::Progress;
use crate::render;

/// What is asked of one run.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    /// One cluster; else all.
    pub cluster: Option<String>,
    /// One pool; else all.
    pub pool: Option<String>,
    /// Decide and show, but write nothing.
    pub dry_run: bool,
}

/// What came of one run.
pub struct Report {
    /// One entry a cluster.
    pub clusters: Vec<ClusterReport>,
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
    /// The text, where there is something to propose.
    pub proposal: Option<Proposal>,
    /// Where a person finds the merge request; `None` where there is none or nothing was written.
    pub url: Option<String>,
    /// A few lines for a terminal: the plan, or why there is none.
    pub summary: String,
}

/// A proposal as text.
pub struct Proposal {
    /// Title of the merge request.
    pub title: String,
    /// Its text, without the hidden block.
    pub body: String,
    /// It waits for people: changes by hand are needed, or the evidence is thin.
    pub draft: bool,
    terminal: String,
    message: String,
    /// The files that differ.
    pub changes: ChangeSet,
    /// The same in words, with diffs.
    pub summary: render::ChangeSummary,
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
        let mut clusters = Vec::new();
        // Clusters may share a repository, and its limits with it.
        let mut standings: BTreeMap<String, Standing> = BTreeMap::new();
        for settings in self.clusters_in(inputs, wishes.cluster.as_deref())? {
            let analysis = self.analyse(settings, inputs, progress).await?;
            anyhow::ensure!(
                analysis.measured.data_quality.n_cards > 0,
                "cluster `{}`: no sample of `DCGM_FI_DEV_FB_USED` in {} days, so nothing is proposed and nothing is \
                 closed: check `prometheus.url` and `prometheus.matchers`; `slicewright doctor` says more",
                settings.name,
                self.settings().window_days()
            );
            let forge = inputs.forges.get(&settings.name).context("the cluster has no repository")?;
            let base_branch = forge
                .base_branch()
                .await
                .with_context(|| format!("cluster `{}`: cannot tell the default branch", settings.name))?;
            let pools = {
                let standing = standings.entry(settings.repository.place()).or_default();
                let room = Room { limits: self.settings().limits_of(&settings.repository), standing };
                self.propose_pools(&analysis, forge.as_ref(), &base_branch, wishes, room).await?
            };
            clusters.push(ClusterReport { analysis, pools });
        }
        Ok(Report { clusters })
    }

    async fn propose_pools(
        &self,
        analysis: &Analysis,
        forge: &dyn Forge,
        base_branch: &str,
        wishes: &Wishes,
        mut room: Room<'_>,
    ) -> anyhow::Result<Vec<PoolReport>> {
        let branches = branches(
            self.settings().branch_prefix(),
            analysis.pools.iter().map(|pool| pool.id.clone()).collect(),
            self.settings()
                .clusters
                .iter()
                .filter(|other| other.name != analysis.cluster)
                .any(|other| slug(&other.name) == slug(&analysis.cluster)),
        );
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
        let mut there = BTreeMap::new();
        for (pool, branch) in &branches {
            let found =
                forge.find(branch).await.with_context(|| format!("cannot look at branch `{branch}`"))?;
            room.count(&found);
            there.insert(pool, found);
        }
        let mut reports = Vec::new();
        for (pool, outcome) in analysis.pools.iter().zip(&analysis.outcomes) {
            if wishes.pool.as_ref().is_some_and(|only| pool.id.pool != *only) {
                continue;
            }
            let branch = &branches[&pool.id];
            let report = self
                .propose_pool(
                    analysis,
                    forge,
                    base_branch,
                    branch,
                    &there[&pool.id],
                    pool,
                    outcome,
                    wishes,
                    &mut room,
                )
                .await
                .with_context(|| format!("cannot propose the change of pool `{}`", pool.id))?;
            reports.push(report);
        }
        Ok(reports)
    }

    #[expect(clippy::too_many_arguments, reason = "one step of one pass; a struct would be used here alone")]
    async fn propose_pool(
        &self,
        analysis: &Analysis,
        forge: &dyn Forge,
        base_branch: &str,
        branch: &str,
        found: &Found,
        settings: &Pool,
        outcome: &Outcome,
        wishes: &Wishes,
        room: &mut Room<'_>,
    ) -> anyhow::Result<PoolReport> {
        let pool = &settings.id;
        let proposal = plan_of(outcome)
            .map(|plan| write(analysis, plan, branch, base_branch))
            .transpose()
            .context("cannot write the text about the change")?;
        let identity = forge.identity().await?;
        let own = Own {
            emails: identity.emails,
            forge_emails: identity.forge_emails,
            heads: found.unfinished_head.iter().cloned().collect(),
        };
        let today = jiff::tz::Offset::UTC.to_datetime(analysis.at).date();
        let known = found.request.as_ref().and_then(|request| Metadata::parse(&request.body));
        let shares = known.as_ref().map(|known| known.shares.clone()).unwrap_or_default();
        let both = proposal.as_ref().zip(plan_of(outcome));
        let wanted = both.map(|(proposal, plan)| wanted(proposal, plan, &shares));
        let rests_on = known.as_ref().filter(|known| known.state == State::Open);
        let rests_on = rests_on.map(|known| known.metrics.clone()).unwrap_or_default();
        let stranger = known.filter(|known| known.cluster != pool.cluster || known.pool != pool.pool);
        let doubt = match stranger {
            Some(known) => Some(format!(
                "the branch belongs to pool `{}` of cluster `{}`: give one of the two another name",
                known.pool, known.cluster
            )),
            None => unsure(settings, &analysis.inventory, &analysis.measured, &rests_on)
                .or_else(|| held(&settings.freeze, analysis.at).map(|hold| format!("held: {hold}"))),
        };
        let action = match doubt {
            // What is missing now may be why a plan is gone or looks different; in a freeze not even that is acted upon.
            Some(reason) => Action::Leave { reason },
            None => decide(&found.observed(), wanted.as_ref(), &own, today),
        };
        // Whoever opens a closed proposal again asks for it.
        let reopened = found.request.as_ref().is_some_and(|request| request.open);
        let action = room.allow(action, analysis.at, wishes.pool.is_some() || reopened);
        let mut report = PoolReport {
            pool: pool.clone(),
            branch: branch.to_owned(),
            url: found.request.as_ref().map(|request| request.url.clone()),
            action,
            summary: match (&proposal, outcome) {
                (Some(proposal), _) => proposal.terminal.clone(),
                (None, Outcome::Nothing(nothing)) => render::nothing(pool, &nothing.reasons, &nothing.kept),
                (None, Outcome::Plan(_)) => String::new(),
            },
            proposal,
        };
        if !wishes.dry_run {
            let message = report.proposal.as_ref().map(|proposal| proposal.message.as_str());
            let pass = Pass { forge, branch, base_branch, analysis, pool, found, message, today };
            if let Some(url) = pass.carry_out(&report.action, wanted.as_ref()).await? {
                report.url = Some(url);
            }
        }
        Ok(report)
    }
}

/// The room that a repository has for new proposals.
struct Room<'a> {
    limits: Limits,
    standing: &'a mut Standing,
}

impl Room<'_> {
    /// Counts what is there.
    fn count(&mut self, found: &Found) {
        let known = found.request.as_ref().and_then(|request| Metadata::parse(&request.body));
        let Some(known) = known else { return };
        self.standing.made.extend(known.created_at);
        let open = known.state == State::Open && found.request.as_ref().is_some_and(|request| request.open);
        self.standing.n_open += u32::from(open);
    }

    /// The action, unless it would make one proposal too many.
    fn allow(&mut self, action: Action, at: jiff::Timestamp, asked: bool) -> Action {
        if !matches!(action, Action::Open { .. }) {
            return action;
        }
        if let Some(why) = self.limits.forbid(self.standing, at, asked) {
            return Action::Leave { reason: format!("waits: {why}") };
        }
        self.standing.n_open += 1;
        self.standing.made.push(at);
        action
    }
}

/// One branch a pool; pools whose slugs meet get a hash each, and so do all of a cluster whose slug meets another's.
fn branches(prefix: &str, pools: Vec<PoolId>, cluster_meets: bool) -> BTreeMap<PoolId, String> {
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for pool in &pools {
        *count.entry(pool.branch(prefix)).or_default() += 1;
    }
    pools
        .into_iter()
        .map(|pool| {
            let plain = pool.branch(prefix);
            let branch =
                if cluster_meets || count[&plain] > 1 { pool.branch_with_hash(prefix) } else { plain };
            (pool, branch)
        })
        .collect()
}

fn plan_of(outcome: &Outcome) -> Option<&Plan> {
    match outcome {
        Outcome::Plan(plan) => Some(plan),
        Outcome::Nothing(_) => None,
    }
}

/// The change and the text about it.
fn write(
    analysis: &Analysis,
    plan: &Plan,
    branch: &str,
    base_branch: &str,
) -> Result<Proposal, render::RenderError> {
    let changes = infra::edit(&analysis.snapshot, &analysis.scope, plan);
    let summary = summary(analysis, &changes);
    let queries = queries(analysis, plan);
    let view = render::View {
        plan,
        profiles: &analysis.measured.profiles,
        changes: &summary,
        quality: &analysis.measured.data_quality,
        queries: &queries,
        as_of: analysis.at,
        version: VERSION,
        branch,
        base_branch,
        dialect: render::Dialect::Local,
    };
    let rendered = render::body(&view)?;
    let (terminal, message) = (render::terminal(&view), render::commit_message(&view));
    Ok(Proposal {
        title: rendered.title,
        body: rendered.body,
        draft: rendered.draft,
        terminal,
        message,
        changes,
        summary,
    })
}

/// The change set in the words of `render`, with a diff a file.
fn summary(analysis: &Analysis, changes: &ChangeSet) -> render::ChangeSummary {
    render::ChangeSummary {
        files: changes
            .files
            .iter()
            .map(|(path, after)| render::FileChange {
                path: path.clone(),
                diff: Some(render::unified_diff(
                    path,
                    analysis.snapshot.files.get(path).map(Vec::as_slice),
                    Some(after),
                )),
            })
            .collect(),
        by_hand: changes
            .manual
            .iter()
            .map(|manual| render::ByHand {
                what: manual.what.clone(),
                why: manual.why.clone(),
                text: manual.text.clone(),
            })
            .collect(),
        side_effects: changes.side_effects.clone(),
        owners: owners(analysis, changes),
    }
}

/// Whom the repository's CODEOWNERS asks about the files that differ.
fn owners(analysis: &Analysis, changes: &ChangeSet) -> Vec<String> {
    let files = &analysis.snapshot.files;
    let text = codeowners::PLACES.iter().find_map(|path| std::str::from_utf8(files.get(*path)?).ok());
    let paths = changes.files.keys().map(String::as_str);
    text.map(|text| CodeOwners::parse(text).of(paths)).unwrap_or_default()
}

/// The questions with which a reader can check the figures: the peak's pod on the peak's day, and the worst day of
/// compute, in the dialect of the cluster's exporter.
fn queries(analysis: &Analysis, plan: &Plan) -> Vec<render::Query> {
    let exported = analysis.measured.data_quality.pod_label.starts_with("exported_");
    let prefix = if exported { "exported_" } else { "" };
    let matchers: String =
        analysis.matchers.iter().map(|(key, value)| format!(",{key}={}", quoted(value))).collect();
    let mut queries = Vec::new();
    for item in &plan.items {
        let id = &item.fit.workload;
        let Some(profile) = analysis.measured.profiles.get(id) else { continue };
        let namespace = format!("{prefix}namespace={}", quoted(&id.namespace));
        if let Some(peak) = &profile.peak {
            queries.push(render::Query {
                what: format!("peak memory of {id}, MiB"),
                promql: format!(
                    "max(max_over_time(DCGM_FI_DEV_FB_USED{{{namespace},{prefix}pod={}{matchers}}}[1d] @ {}))",
                    quoted(&peak.pod),
                    end_of(peak.day)
                ),
            });
        }
        if let Some(compute) = &profile.compute {
            queries.push(render::Query {
                what: format!("99th percentile of compute of {id} on its worst day"),
                promql: format!(
                    "max(quantile_over_time(0.99, {}{{{namespace},{prefix}pod=~{}{matchers}}}[1d] @ {}))",
                    compute_metric(compute.source),
                    quoted(&format!("{}-.*", regex_escaped(&id.name))),
                    end_of(compute.day)
                ),
            });
        }
    }
    queries
}

/// The last second of a UTC day, as Prometheus' `@` takes it.
fn end_of(day: jiff::civil::Date) -> i64 {
    let start = jiff::tz::Offset::UTC.to_timestamp(day.at(0, 0, 0, 0));
    start.map_or(0, |start| start.as_second() + 86_399)
}

fn compute_metric(source: ComputeSource) -> &'static str {
    match source {
        ComputeSource::SmActive => "DCGM_FI_PROF_SM_ACTIVE",
        ComputeSource::GrEngineActive => "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        ComputeSource::GpuUtil => "DCGM_FI_DEV_GPU_UTIL",
    }
}

/// A PromQL string.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Kubernetes names hold no other character with a meaning in a regular expression.
fn regex_escaped(text: &str) -> String {
    text.replace('.', "\\.")
}

fn wanted(proposal: &Proposal, plan: &Plan, shares: &BTreeMap<String, String>) -> Wanted {
    Wanted {
        title: proposal.title.clone(),
        body: proposal.body.clone(),
        fingerprint: plan.fingerprint.clone(),
        files: files(&proposal.changes),
        method: plan.method.name().to_owned(),
        cards_freed: plan.saving.cards_freed,
        shares: plan.items.iter().map(|item| (item.fit.workload.to_string(), item.share.clone())).collect(),
        outgrown: outgrown(plan, shares),
    }
}

/// Workloads that no longer fit what an earlier plan gave them.
fn outgrown(plan: &Plan, shares: &BTreeMap<String, String>) -> Vec<String> {
    let fits = plan.items.iter().map(|item| &item.fit).chain(plan.kept.iter().map(|kept| &kept.fit));
    let too_small = |fit: &&FitReport| {
        shares.get(&fit.workload.to_string()).is_some_and(|share| {
            fit.considered.iter().any(|candidate| candidate.name == *share && !candidate.fits)
        })
    };
    fits.filter(too_small).map(|fit| fit.workload.to_string()).collect()
}

fn files(changes: &ChangeSet) -> BTreeMap<String, Option<Vec<u8>>> {
    changes.files.iter().map(|(path, content)| (path.clone(), Some(content.clone()))).collect()
}

/// One pool's writes, in the order that leaves nothing half done.
struct Pass<'a> {
    forge: &'a dyn Forge,
    branch: &'a str,
    base_branch: &'a str,
    analysis: &'a Analysis,
    pool: &'a PoolId,
    found: &'a Found,
    message: Option<&'a str>,
    today: jiff::civil::Date,
}

impl Pass<'_> {
    async fn carry_out(&self, action: &Action, wanted: Option<&Wanted>) -> anyhow::Result<Option<String>> {
        match action {
            Action::Leave { .. } | Action::StopEdited { .. } => Ok(None),
            Action::Open { push, .. } => self.write(wanted, *push).await.map(Some),
            Action::Update { push, text, .. } => {
                if *push || *text {
                    self.write(wanted, *push).await.map(Some)
                } else {
                    Ok(None)
                }
            }
            Action::Withdraw { reason } => self.close(State::Withdrawn, reason, true).await,
            Action::RecordMerged { reason } => self.close(State::Merged, reason, false).await,
            Action::RecordDeclined { delete_branch, reason } => {
                self.close(State::Declined, reason, *delete_branch).await
            }
        }
    }

    async fn write(&self, wanted: Option<&Wanted>, push: bool) -> anyhow::Result<String> {
        let wanted = wanted.context("a proposal without a plan")?;
        let head = if push {
            let commit = Commit {
                base: self.analysis.snapshot.commit.clone(),
                message: self.message.context("a proposal without a message")?.to_owned(),
                files: wanted.files.clone(),
            };
            match self.forge.publish(self.branch, self.found.branch_head.as_deref(), &commit).await {
                Err(ForgeError::Conflict { what }) => {
                    anyhow::bail!("{what} moved while the change was made: nothing was written; run again")
                }
                published => published.with_context(|| format!("cannot write branch `{}`", self.branch))?,
            }
        } else {
            self.found.branch_head.clone().context("the branch is gone")?
        };
        let known = self.known();
        let metadata = Metadata {
            schema: Metadata::SCHEMA,
            cluster: self.pool.cluster.clone(),
            pool: self.pool.pool.clone(),
            created_in: known.as_ref().map_or_else(|| VERSION.to_owned(), |known| known.created_in.clone()),
            created_at: match &known {
                Some(known) if known.state == State::Open => known.created_at,
                _ => Some(self.analysis.at),
            },
            updated_in: VERSION.to_owned(),
            base_branch: self.base_branch.to_owned(),
            base_commit: match &known {
                Some(known) if !push => known.base_commit.clone(),
                _ => self.analysis.snapshot.commit.clone(),
            },
            head,
            fingerprint: wanted.fingerprint.clone(),
            body_hash: String::new(),
            state: State::Open,
            method: wanted.method.clone(),
            cards_freed: wanted.cards_freed,
            metrics: self.analysis.measured.data_quality.metrics.clone(),
            shares: wanted.shares.clone(),
            snoozed_until: known.as_ref().and_then(|known| known.snoozed_until),
            paused: known.as_ref().is_some_and(|known| known.paused),
            closed_on: None,
            reason: None,
        };
        let open = self.found.request.as_ref().filter(|request| request.open);
        let request = RequestText {
            title: wanted.title.clone(),
            body: metadata.attach(&wanted.body),
            base_branch: self.base_branch.to_owned(),
            ..RequestText::default()
        };
        self.forge
            .write_request(self.branch, open.map(|request| request.id.as_str()), &request)
            .await
            .with_context(|| format!("cannot write the merge request of `{}`", self.branch))
    }

    fn known(&self) -> Option<Metadata> {
        Metadata::parse(&self.found.request.as_ref()?.body)
    }

    /// Closes what is there; with `delete` the branch goes too, if it still is where it was seen.
    async fn close(&self, state: State, reason: &str, delete: bool) -> anyhow::Result<Option<String>> {
        let expected = self.found.branch_head.as_deref().filter(|_| delete);
        let id = self.found.request.as_ref().map(|request| request.id.as_str());
        let (title, body) = match (&self.found.request, self.known()) {
            (Some(request), Some(known)) => {
                let closed = Metadata {
                    state,
                    updated_in: VERSION.to_owned(),
                    closed_on: Some(self.today),
                    reason: Some(reason.to_owned()),
                    ..known
                };
                let body = render::closing(&strip(&request.body), state, reason);
                (request.title.clone(), closed.attach(&body))
            }
            (Some(request), None) => (request.title.clone(), request.body.clone()),
            (None, _) => (String::new(), String::new()),
        };
        self.forge
            .close(self.branch, expected, id, &title, &body)
            .await
            .with_context(|| format!("cannot close the proposal of `{}`", self.branch))?;
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(name: &str) -> PoolId {
        PoolId { cluster: "c".into(), pool: name.into() }
    }

    #[test]
    fn pools_whose_slugs_meet_get_branches_of_their_own() {
        let got = branches("slicewright", vec![pool("a b"), pool("a-b"), pool("x")], false);
        assert_ne!(got[&pool("a b")], got[&pool("a-b")]);
        assert_eq!(got[&pool("x")], "slicewright/c/x");
        let met = branches("slicewright", vec![pool("x")], true);
        assert!(met[&pool("x")].starts_with("slicewright/c/x-"));
    }

    #[test]
    fn names_in_queries_are_quoted() {
        assert_eq!(quoted("a\"b\\"), "\"a\\\"b\\\\\"");
    }
}
