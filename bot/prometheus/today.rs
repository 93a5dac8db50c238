//! The cluster as it is now: nodes, cards, pods, replicas.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, stream};
use jiff::Timestamp;
use slicewright_core::catalog::ProfileName;
use slicewright_core::inventory::{Card, Node, PodRequests, Resources, SliceId, Taint};
use slicewright_core::units::{Mib, Money};
use slicewright_core::usage::fold::PodName;

use super::chunks::{Tally, ask};
use super::days::{Wish, wishes};
use super::discover::{Discovery, whole};
use super::owners::pod_name;
use super::query::{FB_FREE, FB_TOTAL, GPUS, VLLM_CONFIG};
use super::response::Series;
use super::rows::holder;
use super::{Ask, AskError, Source};

/// Everything that is read at `now`.
#[derive(Debug, Default)]
pub(super) struct Today {
    pub(super) nodes: BTreeMap<String, Node>,
    /// Pods that ask for GPUs now.
    pub(super) pods: BTreeMap<PodName, PodNow>,
    /// Pods on readings of now → whole cards.
    pub(super) held: BTreeMap<PodName, BTreeSet<String>>,
    /// Pods on readings of now → MIG instances.
    pub(super) held_slices: BTreeMap<PodName, BTreeSet<SliceId>>,
    /// Profiles printed for one instance.
    pub(super) printed: BTreeMap<SliceId, BTreeSet<String>>,
    /// Cards by UUID, with the host that the exporter names.
    pub(super) cards: BTreeMap<String, (Card, Option<String>)>,
    pub(super) replicas: BTreeMap<(String, String, String), u32>,
    pub(super) hpa_max: BTreeMap<(String, String, String), u32>,
    pub(super) max_surge: BTreeMap<(String, String), u32>,
    pub(super) namespace_labels: BTreeMap<String, BTreeMap<String, String>>,
    /// Whole memory by model: node labels and FB_TOTAL, the smallest seen.
    pub(super) framebuffer: BTreeMap<String, Mib>,
    /// `FB_USED + FB_FREE` of whole cards by model, the largest seen.
    pub(super) used_plus_free: BTreeMap<String, Mib>,
    /// The same of MIG instances by model and profile, the smallest seen.
    pub(super) slice_memory: BTreeMap<String, BTreeMap<String, Mib>>,
    /// Framework and evidence by pod.
    pub(super) framework_says: BTreeMap<PodName, (String, String)>,
    pub(super) node_labels: bool,
}

