//! Comments on a merge request, which GitLab calls notes.

use async_trait::async_trait;

use super::client::judged;
use super::endpoints::{self, Asked};
use super::{GitLab, dto};
use crate::forge::ForgeError;
use crate::forge::remote::comment::{Comment, Comments};

/// Those of one merge request.
pub(super) struct OfRequest<'a> {
    forge: &'a GitLab,
    pub(super) project: u64,
    pub(super) number: u64,
}

impl GitLab {
    pub(super) async fn comments(&self, id: &str) -> Result<OfRequest<'_>, ForgeError> {
        let project = self.project().await?.id;
        let nothing = || ForgeError::NotFound { what: self.on(&format!("merge request !{id}")) };
        Ok(OfRequest { forge: self, project, number: id.parse().map_err(|_| nothing())? })
    }
}

impl OfRequest<'_> {
    /// Every comment, by whomever and GitLab itself, in the order in which they were made.
    pub(super) async fn all(&self, what: &str) -> Result<Vec<dto::Note>, ForgeError> {
        let asked = endpoints::notes(self.project, self.number)?;
        let mut all: Vec<dto::Note> = self.forge.client.list(what, &asked).await?;
        // The latest comes first, so that one that is made between two pages moves the others.
        all.sort_by_key(|note| note.id);
        all.dedup_by_key(|note| note.id);
        Ok(all)
    }

    pub(super) fn what(&self, verb: &str) -> String {
        self.forge.on(&format!("{verb} on merge request !{}", self.number))
    }

    async fn write(&self, verb: &str, asked: &Asked) -> Result<(), ForgeError> {
        let what = self.what(verb);
        self.forge.client.write(&what, asked).await.and_then(|answer| judged(&what, answer)).map(drop)
    }
}

#[async_trait]
impl Comments for OfRequest<'_> {
    async fn own(&self) -> Result<Vec<Comment>, ForgeError> {
        let what = self.what("reading the comments");
        let mut own = Vec::new();
        for note in self.all(&what).await? {
            if !note.system && self.forge.is_bot(&note.author).await? {
                own.push(Comment { id: note.id, body: note.body });
            }
        }
        Ok(own)
    }

    async fn make(&self, text: &str) -> Result<(), ForgeError> {
        self.write("commenting", &endpoints::create_note(self.project, self.number, text)).await
    }

    async fn edit(&self, id: u64, text: &str) -> Result<(), ForgeError> {
        self.write("editing a comment", &endpoints::edit_note(self.project, self.number, id, text)).await
    }

    async fn delete(&self, id: u64) -> Result<(), ForgeError> {
        self.write("removing a comment", &endpoints::delete_note(self.project, self.number, id)).await
    }
}
