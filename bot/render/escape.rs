//! Untrusted words as Markdown: names from metrics, paths and comments from repositories.
//!
//! Whoever may create a pod may choose what stands in a label. Nothing of it may become a link, a mention, an issue
//! reference, a command, a heading, a table cell's end or a tag on GitHub or GitLab. Written for GitHub-flavoured
//! Markdown in the middle of a line, in a list, in a table cell or at the start of a line.

/// Invisible, and stops what forges make of `@name`, `#12`, `!7` and addresses.
const JOINER: char = '\u{2060}';

/// Longest text that is shown, in characters. Kubernetes names have 253; sentences of ours some 400.
const LONGEST_TEXT: usize = 2_000;

/// Longest code span, in characters.
const LONGEST_CODE: usize = 300;

/// `text` without what nobody can see or what turns text around: controls, zero-width and bidirectional characters.
/// White space becomes single blanks.
pub(super) fn plain(text: &str) -> String {
    let visible: String =
        text.chars().filter(|c| !is_hidden(*c)).map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
    visible.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// A sentence: what stands between two single backticks is a code span, all else is text.
pub(super) fn sentence(text: &str) -> String {
    let text = cut(&plain(text), LONGEST_TEXT);
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some((before, inside, after)) = code_span(rest) {
        out.push_str(&escaped(before, out.is_empty()));
        out.push_str(&code(inside));
        rest = after;
    }
    out.push_str(&escaped(rest, out.is_empty()));
    out
}

/// A code span with a fence longer than any inside. A pipe would end a table cell even there, so such text is escaped.
pub(super) fn code(text: &str) -> String {
    let text = cut(&plain(text), LONGEST_CODE);
    if text.is_empty() || text.contains('|') {
        return escaped(&text, true);
    }
    let fence = "`".repeat(longest_run(&text, '`') + 1);
    // One blank on each side is taken off by the reader; it keeps a backtick at the edge from joining the fence.
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

/// An address to follow, where it is one; else a code span: a path on this machine, or what no browser should open.
pub(super) fn address(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._~:/?#@!$&'()*+,;=%".contains(c);
    let is_web = text.starts_with("https://") || text.starts_with("http://");
    if is_web && text.chars().all(plain) { format!("<{text}>") } else { code(text) }
}

/// A fenced block. No line in it starts with `/`.
pub(super) fn block(text: &str, language: &str) -> String {
    let fence = "`".repeat(longest_run(text, '`').max(2) + 1);
    let language: String = language.chars().filter(char::is_ascii_alphanumeric).collect();
    let mut out = format!("{fence}{language}\n");
    for line in text.trim_end().lines() {
        let line: String =
            line.chars().filter(|c| *c == '\t' || !(is_hidden(*c) || c.is_control())).collect();
        if line.starts_with('/') {
            out.push(' ');
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out.push_str(&fence);
    out
}

/// Text inside a tag, such as `<summary>`, where Markdown is not read but forges still look for references.
pub(super) fn html(text: &str) -> String {
    let mut out = String::new();
    for c in cut(&plain(text), LONGEST_TEXT).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '@' | '#' | '!' | '%' | '$' | '~' | '^' | ':' => out.extend([c, JOINER]),
            _ => out.push(c),
        }
    }
    out
}

/// A name for the inside of a sentence, as a code span of it.
pub(super) fn tick(name: &str) -> String {
    // No Kubernetes name and no path in a sane repository holds a backtick; a look-alike keeps the span whole.
    format!("`{}`", name.replace('`', "\u{2cb}"))
}

/// The next text between two single backticks, with what stands before and after.
fn code_span(text: &str) -> Option<(&str, &str, &str)> {
    let open = single_backtick(text, 0)?;
    let close = single_backtick(text, open + 1)?;
    (close > open + 1).then(|| (&text[..open], &text[open + 1..close], &text[close + 1..]))
}

fn single_backtick(text: &str, from: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let alone = |at: &usize| {
        bytes[*at] == b'`' && bytes.get(at + 1) != Some(&b'`') && (*at == 0 || bytes[at - 1] != b'`')
    };
    (from..bytes.len()).find(alone)
}

/// Text that reads as itself. `starts` says that it may stand at the start of a line.
fn escaped(text: &str, starts: bool) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len() + 16);
    let mut hex_left = 0_usize;
    for (i, &c) in chars.iter().enumerate() {
        let next = chars.get(i + 1).copied();
        let previous = i.checked_sub(1).and_then(|before| chars.get(before)).copied();
        if starts && i == first_visible(&chars) && opens_a_block(&chars, i) && !c.is_ascii_digit() {
            out.push('\\');
        }
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '`' => out.push_str("&#96;"),
            '|' | '\\' | '*' | '[' | ']' | '$' | '~' => out.extend(['\\', c]),
            '_' if inside_a_word(&chars, i) => out.push('_'),
            '_' => out.push_str("\\_"),
            '.' | ')' if starts && ends_a_list_number(&chars, i) => out.extend(['\\', c]),
            _ => out.push(c),
        }
        let reference = matches!(c, '@' | '#' | '!' | '%' | '^' | '&' | '$' | '~')
            && next.is_some_and(|next| {
                next.is_alphanumeric() || matches!(next, '_' | '"' | '{' | '-' | '#' | '!')
            });
        let address = c == ':' && next == Some('/')
            || c == 'w' && next == Some('.') && i >= 2 && chars[i - 2..i] == ['w', 'w']
            || c == '-' && next.is_some_and(|next| next.is_ascii_digit()) && after_issue_prefix(&chars, i);
        hex_left = match (c.is_ascii_hexdigit(), previous.is_some_and(char::is_alphanumeric)) {
            (true, false) => hex_run(&chars[i..]),
            (true, true) => hex_left.saturating_sub(1),
            (false, _) => 0,
        };
        let commit = hex_left >= 7 && previous.is_none_or(|previous| !previous.is_alphanumeric());
        if reference || address || commit {
            out.push(JOINER);
        }
    }
    out
}

