//! The golden cases as plans made by hand.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::civil::{Date, date};
use slicewright_core::fit::{Candidate, FitReport, Holds, Needs, Reason, Verdict};
use slicewright_core::ids::{PoolId, WorkloadId};
use slicewright_core::plan::saving::Saving;
use slicewright_core::plan::{
    Alternative, CardUse, Change, Confidence, Goal, Item, Kept, NodeFate, NodeOutcome, Plan, PluginSharing,
    PoolKind, Proof, Risk, RiskLevel, Step,
};
use slicewright_core::policy::Method;
use slicewright_core::units::{Mib, Money, Ratio};
use slicewright_core::usage::{
    Compute, ComputeSource, DataQuality, DayPeak, Finding, Peak, Severity, Window, WorkloadProfile,
};

use super::{ByHand, ChangeSummary, Dialect, FileChange, Query, View};

/// A view with everything it points to.
pub(super) struct Sample {
    pub(super) plan: Plan,
    pub(super) profiles: BTreeMap<WorkloadId, WorkloadProfile>,
    pub(super) changes: ChangeSummary,
    pub(super) quality: DataQuality,
    pub(super) queries: Vec<Query>,
}

impl Sample {
    pub(super) fn view(&self, dialect: Dialect) -> View<'_> {
        View {
            plan: &self.plan,
            model: None,
            profiles: &self.profiles,
            changes: &self.changes,
            quality: &self.quality,
            queries: &self.queries,
            as_of: "2026-03-01T06:00:00Z".parse::<Timestamp>().unwrap(),
            version: "0.1.0",
            branch: "slicewright/dc1/a100-40gb",
            base_branch: "main",
            dialect,
            handle: matches!(dialect, Dialect::GitHub | Dialect::GitLab).then_some("slicewright"),
        }
    }
}

fn window() -> Window {
    Window { first: date(2026, 1, 31), last: date(2026, 3, 1), asked_days: 30, had_days: 30 }
}

fn profile(id: &WorkloadId, model: &str, peak: u64, compute_ppm: u32, peak_day: Date) -> WorkloadProfile {
    let days = (0_u64..30).filter(|n| *n != 11).map(|n| {
        let day = window().first + jiff::Span::new().days(i64::try_from(n).unwrap());
        DayPeak { day, memory: if day == peak_day { Mib(peak) } else { Mib(peak * (70 + n % 25) / 100) } }
    });
    WorkloadProfile {
        workload: id.clone(),
        model_name: model.into(),
        slice: None,
        window: window(),
        peak: Some(Peak {
            memory: Mib(peak),
            pod: format!("{}-7f9c4d-x2x8p", id.name),
            card: "GPU-5e3a1c70-91d2-4c55-8f4e-0d5a5d3b7f10".into(),
            day: peak_day,
        }),
        daily_peaks: days.collect(),
        typical: Some(Mib(peak * 7 / 10)),
        compute: Some(Compute {
            p99: Ratio::from_ppm(compute_ppm),
            source: ComputeSource::SmActive,
            day: peak_day,
        }),
        bandwidth_p99: Some(Ratio::from_ppm(140_000)),
        kernel_width_p95: Some(Ratio::from_ppm(224_000)),
        media_engines_used: Some(false),
        history_days: 29,
        coverage: Some(Ratio::from_ppm(967_400)),
        samples: 83_520,
        complete_runs: 0,
        gpus_per_pod: 1,
        pods_seen: 3,
        reservation: None,
        gaps: vec![],
    }
}

fn candidate(method: Method, name: &str, memory: u64, sm: u32, refusal: Option<Reason>) -> Candidate {
    Candidate {
        method,
        name: name.into(),
        fits: refusal.is_none(),
        reasons: vec![
            refusal
                .unwrap_or_else(|| Reason::new("fits", format!("{} and {sm} SMs are enough", Mib(memory)))),
        ],
        memory: (memory > 0).then_some(Mib(memory)),
        sm: (sm > 0).then_some(sm),
        chain_index: None,
    }
}

