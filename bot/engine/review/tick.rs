//! Boxes that people tick on the dashboard of a repository. Each is one order, as a command in a comment would be.

use anyhow::Context as _;
use jiff::Timestamp;
use slicewright_core::ids::PoolId;
use slicewright_core::review::DECLINED_LABEL;
use slicewright_core::review::command::Least;
use slicewright_core::review::metadata::Obeyed as Place;

use super::order::{Asking, Obeyed};
use super::{Answer, Carried};
use crate::engine::Engine;
use crate::engine::board::TITLE;
use crate::engine::propose::Wishes;
use crate::forge::contact::Person;
use crate::forge::{Forge, Topic};
use crate::prometheus::Quiet;
use crate::render::{self, Answer as Answering, Dialect};
use crate::settings::ClusterSettings;

/// A box that somebody ticked, as a webhook told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tick {
    /// The repository as the configuration names it: [`crate::settings::RepositorySettings::place`].
    pub place: String,
    /// The issue's number.
    pub issue: String,
    /// The pool whose box it is.
    pub pool: PoolId,
    /// Who did it, which nobody can be asked later.
    pub by: Person,
    /// What this tick is called for ever: letters, digits, `-`, `_` and `.`.
    pub id: String,
}

impl Engine {
    /// Empties the boxes of the dashboard and looks at the pool again: what is open is measured and planned anew, and goes on
    /// if it was silent; what waits for room is opened. Done twice, it is done once.
    ///
    /// # Errors
    /// When the forge or the metrics cannot be read, or a write fails; it may be tried again then.
    pub async fn tick(&self, tick: &Tick, at: Timestamp) -> anyhow::Result<Answer> {
        let here = |one: &&ClusterSettings| {
            one.name == tick.pool.cluster && one.repository.place() == tick.place && one.repository.dashboard
        };
        let Some(cluster) = self.settings().clusters.iter().find(here) else {
            return Ok(Answer::Silence("its pool is on no dashboard of the configuration's"));
        };
        let forge = self.forge(cluster)?;
        let contact = forge.contact().context("nobody can be asked here")?;
        // Before the work: a box that stayed ticked would ask for it again.
        let is_board = contact.empty_boxes(TITLE, &tick.issue).await;
        if !is_board.context("cannot empty the boxes of the dashboard")? {
            return Ok(Answer::Silence("the issue is not the dashboard, or is closed"));
        }
        if !contact.is_person(&tick.by).await.context("cannot tell who ticked a box")? {
            return Ok(Answer::Silence("no person ticked it"));
        }
        let carried =
            |command: &str, outcome| Answer::Given(vec![Carried { command: command.to_owned(), outcome }]);
        if let Err(why) = Self::may(contact, &tick.by, Least::Write).await? {
            return Ok(carried("look", Err(why)));
        }
        let place = Place { comment: tick.id.clone(), n: 0 };
        let asking = Asking::Box { pool: tick.pool.clone(), place };
        let inputs = self.live(Some(&cluster.name), at)?;
        let only = Some(tick.pool.pool.clone());
        let wishes = Wishes { cluster: Some(cluster.name.clone()), pool: only, asked: true, dry_run: false };
        let report = self.run(&inputs, &wishes, Some(&asking), &Quiet).await?;
        let mut pools = report.clusters.into_iter().flat_map(|cluster| cluster.pools);
        let Some(pool) = pools.find(|pool| pool.pool == tick.pool) else {
            return Ok(carried(
                "look",
                Err("nothing is proposed there before its people agreed to that".into()),
            ));
        };
        match pool.obeyed {
            // Nothing was open: whatever the look led to is on the forge.
            None => Ok(carried("look", Ok(()))),
            Some(Err(why)) => Ok(carried("look", Err(why))),
            Some(Ok(obeyed)) => {
                let dialect = self.dialect(&cluster.repository);
                answer(forge.as_ref(), &pool.branch, tick, &obeyed, dialect).await?;
                Ok(carried(&obeyed.command.to_string(), Ok(())))
            }
        }
    }
}

/// Says on the merge request what came of the tick, in the one comment about the state.
async fn answer(
    forge: &dyn Forge,
    branch: &str,
    tick: &Tick,
    obeyed: &Obeyed,
    dialect: Dialect,
) -> anyhow::Result<()> {
    let main = forge.head().await.context("cannot read the default branch")?;
    let found = forge.find(branch, &main).await.context("cannot look at the branch")?;
    let Some(request) = found.request.filter(|request| request.by_bot) else { return Ok(()) };
    if let Some(contact) = forge.contact()
        && let Err(error) = contact.label(&request.id, DECLINED_LABEL, false).await
    {
        tracing::warn!("cannot take a label off: {error}");
    }
    let told = Answering::Obeyed {
        command: &obeyed.command.to_string(),
        by: &tick.by.login,
        what: &obeyed.what,
        moved: obeyed.moved.as_ref().map(|[before, after]| [before.as_str(), after.as_str()]),
        wishes: &obeyed.noted.overrides.shown(),
    };
    let text = render::answer(&told, dialect)?;
    let said = forge.say(branch, &request.id, Topic::Status, Some(&text)).await;
    said.context("cannot say what was done")
}
