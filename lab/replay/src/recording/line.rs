//! The calls of the controller of a rate that follows the line: [`LineRecorder`] writes them, [`calls`] reads them.
//!
//! They have chunks of their own, because the controller runs on another thread than the data path. The body of a chunk begins with the
//! number of its first call and the base of times.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;

use tidegate_autorate::calls::{Call, Decided, Recorder};
use tidegate_autorate::{Bounds, Cause, Decision, Side};
use tidegate_units::{Bytes, Instant, Rate, Span};

use super::ChunkKind;
use super::codec::{Body, Cursor, Short};
use super::file::{CHUNK, Chunk, Shared};

/// The longest time after which calls are passed to the writing thread.
const LONGEST: Span = Span::from_secs(1);
/// An upper bound on the size of a call.
const ROOM: usize = 256;

/// The first byte of a call.
mod tag {
    pub const START: u8 = 1;
    pub const BOUNDS: u8 = 2;
    pub const ROUND_TRIP: u8 = 3;
    pub const CARRIED: u8 = 4;
    pub const DECIDE: u8 = 5;
}

/// Records the calls of one controller. It never waits: if the file is too slow, chunks are lost and counted. Dropping it passes the
/// last calls to the writing thread.
pub struct LineRecorder {
    to: SyncSender<Chunk>,
    shared: Arc<Shared>,
    out: Body,
    /// The number of calls in the chunk.
    calls: u64,
    /// The time of the last call that has one.
    now: Instant,
    /// The time of the first call of the chunk.
    since: Instant,
}

impl LineRecorder {
    pub(super) fn new(to: SyncSender<Chunk>, shared: Arc<Shared>) -> Self {
        let out = Body::new(Vec::with_capacity(CHUNK));
        Self { to, shared, out, calls: 0, now: Instant::ZERO, since: Instant::ZERO }
    }

    fn send_chunk(&mut self) {
        let calls = std::mem::take(&mut self.calls);
        if calls == 0 {
            return;
        }
        let sent = self.shared.buffer().map(|empty| {
            let body = std::mem::replace(&mut self.out, Body::new(empty)).into_bytes();
            self.to.try_send(Chunk { kind: ChunkKind::Line, body, records: calls })
        });
        self.out.clear();
        if !matches!(sent, Some(Ok(()))) {
            self.shared.lost.fetch_add(calls, Ordering::Relaxed);
        }
    }
}

impl Recorder for LineRecorder {
    fn call(&mut self, number: u64, call: &Call, decided: &Decided) {
        if self.out.len() + ROOM > CHUNK {
            self.send_chunk();
        }
        if self.calls == 0 {
            let base = self.now.as_nanos();
            self.out.append(|out| [number, base].into_iter().for_each(|value| out.number(value)));
        }
        append(&mut self.out, &mut self.now, call, decided);
        if self.calls == 0 {
            self.since = self.now;
        }
        self.calls += 1;
        if self.now.since(self.since) > LONGEST {
            self.send_chunk();
        }
    }
}

impl Drop for LineRecorder {
    fn drop(&mut self) {
        self.send_chunk();
    }
}

/// Appends a call with its decisions. `before` is the time of the last call that has one.
fn append(to: &mut Body, before: &mut Instant, call: &Call, decided: &Decided) {
    let mut time = |out: &mut Short<'_>, now: Instant| {
        let before = std::mem::replace(before, now);
        out.signed(now.as_nanos().wrapping_sub(before.as_nanos()) as i64);
    };
    to.append(|out| match *call {
        Call::Start { now } => {
            out.byte(tag::START);
            time(out, now);
        }
        Call::Bounds { side, bounds } => {
            out.byte(tag::BOUNDS);
            out.byte(flags(side, bounds.is_some()));
            let rates = bounds.map(|bounds| [bounds.least, bounds.base, bounds.most]);
            rates.into_iter().flatten().for_each(|rate| out.number(rate.as_bps()));
        }
        Call::RoundTrip { now, peer, round_trip, down } => {
            out.byte(tag::ROUND_TRIP);
            time(out, now);
            out.array(peer.to_le_bytes());
            out.number(round_trip.as_nanos());
            optional(out, down);
        }
        Call::Carried { side, bytes, waiting } => {
            out.byte(tag::CARRIED);
            out.byte(flags(side, waiting));
            out.number(bytes.as_u64());
        }
        Call::Decide { now } => {
            out.byte(tag::DECIDE);
            time(out, now);
            out.byte(u8::from(decided[0].is_some()) | u8::from(decided[1].is_some()) << 1);
        }
    });
    for decision in decided.iter().flatten() {
        to.append(|out| {
            let rates = [decision.from, decision.to, decision.achieved].map(Rate::as_bps);
            for value in [decision.at.as_nanos()].into_iter().chain(rates) {
                out.number(value);
            }
            out.byte(decision.cause as u8);
            optional(out, decision.delay.map(Span::as_nanos));
            out.number(decision.peers as u64);
        });
    }
}

