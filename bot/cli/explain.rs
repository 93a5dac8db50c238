//! `slicewright explain`.

use slicewright_core::fit::FitReport;
use slicewright_core::plan::Outcome;

use super::DONE;
use super::args::ExplainArgs;
use super::out::Out;
use super::progress::Bar;
use crate::engine::analyse::Analysis;
use crate::render;

pub(super) async fn run(args: &ExplainArgs, out: &mut Out) -> anyhow::Result<u8> {
    let (namespace, name) = super::parse_workload(&args.workload)?;
    let (engine, inputs) = super::open(&args.from, args.at, args.cluster.as_deref()).await?;
    let mut known = Vec::new();
    let mut found = 0;
    for cluster in engine.clusters(args.cluster.as_deref())? {
        if args.from.recording.is_some() && !inputs.forges.contains_key(&cluster.name) {
            continue;
        }
        let bar = Bar::new();
        let analysis = engine.analyse(cluster, &inputs, &bar).await?;
        bar.done();
        for (report, place) in fits(&analysis) {
            let id = &report.workload;
            known.push(id.to_string());
            if id.namespace != namespace || id.name != name {
                continue;
            }
            found += 1;
            let default = slicewright_core::policy::Policy::default();
            let policy = analysis.policies.get(id).unwrap_or(&default);
            out.line(&format!("cluster {}, {place}", analysis.cluster))?;
            out.line(&render::explain(report, analysis.measured.profiles.get(id), policy))?;
        }
    }
    if found == 0 {
        anyhow::bail!("no workload `{}` holds or held a GPU in the window{}", args.workload, similar(&known, &args.workload));
    }
    Ok(DONE)
}

/// Every fit of the cluster with where it stands.
fn fits(analysis: &Analysis) -> Vec<(&FitReport, String)> {
    let mut fits = Vec::new();
    for outcome in &analysis.outcomes {
        match outcome {
            Outcome::Plan(plan) => {
                let place = format!("pool {}", plan.pool.pool);
                fits.extend(plan.items.iter().map(|item| (&item.fit, place.clone())));
                fits.extend(plan.kept.iter().map(|kept| (&kept.fit, place.clone())));
            }
            Outcome::Nothing(nothing) => {
                let place = format!("pool {}", nothing.pool.pool);
                fits.extend(nothing.kept.iter().map(|kept| (&kept.fit, place.clone())));
            }
        }
    }
    fits.extend(analysis.elsewhere.iter().map(|fit| (fit, "not running now".to_owned())));
    fits
}

/// `; did you mean …?` with the names that share the most.
fn similar(known: &[String], asked: &str) -> String {
    let mut ranked: Vec<(usize, &String)> = known
        .iter()
        .map(|name| {
            let common = name.chars().rev().zip(asked.chars().rev()).take_while(|(a, b)| a == b).count()
                + name.chars().zip(asked.chars()).take_while(|(a, b)| a == b).count();
            (common, name)
        })
        .filter(|(common, _)| *common > 2)
        .collect();
    ranked.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    ranked.dedup();
    match ranked.iter().take(3).map(|(_, name)| format!("`{name}`")).collect::<Vec<_>>().join(", ") {
        names if names.is_empty() => String::new(),
        names => format!("; near it: {names}"),
    }
}
