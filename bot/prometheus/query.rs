//! Every PromQL that is ever sent, as values.
//!
//! All are instant queries over raw samples: plain `*_over_time` of a plain selector, never a subquery for a peak
//! (a subquery whose step is longer than the scrape interval skips samples, and on downsampled stores it reads
//! averages). The one subquery is the width of kernels, a ratio of two series for which a percentile of every
//! tenth minute is as good.

use std::collections::BTreeMap;

/// Metrics by name. The second spelling is that of DCGM 4.6.
pub(super) const FB_USED: &str = "DCGM_FI_DEV_FB_USED";
pub(super) const FB_FREE: &str = "DCGM_FI_DEV_FB_FREE";
pub(super) const FB_TOTAL: &str = "DCGM_FI_DEV_FB_TOTAL";
pub(super) const SM_ACTIVE: [&str; 2] = ["DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_SM_UTIL_RATIO"];
pub(super) const GR_ACTIVE: [&str; 2] =
    ["DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO"];
pub(super) const DRAM_ACTIVE: [&str; 2] = ["DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_PROF_DRAM_UTIL_RATIO"];
/// Whole percents under either name.
pub(super) const GPU_UTIL: [&str; 2] = ["DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO"];
pub(super) const ENC_UTIL: [&str; 2] = ["DCGM_FI_DEV_ENC_UTIL", "DCGM_FI_DEV_ENC_UTIL_RATIO"];
pub(super) const DEC_UTIL: [&str; 2] = ["DCGM_FI_DEV_DEC_UTIL", "DCGM_FI_DEV_DEC_UTIL_RATIO"];
pub(super) const VLLM_CONFIG: &str = "vllm:cache_config_info";

/// Metrics that the discovery looks for.
pub(super) const WANTED: [&str; 39] = [
    FB_USED,
    FB_FREE,
    FB_TOTAL,
    SM_ACTIVE[0],
    SM_ACTIVE[1],
    GR_ACTIVE[0],
    GR_ACTIVE[1],
    DRAM_ACTIVE[0],
    DRAM_ACTIVE[1],
    GPU_UTIL[0],
    GPU_UTIL[1],
    ENC_UTIL[0],
    ENC_UTIL[1],
    DEC_UTIL[0],
    DEC_UTIL[1],
    "dcgm_fb_used",
    "dcgm_fi_dev_fb_used",
    "nv_gpu_memory_used_bytes",
    "hami_vgpu_memory_used_bytes",
    VLLM_CONFIG,
    "kube_pod_owner",
    "kube_replicaset_owner",
    "kube_job_owner",
    "kube_deployment_owner",
    "kube_pod_container_resource_requests",
    "kube_pod_init_container_resource_requests",
    "kube_pod_status_phase",
    "kube_pod_labels",
    "kube_node_labels",
    "kube_node_info",
    "kube_node_status_allocatable",
    "kube_node_spec_taint",
    "kube_namespace_labels",
    "kube_namespace_status_phase",
    "kube_deployment_spec_replicas",
    "kube_deployment_spec_strategy_rollingupdate_max_surge",
    "kube_statefulset_replicas",
    "kube_horizontalpodautoscaler_spec_max_replicas",
    "node_total_hourly_cost",
];

/// Labels that tell readings of cards apart. Those that a dialect lacks do no harm.
const CARD_KEY: &str = "UUID, uuid, GPU_I_ID, job, exported_namespace, exported_pod, namespace, pod, pod_namespace, \
                        pod_name, vgpu";
/// What is known of a card besides.
const CARD_FACTS: &str =
    "GPU_I_PROFILE, modelName, Hostname, hostname, DCGM_FI_DRIVER_VERSION, dra_claim_name";
/// GPU resources, as kube-state-metrics spells them.
const GPU_RESOURCES: &str = r#"resource=~"nvidia_com_.+""#;
/// Longest alternation of names in a matcher: VictoriaMetrics refuses queries above 16 KiB.
const LONGEST_ALTERNATION: usize = 12 << 10;

/// Label names of kube-state-metrics as stored: plain, or `exported_*` without `honorLabels`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KsmLabels {
    pub(super) namespace: &'static str,
    pub(super) pod: &'static str,
    pub(super) container: &'static str,
}

