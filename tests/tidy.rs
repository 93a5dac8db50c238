//! The code's own rules: who may import whom, registries complete, docs in step, nothing unlicensed.
//!
//! Reads the checkout as text. Each rule returns what breaks it, so that one run names everything.

mod pinned;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::world::checkout;
use crate::world::repo::files_below;

/// Modules of package `slicewright`, and which of its modules each may name. Between crates the compiler checks.
const MAY_IMPORT: [(&str, &[&str]); 9] = [
    // The command line starts the server.
    ("cli", &["engine", "settings", "server"]),
    ("server", &["engine", "settings"]),
    ("engine", &["settings", "prometheus", "forge", "infra", "render", "store"]),
    // Of the adapters their `Settings` types only: see `imports_follow_the_layout`.
    ("settings", &["prometheus", "forge", "infra", "render", "store"]),
    ("prometheus", &[]),
    ("forge", &[]),
    ("infra", &[]),
    ("render", &[]),
    ("store", &[]),
];

/// Modules that edit YAML text: the repository's, and the configuration's own.
const EDIT_YAML: [&str; 2] = ["infra", "settings"];

/// Folders whose files a registry must list: the folder, what makes a file count, the registry's file and its list.
/// A folder or file counts by its stem: `bot/infra/kustomize.rs` must be named as `kustomize` in the list.
const REGISTRIES: [(&str, &str, &str, &str); 3] = [
    ("config/catalog", "", "bot/settings/catalog.rs", ""),
    ("bot/core/review/command", "const SPEC", "bot/core/review/command/mod.rs", "COMMANDS"),
    ("bot/infra", "impl Format for", "bot/infra/format.rs", "FORMATS"),
];

/// What stands at the top of the checkout; a path in a Markdown file that starts so must exist.
const TOP: [&str; 11] = [
    ".ci/",
    "benches/",
    "bot/",
    "config/",
    "demo/",
    "deploy/",
    "docs/",
    "fuzz/",
    "templates/",
    "tests/",
    "action.yml",
];

/// Example repositories and rendered texts: their Markdown speaks of other trees.
const OTHER_TREES: [&str; 4] = ["tests/cases/", "tests/snapshots/", "demo/infra/", "templates/"];

#[test]
fn imports_follow_the_layout() {
    let mut broken = Vec::new();
    for path in sources("bot/") {
        let Some(from) = module_of(&path) else { continue };
        let Some((_, allowed)) = MAY_IMPORT.iter().find(|(name, _)| *name == from) else {
            broken.push(format!("{path}: module `{from}` has no place in the table"));
            continue;
        };
        for import in imports(&path, &code_of(&path)) {
            let to = import.split("::").next().unwrap_or_default().to_owned();
            let ours = MAY_IMPORT.iter().any(|(name, _)| *name == to) && to != from;
            let yaml = to == "slicewright_yaml" && !EDIT_YAML.contains(&from.as_str());
            let more_than_settings = from == "settings" && !import.ends_with("Settings");
            if yaml || ours && (!allowed.contains(&to.as_str()) || more_than_settings) {
                broken.push(format!("{path}: `{from}` must not import `{import}`"));
            }
        }
    }
    none("imports against the table in the layout", &broken);
}

#[test]
fn registries_list_every_file() {
    let mut broken = Vec::new();
    for (folder, mark, file, list) in REGISTRIES {
        let listed = std::fs::read_to_string(checkout(file)).unwrap_or_default();
        let listed = if list.is_empty() { listed.as_str() } else { list_text(&listed, list) };
        let words: BTreeSet<&str> =
            listed.split(|c: char| !c.is_alphanumeric() && !"_-.".contains(c)).collect();
        for path in tree().iter().filter(|path| path.starts_with(&format!("{folder}/"))) {
            let rest = &path[folder.len() + 1..];
            let text = std::fs::read_to_string(checkout(path)).unwrap_or_default();
            let stem = rest.split('/').next().unwrap_or(rest).trim_end_matches(".rs");
            let counts = (rest.ends_with(".rs") || rest.ends_with(".yaml")) && text.contains(mark);
            if stem == "mod" || !counts {
                continue;
            }
            if !words.contains(stem) && !words.contains(&rest) {
                broken.push(format!("{path} is not listed in {file} {list}"));
            }
        }
    }
    none("files that their registry does not list", &broken);
}