fn quality() -> DataQuality {
    DataQuality {
        pod_label: "exported_pod".into(),
        host_label: Some("Hostname".into()),
        sample_interval_seconds: Some(30),
        metrics: vec!["DCGM_FI_DEV_FB_USED".into(), "DCGM_FI_PROF_SM_ACTIVE".into()],
        missing_metrics: vec!["DCGM_FI_DEV_XID_ERRORS".into()],
        node_labels: true,
        days_had: 30,
        days_asked: 30,
        n_cards: 3,
        n_unattributed_pods: 0,
        findings: vec![Finding {
            code: "no-xid".into(),
            severity: Severity::Note,
            text: "`DCGM_FI_DEV_XID_ERRORS` is not collected".into(),
            advice: "add it to the exporter's counters so that errors after the change are seen".into(),
        }],
    }
}

fn step(what: &str, commands: &[&str], wait_for: &str, cost: &str, on_failure: &str) -> Step {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Step {
        what: what.into(),
        commands: commands.iter().map(|text| (*text).to_owned()).collect(),
        wait_for: given(wait_for),
        cost: given(cost),
        on_failure: given(on_failure),
    }
}

fn node(name: &str, fate: NodeFate, before: &str, after: &str, restarts: &[&str]) -> NodeOutcome {
    NodeOutcome {
        name: name.into(),
        fate,
        before: vec![CardUse::Other { text: before.into() }],
        after: vec![CardUse::Other { text: after.into() }],
        restarts: restarts.iter().map(|text| (*text).to_owned()).collect(),
        per_hour: None,
    }
}

