//! [`Hosts`]: the hosts behind a gateway, with totals that only grow while a host is remembered.
//!
//! *Law*: a host's totals are the sums of what its flows sent and lost between one observation and the next, so that the end
//! of a flow takes nothing away. Flows that begin and end between two observations are not in them.
//! *Cost*: linear in the observed flows, outside of the data path; at most [`MOST`] hosts are remembered.

use std::collections::HashMap;
use std::net::IpAddr;

use tidegate_control::calls::{DirectionObservation, HostObservation, Observation, arrives, host_of, hosts};
use tidegate_units::Bytes;

use super::names::Names;

/// The maximum number of hosts whose totals are remembered.
pub const MOST: usize = 1_024;

/// Bytes sent and packets dropped.
type Counts = (u64, u64);

#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    up: Counts,
    down: Counts,
    /// The number of the last observation that it was in.
    last: u64,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    known: HashMap<IpAddr, Totals>,
    /// The counts of each flow in the last observation, by the number of its direction and its key.
    flows: HashMap<(usize, String), Counts>,
    observations: u64,
    names: Names,
}

impl Hosts {
    /// Returns the hosts of the flows of `directions`, the fastest first, with names: those that devices have in leases, or else in
    /// `rules`, or by the resolver if `reverse_lookup`.
    pub fn observe(
        &mut self,
        directions: &[DirectionObservation],
        rules: &HashMap<IpAddr, String>,
        reverse_lookup: bool,
    ) -> Vec<HostObservation> {
        self.count(directions);
        let mut hosts = hosts(directions, |_| true);
        hosts.truncate(Observation::MOST_HOSTS);
        for host in &mut hosts {
            let written = rules.get(&host.address);
            let name = self.names.of(host.address, reverse_lookup && written.is_none());
            host.name = name.or_else(|| written.cloned());
            let totals = self.known.get(&host.address).copied().unwrap_or_default();
            for (way, (sent, dropped)) in [(&mut host.up, totals.up), (&mut host.down, totals.down)] {
                (way.sent_bytes, way.dropped_packets) = (Bytes::new(sent), dropped);
            }
        }
        hosts
    }

