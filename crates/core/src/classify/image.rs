//! The tables of a classifier as numbers of 64 bits, with what its rules lead to: the form in which a program in the kernel
//! reads them (`kernel/classify.h`).
//!
//! Positions count numbers from the first one on. An interval is found by bisection instead of by the tables of
//! [`intervals`](super::intervals): its steps grow with the logarithm of the number of intervals, and each takes three numbers.

use alloc::vec::Vec;

use super::axes::Selector;
use super::groups::NONE;
use super::{BuildError, Columns, FieldParts, Parts, Rule};
use crate::flow::{FlowBy, FlowHash};

/// The result of a match.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Target {
    /// The number of the class.
    pub class: u32,
    /// The number of the profile.
    pub profile: u32,
    /// The number that identifies the class in the keys of its flows: it is added to them by exclusive or.
    pub salt: u64,
}

/// The head: numbers of axes and of steps, positions of axes, steps and results, the first rule without conditions, how
/// flows are told apart, the fields that are used, the position and the number of control groups, and the position of a second
/// image for [`beside`].
const HEAD: usize = 14;
const USED: usize = 11;
const SECOND: usize = 13;
/// Numbers of an axis, and of two of the fields.
const AXIS: usize = 4;
const UID: u64 = 4;
const CGROUP: u64 = 5;
/// A step that begins with another group.
const FIRST: u64 = 1 << 63;

/// The rules and the definition of a flow as numbers. [`Rule::target`] is a place in `targets`; a packet that no rule matches
/// goes to `default`. `groups` are the control groups that rules name: of those that have a socket, one in the other, the
/// first of the list is the packet's.
///
/// # Errors
/// As [`Classifier::new`](super::Classifier::new).
///
/// # Panics
/// When a rule has a target that is not in `targets`.
pub fn image(
    rules: &[Rule],
    targets: &[Target],
    default: Target,
    hash: &FlowHash,
    groups: &[u64],
) -> Result<Vec<u64>, BuildError> {
    let Parts { catch_all, fields, groups: sequences, .. } = Parts::new(rules)?;
    let mut image = alloc::vec![0; HEAD];
    let results = image.len();
    for target in core::iter::once(&default).chain(rules.iter().map(|rule| &targets[rule.target as usize])) {
        image.extend([pair(target.class, target.profile), target.salt]);
    }
    let tables: Vec<u64> = fields.iter().flat_map(|field| axis(&mut image, field)).collect();
    let axes = image.len();
    image.extend(tables);
    let mut all = Vec::new();
    for group in &sequences {
        let (rows, slots) = group.tables.numbers();
        let at = image.len();
        image.extend(rows.flat_map(|[default, low, span, next]| [pair(default, low), pair(span, next)]));
        let place = pair(at as u32, image.len() as u32);
        image.extend(slots.map(|[class, next]| pair(class, next)));
        all.push([pair(group.axis, group.column) | FIRST, place]);
        all.extend(group.stages.iter().map(|stage| [pair(stage.axis, stage.column), place]));
    }
    let steps = image.len();
    image.extend(all.iter().flatten());
    let positions = [fields.len(), all.len(), axes, steps, results].map(|number| number as u64);
    image[..5].copy_from_slice(&positions);
    image[5] = u64::from(catch_all);
    image[6..11].copy_from_slice(&hash.numbers());
    let of_flow = match hash.by() {
        FlowBy::Uid => 1 << UID,
        FlowBy::Cgroup => 1 << CGROUP,
        _ => 0,
    };
    image[USED] = image[axes..].chunks(AXIS).take(fields.len()).fold(of_flow, |used, axis| used | 1 << (axis[0] & 15));
    image[12] = list_groups(&mut image, groups);
    Ok(image)
}

/// Appends a second image, whose rules are looked up besides those of the first; none if it is empty. With `users` those of
/// packets are to be known even if no rule asks for them.
pub fn beside(mut image: Vec<u64>, second: &[u64], users: bool) -> Vec<u64> {
    image[USED] |= second.get(USED).copied().unwrap_or(0) | u64::from(users) << UID;
    if !second.is_empty() {
        image[SECOND] = image.len() as u64;
        image.extend(second);
    }
    image
}

/// Appends the intervals of control groups: one for each, with its place, and those between. Returns their position and number.
fn list_groups(image: &mut Vec<u64>, groups: &[u64]) -> u64 {
    let place = |id: u64| groups.iter().position(|&group| group == id).map_or(NONE, |place| place as u32);
    let mut starts: Vec<u64> = groups.iter().flat_map(|&id| [id, id.saturating_add(1)]).chain([0]).collect();
    starts.sort_unstable();
    starts.dedup();
    let list = pair(image.len() as u32, starts.len() as u32);
    image.extend(starts.iter().flat_map(|&id| [0, id, place(id).into()]));
    list
}

/// Appends the intervals of a field, and its rows. Returns its selector with the position of its rows, the bits of a value
/// that count, and position and number of the intervals of IPv4 or of all values, and of those of IPv6.
fn axis(image: &mut Vec<u64>, field: &FieldParts) -> [u64; AXIS] {
    let (selector, mask) = match field.selector {
        Selector::Source => (0, u64::MAX),
        Selector::Destination => (1, u64::MAX),
        Selector::SourcePort => (2, u64::MAX),
        Selector::DestinationPort => (3, u64::MAX),
        Selector::Uid => (UID, u64::MAX),
        Selector::Cgroup => (CGROUP, u64::MAX),
        Selector::Kind => (6, u64::MAX),
        Selector::Dscp => (7, u64::MAX),
        Selector::Mark(mask) => (8, mask.into()),
        // The program reads no field of these numbers: whoever builds an image refuses such rules first.
        Selector::Length => (9, u64::MAX),
        Selector::Tcp => (10, u64::MAX),
        Selector::Icmp => (11, u64::MAX),
    };
    let lists = [0, 1].map(|version| {
        let (at, mut count, mut last) = (image.len(), 0, None);
        for (&start, &value) in field.starts.iter().zip(&field.values) {
            // Neighbours that lead to the same are one.
            if start.0 != version || last.replace(value) == Some(value) {
                continue;
            }
            let (best, found) = match field.columns {
                Columns::Best => (value, 0),
                Columns::Number => (NONE, value),
                Columns::Several { best } => (if best { field.rows[value as usize] } else { NONE }, value),
            };
            image.extend([(start.1 >> 64) as u64, start.1 as u64, pair(best, found)]);
            count += 1;
        }
        pair(at as u32, count)
    });
    let rows = if field.rows.is_empty() { 0 } else { image.len() };
    image.extend(field.rows.iter().copied().map(u64::from));
    [selector | (rows as u64) << 32, mask, lists[0], lists[1]]
}

/// The first in the lower half.
fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}
