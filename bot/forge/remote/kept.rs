//! Answers that never change (objects by their id), kept within a limit.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Values by key, up to a total weight. What was not asked for lately goes first: the values are held in two halves,
/// and when the young half is full the old one is dropped and the young one grows old.
pub(in crate::forge) struct Kept<V> {
    halves: Mutex<Halves<V>>,
    /// Weight at which the young half is full.
    half: usize,
}

struct Halves<V> {
    young: BTreeMap<String, (Arc<V>, usize)>,
    old: BTreeMap<String, (Arc<V>, usize)>,
    weight: usize,
}

impl<V> Kept<V> {
    /// Holds values of `most` together, in whatever unit [`Kept::put`] is told.
    pub(in crate::forge) fn new(most: usize) -> Self {
        let halves = Halves { young: BTreeMap::new(), old: BTreeMap::new(), weight: 0 };
        Self { halves: Mutex::new(halves), half: most.div_ceil(2) }
    }

    /// The value, if it is still here.
    pub(in crate::forge) fn get(&self, key: &str) -> Option<Arc<V>> {
        let mut halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((value, _)) = halves.young.get(key) {
            return Some(Arc::clone(value));
        }
        let (value, weight) = halves.old.remove(key)?;
        halves.add(key.to_owned(), Arc::clone(&value), weight, self.half);
        Some(value)
    }

    /// Keeps the value, and gives it back.
    pub(in crate::forge) fn put(&self, key: &str, value: V, weight: usize) -> Arc<V> {
        let value = Arc::new(value);
        let mut halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        halves.add(key.to_owned(), Arc::clone(&value), weight, self.half);
        value
    }
}

impl<V> Halves<V> {
    fn add(&mut self, key: String, value: Arc<V>, weight: usize, half: usize) {
        if self.weight + weight > half && !self.young.is_empty() {
            self.old = std::mem::take(&mut self.young);
            self.weight = 0;
        }
        if self.young.insert(key, (value, weight)).is_none() {
            self.weight += weight;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_stays_and_the_rest_goes() {
        let kept = Kept::new(4);
        for key in ["a", "b", "c"] {
            kept.put(key, key.to_owned(), 1);
        }
        assert!(kept.get("a").is_some(), "it is in the old half, and young again now");
        kept.put("d", "d".to_owned(), 1);
        kept.put("e", "e".to_owned(), 1);
        assert!(kept.get("a").is_some() && kept.get("e").is_some());
        assert_eq!(kept.get("b"), None);
    }

    #[test]
    fn a_value_over_the_limit_is_kept_alone() {
        let kept = Kept::new(4);
        kept.put("large", (), 9);
        assert!(kept.get("large").is_some());
        kept.put("a", (), 1);
        kept.put("b", (), 2);
        assert_eq!(kept.get("large"), None);
    }
}
