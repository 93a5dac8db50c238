//! What reviewers asked for, beside what the configuration says.
//!
//! A command changes these and nothing else: the proposal is then planned again from scratch.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::catalog::profile_name::ProfileName;
use crate::plan::Goal;
use crate::policy::Method;

/// Largest headroom that can be asked for, percent. Three times the peak is no slice any more.
const MOST_HEADROOM: u32 = 200;

/// Most pods on one card that can be asked for. NVIDIA allows 48 MPS clients on a card; no policy gets near it.
const MOST_REPLICAS: u32 = 48;

/// The wishes of one proposal's reviewers. Empty: none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Overrides {
    /// On top of the peak memory, percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headroom_percent: Option<u32>,
    /// The only way of sharing that is weighed; `KeepWhole`: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<Method>,
    /// Workloads that keep what they have.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub exclude: BTreeSet<Item>,
    /// Smallest slice to use, `2g.10gb`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_profile: Option<ProfileName>,
    /// What is freed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal: Option<Goal>,
    /// Most pods on one card that takes turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_replicas: Option<u32>,
}

/// What a reviewer may wish for, by the key that stands before the `=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wish {
    /// `headroom`
    Headroom,
    /// `method`
    Method,
    /// `exclude`
    Exclude,
    /// `min-profile`
    MinProfile,
    /// `goal`
    Goal,
    /// `max-replicas`
    MaxReplicas,
}

impl Wish {
    /// All of them, in the order in which people read them.
    pub const ALL: [Self; 6] =
        [Self::Headroom, Self::Method, Self::Exclude, Self::MinProfile, Self::Goal, Self::MaxReplicas];

    /// The key.
    pub fn key(self) -> &'static str {
        match self {
            Self::Headroom => "headroom",
            Self::Method => "method",
            Self::Exclude => "exclude",
            Self::MinProfile => "min-profile",
            Self::Goal => "goal",
            Self::MaxReplicas => "max-replicas",
        }
    }
}

/// What one command wishes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// Values that hold from now on.
    pub overrides: Overrides,
    /// What goes back to what the configuration says.
    pub back: BTreeSet<Wish>,
}

impl Wishes {
    /// Adds one wish; `key` is one of those that `set` takes. `default` takes back what was wished for.
    ///
    /// # Errors
    /// Why the value cannot be meant, with what could.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let wish = Wish::ALL.into_iter().find(|wish| wish.key() == key);
        match wish.filter(|_| value == "default") {
            Some(wish) => {
                self.back.insert(wish);
                Ok(())
            }
            None => self.overrides.set(key, value),
        }
    }

    /// Nothing is wished for.
    pub fn is_empty(&self) -> bool {
        self.overrides.is_empty() && self.back.is_empty()
    }

    /// Every wish as people write it.
    pub fn shown(&self) -> Vec<String> {
        let back = self.back.iter().map(|wish| format!("{}=default", wish.key()));
        self.overrides.shown().into_iter().chain(back).collect()
    }
}

/// A workload as a reviewer names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Item {
    /// Its number in the proposal's table, from 1. It holds for the text that the reviewer saw.
    Number(u32),
    /// By name, of whatever kind.
    Workload {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Workload { namespace, name } => write!(f, "{namespace}/{name}"),
        }
    }
}

impl From<Item> for String {
    fn from(item: Item) -> Self {
        item.to_string()
    }
}

impl TryFrom<String> for Item {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
    }
}

impl Item {
    /// A number, or `namespace/name`.
    ///
    /// # Errors
    /// What it should be instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is neither an item's number nor `namespace/workload`");
        if let Ok(number) = text.parse::<u32>() {
            return if number == 0 { Err(wrong()) } else { Ok(Self::Number(number)) };
        }
        let plain = |part: &str| {
            part.starts_with(|c: char| c.is_ascii_alphanumeric())
                && part.len() <= 253
                && part.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
        };
        match text.split_once('/') {
            Some((namespace, name)) if plain(namespace) && plain(name) => {
                Ok(Self::Workload { namespace: namespace.to_owned(), name: name.to_owned() })
            }
            _ => Err(wrong()),
        }
    }
}

