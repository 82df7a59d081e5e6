//! Whether shaping is still in force: the rules are read back, and traffic of the interface is compared with the queue's.

use std::time::{Duration, Instant};

use tidegate_config::shaper::Direction;
use tidegate_live::shaping::Coverage;

use super::{Grants, Supervisor};
use crate::directions::ShapedDirection;
use crate::notifier::Notifier;
use crate::service;

/// The least interval between two messages about packets that the kernel dropped.
const REPEAT: Duration = Duration::from_secs(60);

/// The packets that the kernel dropped while they waited, as they were logged.
#[derive(Debug, Default)]
pub(super) struct KernelDrops {
    /// How many have been logged.
    said: u64,
    /// When that was last.
    last: Option<Instant>,
}

impl KernelDrops {
    /// Returns the line to log when `counted` have been dropped: at once for the first ones, then at most once a minute.
    fn say(&mut self, now: Instant, counted: u64) -> Option<String> {
        // The counter begins again with another data path.
        self.said = self.said.min(counted);
        let new = counted - self.said;
        if new == 0 || self.last.is_some_and(|last| now.duration_since(last) < REPEAT) {
            return None;
        }
        let text = match self.last.replace(now) {
            Some(last) => format!(
                "the kernel had dropped {new} more packets that waited, noticed in the last {} s as they were due, by now \
                 {counted} in all",
                now.duration_since(last).as_secs()
            ),
            None => format!(
                "the kernel dropped packets that waited, {new} of them noticed so far: a chain of the packet filter was \
                 removed in this network namespace (by a firewall that was loaded anew, or another tidegate that ended), the \
                 interface went down, or the route with which they waited has gone (a route was removed or replaced; or, for \
                 hosts behind a smaller MTU, any route, address or MTU was changed); the kernel path (data-path = \"kernel\") \
                 loses none. More that were dropped then are noticed as they are due, and reported once a minute"
            ),
        };
        self.said = counted;
        Some(text)
    }
}

impl Supervisor {
    /// Reads the rules back; if they have been changed, shaping is started again, or reported to be off. Then compares
    /// what the interface carried with what came through the queue.
    ///
    /// State that cannot be read, for want of a descriptor for instance, is read again later: shaping continues.
    pub(super) fn inspect(&mut self, directions: &mut [ShapedDirection], grants: &mut Grants<'_>, index: usize) {
        self.report_kernel_drops(&directions[index], grants.notifier, index);
        let (name, state) = (directions[index].name.clone(), &mut self.states[index]);
        let Some(shaping) = directions[index].shaping_mut() else { return };
        let inspection = shaping.inspect().and_then(|inspection| {
            let coverage = if inspection.is_sound() { shaping.coverage()? } else { Vec::new() };
            Ok((inspection, coverage))
        });
        let (inspection, coverage) = match inspection {
            Ok(read) => read,
            Err(error) => {
                if !std::mem::replace(&mut state.unreadable, true) {
                    let text = format!("{name}: cannot check whether shaping is still in force: {error}");
                    grants.notifier.log(&format!("{text}; shaping continues, and the check will be repeated"));
                }
                return;
            }
        };
        if std::mem::take(&mut state.unreadable) {
            grants.notifier.log(&format!("{name}: it can be checked again whether shaping is in force"));
        }
        if inspection.is_sound() {
            for (of, coverage) in coverage {
                self.check_coverage(directions, grants.notifier, index, of, coverage);
            }
            return;
        }
        for difference in &inspection.differences {
            grants.notifier.log(&format!("another program changed our rules: {difference}"));
        }
        self.trouble = Some("another program changed our rules".into());
        grants.notifier.log("shaping is NOT in force; restarting it");
        if let Err(error) = self.restart(directions, grants, index) {
            self.outage(grants.notifier, index, &error.to_string());
            return;
        }
        self.trouble = None;
        grants.notifier.log(&format!("shaping {} is in force again", directions[index].interfaces().join(" + ")));
    }

    /// Logs that the kernel has dropped packets that waited: whenever a chain is removed, by any program, it empties its
    /// queues, and it discards a packet whose route has gone. It is noticed packet by packet, when each is due, so that slow
    /// flows go on for long to show the same fault.
    fn report_kernel_drops(&mut self, direction: &ShapedDirection, notifier: &Notifier, index: usize) {
        let Ok(counts) = direction.counts() else { return };
        let name = &direction.name;
        if let Some(text) = self.states[index].kernel_drops.say(Instant::now(), counts.kernel_dropped()) {
            notifier.log(&format!("{name}: {text}"));
        }
    }

