//! The turn of shaper and guardian, and the hand-over of held packets to another data path.
//!
//! Each side has a thread that has not touched what the other one writes: loom shows no thread a value again that it had seen, or
//! written, before it yielded, and so would hide from a thread that waits that an ordering is too weak.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

use tidegate_interleave::guardian::{Page, Reason, Turn};

/// The state that the two share: the page, and of the queue who reads it and what became of the packets that the shaper held. Both are
/// relaxed, so that only the page brings an order into them.
struct Queue {
    page: Page,
    has_reader: AtomicBool,
    passed: AtomicBool,
}

impl Queue {
    fn new() -> Arc<Self> {
        let page = Page::create().expect("memory");
        Arc::new(Self { page, has_reader: AtomicBool::new(false), passed: AtomicBool::new(false) })
    }
    /// Reads packets, as one of the two at a time may.
    fn read(&self) {
        assert!(!self.has_reader.swap(true, Ordering::Relaxed), "the queue has two readers");
        self.has_reader.store(false, Ordering::Relaxed);
    }
    fn has_passed(&self) -> bool {
        self.passed.load(Ordering::Relaxed)
    }
    /// The guardian accepts what is held.
    fn pass(&self) {
        self.read();
        self.passed.store(true, Ordering::Relaxed);
    }

    /// The loop of the guardian (`Guard::watch`) until it gives the turn back, without its time: `waits` is how often it finds
    /// packets left to the next data path before it has waited long enough for that.
    fn guard(&self, mut waits: u32) {
        let mut begun = false;
        while !self.step(&mut begun, &mut waits) {
            thread::yield_now();
        }
    }
    /// A pass of that loop; returns whether it has given the turn back.
    fn step(&self, begun: &mut bool, waits: &mut u32) -> bool {
        match self.page.turn() {
            Turn::Shaper | Turn::Yield => {}
            Turn::Guardian => {
                if self.page.held() > 0 {
                    if *waits > 0 {
                        *waits -= 1;
                        return false;
                    }
                    self.page.take_held();
                }
                if !*begun {
                    self.pass();
                    *begun = true;
                }
            }
            Turn::Return => {
                if !*begun && self.page.held() == 0 {
                    self.pass();
                }
                return self.page.give_back();
            }
        }
        false
    }
    /// A data path asks for the turn (`Worker::take_back`), and returns the number of held packets that it gets.
    fn take_back(&self) -> u64 {
        self.page.ask_back();
        while self.page.turn() != Turn::Shaper {
            thread::yield_now();
        }
        self.page.take_held()
    }
}

/// A shaper that was silent continues: from then on it is the only reader, and it sees what the guardian has done.
#[test]
fn a_shaper_that_has_the_turn_back_is_the_only_reader() {
    loom::model(|| {
        let queue = Queue::new();
        assert!(queue.page.take(Reason::Silent));
        let guardian = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.guard(0)
        });
        let shaper = thread::spawn(move || {
            queue.page.ask_back();
            while queue.page.turn() != Turn::Shaper {
                thread::yield_now();
            }
            assert!(queue.has_passed(), "what the guardian has done is not seen");
            queue.read();
        });
        guardian.join().unwrap();
        shaper.join().unwrap();
    });
}

/// A guardian asks a shaper that runs for the turn, which leaves it between two reads.
#[test]
fn a_shaper_that_is_asked_reads_until_it_yields_and_the_guardian_after_it() {
    loom::model(|| {
        let queue = Queue::new();
        let guardian = thread::spawn({
            let queue = Arc::clone(&queue);
            move || {
                queue.page.ask();
                queue.guard(0);
            }
        });
        let shaper = thread::spawn(move || {
            while queue.page.turn() == Turn::Shaper {
                queue.read();
                thread::yield_now();
            }
            queue.page.yield_turn();
            queue.take_back();
            assert!(queue.has_passed(), "what the guardian has done is not seen");
            queue.read();
        });
        guardian.join().unwrap();
        shaper.join().unwrap();
    });
}

/// A data path leaves what it holds, at any moment of a guardian that may have found it silent: the next one gets these packets, or
/// they have passed.
fn hand_over(waits: u32) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let queue = Queue::new();
        let guardian = thread::spawn({
            let queue = Arc::clone(&queue);
            move || {
                if queue.page.turn() == Turn::Shaper {
                    queue.page.take(Reason::Silent);
                }
                queue.guard(waits);
            }
        });
        let shaper = thread::spawn(move || {
            let left = queue.page.leave(3);
            let got = queue.take_back();
            assert!(got == 0 || left, "packets that are not left are taken");
            assert_ne!(got > 0, queue.has_passed(), "held packets are taken or have passed, and not both");
            queue.read();
        });
        guardian.join().unwrap();
        shaper.join().unwrap();
    });
}

#[test]
fn held_packets_are_taken_over_or_have_passed() {
    hand_over(1);
}

#[test]
fn held_packets_that_nobody_comes_for_pass_once() {
    hand_over(0);
}

/// A guardian is replaced while packets pass, at any moment of its turn: never do both read the queue, and the shaper gets the turn back
/// from one of them, after packets have passed.
#[test]
fn a_guardian_and_the_next_one_never_read_both() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let queue = Queue::new();
        assert!(queue.page.take(Reason::Silent));
        let first = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.step(&mut false, &mut 0)
        });
        let next = thread::spawn({
            let queue = Arc::clone(&queue);
            move || {
                // It waits for the end of the first one (`Guard::begins`), which may have given the turn back before it.
                if !first.join().unwrap() {
                    queue.guard(0);
                }
            }
        });
        let shaper = thread::spawn(move || {
            queue.page.ask_back();
            while queue.page.turn() != Turn::Shaper {
                thread::yield_now();
            }
            assert!(queue.has_passed(), "what the guardians have done is not seen");
            queue.read();
        });
        next.join().unwrap();
        shaper.join().unwrap();
    });
}
