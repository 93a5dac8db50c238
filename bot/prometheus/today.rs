//! The cluster as it is now: nodes, cards, pods, replicas.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, stream};
use jiff::Timestamp;
use slicewright_core::inventory::{Card, Node, PodRequests, Resources, Sharing, Slice, Taint};
use slicewright_core::units::{Mib, Money};
use slicewright_core::usage::fold::PodName;

use super::chunks::{Tally, ask};
use super::days::{Wish, wishes};
use super::discover::{Discovery, whole};
use super::owners::pod_name;
use super::query::{FB_FREE, FB_TOTAL, GPUS, VLLM_CONFIG};
use super::response::Series;
use super::rows::{BLANK_MIB, holder};
use super::{Ask, AskError, Source};

/// Everything that is read at `now`.
#[derive(Debug, Default)]
pub(super) struct Today {
    pub(super) nodes: BTreeMap<String, Node>,
    /// Pods that ask for GPUs now.
    pub(super) pods: BTreeMap<PodName, PodNow>,
    /// Pods on readings of now → cards.
    pub(super) held: BTreeMap<PodName, BTreeSet<String>>,
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
        if wish.gpus().is_some() {
            let node = wish.node.clone().unwrap_or_default();
            today
                .pods
                .insert(pod.clone(), PodNow { node, running: !has("kube_pod_status_phase"), requests: None });
        }
    }
    let names: BTreeSet<String> = today.pods.keys().map(|pod| pod.namespace.clone()).collect();
    let mut asks = Vec::new();
    for piece in q.namespaces(names.into_iter()) {
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
    today.join();
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
                let room = if kind == Q::Allocatable { &mut node.allocatable } else { &mut node.requested };
                let room = room.get_or_insert_with(Resources::default);
                match resource {
                    "cpu" => room.cpu_milli = whole((value * 1e3).round()),
                    "memory" => room.memory_bytes = whole(value),
                    "pods" => room.pods = whole(value),
                    _ => room.ephemeral_bytes = whole(value),
                }
            }
        }
    }

    fn card(&mut self, row: &Series, value: f64, discovery: &Discovery) {
        let Some(uuid) = row.first_label(&["UUID", "uuid"]) else { return };
        let host = row.first_label(&["Hostname", "hostname"]).map(str::to_owned);
        let (card, at) = self.cards.entry(uuid.to_owned()).or_default();
        uuid.clone_into(&mut card.uuid);
        if let Some(model) = row.first_label(&["modelName", "modelname"]) {
            model.clone_into(&mut card.model_name);
        }
        if let Some(id) = row.label("GPU_I_ID")
            && card.slices.iter().all(|slice| slice.id != id)
        {
            let profile = row.label("GPU_I_PROFILE").unwrap_or("unknown").to_owned();
            card.slices.push(Slice { id: id.to_owned(), profile, ..Slice::default() });
        }
        if value < BLANK_MIB {
            card.used_now = card.used_now.max(Some(Mib(whole(value))));
        }
        card.driver_version =
            row.label("DCGM_FI_DRIVER_VERSION").map(str::to_owned).or(card.driver_version.take());
        *at = at.take().or(host);
        if let Some(pod) = holder(row, &discovery.exported_jobs) {
            self.held.entry(pod).or_default().insert(uuid.to_owned());
        }
    }

    fn memory(&mut self, row: &Series, value: f64) {
        let Some(model) = row.first_label(&["modelName", "modelname"]) else { return };
        if value >= BLANK_MIB {
            return;
        }
        let memory = Mib(whole(value));
        if row.label("GPU_I_ID").is_some() {
            let profile = row.label("GPU_I_PROFILE").unwrap_or("unknown");
            let smallest = self.slice_memory.entry(model.to_owned()).or_default();
            let entry = smallest.entry(profile.to_owned()).or_insert(memory);
            *entry = (*entry).min(memory);
            return;
        }
        let largest = self.used_plus_free.entry(model.to_owned()).or_insert(memory);
        *largest = (*largest).max(memory);
        if let Some(uuid) = row.first_label(&["UUID", "uuid"])
            && let Some((card, _)) = self.cards.get_mut(uuid)
        {
            card.used_plus_free = Some(memory);
        }
    }

    fn smaller_framebuffer(&mut self, model: &str, memory: Mib) {
        if memory.0 > 0 && (memory.0 as u128) < 10_000_000 {
            let entry = self.framebuffer.entry(model.to_owned()).or_insert(memory);
            *entry = (*entry).min(memory);
        }
    }

    /// Puts cards on nodes and takes the memory of models from the labels of whole nodes.
    fn join(&mut self) {
        let mut node_of: BTreeMap<&str, &str> = BTreeMap::new();
        for (pod, cards) in &self.held {
            if let Some(now) = self.pods.get(pod) {
                node_of.extend(cards.iter().map(|card| (card.as_str(), now.node.as_str())));
            }
        }
        for (uuid, (card, host)) in &self.cards {
            let known = |name: &&str| self.nodes.contains_key(*name);
            let name = host
                .as_deref()
                .filter(known)
                .or_else(|| node_of.get(uuid.as_str()).copied())
                .filter(|n| !n.is_empty());
            // A host that Kubernetes does not know is no node, unless Kubernetes is not seen at all.
            let name = name.or(if self.nodes.is_empty() { host.as_deref() } else { None });
            if let Some(name) = name.map(str::to_owned) {
                let node = self.nodes.entry(name.clone()).or_insert_with(|| Node { name, ..Node::default() });
                node.cards.push(card.clone());
            }
        }
        let mut found: Vec<(String, Mib)> = Vec::new();
        for node in self.nodes.values_mut() {
            node.taints.sort();
            node.taints.dedup();
            let memory = node.label("nvidia.com/gpu.memory").and_then(|text| text.parse::<u64>().ok());
            let models = node.model_names();
            if let (Some(memory), Sharing::Whole) = (memory, node.sharing())
                && models.len() == 1
            {
                found.extend(models.iter().map(|model| ((*model).to_owned(), Mib(memory))));
            }
        }
        for (model, memory) in found {
            self.smaller_framebuffer(&model, memory);
        }
    }

    /// Nodes that hand out shared cards or slices today, and how.
    pub(super) fn shared_nodes(&self) -> BTreeMap<String, String> {
        self.nodes
            .values()
            .filter_map(|node| {
                let how = match node.sharing() {
                    Sharing::Whole => return None,
                    Sharing::Mig => {
                        let product = node.label("nvidia.com/gpu.product").unwrap_or_default();
                        match product.split_once("-MIG-") {
                            Some((_, profile)) => format!("MIG {profile}"),
                            None => "MIG".to_owned(),
                        }
                    }
                    Sharing::TimeSlicing { .. } => "time-slicing".to_owned(),
                    Sharing::Mps { .. } => "MPS".to_owned(),
                };
                Some((node.name.clone(), how))
            })
            .collect()
    }

    /// Memory above which a reading of a whole card cannot be true, by model.
    pub(super) fn bounds(&self, catalog: &BTreeMap<String, Mib>) -> BTreeMap<String, Mib> {
        let mut bounds = catalog.clone();
        for (model, memory) in &self.framebuffer {
            // Labels give the smallest of a model, the catalog its usual size: the larger is the bound.
            let bound = bounds.entry(model.clone()).or_insert(*memory);
            *bound = (*bound).max(*memory);
        }
        for (model, usable) in &self.used_plus_free {
            // Reserved memory is at most some hundreds of MiB; older drivers count it as used.
            bounds.entry(model.clone()).or_insert(Mib(usable.0 + usable.0 / 20 + 1_024));
        }
        // Labels may be of a smaller card of the same name than the one that was read.
        for (model, usable) in &self.used_plus_free {
            if let Some(bound) = bounds.get_mut(model) {
                *bound = (*bound).max(*usable);
            }
        }
        bounds
    }

    /// Whether the exporter's metrics of now exist.
    pub(super) fn has_cards(&self) -> bool {
        !self.cards.is_empty()
    }
}
