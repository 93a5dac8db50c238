//! A comment's text to the lines in which a person speaks.
//!
//! What is quoted, shown as code, linked, headed, listed or hidden is spoken of, not said: other bots ran what somebody
//! only quoted (bors-ng/bors-ng#173, rust-lang/triagebot#595).

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// Bytes of a comment that are looked at.
const MOST_BYTES: usize = 64 << 10;

/// Elements whose content is folded away, quoted or struck out.
const SPOKEN_OF: [&str; 5] = ["details", "blockquote", "del", "s", "pre"];

/// The lines of the comment's own paragraphs that hold plain words and nothing else.
pub(super) fn lines(comment: &str) -> Vec<&str> {
    let text = &comment[..comment.floor_char_boundary(MOST_BYTES)];
    let quoted = quoted(text);
    let mut lines = Vec::new();
    let mut depth = 0_usize;
    // Elements of HTML that are open, over whatever paragraphs.
    let mut hidden = 0_usize;
    let mut paragraph: Option<(Range<usize>, Vec<Range<usize>>)> = None;
    for (event, at) in Parser::new_ext(text, Options::ENABLE_STRIKETHROUGH).into_offset_iter() {
        match event {
            Event::Start(Tag::Paragraph) if depth == 0 => {
                paragraph = Some((at, Vec::new()));
                depth = 1;
            }
            Event::Start(_) => depth += 1,
            Event::End(TagEnd::Paragraph) if depth == 1 => {
                depth = 0;
                let (whole, plain) = paragraph.take().unwrap_or_default();
                lines.extend(plain_lines(text, whole, &plain));
            }
            Event::End(_) => depth = depth.saturating_sub(1),
            Event::Html(html) | Event::InlineHtml(html) => {
                let (opened, closed) = elements(&html);
                hidden = (hidden + opened).saturating_sub(closed);
            }
            // An escape or an entity stands in the source where other words come out.
            Event::Text(said) if depth == 1 && hidden == 0 && text.get(at.clone()) == Some(&*said) => {
                let is_quoted = quoted.iter().any(|span| span.start <= at.start && at.start < span.end);
                if let Some((_, plain)) = paragraph.as_mut().filter(|_| !is_quoted) {
                    plain.push(at);
                }
            }
            Event::Text(_)
            | Event::Code(_)
            | Event::InlineMath(_)
            | Event::DisplayMath(_)
            | Event::FootnoteReference(_)
            | Event::SoftBreak
            | Event::HardBreak
            | Event::Rule
            | Event::TaskListMarker(_) => {}
        }
    }
    lines
}

/// What stands between two lines that are `>>>`: GitLab's way to quote several. One that does not end quotes the rest.
fn quoted(text: &str) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    let mut open: Option<usize> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.trim() == ">>>" {
            match open.take() {
                Some(start) => spans.push(start..at),
                None => open = Some(at),
            }
        }
        at += line.len();
    }
    spans.extend(open.map(|start| start..text.len()));
    spans
}

/// How many of [`SPOKEN_OF`] a piece of HTML opens, and how many it closes.
fn elements(html: &str) -> (usize, usize) {
    let html = html.to_ascii_lowercase();
    let count = |start: &str| {
        let tags = html.split('<').skip(1).filter_map(|tag| tag.strip_prefix(start));
        tags.filter(|tag| {
            let name = tag.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
            SPOKEN_OF.contains(&name)
        })
        .count()
    };
    let closed = count("/");
    (count(""), closed)
}

/// The lines of a paragraph that are covered by plain words.
fn plain_lines<'a>(
    text: &'a str,
    paragraph: Range<usize>,
    plain: &[Range<usize>],
) -> impl Iterator<Item = &'a str> {
    let mut at = paragraph.start;
    let source = text.get(paragraph).unwrap_or_default();
    source.split_inclusive('\n').filter_map(move |line| {
        let start = at + (line.len() - line.trim_start().len());
        at += line.len();
        let words = line.trim();
        let n_plain: usize = plain
            .iter()
            .map(|span| span.end.min(start + words.len()).saturating_sub(span.start.max(start)))
            .sum();
        (!words.is_empty() && n_plain == words.len()).then_some(words)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_said_outright_is_a_line() {
        assert_eq!(lines("one two\nthree\n\n four  "), ["one two", "three", "four"]);
        for spoken_of in [
            "> x",
            "> x\nx",
            "```\nx\n```",
            "    x",
            "~~~text\nx\n~~~",
            "- x",
            "1. x",
            "# x",
            "x\n===",
            "<!-- x -->",
            "<div>\nx\n</div>",
            "`x`",
            "**x**",
            "[x](y)",
            "![x](y)",
            "<x@y.z>",
            "\\/x",
            "&#120;",
            ">>>\nx\n>>>",
            ">>>\n\nx\n\n>>>",
            ">>>\nx",
            "<details>\n\nx\n\n</details>",
            "<details><summary>more</summary>\n\nx\n\n</details>",
            "<blockquote>\n\nx\n\n</blockquote>",
            "<del>\nx\n</del>",
            "~~x~~",
        ] {
            assert_eq!(lines(spoken_of), Vec::<&str>::new(), "{spoken_of}");
        }
        assert_eq!(lines("before\n`code` x\nafter"), ["before", "after"]);
        assert_eq!(lines(">>>\nx\n>>>\n\nafter"), ["after"]);
        assert_eq!(lines("<details>\n\nx\n\n</details>\n\nafter"), ["after"]);
        assert_eq!(lines("x <!-- hidden -->"), Vec::<&str>::new());
        assert_eq!(lines("a_b_c=d_e \"1 2\""), ["a_b_c=d_e \"1 2\""]);
    }

    #[test]
    fn a_long_comment_is_looked_at_from_its_beginning() {
        let long = format!("first\n\n{}", "ü".repeat(MOST_BYTES));
        assert_eq!(lines(&long)[0], "first");
    }
}
