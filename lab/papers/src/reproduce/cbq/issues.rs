//! Section 7 of the paper: fragments, and reservations.

use tidegate_core::cbq::{Accounting, Borrow, Cbq, Class, Finish, Params};
use tidegate_core::fifo::Fifo;
use tidegate_core::reservation::{Policy, Request, Reservations, Service, TSpec};
use tidegate_core::{Bytes, ClassId, Instant, Rate};
use tidegate_sim::SimPacket;

use super::rig::{Fragmenting, Leaf, Load, ROOT, Rig};
use super::{Item, LINK, Options, Paper, UDP, cured, kernel, percent};
use crate::Failure;
use crate::reproduce::item::{Bound, paper, theory};

pub fn run(options: &Options, _: &Paper) -> Result<Vec<Item>, Failure> {
    let mut items = Vec::new();
    if options.wants("s7.1") {
        fragments(&mut items);
    }
    if options.wants("s7.2") {
        reservations(&mut items)?;
    }
    Ok(items)
}

fn fragments(items: &mut Vec<Item>) {
    // Datagrams of 4.4 KB in three fragments have 1.4 Mbit/s in a class of 75 %. The other class, the default, is full.
    let load = Load::Udp { rate: Rate::from_kbit(1_400), packet: 1_500 };
    let run = |fragmenting| {
        let leaves = vec![Leaf::new(1, percent(75), load), Leaf::new(2, percent(25), UDP)];
        Rig { fragmenting, ..Rig::new(cured(1_500), leaves) }.run().datagrams(1)
    };
    let (lost, lost_overtaken) = run(Fragmenting::PortsLost(2));
    let (kept, kept_overtaken) = run(Fragmenting::Kept);
    let whole = "datagrams that leave whole, of a flow within its class's rate";
    let overtaken = "datagrams of which a later fragment leaves before the first";
    items.push(
        Item::measured("s7.1.lost.whole", format!("{whole}: later fragments in the default class"), "part", lost)
            .bound(Bound::below(
                0.9,
                paper("section 7.1: fragmentation can prevent a flow from getting its allocated share"),
            ))
            .note("defect: the flow does not get its share"),
    );
    items.push(
        Item::measured("s7.1.kept.whole", format!("{whole}: fragments kept with their first"), "part", kept).bound(
            Bound::at_least(
                0.99,
                theory("the flow sends less than its class may; the last datagrams are on their way"),
            ),
        ),
    );
    items.push(
        Item::measured(
            "s7.1.kept.overtaken",
            format!("{overtaken}: kept with their first"),
            "datagrams",
            kept_overtaken as f64,
        )
        .bound(Bound::at_most(0.0, theory("one queue keeps the order"))),
    );
    // A first fragment is only overtaken if its own class is the busy one.
    let busy = |fragmenting| {
        let load = Load::Udp { rate: Rate::from_mbit(2), packet: 1_500 };
        let quiet = Load::Udp { rate: Rate::from_kbit(10), packet: 100 };
        let leaves = vec![Leaf::new(1, percent(25), load), Leaf::new(2, percent(75), quiet)];
        Rig { fragmenting, ..Rig::new(cured(1_500), leaves) }.run().datagrams(1).1
    };
    items.push(
        Item::measured(
            "s7.1.lost.overtaken",
            format!("{overtaken}: later ones in the default class, the first in a busy one"),
            "datagrams",
            (lost_overtaken + busy(Fragmenting::PortsLost(2))) as f64,
        )
        .bound(Bound::at_least(1.0, paper("section 7.1: the first fragment can be served after the following ones")))
        .note("defect: reordering"),
    );
    items.push(
        Item::measured(
            "s7.1.kept.overtaken.busy",
            format!("{overtaken}: kept with their first in a busy class"),
            "datagrams",
            busy(Fragmenting::Kept) as f64,
        )
        .bound(Bound::at_most(0.0, theory("one queue keeps the order"))),
    );
}

