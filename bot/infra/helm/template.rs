//! The part of Helm's template language that names are made of, evaluated without rendering a chart.
//!
//! What is not known here has no value: a name is told exactly or not at all.

use std::collections::BTreeMap;

/// The deepest chain of templates that include each other, and of parentheses.
const MAX_DEPTH: usize = 12;

/// The most actions that one name may take.
const MAX_STEPS: usize = 2_000;

/// The longest text that a part of a name may have; variables that double themselves end here.
const MAX_LENGTH: usize = 4_000;

/// One `{{ … }}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Action<'t> {
    /// Where it starts and ends in the text.
    pub(super) start: usize,
    pub(super) end: usize,
    /// What stands between the braces, without the marks that trim blanks.
    pub(super) code: &'t str,
}

/// Every action of a text, in order; an unclosed one ends the list.
pub(super) fn actions(text: &str) -> Vec<Action<'_>> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(start) = text[from..].find("{{").map(|at| from + at) {
        let inner = start + 2;
        let body = text[inner..].trim_start_matches('-').trim_start();
        let close = if body.starts_with("/*") {
            text[inner..].find("*/").and_then(|at| Some(at + text[inner + at..].find("}}")?))
        } else {
            text[inner..].find("}}")
        };
        let Some(close) = close.map(|at| inner + at) else { break };
        let code = text[inner..close].trim();
        let code = code.strip_prefix('-').unwrap_or(code);
        let code = code.strip_suffix('-').unwrap_or(code).trim();
        from = close + 2;
        found.push(Action { start, end: from, code });
    }
    found
}

