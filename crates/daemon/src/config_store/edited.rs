//! Edits of the configurations in force: of one direction, or of both.

use tidegate_config::edit::{self, Document};
use tidegate_control::protocol::Refusal;

use super::{invalid, load};
use crate::directions::{ShapedDirection, direction_named};

/// The text of a direction: the `given` one, or else that in force.
fn text_of(directions: &[ShapedDirection], given: Option<&str>, at: usize) -> Result<Document, String> {
    Document::parse(given.unwrap_or(&directions[at].config.text))
}

/// The texts of all directions after `edits` of each. Numbers of rules are those of the direction `first`.
pub(super) fn edited_in_both(
    directions: &[ShapedDirection],
    given: Option<&str>,
    edits: &[edit::Edit],
    first: usize,
) -> Result<Edited, Refusal> {
    let base = text_of(directions, given, first).map_err(invalid)?;
    if directions.len() == 1 {
        return Ok(vec![(first, base.edited(edits).map_err(invalid)?)]);
    }
    let other = text_of(directions, given, 1 - first).map_err(invalid)?;
    let both = base.edited_alike(&other, edits).map_err(invalid)?;
    Ok([first, 1 - first].into_iter().zip(both).collect())
}

/// The name of a text that was edited. It is that in force, which the user does not see.
pub(super) const CHANGED: &str = "what runs (`tidegate status --file`), changed";

/// The directions whose text was edited, with the new texts.
pub(super) type Edited = Vec<(usize, Document)>;

/// The text of a direction after `edits`: of the one `named`, or of the only one that has what they edit. A rule that both
/// directions share is changed in both.
pub(super) fn edited(
    directions: &[ShapedDirection],
    given: Option<&str>,
    edits: &[edit::Edit],
    named: Option<&str>,
) -> Result<Edited, Refusal> {
    let of = |at: usize| -> Result<Edited, String> { Ok(vec![(at, text_of(directions, given, at)?.edited(edits)?)]) };
    if named.is_some() || directions.len() == 1 {
        return of(direction_named(directions, named)?).map_err(invalid);
    }
    let mut outcomes: Vec<_> = (0..directions.len()).map(of).collect();
    let possible: Vec<usize> = outcomes.iter().flatten().flatten().map(|(at, _)| *at).collect();
    let is_of_rule = |edit: &edit::Edit| match edit {
        edit::Edit::Set { section, .. } | edit::Edit::Remove { section, .. } => section == "rule",
        edit::Edit::Add { .. } => false,
    };
    if directions.len() == 2 && edits.iter().all(is_of_rule) {
        let text = |at: usize| text_of(directions, given, at).map_err(invalid);
        if possible.len() == 2
            && let Some(number) = text(0)?.differs_at(&text(1)?, edits)
        {
            return Err(invalid(format!("rule {number} is not the same rule in both directions")).help(
                "choose one with --direction up or down; --direction both counts as `up` does, and changes a rule that both share",
            ));
        }
        // The other direction may have a shared rule under another number.
        if let Some(first) = possible.first()
            && let Ok(edited) = edited_in_both(directions, given, edits, *first)
        {
            return Ok(edited);
        }
    }
    let names: Vec<&str> = directions.iter().map(|direction| direction.name.as_str()).collect();
    match possible[..] {
        [at] => outcomes.swap_remove(at).map_err(invalid),
        [] => {
            let mut texts: Vec<String> = outcomes.into_iter().filter_map(Result::err).collect();
            let is_one = texts.iter().all(|text| *text == texts[0]);
            let said = names.iter().zip(&texts).map(|(name, text)| format!("{name}: {text}"));
            Err(invalid(if is_one { texts.swap_remove(0) } else { said.collect::<Vec<_>>().join("\n") }))
        }
        _ => {
            // A mistake that is one in every direction is to be mended first.
            let loaded = outcomes.iter().flatten().flatten().map(|(_, new)| load(CHANGED, new.text()));
            loaded.reduce(Result::or).transpose()?;
            let both = if names.len() == 2 { ", or both" } else { "" };
            Err(invalid("this setting exists in each direction")
                .help(format!("choose one with --direction: {}{both}", names.join(" or "))))
        }
    }
}
