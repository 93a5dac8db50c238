//! The part of YAML that most manifests are written in, read line by line: block collections, scalars on one line, text
//! under `|`.
//!
//! It makes the very tree that the whole parser makes, in a fraction of the time, or none at all: whatever is not
//! understood at the first look (flow collections, anchors, tags, escapes, scalars over several lines, tabs) is left to
//! the parser, errors too.

use std::ops::Range;

use granit_parser::ScalarStyle;

use crate::tree::{Block, Chomp, Id, Kind, Root, Slot};

/// Deeper collections are left to the parser.
const MAX_DEPTH: usize = 64;

/// Longer keys are left to the parser, which has a limit for them.
const MAX_KEY: usize = 256;

/// What a text holds; spans are settled.
pub(crate) struct Plain {
    pub(crate) slots: Vec<Slot>,
    pub(crate) roots: Vec<Root>,
    pub(crate) comments: Vec<Range<usize>>,
}

/// Reads a text. `None`: the parser must.
pub(crate) fn read(text: &str) -> Option<Plain> {
    let mut reader = Reader {
        text,
        bytes: text.as_bytes(),
        slots: Vec::new(),
        roots: Vec::new(),
        comments: Vec::new(),
        open: Vec::new(),
        marker_end: None,
        has_root: false,
        at: 0,
        start: 0,
        line: 0,
    };
    while let Some(end) = reader.next_line()? {
        reader.line(end)?;
    }
    if reader.marker_end.is_some() || reader.roots.is_empty() {
        // A document without a root.
        return None;
    }
    reader.close_document()?;
    // Children come after their parents, so that theirs are settled first.
    for id in (0..reader.slots.len()).rev() {
        let last = match &reader.slots[id].kind {
            Kind::Sequence { items, .. } => items.last().copied(),
            Kind::Mapping { entries, .. } => entries.last().map(|&(_, value)| value),
            Kind::Scalar { .. } | Kind::Alias(_) => None,
        };
        if let Some(last) = last {
            reader.slots[id].end = reader.slots[last].end;
        }
    }
    Some(Plain { slots: reader.slots, roots: reader.roots, comments: reader.comments })
}

/// A collection whose end has not come yet.
struct Open {
    id: Id,
    column: usize,
    is_sequence: bool,
    /// The key of a mapping that waits for its value.
    waiting: Option<Id>,
}

struct Reader<'t> {
    text: &'t str,
    bytes: &'t [u8],
    slots: Vec<Slot>,
    roots: Vec<Root>,
    comments: Vec<Range<usize>>,
    open: Vec<Open>,
    /// After the `---` of the document whose root has not come yet.
    marker_end: Option<usize>,
    has_root: bool,
    /// Where the next line starts.
    at: usize,
    /// Where this line starts, and its number from 1.
    start: usize,
    line: usize,
}

