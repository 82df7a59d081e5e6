//! Differences that are planted in the generated C: the comparison with the core must find each.

use std::fs;
use std::io;
use std::path::Path;

use super::equal::{Scratch, compare, compile};
use super::{GENERATED, generate};

/// A name, the text of the generated file that is replaced, and by what.
type Planted = (&'static str, &'static str, &'static str);

pub const DIFFERENCES: &[Planted] = &[
    ("the limit admits one packet more", "backlog.packets < self->packets", "backlog.packets <= self->packets"),
    ("a byte costs a unit more", "return 8000000000ull;", "return 8000000001ull;"),
    ("the bucket overflows by an eighth of a byte", "(earned >= room)", "(earned >= room + 1000000000ull)"),
    ("the last token is kept", "wanted & (self->level >= cost)", "wanted & (self->level > cost)"),
    ("the deadline is rounded down", "div_ceil_u64(missing, t_6)", "missing / t_6"),
    (
        "a nanosecond is earned twice",
        "self->updated = max_u64(self->updated, now);",
        "self->updated = max_u64(self->updated, now) - 1ull;",
    ),
    (
        "a change of rate counts for the past",
        "bucket_token_bucket_update(self, now);\n\tself->rate",
        "(void)now;\n\tself->rate",
    ),
    ("the target is missed by a nanosecond", "waited < params->target", "waited <= params->target"),
    ("a queue of one MTU is dropped from", "left <= params->mtu", "left < params->mtu"),
    ("an episode starts anew after two drops", "delta > 1u", "delta > 2u"),
    ("an episode is remembered for too long", "params->interval, 16ull", "params->interval, 32ull"),
    ("a mark does not count as a drop", "if ((call->phase == CODEL_PHASE_EPISODE))", "if (false && call)"),
    ("an episode forgets where it began", "self->last_count = self->count;", "self->last_count = 0u;"),
    ("fewer packets are dropped for their age", "codel_most_drops_a_call() / 2u", "codel_most_drops_a_call() / 4u"),
    ("a call drops one packet more", "return 32u;", "return 33u;"),
];

/// Plants each difference and compares `operations` operations. A line for each that was not found.
pub fn planted(root: &Path, operations: u64) -> io::Result<Vec<String>> {
    let mut missed = Vec::new();
    for planted in DIFFERENCES {
        match find(root, planted, operations)? {
            Ok(place) => println!("{}: found, {place}", planted.0),
            Err(problem) => missed.push(format!("{}: {problem}", planted.0)),
        }
    }
    Ok(missed)
}

/// Plants one difference. Returns where it was found, or why not.
pub fn find(root: &Path, (_, from, to): &Planted, operations: u64) -> io::Result<Result<String, String>> {
    let text = generate(root)?;
    let places = text.matches(from).count();
    if places != 1 {
        return Ok(Err(format!("its text stands {places} times in {GENERATED}")));
    }
    let scratch = Scratch::new("twin-planted")?;
    fs::write(scratch.0.join("deciders.h"), text.replace(from, to))?;
    let program = scratch.0.join("host");
    compile(root, &scratch.0, &program)?;
    Ok(match compare(&program, operations, 1)? {
        Some(difference) => Ok(difference.0.split(',').next().unwrap_or_default().to_owned()),
        None => Err(format!("not found in {operations} operations")),
    })
}
