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
use crate::forge::branch::own;
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

    /// A folder is called after its branch: the number of the merge request is the branch's name.
    async fn branch_of(&self, request: &str) -> Result<Option<String>, ForgeError> {
        let branch = request.to_owned();
        self.aside(move |local| {
            let base = local.base_branch()?;
            match own(branch, &local.settings.branch_prefix, &base) {
                Some(branch) if local.folder(&branch).is_there()? => Ok(Some(branch)),
                _ => Ok(None),
            }
        })
        .await
    }

    async fn label(&self, request: &str, label: &str, on: bool) -> Result<(), ForgeError> {
        let (branch, label) = (request.to_owned(), label.to_owned());
        self.aside(move |local| {
            local.own_ref(&branch)?;
            local.folder(&branch).label(&label, on)
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

    /// Whoever may write here has an account on this machine.
    async fn is_person(&self, _person: &Person) -> Result<bool, ForgeError> {
        Ok(true)
    }

    /// The dashboard is a file, and nobody tells of who wrote there.
    async fn empty_boxes(&self, _title: &str, _issue: &str) -> Result<bool, ForgeError> {
        Ok(false)
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

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::Settings;
    use super::*;
    use crate::forge::Topic;

    const BRANCH: &str = "slicewright/dc1/a100";

    struct World {
        folder: tempfile::TempDir,
        comments: PathBuf,
        local: Local,
        runtime: tokio::runtime::Runtime,
    }

    impl World {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let repository = folder.path().join("infra.git");
            let files = [("a.yaml".to_owned(), b"a: 1\n".to_vec())].into();
            crate::forge::new_repository(&repository, "main", &files).unwrap();
            let requests = folder.path().join("requests");
            let comments = requests.join("slicewright__dc1__a100/comments");
            let local = Local::open(Settings::new(&repository, &requests)).unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            Self { folder, comments, local, runtime }
        }

        fn wait<T>(&self, asked: impl Future<Output = Result<T, ForgeError>>) -> T {
            self.runtime.block_on(asked).unwrap()
        }

        fn write(&self, name: &str, text: &str) {
            std::fs::create_dir_all(&self.comments).unwrap();
            std::fs::write(self.comments.join(name), text).unwrap();
        }

        fn names(&self, after: Option<&str>) -> Vec<String> {
            let read = self.wait(self.local.comments(BRANCH, after));
            read.into_iter().map(|remark| remark.id).collect()
        }
    }

    #[test]
    fn the_owner_of_the_folder_may_everything_and_nobody_else_anything() {
        let world = World::new();
        let person = |id| Person { id, login: "x".into() };
        let owner = u64::from(std::fs::metadata(world.folder.path()).unwrap().uid());
        assert_eq!(world.wait(world.local.role(&person(owner))), Role::Admin, "before the folder is there");
        world.write("a.md", "x");
        assert_eq!(world.wait(world.local.role(&person(owner))), Role::Admin);
        assert_eq!(world.wait(world.local.role(&person(owner + 1))), Role::None);
    }

    #[test]
    fn what_people_write_is_a_comment_and_what_the_bot_writes_is_none() {
        let world = World::new();
        assert_eq!(world.names(None), [""; 0]);
        world.local.say(BRANCH, Topic::Status, Some("All is well.")).unwrap();
        world.wait(world.local.reply(BRANCH, "1", "I did."));
        world.write("robin.md", "slicewright help\r\n");
        world.write("note.txt", "no comment");
        world.write(".kim.md", "not finished");
        std::os::unix::fs::symlink("/etc/passwd", world.comments.join("link.md")).unwrap();
        let read = world.wait(world.local.comments(BRANCH, None));
        let [remark] = read.as_slice() else { panic!("{read:?}") };
        assert_eq!((remark.id.as_str(), remark.text.as_str()), ("robin", "slicewright help\n"));
        assert!(!remark.is_bot && !remark.own && remark.edited.is_none());
        assert_eq!(world.names(Some("robin")), [""; 0]);
        assert_eq!(world.names(Some("gone")), ["robin"]);
    }

    #[test]
    fn a_folder_is_called_after_its_branch() {
        let world = World::new();
        let branch_of = |request: &str| world.wait(world.local.branch_of(request));
        assert_eq!(branch_of(BRANCH), None, "there is no merge request yet");
        let folder = world.comments.parent().unwrap();
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(folder.join("body.md"), "# Share\n").unwrap();
        assert_eq!(branch_of(BRANCH).as_deref(), Some(BRANCH));
        for request in ["main", "kim/topic", "slicewright", "slicewright/../main", "1", ""] {
            assert_eq!(branch_of(request), None, "{request}");
        }
    }

    #[test]
    fn a_label_is_put_on_and_taken_off_and_all_else_stays() {
        let world = World::new();
        let refused = world.runtime.block_on(world.local.label(BRANCH, "x", true)).unwrap_err();
        assert!(matches!(refused, ForgeError::NotFound { .. }), "{refused}");
        let folder = world.comments.parent().unwrap().to_owned();
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("body.md"), "# Title\n\ntext\n").unwrap();
        let shown = || -> (String, Vec<String>) {
            let text = std::fs::read_to_string(folder.join("state.json")).unwrap();
            let state: serde_json::Value = serde_json::from_str(&text).unwrap();
            let labels = serde_json::from_value(state["labels"].clone()).unwrap();
            (state["state"].as_str().unwrap().to_owned(), labels)
        };
        let label = |on| world.wait(world.local.label(BRANCH, "slicewright/hold", on));
        label(true);
        assert_eq!(shown(), ("open".into(), vec!["slicewright/hold".into()]), "the file was not there");

        let written = r#"{"state": "declined", "labels": ["gpu", "Slicewright/Hold"]}"#;
        std::fs::write(folder.join("state.json"), written).unwrap();
        label(true);
        assert_eq!(std::fs::read_to_string(folder.join("state.json")).unwrap(), written, "it is on already");
        for _ in 0..2 {
            label(false);
            assert_eq!(shown(), ("declined".into(), vec!["gpu".into()]));
        }
    }

    #[test]
    fn an_answer_is_given_once_and_stays_as_it_was() {
        let world = World::new();
        world.wait(world.local.reply(BRANCH, "4711", "I did."));
        world.wait(world.local.reply(BRANCH, "4711", "I did it again."));
        world.wait(world.local.react(BRANCH, "robin", Reaction::Seen));
        let said = std::fs::read_to_string(world.comments.join("reply-4711.md")).unwrap();
        assert_eq!(said, "I did.\n");
        for marker in ["../x", "", "a/b"] {
            let refused = world.runtime.block_on(world.local.reply(BRANCH, marker, "x"));
            assert!(refused.is_err(), "{marker}");
        }
    }
}
