//! Which runs there were, and how they ended.

use jiff::Timestamp;

use super::database::moment;
use super::{Store, StoreError};

/// One run over a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunNote {
    /// Its name; noted again under the same, it is the same run.
    pub id: String,
    /// The cluster that was looked at.
    pub cluster: String,
    /// When it started.
    pub started: Timestamp,
    /// When it ended; `None` while it runs, or when its server is gone.
    pub finished: Option<Timestamp>,
    /// How it went, in one word.
    pub outcome: String,
    /// What went wrong.
    pub problem: Option<String>,
}

impl Store {
    /// Notes a run, or what became of it.
    ///
    /// # Errors
    /// When the database is not available.
    pub async fn note_run(&self, note: &RunNote) -> Result<(), StoreError> {
        const NOTE: &str = "INSERT INTO runs (id, cluster, started, finished, outcome, problem) \
             VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (id) DO UPDATE SET \
             finished = excluded.finished, outcome = excluded.outcome, problem = excluded.problem";
        let mut session = self.write("note a run").await?;
        let values = [
            (&note.id).into(),
            (&note.cluster).into(),
            note.started.into(),
            note.finished.into(),
            (&note.outcome).into(),
            (&note.problem).into(),
        ];
        session.run(NOTE, &values).await?;
        session.commit().await
    }

    /// The last runs, the newest first.
    ///
    /// # Errors
    /// When the database is not available.
    pub async fn runs(&self, limit: u32) -> Result<Vec<RunNote>, StoreError> {
        const SELECT: &str = "SELECT id, cluster, started, finished, outcome, problem \
                              FROM runs ORDER BY started DESC, id LIMIT $1";
        let mut session = self.read("read the last runs").await?;
        type Row = (String, String, i64, Option<i64>, String, Option<String>);
        let rows: Vec<Row> = session.rows(SELECT, &[limit.into()]).await?;
        let read = |(id, cluster, started, finished, outcome, problem): Row| {
            Ok(RunNote {
                id,
                cluster,
                started: moment(session.doing, started)?,
                finished: finished.map(|at| moment(session.doing, at)).transpose()?,
                outcome,
                problem,
            })
        };
        rows.into_iter().map(read).collect()
    }
}
