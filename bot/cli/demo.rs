//! `slicewright demo`: the whole way on a recorded fleet, into a real git repository in a folder.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::DONE;
use super::args::{DemoArgs, Output};
use super::out::Out;
use super::progress::Bar;
use super::propose::{draw, show};
use crate::engine::Engine;
use crate::engine::propose::{Report, Wishes};
use crate::engine::recording::Recording;

/// Metrics and repository of the demo's fleet; `demo/README.md` says how they were made.
const RECORDING: &[u8] = include_bytes!("../../demo/recording.slicewright");

/// Says that a folder was made by the demo and may be made anew.
const MARK: &str = ".slicewright-demo";

pub(super) async fn run(args: &DemoArgs, out: &mut Out) -> anyhow::Result<u8> {
    let recording = Recording::from_bytes(RECORDING).context("the demo's recording is damaged")?;
    prepare(&args.folder)?;
    let (name, cluster) = recording.clusters.iter().next().context("the demo's recording is empty")?;
    let repository = args.folder.join("infra.git");
    let requests = args.folder.join("infra.git.proposals");
    let mut engine = super::engine_of(&recording)?;
    engine
        .use_new_repository(name, &cluster.tree.files, &repository, &requests)
        .context("cannot make the demo's git repository: is the program `git` installed?")?;
    let mut inputs = Engine::replayed(&recording);
    let settings = engine.clusters(Some(name))?;
    inputs.forges.insert(name.clone(), engine.forge(settings[0])?);

    let wishes = Wishes { cluster: Some(name.clone()), ..Wishes::default() };
    let report = engine.propose(&inputs, &wishes, &Bar::silent()).await?;
    show(&report, Output::Text, false, out)?;
    let pictures = args.folder.join("pictures");
    draw(&engine, &report, Some(&pictures))?;
    for line in epilogue(&report, &args.folder, &repository) {
        out.line(&line)?;
    }
    Ok(DONE)
}

/// An empty folder of our own. A folder that holds anything else is left alone.
fn prepare(folder: &Path) -> anyhow::Result<()> {
    if folder.join(MARK).exists() {
        std::fs::remove_dir_all(folder)
            .with_context(|| format!("cannot remove the old demo in `{}`", folder.display()))?;
    }
    let taken = folder.read_dir().is_ok_and(|mut entries| entries.next().is_some());
    anyhow::ensure!(
        !taken,
        "`{}` is not empty and was not made by the demo: name another with --folder",
        folder.display()
    );
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(folder.join(MARK), "made by slicewright demo\n"))
        .with_context(|| format!("cannot write to `{}`", folder.display()))
}

/// Where things are and what to look at.
fn epilogue(report: &Report, folder: &Path, repository: &Path) -> Vec<String> {
    let opened: Vec<(&str, PathBuf)> = report
        .clusters
        .iter()
        .flat_map(|cluster| &cluster.pools)
        .filter(|pool| pool.proposal.is_some())
        .map(|pool| (pool.branch.as_str(), PathBuf::from(pool.url.clone().unwrap_or_default())))
        .collect();
    let mut lines = vec![String::new(), "What to look at:".to_owned()];
    for (branch, path) in &opened {
        lines.push(format!("  less {}", path.display()));
        lines.push(format!("  git -C {} diff main {branch}", repository.display()));
        let packing = folder.join("pictures").join(branch).join("packing.svg");
        lines
            .push(format!("  {} in a browser, and the memory of its workloads beside it", packing.display()));
    }
    lines.push(format!(
        "Everything is in {}/; nothing outside it was written and nothing was asked of any server.",
        folder.display()
    ));
    lines
}
