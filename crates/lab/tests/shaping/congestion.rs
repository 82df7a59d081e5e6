//! Feedback: marks instead of silence.

use std::thread::sleep;
use std::time::Duration;

use tidegate_lab::{FlowSpec, Pair, Senders, Sink};

use crate::flows::udp;
use crate::rates::shape;
use crate::support::Ended;

const CAPABLE: u8 = 2;
const EXPERIENCED: usize = 3;

pub fn feedback_marks_what_is_capable() -> Ended {
    let pair = Pair::create().expect("a pair of hosts");
    let shaping = shape(
        &pair,
        "version = 1\n[[class]]\nname = \"all\"\nrate = \"4mbit\"\ndefault = true\n\
         feedback = { above = \"30%\", below = \"10%\", ecn = true }\n",
    );
    // The third stays below its share and has no queue.
    let flows = [
        FlowSpec { ecn: CAPABLE, ..udp(0, 4_000, 1_000) },
        udp(1, 4_000, 1_000),
        FlowSpec { ecn: CAPABLE, ..udp(2, 400, 1_000) },
    ];
    let sink = Sink::start(&pair.receiver, &flows).expect("a sink");
    let senders = Senders::start(&pair.sender, &pair.receiver, &flows).expect("senders");
    sleep(Duration::from_millis(2_500));
    senders.stop();
    let status = shaping.status().expect("an answer");
    let [greedy, incapable, modest] = [0, 1, 2].map(|n| sink.report(n));
    shaping.stop().expect("an orderly end");
    println!("  {:?}, {:?}, {:?}", greedy.ecns, incapable.ecns, modest.ecns);
    assert!(greedy.ecns[EXPERIENCED] > 100, "{:?}", greedy.ecns);
    assert_eq!(greedy.ecns[EXPERIENCED] + greedy.ecns[usize::from(CAPABLE)], greedy.packets);
    assert_eq!(incapable.ecns[0], incapable.packets);
    assert_eq!(modest.ecns[usize::from(CAPABLE)], modest.packets);
    assert!(status[0].counts.marked >= greedy.ecns[EXPERIENCED]);
    assert_eq!(greedy.reordered + incapable.reordered + modest.reordered, 0);
    Ended::Passed
}