impl KsmLabels {
    pub(super) const PLAIN: Self = Self { namespace: "namespace", pod: "pod", container: "container" };
    pub(super) const EXPORTED: Self =
        Self { namespace: "exported_namespace", pod: "exported_pod", container: "exported_container" };
}

/// Builds queries for one source.
#[derive(Clone, Debug)]
pub(super) struct Queries {
    /// Matchers that every selector carries, `cluster="dc1"`; may be empty.
    extra: String,
    /// `UUID` or, from exporters in their old spelling, `uuid`.
    pub(super) uuid: &'static str,
    pub(super) ksm: KsmLabels,
}

/// One shard of the cards: those whose UUID starts with one of these hex prefixes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shard {
    /// All cards.
    All,
    /// Prefixes after `GPU-`.
    Prefixes(Vec<String>),
    /// Cards whose UUID does not look like one.
    Other,
}

impl Shard {
    /// `n` shards of equal size; 1, 2, 4, 8, 16 or, above, one for every two digits.
    pub(super) fn cut(n: u64) -> Vec<Self> {
        if n <= 1 {
            return vec![Self::All];
        }
        let digits: Vec<String> = "0123456789abcdef".chars().map(String::from).collect();
        let mut shards: Vec<Self> = if n > 16 {
            digits
                .iter()
                .flat_map(|a| digits.iter().map(move |b| Self::Prefixes(vec![format!("{a}{b}")])))
                .collect()
        } else {
            let parts = usize::try_from(n.next_power_of_two()).unwrap_or(16).min(16);
            digits.chunks(16 / parts).map(|part| Self::Prefixes(part.to_vec())).collect()
        };
        shards.push(Self::Other);
        shards
    }

    /// The next smaller shards; empty when there are none.
    pub(super) fn split(&self) -> Vec<Self> {
        match self {
            Self::All => Self::cut(16),
            Self::Other => Vec::new(),
            Self::Prefixes(prefixes) if prefixes.len() > 1 => {
                prefixes.iter().map(|prefix| Self::Prefixes(vec![prefix.clone()])).collect()
            }
            Self::Prefixes(prefixes) => match prefixes.first() {
                Some(prefix) if prefix.len() < 3 => "0123456789abcdef"
                    .chars()
                    .map(|digit| Self::Prefixes(vec![format!("{prefix}{digit}")]))
                    .collect(),
                _ => Vec::new(),
            },
        }
    }
}

/// A string as PromQL writes it.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A literal inside a regular expression (RE2).
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if r"\.+*?()|[]{}^$".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// A length of time as PromQL writes it: `1d`, `12h`, `2700s`.
pub(super) fn range(seconds: u64) -> String {
    match seconds {
        s if s > 0 && s % 86_400 == 0 => format!("{}d", s / 86_400),
        s if s > 0 && s % 3_600 == 0 => format!("{}h", s / 3_600),
        s => format!("{s}s"),
    }
}

impl Queries {
    pub(super) fn new(matchers: &BTreeMap<String, String>) -> Self {
        let extra: Vec<String> =
            matchers.iter().map(|(label, value)| format!("{label}={}", quoted(value))).collect();
        Self { extra: extra.join(","), uuid: "UUID", ksm: KsmLabels::PLAIN }
    }

    /// `metric{cluster="dc1",more}`.
    pub(super) fn select(&self, metric: &str, more: &[&str]) -> String {
        let parts: Vec<&str> = std::iter::once(self.extra.as_str())
            .chain(more.iter().copied())
            .filter(|part| !part.is_empty())
            .collect();
        if parts.is_empty() { metric.to_owned() } else { format!("{metric}{{{}}}", parts.join(",")) }
    }

