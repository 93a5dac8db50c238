//! A pool's cards as bars: today, and beside or below it, then.

use slicewright_core::units::counted;

use super::packing::{Bar, NodeRow, Packing, Piece, PieceKind};
use super::svg::{Anchor, Area, Pattern, Pen, Weight, fit, wrapped};
use super::{Clothes, Room};

/// Height of a bar, with two lines of words, and from one bar to the next, in pixels.
const HEIGHT: u32 = 34;
const STEP: u32 = 40;
/// From one line of words to the next.
const LINE: u32 = 18;
/// Between nodes.
const BETWEEN: u32 = 16;

/// Where things are, in pixels from the left.
struct Frame {
    /// Left edges of the bars of today and of those of then; room for `GPU 16` before them.
    left: [u32; 2],
    /// Length of a card. It divides by 2, 3, 4, 6 and 8, so that most slices end on whole pixels.
    length: u32,
    width: u32,
    /// What is then stands below what is today.
    stacked: bool,
}

const WIDE: Frame = Frame { left: [60, 580], length: 480, width: 1_061, stacked: false };
const NARROW: Frame = Frame { left: [52, 52], length: 288, width: 341, stacked: true };

const TITLES: [&str; 2] = ["Today", "With this change"];

/// Draws at most so many nodes, those that change first.
pub(super) fn draw(packing: &Packing, clothes: Clothes<'_>, most: usize) -> String {
    let frame = match clothes.room() {
        Room::Wide => &WIDE,
        Room::Narrow => &NARROW,
    };
    let (rows, hidden) = chosen(packing, most);
    let mut pen = Pen::new(clothes);
    let mut y = 14;
    for line in wrapped(&format!("{}: {}. {}", packing.pool, packing.model_name, caption(&rows)), frame.width)
    {
        pen.text("quiet", Anchor::Start, (0, y), &line);
        y += LINE;
    }
    if !frame.stacked {
        for (left, title) in frame.left.into_iter().zip(TITLES) {
            pen.text("head", Anchor::Start, (left, y + 6), title);
        }
        y += 6 + LINE;
    }
    for row in &rows {
        y = draw_row(&mut pen, frame, row, y) + BETWEEN;
    }
    let rest = rest(packing, &hidden);
    if let Some(rest) = &rest {
        pen.text("quiet", Anchor::Start, (0, y), rest);
        y += LINE;
    }
    let said: Vec<String> = rows.iter().copied().map(described).chain(rest).collect();
    let title = format!("GPUs of {}, before and after", packing.pool);
    pen.done((frame.width, y), &title, &format!("{}.", said.join(". ")))
}

/// The nodes to draw and the others, both in the order of the plan.
fn chosen(packing: &Packing, most: usize) -> (Vec<&NodeRow>, Vec<&NodeRow>) {
    let mut order: Vec<usize> = (0..packing.nodes.len()).collect();
    order.sort_by_key(|n| packing.nodes[*n].after.is_none());
    order.truncate(most);
    let numbered = packing.nodes.iter().enumerate();
    let (shown, hidden): (Vec<_>, Vec<_>) = numbered.partition(|(n, _)| order.contains(n));
    let rows = |numbered: Vec<(usize, _)>| numbered.into_iter().map(|(_, row)| row).collect();
    (rows(shown), rows(hidden))
}

/// How many nodes are not drawn.
fn rest(packing: &Packing, hidden: &[&NodeRow]) -> Option<String> {
    let n = hidden.iter().fold(packing.n_others, |n, row| n + 1 + row.n_alike);
    let other = if hidden.is_empty() { ", divided in other ways" } else { "" };
    (n > 0).then(|| format!("and {}{other}", counted(n as usize, "more node")))
}

