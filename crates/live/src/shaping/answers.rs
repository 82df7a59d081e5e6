//! [`Answers`]: the addresses that passing answers of the Domain Name System had for the names that rules have.
//!
//! *Law*: an answer counts if its question has passed before, with the same number, name and ends, and came in by another interface.
//! Nobody outside can therefore bring in an address by an answer alone, as little as into a resolver.
//! *Units*: times to live in seconds. An address is known for at least [`LEAST`], so that connections outlive the short times of
//! large sites, and at most for [`MOST`].
//! *Notes*: only names that rules have are remembered, each with a bounded number of addresses; the one that ends first goes.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use tidegate_capture::dissect::outer;
use tidegate_capture::dns::{Message, PORT, Question, read};
use tidegate_config::shaper::MOST_ANSWERED;
use tidegate_config::values::DnsName;

/// The shortest time for which an address is known.
const LEAST: Duration = Duration::from_secs(3_600);
/// The longest time.
const MOST: Duration = Duration::from_secs(86_400);
/// A question is remembered for this long.
const OPEN: Duration = Duration::from_secs(10);
/// The most questions that are remembered.
const MOST_OPEN: usize = 256;
/// A name that no rule has had for this long is forgotten.
const UNWANTED: Duration = Duration::from_secs(3_600);
const UDP: u8 = 17;

/// A question that has passed.
#[derive(Debug)]
struct Open {
    at: Instant,
    asking: (IpAddr, Option<u16>),
    asked: IpAddr,
    question: Question,
    incoming: u32,
}

/// The addresses of a name.
#[derive(Debug)]
struct Known {
    /// When a rule had the name last.
    wanted: Instant,
    /// Until when each address is known.
    until: HashMap<IpAddr, Instant>,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Answers {
    open: VecDeque<Open>,
    names: BTreeMap<DnsName, Known>,
}

impl Answers {
    /// The addresses of `name` that are known now. From the first call on, answers for it are remembered.
    pub fn addresses(&mut self, name: &DnsName, now: Instant) -> BTreeSet<IpAddr> {
        let new = || Known { wanted: now, until: HashMap::new() };
        let known = self.names.entry(name.clone()).or_insert_with(new);
        known.wanted = now;
        known.until.retain(|_, until| *until > now);
        known.until.keys().copied().collect()
    }

    /// Forgets names that no rule has any more.
    pub fn forget_unwanted(&mut self, now: Instant) {
        self.names.retain(|_, known| now.duration_since(known.wanted) < UNWANTED);
    }

    /// Looks at a packet, which came in by the interface with index `incoming` or is of this host (0).
    pub fn see(&mut self, packet: &[u8], incoming: u32, now: Instant) {
        let Ok(headers) = outer(packet, packet.len()) else { return };
        let fields = headers.fields;
        let (Some(source), Some(destination)) = (fields.hosts.source(), fields.hosts.destination()) else { return };
        if fields.protocol != Some(UDP) || fields.fragment.is_some() {
            return;
        }
        let Some(message) = packet.get(headers.payload_offset()..).and_then(read) else { return };
        let (Message::Question(question) | Message::Answer(question, _)) = &message;
        if !self.names.keys().any(|name| name.is(&question.name)) {
            return;
        }
        while self.open.front().is_some_and(|open| now.duration_since(open.at) >= OPEN) {
            self.open.pop_front();
        }
        match message {
            Message::Question(question) if fields.destination_port == Some(PORT) => {
                if self.open.len() >= MOST_OPEN {
                    self.open.pop_front();
                }
                let asking = (source, fields.source_port);
                self.open.push_back(Open { at: now, asking, asked: destination, question, incoming });
            }
            Message::Answer(question, addresses) if fields.source_port == Some(PORT) => {
                let is_of = |open: &Open| {
                    open.asking == (destination, fields.destination_port)
                        && open.asked == source
                        && open.question == question
                        && (open.incoming != incoming || incoming == 0)
                };
                if self.open.iter().any(is_of) {
                    self.learn(&question.name, &addresses, now);
                }
            }
            _ => {}
        }
    }

