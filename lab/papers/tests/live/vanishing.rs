//! An interface that vanishes and comes back.

use std::thread::sleep;
use std::time::Duration;

use tidegate_testbed::{Pair, Senders, Sink};

use crate::flows::{measure, near, udp, until};
use crate::rates::shape;
use tidegate_testbed::Ended;
use tidegate_testbed::steady::patiently;

pub fn the_interface_comes_back_shaped() -> Ended {
    patiently(vanish)
}

fn vanish() -> Result<(), String> {
    let pair = Pair::create().expect("a pair of hosts");
    let mut shaping = shape(&pair, "version = 1\n[[class]]\nname = \"all\"\nrate = \"5mbit\"\ndefault = true\n");
    let flows = [udp(0, 8_000, 1_000)];
    let shaped = || {
        let sink = Sink::start(&pair.receiver, &flows).expect("a sink");
        let senders = Senders::start(&pair.sender, &pair.receiver, &flows).expect("senders");
        until("it arrives", || sink.report(0).packets > 50);
        sleep(Duration::from_millis(300));
        let rate = measure(&sink, 1, Duration::from_millis(1_500))[0];
        near(rate, 5e6, 0.03).map(|()| (sink, senders))
    };
    // It vanishes with packets in the queue, under a flow that goes on sending.
    let (sink, senders) = shaped()?;
    pair.disconnect().expect("deleted");
    shaping.counts().expect("the data path answers");
    // The queues of a namespace are listed inside it.
    let inspection = pair.sender.namespace.run(|| shaping.inspect()).expect("a thread").expect("an answer");
    assert!(inspection.is_sound(), "{:?}", inspection.differences);
    sleep(Duration::from_millis(200));
    drop((sink, senders));
    pair.connect().expect("made again");
    shaped()?;
    let counts = shaping.stop().expect("an orderly end");
    // The kernel let go of what it held for the interface, and says of each that it is gone.
    assert!(counts.socket.refused_verdicts < 150, "{counts:?}");
    assert!([0, libc::ENOENT].contains(&counts.socket.last_refusal), "{counts:?}");
    Ok(())
}
