//! Where answers come from: a server, a server that is written down, or what was written down.

use crate::prometheus::{Answer, Ask, AskError, Client, Recorded, RecordedAnswer, Recorder};

/// One cluster's metrics.
pub enum Source {
    /// The configured server.
    Live(Client),
    /// The configured server, with every answer kept.
    Recording(Box<Recorder<Client>>),
    /// Answers from a recording.
    Recorded(Recorded),
}

impl Source {
    /// Answers from a recording.
    pub fn recorded(answers: Vec<RecordedAnswer>) -> Self {
        Self::Recorded(Recorded::new(answers))
    }
}

impl crate::prometheus::Source for Source {
    async fn instant(&self, ask: &Ask) -> Result<Answer, AskError> {
        match self {
            Self::Live(client) => client.instant(ask).await,
            Self::Recording(recorder) => recorder.instant(ask).await,
            Self::Recorded(recorded) => recorded.instant(ask).await,
        }
    }
}
