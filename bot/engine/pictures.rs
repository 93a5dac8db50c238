//! What a plan looks like, for pages and for files: its cards before and after, and each workload's evidence.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use slicewright_core::ids::{PoolId, short_hash, slug};
use slicewright_core::plan::Outcome;

use super::Engine;
use super::analyse::Analysis;
use crate::render::{self, Clothes, Packing, WorkloadShown};

/// Workloads of one pool that are shown: some 10 KB of page each.
const MOST_WORKLOADS: usize = 100;

/// One pool's plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pictures {
    /// Its cards.
    pub packing: Packing,
    /// Workloads that move to a share of a card, in the order of the plan.
    pub workloads: Vec<WorkloadShown>,
    /// Workloads that are left out.
    pub n_more: usize,
}

impl Engine {
    /// What comes of a pool, as pictures. `None`: no plan.
    ///
    /// # Errors
    /// When a template is broken.
    pub fn pictures(
        &self,
        analysis: &Analysis,
        pool: &PoolId,
    ) -> Result<Option<Pictures>, render::RenderError> {
        let Some(Outcome::Plan(plan)) = analysis.outcome(pool) else { return Ok(None) };
        let shown = &plan.items[..plan.items.len().min(MOST_WORKLOADS)];
        Ok(Some(Pictures {
            packing: Packing::of(plan, self.catalog().find(&plan.model)),
            workloads: render::workloads(shown, &analysis.measured.profiles)?,
            n_more: plan.items.len() - shown.len(),
        }))
    }
}

impl Pictures {
    /// Every picture as a file of its own: name and SVG.
    pub fn files(&self) -> BTreeMap<String, String> {
        let packing = self.packing.svg(Clothes::File, usize::MAX);
        let mut files = BTreeMap::from([("packing.svg".to_owned(), packing)]);
        for history in self.workloads.iter().filter_map(|workload| workload.history.as_ref()) {
            let slug = slug(&history.workload);
            let plain = format!("history-{slug}.svg");
            // Kinds may share a name, and slugs may meet.
            let name = if files.contains_key(&plain) {
                let place = files.len().to_string();
                format!("history-{slug}-{}.svg", short_hash(&format!("{}\0{place}", history.workload), 6))
            } else {
                plain
            };
            files.insert(name, history.svg(Clothes::File));
        }
        files
    }
}