/// What an action does to the block that it stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Control<'t> {
    If(&'t str),
    ElseIf(&'t str),
    Else,
    With(&'t str),
    Range,
    Define(&'t str),
    End,
    /// A comment or an assignment: it prints nothing.
    Silent,
    /// It prints something.
    Output,
}

pub(super) fn control(code: &str) -> Control<'_> {
    let (word, rest) =
        code.split_once(char::is_whitespace).map_or((code, ""), |(word, rest)| (word, rest.trim()));
    match word {
        "if" => Control::If(rest),
        "else" => match rest.split_once(char::is_whitespace) {
            Some(("if", condition)) => Control::ElseIf(condition.trim()),
            Some(_) | None if rest.is_empty() => Control::Else,
            Some(_) | None => Control::ElseIf(rest),
        },
        "with" => Control::With(rest),
        "range" => Control::Range,
        "define" | "block" => Control::Define(rest.split(char::is_whitespace).next().unwrap_or_default()),
        "end" => Control::End,
        _ if code.starts_with("/*") || is_assignment(code) => Control::Silent,
        _ => Control::Output,
    }
}

fn is_assignment(code: &str) -> bool {
    code.starts_with('$')
        && code.split_once('=').is_some_and(|(name, _)| {
            let name = name.trim_end_matches(':').trim();
            name[1..].chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        })
}

/// The named templates of a text: their bodies by name.
pub(super) fn defines(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open: Vec<Option<(String, usize)>> = Vec::new();
    for action in actions(text) {
        match control(action.code) {
            Control::Define(name) => open.push(Some((name.trim_matches('"').to_owned(), action.end))),
            Control::If(_) | Control::With(_) | Control::Range => open.push(None),
            Control::End => {
                if let Some(Some((name, start))) = open.pop() {
                    found.insert(name, text[start..action.start].to_owned());
                }
            }
            Control::ElseIf(_) | Control::Else | Control::Silent | Control::Output => {}
        }
    }
    found
}

/// What names may refer to.
pub(super) struct Scope<'s> {
    /// `None`: not known.
    pub(super) release: Option<&'s str>,
    /// `None`: not known.
    pub(super) namespace: Option<&'s str>,
    pub(super) chart: &'s str,
    pub(super) defines: &'s BTreeMap<String, String>,
    /// The scalar at a path of the values: empty where nothing stands, `None` where it cannot be told.
    pub(super) value: &'s dyn Fn(&[&str]) -> Option<String>,
}

/// The one word that a template makes, or `None`.
pub(super) fn word(text: &str, scope: &Scope<'_>) -> Option<String> {
    let mut run = Run { scope, variables: BTreeMap::new(), steps: 0 };
    let made = run.template(text, 0)?;
    let made = made.trim().trim_matches(['"', '\'']).to_owned();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    (!made.is_empty() && made.chars().all(plain)).then_some(made)
}

struct Run<'s, 'a> {
    scope: &'a Scope<'s>,
    variables: BTreeMap<String, String>,
    steps: usize,
}

struct Frame {
    active: bool,
    taken: bool,
    outer: bool,
}

impl Run<'_, '_> {
    fn template(&mut self, text: &str, depth: usize) -> Option<String> {
        if depth > MAX_DEPTH {
            return None;
        }
        let mut out = String::new();
        let mut frames: Vec<Frame> = Vec::new();
        let mut at = 0;
        for action in actions(text) {
            self.steps += 1;
            if self.steps > MAX_STEPS {
                return None;
            }
            let active = frames.last().is_none_or(|frame| frame.active);
            if active {
                out.push_str(&text[at..action.start]);
            }
            at = action.end;
            match control(action.code) {
                Control::If(condition) => {
                    let holds = active && is_true(&self.pipeline(condition, depth)?);
                    frames.push(Frame { active: holds, taken: holds, outer: active });
                }
                Control::ElseIf(condition) => {
                    let (outer, taken) = frames.last().map(|frame| (frame.outer, frame.taken))?;
                    let holds = outer && !taken && is_true(&self.pipeline(condition, depth)?);
                    let frame = frames.last_mut()?;
                    frame.active = holds;
                    frame.taken |= holds;
                }
                Control::Else => {
                    let frame = frames.last_mut()?;
                    frame.active = frame.outer && !frame.taken;
                    frame.taken = true;
                }
                Control::With(_) | Control::Range | Control::Define(_) => {
                    if active {
                        return None;
                    }
                    frames.push(Frame { active: false, taken: true, outer: false });
                }
                Control::End => {
                    frames.pop()?;
                }
                Control::Silent => {
                    if active && let Some((name, value)) = action.code.split_once('=') {
                        let value = self.pipeline(value, depth)?;
                        self.variables.insert(name.trim_end_matches(':').trim().to_owned(), value);
                    }
                }
                Control::Output => {
                    if active {
                        out.push_str(&self.pipeline(action.code, depth)?);
                    }
                }
            }
        }
        out.push_str(&text[at..]);
        frames.is_empty().then_some(out)
    }

    /// `a b | c`: the value of each part is the last argument of the next.
    fn pipeline(&mut self, code: &str, depth: usize) -> Option<String> {
        self.steps += 1;
        if depth > MAX_DEPTH || self.steps > MAX_STEPS {
            return None;
        }
        let mut piped: Option<String> = None;
        for command in split(code, '|')? {
            let words = split(command, ' ')?;
            let (first, rest) = words.split_first()?;
            let is_function = first.starts_with(|c: char| c.is_ascii_alphabetic());
            piped = Some(if is_function && !matches!(*first, "true" | "false" | "nil") {
                if matches!(*first, "include" | "template") {
                    let (name, context) = (rest.first()?, rest.get(1)?);
                    if !matches!(*context, "." | "$") {
                        return None;
                    }
                    let body = self.scope.defines.get(name.trim_matches('"'))?.clone();
                    let outer = std::mem::take(&mut self.variables);
                    let made = self.template(&body, depth + 1);
                    self.variables = outer;
                    made?.trim().to_owned()
                } else {
                    let mut arguments = Vec::new();
                    for word in rest {
                        arguments.push(self.operand(word, depth)?);
                    }
                    arguments.extend(piped.take());
                    call(first, &arguments)?
                }
            } else {
                if piped.is_some() || !rest.is_empty() {
                    return None;
                }
                self.operand(first, depth)?
            });
            if piped.as_ref().is_some_and(|made| made.len() > MAX_LENGTH) {
                return None;
            }
        }
        piped
    }

    fn operand(&mut self, word: &str, depth: usize) -> Option<String> {
        if let Some(inner) = word.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
            return self.pipeline(inner, depth + 1);
        }
        for quote in ['"', '`'] {
            if let Some(inner) = word.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
                return (!inner.contains('\\')).then(|| inner.to_owned());
            }
        }
        if word.bytes().all(|byte| byte.is_ascii_digit()) || matches!(word, "true" | "false") {
            return Some(word.to_owned());
        }
        if let Some(value) = self.variables.get(word) {
            return Some(value.clone());
        }
        let path: Vec<&str> = word.strip_prefix('$').unwrap_or(word).strip_prefix('.')?.split('.').collect();
        match path.as_slice() {
            ["Release", "Name"] => self.scope.release.map(ToOwned::to_owned),
            ["Release", "Namespace"] => self.scope.namespace.map(ToOwned::to_owned),
            ["Chart", "Name"] => Some(self.scope.chart.to_owned()),
            ["Values", rest @ ..] if !rest.is_empty() => (self.scope.value)(rest),
            _ => None,
        }
    }
}

fn is_true(text: &str) -> bool {
    !matches!(text, "" | "false" | "0")
}

