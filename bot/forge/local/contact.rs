//! People of a folder: whoever may write there.
//!
//! A comment is a file `comments/<name>.md` of a merge request; who it belongs to wrote it. The owner of the folder with the
//! merge requests may everything, and nobody else anything: that is the one right that a file system tells for sure. Files
//! of the bot (`<topic>.md`, `reply-<marker>.md`) are no comments of people.
//!
//! Nothing reacts here: a file that a person wrote is theirs to write, and the answer lies beside it a moment later. Hooks,
//! uploads and access tokens are nothing that a folder has.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use async_trait::async_trait;
use jiff::Timestamp;

use super::Local;
use super::folder::failed;
use crate::forge::ForgeError;
use crate::forge::contact::checkup::Checkup;
use crate::forge::contact::{Contact, Delivery, Person, Reaction, Remark, Role};
use crate::forge::remote::comment::check_marker;

#[async_trait]
impl Contact for Local {
    async fn role(&self, person: &Person) -> Result<Role, ForgeError> {
        let id = person.id;
        self.aside(move |local| {
            let owner = owner_of(&local.settings.requests)?;
            Ok(if u64::from(owner.uid()) == id { Role::Admin } else { Role::None })
        })
        .await
    }

    async fn comments(&self, request: &str, after: Option<&str>) -> Result<Vec<Remark>, ForgeError> {
        let (branch, after) = (request.to_owned(), after.map(str::to_owned));
        self.aside(move |local| {
            local.own_ref(&branch)?;
            let mut remarks = Vec::new();
            for (name, text, facts) in local.folder(&branch).remarks()? {
                remarks.push(remark(name, text, &facts)?);
            }
            remarks.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
            let seen = after.and_then(|after| remarks.iter().position(|remark| remark.id == after));
            Ok(remarks.split_off(seen.map_or(0, |seen| seen + 1)))
        })
        .await
    }

    async fn react(&self, _: &str, _: &str, _: Reaction) -> Result<(), ForgeError> {
        Ok(())
    }

    async fn reply(&self, request: &str, marker: &str, text: &str) -> Result<(), ForgeError> {
        check_marker(marker)?;
        let [branch, marker, text] = [request, marker, text].map(str::to_owned);
        self.aside(move |local| {
            local.own_ref(&branch)?;
            local.folder(&branch).reply(&marker, &text)
        })
        .await
    }

    async fn attach(&self, _: &str, _: &[u8]) -> Result<Option<String>, ForgeError> {
        Ok(None)
    }

    async fn failed_deliveries(&self, _: &str, _: Timestamp) -> Result<Vec<Delivery>, ForgeError> {
        Ok(Vec::new())
    }

    async fn redeliver(&self, _: &Delivery) -> Result<(), ForgeError> {
        Err(ForgeError::NotFound { what: "a delivery in a folder".to_owned() })
    }

    async fn checkup(&self, _: Option<&str>) -> Result<Option<Checkup>, ForgeError> {
        Ok(None)
    }
}

/// The facts of the folder, or of the nearest one above it that is there: it is made when it is first needed.
fn owner_of(folder: &Path) -> Result<Metadata, ForgeError> {
    let mut at = Some(folder);
    while let Some(path) = at {
        match std::fs::metadata(path) {
            Ok(facts) => return Ok(facts),
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed(format!("cannot look at `{}`", path.display()), error));
            }
            Err(_) => at = path.parent(),
        }
    }
    Err(ForgeError::NotFound { what: format!("a folder above `{}`", folder.display()) })
}

fn remark(name: String, text: String, facts: &Metadata) -> Result<Remark, ForgeError> {
    let nanoseconds = i32::try_from(facts.mtime_nsec()).unwrap_or_default();
    let created = Timestamp::new(facts.mtime(), nanoseconds).map_err(|cause| ForgeError::Failed {
        what: format!("the time of comment `{name}`"),
        cause: Some(Box::new(cause)),
    })?;
    let uid = u64::from(facts.uid());
    Ok(Remark {
        id: name,
        author: Some(Person { id: uid, login: format!("uid-{uid}") }),
        is_bot: false,
        own: false,
        text,
        created,
        edited: None,
        system: false,
        internal: false,
    })
}
