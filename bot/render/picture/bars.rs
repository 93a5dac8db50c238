//! A pool's cards as bars, today on the left and then on the right.

use slicewright_core::units::counted;

use super::Clothes;
use super::packing::{Bar, NodeRow, Packing, Piece, PieceKind};
use super::svg::{Anchor, Area, Pattern, Pen, fit};

/// Left edge of the bars of today and of those of then, in pixels; room for `GPU 16` before them.
const LEFT: [u32; 2] = [60, 580];
/// Length of a card. It divides by 2, 3, 4, 5, 6 and 8, so that most slices end on whole pixels.
const LENGTH: u32 = 480;
const WIDTH: u32 = LEFT[1] + LENGTH + 1;
/// Height of a bar, with two lines of words, and from one bar to the next.
const HEIGHT: u32 = 34;
const STEP: u32 = 40;
/// From a node's name to its first bar.
const HEAD: u32 = 26;
/// Between nodes.
const BETWEEN: u32 = 18;
/// Where the first node begins.
const TOP: u32 = 56;

/// Draws the first `most` nodes.
pub(super) fn draw(packing: &Packing, clothes: Clothes<'_>, most: usize) -> String {
    let rows = &packing.nodes[..packing.nodes.len().min(most)];
    let hidden = packing.nodes[rows.len()..].iter().fold(packing.n_others, |n, row| n + 1 + row.n_alike);
    let last = (hidden > 0).then(|| {
        let n = counted(hidden as usize, "more node");
        if rows.len() < packing.nodes.len() {
            format!("and {n}")
        } else {
            format!("and {n}, divided in other ways")
        }
    });
    let lines: u32 =
        rows.iter().map(|row| n_lines(row) * STEP + HEAD + more(row).map_or(0, |_| HEAD) + BETWEEN).sum();
    let height = TOP + lines + last.as_ref().map_or(0, |_| HEAD);

    let title = format!("GPUs of {}, before and after", packing.pool);
    let said: Vec<String> = rows.iter().map(described).chain(last.clone()).collect();
    let mut pen = Pen::new(clothes, (WIDTH, height), &title, &format!("{}.", said.join(". ")));
    let of = fit(&format!("{}. {}", packing.model_name, caption(rows)), WIDTH);
    pen.text("quiet", Anchor::Start, (0, 14), &of);
    pen.text("head", Anchor::Start, (LEFT[0], 38), "Today");
    pen.text("head", Anchor::Start, (LEFT[1], 38), "With this change");
    let mut y = TOP;
    for row in rows {
        y = draw_row(&mut pen, row, y) + BETWEEN;
    }
    if let Some(last) = last {
        pen.text("quiet", Anchor::Start, (0, y + 10), &last);
    }
    pen.done()
}

/// What a bar and the widths in it mean.
fn caption(rows: &[NodeRow]) -> String {
    let any = |is: &dyn Fn(&Bar) -> bool| rows.iter().flat_map(bars).any(is);
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

/// Draws a node from `y` on, and says where it ends.
fn draw_row(pen: &mut Pen, row: &NodeRow, y: u32) -> u32 {
    pen.group("node", "");
    let name = fit(&row.name, LENGTH);
    pen.text("name", Anchor::Start, (0, y + 14), &name);
    pen.text("quiet", Anchor::Start, (LEFT[1], y + 14), &fit(&row.what, LENGTH));
    let top = y + HEAD;
    for (n, y) in (1..=n_lines(row)).zip((top..).step_by(STEP as usize)) {
        pen.text("quiet", Anchor::Start, (0, y + 21), &format!("GPU {n}"));
    }
    draw_bars(pen, "today", &row.before, (LEFT[0], top));
    match &row.after {
        Some(after) => draw_bars(pen, "then", after, (LEFT[1], top)),
        None => pen.text("quiet", Anchor::Start, (LEFT[1], top + 21), "the same"),
    }
    let mut end = top + n_lines(row) * STEP;
    if let Some(more) = more(row) {
        pen.text("quiet", Anchor::Start, (LEFT[0], end + 10), &more);
        end += HEAD;
    }
    pen.end();
    end
}

fn draw_bars(pen: &mut Pen, side: &str, bars: &[Bar], (x, top): (u32, u32)) {
    for (bar, y) in bars.iter().zip((top..).step_by(STEP as usize)) {
        pen.group(&format!("gpu {side}"), "");
        for piece in &bar.pieces {
            draw_piece(pen, piece, place(bar, piece, (x, y)));
        }
        pen.end();
    }
}

/// Where a piece is drawn. Both ends are rounded alike, so that neighbours meet.
fn place(bar: &Bar, piece: &Piece, (x, y): (u32, u32)) -> Area {
    let at = |unit: u32| {
        let pixels = u64::from(LENGTH) * u64::from(unit) / u64::from(bar.units.max(1));
        u32::try_from(pixels).unwrap_or(LENGTH).min(LENGTH)
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
            line("what", 14, fit(&piece.label, room));
            line("who", 28, who);
        }
        None => line("what", 21, fit(&piece.label, room)),
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
            let all = fit(&full, room);
            Some(if all.ends_with('…') || all.is_empty() { fit(name, room) } else { all })
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

fn n_lines(row: &NodeRow) -> u32 {
    let n = row.before.len().max(row.after.as_ref().map_or(0, Vec::len));
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// What is not drawn of a node, and the nodes like it.
fn more(row: &NodeRow) -> Option<String> {
    let said = [(row.n_more_cards, "more GPU", "here"), (row.n_alike, "more node", "like this")];
    let said = said.iter().filter(|(n, ..)| *n > 0);
    let said: Vec<String> =
        said.map(|(n, what, how)| format!("{} {how}", counted(*n as usize, what))).collect();
    (!said.is_empty()).then(|| format!("and {}", said.join(" and ")))
}
