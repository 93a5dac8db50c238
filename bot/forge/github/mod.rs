//! GitHub.

use async_trait::async_trait;

use super::settings::Settings;
use super::{Commit, Forge, ForgeError, Found, Identity, RequestText, Target, Topic, Tree};

/// One repository on GitHub.
pub(super) struct GitHub {
    target: Target,
}

impl GitHub {
    pub(super) fn new(_settings: &Settings, target: Target) -> Result<Self, ForgeError> {
        Ok(Self { target })
    }

    fn missing(&self) -> ForgeError {
        ForgeError::Blocked { what: format!("{}: not built yet", self.target.repository) }
    }
}

#[async_trait]
impl Forge for GitHub {
    async fn base_branch(&self) -> Result<String, ForgeError> {
        Err(self.missing())
    }

    async fn head(&self) -> Result<String, ForgeError> {
        Err(self.missing())
    }

    async fn read_tree(&self, _commit: &str) -> Result<Tree, ForgeError> {
        Err(self.missing())
    }

    async fn find(&self, _branch: &str) -> Result<Found, ForgeError> {
        Err(self.missing())
    }

    async fn publish(
        &self,
        _branch: &str,
        _expected_head: Option<&str>,
        _commit: &Commit,
    ) -> Result<String, ForgeError> {
        Err(self.missing())
    }

    async fn write_request(
        &self,
        _branch: &str,
        _open: Option<&str>,
        _request: &RequestText,
    ) -> Result<String, ForgeError> {
        Err(self.missing())
    }

    async fn close(
        &self,
        _branch: &str,
        _expected_head: Option<&str>,
        _id: Option<&str>,
        _title: &str,
        _body: &str,
    ) -> Result<(), ForgeError> {
        Err(self.missing())
    }

    async fn say(
        &self,
        _branch: &str,
        _id: &str,
        _topic: Topic,
        _text: Option<&str>,
    ) -> Result<(), ForgeError> {
        Err(self.missing())
    }

    async fn identity(&self) -> Result<Identity, ForgeError> {
        Err(self.missing())
    }
}
