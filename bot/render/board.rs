//! The one page that shows where every proposal of a repository stands.

use serde::Serialize;
use slicewright_core::review::board::Section;

use super::template::Templates;
use super::{Dialect, RenderError};

/// Most branches of no pool that are listed. With more, a prefix is shared with somebody else, which a few tell as well.
const MOST_ORPHANS: usize = 20;

/// What the page shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Board<'a> {
    /// Day of the last look, UTC. Not the moment: the page would be another one with every run.
    pub day: jiff::civil::Date,
    /// One row a pool.
    pub rows: Vec<BoardRow<'a>>,
    /// What stops whole clusters.
    pub problems: Vec<BoardProblem<'a>>,
    /// Branches that belong to no pool.
    pub orphans: Vec<&'a str>,
    /// What to do about those, in a sentence.
    pub orphans_advice: &'a str,
    /// The repository's own configuration file.
    pub file: &'a str,
}

/// One pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BoardRow<'a> {
    /// Where it belongs.
    #[serde(skip)]
    pub section: Section,
    /// Cluster and pool, `dc1/a100`.
    pub pool: String,
    /// What is proposed, where something is.
    pub title: Option<&'a str>,
    /// Its merge request is open, whoever has to act.
    pub is_open: bool,
    /// GPUs that the plan frees.
    pub cards_freed: u32,
    /// Why it stands where it does.
    pub reason: &'a str,
    /// Where a person finds the merge request.
    pub url: Option<&'a str>,
}

/// Something that stops a whole cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BoardProblem<'a> {
    /// The cluster.
    pub cluster: &'a str,
    /// What is the case.
    pub text: &'a str,
    /// What to do about it.
    pub advice: &'a str,
}

#[derive(Serialize)]
struct Page<'a> {
    day: String,
    parts: &'a [Part<'a>],
    left_out: &'a [Part<'a>],
    problems: &'a [BoardProblem<'a>],
    orphans: &'a [&'a str],
    n_more_orphans: usize,
    orphans_advice: &'a str,
    n_pools: usize,
    n_open: usize,
    freed: u32,
    request: &'static str,
    file: &'a str,
    /// Not a file in a folder.
    is_issue: bool,
}

#[derive(Serialize)]
struct Part<'a> {
    title: &'static str,
    n_rows: usize,
    rows: Vec<&'a BoardRow<'a>>,
}

/// See [`super::board`].
pub(super) fn board(board: &Board<'_>, dialect: Dialect) -> Result<String, RenderError> {
    let part = |section: Section| {
        let rows: Vec<_> = board.rows.iter().filter(|row| row.section == section).collect();
        (!rows.is_empty()).then_some(Part { title: section.title(), n_rows: rows.len(), rows })
    };
    let mut parts: Vec<_> = Section::ALL.into_iter().filter_map(part).collect();
    let open = board.rows.iter().filter(|row| row.is_open);
    let templates = Templates::new()?;
    let mut left_out = Vec::new();
    let n_orphans = board.orphans.len().min(MOST_ORPHANS);
    loop {
        let page = Page {
            day: board.day.to_string(),
            parts: &parts,
            left_out: &left_out,
            problems: &board.problems,
            orphans: &board.orphans[..n_orphans],
            n_more_orphans: board.orphans.len() - n_orphans,
            orphans_advice: board.orphans_advice,
            n_pools: board.rows.len(),
            n_open: open.clone().count(),
            freed: open.clone().map(|row| row.cards_freed).sum(),
            request: dialect.request(),
            file: board.file,
            is_issue: matches!(dialect, Dialect::GitHub | Dialect::GitLab),
        };
        let text = templates.fill("dashboard.md", &page)?;
        if text.len() <= dialect.budget() {
            return Ok(text);
        }
        // What needs nobody goes first, as a whole: half a table says the wrong thing.
        match parts.pop() {
            Some(part) => left_out.insert(0, Part { rows: Vec::new(), ..part }),
            None => return Ok(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(section: Section, pool: &str) -> BoardRow<'_> {
        let title = Some("Share 6 of 14 GPUs of dc1 by MIG");
        let is_open = section == Section::Open;
        BoardRow {
            section,
            pool: pool.to_owned(),
            title,
            is_open,
            cards_freed: 5,
            reason: "nothing differs",
            url: None,
        }
    }

    #[test]
    fn it_shows_every_pool_where_it_belongs_and_strangers_words_are_only_words() {
        let open = BoardRow { url: Some("https://forge.example/1"), ..row(Section::Open, "dc1/a100") };
        let board = Board {
            day: jiff::civil::date(2026, 1, 15),
            rows: vec![
                BoardRow { title: None, cards_freed: 0, ..row(Section::Nothing, "dc1/l4") },
                open,
                BoardRow { reason: "waits: 3 are open", ..row(Section::Waiting, "dc1/h100|x") },
                BoardRow { reason: "a commit of @everyone", ..row(Section::WithPeople, "dc1/t4") },
            ],
            problems: vec![BoardProblem { cluster: "dc2", text: "no samples", advice: "check the address" }],
            orphans: vec![],
            orphans_advice: "",
            file: ".slicewright.yaml",
        };
        let text = super::board(&board, Dialect::GitHub).unwrap();
        crate::render::tests::snapshot("dashboard", &text);
        assert!(!text.contains("@everyone") && !text.contains("h100|x |"), "{text}");
        let nothing = Board { rows: vec![], problems: vec![], ..board };
        let text = super::board(&nothing, Dialect::Local).unwrap();
        assert!(text.contains("No pool of this repository was found."), "{text}");
    }

    #[test]
    fn a_page_that_is_too_long_keeps_what_needs_somebody() {
        let mut rows = vec![row(Section::WithPeople, "dc1/edited")];
        rows.extend((0..2_000).map(|n| row(Section::Nothing, ["dc1/a", "dc1/b"][n % 2])));
        let day = jiff::civil::date(2026, 1, 15);
        let (orphans, file) = (vec![], ".slicewright.yaml");
        let board = Board { day, rows, problems: vec![], orphans, orphans_advice: "", file };
        let text = super::board(&board, Dialect::GitHub).unwrap();
        assert!(text.len() <= Dialect::GitHub.budget() && text.contains("dc1/edited"), "{}", text.len());
        assert!(text.contains("Left out for want of room: *Nothing to propose* (2000 pools)."), "{text}");
    }

    #[test]
    fn branches_of_no_pool_are_listed_with_what_to_do_and_some_stand_for_many() {
        let names: Vec<String> = (0..22).map(|n| format!("slicewright/old/p{n:02}")).collect();
        let board = Board {
            day: jiff::civil::date(2026, 1, 15),
            rows: vec![row(Section::Nothing, "dc1/l4")],
            problems: vec![],
            orphans: names.iter().map(String::as_str).collect(),
            orphans_advice: "close it, or put the pool back",
            file: ".slicewright.yaml",
        };
        let text = super::board(&board, Dialect::GitHub).unwrap();
        let part = text.split("## ").find(|part| part.starts_with("Branches of no pool")).unwrap();
        assert!(part.contains("What to do: close it, or put the pool back."), "{part}");
        assert!(part.contains("- `slicewright/old/p00`\n- `slicewright/old/p01`\n"), "{part}");
        assert!(part.contains("p19`\n- and 2 more\n") && !part.contains("p20"), "{part}");
        let none = super::board(&Board { orphans: vec![], ..board }, Dialect::GitHub).unwrap();
        assert!(!none.contains("of no pool"), "{none}");
    }
}
