//! What the server knows, for its pages, for `status` and for whoever watches it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Service;
use super::job::look;
use crate::engine::pictures::Pictures;
use crate::engine::propose::{ClusterReport, PoolReport, Report};
use crate::engine::review::Facts;
use crate::store::StoreError;
use crate::store::jobs::{DeadJob, QueueCounts};
use crate::store::runs::RunNote;

/// The pages of pools in the store.
const POOLS: &str = "pool";

/// Pictures of pools in the store, apart from their pages: whoever lists the pools need not read them.
const PICTURES: &str = "pictures";

/// Runs that are shown.
const MOST_RUNS: u32 = 50;

/// A pool as the last look left it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolShown {
    /// Its cluster.
    pub cluster: String,
    /// Its name.
    pub pool: String,
    /// Where it stands: `open`, `waiting`.
    pub section: String,
    /// What is proposed, if anything is.
    pub title: Option<String>,
    /// What was done last, in one word.
    pub action: String,
    /// Why.
    pub reason: String,
    /// Its merge request is open.
    pub is_open: bool,
    /// GPUs that the plan frees.
    pub cards_freed: u32,
    /// Where a person finds the merge request.
    pub url: Option<String>,
    /// The plan, or why there is none, in a few lines.
    pub summary: String,
    /// The text of the proposal without the cards and the evidence, Markdown.
    #[serde(default)]
    pub body: Option<String>,
    /// When it was measured.
    pub as_of: Timestamp,
}

/// All that the pages show.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// Every pool, by cluster and name.
    pub pools: Vec<PoolShown>,
    /// The last runs, the newest first.
    pub runs: Vec<RunNote>,
    /// Jobs that were given up, the newest first.
    pub given_up: Vec<DeadJob>,
}

/// How the server is.
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// The queue.
    pub queue: QueueCounts,
    /// Each cluster with the end of its last run that was done.
    pub looked: Vec<(String, Option<Timestamp>)>,
    /// Pools with an open proposal, and GPUs that all plans free.
    pub open: u64,
    /// GPUs that all plans free.
    pub cards_freed: u64,
}

impl Service {
    /// The memory can be written. Whoever asks again within a second gets the same answer, since anybody may ask.
    ///
    /// # Errors
    /// When it cannot.
    pub async fn ready(&self) -> Result<(), StoreError> {
        const SAME: Duration = Duration::from_secs(1);
        let mut last = self.ready_at.lock().await;
        if last.is_none_or(|last: Instant| last.elapsed() > SAME) {
            self.store.check().await?;
            *last = Some(Instant::now());
        }
        Ok(())
    }

    /// What the pages show.
    ///
    /// # Errors
    /// When the memory cannot be read.
    pub async fn shown(&self) -> Result<Shown, StoreError> {
        Ok(Shown {
            pools: self.pools().await?,
            runs: self.store.runs(MOST_RUNS).await?,
            given_up: self.store.dead(MOST_RUNS).await?,
        })
    }

    /// One pool.
    ///
    /// # Errors
    /// When the memory cannot be read.
    pub async fn pool(&self, cluster: &str, pool: &str) -> Result<Option<PoolShown>, StoreError> {
        let page = self.store.page(POOLS, &key(cluster, pool)).await?;
        Ok(page.and_then(|page| serde_json::from_str(&page.json).ok()))
    }

    /// The cards of one pool, and the evidence of each workload. `None`: nothing was planned.
    ///
    /// # Errors
    /// When the memory cannot be read.
    pub async fn pictures(&self, cluster: &str, pool: &str) -> Result<Option<Pictures>, StoreError> {
        let page = self.store.page(PICTURES, &key(cluster, pool)).await?;
        Ok(page.and_then(|page| serde_json::from_str::<Option<Pictures>>(&page.json).ok()).flatten())
    }

    async fn pools(&self) -> Result<Vec<PoolShown>, StoreError> {
        let pages = self.store.pages(POOLS).await?;
        // What another version wrote is shown again after the next look.
        Ok(pages.iter().filter_map(|page| serde_json::from_str(&page.json).ok()).collect())
    }

    /// How it is.
    ///
    /// # Errors
    /// When the memory cannot be read.
    pub async fn health(&self, now: Timestamp) -> Result<Health, StoreError> {
        let runs = self.store.runs(1_000).await?;
        let last = |cluster: &str| {
            let done = |run: &&RunNote| run.cluster == cluster && run.outcome == "done";
            runs.iter().filter(done).filter_map(|run| run.finished).max()
        };
        let engine = self.engine();
        let clusters = engine.settings().clusters.iter();
        let pools = self.pools().await?;
        Ok(Health {
            queue: self.store.counts(now).await?,
            looked: clusters.map(|cluster| (cluster.name.clone(), last(&cluster.name))).collect(),
            open: pools.iter().filter(|pool| pool.is_open).count() as u64,
            cards_freed: pools.iter().map(|pool| u64::from(pool.cards_freed)).sum(),
        })
    }

