//! When a string may stand plain, and how it is quoted where it may not.

/// Whether `text` is plain for YAML 1.1 *and* 1.2 readers as this very string.
///
/// The two disagree on much: `on`, `0755`, `1_000` and `12:30` are strings in one and something else in the other.
pub(crate) fn is_plain_safe(text: &str, in_flow: bool) -> bool {
    let mut chars = text.chars();
    let Some(first) = chars.next() else { return false };
    let second = chars.next();
    let is_edge_blank = text.starts_with([' ', '\t']) || text.ends_with([' ', '\t']);
    let starts_badly = match first {
        '-' => second.is_none_or(|c| c == ' ' || (in_flow && ",[]{}".contains(c))),
        '?' | ':' | ',' | '[' | ']' | '{' | '}' | '#' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%'
        | '@' | '`' => true,
        _ => false,
    };
    let looks_like_marker = text.starts_with("---") || text.starts_with("...");
    let has_indicator =
        text.contains(": ") || text.contains(" #") || text.ends_with(':') || text.contains("{{");
    let breaks_flow = in_flow && text.contains([',', '[', ']', '{', '}']);
    !(is_edge_blank
        || starts_badly
        || looks_like_marker
        || has_indicator
        || breaks_flow
        || text.chars().any(|c| !is_plain_char(c))
        || is_other_type(text))
}

/// Printable, and no blank or break but the space.
fn is_plain_char(c: char) -> bool {
    c >= ' ' && !needs_escape(c)
}

