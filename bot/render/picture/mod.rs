//! Pictures of a plan as SVG: how the cards of a pool are cut before and after, and what a workload used day by day.
//!
//! Two steps each. A value says what is shown (`Packing`, `History`): it is small, bounded and can be kept. Its `svg`
//! draws it, for a page or as a file. Same value, same bytes; whole pixels and tenths of them, no floats. Nothing is told
//! by colour alone: every bar, line and pattern has its words.

mod svg;

mod packing;

mod bars;

mod history;

mod text;

#[cfg(test)]
mod tests;

pub use history::History;
pub(super) use text::diagram;

pub use packing::{Bar, NodeRow, Packing, Piece, PieceKind};

/// Where a picture is looked at. The drawing is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clothes<'a> {
    /// Inside a page: classes alone, which the page's style sheet knows, since the policy of the pages lets in no other
    /// style.
    Page {
        /// Starts every `id` of the picture; letters, digits and `-`, different for each picture of a page.
        id: &'a str,
        /// For which windows it is drawn.
        room: Room,
    },
    /// A file of its own, which brings its style and follows the reader's light or dark. For wide windows.
    File,
}

/// How much room a picture has. A picture is as large as it is drawn, since words that shrink cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// A window on a desk.
    Wide,
    /// A phone: what stands side by side elsewhere stands one below the other.
    Narrow,
}

impl Clothes<'_> {
    fn room(self) -> Room {
        match self {
            Self::Page { room, .. } => room,
            Self::File => Room::Wide,
        }
    }
}