#[test]
fn tests_neither_hide_nor_sleep() {
    let hidden = concat!("#[", "ignore");
    let sleeps = [concat!("thread::", "sleep"), concat!("time::", "sleep")];
    let mut broken = Vec::new();
    for path in sources("bot/").into_iter().chain(sources("tests/")) {
        let text = code_of(&path);
        if text.contains(hidden) {
            broken.push(format!("{path} hides a test"));
        }
        let waits = path.starts_with("tests/") && path != "tests/world/wait.rs";
        if waits && sleeps.iter().any(|sleep| text.contains(sleep)) {
            broken.push(format!("{path} sleeps: wait for a state with `world::wait`"));
        }
    }
    none("tests that hide or sleep", &broken);
}

#[test]
fn paths_in_markdown_exist() {
    let mut broken = Vec::new();
    for path in tree() {
        if !path.ends_with(".md") || OTHER_TREES.iter().any(|tree| path.starts_with(tree)) {
            continue;
        }
        let text = std::fs::read_to_string(checkout(&path)).unwrap();
        let here = Path::new(&path).parent().unwrap_or(Path::new(""));
        for named in paths_in(&text) {
            let found = match named {
                Named::FromTop(named) => checkout(named).exists(),
                Named::Link(named) => checkout("").join(here).join(named).exists(),
            };
            if !found {
                broken.push(format!("{path}: {named:?}"));
            }
        }
    }
    none("paths in Markdown that do not exist", &broken);
}

