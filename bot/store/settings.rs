//! What the configuration may say about the store.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use secrecy::SecretString;
use serde::Deserialize;

use super::error::StoreError;

/// Where the server remembers what it was told and what it did.
///
/// A file of its own, or PostgreSQL where several servers share the work. The URL is a secret: it is named here (a file or
/// an environment variable), never written here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// SQLite file, on a disk of this machine. Default: `slicewright.db` beside the configuration.
    pub path: Option<PathBuf>,
    /// File with the URL of a PostgreSQL database, `postgres://bot:…@db.example.com/slicewright?sslmode=verify-full`.
    pub url_file: Option<PathBuf>,
    /// Environment variable with such a URL.
    pub url_env: Option<String>,
    /// How many connections to PostgreSQL a server opens at most. Default 8.
    pub connections: Option<u32>,
    /// Days for which commands, runs and jobs that were given up are remembered. Default 30.
    pub keep_days: Option<u32>,
}

/// The file of a server that was told no other.
const DEFAULT_FILE: &str = "slicewright.db";

/// Which database the settings mean.
pub(super) enum Place {
    Sqlite(PathBuf),
    Postgres(SecretString),
}

impl Settings {
    /// Every file that the settings name or mean, to be made absolute.
    pub fn files_mut(&mut self) -> Vec<&mut PathBuf> {
        if self.path.is_none() && self.url_file.is_none() && self.url_env.is_none() {
            self.path = Some(PathBuf::from(DEFAULT_FILE));
        }
        [self.path.as_mut(), self.url_file.as_mut()].into_iter().flatten().collect()
    }

    /// The first value that cannot be meant, as setting and what is wrong with it.
    ///
    /// # Errors
    /// More than one database; none of the numbers may be zero.
    pub fn check(&self) -> Result<(), (String, String)> {
        let wrong = |setting: &str, problem: &str| Err((setting.to_owned(), problem.to_owned()));
        let given = [self.path.is_some(), self.url_file.is_some(), self.url_env.is_some()];
        if given.into_iter().filter(|given| *given).count() > 1 {
            return wrong("path", "give one of `path`, `url_file` and `url_env`, not several");
        }
        if !(1..=1_000).contains(&self.connections()) {
            return wrong("connections", "must be between 1 and 1000");
        }
        if !(1..=3_650).contains(&self.keep_days()) {
            return wrong("keep_days", "must be between 1 and 3650");
        }
        Ok(())
    }

    pub(super) fn connections(&self) -> u32 {
        self.connections.unwrap_or(8)
    }

    pub(super) fn keep_days(&self) -> u32 {
        self.keep_days.unwrap_or(30)
    }

    /// The database that is meant, for people: by where its URL is, which is a secret.
    pub fn shown(&self) -> String {
        match (&self.url_file, &self.url_env) {
            (Some(file), _) => format!("PostgreSQL by the URL in `{}` (`url_file`)", file.display()),
            (None, Some(name)) => format!("PostgreSQL by the URL in the variable `{name}` (`url_env`)"),
            (None, None) => {
                let path = self.path.as_deref().unwrap_or(Path::new(DEFAULT_FILE));
                format!("the file `{}` (`path`)", path.display())
            }
        }
    }

    /// The database that is meant; reads the URL.
    pub(super) fn place(&self) -> Result<Place, StoreError> {
        let invalid = |problem: String| StoreError::invalid("open the store", problem);
        self.check().map_err(|(setting, problem)| invalid(format!("`store.{setting}`: {problem}")))?;
        let url = match (&self.url_file, &self.url_env) {
            (Some(file), _) => std::fs::read_to_string(file).map_err(|cause| {
                invalid(format!("`store.url_file`: cannot read `{}`: {cause}", file.display()))
            })?,
            (None, Some(name)) => std::env::var(name).map_err(|_| {
                invalid(format!("`store.url_env`: the environment variable `{name}` is not set"))
            })?,
            (None, None) => {
                let path = self.path.as_deref().unwrap_or(Path::new(DEFAULT_FILE));
                return Ok(Place::Sqlite(path.to_owned()));
            }
        };
        Ok(Place::Postgres(SecretString::from(url.trim())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_meant_is_refused_by_name() {
        let both = Settings { path: Some("a.db".into()), url_env: Some("URL".into()), ..Settings::default() };
        let none = Settings { connections: Some(0), ..Settings::default() };
        let never = Settings { keep_days: Some(0), ..Settings::default() };
        for (settings, setting) in [(both, "path"), (none, "connections"), (never, "keep_days")] {
            assert_eq!(settings.check().unwrap_err().0, setting);
        }
        assert_eq!(Settings::default().check(), Ok(()));
    }

    #[test]
    fn a_file_of_its_own_is_meant_where_no_url_is_given() {
        let mut none = Settings::default();
        none.files_mut().into_iter().for_each(|path| *path = Path::new("/etc/slicewright").join(&*path));
        assert_eq!(none.path.as_deref(), Some(Path::new("/etc/slicewright/slicewright.db")));
        let mut url = Settings { url_env: Some("URL".into()), ..Settings::default() };
        assert!(url.files_mut().is_empty());
    }
}
