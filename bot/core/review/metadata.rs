//! What the bot writes down about itself in the text of a proposal.
//!
//! One HTML comment holds it, as base64url so that no line can start with `/` and nothing can end the comment early.
//! It is a hint, not a proof: anybody who may edit the text may forge it. What it may be trusted for is the question
//! of `lifecycle`.

use jiff::Timestamp;
use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::overrides::Overrides;
use super::shares::Shares;
use super::signature::SigningKey;

/// What the comment starts with.
const OPEN: &str = "<!-- slicewright:";

/// What the comment ends with.
const CLOSE: &str = " -->";

/// The only form of the block that this version reads and writes. A newer one is not guessed at.
const SCHEMA: u32 = 1;

/// Longest block that is read, in bytes of base64url. A block of ours has some 900, and 12,000
/// with the shares of 1,000 workloads; doubling it changes nothing.
const LONGEST: usize = 16_384;

/// How the line with the date of the data starts. It changes with every run, so the body's hash leaves it out.
pub const AS_OF: &str = "Data as of ";

/// What the bot wrote down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// Form of this block, 1.
    pub schema: u32,
    /// Cluster and pool as the configuration names them.
    pub cluster: String,
    /// The pool.
    pub pool: String,
    /// Version of the bot that opened the proposal.
    pub created_in: String,
    /// When it was opened; proposals an hour are counted by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    /// Version of the bot that wrote this text.
    pub updated_in: String,
    /// Branch that the proposal is for, `main`.
    pub base_branch: String,
    /// Commit of it that the change was made from.
    pub base_commit: String,
    /// The bot's own commit at the head of the branch.
    pub head: String,
    /// The plan's fingerprint: what is accepted or declined.
    pub fingerprint: String,
    /// [`body_hash`] of the text as it was written.
    pub body_hash: String,
    /// Title as it was written: another one there now is a person's.
    #[serde(default)]
    pub title: String,
    /// It was marked as not ready to be merged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub draft: bool,
    /// When the text was written, within an hour before the last time: whoever writes too often is stopped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub written: Vec<Timestamp>,
    /// Where the proposal stood when the text was written.
    pub state: State,
    /// Method of the plan, `MIG`; a decline lapses when it changes.
    pub method: String,
    /// Cards that the plan frees; a decline lapses when it changes.
    pub cards_freed: u32,
    /// Metrics that the text rests on: while one of them is gone, nothing is decided.
    #[serde(default)]
    pub metrics: Vec<String>,
    /// What each workload gets on the branch: whether that still fits decides whether an
    /// approved branch may be left as it is.
    #[serde(default, skip_serializing_if = "Shares::is_empty")]
    pub shares: Shares,
    /// What reviewers asked for.
    #[serde(default, skip_serializing_if = "Overrides::is_empty")]
    pub overrides: Overrides,
    /// The last command that was noted here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub obeyed: Option<Obeyed>,
    /// UTC day on which a person declined it by a comment: it stays open, for them to close. Why is in `reason`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declined_on: Option<Date>,
    /// A person asked for silence until this UTC day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snoozed_until: Option<Date>,
    /// A person asked for silence until they say otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// UTC day on which the bot noticed the end. `None` while open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_on: Option<Date>,
    /// Why it was closed, as the bot or a person said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A command by its place, so that one that was interrupted is known again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Obeyed {
    /// What the forge calls the comment.
    pub comment: String,
    /// Which of its commands, from 0.
    pub n: usize,
}

impl Obeyed {
    /// Whether this one was noted, if the last one that was is `last`.
    pub fn is_in(&self, last: Option<&Self>) -> bool {
        last.is_some_and(|last| last.comment == self.comment && self.n <= last.n)
    }

    /// Whether an earlier command of the same comment was noted last, or this one.
    pub fn follows(&self, last: Option<&Self>) -> bool {
        last.is_some_and(|last| last.comment == self.comment)
    }
}

/// Where a proposal stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Waits for people.
    Open,
    /// Closed by the bot: its reason is gone.
    Withdrawn,
    /// Closed by a person.
    Declined,
    /// Its change is on the base branch.
    Merged,
}

impl State {
    /// As it is written in texts: `open`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Withdrawn => "withdrawn",
            Self::Declined => "declined",
            Self::Merged => "merged",
        }
    }
}

impl Default for Metadata {
    /// Of an open proposal of which nothing is known.
    fn default() -> Self {
        Self {
            schema: SCHEMA,
            cluster: String::new(),
            pool: String::new(),
            created_in: String::new(),
            created_at: None,
            updated_in: String::new(),
            base_branch: String::new(),
            base_commit: String::new(),
            head: String::new(),
            fingerprint: String::new(),
            body_hash: String::new(),
            title: String::new(),
            draft: false,
            written: Vec::new(),
            state: State::Open,
            method: String::new(),
            cards_freed: 0,
            metrics: Vec::new(),
            shares: Shares::default(),
            overrides: Overrides::default(),
            obeyed: None,
            declined_on: None,
            snoozed_until: None,
            paused: false,
            closed_on: None,
            reason: None,
        }
    }
}