/// What a bar and the widths in it mean.
fn caption(rows: &[&NodeRow]) -> String {
    let any = |is: &dyn Fn(&Bar) -> bool| rows.iter().copied().flat_map(bars).any(is);
    let has = |kind: PieceKind| any(&|bar| bar.pieces.iter().any(|piece| piece.kind == kind));
    let said = [
        (has(PieceKind::Slice), "a slice is as wide as its share of the GPU's memory"),
        (any(&|bar| !bar.to_scale), "slices whose sizes are not known are drawn alike"),
        (has(PieceKind::Turn), "time slices are equal turns, and memory is not divided"),
        (has(PieceKind::Client), "MPS shares are equal parts of memory and threads"),
    ];
    let said = said.into_iter().filter_map(|(is_so, said)| is_so.then_some(said));
    std::iter::once("Each bar is one GPU").chain(said).collect::<Vec<_>>().join("; ")
}

/// Draws a node below `y`, and says where it ends.
fn draw_row(pen: &mut Pen, frame: &Frame, row: &NodeRow, y: u32) -> u32 {
    pen.group("node", "");
    let mut y = y + 12;
    pen.text("name", Anchor::Start, (0, y), &fit(&row.name, frame.length, Weight::Bold));
    if frame.stacked {
        y += LINE;
    }
    let beside = if frame.stacked { 0 } else { frame.left[1] };
    pen.text("quiet", Anchor::Start, (beside, y), &fit(&row.what, frame.length, Weight::Plain));
    let top = y + 10;
    let mut end = top;
    let sides = [("today", Some(&row.before)), ("then", row.after.as_ref())];
    for ((side, cards), (left, title)) in sides.into_iter().zip(frame.left.into_iter().zip(TITLES)) {
        let mut at = top;
        if frame.stacked {
            pen.text("head", Anchor::Start, (left, end + 12), title);
            at = end + LINE;
        }
        match cards {
            Some(cards) => {
                if frame.stacked || side == "today" {
                    draw_numbers(pen, cards.len(), at);
                }
                draw_bars(pen, frame, side, cards, (left, at));
                end = end.max(at + u32::try_from(cards.len()).unwrap_or(u32::MAX) * STEP);
            }
            None => {
                pen.text("quiet", Anchor::Start, (left, at + 14), "the same");
                end = end.max(at + LINE);
            }
        }
    }
    if let Some(more) = more(row) {
        pen.text("quiet", Anchor::Start, (frame.left[0], end + 10), &fit(&more, frame.length, Weight::Plain));
        end += LINE;
    }
    pen.end();
    end
}

/// `GPU 1` and so on, each before its bar.
fn draw_numbers(pen: &mut Pen, n_cards: usize, top: u32) {
    for (n, y) in (1..=n_cards).zip((top..).step_by(STEP as usize)) {
        pen.text("quiet", Anchor::Start, (0, y + 21), &format!("GPU {n}"));
    }
}

fn draw_bars(pen: &mut Pen, frame: &Frame, side: &str, bars: &[Bar], (x, top): (u32, u32)) {
    for (bar, y) in bars.iter().zip((top..).step_by(STEP as usize)) {
        pen.group(&format!("gpu {side}"), "");
        for piece in &bar.pieces {
            draw_piece(pen, piece, place(frame.length, bar, piece, (x, y)));
        }
        pen.end();
    }
}

/// Where a piece is drawn. Both ends are rounded alike, so that neighbours meet.
fn place(length: u32, bar: &Bar, piece: &Piece, (x, y): (u32, u32)) -> Area {
    let at = |unit: u32| {
        let pixels = u64::from(length) * u64::from(unit) / u64::from(bar.units.max(1));
        u32::try_from(pixels).unwrap_or(length).min(length)
    };
    let (start, end) = (at(piece.start), at(piece.start.saturating_add(piece.size)));
    Area { x: x + start, y, width: end - start, height: HEIGHT }
}

