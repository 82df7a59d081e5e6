//! Feedback: marks instead of silence.

use tidegate_testbed::{FlowSpec, Pair, Senders, Sink};

use crate::flows::{in_order, udp, until};
use crate::rates::shape;
use tidegate_testbed::Ended;
use tidegate_testbed::steady::patiently;

const CAPABLE: u8 = 2;
const EXPERIENCED: usize = 3;

pub fn feedback_marks_what_is_capable() -> Ended {
    patiently(feedback)
}

fn feedback() -> Result<(), String> {
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
    until("what is greedy is marked", || sink.report(0).ecns[EXPERIENCED] > 100);
    until("all arrive", || [1, 2].iter().all(|&n| sink.report(n).packets > 100));
    senders.stop();
    let [greedy, incapable, modest] = [0, 1, 2].map(|n| sink.report(n));
    // Later than what has arrived, so that it counts all of that.
    let status = shaping.status().expect("an answer");
    shaping.stop().expect("an orderly end");
    println!("  {:?}, {:?}, {:?}", greedy.ecns, incapable.ecns, modest.ecns);
    assert_eq!(greedy.ecns[EXPERIENCED] + greedy.ecns[usize::from(CAPABLE)], greedy.packets);
    assert_eq!(incapable.ecns[0], incapable.packets);
    assert!(status[0].counts.marked >= greedy.ecns[EXPERIENCED] + modest.ecns[EXPERIENCED]);
    [&greedy, &incapable, &modest].into_iter().for_each(in_order);
    // Only a machine that keeps its packets waiting for longer than its share takes gives it a queue.
    let marked = modest.packets - modest.ecns[usize::from(CAPABLE)];
    if marked == 0 { Ok(()) } else { Err(format!("{marked} packets are marked of what keeps below its share")) }
}
