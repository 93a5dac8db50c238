//! A proposal that is open: bring it up to date, leave it, warn of it, withdraw it.

use jiff::civil::Date;
use jiff::tz::Offset;

use super::{
    Action, FOREIGN, NEWER_DAYS, Observed, ObservedCommit, ObservedRequest, Own, Wanted, declined_sentence,
    edited, lapsed, list, short, strangers,
};
use crate::review::asked::Asked;
use crate::review::metadata::{self, Metadata};
use crate::units::first_few;

/// The text is there and open.
pub(super) fn open(
    observed: &Observed,
    request: &ObservedRequest,
    known: &Metadata,
    wanted: Option<&Wanted>,
    own: &Own,
    today: Date,
) -> Action {
    if observed.merged {
        return Action::RecordMerged {
            reason: format!("the change of {} is on the base branch", short(&known.head)),
        };
    }
    let Some(head) = &observed.branch_head else {
        return Action::RecordDeclined {
            delete_branch: false,
            reason: "a person deleted the branch without merging it".into(),
        };
    };
    let left_there = *head == known.head || own.heads.contains(head);
    // Of a branch without a common history only the head is known, and whether the bot left it there.
    let is_foreign = if observed.unrelated { !left_there } else { !strangers(observed, own).is_empty() };
    let discards = discards(own);
    if is_foreign && !discards {
        return edited(observed, own, FOREIGN, "taking them off the branch");
    }
    let same_files = wanted.is_some_and(|wanted| wanted.files == observed.files);
    if !left_there && !same_files && !discards && !moved_by_forge(observed, known, own) {
        return edited(
            observed,
            own,
            &format!("the branch is not at {}, where the bot left it", short(&known.head)),
            &format!("putting the branch back to {}", short(&known.head)),
        );
    }
    if let Some(stop) = aimed_elsewhere(observed, request, known, own) {
        return stop;
    }
    if let Some(why) = silent(request, known, wanted, today) {
        return quiet(&why, wanted);
    }
    if let Some(why) =
        of_a_newer_bot(known, own, today).filter(|_| wanted.is_none_or(|wanted| wanted.outgrown.is_empty()))
    {
        return Action::leave(why);
    }
    let wanted = match wanted {
        None => return Action::Withdraw { reason: "the measurement no longer supports the change".into() },
        Some(wanted) if wanted.files.is_empty() => {
            return Action::Withdraw { reason: "the base branch says all of it already".into() };
        }
        Some(wanted) => wanted,
    };
    if let Some(base) = request.base_branch.as_ref().filter(|base| **base != own.base_branch) {
        let reason = format!("it is for `{base}`, and proposals are for `{}` now", own.base_branch);
        return Action::Withdraw { reason };
    }
    update(observed, request, known, wanted, own, head)
}

/// A newer version wrote it lately: with two at work, each would take back what the other wrote.
pub(super) fn of_a_newer_bot(known: &Metadata, own: &Own, today: Date) -> Option<String> {
    let last = Offset::UTC.to_datetime(*known.written.last()?).date();
    let days = last.until(today).ok()?.get_days();
    let is_newer = numbers(&known.updated_in) > numbers(&own.version);
    // What a wrong clock noted holds nothing back.
    (is_newer && (0..NEWER_DAYS).contains(&days)).then(|| {
        format!(
            "version {} of the bot wrote it on {last}; this one, {}, is older and leaves it alone for {NEWER_DAYS} days",
            known.updated_in, own.version
        )
    })
}

/// A version by its numbers; without any it is older than every other.
fn numbers(version: &str) -> Vec<u64> {
    version.split(['.', '-', '+']).map_while(|part| part.parse().ok()).collect()
}

/// A person aimed it at a branch that proposals were never for. One that follows the default branch to a new name, as
/// forges do, is where it was.
pub(super) fn aimed_elsewhere(
    observed: &Observed,
    request: &ObservedRequest,
    known: &Metadata,
    own: &Own,
) -> Option<Action> {
    let base = request.base_branch.as_ref()?;
    if [&known.base_branch, &own.base_branch].contains(&base) {
        return None;
    }
    let found = format!("a person aimed it at `{base}` instead of `{}`", own.base_branch);
    Some(edited(observed, own, &found, &format!("aiming it at `{}` again", own.base_branch)))
}

/// The head only brings the base branch: somebody pressed the forge's button to update or to rebase the branch.
/// Below that is what the bot left and nothing else: addresses on commits prove little.
fn moved_by_forge(observed: &Observed, known: &Metadata, own: &Own) -> bool {
    let head = observed.branch_head.as_ref();
    let by_forge = |commit: &ObservedCommit| commit.merges_base || commit.rebased;
    observed.commits.last().is_some_and(|last| Some(&last.id) == head && by_forge(last))
        && observed
            .commits
            .iter()
            .all(|commit| by_forge(commit) || commit.id == known.head || own.heads.contains(&commit.id))
}

