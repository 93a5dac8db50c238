//! What the metrics have and lack, for `doctor` and for the merge request.

use std::collections::BTreeSet;

use slicewright_core::inventory::{Inventory, UNKNOWN_PROFILE};
use slicewright_core::units::{Mib, counted};
use slicewright_core::usage::fold::{Folded, NodeToday};
use slicewright_core::usage::{DataGap, DataQuality, Finding, Severity};

use super::discover::Discovery;
use super::measure::is_measured;
use super::query::{self, FB_USED};
use super::today::Today;

const ALLOWLIST: &str = "--metric-labels-allowlist=nodes=[nvidia.com/gpu.product,nvidia.com/gpu.memory,nvidia.com/gpu.count,\
nvidia.com/gpu.replicas,nvidia.com/gpu.sharing-strategy,nvidia.com/mig.capable,nvidia.com/mig.strategy,\
nvidia.com/mig.config,nvidia.com/mig.config.state,node.kubernetes.io/instance-type,cloud.google.com/gke-nodepool,\
eks.amazonaws.com/nodegroup,kubernetes.azure.com/agentpool,agentpool,karpenter.sh/nodepool,\
cluster.x-k8s.io/deployment-name],namespaces=[*]";

pub(super) fn quality(
    found: &Discovery,
    now: &Today,
    folded: &Folded,
    inventory: &Inventory,
    days_asked: u32,
) -> DataQuality {
    let mut missing = Vec::new();
    let mut lacks = |names: [&'static str; 2]| {
        let lacking = found.either(names).is_none();
        if lacking {
            missing.push(names[0].to_owned());
        }
        lacking
    };
    let (sm, gr) = (lacks(query::SM_ACTIVE), lacks(query::GR_ACTIVE));
    let util = lacks(query::GPU_UTIL);
    let dram = lacks(query::DRAM_ACTIVE);
    let free = lacks([query::FB_FREE; 2]);
    let mut list = Findings::default();

    if !is_measured(found) && folded.days_had == 0 {
        list.blocker(
            "no-dcgm",
            format!("there is no `{FB_USED}` series"),
            "install the DCGM exporter and have it scraped; if one server holds several clusters, check `matchers`",
        );
    } else if !now.has_cards() {
        list.blocker(
            "no-dcgm-now",
            format!("`{FB_USED}` has a history but no sample of now"),
            "check that the DCGM exporter runs and that its targets are up",
        );
    }
    if found.has("dcgm_fb_used") || found.has("dcgm_fi_dev_fb_used") {
        list.warning(
            "foreign-metric-names",
            "GPU metrics exist under names that are not read (`dcgm_fb_used`, lower-cased names)".to_owned(),
            "update the exporter, or keep the names as the exporter prints them",
        );
    }
    if !found.has("kube_pod_owner") || !found.has("kube_pod_container_resource_requests") {
        list.blocker(
            "no-kube-state-metrics",
            "kube-state-metrics' series `kube_pod_owner` or `kube_pod_container_resource_requests` are missing".to_owned(),
            "install kube-state-metrics and have it scraped; without it no pod has an owner",
        );
    } else if found.owner_copies > 1 {
        list.note(
            "kube-state-metrics-twice",
            format!("every object of kube-state-metrics is there {} times", found.owner_copies),
            "two scrape jobs, or two Prometheus replicas behind one URL; readings are not changed by it",
        );
    }
    if is_measured(found) {
        compute(&mut list, sm, gr, util, dram, free);
        dialect(&mut list, found, folded);
    }
    static_service(&mut list, found);
    if !now.node_labels {
        list.warning(
            "no-node-labels",
            "kube-state-metrics does not show the nodes' GPU labels: memory of models, MIG state and pools are guessed".to_owned(),
            &format!("start kube-state-metrics with `{ALLOWLIST}`"),
        );
    }
    if folded.days_had > 0 && folded.days_had < days_asked {
        list.warning(
            "short-retention",
            format!("there are samples of {} of the {days_asked} days asked for", folded.days_had),
            "raise Prometheus' retention; a shorter history also needs `min_history_days` lower",
        );
    }
    if !found.interval_known && is_measured(found) {
        list.warning(
            "no-sample-interval",
            "no series has a sample of the last hour: 30 s between samples are assumed".to_owned(),
            "check that the exporter is scraped",
        );
    }
    if !folded.unattributed.is_empty() {
        let first = folded.unattributed.iter().next();
        let example =
            first.map(|pod| format!(", such as `{}/{}`", pod.namespace, pod.name)).unwrap_or_default();
        list.warning(
            "unattributed-pods",
            format!("{} with GPU samples have no owner{example}", counted(folded.unattributed.len(), "pod")),
            "check that kube-state-metrics covers all namespaces and all of its shards are scraped",
        );
    }
    gaps(&mut list, folded);
    slices(&mut list, now);
    if found.has("hami_vgpu_memory_used_bytes") {
        list.note(
            "hami",
            "HAMi shares cards in this cluster: what DCGM shows of them belongs to nobody in particular"
                .to_owned(),
            "workloads under HAMi are left alone",
        );
    }
    let dark: Vec<&str> = inventory
        .nodes
        .iter()
        .filter(|node| node.cards.is_empty() && node.gpu_allocatable.values().any(|n| *n > 0))
        .map(|node| node.name.as_str())
        .collect();
    if let (true, Some(first)) = (now.has_cards(), dark.first()) {
        list.warning(
            "nodes-without-readings",
            format!("{} with GPUs have no DCGM series, such as `{first}`", counted(dark.len(), "node")),
            "check the exporter there: integrated GPUs (Jetson) have no DCGM at all, MIG without instances shows none",
        );
    }
    let mut findings = list.0;
    findings.sort_by(|a, b| (a.severity, &a.code, &a.text).cmp(&(b.severity, &b.code, &b.text)));
    DataQuality {
        pod_label: found.pod_label.to_owned(),
        host_label: found.host_label.map(str::to_owned),
        sample_interval_seconds: found.interval_known.then_some(found.interval_seconds),
        metrics: found.metrics.iter().cloned().collect(),
        missing_metrics: missing,
        node_labels: now.node_labels,
        days_had: folded.days_had.min(days_asked),
        days_asked,
        n_cards: u32::try_from(now.cards.len().max(folded.n_cards)).unwrap_or(u32::MAX),
        n_unattributed_pods: u32::try_from(folded.unattributed.len()).unwrap_or(u32::MAX),
        findings,
    }
}

