//! Section 4 of the paper: the driver between the scheduler and the line.

use tidegate_sim::Driver;

use super::rig::{Leaf, Rig};
use super::{
    Item, Options, Paper, TCP, UDP, at_500_hz, cured, draw_pattern, exact, held_clock, kernel, percent, queues,
};
use crate::Failure;
use crate::reproduce::item::{Bound, paper, theory};

pub fn run(options: &Options, numbers: &Paper) -> Result<Vec<Item>, Failure> {
    let leaves = || vec![Leaf::new(1, percent(75).borrowing(), TCP), Leaf::new(2, percent(25).borrowing(), UDP)];
    let what = "most UDP packets that leave between the arrival of a TCP packet at an empty queue and its departure";
    let numbers = &numbers.overtaken;
    let classes = [(1, "TCP"), (2, "UDP")];
    let mut items = Vec::new();

    let outcome = Rig::new(kernel(1_500), leaves()).with_driver(at_500_hz(Driver::ORIGINAL)).run();
    draw_pattern(options, "figure-5", "Original driver, 20 + 32 KB (figure 5)", &outcome, &classes, (10.0, 11.0))?;
    let (most, _) = outcome.overtaken(1, 2, 2);
    items.push(
        Item::measured("s4.1.original", format!("{what}: drain-all driver, 20 KB"), "packets", most as f64)
            .paper(numbers.original)
            .bound(Bound::between(
                13.0,
                numbers.original,
                paper("section 4.1: 16 packets in a trace; the 20 KB hold 13 of them"),
            ))
            .note("20 KB hold 13.7 packets of 1500 B"),
    );
    let phase = outcome.longest_row(1) as f64;

    let outcome = Rig::new(held_clock(1_500), leaves()).with_driver(at_500_hz(Driver::MODIFIED)).run();
    draw_pattern(options, "figure-6", "Modified driver, 20 + 32 KB (figure 6)", &outcome, &classes, (10.0, 11.0))?;
    let (most, _) = outcome.overtaken(1, 2, 2);
    items.push(
        Item::measured("s4.1.modified", format!("{what}: one packet a call, 20 KB"), "packets", most as f64)
            .paper(numbers.modified)
            .bound(Bound::around(numbers.modified, 1.0, paper("section 4.1: 6 packets in a trace; one more or less")))
            .note("with the clock held at its lead; set back, the buffer fills here too: see the page"),
    );
    // The class with 75 % sends three packets in its turn.
    let basis = paper("section 4.1, figure 5: after the burst a long period where only TCP packets are served");
    items.push(
        Item::measured("s4.1.phase", "most TCP packets in a row, drain-all driver, 20 KB", "packets", phase)
            .bound(Bound::above(3.0, basis)),
    );
    queues::ahead_of_the_link(options, &mut items, &outcome)?;

    let outcome = Rig::new(kernel(1_500), leaves()).with_driver(at_500_hz(Driver::SMALL)).run();
    draw_pattern(options, "figure-7", "Modified driver, 2 + 16 KB (figure 7)", &outcome, &classes, (10.0, 11.0))?;
    let (most, _) = outcome.overtaken(1, 2, 2);
    items.push(
        Item::measured("s4.2.small", format!("{what}: 2 KB"), "packets", most as f64)
            .paper(numbers.small)
            .bound(Bound::at_most(numbers.small, paper("section 4.2: no more than two"))),
    );

    let outcome = Rig::new(cured(1_500), leaves()).with_driver(exact(Driver::ORIGINAL)).run();
    draw_pattern(
        options,
        "figure-5-cured",
        "Original driver, a lead of two packets",
        &outcome,
        &classes,
        (10.0, 11.0),
    )?;
    let (most, _) = outcome.overtaken(1, 2, 2);
    items.push(
        Item::measured(
            "s4.cure",
            format!("{what}: the original driver, a lead of two packets"),
            "packets",
            most as f64,
        )
        .bound(Bound::at_most(2.0, theory("a lead of two packets")))
        .note("cure: packets wait in CBQ, not in the driver"),
    );
    Ok(items)
}
