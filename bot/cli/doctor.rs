//! `slicewright doctor`: what the metrics and the repository lack, and how to fix it.

use slicewright_core::usage::{Finding, Severity};

use super::args::DoctorArgs;
use super::out::Out;
use super::progress::Bar;
use super::{DONE, FAILED};
use crate::engine::analyse::Analysis;
use crate::engine::doctor::doctor;

pub(super) async fn run(args: &DoctorArgs, out: &mut Out) -> anyhow::Result<u8> {
    let (engine, inputs) = super::open(&args.from, args.at, args.cluster.as_deref()).await?;
    let mut blocked = false;
    for cluster in engine.clusters_in(&inputs, args.cluster.as_deref())? {
        let bar = Bar::new();
        let analysis = engine.analyse(cluster, &inputs, &bar).await?;
        bar.done();
        let findings = doctor(&analysis);
        blocked |= findings.iter().any(|finding| finding.severity == Severity::Blocker);
        show(&analysis, &findings, out)?;
    }
    Ok(if blocked { FAILED } else { DONE })
}

fn show(analysis: &Analysis, findings: &[Finding], out: &mut Out) -> anyhow::Result<()> {
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
    if findings.is_empty() {
        out.line("  nothing is missing")?;
    }
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