/// Golden case a: three services on three A100, all onto one by `all-2g.10gb`.
pub(super) fn mig() -> Sample {
    let facts =
        [("embed-svc", 7_578, 170_000), ("classify-svc", 7_066, 140_000), ("ocr-svc", 7_987, 190_000)];
    let ids = facts.map(|(name, ..)| WorkloadId::new("Deployment", "search", name));
    let mut profiles = BTreeMap::new();
    let mut items = Vec::new();
    let mut changes = vec![Change::LabelNodes {
        key: "nvidia.com/mig.config".into(),
        value: "all-2g.10gb".into(),
        nodes: BTreeMap::from([("dc1-gpu-07".into(), Some("all-disabled".into()))]),
    }];
    for (n, (id, (_, peak, ppm))) in ids.iter().zip(facts).enumerate() {
        profiles.insert(id.clone(), profile(id, "NVIDIA A100-SXM4-40GB", peak, ppm, date(2026, 2, 17)));
        let need = Mib(peak).with_headroom_percent(20);
        let milli = (ppm / 1_000 * 100).div_ceil(75);
        let small = Reason::new("memory-too-small", format!("needs {need}; `1g.5gb` has 4,863 MiB"));
        let narrow =
            Reason::new("compute-too-small", format!("needs {milli} of 1,000 of the SMs; `1g.10gb` has 129"));
        items.push(Item {
            fit: FitReport {
                workload: id.clone(),
                model: Some("a100-40gb".into()),
                holds: Holds::Whole,
                verdict: Verdict::Mig { profile: "2g.10gb".into() },
                needs: Some(Needs {
                    peak: Mib(peak),
                    memory: need,
                    compute_milli: Some(milli),
                    compute_is_upper_bound: false,
                }),
                considered: vec![
                    candidate(Method::Mig, "2g.10gb", 9_855, 28, None),
                    candidate(Method::Mig, "3g.20gb", 19_968, 42, None),
                    candidate(Method::Mig, "1g.5gb", 4_863, 14, Some(small)),
                    candidate(Method::Mig, "1g.10gb", 9_855, 14, Some(narrow)),
                ],
                cautions: vec![Reason::new(
                    "single-replica",
                    "has one replica: it is down while its node is drained",
                )],
                counterfactual: Some(Reason::new(
                    "would-fit-if",
                    format!("fits `1g.10gb` of an A100 40GB if the 99th percentile of SM_ACTIVE were at most 9.7 %; SM_ACTIVE reaches {}", Ratio::from_ppm(ppm)),
                )),
            },
            replicas: 1,
            max_surge: 0,
            share: "2g.10gb".into(),
            share_memory: Mib(9_855),
            nodes_before: vec![format!("dc1-gpu-0{}", 7 + n)],
            nodes_after: vec!["dc1-gpu-07".into()],
            place: Some(format!("apps/search/{}.yaml:31", id.name)),
            manual: None,
        });
        changes.push(Change::SetWorkloadResource {
            workload: id.clone(),
            from: "nvidia.com/gpu".into(),
            to: "nvidia.com/mig-2g.10gb".into(),
            count: 1,
            pin: BTreeMap::new(),
        });
    }
    let plan = Plan {
        pool: PoolId { cluster: "dc1".into(), pool: "a100-40gb".into() },
        pool_kind: PoolKind::Static,
        goal: Goal::Bill,
        model: "a100-40gb".into(),
        model_name: "NVIDIA A100-SXM4-40GB".into(),
        method: Method::Mig,
        changes,
        items,
        kept: vec![],
        nodes: vec![
            node("dc1-gpu-07", NodeFate::Touched, "whole: search/embed-svc", "2g.10gb ×3: search/embed-svc, search/classify-svc, search/ocr-svc", &["search/embed-svc"]),
            node("dc1-gpu-08", NodeFate::Freed, "whole: search/classify-svc", "idle", &["search/classify-svc"]),
            node("dc1-gpu-09", NodeFate::Freed, "whole: search/ocr-svc", "idle", &["search/ocr-svc"]),
        ],
        saving: Saving {
            cards_before: 3,
            cards_in_use_before: 3,
            cards_in_use_after: 1,
            cards_of_autoscalers: 0,
            cards_freed: 2,
            nodes_freed: vec!["dc1-gpu-08".into(), "dc1-gpu-09".into()],
            nodes_before: 3,
            nodes_after: 1,
            per_month: Money::from_f64(5_358.2, "USD"),
            price_source: "$3.67 an hour a node, from `prices` in the configuration".into(),
            condition: "somebody has to hand back or switch off the freed nodes; no autoscaler looks after this pool".into(),
        },
        proof: Proof {
            n_cards: 1,
            proven: true,
            sentences: vec!["3 slices of 2 compute slices each fill 6 of the 7 of one card, and no card can be left out while a workload runs".into()],
        },
        alternatives: vec![
            Alternative { name: "time-slicing".into(), n_cards: None, reason: "the workloads are production: they share only with hardware isolation".into() },
            Alternative { name: "nothing".into(), n_cards: Some(3), reason: "holds 3 cards at 19 % of their memory".into() },
        ],
        waves: Vec::new(),
        rollout: vec![
            step("Cordon `dc1-gpu-07` and drain the pods that hold a GPU", &["kubectl cordon dc1-gpu-07", "kubectl -n search delete pod -l app=embed-svc"], "no pod on the node holds a GPU", "`search/embed-svc` has one replica and is down until step 4, some 5 minutes", "uncordon the node; nothing has changed"),
            step("Set the label", &["kubectl label node dc1-gpu-07 nvidia.com/mig.config=all-2g.10gb --overwrite"], "`nvidia.com/mig.config.state=success` and 3 `nvidia.com/mig-2g.10gb` allocatable", "1 to 5 minutes; the GPU is reset", "`failed`: set `all-disabled` again; `paused-for-mig-change` left on `nvidia.com/gpu.deploy.*`: set these labels to `true`"),
            step("Uncordon `dc1-gpu-07`", &["kubectl uncordon dc1-gpu-07"], "", "", ""),
            step("Let the workloads roll to their slices", &[], "each pod is Running on `dc1-gpu-07`", "seconds a pod", "a pod stays Pending: describe it; the resource name must be `nvidia.com/mig-2g.10gb`"),
        ],
        rollback: vec![
            step("Revert the commit, so that the pods ask for `nvidia.com/gpu` again", &["git revert <commit>"], "", "", ""),
            step("Set the old label", &["kubectl label node dc1-gpu-07 nvidia.com/mig.config=all-disabled --overwrite"], "`nvidia.com/mig.config.state=success`", "1 to 5 minutes", ""),
        ],
        risks: vec![
            Risk { rule: "single-replica-drain".into(), level: RiskLevel::Medium, text: "3 workloads have one replica and are down while they move".into() },
            Risk { rule: "mode-switch-reset".into(), level: RiskLevel::Low, text: "MIG mode on Ampere needs a reset of the GPU".into() },
        ],
        effects: vec![],
        confidence: Confidence::High,
        confidence_reason: String::new(),
        notes: vec![],
        overrides: vec![],
        fingerprint: "3f9a0c5be1d27a6612".into(),
    };
    let diff = "--- a/apps/search/ocr-svc.yaml\n+++ b/apps/search/ocr-svc.yaml\n@@ -29,5 +29,5 @@\n           resources:\n             requests:\n-              nvidia.com/gpu: 1\n+              nvidia.com/mig-2g.10gb: 1 # the model needs 8 GiB\n";
    Sample {
        plan,
        profiles,
        changes: ChangeSummary {
            owners: vec!["@example/platform".into(), "@example/search".into()],
            files: vec![
                FileChange { path: "apps/search/classify-svc.yaml".into(), diff: None },
                FileChange { path: "apps/search/ocr-svc.yaml".into(), diff: Some(diff.into()) },
                FileChange { path: "clusters/dc1/slicewright/labels-a100-40gb.sh".into(), diff: None },
            ],
            by_hand: vec![],
            side_effects: vec!["the alert in `monitoring/gpu.yaml` line 14 uses `DCGM_FI_DEV_GPU_UTIL`, which is not reported for slices".into()],
        },
        quality: quality(),
        queries: vec![Query {
            what: "Peak memory of a pod, by day".into(),
            promql: "max by (exported_namespace, exported_pod) (max_over_time(DCGM_FI_DEV_FB_USED{exported_namespace=\"search\"}[1d]))".into(),
        }],
    }
}

