//! New values as text: block lines at a column, or flow text on one line.

use crate::Value;
use crate::quote;

/// How new lines are written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    /// Columns that nested lines are indented by.
    pub(crate) step: usize,
    /// Whether strings with line breaks may become block scalars; they cannot where a comment line below would
    /// be read as their content.
    pub(crate) literals: bool,
}

/// A value as it stands after `key:` or `-`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rendered {
    /// What stands on the line of the key or dash; empty where the value only has lines of its own.
    pub(crate) inline: String,
    /// Lines below it, with their indentation.
    pub(crate) below: Vec<String>,
}

/// A scalar or an empty collection on one line of a block; `None` for what needs lines of its own.
pub(crate) fn inline_scalar(value: &Value, layout: Layout) -> Option<String> {
    Some(match value {
        Value::String(text) if layout.literals && literal(text, 0, 2).is_some() => return None,
        Value::String(text) => quote::plain_or_double(text, false),
        _ if value.is_filled() => return None,
        _ => flow(value, false),
    })
}

/// Header and lines of a literal block scalar whose parent stands at `parent` and whose content at `column`, or
/// `None` where `|` and `|-` cannot hold the text.
pub(crate) fn literal(text: &str, parent: usize, column: usize) -> Option<(String, Vec<String>)> {
    if !quote::fits_block(text) || text.ends_with("\n\n") {
        return None;
    }
    let needs_digit = text.starts_with(['\n', ' ', '\t']);
    let column = if needs_digit && column - parent > 9 { parent + 2 } else { column };
    let mut header = String::from("|");
    if needs_digit {
        header.push_str(&(column - parent).to_string());
    }
    if !text.ends_with('\n') {
        header.push('-');
    }
    Some((header, indented(text.trim_end_matches('\n').split('\n'), column)))
}

/// Lines with indentation; empty ones stay empty.
pub(crate) fn indented<'l>(lines: impl Iterator<Item = &'l str>, column: usize) -> Vec<String> {
    let indent = " ".repeat(column);
    lines.map(|line| if line.is_empty() { String::new() } else { format!("{indent}{line}") }).collect()
}

/// A value below a parent (the column of a mapping's keys or of a sequence's dashes).
pub(crate) fn block(value: &Value, parent: usize, layout: Layout) -> Rendered {
    let column = parent + layout.step;
    if let Some(inline) = inline_scalar(value, layout) {
        return Rendered { inline, below: Vec::new() };
    }
    if let Value::String(text) = value {
        return match literal(text, parent, column) {
            Some((inline, below)) => Rendered { inline, below },
            None => Rendered { inline: quote::double(text), below: Vec::new() },
        };
    }
    Rendered { inline: String::new(), below: block_lines(value, column, layout) }
}

/// The lines of a collection that has entries, its keys or dashes at `column`.
pub(crate) fn block_lines(value: &Value, column: usize, layout: Layout) -> Vec<String> {
    match value {
        Value::Mapping(entries) => {
            entries.iter().flat_map(|(key, value)| block_entry(key, value, column, layout)).collect()
        }
        Value::Sequence(items) => items.iter().flat_map(|item| block_item(item, column, layout, 2)).collect(),
        Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Float(_) | Value::String(_) => Vec::new(),
    }
}

/// The lines of one key with its value.
pub(crate) fn block_entry(key: &str, value: &Value, column: usize, layout: Layout) -> Vec<String> {
    let Rendered { inline, below } = block(value, column, layout);
    let key = quote::plain_or_double(key, false);
    let gap = if inline.is_empty() { "" } else { " " };
    let mut lines = vec![format!("{}{key}:{gap}{inline}", " ".repeat(column))];
    lines.extend(below);
    lines
}

/// The lines of one entry of a sequence whose dashes stand at `column`; a collection in it starts `gap` columns
/// further on the line of the dash.
pub(crate) fn block_item(value: &Value, column: usize, layout: Layout, gap: usize) -> Vec<String> {
    let indent = " ".repeat(column);
    if value.is_filled() {
        let mut lines = block_lines(value, column + gap, layout);
        if let Some(first) = lines.first_mut() {
            *first =
                format!("{indent}-{}{}", " ".repeat(gap.saturating_sub(1)), first.trim_start_matches(' '));
        }
        return lines;
    }
    let Rendered { inline, below } = block(value, column, layout);
    let mut lines = vec![format!("{indent}- {inline}")];
    lines.extend(below);
    lines
}

/// A value as flow text on one line, in JSON's quotes where `json` asks for them.
pub(crate) fn flow(value: &Value, json: bool) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => float(*number),
        Value::String(text) => flow_string(text, json),
        Value::Sequence(items) => {
            format!("[{}]", items.iter().map(|item| flow(item, json)).collect::<Vec<_>>().join(", "))
        }
        Value::Mapping(entries) => {
            let entries: Vec<String> =
                entries.iter().map(|(key, value)| flow_entry(key, value, json)).collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

pub(crate) fn flow_entry(key: &str, value: &Value, json: bool) -> String {
    format!("{}: {}", flow_string(key, json), flow(value, json))
}

pub(crate) fn flow_string(text: &str, json: bool) -> String {
    if json { quote::double(text) } else { quote::plain_or_double(text, true) }
}

/// A spelling that YAML 1.1 and 1.2 both read as this number.
fn float(number: f64) -> String {
    if number.is_nan() {
        return ".nan".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    let text = format!("{number:?}");
    match text.split_once('e') {
        // YAML 1.1 wants the dot and the sign.
        Some((mantissa, exponent)) => {
            let dot = if mantissa.contains('.') { "" } else { ".0" };
            let sign = if exponent.starts_with('-') { "" } else { "+" };
            format!("{mantissa}{dot}e{sign}{exponent}")
        }
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_have_dot_and_sign() {
        assert_eq!(float(1.0), "1.0");
        assert_eq!(float(1e300), "1.0e+300");
        assert_eq!(float(-2.5e-9), "-2.5e-9");
        assert_eq!(float(f64::NEG_INFINITY), "-.inf");
    }

    #[test]
    fn nested_values_take_the_step() {
        let value = Value::Mapping(vec![
            (
                "a".into(),
                Value::Sequence(vec![Value::Mapping(vec![
                    ("b".into(), 1.into()),
                    ("c".into(), "x\ny".into()),
                ])]),
            ),
            ("d".into(), Value::Sequence(vec![])),
        ]);
        let expected = ["a:", "    - b: 1", "      c: |-", "          x", "          y", "d: []"];
        assert_eq!(block_lines(&value, 0, Layout { step: 4, literals: true }), expected);
    }
}
