//! Names of quantities, `MEASURE of SUBJECT`, as people write them: by what is equal, or by whole words.

/// The most names that an error lists.
const MOST_NAMED: usize = 24;

/// The name that a quantity means: the one that is equal, or else the only one that has all of its words. Case does not matter. A
/// quantity is named before the first run, so that nothing else is guessed.
///
/// # Errors
/// If it means none or several, with those that there are.
pub fn the_only<'a>(names: &[&'a str], text: &str, what: &str) -> Result<&'a str, String> {
    let lower = text.to_lowercase();
    if let Some(name) = names.iter().copied().find(|name| name.to_lowercase() == lower) {
        return Ok(name);
    }
    let has_all = |name: &str| {
        let name = name.to_lowercase();
        lower.split_whitespace().all(|word| name.split_whitespace().any(|of_name| of_name == word))
    };
    let meant: Vec<&str> = names.iter().copied().filter(|name| has_all(name)).collect();
    match meant.as_slice() {
        &[name] => Ok(name),
        [] => Err(not_meant(names, text, what)),
        several => {
            let has = |word: &str| several.iter().any(|name| name.split_whitespace().any(|of_name| of_name == word));
            let directions = match has("up") && has("down") {
                true => " (up is from the flow's `from` to its `to`, down is back)",
                false => "",
            };
            Err(format!("`{text}` is more than one {what}: {}; name one{directions}", several.join(", ")))
        }
    }
}

/// States that `text` means none of the names: with the one that has it as a part, or that has the most of its words, and those that
/// there are.
pub fn not_meant(names: &[&str], text: &str, what: &str) -> String {
    let lower = text.to_lowercase();
    let common = |name: &str| {
        let name = name.to_lowercase();
        lower.split_whitespace().filter(|word| name.split_whitespace().any(|of_name| of_name == *word)).count()
    };
    let near = names.iter().copied().find(|name| name.to_lowercase().contains(&lower));
    let likest = || names.iter().copied().rev().max_by_key(|name| common(name)).filter(|name| common(name) > 0);
    let near = near.or_else(likest).map_or("; there".to_owned(), |name| format!(". Did you mean `{name}`? There"));
    let more = if names.len() > MOST_NAMED { ", ..." } else { "" };
    let some = names[..names.len().min(MOST_NAMED)].join(", ");
    format!("no {what} is meant by `{text}`{near} are {some}{more}")
}

/// The measure and the subject of a quantity, such as `delay up p99 of flow call`.
pub fn parts_of(quantity: &str) -> Option<(&str, &str)> {
    let (measure, subject) = quantity.split_once(" of ")?;
    Some((measure.trim(), subject.trim())).filter(|(measure, subject)| !measure.is_empty() && !subject.is_empty())
}
