//! [`Follow`]: a rate that follows the line behind a shaper, decided by what passes the shaper.
//!
//! The link up begins at the shaping node: packets count as they leave its queue. The link down leads to it, with the shaper behind the
//! line: packets count as they arrive. Every few milliseconds the control decides, and the engine of the link takes the rate.

use std::cell::RefCell;
use std::rc::Rc;

use tidegate_autorate::passive::{Kind, Segment, Tracker};
use tidegate_autorate::{Bounds, Controller, Decision, Side};
use tidegate_core::{Bytes, Instant, Rate, Span};

use crate::engine::Simulation;
use crate::ids::LinkId;
use crate::link::Stage;
use crate::packet::{Proto, SimPacket};
use crate::tcp::Flags;

/// Decides on the rates of the shapers before and behind a line.
pub trait RateControl {
    /// A packet leaves the shaper up, or arrives before the shaper down.
    fn passes(&mut self, now: Instant, side: Side, packet: &SimPacket);
    /// Called every [`TICK`] with whether packets wait in the shaper of each direction; returns the rates that change.
    fn decide(&mut self, now: Instant, waiting: [bool; 2]) -> [Option<Rate>; 2];
    /// The decisions so far, for results.
    fn decisions(&self) -> &[Decision] {
        &[]
    }
}

/// How often a control is asked.
pub const TICK: Span = Span::from_millis(10);

/// A control that packets and the event loop share.
pub type SharedControl = Rc<RefCell<dyn RateControl>>;

/// A control and the links whose shapers it steers: up and down.
pub(crate) struct Follower {
    pub links: [LinkId; 2],
    pub control: SharedControl,
}

/// [`Controller`] behind the passive tracker, as a live shaper has them.
#[derive(Debug)]
pub struct Follow {
    controller: Controller,
    tracker: Tracker,
    carried: [u64; 2],
    decisions: Vec<Decision>,
}

impl Follow {
    /// Follows the directions that have bounds.
    pub fn new(bounds: [Option<Bounds>; 2]) -> Self {
        Self {
            controller: Controller::new(bounds, Instant::ZERO),
            tracker: Tracker::default(),
            carried: [0; 2],
            decisions: Vec::new(),
        }
    }
    /// The controller.
    pub fn controller(&mut self) -> &mut Controller {
        &mut self.controller
    }
}

/// The segment that an observer of a simulated packet on side `side` sees; `None` unless it is TCP.
pub fn segment(side: Side, packet: &SimPacket) -> Option<Segment> {
    let outward = side == Side::Up;
    let peer = u64::from(if outward { packet.destination } else { packet.source });
    let tcp = &packet.segment;
    let occupies = tcp.len > 0 || tcp.flags.has(Flags::SYN) || tcp.flags.has(Flags::FIN);
    let kind = Kind::Tcp {
        timestamps: tcp.timestamps.map(|stamps| (stamps.value, stamps.echo)),
        end: tcp.seq.wrapping_add(tcp.len).wrapping_add(u32::from(occupies && tcp.len == 0)),
        ack: tcp.flags.has(Flags::ACK).then_some(tcp.ack),
        answered: occupies,
    };
    (packet.transport == Proto::Tcp).then_some(Segment { flow: packet.connection(), peer, outward, kind })
}

impl RateControl for Follow {
    fn passes(&mut self, now: Instant, side: Side, packet: &SimPacket) {
        self.carried[side as usize] += u64::from(packet.size);
        if let Some(segment) = segment(side, packet)
            && let Some(found) = self.tracker.see(now, &segment)
        {
            self.controller.round_trip(now, found.peer, found.round_trip, found.down);
        }
    }
    fn decide(&mut self, now: Instant, waiting: [bool; 2]) -> [Option<Rate>; 2] {
        for side in Side::BOTH {
            let bytes = std::mem::take(&mut self.carried[side as usize]);
            self.controller.carried(side, Bytes::new(bytes), waiting[side as usize]);
        }
        let decided = self.controller.decide(now);
        self.decisions.extend(decided.iter().flatten());
        decided.map(|decision| decision.map(|decision| decision.to))
    }
    fn decisions(&self) -> &[Decision] {
        &self.decisions
    }
}

/// Passes a packet to the control of its link.
#[inline]
pub(crate) fn observe(observer: &(SharedControl, Side), at: Instant, stage: Stage, packet: &SimPacket) {
    let wanted = match observer.1 {
        Side::Up => Stage::Transmitting,
        Side::Down => Stage::Arrived,
    };
    if stage == wanted {
        observer.0.borrow_mut().passes(at, observer.1, packet);
    }
}

impl Simulation {
    /// Asks the control of a follower, and gives its rates to the engines of its links.
    pub(crate) fn on_follow(&mut self, number: u32) {
        let follower = &self.followers[number as usize];
        let (links, control) = (follower.links, Rc::clone(&follower.control));
        let waiting = links.map(|link| self.backlog(link).packets > 0);
        let rates = control.borrow_mut().decide(self.now(), waiting);
        for (link, rate) in links.into_iter().zip(rates) {
            if let Some(rate) = rate {
                self.set_line_rate(link, rate);
            }
        }
        self.schedule_follow(number);
    }
}
