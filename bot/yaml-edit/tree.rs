//! The parsed text: a tree of nodes that know their bytes.
//!
//! `granit-parser` gives events with spans; this module turns them into spans that an editor can use.
//! Where the two differ (granit-parser 2.2): the span of a block scalar leaves out its header and takes in blank
//! lines after it, block collections end at the next token, a sequence that is not indented under its key starts
//! after its first dash, and a missing value may stand before the `:`.

use std::ops::Range;

use granit_parser::{Event, Marker, Parser, ScalarStyle, Span, StructureStyle};

use crate::plain::Plain;
use crate::splice::{break_at, line_end, line_start};
use crate::{Refusal, RefusalKind, Value};

/// The largest text that is read. Larger ones are refused as not-yaml: manifests are far smaller (etcd takes
/// 1.5 MiB an object), and twice as much would double the memory that a hostile repository can make us use.
pub const MAX_BYTES: usize = 16 * 1024 * 1024;

/// The most nodes (scalars, collections and aliases) that a text may hold; 20,000 manifests have about 700,000.
/// A node takes some 200 bytes, so that doubling this costs up to 200 MB more for a hostile text.
pub const MAX_NODES: usize = 1_000_000;

/// A node's position in its [`Stream`]; a parent's is smaller than its children's.
pub(crate) type Id = usize;

/// A parsed text: every document in order. Aliases are never expanded.
#[derive(Debug)]
pub struct Stream {
    pub(crate) text: String,
    pub(crate) roots: Vec<Root>,
    /// In the order of the text.
    pub(crate) anchors: Vec<Anchor>,
    slots: Vec<Slot>,
    /// In the order of the text.
    comments: Vec<Range<usize>>,
}

#[derive(Debug)]
pub(crate) struct Root {
    pub(crate) node: Id,
    /// After `---`, where the document starts with it.
    pub(crate) marker_end: Option<usize>,
}

#[derive(Debug)]
pub(crate) struct Anchor {
    pub(crate) name: String,
    pub(crate) node: Id,
    /// How many aliases refer to it.
    pub(crate) uses: usize,
}

#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) kind: Kind,
    /// Bytes of the value without anchor and tag. A block scalar's run from its header to the end of its last line
    /// of content, a block collection's from its first key or dash to the end of its last value.
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Bytes of anchor and tag.
    pub(crate) props: Option<Range<usize>>,
    /// From 1.
    pub(crate) line: usize,
    /// From 0, in characters; of a block sequence, that of its dashes.
    pub(crate) column: usize,
    /// Position in [`Stream::anchors`].
    pub(crate) anchor: Option<usize>,
    /// Resolved, such as `tag:yaml.org,2002:int`.
    pub(crate) tag: Option<Box<str>>,
    pub(crate) parent: Option<Id>,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Scalar {
        /// As a reader sees it; empty for a missing value.
        text: String,
        style: ScalarStyle,
        block: Option<Box<Block>>,
    },
    /// Holds the position in [`Stream::anchors`].
    Alias(usize),
    Sequence {
        flow: bool,
        items: Vec<Id>,
    },
    Mapping {
        flow: bool,
        /// False for a block mapping and for `[a: b]`.
        braces: bool,
        entries: Vec<(Id, Id)>,
    },
}

/// The parts of a block scalar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Block {
    /// `|`, `>-` and so on, without a comment.
    pub(crate) header: Range<usize>,
    /// From the start of the first line of content to the end of the last one, before its line break. Blank lines
    /// at the end belong to it only where chomping keeps them.
    pub(crate) content: Option<Range<usize>>,
    /// Column of the content, where the text shows one.
    pub(crate) indent: Option<usize>,
    pub(crate) chomp: Chomp,
    /// Whether the header names its indentation.
    pub(crate) digit: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chomp {
    Strip,
    Clip,
    Keep,
}

impl Slot {
    pub(crate) fn is_missing(&self) -> bool {
        matches!(&self.kind, Kind::Scalar { style: ScalarStyle::Plain, .. }) && self.start == self.end
    }

