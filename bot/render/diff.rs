//! Two versions of a file as a unified diff, as `git diff` and `patch` know it.

/// Unchanged lines around a change.
const CONTEXT: usize = 3;

/// Most lines that one version may have between the first and the last change to be compared line by line. Above it
/// the whole middle is shown as replaced: the work grows with the product of both.
const LONGEST_MIDDLE: usize = 4_000;

/// The diff; empty when nothing differs.
pub(super) fn unified(path: &str, old: Option<&[u8]>, new: Option<&[u8]>) -> String {
    if old == new {
        return String::new();
    }
    let name =
        |side: &str, there: bool| if there { format!("{side}/{path}") } else { "/dev/null".to_owned() };
    let head = format!("--- {}\n+++ {}\n", name("a", old.is_some()), name("b", new.is_some()));
    let text = |bytes: Option<&[u8]>| std::str::from_utf8(bytes.unwrap_or_default()).map(str::to_owned);
    match (text(old), text(new)) {
        (Ok(old), Ok(new)) => head + &hunks(&lines(&old), &lines(&new)),
        _ => format!("{head}the contents are not text and differ\n"),
    }
}

/// Lines with their ends, so that a missing last one shows.
fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// One line of the comparison: in both, only in the old or only in the new text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Line<'a> {
    Same(&'a str),
    Old(&'a str),
    New(&'a str),
}

fn hunks(old: &[&str], new: &[&str]) -> String {
    let script = compare(old, new);
    let changed: Vec<usize> = script
        .iter()
        .enumerate()
        .filter(|(_, line)| !matches!(line, Line::Same(_)))
        .map(|(at, _)| at)
        .collect();
    let mut out = String::new();
    let mut next = 0;
    while let Some(first) = changed.get(next) {
        let start = first.saturating_sub(CONTEXT);
        let mut end = first + 1;
        while let Some(at) = changed.get(next).filter(|at| **at <= end + 2 * CONTEXT) {
            end = at + 1;
            next += 1;
        }
        hunk(&mut out, &script, start, (end + CONTEXT).min(script.len()));
    }
    out
}

fn hunk(out: &mut String, script: &[Line<'_>], start: usize, end: usize) {
    let count = |lines: &[Line<'_>], old: bool| {
        lines
            .iter()
            .filter(|line| {
                matches!((line, old), (Line::Same(_), _) | (Line::Old(_), true) | (Line::New(_), false))
            })
            .count()
    };
    let (before, inside) = (&script[..start], &script[start..end]);
    let range = |old: bool| {
        let n = count(inside, old);
        // An empty range names the line before it.
        format!("{},{n}", count(before, old) + usize::from(n > 0))
    };
    out.push_str(&format!("@@ -{} +{} @@\n", range(true), range(false)));
    for line in inside {
        let (mark, text) = match line {
            Line::Same(text) => (' ', text),
            Line::Old(text) => ('-', text),
            Line::New(text) => ('+', text),
        };
        out.push(mark);
        out.push_str(text);
        if !text.ends_with('\n') {
            out.push_str("\n\\ No newline at end of file\n");
        }
    }
}

/// The longest common subsequence of the middle, with equal ends taken off first.
fn compare<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let tail = old[head..].iter().rev().zip(new[head..].iter().rev()).take_while(|(a, b)| a == b).count();
    let (a, b) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
    let mut script: Vec<Line<'a>> = old[..head].iter().map(|line| Line::Same(line)).collect();
    if a.len().max(b.len()) > LONGEST_MIDDLE {
        script.extend(a.iter().map(|line| Line::Old(line)));
        script.extend(b.iter().map(|line| Line::New(line)));
    } else {
        middle(a, b, &mut script);
    }
    script.extend(old[old.len() - tail..].iter().map(|line| Line::Same(line)));
    script
}

fn middle<'a>(a: &[&'a str], b: &[&'a str], script: &mut Vec<Line<'a>>) {
    let width = b.len() + 1;
    let mut longest = vec![0_u16; (a.len() + 1) * width];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            longest[i * width + j] = if a[i] == b[j] {
                longest[(i + 1) * width + j + 1] + 1
            } else {
                longest[(i + 1) * width + j].max(longest[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            script.push(Line::Same(a[i]));
            (i, j) = (i + 1, j + 1);
        } else if i < a.len() && (j == b.len() || longest[(i + 1) * width + j] >= longest[i * width + j + 1])
        {
            script.push(Line::Old(a[i]));
            i += 1;
        } else {
            script.push(Line::New(b[j]));
            j += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_changes_far_apart_are_two_hunks() {
        let old: String = (1..=20).map(|n| format!("{n}\n")).collect();
        let new = old.replace("3\n4\n", "3\nfour\n").replace("18\n", "").replace("20\n", "20");
        let expected = "--- a/x\n+++ b/x\n@@ -1,7 +1,7 @@\n 1\n 2\n 3\n-4\n+four\n 5\n 6\n 7\n@@ -15,6 +15,5 @@\n 15\n 16\n 17\n-18\n 19\n-20\n+20\n\\ No newline at end of file\n";
        assert_eq!(unified("x", Some(old.as_bytes()), Some(new.as_bytes())), expected);
    }

    #[test]
    fn new_and_removed_files_come_from_and_go_to_nothing() {
        assert_eq!(unified("x", None, Some(b"a\n")), "--- /dev/null\n+++ b/x\n@@ -0,0 +1,1 @@\n+a\n");
        assert_eq!(unified("x", Some(b"a\n"), None), "--- a/x\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-a\n");
        assert_eq!(unified("x", Some(b"a"), Some(b"a")), "");
        assert!(unified("x", Some(b"\xff"), Some(b"a")).ends_with("not text and differ\n"));
    }

    /// `patch` is the judge: applied to the old text, the diff gives the new one.
    #[test]
    fn a_diff_applies() {
        let texts = [
            "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n",
            "b\nc\nX\ne\nf\ng\nh\ni\nY\nZ\nj\n",
            "",
            "a\na\na\nb\nj",
            "j\n",
        ];
        let folder = tempfile::tempdir().unwrap();
        for (old, new) in texts.iter().flat_map(|old| texts.iter().map(move |new| (*old, *new))) {
            if old == new {
                continue;
            }
            std::fs::write(folder.path().join("x"), old).unwrap();
            std::fs::write(folder.path().join("d"), unified("x", Some(old.as_bytes()), Some(new.as_bytes())))
                .unwrap();
            let done = std::process::Command::new("git")
                .current_dir(folder.path())
                .args(["apply", "--unidiff-zero", "d"])
                .output()
                .unwrap();
            let got = std::fs::read_to_string(folder.path().join("x")).unwrap_or_default();
            assert_eq!(got, new, "{old:?}: {}", String::from_utf8_lossy(&done.stderr));
        }
    }
}
