//! What is said on a commit of the default branch about the repository's own configuration.

use super::analyse::Analysis;
use super::pass::CHECK;
use crate::forge::{Check, Conclusion, Forge};
use crate::render::{self, Dialect, Reply};
use crate::settings::repo;

/// Shows on the commit that was read what is wrong with its configuration, and takes that back when nothing is any more:
/// another version of the bot, or other settings of its own, may be able to use the same file.
pub(super) async fn show(forge: &dyn Forge, analysis: &Analysis, dialect: Dialect) {
    let snapshot = &analysis.snapshot;
    // Of what is not there nothing was said.
    if !snapshot.files.contains_key(repo::PLACE) && !snapshot.skipped.contains_key(repo::PLACE) {
        return;
    }
    if let Err(error) = said(forge, analysis, dialect).await {
        tracing::warn!("cannot show on {} what is to say of its configuration: {error:#}", snapshot.commit);
    }
}

async fn said(forge: &dyn Forge, analysis: &Analysis, dialect: Dialect) -> anyhow::Result<()> {
    let (conclusion, sentence, text) = match &analysis.repo {
        Err(problem) => (
            Conclusion::Failed,
            format!("The repository's own configuration cannot be used: {problem}"),
            render::reply(&Reply::Misconfigured { problem }, dialect)?,
        ),
        Ok(_) => {
            let sentence = "The repository's own configuration can be used.".to_owned();
            (Conclusion::Settled, sentence.clone(), sentence)
        }
    };
    let name = format!("{CHECK}/configuration");
    forge.check(&analysis.snapshot.commit, &Check { name, conclusion, sentence, text, url: None }).await?;
    Ok(())
}