fn first_visible(chars: &[char]) -> usize {
    chars.iter().position(|c| *c != ' ').unwrap_or(0)
}

/// A heading, list, quote, rule, quick action or table line would start here.
fn opens_a_block(chars: &[char], at: usize) -> bool {
    matches!(chars[at], '#' | '+' | '-' | '=' | '/' | ':' | '@')
}

/// `12.` and `12)` at the start make a list.
fn ends_a_list_number(chars: &[char], at: usize) -> bool {
    at > 0
        && chars[..at].iter().all(char::is_ascii_digit)
        && chars.get(at + 1).is_none_or(|next| *next == ' ')
}

/// An underscore between letters or digits never makes emphasis, so that `DCGM_FI_DEV_FB_USED` stays readable.
fn inside_a_word(chars: &[char], at: usize) -> bool {
    let word = |c: Option<&char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    at > 0 && word(chars.get(at - 1)) && word(chars.get(at + 1))
}

/// `GH-12` and `GL-12` are issue references too.
fn after_issue_prefix(chars: &[char], at: usize) -> bool {
    at >= 2 && matches!(chars[at - 2], 'G' | 'g') && matches!(chars[at - 1], 'H' | 'h' | 'L' | 'l')
}

/// Length of the run of hex digits that stands alone here; 0 when letters follow. Forges link 7 to 40 as a commit.
fn hex_run(chars: &[char]) -> usize {
    let n = chars.iter().take_while(|c| c.is_ascii_hexdigit()).count();
    if chars.get(n).is_some_and(|c| c.is_alphanumeric()) { 0 } else { n }
}

fn is_hidden(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e01ef}')
        || (c.is_control() && !matches!(c, '\n' | '\r' | '\t'))
}

fn longest_run(text: &str, of: char) -> usize {
    text.split(|c| c != of).map(str::len).max().unwrap_or(0)
}

/// At most `longest` characters, with `…` for the rest.
pub(super) fn cut(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        None => text.to_owned(),
        Some(_) => {
            let end = text.char_indices().nth(longest.saturating_sub(1)).map_or(0, |(at, _)| at);
            format!("{}…", text[..end].trim_end())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_words_stay_as_they_are() {
        for text in [
            "search/embed-svc needs 9,094 MiB",
            "DCGM_FI_DEV_FB_USED, 12.8 %",
            "2g.10gb (2 of 7)",
            "it's 3.5; a-b",
            "version 1.2",
            "22.4 % of it",
            "low.",
        ] {
            assert_eq!(sentence(text), text);
        }
        assert_eq!(sentence("use `nvidia.com/gpu: 1` now"), "use `nvidia.com/gpu: 1` now");
    }

    /// renovatebot/renovate#2558, dependabot/dependabot-core#2820, #3276: texts pinged strangers and linked back to them.
    #[test]
    fn references_mentions_and_addresses_are_broken() {
        for text in [
            "@ann",
            "a@b.example",
            "#12",
            "o/r#12",
            "!7",
            "&4",
            "%\"1.0\"",
            "~bug",
            "$5",
            "GH-12",
            "https://evil.example",
            "www.evil.example",
            "deadbeef1",
        ] {
            assert!(sentence(text).contains(JOINER), "{}", sentence(text));
        }
    }

    #[test]
    fn nothing_starts_a_block() {
        assert_eq!(sentence("/close"), "\\/close");
        assert_eq!(sentence("- a"), "\\- a");
        assert_eq!(sentence("# a"), "\\# a");
        assert_eq!(sentence("1. a"), "1\\. a");
        assert_eq!(sentence("> a"), "&gt; a");
        assert_eq!(sentence("===="), "\\====");
        assert_eq!(sentence("a\n/close\n\n# b"), "a /close # b");
    }

    #[test]
    fn markup_is_text() {
        assert_eq!(sentence("<b>|*x*_y_[a](b)\\"), "&lt;b&gt;\\|\\*x\\*\\_y\\_\\[a\\](b)\\\\");
        assert_eq!(sentence("a\u{202e}b\u{200b}c\u{7}"), "abc");
    }

    #[test]
    fn fences_hold() {
        assert_eq!(code("a`b``c"), "```a`b``c```");
        assert_eq!(code("`"), "`` ` ``");
        assert_eq!(code("a|b"), "a\\|b");
        assert_eq!(sentence("``x`` `a"), "&#96;&#96;x&#96;&#96; &#96;a");
        assert_eq!(sentence("`a`b`c"), "`a`b&#96;c");
        assert_eq!(block("```\n/close\n~", "sh\n"), "````sh\n```\n /close\n~\n````");
        assert_eq!(tick("a`b"), "`aˋb`");
    }

    #[test]
    fn only_the_address_of_a_page_is_one() {
        assert_eq!(
            address("https://forge.example/acme/infra/pull/7"),
            "<https://forge.example/acme/infra/pull/7>"
        );
        assert_eq!(address("/srv/infra.git.proposals/x/body.md"), "`/srv/infra.git.proposals/x/body.md`");
        assert_eq!(address("javascript:alert(1)"), "`javascript:alert(1)`");
        assert!(!address("https://forge.example/a|b> <b>").contains("<https"));
    }

    #[test]
    fn long_words_are_cut_between_characters() {
        assert_eq!(cut("äöü", 3), "äöü");
        assert_eq!(cut("äöüß", 3), "äö…");
        assert!(code(&"x".repeat(1_000)).chars().count() < 310);
    }
}
