//! What the configuration may say about the server's memory.

use std::path::PathBuf;

use serde::Deserialize;

/// Where the server keeps what it was told and what it has to do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// An SQLite file, made where it is missing. Default `slicewright.db` beside the configuration.
    pub path: Option<PathBuf>,
    /// File with the URL of a PostgreSQL database, `postgres://…`: for several replicas.
    pub url_file: Option<PathBuf>,
    /// Environment variable with that URL.
    pub url_env: Option<String>,
    /// Days for which what was done is kept. Default 30.
    pub keep_days: Option<u32>,
}

/// Fewest days that deliveries are known for: forges send them again for up to seven.
pub(super) const FEWEST_DAYS: u32 = 8;

impl Settings {
    /// Days for which what was done is kept.
    pub fn keep_days(&self) -> u32 {
        self.keep_days.unwrap_or(30)
    }

    /// Every file that is named here, to be made absolute.
    pub fn files_mut(&mut self) -> Vec<&mut PathBuf> {
        [self.path.as_mut(), self.url_file.as_mut()].into_iter().flatten().collect()
    }

    /// The first value that cannot be meant, as setting and what is wrong with it.
    ///
    /// # Errors
    /// Two places for one memory, or too few days.
    pub fn check(&self) -> Result<(), (String, String)> {
        let wrong = |setting: &str, problem: String| Err((setting.to_owned(), problem));
        let n_places = [self.path.is_some(), self.url_file.is_some(), self.url_env.is_some()]
            .iter()
            .filter(|one| **one)
            .count();
        if n_places > 1 {
            return wrong("path", "give one of `path`, `url_file` and `url_env`".to_owned());
        }
        if !(FEWEST_DAYS..=3_650).contains(&self.keep_days()) {
            return wrong(
                "keep_days",
                format!(
                    "must be between {FEWEST_DAYS}, for as long as forges send deliveries again, and 3650"
                ),
            );
        }
        Ok(())
    }
}
