//! Two endpoints and a wire between them on which the test decides what happens to each segment.

use std::collections::BTreeMap;

use tidegate_core::{Ecn, Instant, Span};
use tidegate_sim::tcp::{Config, Endpoint, Flags, Segment};

/// The delay each way, without a rate: a round trip takes 100 ms, and a window leaves at once.
pub const DELAY: Span = Span::from_millis(50);

/// A transfer of `segments` segments of 1000 bytes, of which the data segments have the fate that `fate` gives to their
/// numbers.
pub fn transfer(
    config: Config,
    segments: u64,
    fate: impl Fn(usize) -> Fate,
) -> Wire<impl FnMut(usize, usize, &Segment) -> Fate> {
    let fate = move |from: usize, number: usize, segment: &Segment| {
        if from == 0 && segment.len > 0 { fate(number) } else { Fate::Pass }
    };
    let mut wire = Wire::new(config, DELAY, fate);
    wire.ends[0].write(segments * 1000);
    wire.ends[0].close();
    wire.run(Span::from_secs(60));
    assert_eq!(wire.ends[1].received(), segments * 1000, "everything arrived");
    wire
}

/// The fate of a segment on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It arrives after the wire's delay.
    Pass,
    /// It is lost.
    Drop,
    /// It arrives later by this.
    Late(Span),
    /// It arrives with a congestion mark, if it is ECN-capable.
    Mark,
    /// It arrives twice.
    Twice,
}

/// A segment as it was put on the wire.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub at: Instant,
    /// 0: from the client, 1: from the server.
    pub from: usize,
    pub segment: Segment,
}

impl Sent {
    pub fn is_data(&self) -> bool {
        self.segment.len > 0
    }
    pub fn millis(&self) -> u64 {
        self.at.as_nanos() / 1_000_000
    }
}

/// Both ends and what is between.
pub struct Wire<F> {
    pub ends: [Endpoint; 2],
    pub now: Instant,
    pub log: Vec<Sent>,
    delay: Span,
    flying: BTreeMap<(Instant, usize), (usize, Segment)>,
    count: usize,
    // Data segments so far, by direction.
    data: [usize; 2],
    fate: F,
    /// Whether AccECN options are lost on the way.
    pub strips_options: bool,
    /// Changes segments on the wire, by the end that sent them.
    pub alter: Option<Alter>,
}

/// A change of segments by a middlebox.
pub type Alter = Box<dyn Fn(usize, &mut Segment)>;

/// `fate(direction, number, segment)`: numbers count data segments of that direction from 0; of others it is the
/// number of the next data segment.
impl<F: FnMut(usize, usize, &Segment) -> Fate> Wire<F> {
    pub fn new(config: Config, delay: Span, fate: F) -> Self {
        Self::with_ends(Endpoint::connect(config), Endpoint::listen(config), delay, fate)
    }
    pub fn with_ends(client: Endpoint, server: Endpoint, delay: Span, fate: F) -> Self {
        Self {
            ends: [client, server],
            now: Instant::ZERO,
            log: Vec::new(),
            delay,
            flying: BTreeMap::new(),
            count: 0,
            data: [0; 2],
            fate,
            strips_options: false,
            alter: None,
        }
    }

    fn pump(&mut self, from: usize) {
        while let Some(segment) = self.ends[from].poll(self.now) {
            let number = self.data[from];
            if segment.len > 0 {
                self.data[from] += 1;
            }
            let fate = (self.fate)(from, number, &segment);
            self.log.push(Sent { at: self.now, from, segment });
            let mut arriving = segment;
            if self.strips_options {
                arriving.accecn = None;
            }
            if let Some(alter) = &self.alter {
                alter(from, &mut arriving);
            }
            let mut at = self.now + self.delay;
            match fate {
                Fate::Drop => continue,
                Fate::Late(by) => at += by,
                Fate::Mark if segment.ecn.is_capable() => arriving.ecn = Ecn::Ce,
                Fate::Twice => {
                    self.count += 1;
                    self.flying.insert((at, self.count), (1 - from, segment));
                }
                Fate::Pass | Fate::Mark => {}
            }
            self.count += 1;
            self.flying.insert((at, self.count), (1 - from, arriving));
        }
        self.ends[from].settle(self.now);
    }

    /// Runs until `end` or until nothing more happens.
    pub fn run(&mut self, end: Span) -> &mut Self {
        let end = Instant::ZERO + end;
        self.pump(0);
        self.pump(1);
        loop {
            let arrival = self.flying.first_key_value().map(|(&(at, _), _)| at);
            let timers = [self.ends[0].deadline(), self.ends[1].deadline()];
            let next = timers.into_iter().chain([arrival]).flatten().min();
            let Some(next) = next.filter(|&next| next <= end) else { break };
            assert!(next >= self.now || timers.contains(&Some(next)), "a segment from the past");
            self.now = self.now.max(next);
            if arrival == Some(next) {
                let (_, (to, segment)) = self.flying.pop_first().expect("an arrival");
                self.ends[to].on_segment(self.now, &segment);
                self.pump(to);
            } else {
                let side = usize::from(timers[0] != Some(next));
                self.ends[side].on_timer(self.now);
                self.pump(side);
            }
        }
        self.now = self.now.max(end);
        self
    }

    /// Data segments of the client, each with the time in milliseconds and whether it was sent before.
    pub fn data(&self) -> Vec<(u64, u32, bool)> {
        let data = self.log.iter().filter(|sent| sent.from == 0 && sent.is_data());
        data.map(|sent| (sent.millis(), sent.segment.seq, sent.segment.flags.has(Flags::RETRANSMISSION))).collect()
    }
    /// How many data segments the client sent in each round of `2 * delay`, counted from the time zero.
    pub fn per_round(&self) -> Vec<usize> {
        let round = 2 * self.delay.as_nanos();
        let mut rounds = Vec::new();
        for sent in self.log.iter().filter(|sent| sent.from == 0 && sent.is_data()) {
            let index = (sent.at.as_nanos() / round) as usize;
            rounds.resize(rounds.len().max(index + 1), 0);
            rounds[index] += 1;
        }
        rounds
    }
}
