//! Where a label stands in a manifest, and its value there.

use slicewright_yaml::Step;

use super::Today;
use crate::infra::walk::At;

/// What a manifest says at the way to a label.
#[derive(Debug)]
pub(super) struct Spot {
    /// The line of the label, or of the last thing on the way to it.
    pub(super) line: usize,
    /// `Err` holds why it is no label.
    pub(super) today: Result<Today, String>,
}

impl Spot {
    /// Looks below an object's root.
    pub(super) fn new(root: &At<'_>, way: &[Step]) -> Self {
        let mut line = root.node.line();
        for n in 1..=way.len() {
            match root.node.at(&way[..n]) {
                Some(node) => line = node.line(),
                None => return Self { line, today: Ok(Today::Unset) },
            }
        }
        let today = match root.node.at(way) {
            Some(node) if node.is_null() => Err("the label stands there without a value".to_owned()),
            Some(node) => node
                .as_str()
                .map(|value| Today::Set(value.to_owned()))
                .ok_or_else(|| "the label's value is no text".to_owned()),
            None => Ok(Today::Unset),
        };
        Self { line, today }
    }
}