fn compute(list: &mut Findings, no_sm: bool, no_gr: bool, no_util: bool, no_dram: bool, no_free: bool) {
    let enable = "add `DCGM_FI_PROF_SM_ACTIVE` and `DCGM_FI_PROF_GR_ENGINE_ACTIVE` to the exporter's counters file \
                  (`dcgm-exporter.config` of the GPU Operator); Ampere and older need SYS_ADMIN for it";
    match (no_sm, no_gr, no_util) {
        (false, _, _) => {}
        (true, false, _) => list.warning(
            "no-sm-active",
            "SM_ACTIVE is missing: GR_ENGINE_ACTIVE stands in, which can only be too high".to_owned(),
            enable,
        ),
        (true, true, false) => list.warning(
            "no-sm-active",
            "SM_ACTIVE and GR_ENGINE_ACTIVE are missing: GPU_UTIL stands in, which only says that something ran".to_owned(),
            enable,
        ),
        (true, true, true) => {
            list.blocker("no-compute-metrics", "there is no compute metric at all".to_owned(), enable);
        }
    }
    if no_dram {
        list.note(
            "no-dram-active",
            "DRAM_ACTIVE is missing: the need for memory bandwidth is not known".to_owned(),
            "add `DCGM_FI_PROF_DRAM_ACTIVE` to the exporter's counters file",
        );
    }
    if no_free {
        list.note(
            "no-fb-free",
            "FB_FREE is missing: the usable memory of cards and slices is taken from the catalog".to_owned(),
            "add `DCGM_FI_DEV_FB_FREE` to the exporter's counters file",
        );
    }
}

fn dialect(list: &mut Findings, found: &Discovery, folded: &Folded) {
    if !found.exported_jobs.is_empty() {
        list.note(
            "honor-labels-off",
            "the workload's labels are stored as `exported_pod` and `exported_namespace`".to_owned(),
            "nothing to do here; `honorLabels: true` on the exporter's ServiceMonitor makes other tools work",
        );
    }
    if folded.days_had > 0 && !folded.pods_named {
        list.blocker(
            "no-pod-labels",
            "no reading carries a pod: the exporter does not ask the kubelet who holds which card".to_owned(),
            "set `DCGM_EXPORTER_KUBERNETES=true` and mount `/var/lib/kubelet/pod-resources`; on GKE also \
             `--kubernetes-gpu-id-type=device-name`",
        );
    }
}

