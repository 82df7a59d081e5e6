//! Ranges in names: `s{1..10}` is `s1` to `s10`.

/// The largest number of names that one pattern may denote.
const MOST: u64 = 100_000;

/// Expands `pattern` to the names that it denotes, which is the pattern itself without a range.
///
/// # Errors
/// The problem with the range.
pub fn expand(pattern: &str) -> Result<Vec<String>, String> {
    if pattern.is_empty() {
        return Err("a name without a character".into());
    }
    let Some((head, rest)) = pattern.split_once('{') else { return Ok(vec![pattern.into()]) };
    let parts = rest.split_once('}').and_then(|(range, tail)| Some((range.split_once("..")?, tail)));
    let Some(((low, high), tail)) = parts else {
        return Err(format!("`{pattern}` has a range that is not written {{1..10}}"));
    };
    let (Ok(low), Ok(high)) = (low.parse::<u64>(), high.parse::<u64>()) else {
        return Err(format!("`{pattern}` has a range without whole numbers"));
    };
    if low > high || high - low >= MOST {
        return Err(format!("`{pattern}` has an empty range, or one of more than {MOST}"));
    }
    // A second range multiplies.
    let tails = if tail.is_empty() { vec![String::new()] } else { expand(tail)? };
    if (high - low + 1) * tails.len() as u64 > MOST {
        return Err(format!("`{pattern}` stands for more than {MOST} names"));
    }
    Ok((low..=high).flat_map(|n| tails.iter().map(move |tail| format!("{head}{n}{tail}"))).collect())
}

/// Pairs two lists of names: one by one if they have equal lengths, or the only name of one list with each of the
/// other.
pub fn pair(from: &[String], to: &[String]) -> Option<Vec<(String, String)>> {
    let longest = from.len().max(to.len());
    let fits = |names: &[String]| names.len() == longest || names.len() == 1;
    (fits(from) && fits(to))
        .then(|| (0..longest).map(|i| (from[i % from.len()].clone(), to[i % to.len()].clone())).collect())
}

/// The name of a flow without the word that subjects begin with, as in the tables of a trace.
pub(super) fn without_kind(subject: &str) -> String {
    subject.strip_prefix("flow ").unwrap_or(subject).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_count_and_multiply() {
        assert_eq!(expand("gateway").unwrap(), ["gateway"]);
        assert_eq!(expand("s{9..11}").unwrap(), ["s9", "s10", "s11"]);
        assert_eq!(expand("c{1..2}.{1..2}x").unwrap(), ["c1.1x", "c1.2x", "c2.1x", "c2.2x"]);
        for wrong in ["", "s{1..", "s{a..b}", "s{3..1}", "s{0..999999999}", "s{1-3}"] {
            assert!(expand(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn pairs_go_one_by_one_or_one_with_each() {
        let names = |pattern| expand(pattern).unwrap();
        assert_eq!(pair(&names("a{1..2}"), &names("b{1..2}")).unwrap()[1], ("a2".into(), "b2".into()));
        assert_eq!(pair(&names("a"), &names("b{1..3}")).unwrap()[2], ("a".into(), "b3".into()));
        assert!(pair(&names("a{1..2}"), &names("b{1..3}")).is_none());
    }
}
