//! [`Matched`]: the packets that each rule has matched, as the program counts them.
//!
//! The program counts by the place of a rule among the rules that are in force, and has two sets of these, one of which is
//! in force. Each set has counters of its own, so that a count belongs to the rules by which its packets were classified, whenever it is read.

use tidegate_core::Bytes;
use tidegate_core::accounts::Account;
use tidegate_engine::quota::Key;

use super::options::FBQ_PROFILES;

const PROFILES: usize = FBQ_PROFILES as usize;

/// The new packets of a rule, or of none.
pub(crate) type Count = (Option<Key>, Account);

/// The counters at the last reading, and whose they are.
#[derive(Debug)]
pub(crate) struct Matched {
    /// The rules of each set, in the order of the file.
    keys: [Vec<Key>; 2],
    /// The counters at the last reading.
    seen: Vec<Account>,
    /// Counts that nobody has taken.
    new: Vec<Count>,
}

impl Default for Matched {
    fn default() -> Self {
        Self { keys: Default::default(), seen: vec![Account::default(); 2 * PROFILES], new: Vec::new() }
    }
}

impl Matched {
    /// Notes that a set of rules, which is not in force, is about to have rules with these keys. `read` reads a counter.
    pub fn replace(&mut self, set: usize, keys: Vec<Key>, read: impl Fn(usize) -> Account) {
        self.look(set, read);
        self.keys[set] = keys;
    }

    /// The counts since the last call.
    pub fn take(&mut self, read: impl Fn(usize) -> Account) -> Vec<Count> {
        self.look(0, &read);
        self.look(1, &read);
        std::mem::take(&mut self.new)
    }

    fn look(&mut self, set: usize, read: impl Fn(usize) -> Account) {
        for profile in 0..PROFILES {
            let at = set * PROFILES + profile;
            let now = read(at);
            let before = std::mem::replace(&mut self.seen[at], now);
            if now != before {
                let packets = now.packets.wrapping_sub(before.packets);
                let bytes = Bytes::new(now.bytes.as_u64().wrapping_sub(before.bytes.as_u64()));
                // The first profile is that of packets without a rule, and those behind the rules of the file are of reservations.
                let key = profile.checked_sub(1).map(|rule| self.keys[set].get(rule).cloned());
                if key != Some(None) {
                    self.new.push((key.flatten(), Account { packets, bytes }));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::config;
    use tidegate_engine::quota;

    fn keys(ports: &[u16]) -> Vec<Key> {
        let rules = ports.iter().map(|port| format!("[[rule]]\nclass = \"a\"\nport = {port}\n"));
        let class = "[[class]]\nname = \"a\"\nrate = \"1mbit\"\ndefault = true\n".to_owned();
        quota::keys(&config(&(class + &rules.collect::<String>())))
    }

    /// The second set has the rules in another order; what the first has counted stays with its rules.
    #[test]
    fn a_count_belongs_to_the_rules_that_were_in_force() {
        let mut counters = vec![Account::default(); 2 * PROFILES];
        let mut count = |at: usize, packets| {
            counters[at] = Account { packets: counters[at].packets + packets, bytes: Bytes::new(100 * packets) };
            counters.clone()
        };
        let (first, second) = (keys(&[1, 2]), keys(&[2, 1]));
        let mut matched = Matched::default();
        let now = count(0, 0);
        matched.replace(0, first.clone(), |at| now[at]);
        count(0, 5);
        let now = count(2, 7);
        matched.replace(1, second.clone(), |at| now[at]);
        let now = count(PROFILES + 1, 3);
        // The first set is written once more before anybody has read it.
        matched.replace(0, second.clone(), |at| now[at]);
        let packets: Vec<_> = matched.take(|at| now[at]).into_iter().map(|(key, count)| (key, count.packets)).collect();
        assert_eq!(packets, [(None, 5), (Some(first[1].clone()), 7), (Some(second[0].clone()), 3)]);
        assert_eq!(first[1], second[0]);
        assert_eq!(matched.take(|at| now[at]), []);
    }

    /// A count behind the rules of the file is of a reservation: of no rule, and not of packets that none has matched.
    #[test]
    fn packets_of_reservations_count_for_no_rule() {
        let account = |packets| Account { packets, bytes: Bytes::new(100 * packets) };
        let (mut counters, mut matched) = (vec![Account::default(); 2 * PROFILES], Matched::default());
        matched.replace(0, keys(&[1]), |at| counters[at]);
        (counters[0], counters[2]) = (account(5), account(4));
        assert_eq!(matched.take(|at| counters[at]), [(None, account(5))]);
    }
}
