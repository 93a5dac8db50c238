//! What would have to be otherwise for a workload to get less than it does.

use super::mig::Weighed;
use super::obstacle::{Obstacle, Unless};
use super::{Question, Reason, Verdict};

/// The sentence for a holder of whole cards.
///
/// With a slice as verdict: what the next smaller profile would ask for. With a card kept whole: the way that is
/// closest, by the fewest things to change, then by how far the worst figure is from its limit, then the smaller slice.
pub(super) fn counterfactual(
    question: &Question<'_>,
    verdict: &Verdict,
    weighed: &[Weighed<'_>],
    mig_refusal: Option<&Reason>,
    time_slicing: &[Obstacle],
) -> Option<Reason> {
    match verdict {
        Verdict::Mig { profile } => {
            let chosen = weighed.iter().position(|one| one.profile.name.to_string() == *profile)?;
            let smaller = weighed.get(chosen.checked_sub(1)?)?;
            Some(sentence(&slice_words(question, smaller)?, &changeable(&smaller.obstacles)?))
        }
        Verdict::KeepWhole { .. } | Verdict::NotEnoughEvidence { .. } => {
            closest(question, weighed, mig_refusal, time_slicing)
        }
        Verdict::TimeSlicing | Verdict::Mps | Verdict::KeepSlice { .. } | Verdict::Excluded { .. } => None,
    }
}

fn closest(
    question: &Question<'_>,
    weighed: &[Weighed<'_>],
    mig_refusal: Option<&Reason>,
    time_slicing: &[Obstacle],
) -> Option<Reason> {
    if let Some(refusal) = mig_refusal
        && let Some(fits) = weighed.iter().find(|one| one.obstacles.is_empty())
    {
        let text = format!("{} if MIG were possible here", slice_words(question, fits)?);
        let reason = Reason::new("mig-not-possible", text);
        return Some(match &refusal.advice {
            Some(advice) => reason.with_advice(advice.clone()),
            None => reason,
        });
    }
    let slices = weighed.iter().filter(|_| mig_refusal.is_none()).filter_map(|one| {
        let conditions = changeable(&one.obstacles)?;
        Some((distance(&conditions), one.index, slice_words(question, one)?, conditions))
    });
    if let Some((_, _, what, conditions)) = slices.min_by_key(|(distance, index, ..)| (*distance, *index)) {
        return Some(sentence(&what, &conditions));
    }
    // Last, since it gives up isolation.
    let conditions = changeable(time_slicing).filter(|conditions| !conditions.is_empty())?;
    Some(sentence("may share a card", &conditions))
}

/// What would have to be otherwise; `None` where something is that nobody can change.
fn changeable(obstacles: &[Obstacle]) -> Option<Vec<&Unless>> {
    obstacles.iter().map(|obstacle| obstacle.unless.as_ref()).collect()
}

fn distance(conditions: &[&Unless]) -> (usize, u64) {
    (conditions.len(), conditions.iter().map(|one| one.excess_ppm).max().unwrap_or(0))
}

/// ``fits `1g.10gb` of an A100 80GB``.
fn slice_words(question: &Question<'_>, weighed: &Weighed<'_>) -> Option<String> {
    let title = question.model?.title();
    Some(format!("fits `{}` of {} {title}", weighed.profile.name, article(&title)))
}

fn sentence(what: &str, conditions: &[&Unless]) -> Reason {
    let all: Vec<&str> = conditions.iter().map(|one| one.condition.as_str()).collect();
    let facts: Vec<&str> = conditions.iter().filter_map(|one| one.fact.as_deref()).collect();
    let mut text = format!("{what} if {}", all.join(" and "));
    if !facts.is_empty() {
        text.push_str("; ");
        text.push_str(&facts.join(", "));
    }
    Reason::new("would-fit-if", text)
}

/// `an` before letters that are spoken with a vowel first: A100, H100, L4, RTX.
fn article(title: &str) -> &'static str {
    match title.chars().next() {
        Some('A' | 'E' | 'F' | 'H' | 'I' | 'L' | 'M' | 'N' | 'O' | 'R' | 'S' | 'X') => "an",
        Some(_) | None => "a",
    }
}
