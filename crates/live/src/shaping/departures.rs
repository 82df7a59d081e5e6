//! Compares what the data path has let pass with what the interface has sent, to count packets that the kernel discards in
//! between.
//!
//! A packet that leaves waits in the queue with the route that was found for it. If that route has gone when its verdict comes,
//! the kernel discards it without a word: `dst_dev_put` has led the route to a device that swallows all. It happens to what
//! waits when a route is removed, and, where the kernel remembers the smaller MTU of a path, also when any route, address or
//! MTU of the network namespace changes.
//!
//! *Law*: a packet counts as lost when two samples in a row miss it and [`LEAST`] or more are missed together. What other
//! programs send meanwhile, or a card counts in segments, hides losses and never makes one up.
//! *Notes*: a discipline of the kernel below ours that drops packets looks the same, and so does a neighbour that does not answer.

/// The least packets that are missed together: a few wait for the address of a neighbour, or are dropped with it.
const LEAST: u64 = 8;

/// Counts of one epoch can be compared: the interfaces are the same, and no packet passed without a verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Epoch {
    /// How often guardians have taken the turn.
    pub takeovers: u64,
    /// The sum of the indices of the interfaces, of which each that is made has a new one.
    pub indices: u64,
}

/// Packets that were let pass and have not left by the interface.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Departures {
    /// The most packets that were let pass and not sent, when losses were last counted from there, in which epoch.
    before: Option<(i128, Epoch)>,
    /// The packets that the last sample missed.
    missed: u64,
    /// The packets lost so far.
    lost: u64,
}

impl Departures {
    /// The packets lost so far.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Begins anew after a time for which there are no counts. What is lost stays counted.
    pub fn restart(&mut self) {
        (self.before, self.missed) = (None, 0);
    }

    /// Adds a sample: `passed` packets were let pass, and the interface had sent `earlier` before that was read, and `later` after.
    pub fn sample(&mut self, passed: u64, (earlier, later): (u64, u64), epoch: Epoch) {
        let under_way = |sent: u64| i128::from(passed) - i128::from(sent);
        let (least, most) = (under_way(later), under_way(earlier));
        let Some((before, _)) = self.before.filter(|&(_, of)| of == epoch) else {
            (self.before, self.missed) = (Some((most, epoch)), 0);
            return;
        };
        let missed = u64::try_from(least - before).unwrap_or(0);
        let lasting = missed.min(self.missed);
        self.lost += if lasting < LEAST { 0 } else { lasting };
        self.missed = missed - lasting;
        // More was sent than let pass where others send, too.
        self.before = Some(((before + i128::from(lasting)).min(most), epoch));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: Epoch = Epoch { takeovers: 0, indices: 2 };

    /// Samples of packets let pass and sent, since the sample before.
    fn after(samples: &[(u64, u64)]) -> u64 {
        let (mut departures, mut passed, mut sent) = (Departures::default(), 500, 0);
        for (more, left) in [(0, 0)].iter().chain(samples) {
            (passed, sent) = (passed + more, sent + left);
            departures.sample(passed, (sent, sent), EPOCH);
        }
        departures.lost()
    }

    #[test]
    fn packets_that_two_samples_miss_are_lost_and_count_once() {
        assert_eq!(after(&[(100, 100), (100, 100)]), 0);
        assert_eq!(after(&[(100, 60)]), 0, "they may be on their way");
        assert_eq!(after(&[(100, 60), (100, 140)]), 0, "they were");
        assert_eq!(after(&[(100, 60), (100, 100), (100, 100), (100, 100)]), 40);
        // Twenty are lost before one sample, and thirty before the next.
        assert_eq!(after(&[(100, 80), (100, 70), (100, 100), (100, 100)]), 50);
    }

    #[test]
    fn few_packets_are_forgotten_and_those_of_others_hide_losses() {
        assert_eq!(after(&[(100, 93); 40]), 0, "a neighbour that does not answer loses some in every interval");
        assert_eq!(after(&[(100, 92), (100, 100), (100, 100)]), 8);
        assert_eq!(after(&[(100, 300), (100, 60), (100, 100)]), 40, "what others sent before hides nothing");
        assert_eq!(after(&[(100, 160), (100, 160), (100, 160)]), 0);
    }

    #[test]
    fn another_interface_and_a_guardians_turn_begin_anew() {
        let mut departures = Departures::default();
        departures.sample(100, (100, 100), EPOCH);
        for n in 2..4 {
            departures.sample(n * 100, (100, 100), Epoch { takeovers: 1, ..EPOCH });
        }
        assert_eq!(departures.lost(), 0, "the guardian let a hundred pass, and none was sent: that is not seen yet");
        departures.sample(400, (200, 200), Epoch { takeovers: 1, ..EPOCH });
        assert_eq!(departures.lost(), 100);
        departures.restart();
        departures.sample(500, (200, 200), EPOCH);
        for n in 6..9 {
            departures.sample(n * 100, ((n - 6) * 100, (n - 6) * 100), Epoch { indices: 3, ..EPOCH });
        }
        assert_eq!(departures.lost(), 100, "another interface counts from zero");
    }

    #[test]
    fn packets_that_leave_between_two_readings_are_not_missed() {
        let (mut departures, mut sent) = (Departures::default(), 1_000);
        // A busy machine reads the interface long after the counts, now and then.
        for between in [60, 0, 0, 40, 0, 0] {
            departures.sample(sent, (sent, sent + between), EPOCH);
            sent += 500;
        }
        assert_eq!(departures.lost(), 0);
    }
}