/// Golden case b: four notebooks on one A10G by time-slicing.
pub(super) fn time_slicing() -> Sample {
    let facts = [("nb-ann", 4_198), ("nb-bob", 4_403), ("nb-cleo", 4_608), ("nb-dan", 4_711)];
    let ids = facts.map(|(name, _)| WorkloadId::new("Notebook", "ml-dev", name));
    let mut sample = mig();
    sample.profiles.clear();
    let mut items = Vec::new();
    for (n, (id, (_, peak))) in ids.iter().zip(facts).enumerate() {
        sample.profiles.insert(id.clone(), profile(id, "NVIDIA A10G", peak, 110_000, date(2026, 2, 20)));
        let refusal = Reason::new("no-mig", "an A10G cannot be cut by MIG");
        items.push(Item {
            fit: FitReport {
                workload: id.clone(),
                model: Some("a10g".into()),
                holds: Holds::Whole,
                verdict: Verdict::TimeSlicing,
                needs: Some(Needs {
                    peak: Mib(peak),
                    memory: Mib(peak).with_headroom_percent(20),
                    compute_milli: Some(147),
                    compute_is_upper_bound: false,
                }),
                considered: vec![
                    candidate(Method::TimeSlicing, "time-slicing", 18_422, 80, None),
                    candidate(Method::Mig, "MIG", 0, 0, Some(refusal)),
                ],
                cautions: vec![],
                counterfactual: None,
            },
            replicas: 1,
            max_surge: 0,
            share: "1 of 4 time slices".into(),
            share_memory: Mib(18_422),
            nodes_before: vec![format!("ml-dev-0{}", n + 1)],
            nodes_after: vec!["ml-dev-01".into()],
            place: None,
            manual: None,
        });
    }
    let plan = &mut sample.plan;
    plan.pool = PoolId { cluster: "dev-use1".into(), pool: "ml-dev".into() };
    plan.model = "a10g".into();
    plan.model_name = "NVIDIA A10G".into();
    plan.method = Method::TimeSlicing;
    plan.items = items;
    plan.changes = vec![
        Change::SetPluginConfig {
            key: "a10g-x4".into(),
            resource: "nvidia.com/gpu".into(),
            replicas: 4,
            fail_requests_greater_than_one: true,
            sharing: PluginSharing::TimeSlicing,
        },
        Change::LabelNodes {
            key: "nvidia.com/device-plugin.config".into(),
            value: "a10g-x4".into(),
            nodes: BTreeMap::from([("ml-dev-01".into(), None)]),
        },
    ];
    plan.effects = vec![
        "at worst, while all 4 pods of a card are busy, each gets 1/4 of its time".into(),
        "source: NVIDIA GPU Operator documentation".into(),
    ];
    plan.kept = vec![Kept {
        fit: FitReport {
            workload: WorkloadId::new("Deployment", "llm", "chat"),
            model: Some("a10g".into()),
            holds: Holds::Whole,
            verdict: Verdict::NotEnoughEvidence { reasons: vec![] },
            needs: None,
            considered: vec![],
            cautions: vec![],
            counterfactual: None,
        },
        reasons: vec![
            Reason::new(
                "reserved",
                "holds 90 % of the card from its start on, as vLLM does by default: a setting, not a need",
            )
            .with_advice("lower `--gpu-memory-utilization` to 0.5 for a day and see whether it still serves"),
        ],
        n_cards: 1,
    }];
    plan.nodes = vec![node(
        "ml-dev-01",
        NodeFate::Touched,
        "whole: ml-dev/nb-ann",
        "×4: ml-dev/nb-ann, ml-dev/nb-bob, ml-dev/nb-cleo, ml-dev/nb-dan",
        &[],
    )];
    for n in 2..=4 {
        plan.nodes.push(node(
            &format!("ml-dev-0{n}"),
            NodeFate::Freed,
            "whole: a notebook",
            "idle",
            &["its notebook"],
        ));
    }
    plan.saving = Saving {
        cards_before: 4,
        cards_in_use_before: 4,
        cards_in_use_after: 1,
        cards_of_autoscalers: 0,
        cards_freed: 3,
        nodes_freed: (2..=4).map(|n| format!("ml-dev-0{n}")).collect(),
        nodes_before: 4,
        nodes_after: 1,
        per_month: None,
        price_source: String::new(),
        condition: "somebody has to switch off the freed nodes".into(),
    };
    plan.rollout = vec![
        step(
            "Add the config `a10g-x4` to the map `time-slicing-config` of namespace `gpu-operator`",
            &[],
            "the map holds the key",
            "nothing restarts",
            "",
        ),
        step(
            "Set the label on `ml-dev-01`",
            &["kubectl label node ml-dev-01 nvidia.com/device-plugin.config=a10g-x4 --overwrite"],
            "4 `nvidia.com/gpu` allocatable on the node",
            "the device plugin restarts, within a minute; running pods stay",
            "set the label to its old value, or remove it",
        ),
        step(
            "Cordon and drain the other nodes",
            &["kubectl cordon ml-dev-02 ml-dev-03 ml-dev-04", "kubectl drain ml-dev-02 --ignore-daemonsets"],
            "all notebooks are Running on `ml-dev-01`",
            "each notebook restarts once and loses what its kernel holds in memory",
            "uncordon the nodes; the notebooks schedule there again",
        ),
    ];
    plan.rollback = vec![
        step("Uncordon the other nodes", &["kubectl uncordon ml-dev-02 ml-dev-03 ml-dev-04"], "", "", ""),
        step(
            "Remove the label, so that `ml-dev-01` offers 1 GPU again",
            &["kubectl label node ml-dev-01 nvidia.com/device-plugin.config-"],
            "1 `nvidia.com/gpu` allocatable",
            "",
            "",
        ),
    ];
    plan.alternatives = vec![
        Alternative { name: "MIG".into(), n_cards: None, reason: "an A10G cannot be cut by MIG".into() },
        Alternative {
            name: "nothing".into(),
            n_cards: Some(4),
            reason: "holds 4 cards at 19 % of their memory".into(),
        },
    ];
    plan.proof.sentences = vec![
        "the four peaks are 17,920 MiB together, and one card has 18,422 MiB usable (80 % of 23,028 MiB)"
            .into(),
    ];
    plan.risks = vec![Risk {
        rule: "drain".into(),
        level: RiskLevel::Medium,
        text: "3 notebooks restart and lose what their kernels hold in memory".into(),
    }];
    plan.risks.insert(
        0,
        Risk {
            rule: "no-memory-isolation".into(),
            level: RiskLevel::High,
            text: "one notebook that takes more memory than it ever did makes its neighbours fail".into(),
        },
    );
    plan.confidence = Confidence::Low;
    plan.overrides = vec!["production = no (service, rule 1)".into()];
    sample.changes = ChangeSummary {
        owners: Vec::new(),
        files: vec![FileChange {
            path: "clusters/dev-use1/gpu-operator/time-slicing-config.yaml".into(),
            diff: None,
        }],
        by_hand: vec![ByHand {
            what: "Set the label `nvidia.com/device-plugin.config` on node `ml-dev-01`".into(),
            why: "no file in the repository carries this node's labels".into(),
            text: "kubectl label node ml-dev-01 nvidia.com/device-plugin.config=a10g-x4".into(),
        }],
        side_effects: vec![],
    };
    sample
}