    /// A plain scalar that YAML 1.1 and 1.2 read as null, or a missing value.
    pub(crate) fn is_null(&self) -> bool {
        match &self.kind {
            Kind::Scalar { text, style: ScalarStyle::Plain, .. } => {
                matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL")
                    && self.tag.as_deref().is_none_or(|tag| tag == "tag:yaml.org,2002:null")
            }
            _ => false,
        }
    }

    /// Start of the node with its anchor and tag.
    pub(crate) fn full_start(&self) -> usize {
        self.props.as_ref().map_or(self.start, |props| props.start.min(self.start))
    }

    pub(crate) fn is_block_collection(&self) -> bool {
        matches!(self.kind, Kind::Sequence { flow: false, .. } | Kind::Mapping { flow: false, .. })
    }

    pub(crate) fn is_flow_collection(&self) -> bool {
        matches!(self.kind, Kind::Sequence { flow: true, .. } | Kind::Mapping { flow: true, .. })
    }
}

impl Stream {
    /// Parses a whole text.
    pub(crate) fn parse(text: String) -> Result<Self, Refusal> {
        if text.len() > MAX_BYTES {
            let message =
                format!("the text has {} bytes, more than the {MAX_BYTES} that are read", text.len());
            return Err(Refusal::new(RefusalKind::NotYaml, 1, 1, message));
        }
        match crate::plain::read(&text) {
            Some(Plain { slots, roots, comments }) => {
                Ok(Self { text, roots, anchors: Vec::new(), slots, comments })
            }
            None => Self::parse_all(text),
        }
    }

    /// The same by the whole parser.
    pub(crate) fn parse_all(text: String) -> Result<Self, Refusal> {
        let mut builder = Builder::new(&text);
        match builder.run() {
            Ok(()) => {}
            Err(refusal) => return Err(template_at(&text, &[]).unwrap_or(refusal)),
        }
        let Builder { slots, roots, anchors, mut comments, .. } = builder;
        comments.sort_by_key(|comment| comment.start);
        let mut stream = Self { text, roots, anchors, slots, comments };
        stream.settle_block_scalars();
        stream.settle_collections();
        if stream.text.contains("{{")
            && let Some(refusal) = template_at(&stream.text, &stream.opaque())
        {
            return Err(refusal);
        }
        Ok(stream)
    }

    /// How many scalars, collections and aliases there are.
    #[must_use]
    pub fn n_nodes(&self) -> usize {
        self.slots.len()
    }

    /// A value without a text.
    pub(crate) fn of(value: &Value) -> Self {
        let mut slots = Vec::new();
        let node = slots_of(value, None, &mut slots);
        let roots = vec![Root { node, marker_end: None }];
        Self { text: String::new(), roots, anchors: Vec::new(), slots, comments: Vec::new() }
    }

