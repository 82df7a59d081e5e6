//! All mutants of a file in one text: at each place a `match` on the mutant that is chosen when the program runs.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::iter::Peekable;
use std::ops::Range;
use std::slice::Iter;

use super::operators::Place;

/// A mutant: one change at one place.
#[derive(Debug)]
pub struct Mutant {
    /// The name that stays while the text before the place does: file, line, column, function and change.
    pub name: String,
    /// Its number, from 1, in the order of the text.
    pub number: u32,
    /// The number of the first mutant at its place.
    pub first: u32,
}

/// A file with its mutants.
pub struct Schema {
    pub text: String,
    /// Where the changed code of each mutant is, by name.
    changes: Vec<(Range<usize>, String)>,
    /// Where each place with mutants is, with their names.
    places: Vec<(Range<usize>, Vec<String>)>,
}

/// Writes the mutants of `places` into `text`, except those whose name is in `without`, with numbers from `next` on.
pub fn write(
    file: &str,
    text: &str,
    places: &[Place],
    without: &BTreeSet<String>,
    next: &mut u32,
    mutants: &mut Vec<Mutant>,
) -> Schema {
    let mut writer = Writer {
        file,
        text,
        without,
        next,
        mutants,
        schema: Schema { text: String::new(), changes: Vec::new(), places: Vec::new() },
    };
    writer.range(0..text.len(), &mut places.iter().peekable());
    writer.schema
}

impl Schema {
    /// The mutants to which a compiler's error at `at` belongs: that whose changed code it is in, otherwise all of the
    /// innermost place around it.
    pub fn blamed(&self, at: &Range<usize>) -> Vec<String> {
        let around = |range: &Range<usize>| range.start <= at.start && at.end <= range.end;
        let changes = self.changes.iter().filter(|(range, _)| around(range));
        if let Some((_, name)) = changes.min_by_key(|(range, _)| range.len()) {
            return vec![name.clone()];
        }
        let places = self.places.iter().filter(|(range, _)| around(range));
        places.min_by_key(|(range, _)| range.len()).map(|(_, names)| names.clone()).unwrap_or_default()
    }
}

struct Writer<'a> {
    file: &'a str,
    text: &'a str,
    without: &'a BTreeSet<String>,
    next: &'a mut u32,
    mutants: &'a mut Vec<Mutant>,
    schema: Schema,
}

impl Writer<'_> {
    fn range(&mut self, range: Range<usize>, places: &mut Peekable<Iter<'_, Place>>) {
        let mut written = range.start;
        while let Some(place) = places.next_if(|place| place.range.end <= range.end) {
            self.schema.text += &self.text[written..place.range.start];
            self.place(place, places);
            written = place.range.end;
        }
        self.schema.text += &self.text[written..range.end];
    }

    fn place(&mut self, place: &Place, places: &mut Peekable<Iter<'_, Place>>) {
        let name = |what: &str| format!("{}:{}:{}: {}: {what}", self.file, place.at.0, place.at.1, place.within);
        let instead: Vec<(String, &str)> = place
            .instead
            .iter()
            .map(|(what, new)| (name(what), new.as_str()))
            .filter(|(name, _)| !self.without.contains(name))
            .collect();
        if instead.is_empty() {
            return self.range(place.range.clone(), places);
        }
        let (first, begin) = (*self.next, self.schema.text.len());
        *self.next += instead.len() as u32;
        let body = place.range.is_empty();
        // A `match` in a body is a statement, elsewhere a part of an expression.
        self.schema.text += if body { " " } else { "(" };
        let _ = write!(self.schema.text, "match crate::tidegate_mutant::at({first}, {}) {{ 0 => (", instead.len());
        for (nth, (name, _)) in instead.iter().enumerate() {
            let number = first + nth as u32;
            self.mutants.push(Mutant { name: name.clone(), number, first });
        }
        self.range(place.range.clone(), places);
        self.schema.text += ")";
        for (nth, (name, new)) in instead.iter().enumerate() {
            if nth + 1 == instead.len() {
                self.schema.text += ", _ => ";
            } else {
                let _ = write!(self.schema.text, ", {} => ", nth + 1);
            }
            let start = self.schema.text.len();
            self.schema.text += new;
            self.schema.changes.push((start..self.schema.text.len(), name.clone()));
        }
        self.schema.text += if body { " }" } else { " })" };
        let names = instead.into_iter().map(|(name, _)| name).collect();
        self.schema.places.push((begin..self.schema.text.len(), names));
    }
}

#[cfg(test)]
mod tests {
    use super::super::operators::places;
    use super::*;

    const TEXT: &str = "fn f(a: u8) -> bool { a + 1 == 2 }";

    fn schema(without: &BTreeSet<String>) -> (Schema, Vec<Mutant>) {
        let (mut next, mut mutants) = (1, Vec::new());
        (write("f.rs", TEXT, &places(TEXT).unwrap(), without, &mut next, &mut mutants), mutants)
    }

    #[test]
    fn only_the_original_is_mutated_further() {
        let (schema, mutants) = schema(&BTreeSet::new());
        syn::parse_file(&schema.text).unwrap();
        // Two bodies, !=, - and *, 0 and 2, 1 and 3.
        assert_eq!(mutants.iter().map(|mutant| mutant.first).collect::<Vec<_>>(), [1, 1, 3, 4, 4, 6, 6, 8, 8]);
        assert!(schema.text.contains("_ => (a + 1) != (2)"), "{}", schema.text);
        assert_eq!(schema.text.matches("at(4, 2)").count(), 1);
    }

    #[test]
    fn an_error_in_a_change_removes_it_and_elsewhere_its_place() {
        let (whole, _) = schema(&BTreeSet::new());
        let changed = whole.text.find("(a) * (1)").unwrap();
        let blamed = whole.blamed(&(changed + 1..changed + 2));
        assert_eq!(blamed, ["f.rs:1:25: f: `+` -> `*` in `a + 1`"]);
        let place = whole.text.find("at(4, 2)").unwrap();
        assert_eq!(whole.blamed(&(place..place + 2)).len(), 2);
        assert!(whole.blamed(&(0..1)).is_empty());
        let (less, mutants) = schema(&blamed.into_iter().collect());
        assert_eq!(mutants.len(), 8);
        assert!(less.text.contains("at(4, 1)"));
    }
}
