//! The names and numbers of the classes of a configuration.

use std::collections::HashMap;

use tidegate_config::discipline::Discipline;
use tidegate_config::discipline::cbq::CbqQueue;
use tidegate_config::shaper::{Config, Root};
use tidegate_core::ClassId;

/// The section of CBQ, if the discipline is CBQ.
pub(crate) fn cbq_of(config: &Config) -> Option<&CbqQueue> {
    match &config.root {
        Root::Discipline(discipline) => match &**discipline {
            Discipline::Cbq(section) => Some(section),
            _ => None,
        },
        Root::Shaper(_) => None,
    }
}

/// The names of the classes; the single name `all` for a discipline without classes.
pub(crate) fn names_of(config: &Config) -> Vec<String> {
    match config.class_names() {
        names if names.is_empty() => vec!["all".into()],
        names => names.into_iter().map(String::from).collect(),
    }
}

/// The numbers of the classes by name.
pub(crate) fn numbers_of(config: &Config) -> HashMap<String, ClassId> {
    match cbq_of(config) {
        Some(cbq) => cbq.numbers().into_iter().map(|(name, id)| (name.to_owned(), id)).collect(),
        None => names_of(config).into_iter().zip((0..).map(ClassId)).collect(),
    }
}
