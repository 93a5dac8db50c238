//! What the metrics, the repository and the forge of a cluster lack, and how to fix it.

mod forge;
pub use forge::{OnForge, on_forge};

use slicewright_core::policy::freeze::held;
use slicewright_core::units::first_few;
use slicewright_core::usage::{Finding, Severity};

use super::analyse::Analysis;

/// Every finding, blockers first.
pub fn doctor(analysis: &Analysis, on_forge: &OnForge) -> Vec<Finding> {
    let mut findings = analysis.measured.data_quality.findings.clone();
    findings.extend(repository(analysis));
    findings.extend(on_forge.findings.iter().cloned());
    findings.sort_by(|a, b| a.severity.cmp(&b.severity).then_with(|| a.code.cmp(&b.code)));
    findings
}

/// What the repository lacks, in the words of `doctor`.
fn repository(analysis: &Analysis) -> Vec<Finding> {
    let finding = |code: &str, severity, text: String, advice: &str| Finding {
        code: code.to_owned(),
        severity,
        text,
        advice: advice.to_owned(),
    };
    let mut findings = Vec::new();
    match &analysis.repo {
        Err(problem) => findings.push(finding(
            "repository-configuration",
            Severity::Blocker,
            problem.clone(),
            "put the file on the default branch right: until then nothing is opened, updated or closed there",
        )),
        Ok(repo) if repo.paused => findings.push(finding(
            "repository-paused",
            Severity::Note,
            format!("the repository says `paused` in `{}`", crate::settings::repo::PLACE),
            "nothing is opened, updated or closed there until it does not",
        )),
        Ok(_) => {}
    }
    for pool in &analysis.empty_pools {
        findings.push(finding(
            "empty-pool",
            Severity::Warning,
            format!("no GPU node belongs to the configured pool `{pool}`"),
            "check its `nodes` and `labels`; labels must be exposed by kube-state-metrics",
        ));
    }
    for text in &analysis.unknown_frozen_nodes {
        findings.push(finding(
            "unknown-frozen-node",
            Severity::Warning,
            text.clone(),
            "correct the name, or take it out: as it is, it protects nothing",
        ));
    }
    // A note: workloads of the cluster may come, and the service's rules may be about another one.
    for text in &analysis.idle_rules {
        findings.push(finding(
            "idle-rule",
            Severity::Note,
            text.clone(),
            "correct its selectors if it should: as it is, it protects nothing and allows nothing",
        ));
    }
    for pool in &analysis.pools {
        if let Some(hold) = held(&pool.freeze, analysis.at) {
            findings.push(finding(
                "frozen-pool",
                Severity::Note,
                format!("pool {} is {hold}", pool.id.pool),
                "nothing of it is opened, updated or closed until then",
            ));
        }
    }
    let running: Vec<_> = analysis.inventory.workloads.iter().filter(|w| !w.pods.is_empty()).collect();
    let missing: Vec<String> = running
        .iter()
        .filter(|workload| analysis.declared.of(&workload.id).is_none())
        .map(|workload| workload.id.to_string())
        .collect();
    if !missing.is_empty() {
        findings.push(finding(
            "workloads-not-in-repository",
            Severity::Warning,
            format!(
                "{} of {} running GPU workloads are not declared in the repository: {}",
                missing.len(),
                running.len(),
                first_few(&missing, 5, ", ")
            ),
            "add the folder or repository that declares them; they keep their whole cards until then",
        ));
    }
    for (id, declared) in &analysis.declared.workloads {
        if let Err(why) = &declared.editable {
            findings.push(finding(
                "cannot-edit",
                Severity::Note,
                format!("{id} ({}) cannot be edited safely: {why}", declared.place),
                "it keeps its whole card, or set `manual_edits: allow` to plan it with the edit made by hand",
            ));
        }
    }
    let operator = &analysis.declared.operator;
    if operator.mig_strategy.is_none()
        && analysis.inventory.nodes.iter().all(|node| node.label("nvidia.com/mig.strategy").is_none())
    {
        findings.push(finding(
            "mig-strategy-unknown",
            Severity::Warning,
            "the cluster's `mig.strategy` is not known, so no MIG slices are proposed".to_owned(),
            "keep the ClusterPolicy in the repository, or set `gpu_operator.mig_strategy`",
        ));
    }
    let labelled =
        analysis.inventory.nodes.iter().filter(|n| analysis.declared.node_labels.contains_key(&n.name));
    if labelled.count() < analysis.inventory.nodes.len() {
        findings.push(finding(
            "no-node-manifests",
            Severity::Note,
            "some GPU nodes have no `Node` manifest in the repository: their labels come as a script"
                .to_owned(),
            "let the pipeline run the script, or keep `Node` manifests",
        ));
    }
    findings.extend(
        analysis
            .declared
            .notes
            .iter()
            .map(|note| finding("repository-note", Severity::Note, note.clone(), "")),
    );
    findings
}