    fn learn(&mut self, asked: &str, addresses: &[(IpAddr, u32)], now: Instant) {
        // Lists of unwanted names answer with addresses that are nobody's.
        let is_host = |address: &IpAddr| !address.is_unspecified() && !address.is_loopback() && !address.is_multicast();
        for (_, known) in self.names.iter_mut().filter(|(name, _)| name.is(asked)) {
            for (address, seconds) in addresses.iter().filter(|(address, _)| is_host(address)) {
                let until = now + Duration::from_secs(u64::from(*seconds)).clamp(LEAST, MOST);
                let entry = known.until.entry(*address).or_insert(until);
                *entry = until.max(*entry);
                if known.until.len() > MOST_ANSWERED
                    && let Some(first) = known.until.iter().min_by_key(|(address, until)| (**until, **address))
                {
                    let first = *first.0;
                    known.until.remove(&first);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CLIENT: ([u8; 4], u16) = ([192, 0, 2, 7], 5_000);
    const SERVER: ([u8; 4], u16) = ([198, 51, 100, 53], 53);
    /// The indices of interfaces.
    const LAN: u32 = 2;
    const WAN: u32 = 3;

    fn packet(from: ([u8; 4], u16), to: ([u8; 4], u16), payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x45, 0];
        bytes.extend((28 + payload.len() as u16).to_be_bytes());
        bytes.extend([0, 0, 0, 0, 64, UDP, 0, 0]);
        bytes.extend([from.0, to.0].concat());
        for half in [from.1, to.1, 8 + payload.len() as u16, 0] {
            bytes.extend(half.to_be_bytes());
        }
        bytes.extend(payload);
        bytes
    }

    fn message(flags: u16, id: u16, name: &str, answers: &[([u8; 4], u32)]) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            [id, flags, 1, answers.len() as u16, 0, 0].iter().flat_map(|half| half.to_be_bytes()).collect();
        for label in name.split('.') {
            bytes.push(label.len() as u8);
            bytes.extend(label.as_bytes());
        }
        bytes.extend([0, 0, 1, 0, 1]);
        for (address, seconds) in answers {
            bytes.extend([0xc0, 12, 0, 1, 0, 1]);
            bytes.extend(seconds.to_be_bytes());
            bytes.extend([0, 4]);
            bytes.extend(address);
        }
        bytes
    }

    fn question(id: u16, name: &str) -> Vec<u8> {
        packet(CLIENT, SERVER, &message(0x0100, id, name, &[]))
    }

    fn answer(id: u16, name: &str, answers: &[([u8; 4], u32)]) -> Vec<u8> {
        packet(SERVER, CLIENT, &message(0x8180, id, name, answers))
    }

    fn site() -> DnsName {
        "*.example.com".parse().expect("a name")
    }

    fn known(answers: &mut Answers, now: Instant) -> Vec<String> {
        answers.addresses(&site(), now).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_answer_to_a_question_is_known_for_its_time() {
        let (mut answers, now) = (Answers::default(), Instant::now());
        assert_eq!(known(&mut answers, now), [""; 0]);
        answers.see(&question(7, "www.Example.com"), LAN, now);
        answers.see(&answer(7, "wWw.example.com", &[([203, 0, 113, 1], 7_200), ([203, 0, 113, 2], 30)]), WAN, now);
        assert_eq!(known(&mut answers, now), ["203.0.113.1", "203.0.113.2"]);
        assert_eq!(known(&mut answers, now + LEAST), ["203.0.113.1"]);
        assert_eq!(known(&mut answers, now + Duration::from_secs(7_200)), [""; 0]);
        answers.see(&question(8, "www.example.com"), 0, now);
        answers.see(&answer(8, "www.example.com", &[([203, 0, 113, 3], 1 << 30)]), 0, now);
        assert_eq!(known(&mut answers, now), ["203.0.113.3"], "the names of this host's own resolver");
        assert_eq!(known(&mut answers, now + MOST), [""; 0]);
    }

    #[test]
    fn answers_that_nobody_asked_for_are_not_believed() {
        let (mut answers, now) = (Answers::default(), Instant::now());
        let addresses = [([203, 0, 113, 1], 300)];
        known(&mut answers, now);
        answers.see(&answer(7, "www.example.com", &addresses), WAN, now);
        answers.see(&question(7, "www.example.com"), LAN, now);
        for (id, name) in [(8, "www.example.com"), (7, "ftp.example.com")] {
            answers.see(&answer(id, name, &addresses), WAN, now);
        }
        let payload = message(0x8180, 7, "www.example.com", &addresses);
        for (from, to) in [(([198, 51, 100, 54], 53), CLIENT), (SERVER, (CLIENT.0, 5_001)), ((SERVER.0, 54), CLIENT)] {
            answers.see(&packet(from, to, &payload), WAN, now);
        }
        answers.see(&packet(SERVER, CLIENT, &payload), LAN, now);
        answers.see(&packet(SERVER, CLIENT, &payload), WAN, now + OPEN);
        assert_eq!(known(&mut answers, now), [""; 0]);
        answers.see(&question(7, "www.example.com"), LAN, now + OPEN);
        answers.see(&packet(SERVER, CLIENT, &payload), WAN, now + OPEN);
        assert_eq!(known(&mut answers, now + OPEN), ["203.0.113.1"]);
    }

    #[test]
    fn names_and_addresses_that_no_rule_means_are_not_kept() {
        let (mut answers, now) = (Answers::default(), Instant::now());
        answers.see(&question(7, "www.example.com"), LAN, now);
        assert!(answers.open.is_empty() && answers.names.is_empty());
        known(&mut answers, now);
        answers.see(&question(7, "www.example.com"), LAN, now);
        answers.see(&answer(7, "www.example.com", &[([0; 4], 9), ([127, 0, 0, 1], 9), ([224, 0, 0, 1], 9)]), WAN, now);
        assert_eq!(known(&mut answers, now), [""; 0]);
        answers.forget_unwanted(now);
        assert!(!answers.names.is_empty());
        answers.forget_unwanted(now + UNWANTED);
        assert!(answers.names.is_empty());
    }

    #[test]
    fn a_flood_is_bounded() {
        let (mut answers, now) = (Answers::default(), Instant::now());
        known(&mut answers, now);
        for id in 0..2_000_u16 {
            answers.see(&question(id, "www.example.com"), LAN, now);
            let [high, low] = id.to_be_bytes();
            answers.see(&answer(id, "www.example.com", &[([203, 0, high, low], 3_600 + u32::from(id))]), WAN, now);
        }
        assert_eq!((answers.open.len(), answers.addresses(&site(), now).len()), (MOST_OPEN, MOST_ANSWERED));
        let last: IpAddr = [203, 0, 7, 207].into();
        assert!(answers.addresses(&site(), now).contains(&last), "those that end first have gone");
    }

    proptest! {
        #[test]
        fn random_packets_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..120), in_question: bool) {
            let (mut answers, now) = (Answers::default(), Instant::now());
            known(&mut answers, now);
            answers.see(&bytes, WAN, now);
            let (from, to) = if in_question { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
            answers.see(&packet(from, to, &bytes), WAN, now);
            prop_assert_eq!(known(&mut answers, now).len(), 0);
        }
    }
}
