//! What the last run of each thing found, as the pages show it. What the JSON means is for who writes and reads it.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::database::{Sql, list, moment};
use super::{Store, StoreError};

/// One page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// What it is about, within its kind.
    pub key: String,
    /// What is known.
    pub json: String,
    /// As of when.
    pub at: Timestamp,
}

impl Store {
    /// Writes a page, unless what is there is newer.
    ///
    /// # Errors
    /// When the database is not available.
    pub async fn put_page(&self, kind: &str, key: &str, json: &str, at: Timestamp) -> Result<(), StoreError> {
        const PUT: &str = "INSERT INTO pages (kind, key, json, at) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (kind, key) DO UPDATE SET json = excluded.json, at = excluded.at \
             WHERE pages.at <= excluded.at";
        let mut session = self.write("write a page").await?;
        session.run(PUT, &[kind.into(), key.into(), json.into(), at.into()]).await?;
        session.commit().await
    }

    /// All pages of a kind, by key.
    ///
    /// # Errors
    /// When the database is not available.
    pub async fn pages(&self, kind: &str) -> Result<Vec<Page>, StoreError> {
        let mut session = self.read("read pages").await?;
        let select = "SELECT key, json, at FROM pages WHERE kind = $1";
        let rows: Vec<(String, String, i64)> = session.rows(select, &[kind.into()]).await?;
        let pages: Result<Vec<Page>, StoreError> =
            rows.into_iter().map(|row| read(row, session.doing)).collect();
        // Here, for PostgreSQL's order is that of the language it was set up with.
        pages.map(|mut pages| {
            pages.sort_by(|a, b| a.key.cmp(&b.key));
            pages
        })
    }

    /// One page.
    ///
    /// # Errors
    /// When the database is not available.
    pub async fn page(&self, kind: &str, key: &str) -> Result<Option<Page>, StoreError> {
        let mut session = self.read("read a page").await?;
        let select = "SELECT key, json, at FROM pages WHERE kind = $1 AND key = $2";
        let row = session.row(select, &[kind.into(), key.into()]).await?;
        row.map(|row| read(row, session.doing)).transpose()
    }

    /// Forgets the pages of a kind whose keys begin with `start`, but for those to keep.
    ///
    /// # Errors
    /// When the database is not available.
    pub async fn drop_pages(
        &self,
        kind: &str,
        start: &str,
        keep: &BTreeSet<String>,
    ) -> Result<(), StoreError> {
        const DROP: Sql = Sql {
            sqlite: "DELETE FROM pages WHERE kind = $1 AND substr(key, 1, length($2)) = $2 \
                     AND key NOT IN (SELECT value FROM json_each($3))",
            postgres: "DELETE FROM pages WHERE kind = $1 AND substr(key, 1, length($2)) = $2 \
                       AND key NOT IN (SELECT json_array_elements_text($3::json))",
        };
        let mut session = self.write("forget pages").await?;
        let keep = list(keep.iter().map(String::as_str));
        session.run(DROP, &[kind.into(), start.into(), (&keep).into()]).await?;
        session.commit().await
    }
}

fn read((key, json, at): (String, String, i64), doing: &'static str) -> Result<Page, StoreError> {
    Ok(Page { key, json, at: moment(doing, at)? })
}
