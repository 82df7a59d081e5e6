//! The recorded verdicts of an experiment, a file of the repository against which later runs are compared. A result
//! that contradicts the paper is recorded like any other, and a change that alters a verdict is noticed.

use std::collections::BTreeMap;

use super::Item;

const HEAD: &str = "id,verdict";

/// The verdict of an item as the file spells it.
fn name(item: &Item) -> &'static str {
    item.verdict().map_or("unmeasured", super::Verdict::name)
}

/// Formats the verdicts of `items` as CSV.
pub fn csv(items: &[Item]) -> String {
    let lines = items.iter().map(|item| format!("{},{}\n", item.id, name(item)));
    format!("{HEAD}\n{}", lines.collect::<String>())
}

/// Compares `items` with the verdicts of a file. Returns a line for each verdict that differs, each item that the file
/// lacks, and each item of the file whose id begins with `only` and that was not measured.
///
/// # Errors
/// If a line of the file is not in the format of [`csv`]; the text names it.
pub fn differences(items: &[Item], file: &str, only: &str) -> Result<Vec<String>, String> {
    let mut lines = (1..).zip(file.lines());
    if lines.next().map(|(_, head)| head) != Some(HEAD) {
        return Err(format!("line 1: not `{HEAD}`; the file is written by `tidegate reproduce NAME --verdicts FILE`"));
    }
    let mut recorded = BTreeMap::new();
    for (n, line) in lines {
        let pair = line.split_once(',').filter(|(_, verdict)| {
            *verdict == "unmeasured" || super::Verdict::ALL.iter().any(|known| known.name() == *verdict)
        });
        let (id, verdict) = pair.ok_or_else(|| format!("line {n}: `{line}` is not an id, a comma and a verdict"))?;
        if recorded.insert(id, verdict).is_some() {
            return Err(format!("line {n}: `{id}` is there twice"));
        }
    }
    let mut found = Vec::new();
    for item in items {
        match recorded.remove(item.id.as_str()) {
            None => found.push(format!("{}: {}, which is not recorded", item.id, name(item))),
            Some(verdict) if verdict != name(item) => {
                let measured = item.measured.map_or_else(|| "nothing".to_owned(), |value| value.to_string());
                found.push(format!("{}: {}, recorded as {verdict}; measured {measured}", item.id, name(item)));
            }
            Some(_) => {}
        }
    }
    let missing = recorded.into_iter().filter(|(id, _)| id.starts_with(only));
    found.extend(missing.map(|(id, verdict)| format!("{id}: recorded as {verdict}, and not measured")));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::item::{Bound, paper};
    use super::*;

    #[test]
    fn what_differs_is_named() {
        let item = |id: &str, value| Item::measured(id, "", "", value).bound(Bound::at_most(1.0, paper("table 1")));
        let items = [item("a.one", 1.0), item("a.two", 2.0)];
        let file = csv(&items);
        assert_eq!(file, "id,verdict\na.one,reproduced\na.two,contradicted\n");
        assert_eq!(differences(&items, &file, ""), Ok(vec![]));
        let other = [item("a.one", 2.0), item("a.three", 1.0)];
        let found = differences(&other, &file, "a").unwrap();
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("a.one: contradicted, recorded as reproduced"), "{found:?}");
        assert!(differences(&other[..1], &file, "a.one").unwrap().len() == 1);
        for wrong in ["", "id,verdict\na.one", "id,verdict\na.one,good", "id,verdict\na,reproduced\na,reproduced"] {
            assert!(differences(&items, wrong, "").is_err(), "{wrong}");
        }
    }
}
