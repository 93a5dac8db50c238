//! What the server has: metrics, label dialect, sample interval, how many cards.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::chunks::{Tally, ask};
use super::query::{self, FB_USED, KsmLabels, Queries, WANTED};
use super::response::{Answer, Series};
use super::{Ask, AskError, Problem, Source};

/// What was found out before the first day is read.
#[derive(Clone, Debug)]
pub(super) struct Discovery {
    pub(super) queries: Queries,
    pub(super) metrics: BTreeSet<String>,
    /// Jobs whose series name the workload in `exported_pod`.
    pub(super) exported_jobs: BTreeSet<String>,
    pub(super) pod_label: &'static str,
    pub(super) host_label: Option<&'static str>,
    pub(super) interval_seconds: u64,
    /// The interval was measured, not assumed.
    pub(super) interval_known: bool,
    pub(super) n_cards: u64,
    /// Cards of each instance come from several nodes.
    pub(super) static_service: Vec<String>,
    /// Namespaces named on readings; the exporter's own is among them where the labels are plain.
    pub(super) reading_namespaces: BTreeSet<String>,
    pub(super) pod_labels: bool,
    /// Series of kube-state-metrics for one pod, above 1 when it is scraped twice.
    pub(super) owner_copies: u64,
}

impl Discovery {
    pub(super) fn has(&self, metric: &str) -> bool {
        self.metrics.contains(metric)
    }

    /// The first of two spellings that exists.
    pub(super) fn either(&self, names: [&'static str; 2]) -> Option<&'static str> {
        names.into_iter().find(|name| self.has(name))
    }
}

/// A count as a whole number; negative and absurd values are 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the range is checked before the cast"
)]
pub(super) fn whole(value: f64) -> u64 {
    if value.is_finite() && (0.0..1e18).contains(&value) { value.round() as u64 } else { 0 }
}

/// Assumed where no series is long enough to tell.
const USUAL_INTERVAL: u64 = 30;

pub(super) async fn discover<S: Source>(
    source: &S,
    tally: &Tally,
    matchers: &BTreeMap<String, String>,
    now: Timestamp,
) -> Result<Discovery, AskError> {
    let mut queries = Queries::new(matchers);
    let get = async |name: &'static str, what: &str, query: String| -> Result<Answer, AskError> {
        ask(source, tally, &Ask { name, what: what.to_owned(), query, time: now }).await
    };
    let metrics = match get("metric-names", "which metrics exist", queries.names()).await {
        Ok(answer) => {
            answer.series.iter().filter_map(|row| row.label("__name__").map(str::to_owned)).collect()
        }
        // Azure allows no pattern for a metric's name.
        Err(error) if error.problem == Problem::Refused => {
            let mut found = BTreeSet::new();
            for metric in WANTED {
                let answer =
                    get("metric-count", &format!("whether `{metric}` exists"), queries.count(metric)).await?;
                if !answer.series.is_empty() {
                    found.insert(metric.to_owned());
                }
            }
            found
        }
        Err(error) => return Err(error),
    };
    let metrics: BTreeSet<String> = metrics;
    let has = |metric: &str| metrics.contains(metric);

    let dialect = get("label-dialect", "where the workload's labels are", queries.card_dialect()).await?;
    let job = |row: &Series| row.label("job").unwrap_or_default().to_owned();
    let exported_jobs: BTreeSet<String> =
        dialect.series.iter().filter(|row| row.label("exported_namespace").is_some()).map(job).collect();
    let old = dialect.series.iter().any(|row| row.label("pod_namespace").is_some());
    let reading_namespaces = dialect
        .series
        .iter()
        .filter_map(|row| {
            row.first_label(&["exported_namespace", "pod_namespace", "namespace"]).map(str::to_owned)
        })
        .collect();
    let pod_label = match (exported_jobs.is_empty(), old) {
        (false, _) => "exported_pod",
        (true, true) => "pod_name",
        (true, false) => "pod",
    };
    if !get("old-uuid", "how the UUID label is spelled", queries.old_uuid()).await?.series.is_empty() {
        queries.uuid = "uuid";
    }

    let any = [FB_USED, query::GPU_UTIL[0], query::GR_ACTIVE[0]].into_iter().find(|name| has(name));
    let any = any.unwrap_or(FB_USED);
    let hosts = get("card-hosts", "which node each card is on", queries.card_hosts(any)).await?;
    let host_label = if hosts.series.iter().any(|row| row.label("Hostname").is_some()) {
        Some("Hostname")
    } else if hosts.series.iter().any(|row| row.label("hostname").is_some()) {
        Some("hostname")
    } else {
        None
    };
    let mut nodes_of: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for row in &hosts.series {
        if let (Some(instance), Some(host)) =
            (row.label("instance"), row.first_label(&["Hostname", "hostname"]))
        {
            nodes_of.entry(instance).or_default().insert(host);
        }
    }
    let static_service =
        nodes_of.iter().filter(|(_, hosts)| hosts.len() > 1).map(|(name, _)| (*name).to_owned()).collect();

    let cards = get("card-count", "how many cards there are", queries.card_count()).await?;
    let n_cards = cards.series.iter().filter_map(Series::value).map(whole).sum();

    let per_hour = get("sample-interval", "how often cards are sampled", queries.interval()).await?;
    let per_hour = per_hour.series.first().and_then(Series::value).map_or(0, whole);
    let interval_known = per_hour > 0;
    let interval_seconds =
        if interval_known { ((3_600 + per_hour / 2) / per_hour).max(1) } else { USUAL_INTERVAL };

    if has("kube_pod_owner") {
        let exported =
            get("owner-dialect", "how kube-state-metrics is labelled", queries.owner_dialect()).await?;
        if !exported.series.is_empty() {
            queries.ksm = KsmLabels::EXPORTED;
        }
    }
    let owner_copies = if has("kube_pod_owner") {
        let copies =
            get("owner-copies", "whether kube-state-metrics is scraped twice", queries.owner_copies())
                .await?;
        copies.series.first().and_then(Series::value).map_or(1, whole)
    } else {
        1
    };
    let pod_labels = has("kube_pod_labels")
        && !get("pod-labels", "which pod labels exist", queries.pod_labels_now()).await?.series.is_empty();
    Ok(Discovery {
        exported_jobs,
        pod_label,
        host_label,
        interval_seconds,
        interval_known,
        n_cards,
        static_service,
        reading_namespaces,
        pod_labels,
        owner_copies,
        metrics,
        queries,
    })
}

/// Whether anything was ever measured.
pub(super) fn has_memory(discovery: &Discovery) -> bool {
    discovery.has(FB_USED)
}
