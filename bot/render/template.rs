//! The templates, and how values get into them.
//!
//! Every string is escaped on its way in, so that neither a template's author nor a label's can forget it; the filters
//! `code`, `block` and `html` choose another dress. Which facts there are is the question of `page`.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment, ErrorKind, UndefinedBehavior};
use serde::Serialize;

use super::RenderError;
use super::escape;

/// Steps that one section may take. A pool of 200 workloads needs some 300,000.
const FUEL: u64 = 20_000_000;

macro_rules! templates {
    ($($folder:literal: [$($name:literal),* $(,)?]),* $(,)?) => {
        /// Name and text of every template.
        const TEMPLATES: &[(&str, &str)] = &[$($(
            ($name, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/templates/", $folder, "/", $name)))
        ),*),*];
    };
}

templates![
    "reply": ["updated.md", "warned.md", "closed.md", "edited.md", "misconfigured.md", "onboarding.md", "supported.md", "unchecked.md",
    "dashboard.md", "help.md", "refused.md", "standing.md", "obeyed.md", "why.md", "why-all.md"],
    "proposal": [
    "first-screen.md",
    "by-hand.md",
    "trade-offs.md",
    "alternatives.md",
    "on-merge.md",
    "rollback.md",
    "side-effects.md",
    "nodes.md",
    "layout.md",
    "kept.md",
    "data.md",
    "evidence.md",
    "workload.md",
    "changes.md",
    "answer.md",
    "footer.md",
    ],
];

/// The templates, ready to be filled.
pub(super) struct Templates {
    environment: Environment<'static>,
}

impl Templates {
    /// Parses the templates that are built in.
    pub(super) fn new() -> Result<Self, RenderError> {
        let mut environment = Environment::new();
        environment.set_auto_escape_callback(|_| AutoEscape::Custom("markdown".into()));
        environment.set_formatter(|out, _, value| write_value(out, value));
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_fuel(Some(FUEL));
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|cause| RenderError { template: "syntax".into(), cause })?);
        environment.add_filter("code", |text: &str| Value::from_safe_string(escape::code(text)));
        environment.add_filter("address", |text: &str| Value::from_safe_string(escape::address(text)));
        environment.add_filter("html", |text: &str| Value::from_safe_string(escape::html(text)));
        environment.add_filter("block", |text: &str, language: &str| {
            Value::from_safe_string(escape::block(text, language))
        });
        for (name, text) in TEMPLATES {
            environment
                .add_template(name, text)
                .map_err(|cause| RenderError { template: (*name).into(), cause })?;
        }
        Ok(Self { environment })
    }

    /// Fills one template with the fields of `page`.
    pub(super) fn fill(&self, name: &str, page: &impl Serialize) -> Result<String, RenderError> {
        let broken = |cause| RenderError { template: name.to_owned(), cause };
        let template = self.environment.get_template(name).map_err(broken)?;
        let text = template.render(Value::from(Serde(page))).map_err(broken)?;
        Ok(tidy(&text))
    }
}

fn write_value(out: &mut minijinja::Output<'_>, value: &Value) -> Result<(), minijinja::Error> {
    let broken = |_| minijinja::Error::from(ErrorKind::WriteFailure);
    match value.as_str() {
        Some(text) if value.is_safe() => out.write_str(text).map_err(broken),
        Some(text) => out.write_str(&escape::sentence(text)).map_err(broken),
        None if value.is_number() || value.is_true() => out.write_str(&value.to_string()).map_err(broken),
        None => Err(minijinja::Error::new(
            ErrorKind::InvalidOperation,
            format!("a {} cannot be printed into a text", value.kind()),
        )),
    }
}

/// No blanks at line ends, no two blank lines in a row outside fences, none at the ends.
fn tidy(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut fence = String::new();
    let mut blank = true;
    for line in text.lines() {
        let ticks: String = line.chars().take_while(|c| *c == '`').collect();
        if fence.is_empty() && ticks.len() >= 3 {
            fence = ticks;
        } else if !fence.is_empty() && line == fence {
            fence.clear();
        }
        let empty = line.trim().is_empty();
        if empty && blank && fence.is_empty() {
            continue;
        }
        blank = empty;
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_parses() {
        assert!(Templates::new().is_ok());
    }

    #[test]
    fn blank_lines_are_kept_inside_fences_only() {
        assert_eq!(tidy("\n\na \n\n\nb\n```\nx\n\n\ny\n```\n\n"), "a\n\nb\n```\nx\n\n\ny\n```");
    }
}