impl Overrides {
    /// Adds one wish; `key` is one of those that `set` takes.
    ///
    /// # Errors
    /// Why the value cannot be meant, with what could.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "headroom" => self.headroom_percent = Some(percent(value)?),
            "method" => {
                self.method = Some(match value {
                    "mig" => Method::Mig,
                    "time-slicing" => Method::TimeSlicing,
                    "mps" => Method::Mps,
                    "keep" => Method::KeepWhole,
                    _ => return Err(format!("`{value}` is none of mig, time-slicing, mps, keep")),
                });
            }
            "exclude" => {
                self.exclude.insert(Item::parse(value)?);
            }
            "min-profile" => {
                let name = value.parse::<ProfileName>();
                let name = name.map_err(|_| format!("`{value}` is no MIG profile, such as `2g.10gb`"))?;
                self.min_profile = Some(name);
            }
            "goal" => {
                self.goal = Some(match value {
                    "bill" => Goal::Bill,
                    "capacity" => Goal::Capacity,
                    _ => return Err(format!("`{value}` is neither bill nor capacity")),
                });
            }
            "max-replicas" => {
                let number = value.parse().ok().filter(|number| (2..=MOST_REPLICAS).contains(number));
                let wrong = || format!("`{value}` is no number between 2 and {MOST_REPLICAS}");
                self.max_replicas = Some(number.ok_or_else(wrong)?);
            }
            _ => return Err(format!("there is no `{key}`")),
        }
        Ok(())
    }

    /// Takes over what `later` says; what it does not say stays.
    pub fn merge(&mut self, later: Wishes) {
        for wish in later.back {
            match wish {
                Wish::Headroom => self.headroom_percent = None,
                Wish::Method => self.method = None,
                Wish::Exclude => self.exclude.clear(),
                Wish::MinProfile => self.min_profile = None,
                Wish::Goal => self.goal = None,
                Wish::MaxReplicas => self.max_replicas = None,
            }
        }
        let Self { headroom_percent, method, exclude, min_profile, goal, max_replicas } = later.overrides;
        self.headroom_percent = headroom_percent.or(self.headroom_percent);
        self.method = method.or(self.method);
        self.exclude.extend(exclude);
        self.min_profile = min_profile.or(self.min_profile);
        self.goal = goal.or(self.goal);
        self.max_replicas = max_replicas.or(self.max_replicas);
    }

    /// Nothing is asked for.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Every wish as people write it: `headroom=30%`.
    pub fn shown(&self) -> Vec<String> {
        let one = |wish: Wish, value: Option<String>| value.map(|value| format!("{}={value}", wish.key()));
        let method = self.method.map(|method| match method {
            Method::Mig => "mig",
            Method::TimeSlicing => "time-slicing",
            Method::Mps => "mps",
            Method::KeepWhole => "keep",
        });
        let single = [
            one(Wish::Headroom, self.headroom_percent.map(|percent| format!("{percent}%"))),
            one(Wish::Method, method.map(str::to_owned)),
            one(Wish::MinProfile, self.min_profile.as_ref().map(ToString::to_string)),
            one(Wish::Goal, self.goal.map(|goal| goal.name().to_owned())),
            one(Wish::MaxReplicas, self.max_replicas.map(|most| most.to_string())),
        ];
        let excluded = self.exclude.iter().map(|item| format!("{}={item}", Wish::Exclude.key()));
        single.into_iter().flatten().chain(excluded).collect()
    }
}

fn percent(value: &str) -> Result<u32, String> {
    let number = value.strip_suffix('%').unwrap_or(value).parse().ok();
    number
        .filter(|number| *number <= MOST_HEADROOM)
        .ok_or_else(|| format!("`{value}` is no percentage between 0 and {MOST_HEADROOM}, such as `30%`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_have_bounds_and_say_them() {
        for (key, value, says) in [
            ("headroom", "201%", "between 0 and 200"),
            ("headroom", "-1", "between 0 and 200"),
            ("method", "MIG", "none of mig"),
            ("exclude", "0", "neither an item's number"),
            ("exclude", "a/b/c", "neither an item's number"),
            ("exclude", "../x", "neither an item's number"),
            ("min-profile", "big", "such as `2g.10gb`"),
            ("goal", "fame", "neither bill nor capacity"),
            ("max-replicas", "1", "between 2 and 48"),
            ("max-replicas", "99", "between 2 and 48"),
            ("nothing", "1", "there is no `nothing`"),
        ] {
            let error = Overrides::default().set(key, value).unwrap_err();
            assert!(error.contains(says), "{key}={value}: {error}");
        }
    }

    #[test]
    fn later_wishes_win_and_the_others_stay() {
        let mut wishes = Overrides::default();
        for (key, value) in [("headroom", "30%"), ("exclude", "search/ranker"), ("goal", "bill")] {
            wishes.set(key, value).unwrap();
        }
        let mut later = Wishes::default();
        for (key, value) in [("headroom", "40"), ("exclude", "3"), ("min-profile", "2g.10gb")] {
            later.set(key, value).unwrap();
        }
        wishes.merge(later);
        assert_eq!(wishes.headroom_percent, Some(40));
        assert_eq!(wishes.exclude.len(), 2);
        assert_eq!((wishes.goal, wishes.min_profile), (Some(Goal::Bill), "2g.10gb".parse().ok()));
        let json = serde_json::to_string(&wishes).unwrap();
        assert_eq!(serde_json::from_str::<Overrides>(&json).unwrap(), wishes);
        assert_eq!(
            wishes.shown(),
            ["headroom=40%", "min-profile=2g.10gb", "goal=bill", "exclude=3", "exclude=search/ranker"]
        );
    }

    #[test]
    fn every_wish_can_be_taken_back() {
        let mut wishes = Overrides::default();
        let values = ["30%", "mig", "search/ranker", "2g.10gb", "capacity", "4"];
        for (wish, value) in Wish::ALL.into_iter().zip(values) {
            let mut asked = Wishes::default();
            asked.set(wish.key(), value).unwrap();
            wishes.merge(asked);
            assert_eq!(wishes.shown(), [format!("{}={value}", wish.key())]);
            let mut back = Wishes::default();
            back.set(wish.key(), "default").unwrap();
            assert!(!back.is_empty());
            wishes.merge(back);
            assert!(wishes.is_empty(), "{wish:?}");
        }
        assert!(Wishes::default().set("nothing", "default").is_err());
    }
}
