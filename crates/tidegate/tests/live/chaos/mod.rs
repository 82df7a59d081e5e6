//! A chaos run: random faults, changes, promises, hostile clients and loads, one after the other for minutes or an hour, under
//! flows that are measured packet by packet.
//!
//! *Invariants*, checked after each step:
//!
//! - No flow is reordered, but for packets that are sent while a link comes back: until a neighbour's address is known they wait
//!   outside of the shaper, where the kernel overtakes them by itself.
//! - Each packet arrives. Those that do not are known by their sequence numbers, and each has one reason: it waited when another program
//!   removed a chain, when the interface went down or when its route went, and the kernel's drops that `status` shows are as many; it
//!   was sent while there was no link; shaper and guardian held it when both were killed; the shaper counts it as dropped of its flow,
//!   which is offered more than its class has; or this machine dropped it.
//! - A promise that was given is listed until it is released, and its flow gets its rate.
//! - The control socket answers within two seconds unless the process is stopped, and shaping comes into force again.
//! - At the end memory and descriptors have not grown from the first quarter of the run to the last, and no rule, process
//!   or socket is left.
//!
//! The steps are a function of the seed; how they fall on the packets is not, so that a seed which failed may have to be
//! repeated more than once.

mod books;
mod stage;
mod steps;
mod traffic;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_testbed::chaos::Schedule;
use tidegate_testbed::{Chaos, Ended};

use books::Books;
use stage::Stage;
use steps::Actor;

const NAME: &str = "chaos::random_faults_lose_and_reorder_nothing";

pub fn random_faults_lose_and_reorder_nothing() -> Ended {
    let Chaos { seconds, seed } = Chaos::read();
    println!("chaos: {seconds} s with seed {seed}");
    let stage = Stage::start();
    let mut books = Books::open(&stage);
    let mut actor = Actor::new(stage);
    let mut history = Vec::new();
    let began = Instant::now();
    let steps = catch_unwind(AssertUnwindSafe(|| {
        for (pause, step) in Schedule::new(seed) {
            if began.elapsed() > Duration::from_secs(seconds) {
                break;
            }
            thread::sleep(pause);
            history.push((began.elapsed(), step));
            let was_video_safe = actor.is_video_safe();
            let toll = actor.act(step);
            let is_video_safe = was_video_safe && actor.is_video_safe();
            books.check(&actor.stage, step, &toll, is_video_safe);
        }
        println!("chaos: {} steps; {}", history.len(), books.summary());
        // Which kinds were among them, by the first word of each.
        let mut kinds = BTreeMap::new();
        for (_, step) in &history {
            let name = format!("{step:?}").split([' ', '(']).next().unwrap_or_default().to_owned();
            *kinds.entry(name).or_insert(0) += 1;
        }
        println!("chaos: {kinds:?}");
    }));
    let failure = match steps {
        Ok(()) => catch_unwind(AssertUnwindSafe(|| actor.end())).err(),
        Err(failure) => {
            println!("chaos: the messages of the shapers:\n{}", actor.stage.last_words());
            Some(failure)
        }
    };
    let Some(failure) = failure else { return Ended::Passed };
    println!("chaos: seed {seed} failed; its steps, in seconds since the start:");
    for (time, step) in &history {
        println!("{:9.3} {step:?}", time.as_secs_f64());
    }
    println!(
        "chaos: to repeat it: TIDEGATE_TESTS=nightly TIDEGATE_CHAOS={seconds}:{seed} cargo test -p tidegate --test live {NAME}"
    );
    resume_unwind(failure)
}
