//! Python's XML parser, which reads pictures as whoever draws them does not.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{checkout, python_tool};

/// What a parser sees in pictures.
pub(crate) fn seen(pictures: &[String]) -> Vec<Value> {
    let mut child = Command::new(python_tool("python"))
        .arg(checkout("tests/tools/read_pictures.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = serde_json::to_vec(pictures).unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "a picture is not well-formed");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The pictures inside a page, in their order.
pub(crate) fn inside(page: &str) -> Vec<String> {
    let starts = page.match_indices("<svg").map(|(at, _)| at);
    starts.map(|at| page[at..].split_inclusive("</svg>").next().unwrap_or_default().to_owned()).collect()
}