    /// Sends probes for protocols that are not proven yet.
    pub(super) fn prove(&mut self, directions: &mut [ShapedDirection], notifier: &Notifier, index: usize) {
        let Some(shaping) = directions[index].shaping_mut() else { return };
        let outcome = shaping.prove_again();
        let (name, state) = (&directions[index].name, &mut self.states[index]);
        match outcome {
            Ok(proven) => {
                if !proven.is_empty()
                    && let Some(text) = state.unproven.take()
                    && self.trouble.as_ref() == Some(&text)
                {
                    self.trouble = None;
                }
                for (interface, version) in proven {
                    notifier
                        .log(&format!("{name}: the first packet of {version} on {interface} came through the queue"));
                }
            }
            Err(error) => {
                let text = error.to_string();
                if state.unproven.as_ref() != Some(&text) {
                    state.unproven = Some(text.clone());
                    self.trouble = Some(text.clone());
                    notifier.log(&format!("{name}: {text}; it will be tried again"));
                }
            }
        }
    }

    /// Logs when most of the traffic of interface number `of` begins to bypass the queue, and when it no longer does.
    fn check_coverage(
        &mut self,
        directions: &[ShapedDirection],
        notifier: &Notifier,
        index: usize,
        of: usize,
        coverage: Coverage,
    ) {
        let direction = &directions[index];
        let Some(interface) = direction.interfaces().get(of) else { return };
        let (goes, by) = match direction.config.interface.direction {
            Direction::Egress => ("leaves", "a flow table or AF_PACKET, a bridge, VLAN or macvlan on top of it"),
            Direction::Ingress => (
                "arrives",
                "XDP, a flow table, a bridge, VLAN or macvlan on top of it; or it is for others and the interface is promiscuous",
            ),
        };
        let name = &direction.name;
        let known = self.states[index].bypass.iter().position(|(name, _)| name == interface);
        if coverage.is_bypassed() && known.is_none() {
            let text = format!("most traffic that {goes} on {interface} bypasses the queue");
            self.states[index].bypass.push((interface.clone(), text.clone()));
            self.trouble = Some(text.clone());
            service::notify(&format!("STATUS=not shaping: {text}"));
            notifier.log(&format!(
                "{name}: {text}, {} of {} kB: it is NOT shaped. What may take it: {by}. Shape what it is taken to, or take \
                 that away",
                coverage.through / 1_000,
                coverage.carried / 1_000
            ));
        } else if !coverage.is_bypassed()
            && let Some(known) = known
        {
            let (_, text) = self.states[index].bypass.remove(known);
            if self.trouble.as_ref() == Some(&text) {
                let others = self.states.iter().flat_map(|state| &state.bypass);
                self.trouble = others.map(|(_, text)| text.clone()).next();
            }
            if self.trouble.is_none() {
                service::notify("STATUS=shaping");
            }
            notifier.log(&format!("{name}: traffic that {goes} on {interface} comes through the queue again"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_the_kernel_dropped_are_reported_at_once_and_then_once_a_minute_with_a_sum() {
        let (begin, mut drops) = (Instant::now(), KernelDrops::default());
        let at = |seconds| begin + Duration::from_secs(seconds);
        assert_eq!(drops.say(at(0), 0), None);
        let first = drops.say(at(2), 172).expect("the first ones are reported at once");
        assert!(first.contains("172 of them noticed so far"), "{first}");
        let between = (2..31).filter_map(|n| drops.say(at(2 * n), 172 + n));
        assert_eq!(between.count(), 0);
        let later = drops.say(at(62), 203).expect("the others after a minute");
        assert!(later.contains("31 more packets") && later.contains("203 in all"), "{later}");
        assert_eq!(drops.say(at(130), 203), None);
        // Another data path counts from zero.
        assert!(drops.say(at(200), 5).is_none_or(|text| text.contains("5 more")));
        assert!(drops.say(at(300), 9).is_some_and(|text| text.contains("9 in all")));
    }
}