    /// The text that was read.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn slot(&self, id: Id) -> &Slot {
        &self.slots[id]
    }

    /// Whether aliases refer to the node.
    pub(crate) fn is_shared(&self, id: Id) -> bool {
        self.slots[id].anchor.is_some_and(|anchor| self.anchors[anchor].uses > 0)
    }

    /// The text of a key, through an alias where it is one.
    pub(crate) fn key_text(&self, key: Id) -> Option<&str> {
        match &self.slots[key].kind {
            Kind::Scalar { text, .. } => Some(text),
            Kind::Alias(anchor) => match &self.slots[self.anchors[*anchor].node].kind {
                Kind::Scalar { text, .. } => Some(text),
                _ => None,
            },
            _ => None,
        }
    }

    /// Every node below `id` and itself, in the order of the text.
    pub(crate) fn subtree(&self, id: Id) -> impl Iterator<Item = Id> + '_ {
        let mut stack = vec![id];
        std::iter::from_fn(move || {
            let id = stack.pop()?;
            match &self.slots[id].kind {
                Kind::Sequence { items, .. } => stack.extend(items.iter().rev()),
                Kind::Mapping { entries, .. } => {
                    stack.extend(entries.iter().rev().flat_map(|&(key, value)| [value, key]));
                }
                Kind::Scalar { .. } | Kind::Alias(_) => {}
            }
            Some(id)
        })
    }

    /// End of what stands before `at`, stepping back over blanks, line breaks and comments.
    pub(crate) fn significant_before(&self, mut at: usize) -> usize {
        loop {
            let below = self.comments.partition_point(|comment| comment.start < at);
            if let Some(comment) = below.checked_sub(1).and_then(|last| self.comments.get(last))
                && at <= comment.end
            {
                at = comment.start;
                continue;
            }
            let before = self.text.get(..at).unwrap_or_default();
            let trimmed = before.trim_end_matches([' ', '\t', '\n', '\r', '\u{feff}']).len();
            if trimmed == at {
                return at;
            }
            at = trimmed;
        }
    }

    /// Start of what stands at or after `at`, stepping over blanks, line breaks and comments.
    pub(crate) fn significant_after(&self, mut at: usize) -> usize {
        loop {
            let rest = self.text.get(at..).unwrap_or_default();
            at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
            match self.comment_at(at) {
                Some(comment) if comment.end > at => at = comment.end,
                _ => return at,
            }
        }
    }

    /// The comments in the order of the text.
    pub(crate) fn comments(&self) -> impl Iterator<Item = &str> {
        self.comments.iter().filter_map(|comment| self.text.get(comment.clone()))
    }

    /// The comment that starts at `at`.
    pub(crate) fn comment_at(&self, at: usize) -> Option<&Range<usize>> {
        let found = self.comments.binary_search_by_key(&at, |comment| comment.start).ok()?;
        self.comments.get(found)
    }

    pub(crate) fn byte_before(&self, at: usize) -> Option<u8> {
        at.checked_sub(1).and_then(|at| self.text.as_bytes().get(at)).copied()
    }

    /// The `:` between a key and its value, where there is one.
    pub(crate) fn colon(&self, key: Id) -> Option<usize> {
        let slot = &self.slots[key];
        let end = slot.props.as_ref().map_or(slot.end, |props| slot.end.max(props.end));
        let at = self.significant_after(end);
        (self.text.as_bytes().get(at) == Some(&b':')).then_some(at)
    }

    fn settle_block_scalars(&mut self) {
        for id in 0..self.slots.len() {
            let Slot { kind: Kind::Scalar { text, style, .. }, start, end, .. } = &self.slots[id] else {
                continue;
            };
            if !matches!(style, ScalarStyle::Literal | ScalarStyle::Folded) {
                continue;
            }
            let block = self.block_parts(*start, *end, text.is_empty());
            let slot = &mut self.slots[id];
            slot.start = block.header.start;
            slot.end = block.content.as_ref().map_or(block.header.end, |content| content.end);
            if let Kind::Scalar { block: place, .. } = &mut slot.kind {
                *place = Some(Box::new(block));
            }
        }
    }

    /// Finds header and content from the span that the parser gave.
    fn block_parts(&self, start: usize, end: usize, is_empty: bool) -> Block {
        let bytes = self.text.as_bytes();
        let is_mark = |byte: Option<u8>| matches!(byte, Some(b'|' | b'>'));
        let is_indicator = |byte: Option<u8>| matches!(byte, Some(b'+' | b'-' | b'0'..=b'9'));
        let (header_start, header_end) = if is_empty && start < end && is_mark(bytes.get(start).copied()) {
            let mut at = start + 1;
            while is_indicator(bytes.get(at).copied()) {
                at += 1;
            }
            (start, at)
        } else {
            let header_end = self.significant_before(start);
            let mut at = header_end;
            while is_indicator(self.byte_before(at)) {
                at -= 1;
            }
            (if is_mark(self.byte_before(at)) { at - 1 } else { at }, header_end)
        };
        let header = self.text.get(header_start..header_end).unwrap_or_default();
        let chomp = match header {
            _ if header.contains('-') => Chomp::Strip,
            _ if header.contains('+') => Chomp::Keep,
            _ => Chomp::Clip,
        };
        let digit = header.bytes().find(u8::is_ascii_digit).map(|digit| usize::from(digit - b'0'));
        let indent =
            (!is_empty && start > header_end && start < end).then(|| start - line_start(&self.text, start));
        let content = self.block_content(header_end, end, indent, chomp);
        Block { header: header_start..header_end, content, indent, chomp, digit }
    }

    fn block_content(
        &self,
        header_end: usize,
        end: usize,
        indent: Option<usize>,
        chomp: Chomp,
    ) -> Option<Range<usize>> {
        let header_line_end = line_end(&self.text, header_end);
        let first = header_line_end + break_at(&self.text, header_line_end).len();
        let mut content = None;
        let mut at = first;
        while at < end {
            let line = at..line_end(&self.text, at);
            let shown = self.text.get(line.clone()).unwrap_or_default();
            let is_blank = shown.trim_matches([' ', '\t']).is_empty();
            if is_blank && line.end > end {
                break;
            }
            let is_content =
                chomp == Chomp::Keep || !is_blank || indent.is_some_and(|indent| shown.len() > indent);
            if is_content && line.start < end {
                // A line that the span enters only by its blanks is the next token's.
                let entered = self.text.get(line.start..end.min(line.end)).unwrap_or_default();
                if !is_blank && entered.trim_matches([' ', '\t']).is_empty() {
                    break;
                }
                content = Some(first..line.end);
            }
            let step = break_at(&self.text, line.end).len();
            if step == 0 {
                break;
            }
            at = line.end + step;
        }
        content
    }

    /// Gives collections their ends, sequences their dashes and missing values their places, children first.
    fn settle_collections(&mut self) {
        for id in (0..self.slots.len()).rev() {
            let (children, is_flow, has_end): (Vec<(Option<Id>, Id)>, bool, bool) = match &self.slots[id].kind
            {
                Kind::Sequence { flow, items } => {
                    (items.iter().map(|&item| (None, item)).collect(), *flow, *flow)
                }
                Kind::Mapping { flow, braces, entries } => {
                    (entries.iter().map(|&(key, value)| (Some(key), value)).collect(), *flow, *braces)
                }
                Kind::Scalar { .. } | Kind::Alias(_) => continue,
            };
            for &(key, value) in &children {
                if self.slots[value].is_missing() {
                    let place = match (&self.slots[value].props, key) {
                        (Some(props), _) => props.end,
                        (None, Some(key)) => self.colon(key).map_or(self.slots[key].end, |colon| colon + 1),
                        (None, None) if is_flow => self.slots[value].start,
                        (None, None) => self.significant_before(self.slots[value].start),
                    };
                    self.slots[value].start = place;
                    self.slots[value].end = place;
                }
            }
            if !has_end && let Some(&(_, last)) = children.last() {
                self.slots[id].end = self.slots[last].end.max(self.slots[id].start);
            }
            if !is_flow && matches!(self.slots[id].kind, Kind::Sequence { .. }) {
                self.settle_dash(id);
            }
        }
    }

    /// Moves a sequence that is not indented under its key back to its first dash.
    fn settle_dash(&mut self, id: Id) {
        let slot = &self.slots[id];
        let under_mapping = slot
            .parent
            .is_some_and(|parent| matches!(self.slots[parent].kind, Kind::Mapping { flow: false, .. }));
        let before = self.significant_before(slot.start);
        let after_props = slot.props.as_ref().is_none_or(|props| before > props.end);
        if under_mapping && after_props && self.byte_before(before) == Some(b'-') {
            let dash = before - 1;
            let column = self.text.get(line_start(&self.text, dash)..dash).unwrap_or_default();
            let column = column.chars().filter(|&c| c != '\u{feff}').count();
            let crossed = self.text.get(dash..slot.start).unwrap_or_default().matches('\n').count();
            let slot = &mut self.slots[id];
            slot.start = dash;
            slot.column = column;
            slot.line = slot.line.saturating_sub(crossed);
        }
    }

    /// Where `{{` is text: quoted scalars, block scalars, comments.
    fn opaque(&self) -> Vec<Range<usize>> {
        let mut ranges = self.comments.clone();
        ranges.extend(self.slots.iter().filter_map(|slot| match &slot.kind {
            Kind::Scalar { style, .. } if *style != ScalarStyle::Plain => Some(slot.start..slot.end),
            _ => None,
        }));
        ranges.sort_by_key(|range| range.start);
        ranges
    }
}

