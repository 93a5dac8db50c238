//! What the server remembers, on SQLite and on PostgreSQL: the same stories, told twice.

/// A module `sqlite` and a module `postgres` with a test for each story, which gets a [`Base`].
macro_rules! on_both {
    ($($story:ident,)*) => {
        mod sqlite {
            $(#[test] fn $story() { crate::journeys::store::tell(crate::journeys::store::Base::sqlite(), super::$story) })*
        }
        mod postgres {
            $(#[test] fn $story() { crate::journeys::store::tell(crate::journeys::store::Base::postgres(), super::$story) })*
        }
    };
}

mod queue;

mod records;

use jiff::{SignedDuration, Timestamp};
use slicewright::store::Store;
use slicewright::store::jobs::NewJob;
use slicewright::store::settings::Settings;
use tempfile::TempDir;

use crate::world::postgres;

/// An empty database.
struct Base {
    settings: Settings,
    /// For as long as the story is told.
    _home: TempDir,
}

impl Base {
    fn sqlite() -> Self {
        let home = tempfile::tempdir().unwrap();
        let settings = Settings { path: Some(home.path().join("slicewright.db")), ..Settings::default() };
        Self { settings, _home: home }
    }

    fn postgres() -> Self {
        Self::at(&postgres::new_database())
    }

    /// A database of PostgreSQL, by its URL.
    fn at(url: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("url");
        std::fs::write(&file, format!("{url}\n")).unwrap();
        Self { settings: Settings { url_file: Some(file), ..Settings::default() }, _home: home }
    }

    async fn open(&self) -> Store {
        Store::open(&self.settings).await.unwrap()
    }

    /// The URL of PostgreSQL.
    fn url(&self) -> String {
        let file = self.settings.url_file.as_deref().expect("it is PostgreSQL");
        std::fs::read_to_string(file).unwrap().trim().to_owned()
    }
}

fn tell(base: Base, story: impl AsyncFnOnce(&Base)) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(story(&base));
}

/// So many seconds after the stories begin.
fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + seconds).unwrap()
}

const fn seconds(n: i64) -> SignedDuration {
    SignedDuration::from_secs(n)
}

/// The only kind of most stories.
const KIND: &str = "pass";

/// A job that is due at once.
fn job(lane: &str, topic: Option<&str>, payload: &str) -> NewJob {
    NewJob {
        lane: lane.to_owned(),
        topic: topic.map(str::to_owned),
        kind: KIND.to_owned(),
        payload: payload.to_owned(),
        due: at(0),
        priority: 0,
    }
}
