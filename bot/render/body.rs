//! Sections in their order, and what is left out when a forge takes no more.

use std::collections::BTreeSet;

use slicewright_core::review::metadata::State;
use slicewright_core::units::counted;

use super::escape::{plain, sentence, tick};
use super::page::{self, Page};
use super::template::Templates;
use super::{RenderError, Rendered, View};

/// What the hidden block and the note about left-out sections may take. The block has some 900 bytes.
const RESERVED: usize = 3_000;

/// A part of the text.
struct Section {
    template: &'static str,
    /// As the note about left-out sections calls it.
    name: &'static str,
    /// Lowest goes first when the text is too long; `None` always stays.
    rank: Option<u8>,
}

const fn section(template: &'static str, name: &'static str, rank: Option<u8>) -> Section {
    Section { template, name, rank }
}

/// In the order of the text.
const SECTIONS: &[Section] = &[
    section("first-screen.md", "the summary", None),
    section("by-hand.md", "changes to make by hand", Some(12)),
    section("trade-offs.md", "trade-offs", Some(9)),
    section("alternatives.md", "alternatives", Some(5)),
    section("on-merge.md", "what happens on merge", Some(11)),
    section("rollback.md", "the way back", Some(10)),
    section("side-effects.md", "side effects", Some(8)),
    section("nodes.md", "nodes before and after", Some(4)),
    section("layout.md", "cards to scale", Some(0)),
    section("kept.md", "what stays as it is", Some(3)),
    section("data.md", "data quality", Some(7)),
    section("evidence.md", "evidence", Some(1)),
    section("changes.md", "all changes", Some(2)),
    section("answer.md", "how to answer", Some(13)),
    section("footer.md", "the footer", None),
];

/// Title and body.
pub(super) fn body(view: &View<'_>) -> Result<Rendered, RenderError> {
    let templates = Templates::new()?;
    let mut page = Page::new(view);
    let mut texts = Vec::new();
    for section in SECTIONS {
        texts.push((section, templates.fill(section.template, &page)?));
    }
    page.evidence.clear();
    page.layout.clear();
    let mut for_page = Vec::new();
    for (section, text) in &texts {
        let again = ["evidence.md", "layout.md"].contains(&section.template);
        for_page
            .push((*section, if again { templates.fill(section.template, &page)? } else { text.clone() }));
    }
    let dropped = over(&texts, view.dialect.budget() - RESERVED);
    if !dropped.is_empty() {
        let gone = |section: &&Section| dropped.contains(&section.template);
        page.left_out = SECTIONS.iter().filter(gone).map(|section| section.name).collect();
        texts.retain(|(section, _)| !dropped.contains(&section.template));
        for (section, text) in texts.iter_mut().filter(|(section, _)| section.template == "footer.md") {
            *text = templates.fill(section.template, &page)?;
        }
    }
    let body = match view.dialect {
        super::Dialect::GitHub | super::Dialect::GitLab => join(&texts),
        super::Dialect::Local | super::Dialect::Terminal => plain_money(&join(&texts)),
    };
    Ok(Rendered {
        title: page::title(view.plan),
        body,
        for_page: plain_money(&join(&for_page)),
        draft: !page::draft(view).is_empty(),
    })
}

/// Amounts as people write them. `\$` and the joiner keep a forge from reading mathematics or a snippet's number into
/// an amount; a file is read as it is. A dollar sign after a blank cannot end a formula, so nothing opens one either.
fn plain_money(text: &str) -> String {
    text.replace(" \\$\u{2060}", " $")
}

/// Which sections go so that the others have at most `budget` bytes: lowest rank first; what then still finds room
/// comes back, highest rank first, so that one huge section does not take small ones with it.
fn over(texts: &[(&Section, String)], budget: usize) -> BTreeSet<&'static str> {
    let length = |text: &String| text.len() + 2;
    let mut total: usize = texts.iter().map(|(_, text)| length(text)).sum();
    let mut by_rank: Vec<&(&Section, String)> =
        texts.iter().filter(|(section, text)| section.rank.is_some() && !text.is_empty()).collect();
    by_rank.sort_by_key(|(section, _)| section.rank);
    let mut dropped = BTreeSet::new();
    for (section, text) in &by_rank {
        if total > budget {
            total -= length(text);
            dropped.insert(section.template);
        }
    }
    for (section, text) in by_rank.iter().rev() {
        if dropped.contains(section.template) && total + length(text) <= budget {
            total += length(text);
            dropped.remove(section.template);
        }
    }
    dropped
}

fn join(texts: &[(&Section, String)]) -> String {
    let parts: Vec<&str> =
        texts.iter().map(|(_, text)| text.as_str()).filter(|text| !text.is_empty()).collect();
    format!("{}\n", parts.join("\n\n"))
}

/// Subject, what it does, and where to read on.
pub(super) fn commit_message(view: &View<'_>) -> String {
    let plan = view.plan;
    let what = format!(
        "Moves {} of pool {} in cluster {} to {}.",
        counted(plan.items.len(), "workload"),
        tick(&plan.pool.pool),
        tick(&plan.pool.cluster),
        plan.method.name()
    );
    let request = view.dialect.request();
    let more = format!(
        "The {request} of branch {} says why, in which order to roll out, and the way back.",
        tick(view.branch)
    );
    let (what, more, fingerprint) = (plain(&what), plain(&more), plain(&plan.fingerprint));
    format!("{}\n\n{what}\n{more}\n\nSlicewright-Fingerprint: {fingerprint}\n", page::title(plan))
}

/// See [`super::closing`].
pub(super) fn closing(body: &str, state: State, reason: &str) -> String {
    let mark = |state: State| match state {
        State::Open => None,
        State::Withdrawn => Some("**Withdrawn:**"),
        State::Declined => Some("**Declined:**"),
        State::Merged => Some("**Merged:**"),
    };
    let old = [State::Withdrawn, State::Declined, State::Merged].into_iter().filter_map(mark);
    let mut text = body.trim_start();
    if old.into_iter().any(|old| text.starts_with(old)) {
        text = text.split_once('\n').map_or("", |(_, rest)| rest.trim_start());
    }
    match mark(state) {
        None => text.to_owned(),
        Some(mark) => format!("{mark} {}.\n\n{text}", sentence(reason.trim_end_matches('.'))),
    }
}
