//! The bot's one comment about each topic.

use super::client::judged;
use super::endpoints::{self, Asked};
use super::{GitLab, dto};
use crate::forge::{ForgeError, Topic};

impl GitLab {
    /// Makes `text` the one comment about `topic`, or removes it.
    pub(super) async fn write_note(
        &self,
        id: &str,
        topic: Topic,
        text: Option<&str>,
    ) -> Result<(), ForgeError> {
        let project = self.project().await?.id;
        let on = self.on(&format!("merge request !{id}"));
        let number = id.parse().map_err(|_| ForgeError::NotFound { what: on.clone() })?;
        let mut own = self.own_notes(number, topic).await?;
        if own.is_empty() && text.is_some() {
            // A list may be a moment old; a comment that is made twice is what people see.
            own = self.own_notes(number, topic).await?;
        }
        let mut own = own.into_iter();
        if let Some(text) = text {
            let text = format!("{}\n{text}", topic.mark());
            match own.next() {
                Some(note) if same(&note.body, &text) => {}
                Some(note) => {
                    let what = format!("editing the comment about {} on {on}", topic.code());
                    let asked = endpoints::edit_note(project, number, note.id, &text);
                    self.write_note_once(&what, &asked, number, topic, &text).await?;
                }
                None => {
                    let what = format!("commenting about {} on {on}", topic.code());
                    let asked = endpoints::create_note(project, number, &text);
                    self.write_note_once(&what, &asked, number, topic, &text).await?;
                }
            }
        }
        // All of them when there is nothing to say; else those that a request that arrived twice left behind.
        for note in own {
            let what = format!("removing a comment about {} on {on}", topic.code());
            let asked = endpoints::delete_note(project, number, note.id);
            let answer = self.client.write(&what, &asked).await.and_then(|answer| judged(&what, answer));
            match answer {
                Ok(_) | Err(ForgeError::NotFound { .. }) => {}
                Err(error @ ForgeError::Unanswered { .. }) => {
                    if self.own_notes(number, topic).await?.iter().any(|there| there.id == note.id) {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Removes the comments about each of these.
    pub(super) async fn unsaid(&self, id: &str, topics: &[Topic]) -> Result<(), ForgeError> {
        let on = self.on(&format!("merge request !{id}"));
        let number = id.parse().map_err(|_| ForgeError::NotFound { what: on })?;
        let there = self.marked_notes(number, topics).await?;
        for topic in topics {
            if there.iter().any(|note| is_about(note, *topic)) {
                self.write_note(id, *topic, None).await?;
            }
        }
        Ok(())
    }

    /// Comments of the bot that carry the topic's mark, oldest first.
    async fn own_notes(&self, number: u64, topic: Topic) -> Result<Vec<dto::Note>, ForgeError> {
        self.marked_notes(number, &[topic]).await
    }

    /// Comments of the bot that carry the mark of any of these, oldest first. Anybody may write the mark, so that the
    /// author decides as well.
    async fn marked_notes(&self, number: u64, topics: &[Topic]) -> Result<Vec<dto::Note>, ForgeError> {
        let project = self.project().await?.id;
        let what = self.on(&format!("reading the comments on merge request !{number}"));
        let notes: Vec<dto::Note> = self.client.list(&what, &endpoints::notes(project, number)?).await?;
        let mut own = Vec::new();
        for note in notes {
            let marked = topics.iter().any(|topic| is_about(&note, *topic));
            if !note.system && marked && self.is_bot(&note.author).await? {
                own.push(note);
            }
        }
        own.sort_by_key(|note| note.id);
        own.dedup_by_key(|note| note.id);
        Ok(own)
    }

    /// Sends a comment once. Without an answer the comments themselves say whether it arrived.
    async fn write_note_once(
        &self,
        what: &str,
        asked: &Asked,
        number: u64,
        topic: Topic,
        text: &str,
    ) -> Result<(), ForgeError> {
        match self.client.write(what, asked).await.and_then(|answer| judged(what, answer)) {
            Ok(_) => Ok(()),
            Err(error @ ForgeError::Unanswered { .. }) => {
                let own = self.own_notes(number, topic).await?;
                let arrived = own.iter().any(|note| same(&note.body, text));
                if arrived { Ok(()) } else { Err(error) }
            }
            Err(error) => Err(error),
        }
    }
}

fn is_about(note: &dto::Note, topic: Topic) -> bool {
    note.body.lines().next().is_some_and(|line| line.trim() == topic.mark())
}

/// GitLab keeps a comment as it was sent, but for blanks at its end.
fn same(there: &str, text: &str) -> bool {
    there.replace("\r\n", "\n").trim_end() == text.trim_end()
}
