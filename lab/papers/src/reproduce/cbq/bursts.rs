//! The bursts of classes in ALTQ, from which it derives the bounds of the average idle time.

use tidegate_core::cbq::{Class, Params};
use tidegate_core::{Rate, Span};

/// The bursts of a class.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Bursts {
    /// ALTQ's: `maxburst` is 4 instead of 16 where a packet takes over 10 ms longer at the rate of the class than on the
    /// link, and `minburst` is at most `maxburst`.
    Limited,
    /// As given.
    Unlimited,
}

/// The class with ALTQ's limits of its bursts. A `max_burst` other than the default is kept.
pub fn limited(params: &Params, class: Class) -> Class {
    let size = class.packet_size.unwrap_or(params.mtu);
    let time = |rate: Rate| rate.time_for_ceil(size).unwrap_or(Span::MAX);
    let is_slow = time(class.rate).saturating_sub(time(params.link)) > Span::from_millis(10);
    let is_default = class.max_burst == Class::new(class.rate).max_burst;
    let max_burst = if is_slow && is_default { 4 } else { class.max_burst };
    Class { max_burst, min_burst: class.min_burst.min(max_burst), ..class }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::cbq::rig::ROOT;
    use tidegate_core::cbq::{Cbq, Estimate, Finish};
    use tidegate_core::fifo::{Fifo, Limit};
    use tidegate_core::qdisc::Discard;
    use tidegate_core::{Bytes, ClassId, Instant, Qdisc};
    use tidegate_sim::SimPacket;

    /// The measure of a class before its first packet in us, and its under-time after all that it may send at once.
    fn measured(params: Params, class: Class) -> (f64, Instant) {
        let mut tree = Cbq::<SimPacket, Fifo<SimPacket>>::new(params).unwrap();
        let queue = Fifo::new(Limit::packets(300));
        tree.add_leaf(Instant::ZERO, ClassId(1), ROOT, class, queue).unwrap();
        let Some(Estimate::IdleTime(idle)) = tree.status(ClassId(1), Instant::ZERO).map(|status| status.estimate)
        else {
            panic!("no idle time");
        };
        for _ in 0..300 {
            let size = class.packet_size.unwrap_or(params.mtu).as_u64() as u32;
            let mut packet = SimPacket::datagram(1, size);
            packet.class = 1;
            tree.enqueue(Instant::ZERO, packet, &mut Discard);
        }
        while tree.dequeue(Instant::ZERO, &mut Discard).is_some() {}
        (idle as f64 / 1e3, tree.status(ClassId(1), Instant::ZERO).unwrap().under_time)
    }

    #[test]
    fn bursts_become_the_idle_times_of_altq() {
        let rows = include_str!("../../../cbq/altq.csv").lines().skip(2);
        let mut seen = 0;
        for row in rows {
            let [rate, size, min_burst, maxidle, offtime] =
                row.split(',').map(|field| field.parse::<f64>().unwrap()).collect::<Vec<_>>()[..]
            else {
                panic!("{row}")
            };
            let mtu = (size as u64).max(1_500);
            let params = Params { finish: Finish::Actual, ..Params::altq(Rate::from_mbit(2), Bytes::new(mtu), ROOT) };
            let rate = Rate::from_bps(rate as u64);
            let class = Class { packet_size: Some(Bytes::new(size as u64)), ..Class::new(rate) };
            let with = |min_burst: u32| measured(params, limited(&params, Class { min_burst, ..class }));
            let (idle, until) = with(min_burst as u32);
            // With a burst of one packet the suspension is not longer than the packet.
            let (_, least) = with(1);
            let packet = rate.time_for_ceil(Bytes::new(size as u64)).unwrap();
            let off = (until.since(least) + packet).as_nanos() as f64 / 1e3;
            assert!((idle / maxidle - 1.0).abs() < 0.002, "{row}: maxidle {idle}");
            assert!(
                (off / offtime - 1.0).abs() < 0.002 || off.max(offtime) <= packet.as_nanos() as f64 / 1e3,
                "{row}: offtime {off}"
            );
            seen += 1;
        }
        assert_eq!(seen, 12);
    }
}
