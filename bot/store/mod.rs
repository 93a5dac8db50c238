//! What the server remembers: deliveries, the queue of jobs, schedules, commands, runs and what its pages show.
//!
//! The forge is the truth about proposals, so all of this may be lost: the bot starts with an empty store and fills it
//! again. What was acknowledged is there after `kill -9` and after a loss of power. SQLite in a file of its own, or
//! PostgreSQL where several servers share the work; both by the same statements.
//!
//! The store has no clock: every moment is an argument, kept to the millisecond. What JSON in it means is for others.

mod error;

mod database;

mod schema;

pub mod settings;

pub mod jobs;

pub mod leases;

pub mod deliveries;

pub mod schedules;

pub mod commands;

pub mod runs;

pub mod pages;

pub mod compact;

use secrecy::ExposeSecret as _;

use database::{Databases, Session};
use deliveries::Intake;
pub use error::StoreError;
use settings::{Place, Settings};

/// The memory of the server. A copy is the same store.
#[derive(Clone, Debug)]
pub struct Store {
    databases: Databases,
    intake: Intake,
    keep_days: u32,
}

impl Store {
    /// Connects, makes what is not there, and brings the schema up to date.
    ///
    /// # Errors
    /// Settings that cannot be meant, a database that is not there, is damaged, or was written by a newer program.
    pub async fn open(settings: &Settings) -> Result<Self, StoreError> {
        const DOING: &str = "open the store";
        let (databases, place) = match settings.place()? {
            Place::Sqlite(path) => (Databases::sqlite(&path, DOING).await?, format!("`{}`", path.display())),
            Place::Postgres(url) => {
                let n = settings.connections();
                (Databases::postgres(url.expose_secret(), n, DOING).await?, "on PostgreSQL".to_owned())
            }
        };
        schema::bring_up_to_date(&databases, &place, DOING).await?;
        let intake = Intake::start(databases.clone());
        Ok(Self { databases, intake, keep_days: settings.keep_days() })
    }

    /// Several servers may use it at once.
    pub fn is_shared(&self) -> bool {
        matches!(self.databases, Databases::Postgres(_))
    }

    /// Writes into the database what is there already: a server that cannot takes no deliveries.
    ///
    /// # Errors
    /// When it does not answer within seconds, or has no room.
    pub async fn check(&self) -> Result<(), StoreError> {
        let mut session = self.write("write into the store").await?;
        session.run("UPDATE schema_version SET version = version", &[]).await?;
        session.commit().await
    }

    /// Waits for those who still use it, and closes; every copy answers with an error from then on.
    pub async fn close(&self) {
        self.databases.close().await;
    }

    async fn read(&self, doing: &'static str) -> Result<Session, StoreError> {
        self.databases.read(doing).await
    }

    async fn write(&self, doing: &'static str) -> Result<Session, StoreError> {
        self.databases.write(doing).await
    }
}
