//! `slicewright propose`, and how its result is shown.

use std::path::Path;

use anyhow::Context as _;
use slicewright_core::review::lifecycle::Action;

use super::args::{FailOn, Output, ProposeArgs};
use super::out::Out;
use super::progress::Bar;
use super::{DONE, FINDINGS, json};
use crate::engine::Engine;
use crate::engine::orphans::Orphan;
use crate::engine::propose::{ClusterReport, PoolReport, Report, Wishes};
use crate::settings::ServiceSettings;

pub(super) async fn run(args: &ProposeArgs, out: &mut Out) -> anyhow::Result<u8> {
    let (settings, _) = ServiceSettings::load(&args.config)?;
    let engine = Engine::new(settings)?;
    let inputs = engine.live(args.cluster.as_deref(), args.at.unwrap_or_else(super::now))?;
    let wishes = Wishes {
        cluster: args.cluster.clone(),
        pool: args.pool.clone(),
        asked: args.pool.is_some(),
        dry_run: args.dry_run,
    };
    let bar = Bar::new();
    let report = engine.propose(&inputs, &wishes, &bar).await?;
    bar.done();
    show(&report, args.output, args.dry_run, out)?;
    draw(&engine, &report, args.pictures.as_deref())?;
    Ok(exit_code(&report, args.fail_on))
}

pub(super) fn exit_code(report: &Report, fail_on: FailOn) -> u8 {
    match fail_on {
        FailOn::Findings if report.has_findings() => FINDINGS,
        FailOn::Findings | FailOn::Error => DONE,
    }
}

pub(super) fn show(report: &Report, output: Output, dry_run: bool, out: &mut Out) -> anyhow::Result<()> {
    match output {
        Output::Json => out.line(&json::report(report, dry_run)?),
        Output::Markdown => {
            for pool in report.clusters.iter().flat_map(|cluster| &cluster.pools) {
                if let Some(proposal) = &pool.proposal {
                    out.line(&format!("# {}\n\n{}", proposal.title, proposal.body))?;
                }
            }
            Ok(())
        }
        Output::Text => {
            for waiting in &report.waiting {
                let place = waiting.url.as_deref().unwrap_or("no merge request");
                out.line(&format!(
                    "repository {}: nothing is proposed before its people said so",
                    waiting.repository
                ))?;
                out.line(&format!("  → {}: {place} ({})", waiting.action.code(), waiting.action.reason()))?;
            }
            for cluster in &report.clusters {
                show_cluster(cluster, dry_run, out)?;
            }
            for orphan in &report.orphans {
                out.line(&format!("\nrepository of {}: {}", orphan.clusters.join(", "), orphan.problem()))?;
            }
            if !report.orphans.is_empty() {
                out.line(&format!("  → {}", Orphan::ADVICE))?;
            }
            Ok(())
        }
    }
}

/// Writes the pictures of every plan below `folder`, where one is named: `<branch>/packing.svg`.
pub(super) fn draw(engine: &Engine, report: &Report, folder: Option<&Path>) -> anyhow::Result<()> {
    let Some(folder) = folder else { return Ok(()) };
    for cluster in &report.clusters {
        for pool in &cluster.pools {
            let Some(pictures) = engine.pictures(&cluster.analysis, &pool.pool)? else { continue };
            let folder = folder.join(&pool.branch);
            std::fs::create_dir_all(&folder)
                .with_context(|| format!("cannot make `{}`", folder.display()))?;
            for (name, svg) in pictures.files() {
                let path = folder.join(name);
                std::fs::write(&path, svg).with_context(|| format!("cannot write `{}`", path.display()))?;
            }
        }
    }
    Ok(())
}

fn show_cluster(cluster: &ClusterReport, dry_run: bool, out: &mut Out) -> anyhow::Result<()> {
    let analysis = &cluster.analysis;
    let quality = &analysis.measured.data_quality;
    out.line(&format!(
        "cluster {}: {} on {}, {} of metrics, {}",
        analysis.cluster,
        slicewright_core::units::counted(quality.n_cards as usize, "card"),
        slicewright_core::units::counted(analysis.inventory.nodes.len(), "node"),
        slicewright_core::units::counted(quality.days_had as usize, "day"),
        slicewright_core::units::counted(analysis.inventory.workloads.len(), "workload"),
    ))?;
    if cluster.pools.is_empty() {
        out.line("  no pool: no node with a GPU was found (`slicewright doctor` says why)")?;
    }
    for pool in &cluster.pools {
        out.line("")?;
        out.line(&pool.summary)?;
        out.line(&format!("  {}", verdict(pool, dry_run)))?;
    }
    Ok(())
}

/// What was done with the merge request, or would be.
fn verdict(pool: &PoolReport, dry_run: bool) -> String {
    let place = pool.url.as_deref().unwrap_or("no merge request");
    let (done, would) = match &pool.action {
        Action::Open { .. } => ("opened", "would open a merge request"),
        Action::Update { .. } => ("updated", "would update the merge request"),
        Action::Leave { .. } => ("left as it is", "would leave it as it is"),
        Action::Warn { .. } => ("warned", "would warn of it"),
        Action::Withdraw { .. } => ("withdrawn", "would withdraw the merge request"),
        Action::StopEdited { .. } => ("not touched", "would not touch it"),
        Action::RecordMerged { .. } => ("merged", "would note that it was merged"),
        Action::RecordDeclined { .. } => ("declined", "would note that it was declined"),
    };
    let reason = pool.action.reason();
    if dry_run {
        format!("→ dry run, nothing written: {would} on branch `{}` ({reason})", pool.branch)
    } else {
        format!("→ {done}: {place} ({reason})")
    }
}
