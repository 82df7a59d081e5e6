//! The tests distinguish a busy machine from a faulty shaper.

use std::process::Command;
use std::thread::{available_parallelism, sleep};
use std::time::Duration;

use tidegate_testbed::Ended;
use tidegate_testbed::steady::{Watch, patiently};

/// Programs that are not children of this process and keep processors busy. They end when this is dropped.
struct Strangers(Vec<String>);

impl Strangers {
    fn start(number: usize) -> Self {
        let one = |_| {
            // The shell ends at once, and leaves what it began to process 1.
            let output = Command::new("sh")
                .args(["-c", "while :; do :; done >/dev/null 2>&1 & echo $!"])
                .output()
                .expect("a shell");
            String::from_utf8(output.stdout).expect("a number").trim().to_owned()
        };
        Self((0..number).map(one).collect())
    }
}

impl Drop for Strangers {
    fn drop(&mut self) {
        // A program that has ended already is no error.
        let _ = Command::new("kill").args(&self.0).status();
    }
}

pub fn busy_strangers_excuse_what_goes_wrong() -> Ended {
    let processors = available_parallelism().map_or(1, |number| number.get());
    let strangers = Strangers::start(processors / 2 + 1);
    let watch = Watch::start();
    sleep(Duration::from_millis(600));
    let seen = watch.disturbance().expect("they are seen");
    println!("  {seen}");
    // An attempt that goes wrong for as long as they are there does not count.
    let mut attempts = 0;
    let mut strangers = Some(strangers);
    let ended = patiently(|| {
        attempts += 1;
        sleep(Duration::from_millis(200));
        if attempts <= 5 {
            return Err("disturbed".to_owned());
        }
        strangers.take();
        Ok(())
    });
    assert!(matches!(ended, Ended::Passed) && attempts == 6);
    Ended::Passed
}

/// A thread of the watch has real-time priority, and would disturb all later measurements.
pub fn an_attempt_that_holds_leaves_no_thread_behind() -> Ended {
    let threads = || std::fs::read_dir("/proc/self/task").expect("our threads").count();
    let before = threads();
    for _ in 0..5 {
        assert!(matches!(patiently(|| Ok(())), Ended::Passed));
    }
    // A thread that has been joined may be listed for a moment.
    for _ in 0..500 {
        if threads() <= before {
            return Ended::Passed;
        }
        sleep(Duration::from_millis(10));
    }
    panic!("{before} threads before, {} after", threads());
}

/// Load of this process and its children is no excuse: it is counted as its own.
pub fn our_own_work_excuses_nothing() -> Ended {
    let watch = Watch::start();
    // It is ended when it has used a second of a processor, however long that takes.
    let child = Command::new("sh").args(["-c", "ulimit -t 1; while :; do :; done"]).status().expect("a shell");
    assert!(!child.success());
    let ours = watch.ours();
    // The limit goes by the ticks at which it was found running, what is read by how long it ran.
    assert!(ours > Duration::from_millis(400), "{ours:?}");
    Ended::Passed
}