/// Adds the slots of a value, parents first.
fn slots_of(value: &Value, parent: Option<Id>, slots: &mut Vec<Slot>) -> Id {
    let id = slots.len();
    let scalar = |text: String, style| Kind::Scalar { text, style, block: None };
    let kind = match value {
        Value::Null => scalar(String::new(), ScalarStyle::Plain),
        Value::Bool(truth) => scalar(truth.to_string(), ScalarStyle::Plain),
        Value::Integer(number) => scalar(number.to_string(), ScalarStyle::Plain),
        Value::Float(number) => scalar(number.to_string(), ScalarStyle::Plain),
        Value::String(text) => scalar(text.clone(), ScalarStyle::DoubleQuoted),
        Value::Sequence(_) => Kind::Sequence { flow: false, items: Vec::new() },
        Value::Mapping(_) => Kind::Mapping { flow: false, braces: false, entries: Vec::new() },
    };
    slots.push(Slot {
        kind,
        start: 0,
        end: 0,
        props: None,
        line: 1,
        column: 0,
        anchor: None,
        tag: None,
        parent,
    });
    match value {
        Value::Sequence(inner) => {
            let found: Vec<Id> = inner.iter().map(|item| slots_of(item, Some(id), slots)).collect();
            if let Kind::Sequence { items, .. } = &mut slots[id].kind {
                *items = found;
            }
        }
        Value::Mapping(inner) => {
            let key = |key: &String| Value::String(key.clone());
            let found: Vec<(Id, Id)> = (inner.iter())
                .map(|(name, item)| (slots_of(&key(name), Some(id), slots), slots_of(item, Some(id), slots)))
                .collect();
            if let Kind::Mapping { entries, .. } = &mut slots[id].kind {
                *entries = found;
            }
        }
        Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Float(_) | Value::String(_) => {}
    }
    id
}

