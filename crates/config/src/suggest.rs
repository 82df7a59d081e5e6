//! "Did you mean": finds the nearest of a list of names.

/// Levenshtein distance in characters, where two neighbours in the wrong order count as one slip.
pub fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let mut next = vec![i + 1];
        for j in 0..b.len() {
            let replaced = row[j] + usize::from(a[i] != b[j]);
            let mut least = replaced.min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                least = least.min(before[j - 1] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
    }
    row[b.len()]
}

/// The name nearest to `given`, if it is near enough for a typing error: at most a third of the letters differ, or only
/// case, `_` and `-` do.
pub fn nearest<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Names of hundreds of letters are skipped: they are no typing errors, and computing the distance is quadratic.
    if given.len() > 64 {
        return None;
    }
    let plain = |s: &str| s.to_lowercase().replace('_', "-");
    let given = plain(given);
    names
        .into_iter()
        .filter(|name| name.len() <= 64)
        .map(|name| (distance(&given, &plain(name)), name))
        .filter(|(d, name)| {
            *d <= (name.chars().count().max(given.chars().count()) / 3).max(1) && *d < name.chars().count()
        })
        .min_by_key(|(d, _)| *d)
        .map(|(_, name)| name)
}

/// What other shapers call a key of ours.
const ELSEWHERE: [(&str, &str); 5] =
    [("ceil", "at-most"), ("ceiling", "at-most"), ("max", "at-most"), ("max-rate", "at-most"), ("maximum", "at-most")];

/// The name for what `given` is called elsewhere, if it is one of `names`.
fn translated<'a>(given: &str, names: &[&'a str]) -> Option<&'a str> {
    let (_, ours) = ELSEWHERE.iter().find(|(theirs, _)| *theirs == given)?;
    names.iter().copied().find(|name| name == ours)
}

/// The remedy for an unknown name: suggests the nearest of `names`, or lists all of them.
pub fn help(given: &str, names: &[&str]) -> String {
    match translated(given, names).or_else(|| nearest(given, names.iter().copied())) {
        Some(name) => format!("did you mean `{name}`?"),
        None if names.is_empty() => "there is none to choose from".into(),
        None => format!("choose from {}", listed(names)),
    }
}

/// `a`, `b` and `c`.
pub fn listed(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_names_are_suggested_and_unrelated_are_not() {
        let keys = ["rate", "burst", "flow-burst", "priority"];
        assert_eq!(nearest("rat", keys), Some("rate"));
        assert_eq!(nearest("flow_burst", keys), Some("flow-burst"));
        assert_eq!(help("maximum", &["minimum", "at-most"]), "did you mean `at-most`?");
        assert_eq!(help("maximum", &["minimum"]), "did you mean `minimum`?");
        assert_eq!(nearest("prioritiy", keys), Some("priority"));
        assert_eq!(nearest("colour", keys), None);
        assert_eq!(nearest("x", ["y"]), None);
        // kitten -> sitten -> sittin -> sitting.
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("dealy", "delay"), 1);
    }
}
