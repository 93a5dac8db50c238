//! The pen: shapes and words as SVG text, with every stranger's word escaped.

use std::fmt::Write as _;

use super::Clothes;
use crate::render::escape::{cut, plain};

/// Style of pictures, for the pages and for files.
pub(crate) const STYLE: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/templates/picture/picture.css"));

/// The colours, light and dark; those of the pages.
const COLOURS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/templates/dashboard/colours.css"));

/// Longest text in a picture, in characters: descriptions of whole nodes are the longest.
const LONGEST: usize = 4_000;

/// How heavy words are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    Plain,
    Bold,
}

impl Weight {
    /// Pixels that a character takes at most, on average, in the widest of the usual fonts (DejaVu Sans, 12 and 13 pixels
    /// high); wide scripts take twice as much. Were it doubled, names would be cut that have room; halved, they would run
    /// into their neighbours.
    fn character(self) -> u32 {
        match self {
            Self::Plain => 7,
            Self::Bold => 8,
        }
    }
}

/// Around a picture that is a file, in pixels.
const MARGIN: u32 = 12;

/// A rectangle, in pixels from the left upper corner.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) x: u32,
    pub(super) y: u32,
    pub(super) width: u32,
    pub(super) height: u32,
}

/// What fills an area beside its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// Diagonal lines: a slice that nobody holds, days without samples.
    Lines,
    /// Dots: a whole card that nobody holds.
    Dots,
}

impl Pattern {
    fn name(self) -> &'static str {
        match self {
            Self::Lines => "lines",
            Self::Dots => "dots",
        }
    }
}

/// Which part of a text stands at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// An SVG that is being drawn.
#[derive(Debug)]
pub(super) struct Pen {
    out: String,
    /// Starts every `id`.
    id: String,
    is_file: bool,
}

impl Pen {
    /// Begins a picture.
    pub(super) fn new(clothes: Clothes<'_>) -> Self {
        let id = match clothes {
            Clothes::Page { id, .. } => id,
            Clothes::File => "picture",
        };
        let id = id.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
        Self { out: String::new(), id, is_file: clothes == Clothes::File }
    }

    /// The whole picture, of this size in pixels. `title` names it, `description` tells what is to be seen to those who
    /// cannot.
    pub(super) fn done(self, (width, height): (u32, u32), title: &str, description: &str) -> String {
        let Self { out: shapes, id, is_file } = self;
        // A page has its own margin.
        let margin = if is_file { MARGIN } else { 0 };
        let (width, height) = (width + 2 * margin, height + 2 * margin);
        let left = if is_file { format!("-{MARGIN}") } else { "0".to_owned() };
        let style = if is_file {
            format!(
                "<style>\n{COLOURS}{STYLE}</style>\n\
                 <rect class=\"paper\" x=\"{left}\" y=\"{left}\" width=\"{width}\" height=\"{height}\"/>\n"
            )
        } else {
            String::new()
        };
        let (title, description) = (xml(title), xml(description));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"picture\" role=\"img\" \
             aria-labelledby=\"{id}-title\" aria-describedby=\"{id}-desc\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"{left} {left} {width} {height}\">\n\
             <title id=\"{id}-title\">{title}</title>\n<desc id=\"{id}-desc\">{description}</desc>\n{style}\
             <defs><pattern id=\"{id}-lines\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\">\
             <path class=\"mark\" d=\"M-2 2l4-4M0 8l8-8M6 10l4-4\"/></pattern>\
             <pattern id=\"{id}-dots\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\">\
             <circle class=\"dot\" cx=\"4\" cy=\"4\" r=\"1\"/></pattern></defs>\n{shapes}</svg>\n"
        )
    }

    /// Everything up to the matching [`Pen::end`] belongs together. `title` is told where one points at it; may be empty.
    pub(super) fn group(&mut self, class: &str, title: &str) {
        let _ = write!(self.out, "<g class=\"{class}\">");
        if !title.is_empty() {
            let _ = write!(self.out, "<title>{}</title>", xml(title));
        }
        self.out.push('\n');
    }

    pub(super) fn end(&mut self) {
        self.out.push_str("</g>\n");
    }

    pub(super) fn rect(&mut self, class: &str, area: Area) {
        let Area { x, y, width, height } = area;
        let _ = writeln!(
            self.out,
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>"
        );
    }

    /// Lays a pattern over an area.
    pub(super) fn pattern(&mut self, pattern: Pattern, area: Area) {
        let Area { x, y, width, height } = area;
        // An attribute, since addresses in a style sheet are looked for in the style sheet.
        let _ = writeln!(
            self.out,
            "<rect fill=\"url(#{}-{})\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>",
            self.id,
            pattern.name()
        );
    }

    /// A line along `path`, in the language of the attribute `d`.
    pub(super) fn path(&mut self, class: &str, path: &str) {
        let _ = writeln!(self.out, "<path class=\"{class}\" d=\"{path}\"/>");
    }

    /// A circle of `radius` pixels around a place in tenths of a pixel.
    pub(super) fn circle(&mut self, class: &str, at: (u32, u32), radius: u32) {
        let (x, y) = (tenths(at.0), tenths(at.1));
        let _ = writeln!(self.out, "<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"/>");
    }

    /// Words on the base line `y`.
    pub(super) fn text(&mut self, class: &str, anchor: Anchor, (x, y): (u32, u32), text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let _ =
            writeln!(self.out, "<text class=\"{class}\" x=\"{x}\" y=\"{y}\"{anchor}>{}</text>", xml(text));
    }
}

/// Pixels that `text` takes at most.
pub(super) fn width(text: &str, weight: Weight) -> u32 {
    u32::try_from(cells(text)).unwrap_or(u32::MAX).saturating_mul(weight.character())
}

/// As much of `text` as has room in `width` pixels, with `…` for the rest; empty where not even three characters have.
pub(super) fn fit(text: &str, width: u32, weight: Weight) -> String {
    let text = plain(text);
    let room = usize::try_from(width / weight.character()).unwrap_or(0);
    if cells(&text) <= room {
        return text;
    }
    let mut left = room.saturating_sub(1);
    let kept: String = text
        .chars()
        .take_while(|c| {
            let fits = left >= cell(*c);
            left = left.saturating_sub(cell(*c));
            fits
        })
        .collect();
    if kept.chars().count() < 3 { String::new() } else { format!("{}…", kept.trim_end()) }
}

/// How many characters of the Latin script take as much room.
fn cells(text: &str) -> usize {
    text.chars().map(cell).sum()
}

fn cell(c: char) -> usize {
    if c.is_ascii() || c == '…' { 1 } else { 2 }
}

/// `text`, plain, in lines of at most `width` pixels, broken between words.
pub(super) fn wrapped(text: &str, width: u32) -> Vec<String> {
    let room = usize::try_from(width / Weight::Plain.character()).unwrap_or(0);
    let mut lines: Vec<String> = Vec::new();
    for word in plain(text).split(' ') {
        match lines.last_mut() {
            Some(line) if cells(line) + 1 + cells(word) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Tenths of a pixel as pixels: `125` is `12.5`.
pub(super) fn tenths(n: u32) -> String {
    match (n / 10, n % 10) {
        (whole, 0) => whole.to_string(),
        (whole, tenth) => format!("{whole}.{tenth}"),
    }
}

/// A stranger's words as text of an XML document, and nothing else.
fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in cut(&plain(text), LONGEST).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // XML has no way to write these two.
            '\u{fffe}' | '\u{ffff}' => {}
            _ => out.push(c),
        }
    }
    out
}