impl Reader<'_> {
    /// Steps to the next line and gives the end of it, before its line break; `Some(None)` after the last one.
    fn next_line(&mut self) -> Option<Option<usize>> {
        if self.at >= self.bytes.len() {
            return Some(None);
        }
        let rest = &self.bytes[self.at..];
        let end = self.at + rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
        let line = &self.bytes[self.at..end];
        if line.iter().any(|&byte| byte < 0x20 || byte == 0x7f) || line.windows(2).any(|pair| pair == b"{{") {
            return None;
        }
        // Some characters are breaks, marks or nothing to a parser.
        let odd =
            |c: char| matches!(c, '\u{80}'..='\u{a0}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fff0}'..);
        if !line.is_ascii() && self.text.get(self.at..end)?.contains(odd) {
            return None;
        }
        self.start = self.at;
        self.at = end + 1;
        self.line += 1;
        Some(Some(end))
    }

    /// Takes the line up to `end`.
    fn line(&mut self, end: usize) -> Option<()> {
        let first = self.start + indent(&self.bytes[self.start..end]);
        let column = first - self.start;
        match &self.bytes[first..end] {
            [] => Some(()),
            [b'#', ..] => {
                self.comments.push(first..end);
                Some(())
            }
            b"---" if column == 0 => {
                if self.marker_end.is_some() {
                    return None;
                }
                self.close_document()?;
                self.marker_end = Some(end);
                Some(())
            }
            [b'-', b' ', ..] => self.item(first, end),
            _ => {
                let colon = self.key(first, end)?;
                if self.is_new(column, false)? {
                    self.open_mapping(first)?;
                }
                self.entry(first, colon, end)
            }
        }
    }

    /// An entry of a sequence, from its dash.
    fn item(&mut self, dash: usize, end: usize) -> Option<()> {
        if self.is_new(dash - self.start, true)? {
            self.open(Kind::Sequence { flow: false, items: Vec::new() }, dash, true)?;
        }
        let first = dash + 1 + indent(&self.bytes[dash + 1..end]);
        match &self.bytes[first..end] {
            // An entry on the next lines, or a sequence in the sequence.
            [] | [b'#' | b'-'] | [b'-', b' ', ..] => None,
            _ => match self.key(first, end) {
                Some(colon) => {
                    self.open_mapping(first)?;
                    self.entry(first, colon, end)
                }
                None => self.scalar(first, end),
            },
        }
    }

    /// The `:` after a plain key without blanks; `None`: there is none at `first`.
    fn key(&self, first: usize, end: usize) -> Option<usize> {
        let line = &self.bytes[first..end];
        let is_key = |&&byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/');
        let length = line.iter().take_while(is_key).count();
        let starts = line.first().is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        let ends = line.get(length) == Some(&b':') && matches!(line.get(length + 1), None | Some(b' '));
        (starts && ends && length <= MAX_KEY).then_some(first + length)
    }

    /// Whether what starts at `column` opens a collection; else it goes on with the one on top. `None`: it is neither.
    fn is_new(&mut self, column: usize, is_item: bool) -> Option<bool> {
        while let Some(top) = self.open.last()
            && (top.column > column || (top.column == column && top.is_sequence && !is_item))
        {
            self.close()?;
        }
        let Some(top) = self.open.last() else { return (!self.has_root).then_some(true) };
        let (is_same, waits) = (top.column == column, top.waiting.is_some());
        match (top.is_sequence, is_item) {
            (true, true) => is_same.then_some(false),
            (true, false) => None,
            // The entries of a sequence may stand right under its key.
            (false, true) => waits.then_some(true),
            (false, false) => (is_same != waits).then_some(!is_same),
        }
    }

    fn open_mapping(&mut self, first: usize) -> Option<()> {
        self.open(Kind::Mapping { flow: false, braces: false, entries: Vec::new() }, first, false)
    }

    fn open(&mut self, kind: Kind, first: usize, is_sequence: bool) -> Option<()> {
        let id = self.value(kind, first..first)?;
        self.open.push(Open { id, column: first - self.start, is_sequence, waiting: None });
        (self.open.len() <= MAX_DEPTH).then_some(())
    }

    /// Closes the collection on top. `None`: a value is missing.
    fn close(&mut self) -> Option<()> {
        let top = self.open.pop()?;
        top.waiting.is_none().then_some(())
    }

    fn close_document(&mut self) -> Option<()> {
        while !self.open.is_empty() {
            self.close()?;
        }
        self.has_root = false;
        Some(())
    }

    /// A key at `first` and what follows its colon on the line.
    fn entry(&mut self, first: usize, colon: usize, end: usize) -> Option<()> {
        let key = self.add(plain(self.text.get(first..colon)?), first..colon);
        self.open.last_mut()?.waiting = Some(key);
        let value = colon + 1 + indent(&self.bytes[colon + 1..end]);
        match self.bytes[value..end].first() {
            None => Some(()),
            Some(b'#') => {
                self.comments.push(value..end);
                Some(())
            }
            Some(_) => self.scalar(value, end),
        }
    }

    /// A scalar at `first`, an empty flow collection, or text on the next lines.
    fn scalar(&mut self, first: usize, end: usize) -> Option<()> {
        let rest = &self.bytes[first..end];
        let (kind, length) = match rest {
            [quote @ (b'"' | b'\''), inner @ ..] => {
                let length = inner.iter().position(|byte| byte == quote)?;
                let style =
                    if *quote == b'"' { ScalarStyle::DoubleQuoted } else { ScalarStyle::SingleQuoted };
                // Escapes are the parser's.
                if inner.get(length + 1) == Some(quote) || inner[..length].contains(&b'\\') {
                    return None;
                }
                let text = self.text.get(first + 1..first + 1 + length)?.to_owned();
                (Kind::Scalar { text, style, block: None }, length + 2)
            }
            [b'{', b'}', ..] => (Kind::Mapping { flow: true, braces: true, entries: Vec::new() }, 2),
            [b'[', b']', ..] => (Kind::Sequence { flow: true, items: Vec::new() }, 2),
            b"|" => return self.literal(first..end, Chomp::Clip),
            b"|-" => return self.literal(first..end, Chomp::Strip),
            _ => {
                let length = plain_length(rest)?;
                (plain(self.text.get(first..first + length)?), length)
            }
        };
        self.value(kind, first..first + length)?;
        let after = &rest[length..];
        let blanks = indent(after);
        match after.get(blanks) {
            None => Some(()),
            Some(b'#') if blanks > 0 => {
                self.comments.push(first + length + blanks..end);
                Some(())
            }
            Some(_) => None,
        }
    }

    /// The text on the lines after a header, `|` or `|-`.
    fn literal(&mut self, header: Range<usize>, chomp: Chomp) -> Option<()> {
        let floor = self.open.last()?.column;
        let id = self.value(plain(""), header.clone())?;
        let first = self.at;
        let mut text = String::new();
        let (mut edge, mut last, mut n_blank) = (None, first, 0);
        loop {
            let before = (self.at, self.start, self.line);
            let Some(end) = self.next_line()? else { break };
            let column = indent(&self.bytes[self.start..end]);
            let edge = *edge.get_or_insert(column);
            if self.start + column == end {
                if text.is_empty() || column > edge {
                    return None;
                }
                n_blank += 1;
                continue;
            }
            if column < edge {
                (self.at, self.start, self.line) = before;
                break;
            }
            if text.is_empty() {
                // Where the parser sees the scalar.
                (self.slots[id].line, self.slots[id].column) = (self.line, edge);
            }
            text.extend(std::iter::repeat_n('\n', std::mem::take(&mut n_blank)));
            text.push_str(self.text.get(self.start + edge..end)?);
            text.push('\n');
            last = end;
        }
        // Without a line break at the end of the text, the last line has none either.
        if text.is_empty() || edge? <= floor || last == self.bytes.len() {
            return None;
        }
        if chomp == Chomp::Strip {
            text.pop();
        }
        let block = Block { header, content: Some(first..last), indent: edge, chomp, digit: None };
        self.slots[id].kind =
            Kind::Scalar { text, style: ScalarStyle::Literal, block: Some(Box::new(block)) };
        self.slots[id].end = last;
        Some(())
    }

    /// Adds a value to the collection on top, or as the root of the document.
    fn value(&mut self, kind: Kind, span: Range<usize>) -> Option<Id> {
        let id = self.slots.len();
        match self.open.last_mut() {
            None if self.has_root => return None,
            None => {
                self.has_root = true;
                self.roots.push(Root { node: id, marker_end: self.marker_end.take() });
            }
            Some(top) => match &mut self.slots[top.id].kind {
                Kind::Sequence { items, .. } => items.push(id),
                Kind::Mapping { entries, .. } => entries.push((top.waiting.take()?, id)),
                Kind::Scalar { .. } | Kind::Alias(_) => return None,
            },
        }
        Some(self.add(kind, span))
    }

    fn add(&mut self, kind: Kind, span: Range<usize>) -> Id {
        let id = self.slots.len();
        self.slots.push(Slot {
            kind,
            start: span.start,
            end: span.end,
            props: None,
            line: self.line,
            column: span.start - self.start,
            anchor: None,
            tag: None,
            parent: self.open.last().map(|open| open.id),
        });
        id
    }
}

fn indent(line: &[u8]) -> usize {
    line.iter().take_while(|&&byte| byte == b' ').count()
}

fn plain(text: &str) -> Kind {
    Kind::Scalar { text: text.to_owned(), style: ScalarStyle::Plain, block: None }
}

/// The length of the plain scalar that a line starts with. `None`: it is no plain one, or an odd one.
fn plain_length(line: &[u8]) -> Option<usize> {
    let starts = match line {
        [b'-', next, ..] => next.is_ascii_alphanumeric() || *next == b'-',
        [first, ..] => {
            first.is_ascii_alphanumeric() || matches!(first, b'.' | b'/' | b'_' | b'$' | b'(' | b'+')
        }
        [] => false,
    };
    let comment = line.windows(2).position(|pair| pair == b" #").unwrap_or(line.len());
    let length = line[..comment].trim_ascii_end().len();
    let own = &line[..length];
    let maps = own.last() == Some(&b':') || own.windows(2).any(|pair| pair == b": ");
    (starts && !maps).then_some(length)
}
