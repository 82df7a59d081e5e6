//! `apply`, `confirm` and `rollback`: another configuration for what runs.

use serde::{Deserialize, Serialize};
use tidegate_units::Span;

use crate::quantities::ns;

/// Goes on with another shaper file, or with edits of the one in force. Only root and the user that runs the daemon may.
/// No packet is lost or reordered by it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Apply {
    /// The direction, where more than one is shaped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// The whole text of the file. Default: the text in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Edits of that text, one after the other.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<Edit>,
    /// Checks, and tells what is different, and changes nothing.
    pub dry_run: bool,
    /// Goes back to what was in force unless `confirm` is called within this time.
    #[serde(rename = "confirm_ns", with = "ns::option", skip_serializing_if = "Option::is_none")]
    pub confirm: Option<Span>,
}

/// An edit.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "edit", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Edit {
    /// Gives a key another value; an empty value takes it out.
    Set {
        /// `class`, `rule`, or the name of a table such as `shaper` or `discipline`.
        section: String,
        /// The name of the class, or the number of the rule, from 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The key.
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

/// What is different in one place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Difference {
    /// The place: `class calls`, `rule`, `shaper`.
    pub what: String,
    /// The key; none for all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What stood there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// What stands there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The same for people.
    pub text: String,
}

/// What a change did, or would do.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Applied {
    /// What is different.
    pub differences: Vec<Difference>,
    /// Warnings about the new file, for people.
    #[serde(default)]
    pub warnings: String,
    /// Whether it is in force now.
    pub applied: bool,
    /// Whether the tree of disciplines went on, with its queues and what it has counted against bursts.
    #[serde(default)]
    pub in_place: bool,
    /// Packets that waited and were entered anew.
    #[serde(default)]
    pub rehomed: u64,
}

/// Keeps what was applied on trial.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Confirm {}

/// Goes back to what was in force before the change on trial.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rollback {}

/// It was done.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Confirmed {
    /// The direction.
    pub direction: String,
}

/// Asks for the text of what is in force.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct InForce {
    /// The direction, where more than one is shaped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
}

/// A shaper file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Text {
    /// Its text.
    pub text: String,
}
