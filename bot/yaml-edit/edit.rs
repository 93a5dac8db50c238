//! The loop around one edit: plan, splice, parse again, compare.

use crate::splice::Splice;
use crate::tree::Stream;
use crate::{Edit, Refusal, RefusalKind, check, plan, splice};

/// Applies all edits in order, all or none.
///
/// Each edit sees the text that the one before it left. A text is parsed once, and once more after each edit.
///
/// # Errors
/// A [`Refusal`] of the first edit that cannot be made; line and column are those of the text that this edit saw.
pub fn edit(text: &str, edits: &[Edit]) -> Result<String, Refusal> {
    let mut stream = Stream::parse(text.to_owned())?;
    for edit in edits {
        stream = apply(&stream, edit)?;
    }
    Ok(stream.text)
}

fn apply(stream: &Stream, edit: &Edit) -> Result<Stream, Refusal> {
    planned(stream, edit).map(|(next, _)| next)
}

/// Plans and proves one edit. Where the proof fails for a string with line breaks, it is tried once more in double
/// quotes: below a block scalar, a deeply indented comment line would become content.
pub(crate) fn planned(stream: &Stream, edit: &Edit) -> Result<(Stream, Vec<Splice>), Refusal> {
    let first = plan::plan(stream, edit, true)?;
    let refusal = match proven(stream, &first.splices, &first.change) {
        Ok(next) => return Ok((next, first.splices)),
        Err(refusal) => refusal,
    };
    let second = plan::plan(stream, edit, false)?;
    if second.splices == first.splices {
        return Err(refusal);
    }
    let next = proven(stream, &second.splices, &second.change)?;
    Ok((next, second.splices))
}

/// Applies splices and proves that they make `change` and nothing else.
pub(crate) fn proven(stream: &Stream, splices: &[Splice], change: &plan::Change) -> Result<Stream, Refusal> {
    let text = splice::apply(&stream.text, splices)?;
    let next = Stream::parse(text).map_err(|refusal| {
        let message = format!("the changed text would not parse: {}", refusal.message);
        Refusal { kind: RefusalKind::ResultDiffers, message, ..refusal }
    })?;
    check::check(stream, &next, change)?;
    Ok(next)
}
