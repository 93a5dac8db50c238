//! `slicewright explain`.

use super::DONE;
use super::args::ExplainArgs;
use super::out::Out;
use super::progress::Bar;
use crate::engine::explain;

pub(super) async fn run(args: &ExplainArgs, out: &mut Out) -> anyhow::Result<u8> {
    let (namespace, name) = super::parse_workload(&args.workload)?;
    let (engine, inputs) = super::open(&args.from, args.at, args.cluster.as_deref()).await?;
    let mut known = Vec::new();
    let mut found = 0;
    for cluster in engine.clusters_in(&inputs, args.cluster.as_deref())? {
        let bar = Bar::new();
        let analysis = engine.analyse(cluster, &inputs, &bar).await?;
        bar.done();
        known.extend(explain::known(&analysis));
        for explained in explain::explain(&analysis, &namespace, &name) {
            found += 1;
            out.line(&format!("cluster {}, {}", analysis.cluster, explained.place))?;
            out.line(&explained.text)?;
        }
    }
    if found == 0 {
        anyhow::bail!(
            "no workload `{}` holds or held a GPU in the window{}",
            args.workload,
            similar(&known, &args.workload)
        );
    }
    Ok(DONE)
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
