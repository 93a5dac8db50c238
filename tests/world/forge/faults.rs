//! What can go wrong between a forge and its client, from a seed: the same seed goes wrong in the same places.

use std::collections::BTreeMap;

use super::state::State;
use super::{Call, Reply};

/// One thing that goes wrong.
pub(crate) enum Fault {
    /// Answered so, and nothing done.
    Refuse(Reply),
    /// Done, and answered so all the same.
    RefuseAfter(Reply),
    /// The connection ends, and nothing is done.
    Drop,
    /// Done, and the connection ends without an answer.
    DropAfter,
    /// The request arrives twice.
    Twice,
    /// The connection ends; the request arrives after the next one.
    Late,
    /// An answer of earlier.
    Stale(Reply),
    /// Answered as ever, but a person was faster.
    After(Person),
}

/// Numbers from a seed, the same on every machine: Sebastiano Vigna's splitmix64.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number that is less than `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    /// One of these.
    pub(crate) fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[usize::try_from(self.below(values.len() as u64)).expect("fits")]
    }
}

/// How many requests a replica lags behind at most. A pass has some ten: with more, answers would be those of the last
/// run, hours ago.
const MOST_LAG: u64 = 10;

/// A source of faults.
pub(crate) struct Faults {
    random: Random,
    /// Of 1,000 requests, how many go wrong.
    per_mille: u64,
    /// Answers to reads, and with which request they were given.
    seen: BTreeMap<String, (u64, Reply)>,
    /// Requests so far.
    n: u64,
    /// Requests that are still under way.
    pub(crate) late: Vec<Call>,
    /// What goes wrong with certain requests, whatever the seed says: method, part of the path, fault.
    planned: Vec<(&'static str, &'static str, Fault)>,
    /// A person who comes before the write with this number.
    person: Option<(u64, Person)>,
}

/// What a person does.
pub(crate) type Person = Box<dyn FnOnce(&mut State) + Send>;

impl Faults {
    pub(crate) fn new(seed: u64, per_mille: u64) -> Self {
        Self {
            random: Random::new(seed),
            per_mille,
            seen: BTreeMap::new(),
            n: 0,
            late: Vec::new(),
            planned: Vec::new(),
            person: None,
        }
    }

    /// Nothing goes wrong, but a person is faster than the `n`th request that is no plain read, counted from 0.
    pub(crate) fn person_before(n: u64, person: Person) -> Self {
        Self { person: Some((n, person)), ..Self::new(0, 0) }
    }

    /// The person has come.
    pub(crate) fn person_came(&self) -> bool {
        self.person.is_none()
    }

    /// Nothing by chance; each of these goes wrong once, with the first request that has the method and the part of the
    /// path.
    pub(crate) fn planned(planned: Vec<(&'static str, &'static str, Fault)>) -> Self {
        Self { planned, ..Self::new(0, 0) }
    }

    /// What goes wrong with this call, if anything.
    pub(crate) fn next(&mut self, call: &Call) -> Option<Fault> {
        self.n += 1;
        if !call.reads()
            && let Some((left, person)) = self.person.take()
        {
            match left {
                0 => return Some(Fault::After(person)),
                _ => self.person = Some((left - 1, person)),
            }
        }
        let planned =
            |(method, part, _): &(&str, &str, Fault)| call.method == *method && call.path.contains(part);
        if let Some(at) = self.planned.iter().position(planned) {
            return Some(self.planned.remove(at).2);
        }
        if self.random.below(1_000) >= self.per_mille {
            return None;
        }
        let error =
            |status: u16| Reply::json(status, &serde_json::json!({"message": "something went wrong"}));
        let limit = |status: u16| {
            Reply::json(status, &serde_json::json!({"message": "You have exceeded a secondary rate limit"}))
        };
        let known = self.seen.get(&key(call)).filter(|(n, _)| self.n - n <= MOST_LAG);
        let known = known.map(|(_, reply)| reply.clone());
        Some(match self.random.below(12) {
            0 => Fault::Refuse(error(500)),
            1 => Fault::Refuse(error(503)),
            2 => Fault::RefuseAfter(error(502)),
            3 => Fault::RefuseAfter(error(500)),
            4 => Fault::Drop,
            5 => Fault::DropAfter,
            6 if !call.reads() => Fault::Late,
            7 if !call.reads() => Fault::Twice,
            8 => Fault::Refuse(limit(403)),
            9 => Fault::Refuse(limit(403).with("retry-after", "60")),
            10 => Fault::Refuse(limit(429).with("retry-after", "1")),
            // GitHub and GitLab read from replicas that lag behind.
            _ => match known {
                Some(reply) if call.reads() => Fault::Stale(reply),
                _ => Fault::DropAfter,
            },
        })
    }

    pub(crate) fn remember(&mut self, call: &Call, reply: &Reply) {
        if reply.status == 200 {
            self.seen.insert(key(call), (self.n, reply.clone()));
        }
    }
}

fn key(call: &Call) -> String {
    format!("{} {}?{}", call.method, call.path, call.raw_query)
}
