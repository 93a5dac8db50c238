//! Boxes on the page that shows all of a repository's pools: who ticks one asks the bot to look at that pool again.
//!
//! A forge tells who ticked a box only in the moment, by its webhook. So the page itself never says who asked for what, and
//! a box that is found ticked is a box to empty.

use super::metadata::{base64url, from_base64url};
use crate::ids::PoolId;

/// Most boxes on a page. A line has some 150 bytes and a page of GitHub's room for 9,000 beside the rest; with twice as
/// many the page would be refused.
pub const MOST: usize = 50;

/// How the mark of a box starts; no forge shows it.
const MARK: &str = "<!-- slicewright-look:";

/// The part of the page with a box for each of `pools`, up to [`MOST`]; empty without any.
pub fn part(pools: &[PoolId]) -> String {
    if pools.is_empty() {
        return String::new();
    }
    let mut text = "\n## Look again\n\nTick a box to have the bot measure and plan that pool again now, also where a limit on open \
                    proposals made it wait, or a comment paused, snoozed or declined it. It takes the right to write here. The \
                    box is emptied when the bot begins.\n\n"
        .to_owned();
    for pool in pools.iter().take(MOST) {
        let name: String =
            pool.to_string().chars().map(|c| if c == '`' || c.is_control() { ' ' } else { c }).collect();
        text += &format!("- [ ] `{}` {}\n", name.trim(), mark(pool));
    }
    if pools.len() > MOST {
        text += &format!("- and {} more without a box\n", pools.len() - MOST);
    }
    text
}

/// Pools whose boxes are ticked in `after` and were not in `before`, in the order of the page, each once.
pub fn ticked(before: &str, after: &str) -> Vec<PoolId> {
    let old = all_ticked(before);
    let mut new: Vec<PoolId> = Vec::new();
    for pool in all_ticked(after) {
        if !old.contains(&pool) && !new.contains(&pool) {
            new.push(pool);
        }
    }
    new
}

/// The page with every box empty, and nothing else of it changed.
pub fn emptied(text: &str) -> String {
    let line = |line: &str| match is_ticked(line) {
        Some(at) => format!("{} {}", &line[..at], &line[at + 1..]),
        None => line.to_owned(),
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

fn all_ticked(text: &str) -> Vec<PoolId> {
    text.lines().filter(|line| is_ticked(line).is_some()).filter_map(pool_of).collect()
}

/// Where the sign in the box of a line is, if it has one of the bot's boxes that is ticked.
fn is_ticked(line: &str) -> Option<usize> {
    let start = line.len() - line.trim_start().len();
    let rest = line.get(start..)?;
    let is_box = ["- [x] ", "- [X] ", "* [x] ", "* [X] "].iter().any(|start| rest.starts_with(start));
    (is_box && pool_of(line).is_some()).then_some(start + 3)
}

fn mark(pool: &PoolId) -> String {
    let json = serde_json::to_vec(&[&pool.cluster, &pool.pool]).expect("texts always serialise");
    format!("{MARK}{} -->", base64url(&json))
}

fn pool_of(line: &str) -> Option<PoolId> {
    let (encoded, _) = line.split_once(MARK)?.1.split_once(" -->")?;
    let [cluster, pool] = serde_json::from_slice(&from_base64url(encoded)?).ok()?;
    Some(PoolId { cluster, pool })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pool(cluster: &str, pool: &str) -> PoolId {
        PoolId { cluster: cluster.to_owned(), pool: pool.to_owned() }
    }

    #[test]
    fn what_is_ticked_anew_is_asked_for_once() {
        let page = part(&[pool("dc1", "a100"), pool("dc1", "h100")]);
        assert_eq!(ticked("", &page), []);
        let one = page.replacen("- [ ]", "- [x]", 1);
        assert_eq!(ticked(&page, &one), [pool("dc1", "a100")]);
        assert_eq!(ticked(&one, &one), []);
        let both = one.replacen("- [ ]", "* [X]", 1).replace('\n', "\r\n");
        assert_eq!(ticked(&one, &both), [pool("dc1", "h100")]);
        assert_eq!(ticked("", &format!("{both}{both}")).len(), 2);
        assert_eq!(emptied(&one), page);
    }

    #[test]
    fn other_peoples_boxes_are_none_of_the_bots() {
        let page = part(&[pool("dc1", "a100")]);
        for theirs in [
            "- [x] buy more GPUs".to_owned(),
            page.replacen("- [ ]", "> - [x]", 1),
            page.replacen("- [ ] ", "- [x]", 1),
            page.replacen(" -->", "", 1).replacen("- [ ]", "- [x]", 1),
            "- [x] a <!-- slicewright-look:!! -->".to_owned(),
            "- [x] a <!-- slicewright-look:WyJkYzEiXQ -->".to_owned(),
        ] {
            assert_eq!(ticked("", &theirs), [], "{theirs}");
            assert_eq!(emptied(&theirs), theirs);
        }
        assert_eq!(part(&[]), "");
        let many: Vec<_> = (0..60).map(|n| pool("dc1", &format!("p{n}"))).collect();
        let page = part(&many);
        assert!(page.contains("and 10 more") && page.len() < 9_000, "{}", page.len());
    }

    proptest! {
        #[test]
        fn every_name_comes_back_and_no_text_is_a_panic(cluster in ".{0,40}", name in ".{0,40}", text in "\\PC{0,200}") {
            let pools = [pool(&cluster, &name)];
            let page = part(&pools);
            prop_assert_eq!(page.lines().filter(|line| line.starts_with("- [ ]")).count(), 1);
            let ticks = page.replacen("- [ ]", "- [x]", 1);
            prop_assert_eq!(ticked(&page, &ticks), pools);
            prop_assert_eq!(emptied(&ticks), page);
            let _ = ticked(&text, &text);
            prop_assert_eq!(emptied(&emptied(&text)), emptied(&text));
        }
    }
}