fn flags(side: Side, flag: bool) -> u8 {
    side as u8 | u8::from(flag) << 1
}

fn optional(out: &mut Short<'_>, value: Option<u64>) {
    out.byte(value.is_some().into());
    if let Some(value) = value {
        out.number(value);
    }
}

/// Reads the body of a chunk: passes each call with its number and its decisions to `each`. `None` if it is damaged; the calls before
/// the damage have been passed.
pub(super) fn calls(body: &[u8], mut each: impl FnMut(u64, &Call, &Decided)) -> Option<()> {
    let mut cursor = Cursor { rest: body };
    let (mut number, mut now) = (cursor.number()?, cursor.number()?);
    while !cursor.rest.is_empty() {
        let (call, decided) = read(&mut cursor, &mut now)?;
        each(number, &call, &decided);
        number = number.checked_add(1)?;
    }
    Some(())
}

fn read(cursor: &mut Cursor<'_>, before: &mut u64) -> Option<(Call, Decided)> {
    let mut time = |cursor: &mut Cursor<'_>| {
        *before = before.wrapping_add(cursor.signed()? as u64);
        Some(Instant::from_nanos(*before))
    };
    let mut decided = [None; 2];
    let call = match cursor.byte()? {
        tag::START => Call::Start { now: time(cursor)? },
        tag::BOUNDS => {
            let (side, present) = read_flags(cursor)?;
            let mut rate = || Some(Rate::from_bps(cursor.number()?));
            let bounds = if present { Some(Bounds { least: rate()?, base: rate()?, most: rate()? }) } else { None };
            Call::Bounds { side, bounds }
        }
        tag::ROUND_TRIP => {
            let (now, peer) = (time(cursor)?, u64::from_le_bytes(cursor.array()?));
            let round_trip = Span::from_nanos(cursor.number()?);
            Call::RoundTrip { now, peer, round_trip, down: read_optional(cursor)? }
        }
        tag::CARRIED => {
            let (side, waiting) = read_flags(cursor)?;
            Call::Carried { side, bytes: Bytes::new(cursor.number()?), waiting }
        }
        tag::DECIDE => {
            let now = time(cursor)?;
            let sides = cursor.byte().filter(|sides| *sides < 4)?;
            for side in Side::BOTH {
                if sides >> side as u8 & 1 != 0 {
                    decided[side as usize] = Some(read_decision(cursor, side)?);
                }
            }
            Call::Decide { now }
        }
        _ => return None,
    };
    Some((call, decided))
}

fn read_decision(cursor: &mut Cursor<'_>, side: Side) -> Option<Decision> {
    let at = Instant::from_nanos(cursor.number()?);
    let mut rate = || Some(Rate::from_bps(cursor.number()?));
    let (from, to, achieved) = (rate()?, rate()?, rate()?);
    let cause = *Cause::ALL.get(usize::from(cursor.byte()?))?;
    let delay = read_optional(cursor)?.map(Span::from_nanos);
    Some(Decision { at, side, from, to, cause, achieved, delay, peers: cursor.small()? })
}

fn read_flags(cursor: &mut Cursor<'_>) -> Option<(Side, bool)> {
    let flags = cursor.byte().filter(|flags| *flags < 4)?;
    Some((Side::BOTH[usize::from(flags & 1)], flags & 2 != 0))
}

fn read_optional(cursor: &mut Cursor<'_>) -> Option<Option<u64>> {
    match cursor.byte()? {
        0 => Some(None),
        1 => Some(Some(cursor.number()?)),
        _ => None,
    }
}
