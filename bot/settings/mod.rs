//! What the files of the operator may say.
//!
//! Each module owns its own settings type; this folder joins them into one file and checks what no single one can.

pub mod catalog;

pub mod repo;

pub mod server;

mod service;

mod secret;

mod cron;
mod lines;
mod wording;

pub use server::ServerSettings;
pub use service::{
    Author, ClusterSettings, OperatorSettings, RepositorySettings, ServiceSettings, SettingsError,
};
