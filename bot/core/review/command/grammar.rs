//! One line to a verb and its arguments.

/// Longest line, in characters.
const LONGEST_LINE: usize = 512;

/// Most arguments of one command.
const MOST_ARGUMENTS: usize = 10;

/// Longest value in quotes, in characters.
const LONGEST_QUOTED: usize = 256;

/// Longest value without quotes, in characters.
const LONGEST_BARE: usize = 128;

/// A line that speaks to the bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said<'a> {
    /// It is spoken to by its handle or with a slash; a sentence may begin with its name, too.
    pub(super) is_addressed: bool,
    /// The first word after that.
    pub(super) verb: &'a str,
    /// What follows.
    pub(super) arguments: Result<Vec<Argument<'a>>, String>,
}

/// `key=value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Argument<'a> {
    pub(super) key: &'a str,
    pub(super) value: &'a str,
}

/// The line, if it speaks to the bot: `handle` is what people mention, without the `@`.
pub(super) fn read<'a>(line: &'a str, handle: &str) -> Option<Said<'a>> {
    let (trigger, rest) = first_word(line);
    let is_addressed = trigger.eq_ignore_ascii_case("/slicewright")
        || trigger.strip_prefix('@').is_some_and(|name| name.eq_ignore_ascii_case(handle));
    if !is_addressed && !trigger.eq_ignore_ascii_case("slicewright") {
        return None;
    }
    let (verb, rest) = first_word(rest);
    if verb.is_empty() {
        return None;
    }
    let arguments = if line.chars().count() > LONGEST_LINE {
        Err(format!("the line has more than {LONGEST_LINE} characters"))
    } else {
        arguments(rest)
    };
    Some(Said { is_addressed, verb, arguments })
}

fn first_word(text: &str) -> (&str, &str) {
    let text = text.trim_matches([' ', '\t']);
    text.split_once([' ', '\t']).unwrap_or((text, ""))
}

fn arguments(text: &str) -> Result<Vec<Argument<'_>>, String> {
    let mut arguments: Vec<Argument<'_>> = Vec::new();
    let mut rest = text.trim_matches([' ', '\t']);
    while !rest.is_empty() {
        let end = rest.find(['=', ' ', '\t']).unwrap_or(rest.len());
        let (key, after) = rest.split_at(end);
        let Some(after) = after.strip_prefix('=') else {
            return Err(format!("`{}` is no argument: write `key=value`", shown(key)));
        };
        if !is_key(key) {
            return Err(format!("`{}` is no name of an argument", shown(key)));
        }
        let (value, after) = value(key, after)?;
        if arguments.iter().any(|known| known.key == key) {
            return Err(format!("`{key}` is given twice"));
        }
        arguments.push(Argument { key, value });
        rest = after.trim_start_matches([' ', '\t']);
    }
    if arguments.len() > MOST_ARGUMENTS {
        return Err(format!("there are more than {MOST_ARGUMENTS} arguments"));
    }
    Ok(arguments)
}

/// The value of `key` at the start of `text`, and what comes after it.
fn value<'a>(key: &str, text: &'a str) -> Result<(&'a str, &'a str), String> {
    if let Some(quoted) = text.strip_prefix('"') {
        let (value, after) =
            quoted.split_once('"').ok_or_else(|| format!("the quotes of `{key}` do not end"))?;
        if value.chars().count() > LONGEST_QUOTED {
            return Err(format!("`{key}` has more than {LONGEST_QUOTED} characters"));
        }
        if value.chars().any(char::is_control) {
            return Err(format!("`{key}` has characters that nobody can see"));
        }
        if !(after.is_empty() || after.starts_with([' ', '\t'])) {
            return Err(format!("there is something behind the quotes of `{key}`"));
        }
        return Ok((value, after));
    }
    let end = text.find([' ', '\t']).unwrap_or(text.len());
    let (value, after) = text.split_at(end);
    if value.is_empty() {
        return Err(format!("`{key}` has no value"));
    }
    if value.len() > LONGEST_BARE {
        return Err(format!("`{key}` has more than {LONGEST_BARE} characters"));
    }
    if !value.chars().all(|c| c.is_ascii_alphanumeric() || "._:/+%-".contains(c)) {
        return Err(format!("`{key}` has characters that need quotes: `{key}=\"…\"`"));
    }
    Ok((value, after))
}

fn is_key(key: &str) -> bool {
    key.len() <= 32
        && key.starts_with(|c: char| c.is_ascii_lowercase())
        && key.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

/// A person's word, short enough to be shown again.
fn shown(word: &str) -> String {
    let plain: String = word.chars().filter(|c| !c.is_control() && *c != '`').take(33).collect();
    if plain.chars().count() > 32 {
        format!("{}…", plain.chars().take(31).collect::<String>())
    } else {
        plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments_of(line: &str) -> Result<Vec<(&str, &str)>, String> {
        let said = read(line, "slicewright").expect("it speaks to the bot");
        said.arguments.map(|all| all.into_iter().map(|one| (one.key, one.value)).collect())
    }

    #[test]
    fn the_bot_is_spoken_to_by_its_whole_name_at_the_start() {
        for line in ["@slicewright help", "@SliceWright\thelp", "/slicewright help", "slicewright  help"] {
            assert_eq!(read(line, "slicewright").unwrap().verb, "help", "{line}");
        }
        for line in [
            "@slicewright-x help",
            "@slicewright",
            "ask slicewright help",
            "@slicewright, help",
            "slicewright",
        ] {
            assert_eq!(read(line, "slicewright"), None, "{line}");
        }
        let by_handle = read("@gpu-bot help", "GPU-bot").unwrap();
        assert!(by_handle.is_addressed && !read("slicewright help", "gpu-bot").unwrap().is_addressed);
        assert_eq!(read("@slicewright help", "gpu-bot"), None);
    }

    #[test]
    fn arguments_are_keys_with_plain_or_quoted_values() {
        let all = arguments_of(
            "slicewright set headroom=30% exclude=search/ranker-v1.2 reason=\"not now, please\"",
        );
        assert_eq!(
            all.unwrap(),
            [("headroom", "30%"), ("exclude", "search/ranker-v1.2"), ("reason", "not now, please")]
        );
        for (line, says) in [
            ("slicewright set headroom", "`headroom` is no argument: write `key=value`"),
            ("slicewright set headroom=", "has no value"),
            ("slicewright set a=1 a=2", "`a` is given twice"),
            ("slicewright set A=1", "`A` is no name"),
            ("slicewright set -a=1", "`-a` is no name"),
            ("slicewright set a=$(rm)", "need quotes"),
            ("slicewright set a=\"x", "do not end"),
            ("slicewright set a=\"x\"y", "behind the quotes"),
            ("slicewright set a=\"\u{7}\"", "nobody can see"),
            ("slicewright set =1", "no name of an argument"),
        ] {
            let error = arguments_of(line).unwrap_err();
            assert!(error.contains(says), "{line}: {error}");
        }
        let many: String = (0..11).map(|n| format!(" a{n}=1")).collect();
        assert!(arguments_of(&format!("slicewright set{many}")).unwrap_err().contains("more than 10"));
        let long = format!("slicewright set a={}", "x".repeat(129));
        assert!(arguments_of(&long).unwrap_err().contains("more than 128"));
        let long = format!("slicewright set a=\"{}\"", "x".repeat(600));
        assert!(arguments_of(&long).unwrap_err().contains("more than 512"));
    }
}
