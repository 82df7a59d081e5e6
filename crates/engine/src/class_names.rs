//! The classes that a configuration names, with their numbers.

use std::collections::HashMap;

use tidegate_config::discipline::Discipline;
use tidegate_config::discipline::cbq::CbqQueue;
use tidegate_config::shaper::{Config, Root};
use tidegate_core::ClassId;

/// The section of CBQ, where that is what a configuration has.
pub(crate) fn cbq_of(config: &Config) -> Option<&CbqQueue> {
    match &config.root {
        Root::Discipline(discipline) => match &**discipline {
            Discipline::Cbq(section) => Some(section),
            _ => None,
        },
        Root::Shaper(_) => None,
    }
}

/// The names of the classes of a configuration, one for all where it has none.
pub(crate) fn names_of(config: &Config) -> Vec<String> {
    match config.class_names() {
        names if names.is_empty() => vec!["all".into()],
        names => names.into_iter().map(String::from).collect(),
    }
}

/// The numbers of all classes that a configuration names.
pub(crate) fn numbers_of(config: &Config) -> HashMap<String, ClassId> {
    match cbq_of(config) {
        Some(cbq) => cbq.numbers().into_iter().map(|(name, id)| (name.to_owned(), id)).collect(),
        None => names_of(config).into_iter().zip((0..).map(ClassId)).collect(),
    }
}
