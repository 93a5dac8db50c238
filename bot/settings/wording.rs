//! What the YAML reader found wrong, in the words of people who write settings.
//!
//! The reader speaks of its types (`invalid u32`) and events (`mapping start`).

use std::borrow::Cow;

use serde_saphyr::{DefaultMessageFormatter, Error, MessageFormatter};

/// The problem with its line and column, on one line: the place is enough to find it.
pub(super) fn worded(error: &Error) -> String {
    error.without_snippet().render_with_formatter(&Settings)
}

struct Settings;

impl MessageFormatter for Settings {
    fn format_message<'a>(&self, error: &'a Error) -> Cow<'a, str> {
        match error {
            Error::InvalidScalar { ty, .. } => match *ty {
                "boolean" => "must be `true` or `false`".into(),
                "floating point" => "must be a number".into(),
                ty if ty.starts_with('u') => "must be a whole number and not negative".into(),
                ty if ty.starts_with('i') => "must be a whole number".into(),
                _ => DefaultMessageFormatter.format_message(error),
            },
            Error::Unexpected { expected: "mapping start", .. } => {
                "must be a mapping: `{name: value}`".into()
            }
            Error::Unexpected { expected: "sequence start", .. } => "must be a list: `[value, value]`".into(),
            Error::SerdeUnknownField { field, expected, .. } => {
                format!("no setting is called `{field}` here; there are {}", listed(expected)).into()
            }
            Error::SerdeUnknownVariant { variant, expected, .. } => {
                format!("`{variant}` is none of {}", listed(expected)).into()
            }
            _ => DefaultMessageFormatter.format_message(error),
        }
    }
}

fn listed(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
