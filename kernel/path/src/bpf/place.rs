//! [`Place`]: where a number is among the variables of a program, by the names that it has in C.

use super::btf::{ARRAY, STRUCT};
use super::error::LoadError;
use super::object::{Object, VARIABLES};

/// A number among the variables, or of each element of an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The first byte, that of the first element.
    pub(super) at: usize,
    /// Its bytes. Of one with 16 the lower 8 are read.
    pub(super) size: usize,
    /// From an element to the next in bytes; 0 for one that is not of an array.
    pub(super) apart: usize,
}

/// The variables of a program.
#[derive(Debug)]
pub struct Variables<'a>(Object<'a>);

impl<'a> Variables<'a> {
    /// The variables of an object.
    ///
    /// # Errors
    /// When it is no object.
    pub fn of(object: &'a [u8]) -> Result<Self, LoadError> {
        Object::parse(object).map(Self).map_err(|error| LoadError::Object(error.into()))
    }

    /// The place of `path`: a variable and then members, each behind a dot. One of them may be an array.
    ///
    /// # Errors
    /// When there is none, or it is no number.
    pub fn place(&self, path: &str) -> Result<Place, LoadError> {
        self.find(path).ok_or_else(|| LoadError::Object(format!("it has no number {path}")))
    }

    fn find(&self, path: &str) -> Option<Place> {
        let types = &self.0.types;
        let mut names = path.split('.');
        let name = names.next()?;
        let variable = types.variables(VARIABLES).into_iter().find(|&variable| types.name(variable) == name)?;
        let mut place = Place { at: self.0.place(name)? as usize, size: 0, apart: 0 };
        let mut of = types.plain(types.size_or_type(variable));
        loop {
            if types.kind(of) == ARRAY {
                of = types.plain(types.element(of)?);
                place.apart = types.size(of)? as usize;
                continue;
            }
            let Some(name) = names.next() else { break };
            let (offset, kind) = types.member_within(of, name).filter(|_| types.kind(of) == STRUCT)?;
            place.at += offset as usize;
            of = types.plain(kind);
        }
        place.size = types.size(of)? as usize;
        // Aligned, so that it is read at once.
        (matches!(place.size, 1 | 2 | 4 | 8 | 16) && place.at.is_multiple_of(place.size)).then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_compiler() {
        let object = include_bytes!("../../../generated/chassis.o");
        let variables = Variables::of(object).unwrap();
        let place = |path| variables.place(path).unwrap();
        let (class, granted) = (place("fbq.flows.class"), place("fbq.flows.granted"));
        assert_eq!((class.size, granted.size, class.apart), (4, 1, granted.apart));
        assert!(granted.at > class.at && granted.at < class.at + class.apart, "{class:?} {granted:?}");
        assert_eq!(place("in_force.kind"), Place { size: 8, apart: 0, ..place("in_force.kind") });
        assert_eq!(place("state.held.queues.backlog.bytes").at % 8, 0);
        // The lower half is read of a number of 128 bits, which comes first.
        assert_eq!((place("fbq.flows.start").size, place("fbq.flows.start").at % 16), (16, 0));
        // In a union without a name.
        assert_eq!(place("state.held.controls.counts.enqueued").apart, place("state.held.controls.since").apart);
        for path in ["none", "fbq.flows", "fbq.flows.none"] {
            assert!(variables.place(path).is_err(), "{path}");
        }
    }
}