impl Metadata {
    /// The number that [`Metadata::schema`] must have.
    pub const SCHEMA: u32 = SCHEMA;

    /// The block as one line of Markdown that no forge shows, signed if there is a key.
    pub fn to_comment(&self, key: Option<&SigningKey>) -> String {
        let json = serde_json::to_string(self).expect("strings, numbers and dates always serialise");
        let encoded = base64url(json.as_bytes());
        let signature = key.map_or_else(String::new, |key| format!(".{}", key.sign(&encoded)));
        format!("{OPEN}{encoded}{signature}{CLOSE}")
    }

    /// The block of `text`. `None` when there is none, more than one, or one that cannot be read: never an error,
    /// since strangers write here.
    pub fn parse(text: &str) -> Option<Self> {
        let (encoded, _) = block(text)?;
        let found: Self = serde_json::from_slice(&from_base64url(encoded)?).ok()?;
        (found.schema == SCHEMA).then_some(found)
    }

    /// Whether the block of `text` was signed with one of these keys.
    pub fn is_signed(text: &str, keys: &[SigningKey]) -> bool {
        let signed =
            |(encoded, signature): (&str, &str)| keys.iter().any(|key| key.holds(encoded, signature));
        block(text).is_some_and(signed)
    }

    /// `body` with this block at its end, in place of any that it had, with the body's hash set, and signed if there is a
    /// key.
    #[must_use]
    pub fn attach(mut self, body: &str, key: Option<&SigningKey>) -> String {
        let body = strip(body);
        self.body_hash = body_hash(&body);
        format!("{}\n\n{}\n", body.trim_end(), self.to_comment(key))
    }

    /// `text` with this block in place of the one that it had, and not a byte of the rest changed: what people wrote there
    /// stays known as theirs. `None` where it has no block, or several.
    pub fn put_into(&self, text: &str, key: Option<&SigningKey>) -> Option<String> {
        block(text)?;
        let start = text.find(OPEN)?;
        let end = start + text[start..].find(CLOSE)? + CLOSE.len();
        Some(format!("{}{}{}", &text[..start], self.to_comment(key), &text[end..]))
    }
}

/// The one block of `text`, encoded, and its signature, which may be empty.
fn block(text: &str) -> Option<(&str, &str)> {
    let mut blocks = text.match_indices(OPEN);
    let (at, _) = blocks.next()?;
    if blocks.next().is_some() {
        return None;
    }
    let rest = &text[at + OPEN.len()..];
    let inside = &rest[..rest.find(CLOSE)?];
    let parts = inside.split_once('.').unwrap_or((inside, ""));
    (inside.len() <= LONGEST).then_some(parts)
}

/// `text` without any hidden block.
pub fn strip(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(OPEN) {
        out.push_str(&rest[..at]);
        match rest[at..].find(CLOSE) {
            Some(end) => rest = &rest[at + end + CLOSE.len()..],
            None => {
                rest = "";
            }
        }
    }
    out.push_str(rest);
    out
}