    /// Keeps what a run found for the pages; returns the keys of what it kept.
    pub(super) async fn show(&self, report: &Report) -> Result<BTreeSet<String>, StoreError> {
        let mut keep: BTreeSet<String> = BTreeSet::new();
        for of in &report.clusters {
            for pool in &of.pools {
                let shown = shown(of, pool);
                let key = key(&shown.cluster, &shown.pool);
                let pictures = self.engine().pictures(&of.analysis, &pool.pool).unwrap_or_else(|problem| {
                    tracing::error!(pool = %pool.pool, "{:#}", anyhow::Error::from(problem));
                    None
                });
                let now = Timestamp::now();
                self.store.put_page(PICTURES, &key, &json(&pictures), now).await?;
                self.store.put_page(POOLS, &key, &json(&shown), now).await?;
                keep.insert(key);
            }
        }
        Ok(keep)
    }

    /// Forgets what is shown of clusters that the configuration names no more.
    pub(super) async fn forget_strangers(&self) -> Result<(), StoreError> {
        let engine = self.engine();
        let named: BTreeSet<&str> =
            engine.settings().clusters.iter().map(|cluster| cluster.name.as_str()).collect();
        let shown: BTreeSet<String> = self.pools().await?.into_iter().map(|pool| pool.cluster).collect();
        for cluster in shown.iter().filter(|cluster| !named.contains(cluster.as_str())) {
            self.forget_pools(cluster, &BTreeSet::new()).await?;
        }
        Ok(())
    }

    /// Forgets the pools of a cluster, but for those to keep. Looks at other clusters may end at the same time.
    pub(super) async fn forget_pools(
        &self,
        cluster: &str,
        keep: &BTreeSet<String>,
    ) -> Result<(), StoreError> {
        let of_cluster = key(cluster, "");
        self.store.drop_pages(POOLS, &of_cluster, keep).await?;
        self.store.drop_pages(PICTURES, &of_cluster, keep).await
    }

    /// What `status` says besides what stands on the forge.
    pub(super) async fn facts(&self, place: &str) -> Result<Facts, StoreError> {
        let engine = self.engine();
        let here = engine.settings().clusters.iter().filter(|cluster| cluster.repository.place() == place);
        let names: BTreeSet<String> = here.map(|cluster| cluster.name.clone()).collect();
        let runs = self.store.runs(1_000).await?;
        let mut facts = Vec::new();
        for name in &names {
            match runs.iter().find(|run| run.cluster == *name && run.finished.is_some()) {
                Some(RunNote { finished: Some(at), problem: None, .. }) => {
                    facts.push(format!("cluster `{name}` was looked at last {}", minute(*at)));
                }
                Some(RunNote { finished: Some(at), problem: Some(_), .. }) => facts.push(format!(
                    "the last look at cluster `{name}`, {}, failed: the server's log says why",
                    minute(*at)
                )),
                Some(_) | None => facts.push(format!("cluster `{name}` was not looked at yet")),
            }
        }
        let schedules = self.store.schedules().await?;
        let next = |schedule: String| Some(minute(schedules.iter().find(|one| one.name == schedule)?.next));
        for cluster in engine.settings().clusters.iter().filter(|cluster| names.contains(&cluster.name)) {
            let name = &cluster.name;
            facts.extend(next(look(name, None)).map(|at| format!("cluster `{name}` is looked at next {at}")));
            facts.extend(cluster.pool_schedules.keys().filter_map(|pool| {
                Some(format!("pool `{name}/{pool}` is looked at next {}", next(look(name, Some(pool)))?))
            }));
        }
        Ok(facts)
    }
}

fn minute(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M UTC").to_string()
}

/// Names may hold a `/`.
fn key(cluster: &str, pool: &str) -> String {
    format!("{cluster}\n{pool}")
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("texts and numbers always serialise")
}

fn shown(cluster: &ClusterReport, pool: &PoolReport) -> PoolShown {
    PoolShown {
        cluster: pool.pool.cluster.clone(),
        pool: pool.pool.pool.clone(),
        section: pool.section.title().to_owned(),
        title: pool.proposal.as_ref().map(|proposal| proposal.title.clone()),
        action: pool.action.code().to_owned(),
        reason: pool.action.reason().to_owned(),
        is_open: pool.is_open,
        cards_freed: pool.cards_freed,
        url: pool.url.clone(),
        summary: pool.summary.clone(),
        body: pool.proposal.as_ref().map(|proposal| proposal.for_page.clone()),
        as_of: cluster.analysis.at,
    }
}