    /// Adds what the flows sent and lost since the last observation.
    fn count(&mut self, directions: &[DirectionObservation]) {
        self.observations += 1;
        let mut flows = HashMap::with_capacity(self.flows.len());
        for (number, direction) in directions.iter().enumerate() {
            for flow in &direction.flows {
                let Some(address) = host_of(&direction.name, flow) else { continue };
                let counts = (flow.sent_bytes.as_u64(), flow.dropped_packets());
                let key = (number, flow.flow.key.clone());
                // A flow that was forgotten and began again counts from zero.
                let before =
                    self.flows.get(&key).copied().filter(|before| before.0 <= counts.0 && before.1 <= counts.1);
                let before = before.unwrap_or_default();
                let totals = self.known.entry(address).or_default();
                totals.last = self.observations;
                let sum = if arrives(&direction.name) { &mut totals.down } else { &mut totals.up };
                sum.0 += counts.0 - before.0;
                sum.1 += counts.1 - before.1;
                flows.insert(key, counts);
            }
        }
        self.flows = flows;
        if self.known.len() > MOST {
            let mut ages: Vec<u64> = self.known.values().map(|totals| totals.last).collect();
            ages.sort_unstable();
            let oldest = ages[ages.len() - MOST];
            self.known.retain(|_, totals| totals.last >= oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_control::calls::{Ceilings, ClassObservation, Flow, FlowObservation, HeldBy, HostLimit, Queued};
    use tidegate_units::Rate;

    fn flow(key: u8, host: u8, rate: u64, sent: u64) -> FlowObservation {
        let (source, destination) = (Some([10, 0, 0, host].into()), Some([192, 0, 2, 1].into()));
        FlowObservation {
            flow: Flow { key: format!("{key:016x}"), source, destination, ..Flow::default() },
            class: format!("class {key}"),
            rate: Rate::from_kbit(rate),
            sent_bytes: Bytes::new(sent),
            queue: Queued { packets: u64::from(key == 1), bytes: Bytes::new(if key == 1 { 1_500 } else { 0 }) },
            ..FlowObservation::default()
        }
    }
    /// Both directions with their flows; the ends of the flows in `down` are exchanged.
    fn both(up: Vec<FlowObservation>, down: Vec<FlowObservation>) -> Vec<DirectionObservation> {
        let swapped = down.into_iter().map(|flow| {
            let (source, destination) = (flow.flow.destination, flow.flow.source);
            FlowObservation { flow: Flow { source, destination, ..flow.flow.clone() }, ..flow }
        });
        let direction = |name: &str, flows| DirectionObservation { name: name.into(), flows, ..Default::default() };
        vec![direction("up", up), direction("wan0.down", swapped.collect())]
    }

    /// A television without a name in any lease is called as the rule about it.
    #[test]
    fn a_host_may_be_named_by_its_rule() {
        let rules = HashMap::from([([10, 0, 0, 7].into(), "tv".to_owned())]);
        let flows = vec![flow(1, 7, 900, 1_000), flow(2, 8, 100, 500)];
        let hosts = Hosts::default().observe(&both(flows, vec![]), &rules, false);
        let names: Vec<_> = hosts.iter().map(|host| (host.address.to_string(), host.name.as_deref())).collect();
        assert_eq!(names, [("10.0.0.7".into(), Some("tv")), ("10.0.0.8".into(), None)]);
    }

    #[test]
    fn addresses_that_are_not_one_hosts_are_left_out() {
        let up = ["::", "fe80::1", "ff02::16", "0.0.0.0", "169.254.3.4", "224.0.0.251", "2001:db8::7"];
        let up = (1_u8..).zip(up).map(|(key, source)| {
            let mut flow = flow(key, 0, 100, 100);
            flow.flow.source = Some(source.parse().unwrap());
            flow
        });
        let hosts = Hosts::default().observe(&both(up.collect(), vec![]), &HashMap::new(), false);
        assert_eq!(hosts.iter().map(|host| host.address.to_string()).collect::<Vec<_>>(), ["2001:db8::7"]);
    }

    #[test]
    fn totals_of_a_host_only_grow() {
        let mut all = Hosts::default();
        let first = all.observe(
            &both(vec![flow(1, 7, 900, 1_000), flow(2, 7, 100, 500)], vec![flow(3, 7, 2_000, 9_000)]),
            &HashMap::new(),
            false,
        );
        assert_eq!(first.len(), 1);
        let host = &first[0];
        assert_eq!((host.up.rate, host.down.rate), (Rate::from_mbit(1), Rate::from_mbit(2)));
        assert_eq!(
            (host.up.flows, host.up.sent_bytes, host.down.sent_bytes),
            (2, Bytes::new(1_500), Bytes::new(9_000))
        );
        // The fastest is that which comes down; one that goes up has a queue.
        assert_eq!((host.class.as_str(), host.limited_by), ("class 3", HostLimit::Share));
        // Flow 2 has ended; flow 1 has sent 200 bytes more, and 3 began again.
        let second = all.observe(&both(vec![flow(1, 7, 900, 1_200)], vec![flow(3, 7, 10, 40)]), &HashMap::new(), false);
        assert_eq!((second[0].up.sent_bytes, second[0].down.sent_bytes), (Bytes::new(1_700), Bytes::new(9_040)));
        assert_eq!((second[0].class.as_str(), second[0].limited_by), ("class 1", HostLimit::Share));
    }

    /// A ceiling says more than a queue, in whatever order the flows come.
    #[test]
    fn a_host_is_limited_by_a_ceiling_that_its_packets_wait_for() {
        let queued = |key, held_by| FlowObservation {
            queue: Queued { packets: 3, bytes: Bytes::new(4_500) },
            held_by,
            ..flow(key, 7, 100, 100)
        };
        let limit = |flows| Hosts::default().observe(&both(flows, vec![]), &HashMap::new(), false)[0].limited_by;
        assert_eq!(limit(vec![queued(2, None)]), HostLimit::Share);
        assert_eq!(limit(vec![queued(2, Some(HeldBy::Host)), queued(3, None)]), HostLimit::HostCeiling);
        assert_eq!(limit(vec![queued(2, None), queued(3, Some(HeldBy::Class))]), HostLimit::ClassCeiling);
        assert_eq!(HostLimit::HostCeiling.text(), "its limit");
    }

    /// The bucket of a ceiling may have credit for a packet at the moment of an observation.
    #[test]
    fn a_host_that_sends_at_its_ceiling_is_limited_by_it() {
        let queue = Queued { packets: 3, bytes: Bytes::new(4_500) };
        let queued = |key, rate| FlowObservation { queue, class: "guests".into(), ..flow(key, 7, rate, 100) };
        let limit = |flows, [class, host, flow]: [Option<u64>; 3]| {
            let mut directions = both(flows, vec![]);
            let [class, host, flow] = [class, host, flow].map(|rate| rate.map(Rate::from_kbit));
            let rate = directions[0].flows.iter().map(|flow| flow.rate.as_bps()).sum();
            directions[0].classes = vec![ClassObservation {
                name: "guests".into(),
                rate: Rate::from_bps(rate),
                ceilings: Ceilings { class, host, flow },
                ..ClassObservation::default()
            }];
            Hosts::default().observe(&directions, &HashMap::new(), false)[0].limited_by
        };
        let two = || vec![queued(2, 500), queued(3, 480)];
        assert_eq!(limit(two(), [None, Some(1_000), None]), HostLimit::HostCeiling);
        assert_eq!(limit(two(), [Some(1_000), Some(2_000), None]), HostLimit::ClassCeiling);
        assert_eq!(limit(two(), [Some(1_000), None, Some(500)]), HostLimit::FlowCeiling);
        assert_eq!(limit(two(), [Some(2_000), Some(2_000), Some(2_000)]), HostLimit::Share);
        let idle = vec![FlowObservation { queue: Queued::default(), ..queued(2, 990) }];
        assert_eq!(limit(idle, [None, Some(1_000), None]), HostLimit::Demand);
    }

    #[test]
    fn hosts_are_bounded_and_the_fastest_are_kept() {
        let mut all = Hosts::default();
        for round in 0..8_u8 {
            let flows = (0..=255).map(|n| {
                let mut one = flow(n, 0, u64::from(n), 100);
                one.flow.source = Some([10, 0, round, n].into());
                one
            });
            let hosts = all.observe(&both(flows.collect(), Vec::new()), &HashMap::new(), false);
            assert_eq!(hosts.len(), Observation::MOST_HOSTS);
            assert_eq!((hosts[0].address, hosts[0].limited_by), ([10, 0, round, 255].into(), HostLimit::Demand));
        }
        assert!(all.known.len() <= MOST && all.known.contains_key(&IpAddr::from([10, 0, 7, 0])));
    }
}
