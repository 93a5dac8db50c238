//! Every way of choosing the fates of a few nodes.

use std::collections::BTreeSet;

use super::search::Search;
use crate::pack::Fate;
use crate::plan::Goal;

/// What any placement with given fates comes to at least, as the first parts of [`super::lay_out::Score`]: cost of the
/// nodes that stay (or cards in use), nodes drained, pods that restart.
type Least = (i64, usize, u32);

impl Search<'_, '_> {
    /// Tries all fates that can be better than what is known, the most promising first.
    pub(super) fn every_way(&mut self, movable: &[usize]) {
        let mut ways: Vec<(Least, Vec<Fate>)> =
            self.choices(movable).into_iter().map(|fates| (self.least_of(&fates), fates)).collect();
        ways.sort_by_key(|(least, _)| *least);
        for (least, fates) in ways {
            let known = self.best.as_ref().map(|(score, _)| (score.0, score.1, score.2));
            if self.left == 0 || known.is_some_and(|known| known < least) {
                break;
            }
            self.try_fates(&fates);
        }
    }

    fn choices(&self, movable: &[usize]) -> Vec<Vec<Fate>> {
        let fates: &[Fate] = match self.board.wishes.goal {
            Goal::Bill => &[Fate::Untouched, Fate::Touched, Fate::Freed],
            Goal::Capacity => &[Fate::Untouched, Fate::Touched],
        };
        let mut choices = vec![vec![Fate::Untouched; self.board.sites.len()]];
        for site in movable {
            let with = |choice: &Vec<Fate>, fate: &Fate| {
                let mut choice = choice.clone();
                choice[*site] = *fate;
                choice
            };
            choices =
                choices.iter().flat_map(|choice| fates.iter().map(move |fate| with(choice, fate))).collect();
        }
        choices
    }

    fn least_of(&self, fates: &[Fate]) -> Least {
        let kept = self.board.sites.iter().zip(fates).filter(|(_, fate)| **fate != Fate::Freed);
        let first = match self.board.wishes.goal {
            Goal::Bill => kept.map(|(site, _)| site.cost).sum(),
            Goal::Capacity => i64::from(self.bound.n_busy),
        };
        let touched = fates.iter().filter(|fate| **fate == Fate::Touched).count();
        (first, touched, self.board.restarts(&BTreeSet::new(), fates))
    }
}