#[test]
fn nothing_names_the_machine_it_was_written_on() {
    let places =
        [concat!("/work", "/"), concat!("/tmp", "/wt"), concat!("/tmp", "/target"), concat!("/root", "/")];
    let mut broken = Vec::new();
    for path in tree() {
        let Ok(text) = std::fs::read_to_string(checkout(&path)) else { continue };
        for (number, line) in text.lines().enumerate() {
            if places.iter().any(|place| line.contains(place)) {
                broken.push(format!("{path}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    none("lines that name a folder of somebody's machine", &broken);
}

/// What cargo-deny would check of sources and licences, for machines without it.
#[test]
fn dependencies_come_from_crates_io_under_allowed_licences() {
    const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";
    let lock = std::fs::read_to_string(checkout("Cargo.lock")).unwrap();
    let sources: BTreeSet<&str> =
        lock.lines().filter_map(|line| line.strip_prefix("source = ")).map(|s| s.trim_matches('"')).collect();
    assert_eq!(sources, BTreeSet::from([CRATES_IO]));

    let cargo = std::env::var_os("CARGO").expect("cargo runs the tests");
    let output = std::process::Command::new(cargo)
        .args(["metadata", "--locked", "--format-version=1", "--filter-platform=x86_64-unknown-linux-gnu"])
        .current_dir(checkout(""))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Without deny.toml there is no policy yet to hold the licences against.
    let Ok(policy) = std::fs::read_to_string(checkout("deny.toml")) else { return };
    let (_, licences) = policy.split_once("[licenses]").expect("deny.toml has [licenses]");
    let (_, list) = licences.split_once("allow = [").expect("[licenses] has `allow`");
    let (list, _) = list.split_once(']').expect("`allow` is a list");
    let allowed: BTreeSet<&str> = list.split('"').skip(1).step_by(2).collect();
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().expect("packages");
    let broken: Vec<String> = packages
        .iter()
        .filter_map(|package| {
            let licence = package["license"].as_str().unwrap_or("no licence");
            let name = package["name"].as_str().unwrap_or_default();
            (!licence_allowed(licence, &allowed)).then(|| format!("{name}: {licence}"))
        })
        .collect();
    none("packages whose licence deny.toml does not allow", &broken);
}

/// npm writes down where a package came from: on a machine with a registry of its own, an address that others do not have.
#[test]
fn npm_packages_are_pinned_by_their_content_and_come_from_whichever_registry_is_configured() {
    let locks = ["tests/tools/npm/package-lock.json", "benches/rival/probot/package-lock.json"].map(|path| {
        let lock = std::fs::read_to_string(checkout(path)).unwrap();
        serde_json::from_str::<serde_json::Value>(&lock).unwrap()
    });
    let packages = locks.iter().flat_map(|lock| lock["packages"].as_object().expect("packages"));
    let broken: Vec<String> = packages
        .filter(|(path, _)| !path.is_empty())
        .filter(|(_, package)| {
            let elsewhere = |from: &serde_json::Value| {
                !from.as_str().is_some_and(|at| at.starts_with("https://registry.npmjs.org/"))
            };
            let pinned = package["integrity"].as_str().is_some_and(|hash| hash.starts_with("sha512-"));
            !pinned || package.get("resolved").is_some_and(elsewhere)
        })
        .map(|(path, package)| format!("{path}: {package}"))
        .collect();
    none("npm packages without a hash, or from another registry", &broken);
}

fn none(what: &str, broken: &[String]) {
    assert!(broken.is_empty(), "{what}:\n  {}", broken.join("\n  "));
}

/// All files of the checkout but those that builds and tools put there.
fn tree() -> Vec<String> {
    let root = checkout("");
    let mut out = Vec::new();
    for entry in std::fs::read_dir(&root).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        if [".git", "target", ".test-tools"].contains(&name.as_str()) {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            out.extend(files_below(&entry.path()).into_iter().map(|path| format!("{name}/{path}")));
        } else {
            out.push(name);
        }
    }
    out.retain(|path| !path.starts_with("fuzz/target/") && !path.contains("/__pycache__/"));
    out.sort();
    out
}

fn sources(below: &str) -> Vec<String> {
    tree().into_iter().filter(|path| path.starts_with(below) && path.ends_with(".rs")).collect()
}

/// `bot/forge/github/client.rs` is in `forge`, `bot/store.rs` in `store`; `main.rs`, `lib.rs` and the other crates in
/// none of the package's modules.
fn module_of(path: &str) -> Option<String> {
    let rest = path.strip_prefix("bot/")?;
    let first = rest.split('/').next()?.trim_end_matches(".rs");
    (!["core", "yaml-edit", "main", "lib"].contains(&first)).then(|| first.to_owned())
}

/// The text of a source file without line comments and without the contents of its one-line strings.
fn code_of(path: &str) -> String {
    let text = std::fs::read_to_string(checkout(path)).unwrap();
    text.lines().map(|line| code_of_line(line) + "\n").collect()
}

fn code_of_line(line: &str) -> String {
    let mut out = String::new();
    let mut quoted = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if quoted => drop(chars.next()),
            '"' => quoted = !quoted,
            '/' if !quoted && chars.peek() == Some(&'/') => break,
            _ if quoted => {}
            _ => out.push(c),
        }
    }
    // An odd number of quotes: a string of several lines, or a quote as a character. Keep the line whole then.
    if quoted { line.to_owned() } else { out }
}

/// Every path into the package or its sister crates that code names, from the crate's root: `forge::Forge`.
/// `super` is followed too.
fn imports(path: &str, code: &str) -> BTreeSet<String> {
    let inside: Vec<&str> =
        path.trim_start_matches("bot/").trim_end_matches(".rs").trim_end_matches("/mod").split('/').collect();
    let mut out = BTreeSet::new();
    for start in ["crate::", "slicewright::", "slicewright_yaml::"] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
                continue;
            }
            let base = if start == "slicewright_yaml::" { start } else { "" };
            expand(base, &code[at + start.len()..], &mut out);
        }
    }
    for (at, _) in code.match_indices("super::") {
        if code[..at].ends_with("super::") {
            continue;
        }
        let mut rest = &code[at..];
        let mut depth = inside.len();
        while let Some(next) = rest.strip_prefix("super::") {
            rest = next;
            depth = depth.saturating_sub(1);
        }
        let base: String = inside[..depth].iter().map(|part| format!("{part}::")).collect();
        expand(&base, rest, &mut out);
    }
    out
}

/// The paths that start at the front of `rest`: `a::b` is one, `{a::B, c::{D, E}}` three.
fn expand(base: &str, rest: &str, out: &mut BTreeSet<String>) {
    if let Some(group) = rest.strip_prefix('{') {
        let (mut depth, mut start) = (0, 0);
        for (at, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => {
                    expand(base, group[start..at].trim(), out);
                    return;
                }
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    expand(base, group[start..at].trim(), out);
                    start = at + 1;
                }
                _ => {}
            }
        }
        return;
    }
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    let (name, after) = rest.split_at(end);
    match after.strip_prefix("::") {
        Some(after) if after.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '{') => {
            expand(&format!("{base}{name}::"), after, out);
        }
        _ if name.is_empty() => {}
        _ => drop(out.insert(format!("{base}{name}"))),
    }
}

/// The text of `const NAME …;` or `static NAME …;`; empty when there is none.
fn list_text<'a>(text: &'a str, name: &str) -> &'a str {
    let start = ["const", "static"].iter().find_map(|word| text.find(&format!("{word} {name}:")));
    let Some(rest) = start.and_then(|at| text.get(at..)) else { return "" };
    let (_, value) = rest.split_once(" =").unwrap_or_default();
    value.split_once(';').map_or(value, |(value, _)| value).trim_start()
}