/// Why nothing is written although the proposal is the bot's to write.
fn silent(
    request: &ObservedRequest,
    known: &Metadata,
    wanted: Option<&Wanted>,
    today: Date,
) -> Option<String> {
    if known.declined_on.is_some() && lapsed(known, known.declined_on, wanted, today).is_none() {
        return Some(declined_sentence(known.declined_on));
    }
    if known.paused {
        return Some("a person paused it".to_owned());
    }
    if let Some(until) = known.snoozed_until.filter(|until| *until > today) {
        return Some(format!("snoozed until {until}"));
    }
    request.held.as_ref().map(|why| format!("held: {why}"))
}

/// What silence leaves to say: nothing, unless the branch would do harm.
pub(super) fn quiet(why: &str, wanted: Option<&Wanted>) -> Action {
    let harm = match wanted {
        None => "the measurement no longer supports the change".to_owned(),
        Some(wanted) if !wanted.outgrown.is_empty() => too_small(&wanted.outgrown),
        Some(_) => return Action::leave(why),
    };
    Action::Warn { reason: format!("{harm}; the branch stays as it is ({why})") }
}

fn too_small(outgrown: &[String]) -> String {
    format!("what the plan gave so far is too small by now for {}", first_few(outgrown, 3, ", "))
}

/// A person asked that what people wrote on the branch be dropped.
fn discards(own: &Own) -> bool {
    own.asked == Some(Asked::Regenerate { discard_edits: true })
}

/// Which of branch and text differ from what is wanted.
fn update(
    observed: &Observed,
    request: &ObservedRequest,
    known: &Metadata,
    wanted: &Wanted,
    own: &Own,
    head: &str,
) -> Action {
    let same_plan = wanted.fingerprint == known.fingerprint;
    let same_files = wanted.files == observed.files;
    // The bot's own, of a run that was stopped before the text: whatever it holds is not what the text says.
    let unfinished = *head != known.head && !moved_by_forge(observed, known, own);
    let discards = discards(own) && *head != known.head;
    let rebases = own.asked == Some(Asked::Rebase) && known.base_commit != own.base_commit;
    let is_asked = own.asked.is_some();
    let push = request.conflicted
        || observed.unrelated
        || discards
        || rebases
        || (!same_files && (is_asked || !same_plan || unfinished || !observed.stale.is_empty()));
    let must = request.conflicted || observed.unrelated || is_asked || !wanted.outgrown.is_empty();
    if push && request.approvals > 0 && !must {
        let who = match request.approvals {
            1 => "a person".to_owned(),
            n => format!("{n} people"),
        };
        let but =
            if same_plan { "its files changed on the base branch" } else { "the plan is another one by now" };
        return Action::leave(format!("{who} approved it: the branch stays as it was seen, although {but}"));
    }
    let by_hand = metadata::body_hash(&request.body) != known.body_hash || request.title != known.title;
    let same_text = metadata::body_hash(&wanted.body) == known.body_hash && wanted.title == known.title;
    // A text that a person edited is theirs for as long as it still describes the branch.
    let text = push || !same_plan || unfinished || (!same_text && !by_hand);
    let reason = match (push, text) {
        (true, _) if !wanted.outgrown.is_empty() => too_small(&wanted.outgrown),
        (true, _) if discards => format!(
            "what people wrote on the branch was dropped, as somebody asked; it was at `{}`",
            short(head)
        ),
        (true, _) if observed.unrelated => "the base branch has another history by now".to_owned(),
        (true, _) if request.conflicted => "it could not be merged into the base branch any more".to_owned(),
        (true, _) if !same_plan => "the plan changed".to_owned(),
        (true, _) if rebases => format!("it stands on `{}` of the base branch now", short(&own.base_commit)),
        (true, _) if is_asked => "the same plan has other files by now".to_owned(),
        (true, _) if unfinished => "the bot was stopped halfway through its last update".to_owned(),
        (true, _) => format!("the base branch changed in files of the proposal: {}", list(&observed.stale)),
        (false, true) if !same_plan => "the plan changed; the files are the same".to_owned(),
        (false, true) if unfinished => "the branch is up to date, the text was not written yet".to_owned(),
        (false, true) => "the evidence changed; the branch stays, so that approvals hold".to_owned(),
        (false, false) if by_hand && !same_text => {
            return Action::leave("a person edited the text; it is left as it is while the plan is the same");
        }
        (false, false) if own.asked == Some(Asked::Rebase) => {
            return Action::leave("it stands on the newest commit of the base branch already");
        }
        (false, false) if !same_files => {
            return Action::leave("the plan is the same, so the branch stays as it was reviewed");
        }
        (false, false) => return Action::leave("nothing differs"),
    };
    Action::Update { push, text, reason }
}
