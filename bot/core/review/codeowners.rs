//! Who a CODEOWNERS file asks to review a change.
//!
//! GitHub and GitLab read the file alike but for sections, which are GitLab's: each section has its own last word.
//! Asking people is the question of the forges; GitHub does it by itself for everything but drafts.
//! (docs.github.com "About code owners"; docs.gitlab.com "Code Owners syntax")

use std::collections::BTreeSet;

use crate::policy::rules::wildcard;

/// Where GitHub looks for the file; the first that exists counts.
pub const GITHUB_PLACES: &[&str] = &[".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS"];

/// Where GitLab looks for the file; the first that exists counts.
pub const GITLAB_PLACES: &[&str] = &["CODEOWNERS", "docs/CODEOWNERS", ".gitlab/CODEOWNERS"];

/// Where it may be in a repository whose forge is not known.
pub const ALL_PLACES: &[&str] =
    &["CODEOWNERS", "docs/CODEOWNERS", ".github/CODEOWNERS", ".gitlab/CODEOWNERS"];

/// Longest file that is read, in bytes: GitHub's own limit of 3 MB.
const LONGEST: usize = 3 << 20;

/// No path has so many parts; the number bounds the work on hostile patterns.
const MOST_PARTS: usize = 64;

/// A CODEOWNERS file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeOwners {
    sections: Vec<Section>,
}

/// Lines up to the next heading; the first section has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Section {
    name: String,
    /// Owners of lines that name none.
    default: Vec<String>,
    lines: Vec<Line>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    pattern: Vec<String>,
    /// May stand in any folder.
    anywhere: bool,
    /// Also everything below it.
    below: bool,
    /// `!`: nobody owns what it matches, whatever the section's other lines say.
    exclude: bool,
    owners: Vec<String>,
}

impl CodeOwners {
    /// Reads a file. Lines that cannot be meant are passed over, as the forges do.
    pub fn parse(text: &str) -> Self {
        let mut sections = vec![Section::default()];
        let mut current = 0;
        if text.len() > LONGEST {
            return Self { sections };
        }
        for line in text.lines() {
            let words = words(line);
            let Some(first) = words.first() else { continue };
            if let Some(heading) = heading(line) {
                // The same heading again goes on with the first one, whatever its case.
                let name = heading.name.to_lowercase();
                let known = sections.iter().position(|section| section.name.to_lowercase() == name);
                current = known.filter(|_| !name.is_empty()).unwrap_or_else(|| {
                    sections.push(heading);
                    sections.len() - 1
                });
                continue;
            }
            let owners: Vec<String> = words[1..].iter().filter(|word| is_owner(word)).cloned().collect();
            if let (Some(line), Some(section)) = (Line::new(first, owners), sections.get_mut(current)) {
                section.lines.push(line);
            }
        }
        Self { sections }
    }

    /// The owners of these paths, each once, in the order of the paths: `@user`, `@org/team`, e-mail addresses.
    pub fn of<'p>(&self, paths: impl IntoIterator<Item = &'p str>) -> Vec<String> {
        let (mut seen, mut found) = (BTreeSet::new(), Vec::new());
        for path in paths {
            let parts: Vec<&str> = path.split('/').collect();
            for section in &self.sections {
                for owner in section.of(&parts) {
                    if seen.insert(owner.clone()) {
                        found.push(owner.clone());
                    }
                }
            }
        }
        found
    }
}

impl Section {
    fn of(&self, parts: &[&str]) -> &[String] {
        let meets = |line: &&Line| line.meets(parts);
        if self.lines.iter().any(|line| line.exclude && line.meets(parts)) {
            return &[];
        }
        match self.lines.iter().rev().find(meets) {
            Some(line) if line.owners.is_empty() => &self.default,
            Some(line) => &line.owners,
            None => &[],
        }
    }
}

impl Line {
    fn new(pattern: &str, owners: Vec<String>) -> Option<Self> {
        let (exclude, pattern) = match pattern.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, pattern),
        };
        let below = pattern.ends_with('/');
        let bare = pattern.trim_start_matches('/').trim_end_matches('/');
        let anywhere = !pattern.starts_with('/') && !bare.contains('/');
        let pattern: Vec<String> = bare.split('/').map(str::to_owned).collect();
        let fits = !bare.is_empty() && pattern.len() <= MOST_PARTS;
        fits.then_some(Self { pattern, anywhere, below, exclude, owners })
    }

    fn meets(&self, parts: &[&str]) -> bool {
        let starts = if self.anywhere { parts.len() } else { 1 };
        (0..starts).any(|at| self.from(&self.pattern, &parts[at..]))
    }

    /// Whether the pattern matches from here to the end, or to a folder of which everything counts.
    fn from(&self, pattern: &[String], parts: &[&str]) -> bool {
        match (pattern.split_first(), parts.split_first()) {
            (None, None) => !self.below,
            // A name without a wildcard at its end also stands for a folder of that name.
            (None, Some(_)) => self.below || self.pattern.last().is_some_and(|last| !last.contains('*')),
            // At the end it stands for everything below.
            (Some((part, rest)), _) if part == "**" && rest.is_empty() => !parts.is_empty(),
            (Some((part, rest)), _) if part == "**" => {
                self.from(rest, parts)
                    || parts.split_first().is_some_and(|(_, below)| self.from(pattern, below))
            }
            (Some((part, rest)), Some((name, below))) => wildcard(part, name) && self.from(rest, below),
            (Some(_), None) => false,
        }
    }
}

