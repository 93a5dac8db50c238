//! The contents of files, by the least that has to be asked: what is at hand, then an archive, then one by one.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;

use super::archive;
use super::kept::Kept;
use crate::forge::ForgeError;
use crate::forge::content::LARGEST_TREE;

/// As many files are asked for one by one; for more an archive is less work.
const FEW_FILES: usize = 10;

/// Most files that are asked for one by one: what an archive leaves out is little, and forges count requests by the hour.
const MOST_FILES: usize = 1_000;

/// Contents by path.
pub(in crate::forge) type Contents = BTreeMap<String, Arc<Vec<u8>>>;

/// Contents that were read, by object id.
pub(in crate::forge) struct Blobs(Kept<Vec<u8>>);

impl Default for Blobs {
    /// Room for one repository that is read in full.
    fn default() -> Self {
        Self(Kept::new(usize::try_from(LARGEST_TREE).unwrap_or(usize::MAX)))
    }
}

/// Where contents come from.
#[async_trait]
pub(in crate::forge) trait Source: Sync {
    /// What was read earlier.
    fn blobs(&self) -> &Blobs;

    /// All files of a commit, as `.tar.gz`.
    async fn archive(&self, commit: &str) -> Result<Vec<u8>, ForgeError>;

    /// The content of the object `id`; `what` says what for.
    async fn blob(&self, what: &str, id: &str) -> Result<Vec<u8>, ForgeError>;
}

/// The contents of files (path to object id) at `commit` of the repository `name`.
///
/// # Errors
/// When the forge does not answer, sends something else than the objects that were asked for, or would have to be asked
/// too often.
pub(in crate::forge) async fn read(
    source: &dyn Source,
    name: &str,
    commit: &str,
    ids: &BTreeMap<String, String>,
) -> Result<Contents, ForgeError> {
    let kept = &source.blobs().0;
    let mut contents = BTreeMap::new();
    let mut missing = BTreeMap::new();
    for (path, id) in ids {
        match kept.get(id) {
            Some(content) => drop(contents.insert(path.clone(), content)),
            None => drop(missing.insert(path.clone(), id.clone())),
        }
    }
    if missing.len() > FEW_FILES {
        let unpacked = match unpacked(source, name, commit, &missing).await {
            // Archives are a service of their own, which a server, or a proxy before it, may not have for the bot.
            Err(error @ (ForgeError::NotFound { .. } | ForgeError::Denied { .. })) => {
                if missing.len() > MOST_FILES {
                    let what = format!(
                        "{error}: without it no more than {MOST_FILES} files are read one by one, and there are {}: let \
                         the bot's account download archives of the repository",
                        missing.len()
                    );
                    return Err(ForgeError::Blocked { what });
                }
                tracing::info!(%error, "{} files are read one by one", missing.len());
                BTreeMap::new()
            }
            unpacked => unpacked?,
        };
        for (path, content) in unpacked {
            let Some(id) = missing.remove(&path) else { continue };
            let weight = content.len();
            contents.insert(path, kept.put(&id, content, weight));
        }
    }
    if missing.len() > MOST_FILES {
        let what = format!(
            "reading {name} at {commit}: its archive leaves {} files out, and no more than {MOST_FILES} are read one by \
             one: narrow the lines with `export-ignore` and `export-subst` in .gitattributes",
            missing.len()
        );
        return Err(ForgeError::Failed { what, cause: None });
    }
    for (path, id) in missing {
        // The same content may stand in several places.
        let content = match kept.get(&id) {
            Some(content) => content,
            None => {
                let what = format!("reading `{path}` of {name} at {commit}");
                let content = source.blob(&what, &id).await?;
                if archive::object_id(&content, id.len()) != id {
                    let what = format!("{what}: what came is not what the listing names");
                    return Err(ForgeError::Failed { what, cause: None });
                }
                let weight = content.len();
                kept.put(&id, content, weight)
            }
        };
        contents.insert(path, content);
    }
    Ok(contents)
}

async fn unpacked(
    source: &dyn Source,
    name: &str,
    commit: &str,
    wanted: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, Vec<u8>>, ForgeError> {
    let packed = source.archive(commit).await?;
    let wanted = wanted.clone();
    let unpacked = tokio::task::spawn_blocking(move || archive::unpack(&packed, &wanted)).await;
    let unpacked = unpacked.unwrap_or_else(|cause| Err(std::io::Error::other(cause)));
    unpacked.map_err(|cause| ForgeError::Failed {
        what: format!("reading the archive of {name} at {commit}: it is damaged"),
        cause: Some(Box::new(cause)),
    })
}