fn draw_piece(pen: &mut Pen, piece: &Piece, area: Area) {
    let (class, pattern) = dress(piece);
    pen.group(class, &words(piece));
    pen.rect("area", area);
    if let Some(pattern) = pattern {
        pen.pattern(pattern, area);
    }
    let room = area.width.saturating_sub(8);
    let middle = area.x + area.width / 2;
    let mut line = |class: &str, y: u32, text: String| {
        if !text.is_empty() {
            pen.text(class, Anchor::Middle, (middle, area.y + y), &text);
        }
    };
    match holder(piece, room) {
        Some(who) => {
            line("what", 14, fit(&piece.label, room, Weight::Bold));
            line("who", 28, who);
        }
        None => line("what", 21, fit(&piece.label, room, Weight::Bold)),
    }
    pen.end();
}

fn dress(piece: &Piece) -> (&'static str, Option<Pattern>) {
    match (piece.kind, &piece.workload) {
        (PieceKind::Whole, _) => ("whole", None),
        (PieceKind::Slice, Some(_)) => ("slice", None),
        (PieceKind::Slice, None) => ("slice empty", Some(Pattern::Lines)),
        (PieceKind::Turn | PieceKind::Client, Some(_)) => ("share", None),
        (PieceKind::Turn | PieceKind::Client, None) => ("share empty", Some(Pattern::Lines)),
        (PieceKind::Uncut, _) => ("uncut", None),
        (PieceKind::Idle, _) => ("idle", Some(Pattern::Dots)),
        (PieceKind::Freed, _) => ("freed", Some(Pattern::Dots)),
        (PieceKind::Other, _) => ("other", None),
    }
}

/// The second line: who holds the piece. A long name goes without its namespace.
fn holder(piece: &Piece, room: u32) -> Option<String> {
    match (&piece.workload, piece.kind) {
        (Some(workload), _) => {
            let (full, name) = (workload.to_string(), &workload.name);
            let all = fit(&full, room, Weight::Plain);
            Some(if all.ends_with('…') || all.is_empty() { fit(name, room, Weight::Plain) } else { all })
        }
        (None, PieceKind::Slice | PieceKind::Turn | PieceKind::Client) => Some("free".to_owned()),
        (None, _) => None,
    }
}

/// A piece in words: `2g.10gb, 2 of 8 memory slices: search/embed-svc`.
fn words(piece: &Piece) -> String {
    match (&piece.workload, piece.kind) {
        (Some(workload), _) => format!("{}: {workload} ({})", piece.label, workload.kind),
        (None, PieceKind::Slice | PieceKind::Turn | PieceKind::Client) => format!("{}: free", piece.label),
        (None, _) => piece.label.clone(),
    }
}

/// A node in words.
fn described(row: &NodeRow) -> String {
    let side = |bars: &[Bar]| {
        let bar = |(n, bar): (usize, &Bar)| {
            format!("GPU {}: {}", n + 1, bar.pieces.iter().map(words).collect::<Vec<_>>().join(", "))
        };
        bars.iter().enumerate().map(bar).collect::<Vec<_>>().join("; ")
    };
    let after = row
        .after
        .as_deref()
        .map_or_else(|| "then the same".to_owned(), |bars| format!("then {}", side(bars)));
    let more = more(row).map(|more| format!(" {more}")).unwrap_or_default();
    format!("Node {}, {}: today {}; {after}{more}", row.name, row.what, side(&row.before))
}

fn bars(row: &NodeRow) -> impl Iterator<Item = &Bar> {
    row.before.iter().chain(row.after.iter().flatten())
}

/// What is not drawn of a node, and the nodes like it.
pub(super) fn more(row: &NodeRow) -> Option<String> {
    let said = [(row.n_more_cards, "more GPU", "here"), (row.n_alike, "more node", "like this")];
    let said = said.iter().filter(|(n, ..)| *n > 0);
    let said: Vec<String> =
        said.map(|(n, what, how)| format!("{} {how}", counted(*n as usize, what))).collect();
    (!said.is_empty()).then(|| format!("and {}", said.join(" and ")))
}