/// A pod that asks for GPUs now.
#[derive(Clone, Debug, Default)]
pub(super) struct PodNow {
    pub(super) node: String,
    pub(super) running: bool,
    /// The GPU resource that it asks for, as kube-state-metrics prints it.
    pub(super) resource: String,
    pub(super) requests: Option<PodRequests>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Q {
    Cards,
    Memory,
    Total,
    Allocatable,
    NodeGpus,
    Labels,
    Taints,
    Requested,
    PodsOnNodes,
    Deployments,
    StatefulSets,
    Surge,
    HpaTargets,
    HpaMax,
    Namespaces,
    Price,
    Wishes,
    Running,
    PodRequests,
    Vllm,
}

pub(super) async fn read<S: Source>(
    source: &S,
    tally: &Tally,
    discovery: &Discovery,
    names: &BTreeSet<ProfileName>,
    now: Timestamp,
    concurrency: usize,
) -> Result<Today, AskError> {
    let q = &discovery.queries;
    let (namespace, pod, container) = (q.ksm.namespace, q.ksm.pod, q.ksm.container);
    let has = |metric: &str| discovery.has(metric);
    let requests = "kube_pod_container_resource_requests";
    let mut asks: Vec<(Q, &'static str, &'static str, String)> = vec![
        (Q::Cards, "cards-now", "the cards", q.cards_now()),
        (
            Q::Wishes,
            "gpu-pods-now",
            "pods that ask for GPUs",
            q.by("max", &format!("{namespace}, {pod}, {container}, uid, node, resource"), requests, &[GPUS]),
        ),
        (
            Q::NodeGpus,
            "node-gpus-now",
            "GPUs of nodes",
            q.by("max", "node, resource", "kube_node_status_allocatable", &[GPUS]),
        ),
        (
            Q::Allocatable,
            "node-room-now",
            "room on nodes",
            q.by(
                "max",
                "node, resource",
                "kube_node_status_allocatable",
                &[r#"resource=~"cpu|memory|ephemeral_storage|pods""#],
            ),
        ),
        (Q::Labels, "node-labels-now", "node labels", q.node_labels()),
        (
            Q::Taints,
            "taints-now",
            "taints",
            q.by("max", "node, key, value, effect", "kube_node_spec_taint", &[]),
        ),
        (Q::Requested, "requested-now", "requests on nodes", q.requested()),
        (Q::PodsOnNodes, "pods-on-nodes-now", "pods on nodes", q.pods_on_nodes()),
        (
            Q::Deployments,
            "deployments-now",
            "replicas of Deployments",
            q.by("max", &format!("{namespace}, deployment"), "kube_deployment_spec_replicas", &[]),
        ),
        (
            Q::StatefulSets,
            "statefulsets-now",
            "replicas of StatefulSets",
            q.by("max", &format!("{namespace}, statefulset"), "kube_statefulset_replicas", &[]),
        ),
        (
            Q::Surge,
            "surge-now",
            "roll-out settings",
            q.by(
                "max",
                &format!("{namespace}, deployment"),
                "kube_deployment_spec_strategy_rollingupdate_max_surge",
                &[],
            ),
        ),
        (
            Q::HpaTargets,
            "hpa-targets-now",
            "targets of autoscalers",
            q.by(
                "max",
                &format!("{namespace}, horizontalpodautoscaler, scaletargetref_kind, scaletargetref_name"),
                "kube_horizontalpodautoscaler_info",
                &[],
            ),
        ),
        (
            Q::HpaMax,
            "hpa-max-now",
            "limits of autoscalers",
            q.by(
                "max",
                &format!("{namespace}, horizontalpodautoscaler"),
                "kube_horizontalpodautoscaler_spec_max_replicas",
                &[],
            ),
        ),
        (Q::Namespaces, "namespace-labels-now", "namespace labels", q.select("kube_namespace_labels", &[])),
    ];
    if has(FB_FREE) {
        asks.push((Q::Memory, "memory-now", "memory of cards", q.memory_now()));
    }
    if has(FB_TOTAL) {
        asks.push((
            Q::Total,
            "memory-total-now",
            "memory of models",
            q.by("min", "modelName", FB_TOTAL, &[r#"GPU_I_ID="""#]),
        ));
    }
    if has("node_total_hourly_cost") {
        asks.push((
            Q::Price,
            "price-now",
            "prices of nodes",
            q.by("max", "node, instance", "node_total_hourly_cost", &[]),
        ));
    }
    if has(VLLM_CONFIG) {
        let labels = "namespace, pod, exported_namespace, exported_pod, gpu_memory_utilization";
        asks.push((Q::Vllm, "vllm-now", "settings of vLLM", q.by("max", labels, VLLM_CONFIG, &[])));
    }
    let mut today = Today::default();
    let mut wished: BTreeMap<PodName, Wish> = BTreeMap::new();
    for (kind, rows) in all(source, tally, asks, now, concurrency).await? {
        if kind == Q::Wishes {
            wishes(&rows, discovery, &mut wished);
        } else {
            today.take(kind, &rows, discovery);
        }
    }
    for (pod, wish) in &wished {
        if let Some((resource, _, _)) = wish.gpus() {
            let now = PodNow {
                node: wish.node.clone().unwrap_or_default(),
                running: !has("kube_pod_status_phase"),
                resource: resource.to_owned(),
                requests: None,
            };
            today.pods.insert(pod.clone(), now);
        }
    }
    let namespaces: BTreeSet<String> = today.pods.keys().map(|pod| pod.namespace.clone()).collect();
    let mut asks = Vec::new();
    for piece in q.namespaces(namespaces.into_iter()) {
        if has("kube_pod_status_phase") {
            asks.push((Q::Running, "running-now", "running pods", q.running_now(&piece)));
        }
        let by = format!("{namespace}, {pod}, resource");
        let each = q.by(
            "max",
            &format!("{namespace}, {pod}, uid, {container}, resource"),
            requests,
            &[r#"resource=~"cpu|memory|ephemeral_storage""#, &piece],
        );
        asks.push((
            Q::PodRequests,
            "pod-requests-now",
            "what pods ask for",
            format!("sum by ({by}) ({each})"),
        ));
    }
    for (kind, rows) in all(source, tally, asks, now, concurrency).await? {
        today.take(kind, &rows, discovery);
    }
    today.join(names);
    Ok(today)
}

async fn all<S: Source>(
    source: &S,
    tally: &Tally,
    asks: Vec<(Q, &'static str, &'static str, String)>,
    now: Timestamp,
    concurrency: usize,
) -> Result<Vec<(Q, Vec<Series>)>, AskError> {
    let asked = asks.into_iter().map(|(kind, name, what, query)| async move {
        let answer =
            ask(source, tally, &Ask { name, what: format!("{what} of now"), query, time: now }).await?;
        Ok((kind, answer.series))
    });
    stream::iter(asked).buffered(concurrency).collect::<Vec<_>>().await.into_iter().collect()
}

fn small(value: f64) -> u32 {
    u32::try_from(whole(value)).unwrap_or(u32::MAX)
}

impl Today {
    fn node(&mut self, name: &str) -> &mut Node {
        self.nodes.entry(name.to_owned()).or_insert_with(|| Node { name: name.to_owned(), ..Node::default() })
    }

    fn take(&mut self, kind: Q, rows: &[Series], discovery: &Discovery) {
        let labels = discovery.queries.ksm;
        for row in rows {
            let Some(value) = row.value() else { continue };
            let namespace = row.label(labels.namespace).unwrap_or_default().to_owned();
            let node = row.label("node");
            match kind {
                Q::Cards => self.card(row, value, discovery),
                Q::Memory => self.memory(row, value),
                Q::Total => {
                    if let Some(model) = row.label("modelName") {
                        self.smaller_framebuffer(model, Mib(whole(value)));
                    }
                }
                Q::NodeGpus => {
                    if let (Some(node), Some(resource)) = (node, row.label("resource")) {
                        self.node(node).gpu_allocatable.insert(resource.to_owned(), whole(value));
                    }
                }
                Q::Labels => {
                    if let Some(node) = node {
                        let found = row.labels.iter().filter_map(|(name, value)| {
                            Some((name.strip_prefix("label_")?.to_owned(), value.to_string()))
                        });
                        let found: Vec<_> = found.collect();
                        self.node_labels |= found.iter().any(|(name, _)| name.starts_with("nvidia_com_"));
                        self.node(node).labels.extend(found);
                    }
                }
                Q::Taints | Q::Allocatable | Q::Requested | Q::PodsOnNodes | Q::Price => {
                    self.about_node(kind, row, value)
                }
                Q::Deployments | Q::StatefulSets => {
                    let (kind, label) = if kind == Q::Deployments {
                        ("Deployment", "deployment")
                    } else {
                        ("StatefulSet", "statefulset")
                    };
                    if let Some(name) = row.label(label) {
                        self.replicas.insert((kind.to_owned(), namespace, name.to_owned()), small(value));
                    }
                }
                Q::Surge => {
                    if let Some(name) = row.label("deployment") {
                        self.max_surge.insert((namespace, name.to_owned()), small(value));
                    }
                }
                // Targets come first; the limit is set when it is read.
                Q::HpaTargets => {
                    if let (Some(hpa), Some(kind), Some(name)) = (
                        row.label("horizontalpodautoscaler"),
                        row.label("scaletargetref_kind"),
                        row.label("scaletargetref_name"),
                    ) {
                        self.hpa_max.insert((format!("{kind}/{name}"), namespace, hpa.to_owned()), 0);
                    }
                }
                Q::HpaMax => {
                    if let Some(name) = row.label("horizontalpodautoscaler") {
                        for ((_, at, hpa), max) in &mut self.hpa_max {
                            if *at == namespace && hpa == name {
                                *max = small(value);
                            }
                        }
                    }
                }
                Q::Namespaces => {
                    let found = row.labels.iter().filter_map(|(name, value)| {
                        Some((name.strip_prefix("label_")?.to_owned(), value.to_string()))
                    });
                    self.namespace_labels.entry(namespace).or_default().extend(found);
                }
                Q::Running => {
                    if let Some(pod) = pod_name(row, labels).and_then(|pod| self.pods.get_mut(&pod)) {
                        pod.running = true;
                    }
                }
                Q::PodRequests => {
                    if let (Some(pod), Some(resource)) =
                        (pod_name(row, labels).and_then(|pod| self.pods.get_mut(&pod)), row.label("resource"))
                    {
                        let requests = pod.requests.get_or_insert_default();
                        match resource {
                            "cpu" => requests.cpu_milli = whole((value * 1e3).ceil()),
                            "memory" => requests.memory_bytes = whole(value),
                            _ => requests.ephemeral_bytes = whole(value),
                        }
                    }
                }
                Q::Vllm => {
                    let pod = holder(row, &discovery.exported_jobs);
                    if let (Some(pod), Some(share)) = (pod, row.label("gpu_memory_utilization")) {
                        let evidence = format!("`{VLLM_CONFIG}` says gpu_memory_utilization={share}");
                        self.framework_says.insert(pod, ("vLLM".to_owned(), evidence));
                    }
                }
                Q::Wishes => {}
            }
        }
    }

    fn about_node(&mut self, kind: Q, row: &Series, value: f64) {
        let Some(name) = row.label("node").or_else(|| row.label("instance")) else { return };
        // Only nodes with GPUs are kept; they have said so by now.
        let Some(node) = self.nodes.get_mut(name) else { return };
        let resource = row.label("resource").unwrap_or_default();
        match kind {
            Q::Taints => node.taints.push(Taint {
                key: row.label("key").unwrap_or_default().to_owned(),
                value: row.label("value").unwrap_or_default().to_owned(),
                effect: row.label("effect").unwrap_or_default().to_owned(),
            }),
            Q::Price => node.opencost_per_hour = Money::from_f64(value, "USD"),
            Q::PodsOnNodes => node.requested.get_or_insert_default().pods = whole(value),
            _ => {
                let room = if kind == Q::Allocatable {
                    node.allocatable.get_or_insert_with(Resources::not_stated)
                } else {
                    node.requested.get_or_insert_default()
                };
                match resource {
                    "cpu" => room.cpu_milli = whole((value * 1e3).round()),
                    "memory" => room.memory_bytes = whole(value),
                    "pods" => room.pods = whole(value),
                    _ => room.ephemeral_bytes = whole(value),
                }
            }
        }
    }

    /// Whether the exporter's metrics of now exist.
    pub(super) fn has_cards(&self) -> bool {
        !self.cards.is_empty()
    }
}