/// The first `{{` outside `opaque`, as a refusal.
fn template_at(text: &str, opaque: &[Range<usize>]) -> Option<Refusal> {
    let mut ranges = opaque.iter().peekable();
    let mut from = 0;
    while let Some(found) = text.get(from..)?.find("{{") {
        let at = from + found;
        while ranges.next_if(|range| range.end <= at).is_some() {}
        match ranges.peek() {
            Some(range) if range.start <= at => from = range.end.max(at + 1),
            _ => {
                let message = "`{{` makes this a template, whose text is not what is deployed";
                return Some(Refusal::at(RefusalKind::Template, text, at, message));
            }
        }
    }
    None
}

/// Builds slots from events; spans stay as the parser gives them.
struct Builder<'t> {
    source: &'t str,
    slots: Vec<Slot>,
    roots: Vec<Root>,
    anchors: Vec<Anchor>,
    comments: Vec<Range<usize>>,
    /// Anchor numbers of the parser, ascending, and positions in `anchors`.
    numbers: Vec<(usize, usize)>,
    /// Open collections, each with the key that waits for its value.
    open: Vec<(Id, Option<Id>)>,
    marker_end: Option<usize>,
}

impl<'t> Builder<'t> {
    fn new(source: &'t str) -> Self {
        Self {
            source,
            slots: Vec::new(),
            roots: Vec::new(),
            anchors: Vec::new(),
            comments: Vec::new(),
            numbers: Vec::new(),
            open: Vec::new(),
            marker_end: None,
        }
    }

    fn run(&mut self) -> Result<(), Refusal> {
        let options = granit_parser::options! {
            emit_anchor_events: true,
            // As libyaml and Go's reader, and so Kubernetes, see a last line without a line break.
            block_scalar_eof_without_line_feed: true,
            max_buffered_comment_events: self.source.len(),
        };
        for event in Parser::new_from_str_with_options(self.source, options) {
            let (event, span) = event.map_err(|error| {
                let mark = error.marker();
                Refusal::new(RefusalKind::NotYaml, mark.line().max(1), mark.col() + 1, error.info())
            })?;
            self.take(event, &span)?;
            if self.slots.len() > MAX_NODES {
                let message = format!("the text holds more than the {MAX_NODES} nodes that are read");
                return Err(Refusal::new(
                    RefusalKind::NotYaml,
                    span.start.line(),
                    span.start.col() + 1,
                    message,
                ));
            }
        }
        Ok(())
    }