/// Characters that YAML does not let stand for themselves, or that one of its versions takes for a line break.
fn needs_escape(c: char) -> bool {
    matches!(c, '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// Whether some reader resolves the plain `text` to null, a boolean, a number, a time or a merge key.
pub(crate) fn is_other_type(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    if matches!(
        lower.as_str(),
        "~" | "null" | "y" | "yes" | "n" | "no" | "true" | "false" | "on" | "off" | "<<" | "="
    ) {
        return true;
    }
    let unsigned = lower.strip_prefix(['+', '-']).unwrap_or(&lower);
    matches!(unsigned, ".inf" | ".nan")
        || is_radix(unsigned)
        || is_decimal(unsigned)
        || is_sexagesimal(unsigned)
        || is_date(&lower)
}

fn is_radix(text: &str) -> bool {
    let of = |prefix: &str, digits: &str| {
        text.strip_prefix(prefix)
            .is_some_and(|rest| !rest.is_empty() && rest.chars().all(|c| c == '_' || digits.contains(c)))
    };
    of("0x", "0123456789abcdef") || of("0o", "01234567") || of("0b", "01")
}

/// `1`, `1_000`, `1.`, `.5`, `1e3`, `1.5e-3`
fn is_decimal(text: &str) -> bool {
    let (mantissa, exponent) = match text.split_once('e') {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    if let Some(exponent) = exponent {
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if digits.is_empty() || !all_digits(digits) {
            return false;
        }
    }
    match mantissa.split_once('.') {
        Some((whole, fraction)) => {
            all_digits(whole)
                && all_digits(fraction)
                && (whole.starts_with(|c: char| c.is_ascii_digit())
                    || (whole.is_empty() && fraction.starts_with(|c: char| c.is_ascii_digit())))
        }
        None => mantissa.starts_with(|c: char| c.is_ascii_digit()) && all_digits(mantissa),
    }
}

fn all_digits(text: &str) -> bool {
    text.chars().all(|c| c == '_' || c.is_ascii_digit())
}

/// `12:30:45` and `190:20:30.15`, which YAML 1.1 reads in base 60.
fn is_sexagesimal(text: &str) -> bool {
    let whole =
        text.split_once('.').map_or(text, |(whole, fraction)| if all_digits(fraction) { whole } else { "" });
    let mut parts = whole.split(':');
    let leads =
        parts.next().is_some_and(|part| part.starts_with(|c: char| c.is_ascii_digit()) && all_digits(part));
    let mut n_parts = 0;
    let small = parts.all(|part| {
        n_parts += 1;
        let low = part.len() == 1 || part.starts_with(['0', '1', '2', '3', '4', '5']);
        (1..=2).contains(&part.len()) && low && part.chars().all(|c| c.is_ascii_digit())
    });
    leads && small && n_parts > 0
}

/// `2026-11-30`, alone or before a time.
fn is_date(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let (Some(year), Some(month), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let n_digits = rest.chars().take_while(char::is_ascii_digit).count();
    let after = rest.get(n_digits..).unwrap_or_default();
    let is_number = |part: &str| part.chars().all(|c| c.is_ascii_digit());
    year.len() == 4
        && is_number(year)
        && (1..=2).contains(&month.len())
        && is_number(month)
        && (1..=2).contains(&n_digits)
        && (after.is_empty() || after.starts_with(['t', ' ']))
}

/// Double-quoted, with the escapes that JSON has too.
pub(crate) fn double(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if needs_escape(c) => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Single-quoted, where single quotes can hold the text on one line.
pub(crate) fn single(text: &str) -> Option<String> {
    let fits = text.chars().all(|c| c == '\t' || is_plain_char(c));
    fits.then(|| format!("'{}'", text.replace('\'', "''")))
}

/// Plain where that is safe, else double-quoted.
pub(crate) fn plain_or_double(text: &str, in_flow: bool) -> String {
    if is_plain_safe(text, in_flow) { text.to_owned() } else { double(text) }
}

/// Whether a block scalar of the kind `|` can hold the text; its chomping is another question.
pub(crate) fn fits_block(text: &str) -> bool {
    let body = text.trim_end_matches('\n');
    let last = body.rsplit('\n').next().unwrap_or_default();
    let first_line_has_text = body.split('\n').any(|line| !line.trim_matches([' ', '\t']).is_empty());
    text.contains('\n')
        && first_line_has_text
        && !last.trim_matches([' ', '\t']).is_empty()
        && text.chars().all(|c| c == '\n' || c == '\t' || is_plain_char(c))
}

/// The lines that a folded block scalar (`>`) needs to say `body`, which has no line break at its end.
pub(crate) fn folded_lines(body: &str) -> Vec<&str> {
    let mut out: Vec<&str> = Vec::new();
    let is_text = |line: &str| !line.is_empty() && !line.starts_with([' ', '\t']);
    let mut previous: Option<&str> = None;
    for line in body.split('\n') {
        // Between two lines of text one break folds into a space, so that a real one takes an empty line more.
        if is_text(line) && previous.is_some_and(is_text) {
            out.push("");
        } else if is_text(line) && out.last() == Some(&"") {
            let above = out.iter().rfind(|line| !line.is_empty());
            if above.is_some_and(|line| is_text(line)) {
                out.push("");
            }
        }
        out.push(line);
        previous = Some(line);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, plain: bool) {
        assert_eq!(is_plain_safe(text, false), plain, "{text:?}");
    }

    #[test]
    fn words_of_either_version_are_quoted() {
        for text in [
            "", "~", "null", "Null", "y", "N", "yes", "oN", "OFF", "true", "=", "<<", ".inf", "-.INF", ".NaN",
        ] {
            check(text, false);
        }
    }

    #[test]
    fn numbers_of_either_version_are_quoted() {
        for text in
            ["0", "42", "-1", "+7", "0755", "08", "0o17", "0xfF", "0b1_0", "1_000", "1.5", "1.", ".5", "1e3"]
        {
            check(text, false);
        }
        for text in ["-1.5E-3", "12:30", "12:30:45", "190:20:30.15", "2026-11-30", "2026-1-3t10:00:00Z"] {
            check(text, false);
        }
    }

    #[test]
    fn strings_that_only_resemble_numbers_stay_plain() {
        for text in [
            "2g.10gb",
            "+1g.5gb.me",
            "1.2.3",
            "10b",
            "500m",
            "16Gi",
            "0o8",
            "0x",
            "a:b",
            "12:3x",
            "-x",
            "--beam",
            "8080:80",
        ] {
            check(text, true);
        }
        for text in
            ["2026-11", "20260-11-30", "1e", "_1", "v1", "nvidia.com/gpu", "a#b", "e3", "+", "1:2:", "x y"]
        {
            check(text, !text.ends_with(':'));
        }
    }

    #[test]
    fn indicators_are_quoted() {
        for text in [
            "- a", "-", "? x", "a: b", "a:", "a #b", "#a", "*x", "&x", "!x", "%x", "@x", "`x", "|", ">", "'a",
        ] {
            check(text, false);
        }
        for text in [
            "{x}",
            "[x",
            ", a",
            " a",
            "a ",
            "a\tb",
            "a\u{85}b",
            "\u{feff}a",
            "--- a",
            "...",
            "a {{ b }}",
            "a\nb",
        ] {
            check(text, false);
        }
        check("a, b", true);
        assert!(!is_plain_safe("a, b", true));
        assert!(!is_plain_safe("a]", true));
    }

    #[test]
    fn folded_lines_keep_every_break() {
        assert_eq!(folded_lines("a\nb"), ["a", "", "b"]);
        assert_eq!(folded_lines("a\n\nb"), ["a", "", "", "b"]);
        assert_eq!(folded_lines("a\n  b\nc"), ["a", "  b", "c"]);
        assert_eq!(folded_lines("a\n\n  b"), ["a", "", "  b"]);
    }
}
