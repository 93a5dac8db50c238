//! Names as text that shells, YAML readers and Markdown readers take for nothing but that name.

/// A string as a YAML flow scalar: plain where nothing can misread it, else in double quotes.
pub(super) fn yaml(text: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '/');
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(safe)
        && !matches!(
            text.to_ascii_lowercase().as_str(),
            "y" | "n" | "yes" | "no" | "on" | "off" | "true" | "false" | "null"
        );
    if plain {
        return text.to_owned();
    }
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                out.push_str(&format!("\\U{:08X}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A string as one word of a POSIX shell.
pub(super) fn shell(text: &str) -> String {
    let safe =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '/' | '=' | ':' | ',' | '@');
    if !text.is_empty() && text.chars().all(safe) {
        return text.to_owned();
    }
    format!("'{}'", one_line(text).replace('\'', "'\\''"))
}

/// A string without line breaks and other control characters, for comments and sentences.
pub(super) fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') { ' ' } else { c })
        .collect()
}

/// Lines between Markdown fences that the lines cannot close.
pub(super) fn fenced(language: &str, lines: &[String]) -> String {
    let longest =
        lines.iter().flat_map(|line| line.split(|c| c != '`')).map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(3.max(longest + 1));
    let body: String = lines.iter().map(|line| format!("{}\n", one_line(line))).collect();
    format!("{fence}{language}\n{body}{fence}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_scalars_read_as_the_same_string() {
        for text in [
            "a",
            "on",
            "1",
            "1e3",
            "",
            "a: b",
            "a #b",
            "\"",
            "\\",
            "a\nb",
            "~",
            "-",
            "gpu-operator",
            "\u{7f}",
        ] {
            let stream = slicewright_yaml::read(&format!("k: {}\n", yaml(text))).unwrap();
            let root = stream.document(0).unwrap();
            assert_eq!(root.get("k").unwrap().as_str(), Some(text), "{text:?}");
        }
    }

    #[test]
    fn shell_words_stay_one_word() {
        assert_eq!(shell("dc1-gpu-07"), "dc1-gpu-07");
        assert_eq!(shell("a; rm -rf /"), "'a; rm -rf /'");
        assert_eq!(shell("it's"), "'it'\\''s'");
        assert_eq!(shell("a\nb"), "'a b'");
    }

    #[test]
    fn a_fence_is_longer_than_what_it_holds() {
        assert!(fenced("sh", &["````".into()]).starts_with("`````sh\n"));
    }
}
