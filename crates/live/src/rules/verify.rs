//! Compares the rules in force with the plan.

use std::fmt;

use super::{Family, Rule, Table};

/// A difference between the kernel's rules and the plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Difference {
    /// Another discipline is at the root of an interface than that of a data path in the kernel.
    Root {
        /// The name of the discipline that is there.
        found: String,
        /// The name of ours.
        meant: String,
    },
    /// The program at tc is missing that marks packets for a data path in the kernel, or leads what arrives there.
    MissingProgram {
        /// Its name.
        program: String,
    },
    /// The table is missing, for instance because the ruleset was flushed.
    MissingTable {
        /// The address family of the table.
        family: Family,
        /// The name of the table.
        table: String,
    },
    /// A chain is missing.
    MissingChain {
        /// The name of the chain.
        chain: String,
    },
    /// A chain has another hook or priority.
    MovedChain {
        /// The name of the chain.
        chain: String,
        /// The planned hook and priority.
        meant: Option<(u32, i32)>,
        /// The hook and priority in force.
        found: Option<(u32, i32)>,
    },
    /// A chain is not in the plan.
    ExtraChain {
        /// The name of the chain.
        chain: String,
    },
    /// A rule is missing.
    MissingRule {
        /// The name of the chain that it belongs to.
        chain: String,
        /// Its comment, which says what it is for.
        rule: String,
    },
    /// A rule is not in the plan.
    ExtraRule {
        /// The name of the chain that it belongs to.
        chain: String,
        /// Its place in the chain, from 0.
        position: usize,
        /// The purpose in its comment.
        rule: String,
    },
    /// A rule has other expressions.
    ChangedRule {
        /// The name of the chain that it belongs to.
        chain: String,
        /// Its comment, which says what it is for.
        rule: String,
        /// The first expression that differs, as planned.
        meant: String,
        /// The expression that is in force in its place.
        found: String,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingProgram { program } => {
                write!(f, "the program {program} is missing, to which tc gave packets")
            }
            Self::Root { found, meant } => write!(f, "{found} is at the root of the interface, where {meant} was"),
            Self::MissingTable { family, table } => write!(f, "the table {} {table} is gone", family.name()),
            Self::MissingChain { chain } => write!(f, "the chain {chain} is gone"),
            Self::MovedChain { chain, meant, found } => {
                write!(f, "the chain {chain} was meant at hook and priority {meant:?} and is at {found:?}")
            }
            Self::ExtraChain { chain } => write!(f, "the chain {chain} is not ours"),
            Self::MissingRule { chain, rule } => write!(f, "the rule \"{rule}\" of chain {chain} is gone"),
            Self::ExtraRule { chain, position, rule } => {
                write!(f, "rule {position} of chain {chain} (\"{rule}\") is not ours")
            }
            Self::ChangedRule { chain, rule, meant, found } => {
                write!(f, "the rule \"{rule}\" of chain {chain} has {found} where {meant} was meant")
            }
        }
    }
}

pub(super) fn compare(meant: &Table, found: Option<&Table>) -> Vec<Difference> {
    let Some(found) = found else {
        return vec![Difference::MissingTable { family: meant.family, table: meant.name.clone() }];
    };
    let mut differences = Vec::new();
    for chain in &meant.chains {
        match found.chains.iter().find(|c| c.name == chain.name) {
            None => differences.push(Difference::MissingChain { chain: chain.name.clone() }),
            Some(other) if other.hook != chain.hook => differences.push(Difference::MovedChain {
                chain: chain.name.clone(),
                meant: chain.hook,
                found: other.hook,
            }),
            Some(_) => {
                let of = |table: &Table| -> Vec<Rule> {
                    table.rules.iter().filter(|r| r.chain == chain.name).cloned().collect()
                };
                compare_rules(&chain.name, &of(meant), &of(found), &mut differences);
            }
        }
    }
    for chain in found.chains.iter().filter(|c| !meant.chains.iter().any(|m| m.name == c.name)) {
        differences.push(Difference::ExtraChain { chain: chain.name.clone() });
    }
    differences
}

/// Rules are paired by their comments, in order; unpaired rules are missing or extra.
fn compare_rules(chain: &str, meant: &[Rule], found: &[Rule], differences: &mut Vec<Difference>) {
    let mut at = 0;
    for rule in meant {
        let Some(skip) = found[at..].iter().position(|f| f.comment == rule.comment) else {
            differences.push(Difference::MissingRule { chain: chain.into(), rule: rule.comment.clone() });
            continue;
        };
        extra(chain, &found[at..at + skip], at, differences);
        at += skip + 1;
        let other = &found[at - 1];
        let length = rule.expressions.len().max(other.expressions.len());
        let pair = (0..length).map(|i| (rule.expressions.get(i), other.expressions.get(i))).find(|(m, f)| m != f);
        if let Some((m, f)) = pair {
            let text = |e: Option<&crate::nft::Expression>| e.map_or("nothing".to_owned(), ToString::to_string);
            differences.push(Difference::ChangedRule {
                chain: chain.into(),
                rule: rule.comment.clone(),
                meant: text(m),
                found: text(f),
            });
        }
    }
    extra(chain, &found[at..], at, differences);
}

fn extra(chain: &str, rules: &[Rule], from: usize, differences: &mut Vec<Difference>) {
    for (i, rule) in rules.iter().enumerate() {
        differences.push(Difference::ExtraRule { chain: chain.into(), position: from + i, rule: rule.comment.clone() });
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::Extras;
    use super::super::{Spec, Verb, plan};
    use super::*;
    use crate::nft::Expression;

    fn table() -> Table {
        let spec = Spec::new("eth0", 5);
        plan::table(&spec, &spec.interfaces[0], Family::Inet, Verb::Native, Extras::ALL[0], "tidegate_eth0")
    }

    #[test]
    fn the_same_has_no_difference() {
        assert_eq!(compare(&table(), Some(&table())), []);
    }

    #[test]
    fn each_kind_of_tampering_is_named() {
        let meant = table();
        assert!(matches!(compare(&meant, None)[..], [Difference::MissingTable { .. }]));

        let mut found = table();
        let at = found.rules.iter().position(|r| r.comment == "queue").unwrap();
        let rule = found.rules.remove(at);
        assert_eq!(
            compare(&meant, Some(&found)),
            [Difference::MissingRule { chain: "shape".into(), rule: "queue".into() }]
        );

        let foreign = Rule { comment: "let it pass".into(), expressions: vec![Expression::Accept], ..rule.clone() };
        found.rules.insert(at, rule.clone());
        found.rules.insert(at, foreign);
        let extra = Difference::ExtraRule { chain: "shape".into(), position: 6, rule: "let it pass".into() };
        assert_eq!(compare(&meant, Some(&found)), [extra]);

        let mut found = table();
        found.rules[at].expressions[1] = Expression::Queue { first: 6, count: 1 };
        assert!(
            matches!(&compare(&meant, Some(&found))[..], [Difference::ChangedRule { found, .. }] if found.contains('6'))
        );

        let mut found = table();
        found.chains.retain(|c| c.name != "foreign");
        found.chains[0].hook = Some((4, 0));
        let differences = compare(&meant, Some(&found));
        assert!(matches!(differences[..], [Difference::MovedChain { .. }, Difference::MissingChain { .. }]));
    }
}
