//! Edits of YAML that is the text of a literal block scalar, such as a ConfigMap's `config.yaml: |`.

use granit_parser::ScalarStyle;

use crate::edit::{planned, proven};
use crate::plan::Change;
use crate::request::Shown;
use crate::splice::{Splice, break_at, line_end};
use crate::tree::{Block, Chomp, Id, Kind, Stream};
use crate::{Document, Edit, Refusal, RefusalKind, Step, path};

/// Applies `edits` to the YAML text inside the literal block scalar at `at`, all or none. Their documents count
/// within that text; indentation, chomping and line endings of the scalar stay.
///
/// # Errors
/// A [`Refusal`] with lines and columns of the whole text; of kind [`RefusalKind::NotAMapping`] where no literal
/// block scalar (`|`) stands at `at`.
pub fn edit_embedded(
    text: &str,
    document: &Document,
    at: &[Step],
    edits: &[Edit],
) -> Result<String, Refusal> {
    let mut outer = Stream::parse(text.to_owned())?;
    let mut inner: Option<Stream> = None;
    for edit in edits {
        let root = path::select(&outer, document)?;
        let walk = path::walk_whole(&outer, root, at)?;
        let node = walk.deepest();
        path::refuse_shared(&outer, walk.chain.iter().copied(), edit.shared)?;
        let (block, lines) = literal_lines(&outer, node, at)?;
        let located = |refusal: Refusal| lines.located(&outer, refusal);
        let inner_text = lines.inner(&outer.text);
        let before = match inner.take() {
            Some(inner) if inner.text == inner_text => inner,
            _ => Stream::parse(inner_text).map_err(located)?,
        };
        let (after, splices) = planned(&before, edit).map_err(located)?;
        let splices: Vec<Splice> = splices.iter().map(|splice| lines.outward(splice, &before.text)).collect();
        let change = Change::BlockText { node, text: chomped(&after.text, block.chomp) };
        outer = proven(&outer, &splices, &change)?;
        inner = Some(after);
    }
    if edits.is_empty() {
        let root = path::select(&outer, document)?;
        let walk = path::walk_whole(&outer, root, at)?;
        literal_lines(&outer, walk.deepest(), at)?;
    }
    Ok(outer.text)
}

/// One line of a block scalar's content.
struct Line {
    /// First byte in the inner and in the outer text.
    inner: usize,
    outer: usize,
    /// Indentation that the inner text leaves out; a blank line may have less than the others.
    indent: usize,
    /// Bytes after the indentation, with the line break.
    len: usize,
}

struct Lines {
    lines: Vec<Line>,
    /// Where a line after the last one would start, in both texts.
    inner_end: usize,
    outer_end: usize,
    /// The last line has no line break, so that the ends are on it and not below.
    is_open: bool,
    indent: usize,
}

/// A place of the inner text in the outer one.
struct Mapped {
    /// For the start of a line, before its indentation.
    outer: usize,
    starts_line: bool,
    /// What the line has of indentation.
    indent: usize,
}

fn literal_lines<'s>(outer: &'s Stream, node: Id, at: &[Step]) -> Result<(&'s Block, Lines), Refusal> {
    let slot = outer.slot(node);
    let refuse = |why: &str| {
        let message = format!("`{}` {why}", Shown(at));
        Err(Refusal::on(RefusalKind::NotAMapping, outer, Some(node), message))
    };
    let (content, block, indent) = match &slot.kind {
        Kind::Alias(_) => {
            let message = format!("`{}` is an alias; its text is written elsewhere", Shown(at));
            return Err(Refusal::on(RefusalKind::PathThroughAlias, outer, Some(node), message));
        }
        Kind::Scalar { block: Some(block), style: ScalarStyle::Literal, .. } => {
            match (&block.content, block.indent) {
                (Some(content), Some(indent)) => (content, block, indent),
                _ => return refuse("is a block scalar without text"),
            }
        }
        Kind::Scalar { .. } | Kind::Sequence { .. } | Kind::Mapping { .. } => {
            return refuse("is not a literal block scalar (`|`), the only kind whose text is edited");
        }
    };
    let text = &outer.text;
    let parent = slot.parent.map_or(0, |parent| outer.slot(parent).column);
    let indent = block.digit.map_or(indent, |digit| parent + digit);
    let (mut lines, mut start, mut inner, mut is_open) = (Vec::new(), content.start, 0, false);
    while start <= content.end {
        let end = line_end(text, start);
        let brk = break_at(text, end).len();
        let shown = text.get(start..end).unwrap_or_default();
        let own = (shown.len() - shown.trim_start_matches(' ').len()).min(indent);
        let len = end + brk - start - own;
        lines.push(Line { inner, outer: start, indent: own, len });
        inner += len;
        start = end + brk;
        is_open = brk == 0;
        if is_open {
            break;
        }
    }
    Ok((block, Lines { lines, inner_end: inner, outer_end: start, is_open, indent }))
}

impl Lines {
    fn inner(&self, outer: &str) -> String {
        let shown = |line: &Line| outer.get(line.outer + line.indent..line.outer + line.indent + line.len);
        self.lines.iter().filter_map(shown).collect()
    }

    fn map(&self, inner: usize) -> Mapped {
        let line = self
            .lines
            .partition_point(|line| line.inner <= inner)
            .checked_sub(1)
            .and_then(|at| self.lines.get(at));
        match line {
            Some(line) if line.inner == inner && inner < self.inner_end => {
                Mapped { outer: line.outer, starts_line: true, indent: line.indent }
            }
            Some(line) if inner < self.inner_end || self.is_open => {
                Mapped { outer: line.outer + line.indent + inner - line.inner, starts_line: false, indent: 0 }
            }
            _ => Mapped { outer: self.outer_end, starts_line: true, indent: 0 },
        }
    }

    /// A splice of the inner text as one of the outer text, with indentation where lines start.
    fn outward(&self, splice: &Splice, inner: &str) -> Splice {
        let (start, end) = (self.map(splice.range.start), self.map(splice.range.end));
        let indent = " ".repeat(self.indent);
        let mut text = String::with_capacity(splice.text.len());
        let mut starts_line = start.starts_line;
        for c in splice.text.chars() {
            let is_break = matches!(c, '\n' | '\r');
            if starts_line && !is_break {
                text.push_str(&indent);
            }
            text.push(c);
            starts_line = is_break;
        }
        let rest = inner.get(splice.range.end..).unwrap_or_default();
        if starts_line && !end.starts_line && !rest.starts_with(['\n', '\r']) {
            text.push_str(&indent);
        }
        // Text that another line continues takes the place of that line's indentation.
        let joins = end.starts_line && !starts_line;
        let outer_end = if joins { end.outer + end.indent } else { end.outer };
        Splice { range: start.outer..outer_end, text }
    }

    fn located(&self, outer: &Stream, refusal: Refusal) -> Refusal {
        let first = self.lines.first().map_or(0, |line| line.outer);
        let lines_above = Refusal::at(refusal.kind, &outer.text, first, "").line - 1;
        Refusal { line: refusal.line + lines_above, column: refusal.column + self.indent, ..refusal }
    }
}

/// What a reader gets from the lines of a literal block scalar.
fn chomped(lines: &str, chomp: Chomp) -> String {
    let text = lines.replace("\r\n", "\n").replace('\r', "\n");
    let body = text.trim_end_matches('\n');
    match chomp {
        Chomp::Strip => body.to_owned(),
        Chomp::Clip if body.is_empty() => String::new(),
        Chomp::Clip if text.ends_with('\n') => format!("{body}\n"),
        Chomp::Clip | Chomp::Keep => text,
    }
}
