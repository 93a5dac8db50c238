//! A node pool beside one, where the cloud cuts cards by a field of the pool that never changes in place.

use slicewright_core::plan::Change;
use slicewright_core::plan::node_group::NodeGroup;
use slicewright_core::plan::node_pool::PoolCards;

use super::terraform::{Beside, Outcome, beside};
use super::{Objects, not_found};
use crate::infra::ManualChange;
use crate::infra::draft::Draft;
use crate::infra::format::Edition;
use crate::infra::text::one_line;

/// The change, as its fields.
#[derive(Clone, Copy, Debug)]
pub(in crate::infra) struct NewPool<'a> {
    pub(in crate::infra) group: &'a NodeGroup,
    pub(in crate::infra) name: &'a str,
    pub(in crate::infra) cards: &'a PoolCards,
    pub(in crate::infra) keeps_old: bool,
}

impl<'a> NewPool<'a> {
    pub(in crate::infra) fn of(change: &'a Change) -> Option<Self> {
        match change {
            Change::AddNodePool { group, name, cards, keeps_old } => {
                Some(Self { group, name, cards, keeps_old: *keeps_old })
            }
            Change::SetMigConfig { .. }
            | Change::SetPluginConfig { .. }
            | Change::LabelNodes { .. }
            | Change::LabelGroup { .. }
            | Change::SetWorkloadResource { .. }
            | Change::PinWorkload { .. } => None,
        }
    }

    /// The change for people to make.
    pub(in crate::infra) fn by_hand(
        &self,
        place: Option<&str>,
        why: String,
        text: Option<String>,
    ) -> ManualChange {
        let place = place.map_or_else(String::new, |place| format!(" (`{place}`)"));
        let what =
            format!("Make the node pool `{}` beside {}{place}, with {}", self.name, self.group, self.cut());
        let text = text.unwrap_or_else(|| {
            format!(
                "# a copy of {} named `{}`, with {}\n",
                one_line(&self.group.to_string()),
                self.name,
                self.cut()
            )
        });
        ManualChange { what, why, text }
    }

    fn cut(&self) -> String {
        match self.cards {
            PoolCards::Partition { profile, per_card } => {
                format!("{per_card} slices `{profile}` on each card")
            }
            PoolCards::TimeSharing { clients } => format!("{clients} pods in turns on each card"),
        }
    }

    /// What the way back has to undo.
    pub(in crate::infra) fn back(&self) -> String {
        format!("{}: without the node pool {} that was made beside it", self.group, self.name)
    }
}

/// Makes the change or leaves it to people.
pub(super) fn settle(edition: &Edition<'_>, objects: &Objects<'_>, new: &NewPool<'_>, draft: &mut Draft<'_>) {
    let (mut found, nearly) = beside(edition.repository, new.group, new.name, new.cards);
    if found.len() > 1 {
        let places: Vec<String> = found.iter().map(|one| format!("`{}`", one.place)).collect();
        let why = format!("{} is declared more than once: {}", new.group, places.join(", "));
        return draft.manual(new.by_hand(None, why, None));
    }
    let Some(Beside { path, place, outcome, text, sizes }) = found.pop() else {
        return draft.manual(new.by_hand(None, not_found(objects, new.group, &nearly), None));
    };
    match outcome {
        Outcome::Refused(why) => return draft.manual(new.by_hand(Some(&place), why, Some(text))),
        Outcome::Written(whole) => draft.set(&path, whole),
        Outcome::There => {}
    }
    let then = if new.keeps_old {
        "who keeps a whole card stays there, and its empty nodes go"
    } else {
        "once its pods have moved it is drained and removed, as a change of its own"
    };
    draft.side_effect(format!(
        "`{place}`: {} stays as it is, since how a pool {} its cards is fixed when it is made; {then}.",
        new.group,
        match new.cards {
            PoolCards::Partition { .. } => "cuts",
            PoolCards::TimeSharing { .. } => "shares",
        }
    ));
    sizes.into_iter().for_each(|sentence| draft.side_effect(sentence));
}
