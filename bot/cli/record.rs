//! `slicewright record`.

use anyhow::Context as _;

use super::DONE;
use super::args::RecordArgs;
use super::out::Out;
use super::progress::Bar;
use crate::engine::Engine;
use crate::settings::ServiceSettings;

pub(super) async fn run(args: &RecordArgs, out: &mut Out) -> anyhow::Result<u8> {
    let (settings, text) = ServiceSettings::load(&args.config)?;
    let engine = Engine::new(settings)?;
    let bar = Bar::new();
    let at = args.at.unwrap_or_else(super::now);
    let recording = engine.record(&text, args.cluster.as_deref(), at, &bar).await?;
    bar.done();
    let bytes = recording.to_bytes()?;
    write_whole(&args.to, &bytes).with_context(|| format!("cannot write `{}`", args.to.display()))?;
    let answers: usize = recording.clusters.values().map(|cluster| cluster.answers.len()).sum();
    let files: usize = recording.clusters.values().map(|cluster| cluster.tree.files.len()).sum();
    out.line(&format!(
        "{}: {} answers and {} files of the repository, {} KiB; repeat it with `slicewright replay {}`",
        args.to.display(),
        slicewright_core::units::thousands(answers as u64),
        slicewright_core::units::thousands(files as u64),
        slicewright_core::units::thousands(bytes.len().div_ceil(1024) as u64),
        args.to.display(),
    ))?;
    Ok(DONE)
}

/// All or nothing: beside the target first, then in its place.
fn write_whole(path: &std::path::Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    let part = path.with_file_name(name);
    std::fs::write(&part, bytes)?;
    std::fs::rename(&part, path)
}
