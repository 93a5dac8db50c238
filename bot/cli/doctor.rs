//! `slicewright doctor`: what the metrics, the repository and the forge lack, and how to fix it.

use slicewright_core::usage::{Finding, Severity};

use super::args::DoctorArgs;
use super::out::Out;
use super::progress::Bar;
use super::{DONE, FAILED};
use crate::engine::analyse::Analysis;
use crate::engine::doctor::{OnForge, doctor, on_forge};

pub(super) async fn run(args: &DoctorArgs, out: &mut Out) -> anyhow::Result<u8> {
    let (engine, inputs) = super::open(&args.from, args.at, args.cluster.as_deref()).await?;
    let mut blocked = false;
    for cluster in engine.clusters_in(&inputs, args.cluster.as_deref())? {
        let bar = Bar::new();
        let on_forge = on_forge(&inputs, &cluster.name, args.hooks_at.as_deref()).await;
        let analysis = match engine.analyse(cluster, &inputs, &bar).await {
            Ok(analysis) => analysis,
            Err(error) => {
                bar.done();
                // What the bot lacks on the forge may be why.
                show_without_analysis(&cluster.name, &on_forge, out)?;
                return Err(error);
            }
        };
        bar.done();
        let findings = doctor(&analysis, &on_forge);
        blocked |= findings.iter().any(|finding| finding.severity == Severity::Blocker);
        show(&analysis, &on_forge, &findings, out)?;
    }
    Ok(if blocked { FAILED } else { DONE })
}

fn show_without_analysis(cluster: &str, on_forge: &OnForge, out: &mut Out) -> anyhow::Result<()> {
    if on_forge.who.is_none() && on_forge.findings.is_empty() {
        return Ok(());
    }
    out.line(&format!("cluster {cluster}"))?;
    show_who(on_forge, out)?;
    show_findings(&on_forge.findings, out)
}

fn show_who(on_forge: &OnForge, out: &mut Out) -> anyhow::Result<()> {
    match &on_forge.who {
        Some(who) => out.line(&format!("  forge: {who}")),
        None => Ok(()),
    }
}

fn show(analysis: &Analysis, on_forge: &OnForge, findings: &[Finding], out: &mut Out) -> anyhow::Result<()> {
    let quality = &analysis.measured.data_quality;
    out.line(&format!("cluster {}", analysis.cluster))?;
    out.line(&format!(
        "  metrics: {} of {} days, {} cards, a sample every {} s, pods in `{}`, nodes in {}",
        quality.days_had,
        quality.days_asked,
        quality.n_cards,
        quality.sample_interval_seconds.map_or_else(|| "?".to_owned(), |seconds| seconds.to_string()),
        quality.pod_label,
        quality.host_label.as_ref().map_or_else(|| "no label".to_owned(), |label| format!("`{label}`")),
    ))?;
    out.line(&format!(
        "  repository: {} files at {}, {} GPU workloads, {} nodes",
        slicewright_core::units::thousands(analysis.snapshot.files.len() as u64),
        analysis.snapshot.commit.get(..12).unwrap_or(&analysis.snapshot.commit),
        analysis.declared.workloads.len(),
        analysis.declared.node_labels.len(),
    ))?;
    show_who(on_forge, out)?;
    if findings.is_empty() {
        out.line("  nothing is missing")?;
    }
    show_findings(findings, out)
}

fn show_findings(findings: &[Finding], out: &mut Out) -> anyhow::Result<()> {
    for finding in findings {
        let word = match finding.severity {
            Severity::Blocker => "blocker",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        out.line(&format!("  {word} [{}]: {}", finding.code, finding.text))?;
        if !finding.advice.is_empty() {
            out.line(&format!("    → {}", finding.advice))?;
        }
    }
    Ok(())
}
