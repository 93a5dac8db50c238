//! The server's memory.

mod settings;

pub use settings::Settings;