fn call(name: &str, arguments: &[String]) -> Option<String> {
    let truth = |holds: bool| Some(if holds { "true" } else { "" }.to_owned());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match (name, arguments.as_slice()) {
        ("default", [default, value]) => Some(if value.is_empty() { *default } else { *value }.to_owned()),
        ("coalesce", values) => {
            Some((*values.iter().find(|value| !value.is_empty()).unwrap_or(&"")).to_owned())
        }
        ("required", [_, value]) => (!value.is_empty()).then(|| (*value).to_owned()),
        ("quote" | "squote" | "toString" | "trim", [value]) => Some(value.trim().to_owned()),
        ("lower", [value]) => Some(value.to_lowercase()),
        ("tpl", [value, ..]) => (!value.contains("{{")).then(|| (*value).to_owned()),
        ("trunc", [length, value]) => {
            let length: usize = length.parse().ok()?;
            Some(value.get(..length).unwrap_or(value).to_owned())
        }
        ("trimSuffix", [end, value]) => Some(value.strip_suffix(end).unwrap_or(value).to_owned()),
        ("trimPrefix", [start, value]) => Some(value.strip_prefix(start).unwrap_or(value).to_owned()),
        ("replace", [old, new, value]) if !old.is_empty() => Some(value.replace(old, new)),
        ("contains", [part, value]) => truth(value.contains(part)),
        ("hasPrefix", [part, value]) => truth(value.starts_with(part)),
        ("hasSuffix", [part, value]) => truth(value.ends_with(part)),
        ("eq", [a, b]) => truth(a == b),
        ("ne", [a, b]) => truth(a != b),
        ("not", [value]) => truth(!is_true(value)),
        ("and", values) => truth(values.iter().all(|value| is_true(value))),
        ("or", values) => Some((*values.iter().find(|value| is_true(value)).or(values.last())?).to_owned()),
        ("print", [value]) => Some((*value).to_owned()),
        ("printf", [form, values @ ..]) => {
            let mut out = String::new();
            let mut values = values.iter();
            let mut rest = *form;
            while let Some(at) = rest.find('%') {
                out.push_str(&rest[..at]);
                let verb = rest[at + 1..].chars().next().filter(|verb| matches!(verb, 's' | 'v'))?;
                out.push_str(values.next()?);
                rest = &rest[at + 1 + verb.len_utf8()..];
            }
            out.push_str(rest);
            values.next().is_none().then_some(out)
        }
        _ => None,
    }
}

/// Splits outside of quotes and parentheses; empty parts between blanks are left out. `None`: something is not closed.
fn split(code: &str, at: char) -> Option<Vec<&str>> {
    let mut parts = Vec::new();
    let (mut start, mut depth, mut quote) = (0, 0_usize, None);
    for (position, c) in code.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '`') => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.checked_sub(1)?,
            (None, c) if depth == 0 && (c == at || (at == ' ' && c.is_whitespace())) => {
                parts.push(&code[start..position]);
                start = position + c.len_utf8();
            }
            (None, _) => {}
        }
    }
    if quote.is_some() || depth > 0 {
        return None;
    }
    parts.push(&code[start..]);
    Some(parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELPERS: &str = r#"
{{/* The name }} of everything. */}}
{{- define "embed.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- define "embed.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}
"#;

    fn check(text: &str, release: &str, values: &[(&str, &str)], expected: Option<&str>) {
        let defines = defines(HELPERS);
        let value = |path: &[&str]| {
            let path = path.join(".");
            let found = values.iter().find(|(key, _)| *key == path);
            Some(found.map(|(_, value)| (*value).to_owned()).unwrap_or_default())
        };
        let scope = Scope {
            release: (!release.is_empty()).then_some(release),
            namespace: Some("search"),
            chart: "embed",
            defines: &defines,
            value: &value,
        };
        assert_eq!(word(text, &scope).as_deref(), expected, "{text}");
    }

    #[test]
    fn names_are_made_as_helm_makes_them() {
        check("{{ include \"embed.fullname\" . }}", "prod", &[], Some("prod-embed"));
        check("{{ include \"embed.fullname\" . }}-worker", "embed-eu", &[], Some("embed-eu-worker"));
        check("{{ template \"embed.fullname\" $ }}", "x", &[("fullnameOverride", "ranker")], Some("ranker"));
        check("{{ include \"embed.fullname\" . | quote }}", "x", &[("nameOverride", "e")], Some("x-e"));
        check("\"{{ .Release.Name }}-{{ .Values.role | default \"web\" }}\"", "x", &[], Some("x-web"));
        check("{{ printf \"%s-%s\" .Release.Name (include \"embed.name\" .) }}", "x", &[], Some("x-embed"));
        check("embed-svc", "", &[], Some("embed-svc"));
    }

    #[test]
    fn what_is_not_known_has_no_name() {
        check("{{ .Release.Name }}", "", &[], None);
        check("{{ include \"common.fullname\" . }}", "x", &[], None);
        check("{{ include \"embed.fullname\" .Subcharts.a }}", "x", &[], None);
        check("{{ .name }}", "x", &[], None);
        check("{{ range .Values.a }}b{{ end }}", "x", &[], None);
        check("{{ randAlpha 5 }}", "x", &[], None);
        check("{{ if }}{{ else }}", "x", &[], None);
        check("{{", "x", &[], None);
        let doubling = format!("{{{{ $a := \"ab\" }}}}{}x", "{{ $a = printf \"%s%s\" $a $a }}".repeat(100));
        check(&doubling, "x", &[], None);
    }
}