/// A path in a Markdown file.
#[derive(Clone, Copy, Debug)]
enum Named<'a> {
    /// In backticks, from the top of the checkout.
    FromTop(&'a str),
    /// A link, from the file's own folder.
    Link(&'a str),
}

fn paths_in(text: &str) -> Vec<Named<'_>> {
    let plain = |path: &str| !path.contains(['<', '*', '{', '…', ' ', '$', '|']) && !path.contains("...");
    let mut out = Vec::new();
    let mut fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            continue;
        }
        if fenced {
            continue;
        }
        for code in line.split('`').skip(1).step_by(2) {
            let path = code.split(['#', ':']).next().unwrap_or_default();
            if plain(code) && TOP.iter().any(|top| path.starts_with(top)) {
                out.push(Named::FromTop(path));
            }
        }
        for (_, rest) in line.match_indices("](").map(|(at, mark)| line.split_at(at + mark.len())) {
            let link = rest.split([')', '#', ' ']).next().unwrap_or_default();
            if !link.is_empty() && plain(link) && !link.contains("://") && !link.starts_with("mailto:") {
                out.push(Named::Link(link));
            }
        }
    }
    out
}

/// Whether an SPDX expression can be met with the allowed licences. `/` is the old spelling of OR.
fn licence_allowed(expression: &str, allowed: &BTreeSet<&str>) -> bool {
    let text = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = text.split_whitespace().peekable();
    let met = any_of(&mut words, allowed);
    met && words.peek().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any_of(words: &mut Words<'_>, allowed: &BTreeSet<&str>) -> bool {
    let mut met = all_of(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        met |= all_of(words, allowed);
    }
    met
}

fn all_of(words: &mut Words<'_>, allowed: &BTreeSet<&str>) -> bool {
    let mut met = one(words, allowed);
    while words.next_if_eq(&"AND").is_some() {
        met &= one(words, allowed);
    }
    met
}

fn one(words: &mut Words<'_>, allowed: &BTreeSet<&str>) -> bool {
    if words.next_if_eq(&"(").is_some() {
        let met = any_of(words, allowed);
        return words.next_if_eq(&")").is_some() && met;
    }
    let mut name = words.next().unwrap_or_default().to_owned();
    if words.next_if_eq(&"WITH").is_some() {
        name = format!("{name} WITH {}", words.next().unwrap_or_default());
    }
    allowed.contains(name.as_str())
}

#[test]
fn the_rules_themselves_see_what_they_look_for() {
    let code = "use crate::{forge::{Forge, Event}, infra};\nuse super::super::store::Store;\nuse super::dto;\n\
                fn f() { crate::render::body(); slicewright_yaml::edit() }\n";
    let found = imports("bot/forge/github/client.rs", code);
    let found: Vec<&str> = found.iter().map(String::as_str).collect();
    assert_eq!(
        found,
        [
            "forge::Event",
            "forge::Forge",
            "forge::github::dto",
            "forge::store::Store",
            "infra",
            "render::body",
            "slicewright_yaml::edit"
        ]
    );
    assert_eq!(module_of("bot/forge/github/client.rs").as_deref(), Some("forge"));
    assert_eq!(module_of("bot/core/fit/mod.rs"), None);
    assert_eq!(code_of_line(r#"let a = "crate::forge"; // crate::infra"#), "let a = ; ");
    assert_eq!(list_text("pub const ALL: &[X] = &[a::A, b::B];\n", "ALL"), "&[a::A, b::B]");

    let allowed = BTreeSet::from(["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"]);
    for good in ["MIT/BSD", "(MIT OR GPL-3.0) AND Apache-2.0", "Apache-2.0 WITH LLVM-exception OR Zlib"] {
        assert!(licence_allowed(good, &allowed), "{good}");
    }
    for bad in ["GPL-3.0", "MIT AND GPL-3.0", "no licence", "(MIT OR"] {
        assert!(!licence_allowed(bad, &allowed), "{bad}");
    }
    let named =
        paths_in("See `bot/lib.rs` and [the book](docs/a.md#b), not `bot/<name>/` or [x](https://y).");
    assert_eq!(format!("{named:?}"), r#"[FromTop("bot/lib.rs"), Link("docs/a.md")]"#);
    let counts: BTreeMap<&str, usize> = MAY_IMPORT.iter().map(|(name, to)| (*name, to.len())).collect();
    assert!(counts["cli"] == 3 && counts["store"] == 0);
}