    fn shard(&self, shard: &Shard) -> String {
        let digits = |prefix: &String| -> String {
            prefix
                .chars()
                .map(|c| {
                    if c.is_ascii_digit() {
                        c.to_string()
                    } else {
                        format!("[{c}{}]", c.to_ascii_uppercase())
                    }
                })
                .collect()
        };
        match shard {
            Shard::All => String::new(),
            Shard::Prefixes(prefixes) => {
                let prefixes: Vec<String> = prefixes.iter().map(digits).collect();
                format!(r#"{}=~"[Gg][Pp][Uu]-(?:{}).*""#, self.uuid, prefixes.join("|"))
            }
            Shard::Other => format!(r#"{}!~"[Gg][Pp][Uu]-[0-9a-fA-F].*""#, self.uuid),
        }
    }

    fn cards(&self, metric: &str, shard: &Shard, window: &str) -> String {
        format!("{}[{window}]", self.select(metric, &[&self.shard(shard)]))
    }

    // ---- discovery

    pub(super) fn names(&self) -> String {
        let names = format!(r#"__name__=~"{}""#, WANTED.join("|"));
        format!("count by (__name__) ({})", self.select("", &[&names]))
    }

    pub(super) fn count(&self, metric: &str) -> String {
        format!("count({})", self.select(metric, &[]))
    }

    pub(super) fn card_dialect(&self) -> String {
        format!(
            "count by (job, namespace, exported_namespace, pod_namespace) ({})",
            self.select(FB_USED, &[])
        )
    }

    /// Over an hour: behind a Service each scrape sees another node.
    pub(super) fn card_hosts(&self, metric: &str) -> String {
        format!(
            "count by (job, instance, Hostname, hostname) (count_over_time({}[1h]))",
            self.select(metric, &[])
        )
    }

    pub(super) fn card_count(&self) -> String {
        format!("count by (modelName) (count by (UUID, uuid, modelName) ({}))", self.select(FB_USED, &[]))
    }

    pub(super) fn interval(&self) -> String {
        format!("quantile(0.5, count_over_time({}[1h]))", self.select(FB_USED, &[]))
    }

    pub(super) fn old_uuid(&self) -> String {
        format!("count({})", self.select(FB_USED, &[r#"uuid!="""#, r#"UUID="""#]))
    }

    pub(super) fn owner_dialect(&self) -> String {
        format!("count by (job) ({})", self.select("kube_pod_owner", &[r#"exported_pod!="""#]))
    }

    /// How often kube-state-metrics' series are there twice.
    pub(super) fn owner_copies(&self) -> String {
        let KsmLabels { namespace, pod, .. } = self.ksm;
        format!(
            "max(count by ({namespace}, {pod}, uid) ({}))",
            self.select("kube_pod_owner", &[r#"owner_is_controller!="false""#])
        )
    }

    pub(super) fn pod_labels_now(&self) -> String {
        let each =
            |label: &str| format!("count({})", self.select("kube_pod_labels", &[&format!(r#"{label}!="""#)]));
        POD_LABELS.map(each).join(" or ")
    }

    // ---- a day of cards

    pub(super) fn memory_peak(&self, shard: &Shard, window: &str) -> String {
        format!("max by ({CARD_KEY}, {CARD_FACTS}) (max_over_time({}))", self.cards(FB_USED, shard, window))
    }

    pub(super) fn memory_samples(&self, shard: &Shard, window: &str) -> String {
        format!("sum by ({CARD_KEY}) (count_over_time({}))", self.cards(FB_USED, shard, window))
    }

    pub(super) fn memory_median(&self, shard: &Shard, window: &str) -> String {
        format!("max by ({CARD_KEY}) (quantile_over_time(0.5, {}))", self.cards(FB_USED, shard, window))
    }

    pub(super) fn p99(&self, metric: &str, shard: &Shard, window: &str) -> String {
        format!("max by ({CARD_KEY}) (quantile_over_time(0.99, {}))", self.cards(metric, shard, window))
    }

    pub(super) fn highest(&self, metric: &str, shard: &Shard, window: &str) -> String {
        format!("max by ({CARD_KEY}) (max_over_time({}))", self.cards(metric, shard, window))
    }

    /// Share of the SMs that kernels fill while the card is busy.
    pub(super) fn kernel_width(&self, sm: &str, gr: &str, shard: &Shard, window: &str, step: u64) -> String {
        let matcher = self.shard(shard);
        let sm = self.select(sm, &[&matcher]);
        let gr = self.select(gr, &[&matcher]);
        format!(
            "max by ({CARD_KEY}) (quantile_over_time(0.95, ({sm} / ({gr} > 0.05))[{window}:{}]))",
            range(step)
        )
    }

    /// Raw samples of one card.
    pub(super) fn raw(&self, metric: &str, card: &str, window: &str) -> String {
        format!("{}[{window}]", self.select(metric, &[&format!("{}={}", self.uuid, quoted(card))]))
    }

    // ---- a day of Kubernetes

    pub(super) fn requests(&self, metric: &str, window: &str) -> String {
        let KsmLabels { namespace, pod, container } = self.ksm;
        format!(
            "max by ({namespace}, {pod}, {container}, uid, node, resource) (max_over_time({}[{window}]))",
            self.select(metric, &[GPU_RESOURCES])
        )
    }

    pub(super) fn owners(&self, namespaces: &str, window: &str) -> String {
        let KsmLabels { namespace, pod, .. } = self.ksm;
        format!(
            "sum by ({namespace}, {pod}, uid, owner_kind, owner_name) (count_over_time({}[{window}]))",
            self.select("kube_pod_owner", &[namespaces, r#"owner_is_controller!="false""#])
        )
    }

    pub(super) fn running(&self, namespaces: &str, window: &str) -> String {
        let KsmLabels { namespace, pod, .. } = self.ksm;
        format!(
            "sum by ({namespace}, {pod}, uid) (sum_over_time({}[{window}]))",
            self.select("kube_pod_status_phase", &[namespaces, r#"phase="Running""#])
        )
    }

    /// How often kube-state-metrics was scraped, counted on objects that live for ever.
    pub(super) fn scrapes(&self, window: &str) -> String {
        let namespace = self.ksm.namespace;
        format!(
            "max(sum by ({namespace}) (count_over_time({ns}[{window}])) or sum by ({namespace}) \
             (count_over_time({labels}[{window}])) or sum by (node) (count_over_time({node}[{window}])))",
            ns = self.select("kube_namespace_status_phase", &[r#"phase="Active""#]),
            labels = self.select("kube_namespace_labels", &[]),
            node = self.select("kube_node_info", &[]),
        )
    }

    /// Owners of an intermediate kind: `label` is `replicaset`, `job_name` or `deployment`.
    pub(super) fn owners_of(&self, metric: &str, label: &str, namespaces: &str, window: &str) -> String {
        format!(
            "max by ({}, {label}, owner_kind, owner_name) (max_over_time({}[{window}]))",
            self.ksm.namespace,
            self.select(metric, &[namespaces, r#"owner_is_controller!="false""#])
        )
    }

    pub(super) fn pod_labels(&self, namespaces: &str, window: &str) -> String {
        let KsmLabels { namespace, pod, .. } = self.ksm;
        let each = |label: &str| {
            format!(
                "max by ({namespace}, {pod}, {label}) (max_over_time({}[{window}]))",
                self.select("kube_pod_labels", &[namespaces, &format!(r#"{label}!="""#)])
            )
        };
        POD_LABELS.map(each).join(" or ")
    }

    pub(super) fn gpus_of_nodes(&self, window: &str) -> String {
        format!(
            "max by (node, resource) (max_over_time({}[{window}]))",
            self.select("kube_node_status_allocatable", &[GPU_RESOURCES])
        )
    }

    /// Matchers of the namespaces, in pieces that no server refuses for their length.
    pub(super) fn namespaces(&self, names: impl Iterator<Item = String>) -> Vec<String> {
        let mut pieces: Vec<String> = Vec::new();
        let mut piece = String::new();
        for name in names {
            let name = escaped(&name);
            if !piece.is_empty() && piece.len() + name.len() > LONGEST_ALTERNATION {
                pieces.push(std::mem::take(&mut piece));
            }
            if !piece.is_empty() {
                piece.push('|');
            }
            piece.push_str(&name);
        }
        if !piece.is_empty() {
            pieces.push(piece);
        }
        pieces.iter().map(|piece| format!("{}=~{}", self.ksm.namespace, quoted(piece))).collect()
    }

    // ---- now

    pub(super) fn by(&self, aggregate: &str, labels: &str, metric: &str, more: &[&str]) -> String {
        format!("{aggregate} by ({labels}) ({})", self.select(metric, more))
    }

    pub(super) fn cards_now(&self) -> String {
        self.by("max", &format!("{CARD_KEY}, {CARD_FACTS}"), FB_USED, &[])
    }

    pub(super) fn memory_now(&self) -> String {
        format!(
            "max by (UUID, uuid, GPU_I_ID, GPU_I_PROFILE, modelName) ({} + {})",
            self.select(FB_USED, &[]),
            self.select(FB_FREE, &[])
        )
    }

    pub(super) fn node_labels(&self) -> String {
        format!(
            "{} and on (node) {}",
            self.select("kube_node_labels", &[]),
            self.select("kube_node_status_allocatable", &[GPU_RESOURCES])
        )
    }

    /// What live pods ask for, by node: those that are over still have their series.
    pub(super) fn requested(&self) -> String {
        let KsmLabels { namespace, pod, container } = self.ksm;
        format!(
            "sum by (node, resource) (max by ({namespace}, {pod}, uid, {container}, node, resource) ({}){})",
            self.select(
                "kube_pod_container_resource_requests",
                &[r#"resource=~"cpu|memory|ephemeral_storage""#]
            ),
            self.unless_over()
        )
    }

    pub(super) fn pods_on_nodes(&self) -> String {
        let KsmLabels { namespace, pod, .. } = self.ksm;
        format!(
            "count by (node) (max by ({namespace}, {pod}, uid, node) ({}){})",
            self.select("kube_pod_info", &[r#"node!="""#]),
            self.unless_over()
        )
    }

    fn unless_over(&self) -> String {
        let KsmLabels { namespace, pod, .. } = self.ksm;
        format!(
            " unless on ({namespace}, {pod}) ({} == 1)",
            self.select("kube_pod_status_phase", &[r#"phase=~"Succeeded|Failed""#])
        )
    }

    pub(super) fn running_now(&self, namespaces: &str) -> String {
        let KsmLabels { namespace, pod, .. } = self.ksm;
        format!(
            "max by ({namespace}, {pod}) ({} == 1)",
            self.select("kube_pod_status_phase", &[namespaces, r#"phase="Running""#])
        )
    }
}

/// Pod labels that name the owner better than the owner series do.
pub(super) const POD_LABELS: [&str; 3] = [
    "label_notebook_name",
    "label_leaderworkerset_sigs_k8s_io_name",
    "label_serving_kserve_io_inferenceservice",
];

/// GPU resources of a node.
pub(super) const GPUS: &str = GPU_RESOURCES;

#[cfg(test)]
mod tests {
    use super::*;

    fn queries() -> Queries {
        Queries::new(&BTreeMap::from([("cluster".to_owned(), "dc\"1\\".to_owned())]))
    }

    #[test]
    fn values_are_quoted_and_names_escaped() {
        assert_eq!(queries().select("up", &[]), r#"up{cluster="dc\"1\\"}"#);
        assert_eq!(Queries::new(&BTreeMap::new()).select("up", &[]), "up");
        assert_eq!(escaped("a.b|c"), r"a\.b\|c");
        let pieces = queries().namespaces(["a.b", "c"].iter().map(|name| (*name).to_owned()));
        assert_eq!(pieces, [r#"namespace=~"a\\.b|c""#]);
    }

    #[test]
    fn long_alternations_are_cut() {
        let names = (0..2_000).map(|n| format!("namespace-{n:05}"));
        let pieces = queries().namespaces(names);
        assert!(pieces.len() > 1);
        assert!(pieces.iter().all(|piece| piece.len() < LONGEST_ALTERNATION + 200));
    }

    #[test]
    fn shards_cover_every_card_once() {
        for n in [2, 3, 4, 8, 16, 17] {
            let shards = Shard::cut(n);
            let prefixes: Vec<&String> = shards
                .iter()
                .flat_map(|shard| match shard {
                    Shard::Prefixes(prefixes) => prefixes.iter().collect(),
                    Shard::All | Shard::Other => Vec::new(),
                })
                .collect();
            assert!(prefixes.len() == 16 || prefixes.len() == 256, "{n}");
            assert_eq!(shards.last(), Some(&Shard::Other));
        }
        assert_eq!(Shard::Prefixes(vec!["0".into(), "1".into()]).split().len(), 2);
        assert_eq!(Shard::Prefixes(vec!["0".into()]).split().len(), 16);
    }

    #[test]
    fn ranges_read_as_people_write_them() {
        assert_eq!([86_400, 43_200, 3_600, 2_700].map(range), ["1d", "12h", "1h", "2700s"]);
    }
}
