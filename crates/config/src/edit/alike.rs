//! [`Document::edited_alike`]: makes one change in the files for both directions.

use super::{Document, Edit, List, Node, find, list};

impl Document {
    /// Returns this file and the one for the other direction after `edits` of both. Numbers of rules count in this file; in the
    /// other one the rule with as many rules behind it is meant, or else before it, so that a rule which both share stays shared.
    ///
    /// # Errors
    /// As [`edited`](Self::edited), and when the directions have different rules there.
    pub fn edited_alike(&self, other: &Self, edits: &[Edit]) -> Result<[Self; 2], String> {
        let (mut one, mut other) = (self.clone(), other.clone());
        for edit in edits {
            let same = match edit {
                Edit::Set { section, name: Some(name), key, value } if section == "rule" => {
                    let name = one.shared(&other, name)?;
                    Edit::Set { section: section.clone(), name: Some(name), key: key.clone(), value: value.clone() }
                }
                Edit::Remove { section, name } if section == "rule" => {
                    Edit::Remove { section: section.clone(), name: one.shared(&other, name)? }
                }
                edit => edit.clone(),
            };
            one.apply(edit)?;
            other.apply(&same)?;
        }
        one.check_removed(edits)?;
        other.check_removed(edits)?;
        Ok([one, other])
    }

    /// The number of the first rule that is edited by a number under which `other` has a different rule.
    pub fn differs_at(&self, other: &Self, edits: &[Edit]) -> Option<String> {
        let numbers = edits.iter().filter_map(|edit| match edit {
            Edit::Set { section, name: Some(name), .. } | Edit::Remove { section, name } if section == "rule" => {
                Some(name)
            }
            _ => None,
        });
        let differs = |name: &&String| matches!((self.rule(name), other.rule(name)), (Ok(one), Ok(two)) if one != two);
        numbers.into_iter().find(differs).cloned()
    }

    /// The number that rule `name` of this file has in `other`.
    fn shared(&self, other: &Self, name: &str) -> Result<String, String> {
        let number = list(self.0.as_table(), "rule")?.find("rule", name)? + 1;
        let rule = self.rule(name)?;
        // Rules that both share are the last ones or the first ones: between them are those of one direction.
        let from_the_end = (number + other.rules()).saturating_sub(self.rules());
        let mut places = [from_the_end, number].into_iter().map(|place| place.to_string());
        places.find(|there| other.rule(there).is_ok_and(|same| same == rule)).ok_or_else(|| {
            format!("rule {name} is not the same in both directions; change it with --direction in each")
        })
    }

    /// The number of rules.
    fn rules(&self) -> usize {
        list(self.0.as_table(), "rule").map_or(0, |list: List<'_>| list.nodes().len())
    }

    /// The keys and values of a rule as they are written.
    fn rule(&self, name: &str) -> Result<Vec<String>, String> {
        let values = match find(self.0.as_table(), "rule", Some(name))? {
            Node::Table(table) => table.get_values(),
            Node::Inline(table) => table.get_values(),
        };
        let written = values.into_iter().map(|(keys, value)| {
            let keys: Vec<&str> = keys.iter().map(|key| key.get()).collect();
            format!("{} = {}", keys.join("."), value.span().map_or("", |span| &self.text()[span]))
        });
        Ok(written.collect())
    }
}
