//! Nodes with the path that leads to them, so that what was read can be edited.

use slicewright_yaml::{Node, Step};

/// A node and its path from the root of its document.
#[derive(Clone, Debug)]
pub(super) struct At<'s> {
    /// The node.
    pub(super) node: Node<'s>,
    /// The way to it from the document's root.
    pub(super) path: Vec<Step>,
}

impl<'s> At<'s> {
    pub(super) fn new(node: Node<'s>, path: Vec<Step>) -> Self {
        Self { node, path }
    }

    /// The value of a key.
    pub(super) fn get(&self, key: &str) -> Option<Self> {
        let node = self.node.get(key)?;
        let mut path = self.path.clone();
        path.push(key.into());
        Some(Self { node, path })
    }

    /// Keys and values of a mapping.
    pub(super) fn entries(&self) -> Vec<(&'s str, Self)> {
        let with_path = |(key, node): (&'s str, Node<'s>)| {
            let mut path = self.path.clone();
            path.push(key.into());
            (key, Self { node, path })
        };
        self.node.entries().into_iter().map(with_path).collect()
    }

    /// The entries of a sequence.
    pub(super) fn items(&self) -> Vec<Self> {
        let with_path = |(position, node): (usize, Node<'s>)| {
            let mut path = self.path.clone();
            path.push(position.into());
            Self { node, path }
        };
        self.node.items().enumerate().map(with_path).collect()
    }

    /// Every node at a dotted path; `[]` stands for every entry of a list, `*` for every value of a mapping.
    pub(super) fn all(&self, dotted: &str) -> Vec<Self> {
        let mut found = vec![self.clone()];
        for part in dotted.split('.') {
            let (key, every) = part.strip_suffix("[]").map_or((part, false), |key| (key, true));
            found = found
                .iter()
                .flat_map(|at| match key {
                    "*" => at.entries().into_iter().map(|(_, value)| value).collect(),
                    key => at.get(key).into_iter().collect::<Vec<_>>(),
                })
                .flat_map(|at| if every { at.items() } else { vec![at] })
                .collect();
        }
        found
    }

    /// The one node at a dotted path.
    pub(super) fn down(&self, dotted: &str) -> Option<Self> {
        dotted.split('.').try_fold(self.clone(), |at, key| at.get(key))
    }
}

/// The node at a dotted path of keys.
pub(super) fn down<'s>(node: Node<'s>, dotted: &str) -> Option<Node<'s>> {
    dotted.split('.').try_fold(node, |node, key| node.get(key))
}

/// The text of the scalar at a dotted path of keys.
pub(super) fn text<'s>(node: Node<'s>, dotted: &str) -> Option<&'s str> {
    down(node, dotted)?.as_str()
}

/// `a.b` as steps.
pub(super) fn steps(dotted: &str) -> Vec<Step> {
    dotted.split('.').map(Step::from).collect()
}

/// Calls `visit` for a node and all below it, the path's keys given as they come. Aliases are followed; depth and
/// number of nodes are bounded, since a few lines of aliases can stand for millions of nodes.
pub(super) fn every<'s>(node: Node<'s>, visit: &mut dyn FnMut(Option<&'s str>, Node<'s>)) {
    let mut left = 200_000;
    inner(None, node, 0, &mut left, visit);
}

const MAX_DEPTH: usize = 60;

fn inner<'s>(
    key: Option<&'s str>,
    node: Node<'s>,
    depth: usize,
    left: &mut u32,
    visit: &mut dyn FnMut(Option<&'s str>, Node<'s>),
) {
    if depth > MAX_DEPTH || *left == 0 {
        return;
    }
    *left -= 1;
    visit(key, node);
    if node.is_mapping() {
        for (key, value) in node.entries() {
            inner(Some(key), value, depth + 1, left, visit);
        }
    } else {
        for item in node.items() {
            inner(None, item, depth + 1, left, visit);
        }
    }
}
