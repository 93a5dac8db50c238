//! Names of branches: what git takes for one, and which the bot may write.

use super::ForgeError;

/// Refuses what git takes for something else than a branch (see `git check-ref-format`): it could lead a path astray.
///
/// # Errors
/// [`ForgeError::Denied`].
pub(super) fn check(name: &str) -> Result<(), ForgeError> {
    let bad_part = |part: &str| part.is_empty() || part.starts_with('.') || part.ends_with(".lock");
    let bad_char = |c: char| c.is_control() || " ~^:?*[\\".contains(c);
    let is_bad = name.starts_with('-')
        || name.ends_with('.')
        || name.contains("..")
        || name.contains("@{")
        || name.contains(bad_char)
        || name == "@"
        || name.split('/').any(bad_part);
    match is_bad {
        true => Err(denied(name, "which is no name of a branch")),
        false => Ok(()),
    }
}

/// Refuses what is not the bot's to write: branches outside of `prefix/`, and `base`, which proposals are for.
///
/// # Errors
/// [`ForgeError::Denied`].
pub(super) fn check_own(name: &str, prefix: &str, base: &str) -> Result<(), ForgeError> {
    check(name)?;
    let is_below = name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'));
    if !is_below || prefix.is_empty() {
        return Err(denied(name, &format!("which is not below `{prefix}/`")));
    }
    match name == base {
        true => Err(denied(name, "which proposals are for")),
        false => Ok(()),
    }
}

/// The branch, where it is the bot's to write: see [`check_own`].
pub(super) fn own(name: String, prefix: &str, base: &str) -> Option<String> {
    check_own(&name, prefix, base).is_ok().then_some(name)
}

fn denied(name: &str, why: &str) -> ForgeError {
    ForgeError::Denied { what: format!("the branch `{}`, {why},", name.escape_debug()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_name_is_one_to_git_as_well() {
        for name in ["slicewright/dc1/a100", "main", "a.b/c-d_e", "ü"] {
            assert!(check(name).is_ok(), "{name}");
        }
        for name in [
            "",
            "-x",
            "a//b",
            "a/",
            "/a",
            "a..b",
            "a b",
            "a~1",
            "a:b",
            "a\\b",
            "a/.b",
            "a/b.lock",
            "a@{1}",
            "@",
            "a\n",
            "x.",
            "slicewright/../main",
        ] {
            assert!(check(name).is_err(), "{name}");
        }
    }

    #[test]
    fn only_what_is_below_the_prefix_is_the_bots() {
        let may = |name: &str, prefix: &str| own(name.to_owned(), prefix, "bot/main").is_some();
        assert!(may("bot/dc1/a100", "bot"));
        for (name, prefix) in
            [("main", "bot"), ("bot", "bot"), ("bots/x", "bot"), ("bot/main", "bot"), ("/x", ""), ("x", "")]
        {
            assert!(!may(name, prefix), "{name} {prefix}");
        }
    }
}