fn static_service(list: &mut Findings, found: &Discovery) {
    if !found.static_service.is_empty() {
        list.blocker(
            "static-service-scrape",
            format!(
                "target `{}` answers for several nodes: each scrape sees another node, and most peaks are lost",
                found.static_service.join("`, `")
            ),
            "scrape the exporter's pods (ServiceMonitor, PodMonitor or endpoints discovery), not its Service",
        );
    }
}

fn gaps(list: &mut Findings, folded: &Folded) {
    let all: Vec<&DataGap> = folded.profiles.values().flat_map(|profile| &profile.gaps).collect();
    if all.contains(&&DataGap::ZeroPerProcess) {
        list.warning(
            "zero-per-process",
            "per-process memory reads 0 for every pod of shared cards".to_owned(),
            DataGap::ZeroPerProcess.advice(),
        );
    }
    let impossible: BTreeSet<&str> = all
        .iter()
        .filter_map(|gap| match gap {
            DataGap::ImpossibleReading { card, .. } => Some(card.as_str()),
            _ => None,
        })
        .collect();
    if let Some(first) = impossible.first() {
        list.warning(
            "impossible-readings",
            format!(
                "{} reported more memory than they have, such as {first}",
                counted(impossible.len(), "card")
            ),
            "look at the exporter's log for these cards; update DCGM",
        );
    }
    let incomplete: BTreeSet<&str> = all
        .iter()
        .filter_map(|gap| match gap {
            DataGap::IncompleteAnswer { what } => Some(what.as_str()),
            _ => None,
        })
        .collect();
    for what in incomplete.into_iter().take(5) {
        list.blocker(
            "incomplete-answer",
            format!("part of the window could not be read: {what}"),
            "nothing is proposed for the workloads of that day; run again when the server answers in full",
        );
    }
}

/// Memory that an idle slice shows at most; 6 to 15 MiB were read on real ones.
const IDLE_SLICE: Mib = Mib(64);

fn slices(list: &mut Findings, now: &Today) {
    let all = || now.cards.values().flat_map(|(card, _)| card.slices.iter().map(move |slice| (card, slice)));
    let mut unnamed = all().filter(|(_, slice)| slice.profile == UNKNOWN_PROFILE);
    if let Some((card, slice)) = unnamed.next() {
        list.warning(
            "unknown-mig-profiles",
            format!(
                "{} without one clear `GPU_I_PROFILE`, such as instance {} of card {}",
                counted(1 + unnamed.count(), "MIG instance"),
                slice.id,
                card.uuid
            ),
            "update the DCGM exporter to a version that knows the driver; a slice of unknown size is not judged",
        );
    }
    let held: BTreeSet<(&str, &str)> =
        now.held_slices.values().flatten().map(|id| (id.card.as_str(), id.id.as_str())).collect();
    let mut strangers = all().filter(|(card, slice)| {
        slice.used_now > Some(IDLE_SLICE) && !held.contains(&(card.uuid.as_str(), slice.id.as_str()))
    });
    if let Some((card, slice)) = strangers.next() {
        list.warning(
            "slices-in-use-without-a-pod",
            format!(
                "{} in use without a pod on the reading, such as instance {} of card {}",
                counted(1 + strangers.count(), "MIG instance"),
                slice.id,
                card.uuid
            ),
            "check that the exporter attributes pods to instances, and whether another scheduler hands them out",
        );
    }
    let today = now.nodes_today();
    let unread: Vec<&String> = today
        .iter()
        .filter(|(_, today)| matches!(today, NodeToday::UnreadSlices(_)))
        .map(|(name, _)| name)
        .collect();
    if let (true, Some(first)) = (now.has_cards(), unread.first()) {
        list.warning(
            "unread-mig-slices",
            format!(
                "the exporter shows no MIG instance on {} whose GPUs are slices, such as `{first}`",
                counted(unread.len(), "node")
            ),
            DataGap::WholeCardReadings.advice(),
        );
    }
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, code: &str, severity: Severity, text: String, advice: &str) {
        self.0.push(Finding { code: code.to_owned(), severity, text, advice: advice.to_owned() });
    }
    fn blocker(&mut self, code: &str, text: String, advice: &str) {
        self.add(code, Severity::Blocker, text, advice);
    }
    fn warning(&mut self, code: &str, text: String, advice: &str) {
        self.add(code, Severity::Warning, text, advice);
    }
    fn note(&mut self, code: &str, text: String, advice: &str) {
        self.add(code, Severity::Note, text, advice);
    }
}