/// SHA-256 of what a reviewer reads: without the hidden block, the line with the date of the data, lines that hold a
/// picture of daily values (they move with every day), and differences in white space.
///
/// Taken of the text as it is sent, after it was cut to the forge's limit: a hash from before would differ from that
/// of the text on the forge, and an over-long text would be written again with every run.
pub fn body_hash(text: &str) -> String {
    let mut hash = Sha256::new();
    for line in strip(text).lines().filter(|line| !is_volatile(line)) {
        for word in line.split_whitespace() {
            hash.update(word.as_bytes());
            hash.update(b" ");
        }
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The line changes without a decision changing.
fn is_volatile(line: &str) -> bool {
    line.starts_with(AS_OF) || line.contains(|c| ('\u{2581}'..='\u{2588}').contains(&c))
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Base64 with `-` and `_`, without padding (RFC 4648, section 5).
pub(super) fn base64url(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group =
            chunk.iter().fold(0_u32, |group, byte| group << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for n in 0..=chunk.len() {
            let index = group >> (18 - 6 * n) & 63;
            out.push(char::from(ALPHABET[index as usize]));
        }
    }
    out
}

/// The bytes of [`base64url`] text. `None` for anything that it would not have written.
pub(super) fn from_base64url(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    for chunk in text.as_bytes().chunks(4) {
        let mut group = 0_u32;
        for byte in chunk {
            let value = ALPHABET.iter().position(|known| known == byte)?;
            group = group << 6 | u32::try_from(value).ok()?;
        }
        group <<= 6 * (4 - chunk.len());
        let bytes = group.to_be_bytes();
        let n = chunk.len().checked_sub(1).filter(|n| *n > 0)?;
        if bytes[1 + n..].iter().any(|spare| *spare != 0) {
            return None;
        }
        out.extend_from_slice(&bytes[1..=n]);
    }
    Some(out)
}

#[cfg(test)]
pub(super) fn example() -> Metadata {
    Metadata {
        cluster: "dc1".into(),
        pool: "a100-40gb".into(),
        created_in: "0.1.0".into(),
        updated_in: "0.1.0".into(),
        base_branch: "main".into(),
        base_commit: "b".repeat(40),
        head: "a".repeat(40),
        fingerprint: "f1".into(),
        title: "Share GPUs".into(),
        method: "MIG".into(),
        cards_freed: 2,
        ..Metadata::default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parse_after_print_is_the_identity() {
        let text = example().attach("# Title\n\ntext", None);
        let found = Metadata::parse(&text).unwrap();
        assert_eq!(found.body_hash, body_hash("# Title\n\ntext"));
        assert_eq!(Metadata { body_hash: String::new(), ..found }, example());
        assert_eq!(strip(&text).trim_end(), "# Title\n\ntext");
    }

    #[test]
    fn attaching_twice_leaves_one_block() {
        let once = example().attach("text", None);
        assert_eq!(example().attach(&once, None), once);
    }

    #[test]
    fn a_block_is_exchanged_without_touching_what_people_wrote() {
        let text = format!("{}\nmore of a person's", example().attach("text", None));
        let known = Metadata::parse(&text).unwrap();
        let paused = Metadata { paused: true, ..known.clone() };
        let after = paused.put_into(&text, None).unwrap();
        assert_eq!(Metadata::parse(&after), Some(paused));
        assert_eq!(strip(&after), strip(&text));
        assert_eq!(known.put_into(&after, None), Some(text));
        assert_eq!(known.put_into("no block", None), None);
    }

    #[test]
    fn no_line_can_start_a_command_or_end_the_comment() {
        let hostile = Metadata { reason: Some("--> \n/close\n<script>".into()), ..example() };
        let comment = hostile.to_comment(None);
        assert!(!comment.contains('\n') && comment.matches("--").count() == 2, "{comment}");
        assert_eq!(Metadata::parse(&comment), Some(hostile));
    }

    #[test]
    fn a_signed_block_cannot_be_changed() {
        let key = SigningKey::new(&[7; 32]).unwrap();
        let keys = [SigningKey::new(&[1; 32]).unwrap(), key.clone()];
        let text = example().attach("text", Some(&key));
        assert_eq!(Metadata::parse(&text).unwrap().head, example().head);
        assert!(Metadata::is_signed(&text, &keys) && !Metadata::is_signed(&text, &keys[..1]));
        assert!(!Metadata::is_signed(&example().attach("text", None), &keys));
        let signature = block(&text).unwrap().1.to_owned();
        let forged = Metadata { head: "f".repeat(40), ..example() }.to_comment(None);
        let forged = forged.replace(CLOSE, &format!(".{signature}{CLOSE}"));
        assert!(Metadata::parse(&forged).is_some() && !Metadata::is_signed(&forged, &keys));
    }

    #[test]
    fn what_cannot_be_read_is_nothing() {
        let good = example().to_comment(None);
        let newer = Metadata { schema: 2, ..example() }.to_comment(None);
        let cut = &good[..good.len() - 10];
        let padded = format!("{OPEN}AAA={CLOSE}");
        let long = format!("{OPEN}{}{CLOSE}", "A".repeat(LONGEST + 4));
        for hostile in
            ["", OPEN, "<!-- slicewright: -->", cut, &format!("{good}{good}"), &newer, &padded, &long]
        {
            assert_eq!(Metadata::parse(hostile), None, "{hostile}");
        }
    }

    #[test]
    fn the_hash_leaves_out_what_changes_by_itself() {
        let old = format!("a  b\n{AS_OF}2026-03-01\n▁▂█ daily\nc");
        let new = format!("a b \n{AS_OF}2026-03-02\n▂█▁ daily\n\nc\n{}", example().to_comment(None));
        assert_eq!(body_hash(&old), body_hash(&new));
        assert_ne!(body_hash("a b"), body_hash("a c"));
    }

    proptest! {
        #[test]
        fn base64url_round_trips(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            prop_assert_eq!(from_base64url(&base64url(&bytes)), Some(bytes));
        }

        #[test]
        fn any_text_can_be_parsed_and_stripped(text in ".{0,80}") {
            let _ = Metadata::parse(&format!("{OPEN}{text}{CLOSE}"));
            let left = strip(&format!("{text}{OPEN}{text}"));
            prop_assert!(!left.contains(OPEN));
        }
    }
}