/// `[Name]`, `^[Name]`, `[Name][2]`, with owners behind it. `None`: no heading.
fn heading(line: &str) -> Option<Section> {
    let rest = line.trim().trim_start_matches('^').strip_prefix('[')?;
    let (name, mut rest) = rest.split_once(']')?;
    if let Some(count) = rest.strip_prefix('[') {
        rest = count.split_once(']')?.1;
    }
    let default = words(rest).into_iter().filter(|word| is_owner(word)).collect();
    Some(Section { name: name.trim().to_owned(), default, lines: Vec::new() })
}

fn is_owner(word: &str) -> bool {
    let user = word.strip_prefix('@').is_some_and(|name| !name.is_empty() && !name.starts_with('/'));
    user || word.split_once('@').is_some_and(|(name, host)| !name.is_empty() && host.contains('.'))
}

/// The words of a line; `\ ` is a blank inside of one, `#` starts a comment at the start of a word, `\#` does not.
fn words(line: &str) -> Vec<String> {
    let (mut found, mut word) = (Vec::new(), String::new());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => word.extend(chars.next()),
            '#' if word.is_empty() => break,
            c if c.is_whitespace() => {
                if !word.is_empty() {
                    found.push(std::mem::take(&mut word));
                }
            }
            c => word.push(c),
        }
    }
    if !word.is_empty() {
        found.push(word);
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, path: &str, expected: &[&str]) {
        assert_eq!(CodeOwners::parse(text).of([path]), expected, "{text} of {path}");
    }

    #[test]
    fn the_last_line_that_matches_wins() {
        let text = "* @all\n*.yaml @yaml # comment\n/apps/ @apps/team dev@example.com\n/apps/free/\n";
        check(text, "README.md", &["@all"]);
        check(text, "clusters/dc1/a.yaml", &["@yaml"]);
        check(text, "apps/a/b.yaml", &["@apps/team", "dev@example.com"]);
        check(text, "apps/free/a.yaml", &[]);
        check("", "a", &[]);
    }

    #[test]
    fn patterns_are_read_as_the_forges_do() {
        for (pattern, path, meets) in [
            ("docs/*", "docs/a.md", true),
            ("docs/*", "docs/b/a.md", false),
            ("docs/*", "x/docs/a.md", false),
            ("apps/", "x/apps/a/b", true),
            ("apps/", "apps", false),
            ("/apps/", "x/apps/a", false),
            ("/apps", "apps/a/b", true),
            ("apps", "x/apps/a", true),
            ("**/logs", "a/b/logs/x", true),
            ("/a/**/b", "a/b", true),
            ("/a/**/b", "a/x/y/b", true),
            ("/a/**", "a/x/y", true),
            ("/a/**", "a", false),
            ("*.y?ml", "a/b.yaml", true),
            ("a\\ b.yaml", "a b.yaml", true),
            ("\\#x", "#x", true),
            ("/", "a", false),
        ] {
            let owners = CodeOwners::parse(&format!("{pattern} @a")).of([path]);
            assert_eq!(!owners.is_empty(), meets, "`{pattern}` and `{path}`");
        }
    }

    #[test]
    fn each_section_has_its_own_last_word() {
        let text = "* @all\n\n[Database][2] @db\n/db/\n/db/x @x\n\n^[Docs]\n*.md @docs\n!/db/internal.md\n[DATABASE]\n/sql/\n";
        check(text, "db/a.sql", &["@all", "@db"]);
        check(text, "db/x", &["@all", "@x"]);
        check(text, "db/a.md", &["@all", "@db", "@docs"]);
        check(text, "db/internal.md", &["@all", "@db"]);
        check(text, "sql/a", &["@all", "@db"]);
    }

    #[test]
    fn owners_of_several_paths_are_named_once() {
        let owners = CodeOwners::parse("a @x @y\nb @y @z not-an-owner @\n");
        assert_eq!(owners.of(["b", "a", "c"]), ["@y", "@z", "@x"]);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "[\\PC\n]{0,200}", path in "[a-c/*.]{0,20}") {
            let _ = CodeOwners::parse(&text).of([path.as_str()]);
        }

        #[test]
        fn a_hostile_pattern_takes_no_time(stars in "(\\*\\*/|\\*a){1,24}", path in "(a/){1,24}a") {
            let _ = CodeOwners::parse(&format!("/{stars}z @x")).of([path.as_str()]);
        }
    }
}
