//! The cards that a plan cuts or shares, to scale, where no picture can be: in the text of a proposal.

use super::bars::more;
use super::packing::{Bar, NodeRow, Packing, Piece, PieceKind};
use crate::render::escape::{cut, plain};

/// Characters of a card. It divides by 2, 4 and 8, as the memory of cards does.
const LENGTH: u32 = 64;

/// Nodes that are drawn; a node of eight cards takes 1 KB.
const MOST: usize = 4;

/// The cards then; those of today where they are divided already. Empty: no card is divided.
pub(in crate::render) fn diagram(packing: &Packing) -> String {
    let divided = |bars: &[Bar]| bars.iter().any(|bar| bar.pieces.len() > 1);
    let is_cut = |row: &&NodeRow| row.after.as_deref().is_some_and(divided);
    let mut lines = Vec::new();
    let rows: Vec<&NodeRow> = packing.nodes.iter().filter(is_cut).collect();
    for row in rows.iter().take(MOST) {
        lines.push(cut(&plain(&row.name), 60));
        if divided(&row.before) {
            draw(&mut lines, "today", &row.before);
        }
        draw(&mut lines, "then", row.after.as_deref().unwrap_or_default());
        lines.extend(more(row));
    }
    lines.join("\n")
}

/// Neighbours that are used alike once; a card in one hand takes one line.
fn draw(lines: &mut Vec<String>, side: &str, bars: &[Bar]) {
    let mut first = 1;
    for alike in bars.chunk_by(|a, b| a == b) {
        let last = first + alike.len() - 1;
        let cards = if first == last { format!("GPU {first}") } else { format!("GPU {first} to {last}") };
        first = last + 1;
        let head = format!("  {side:<5}  {cards:<12} ");
        match &alike[0].pieces[..] {
            [all] => {
                let text = [all.label.clone(), holder(all)].join("  ");
                lines.push(format!("{head}{}|", cell(&text, LENGTH as usize)));
            }
            pieces => {
                let line = |text: &dyn Fn(&Piece) -> String| -> String {
                    pieces.iter().map(|piece| cell(&text(piece), room(&alike[0], piece))).collect()
                };
                lines.push(format!("{head}{}|", line(&|piece| piece.label.clone())));
                lines.push(format!("{}{}|", " ".repeat(head.len()), line(&holder)));
            }
        }
    }
}

/// Characters of a piece, its left edge included. Both ends are rounded alike, so that neighbours meet.
fn room(bar: &Bar, piece: &Piece) -> usize {
    let at = |unit: u32| u64::from(LENGTH) * u64::from(unit) / u64::from(bar.units.max(1));
    usize::try_from(at(piece.start.saturating_add(piece.size)) - at(piece.start)).unwrap_or(1)
}

/// `text` in so many characters, its left edge included.
fn cell(text: &str, room: usize) -> String {
    let room = room.saturating_sub(1);
    let text = if room < 3 { String::new() } else { cut(&plain(text), room) };
    format!("|{text:<room$}")
}

fn holder(piece: &Piece) -> String {
    match (&piece.workload, piece.kind) {
        (Some(workload), _) => workload.name.clone(),
        (None, PieceKind::Slice | PieceKind::Turn | PieceKind::Client) => "free".to_owned(),
        (None, _) => String::new(),
    }
}