fn reservations(items: &mut Vec<Item>) -> Result<(), Failure> {
    const RESERVED: ClassId = ClassId(9);
    let tspec = TSpec {
        rate: Rate::from_kbit(256),
        bucket: Bytes::new(2_000),
        peak: Rate::from_mbit(3),
        min_unit: Bytes::new(200),
        max_packet: Bytes::new(200),
    };
    // Half of the link is for controlled load. The reservation is requested in a separate tree.
    let granted = |params: Params| {
        let failed = |error: &dyn std::fmt::Display| Failure::Failed(error.to_string());
        let mut tree = Cbq::<SimPacket, Fifo<SimPacket>>::new(params).map_err(|error| failed(&error))?;
        tree.add_inner(Instant::ZERO, RESERVED, ROOT, percent(50)).map_err(|error| failed(&error))?;
        let policy = Policy { borrow: Borrow::Never, first_id: ClassId(50), flows: 4, ..Policy::new(RESERVED) };
        let mut reservations = Reservations::new(policy).map_err(|error| failed(&error))?;
        let request = Request { tspec, service: Service::ControlledLoad };
        let grant =
            reservations.reserve(Instant::ZERO, &mut tree, &request, Fifo::new).map_err(|error| failed(&error))?;
        let class = *tree.class(grant.id).ok_or_else(|| failed(&"the class is there"))?;
        Ok::<_, Failure>((grant, class))
    };
    let run = |params: Params, class: Class| {
        let load = Load::Udp { rate: tspec.rate, packet: 200 };
        let reserved = Leaf { parent: RESERVED, ..Leaf::new(50, class, load) };
        let best_effort = Leaf::new(2, percent(50).borrowing(), UDP);
        let inner = vec![(RESERVED.0, ROOT, percent(50))];
        Rig { inner, ..Rig::new(params, vec![reserved, best_effort]) }.run()
    };
    let idle = Params { finish: Finish::Actual, ..kernel(1_500) };
    debug_assert_ne!(idle.accounting, Accounting::Bytes);
    let as_rsvp = Class { packet_size: None, max_burst: 16, min_burst: 2, ..granted(idle)?.1 };
    let what = |how: &str| format!("256 kbit/s reserved, packets of 200 B, {how}: the rate of the flow");
    items.push(
        Item::measured(
            "s7.2.default-size",
            what("packet size configured as the link's largest"),
            "kbit/s",
            run(idle, as_rsvp).kbit(50, 2),
        )
        .bound(Bound::below(
            0.98 * 256.0,
            paper("section 7.2: a class can get the wrong share by a poor average packet size; 2 %"),
        ))
        .note("defect: the reservation is not kept"),
    );
    items.push(
        Item::measured(
            "s7.2.reserved-size",
            what("packet size configured as reserved"),
            "kbit/s",
            run(idle, granted(idle)?.1).kbit(50, 2),
        )
        .bound(Bound::near(256.0, 0.02, theory("the reserved rate"))),
    );
    let cure = Params::new(LINK, Bytes::new(1_500), ROOT);
    let (grant, class) = granted(cure)?;
    let outcome = run(cure, class);
    items.push(Item::measured("s7.2.bytes", what("bytes counted"), "kbit/s", outcome.kbit(50, 2)).bound(Bound::near(
        256.0,
        0.01,
        theory("the reserved rate, by bytes"),
    )));
    let bound = grant.bound.map_or(0.0, |bound| bound.as_secs_f64() * 1e3);
    // The bound includes the transmission, which takes 0.8 ms for 200 B.
    items.push(
        Item::measured(
            "s7.2.delay",
            "its longest delay, to the last bit on the link",
            "ms",
            outcome.longest_wait_ms(50, 0) + 0.8,
        )
        .bound(Bound::at_most(bound, theory("the delay that was promised, by RFC 2212"))),
    );
    Ok(())
}