    fn take(&mut self, event: Event<'_>, span: &Span) -> Result<(), Refusal> {
        let range = byte(&span.start)?..byte(&span.end)?;
        match event {
            Event::DocumentStart(is_explicit, _) => self.marker_end = is_explicit.then_some(range.end),
            Event::Comment(..) => self.comments.push(range),
            Event::Anchor(number, name) => {
                // The event follows its node directly.
                if let Some(node) = self.slots.len().checked_sub(1) {
                    self.numbers.push((number, self.anchors.len()));
                    let slot = &mut self.slots[node];
                    slot.anchor = Some(self.anchors.len());
                    slot.props = Some(joined(slot.props.take(), range));
                    self.anchors.push(Anchor { name: name.into_owned(), node, uses: 0 });
                }
            }
            Event::Alias(number) => {
                let known = self.numbers.binary_search_by_key(&number, |&(number, _)| number);
                let Some(&(_, anchor)) = known.ok().and_then(|at| self.numbers.get(at)) else {
                    let message = "the alias refers to no anchor";
                    return Err(Refusal::new(
                        RefusalKind::NotYaml,
                        span.start.line(),
                        span.start.col() + 1,
                        message,
                    ));
                };
                self.anchors[anchor].uses += 1;
                self.add(Kind::Alias(anchor), None, span, range);
            }
            Event::Scalar(text, style, _, tag) => {
                let is_missing = style == ScalarStyle::Plain && range.is_empty();
                let text = if is_missing { String::new() } else { text.into_owned() };
                let tag = tag.map(|tag| format!("{}{}", tag.handle(), tag.suffix()).into_boxed_str());
                self.add(Kind::Scalar { text, style, block: None }, tag, span, range);
            }
            Event::SequenceStart(style, _, tag) => {
                let tag = tag.map(|tag| format!("{}{}", tag.handle(), tag.suffix()).into_boxed_str());
                let kind = Kind::Sequence { flow: style == StructureStyle::Flow, items: Vec::new() };
                let id = self.add(kind, tag, span, range);
                self.open.push((id, None));
            }
            Event::MappingStart(style, _, tag) => {
                let tag = tag.map(|tag| format!("{}{}", tag.handle(), tag.suffix()).into_boxed_str());
                let flow = style == StructureStyle::Flow;
                let braces = flow && self.source.get(range.clone()) == Some("{");
                let id = self.add(Kind::Mapping { flow, braces, entries: Vec::new() }, tag, span, range);
                self.open.push((id, None));
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some((id, _)) = self.open.pop() {
                    let slot = &mut self.slots[id];
                    slot.end = range.end.max(slot.start);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn add(&mut self, kind: Kind, tag: Option<Box<str>>, span: &Span, range: Range<usize>) -> Id {
        let id = self.slots.len();
        let props = span.tag_span().and_then(|tag| tag.byte_range());
        let parent = self.open.last().map(|&(parent, _)| parent);
        self.slots.push(Slot {
            kind,
            start: range.start,
            end: range.end,
            props,
            line: span.start.line(),
            column: span.start.col(),
            anchor: None,
            tag,
            parent,
        });
        match self.open.last_mut() {
            None => self.roots.push(Root { node: id, marker_end: self.marker_end.take() }),
            Some((parent, waiting)) => match &mut self.slots[*parent].kind {
                Kind::Sequence { items, .. } => items.push(id),
                Kind::Mapping { entries, .. } => match waiting.take() {
                    None => *waiting = Some(id),
                    Some(key) => entries.push((key, id)),
                },
                Kind::Scalar { .. } | Kind::Alias(_) => {}
            },
        }
        id
    }
}

fn byte(mark: &Marker) -> Result<usize, Refusal> {
    mark.byte_offset().ok_or_else(|| {
        Refusal::new(
            RefusalKind::NotYaml,
            mark.line(),
            mark.col() + 1,
            "the parser lost its place in the text",
        )
    })
}

fn joined(known: Option<Range<usize>>, added: Range<usize>) -> Range<usize> {
    match known {
        None => added,
        Some(known) => known.start.min(added.start)..known.end.max(added.end),
    }
}
