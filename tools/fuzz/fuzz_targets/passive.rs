//! Any packets at any times: the tracker of round trips does not panic, finds no round trip that is longer than the time that has passed,
//! and the controller behind it stays within its bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_autorate::passive::Tracker;
use tidegate_autorate::{Bounds, Controller, Side};
use tidegate_capture::dissect::network;
use tidegate_capture::passive::segment;
use tidegate_units::{Bytes, Instant, Rate, Span};

fuzz_target!(|input: &[u8]| {
    let bounds = Bounds { least: Rate::from_mbit(1), base: Rate::from_mbit(5), most: Rate::from_mbit(9) };
    let (mut tracker, mut controller) = (Tracker::default(), Controller::new([Some(bounds); 2], Instant::ZERO));
    let (mut rest, mut now) = (input, Instant::ZERO);
    while let [time, length, outward, more @ ..] = rest {
        now = now + Span::from_micros(u64::from(*time) * 997);
        let (packet, next) = more.split_at(usize::from(*length).min(more.len()));
        rest = next;
        if let Ok(seen) = network(packet, packet.len())
            && let Some(segment) = segment(&seen, packet, outward & 1 == 1)
            && let Some(found) = tracker.see(now, &segment)
        {
            assert!(found.round_trip <= now.since(Instant::ZERO));
            controller.round_trip(now, found.peer, found.round_trip, found.down);
        }
        for side in Side::BOTH {
            controller.carried(side, Bytes::new(packet.len() as u64 * 64), outward & 2 == 2);
        }
        controller.decide(now);
        for side in Side::BOTH {
            let rate = controller.allowed(side).unwrap_or_default();
            assert!(rate >= bounds.least && rate <= bounds.most);
        }
    }
});
