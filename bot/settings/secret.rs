//! Where secrets of the configuration are, and what is none.

use std::path::PathBuf;

use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use slicewright_core::review::signature::SigningKey;

/// Fewest bytes of a secret. `openssl rand -hex 32` makes 64; what people think up is shorter.
const SHORTEST_SECRET: usize = 24;

/// Where a secret is. One of the two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SecretPlace {
    /// A file.
    pub file: Option<PathBuf>,
    /// An environment variable.
    pub env: Option<String>,
}

impl SecretPlace {
    /// The signing key that is there.
    ///
    /// # Errors
    /// When it cannot be read, or is too short to be a secret.
    pub fn read(&self) -> Result<SigningKey, SecretError> {
        let text = self.read_text()?;
        SigningKey::new(text.expose_secret().as_bytes()).ok_or(SecretError::Short { place: self.shown() })
    }

    /// The secret that is there, without blanks around it.
    ///
    /// # Errors
    /// When it cannot be read, or is too short to be a secret.
    pub fn read_text(&self) -> Result<SecretString, SecretError> {
        let text = match (&self.file, &self.env) {
            (Some(path), None) => std::fs::read_to_string(path)
                .map_err(|cause| SecretError::File { path: path.display().to_string(), cause })?,
            (None, Some(name)) => {
                std::env::var(name).map_err(|_| SecretError::Variable { name: name.clone() })?
            }
            _ => return Err(SecretError::Ambiguous),
        };
        let text = text.trim();
        if text.len() < SHORTEST_SECRET {
            return Err(SecretError::Short { place: self.shown() });
        }
        Ok(SecretString::from(text))
    }

    /// Where it is.
    fn shown(&self) -> String {
        let file = self.file.as_ref().map(|path| path.display().to_string());
        file.or_else(|| self.env.clone()).unwrap_or_default()
    }
}

/// A secret that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The file cannot be read.
    #[error("cannot read `{path}`")]
    File {
        /// The file.
        path: String,
        /// Why.
        #[source]
        cause: std::io::Error,
    },
    /// The variable is not set.
    #[error("the environment variable `{name}` is not set")]
    Variable {
        /// The variable.
        name: String,
    },
    /// Both places, or none.
    #[error("give either `file` or `env`")]
    Ambiguous,
    /// Too short.
    #[error("the secret in `{place}` has fewer than 24 bytes: `openssl rand -hex 32` makes one")]
    Short {
        /// Where it is.
        place: String,
    },
}
