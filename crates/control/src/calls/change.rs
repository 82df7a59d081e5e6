//! `apply`, `confirm`, `rollback`, `undo` and `in-force`: changes of the configuration in force.

use std::fmt;

use serde::{Deserialize, Serialize};
use tidegate_units::Span;

use crate::quantities::ns;

/// The request `apply`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Apply {
    /// The direction, where more than one is shaped, or `both`. Default: those that the file is for, or the only one that has
    /// what is edited; both for a rule that both share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// The whole text of the file. Default: the text in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The path of the file that the text is from, for the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Edits of that text, one after the other.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<Edit>,
    /// Only check, and return the differences.
    pub dry_run: bool,
    /// Take the change back unless `confirm` is called within this time.
    #[serde(rename = "confirm_ns", with = "ns::option", skip_serializing_if = "Option::is_none")]
    pub confirm: Option<Span>,
}

/// An edit of a shaper file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "edit", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Edit {
    /// Sets a key; an empty value removes it.
    Set {
        /// `class`, `rule`, or the name of a table such as `shaper` or `discipline`.
        section: String,
        /// The name of the class, or the number of the rule, from 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The key; dots lead into tables.
        key: String,
        /// The value, as it would stand in the file; texts need no quotes.
        value: String,
    },
    /// Adds a class as the last, or a rule as the first.
    Add {
        /// `class` or `rule`.
        section: String,
        /// Keys and values.
        values: Vec<(String, String)>,
    },
    /// Removes a class or a rule.
    Remove {
        /// `class` or `rule`.
        section: String,
        /// The name of the class, or the number of the rule, from 1.
        name: String,
    },
}

/// A difference between two shaper files in one place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Difference {
    /// The place: `class calls`, `rule`, `shaper`.
    pub what: String,
    /// The key; none for the whole of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The value before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The value after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The difference in a line, as text.
    pub text: String,
}

impl Difference {
    /// Describes a difference, in fields and in a line.
    pub fn new(what: String, key: Option<String>, from: Option<String>, to: Option<String>) -> Self {
        let place = key.as_ref().map_or_else(|| what.clone(), |key| format!("{what}: {key}"));
        let text = match (&from, &to) {
            (Some(from), Some(to)) => format!("{place} {from} -> {to}"),
            (None, Some(to)) => format!("+ {place} {to}"),
            (Some(from), None) => format!("- {place} {from}"),
            (None, None) => place,
        };
        Self { what, key, from, to, text }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The effects of a change, or of a dry run.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Applied {
    /// From the configuration that was in force.
    pub differences: Vec<Difference>,
    /// Warnings about the new file, as text.
    #[serde(default)]
    pub warnings: String,
    /// Whether it was applied; not with `dry_run`, and not where nothing is different.
    pub applied: bool,
    /// Whether the tree of disciplines was kept, with its queues and the levels of its buckets.
    #[serde(default)]
    pub in_place: bool,
    /// Queued packets that were enqueued in a new tree.
    #[serde(default)]
    pub rehomed: u64,
    /// The numbers of the rules that were added, from 1, in the order of the edits; of both directions those of the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added_rules: Vec<u32>,
    /// The change that `undo` took back, or would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone: Option<Change>,
}

/// A change of the configuration that was kept: who made it, by which command, and when.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Change {
    /// When it was made, in seconds since 1970.
    pub time_s: u64,
    /// The user of the process that requested it; absent for a reload by a signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The user who had logged in, where that is another one, as with `sudo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login_uid: Option<u32>,
    /// Who it was, as text: users with their names, and the process.
    pub author: String,
    /// The command line that makes such a request.
    pub command: String,
}

/// The request `confirm`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Confirm {}

/// The request `rollback`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rollback {}

/// The request `undo`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Undo {
    /// Only return the differences.
    pub dry_run: bool,
}

/// The reply to `confirm` and `rollback`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Confirmed {
    /// The direction that was changed.
    pub direction: String,
}

/// The request `in-force`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct InForce {
    /// The direction, where more than one is shaped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
}

/// The reply to `in-force`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Text {
    /// A shaper file.
    pub text: String,
}
