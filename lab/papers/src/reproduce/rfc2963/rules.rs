//! Sections 2 and 3 of RFC 2963, tested on a single shaper: the shaping rate as a function of the buffer's occupancy,
//! and the release of packets by a green shaper. These items are deterministic.

use tidegate_core::marker::{Actions, Conditioner};
use tidegate_core::meter::Mode;
use tidegate_core::qdisc::Discard;
use tidegate_core::ras::{Coupling, Curve, Params, Ras};
use tidegate_core::srtcm::{self, SrTcm};
use tidegate_core::trtcm::{self, TrTcm};
use tidegate_core::{Bytes, Instant, Qdisc, Rate, Span};
use tidegate_sim::SimPacket;

use crate::Failure;
use crate::reproduce::Item;
use crate::reproduce::item::{Bound, paper};

const CIR: Rate = Rate::from_mbit(2);
const PIR: Rate = Rate::from_mbit(4);
const MIR: Rate = Rate::from_mbit(34);
/// The thresholds CIR_th, PIR_th and MIR_th in bytes.
const THRESHOLDS: [u64; 3] = [15_000, 30_000, 60_000];
const SIZE: u32 = 1_500;

fn wrong(error: tidegate_core::ParamError) -> Failure {
    Failure::Failed(format!("a shaper of RFC 2963: {error}"))
}

fn params(curve: Curve, coupling: Coupling, averaging: Span) -> Params {
    Params { curve, buffer: Bytes::new(150_000), line_rate: MIR, averaging, coupling, slack: Span::ZERO }
}

fn shaper(coupling: Coupling, averaging: Span, meter: trtcm::Params) -> Result<Ras<SimPacket, TrTcm>, Failure> {
    let [cir_th, pir_th, mir_th] = THRESHOLDS.map(Bytes::new);
    let curve = Curve::Two { cir: CIR, pir: PIR, mir: MIR, cir_th, pir_th, mir_th };
    let meter = TrTcm::new(meter, Instant::ZERO).map_err(wrong)?;
    Ras::new(params(curve, coupling, averaging), Conditioner::new(meter, Actions::default())).map_err(wrong)
}

/// Creates an srRAS or G-srRAS before an srTCM. The RFC has no simulation of these.
fn single(coupling: Coupling, averaging: Span, cbs: u64) -> Result<Ras<SimPacket, SrTcm>, Failure> {
    let [cir_th, _, mir_th] = THRESHOLDS.map(Bytes::new);
    let curve = Curve::Single { cir: CIR, mir: MIR, cir_th, mir_th };
    let meter = srtcm::Params { cir: CIR, cbs: Bytes::new(cbs), ebs: Bytes::new(cbs), mode: Mode::Blind };
    let meter = SrTcm::new(meter, Instant::ZERO).map_err(wrong)?;
    Ras::new(params(curve, coupling, averaging), Conditioner::new(meter, Actions::default())).map_err(wrong)
}

fn meter(cbs: u64, pbs: u64) -> trtcm::Params {
    trtcm::Params { cir: CIR, cbs: Bytes::new(cbs), pir: PIR, pbs: Bytes::new(pbs), mode: Mode::Blind }
}

/// Returns the departures of packets that all arrive at the beginning.
fn departures(shaper: &mut impl Qdisc<SimPacket>, packets: usize) -> Vec<Instant> {
    let mut now = Instant::ZERO;
    for _ in 0..packets {
        shaper.enqueue(now, SimPacket::datagram(1, SIZE), &mut Discard);
    }
    let mut left = Vec::new();
    while let Some(due) = shaper.deadline(now).instant(now) {
        now = now.max(due);
        if shaper.dequeue(now, &mut Discard).is_some() {
            left.push(now);
        }
    }
    left
}

pub fn run() -> Result<Vec<Item>, Failure> {
    let mut items = Vec::new();
    // With an average over a day, the rate depends on the occupancy alone.
    let day = Span::from_secs(86_400);
    for (id, packets, expected, text) in [
        ("cir", 5, 2.0, "section 2.5: below CIR_th the rate is CIR"),
        ("between", 15, 3.0, "section 2.5: half way from CIR_th to PIR_th, half way from CIR to PIR"),
        ("pir", 20, 4.0, "section 2.5: at PIR_th it is PIR"),
        ("above", 30, 19.0, "section 2.5: half way from PIR_th to MIR_th, half way from PIR to MIR"),
        ("mir", 60, 34.0, "section 2.5: from MIR_th on it is MIR"),
    ] {
        let mut shaper = shaper(Coupling::Uncoupled, day, meter(3_000, 6_000))?;
        for _ in 0..packets {
            shaper.enqueue(Instant::ZERO, SimPacket::datagram(1, SIZE), &mut Discard);
        }
        let what =
            format!("shaping rate with {} B queued and next to no average of arrivals", packets * u64::from(SIZE));
        let rate = shaper.rate().as_bps() as f64 / 1e6;
        items.push(
            Item::measured(format!("section2.rate.{id}"), what, "Mbit/s", rate).paper(expected).bound(Bound::near(
                expected,
                0.005,
                paper(text),
            )),
        );
    }
    // Packets arrive at 3 Mbit/s for a second, which is a hundred times K. The average becomes their rate, although
    // almost nothing is queued.
    let mut steady = shaper(Coupling::Uncoupled, Span::from_millis(10), meter(3_000, 6_000))?;
    let mut now = Instant::ZERO;
    for _ in 0..250 {
        let arrival = now + Span::from_millis(4);
        while let Some(due) = steady.deadline(now).instant(now).filter(|due| *due < arrival) {
            now = due;
            steady.dequeue(now, &mut Discard);
        }
        now = arrival;
        steady.enqueue(now, SimPacket::datagram(1, SIZE), &mut Discard);
    }
    let rate = steady.rate().as_bps() as f64 / 1e6;
    items.push(
        Item::measured(
            "section2.average",
            "shaping rate after a second of 3 Mbit/s, CIR being 2 Mbit/s",
            "Mbit/s",
            rate,
        )
        .paper(3.0)
        .bound(Bound::near(
            3.0,
            0.05,
            paper("section 2.5: the larger of the estimated average rate and F(occupancy)"),
        )),
    );
    let basis =
        paper("section 2.5: below CIR_th the rate is the larger of EAR and CIR; F alone is 3 Mbit/s at 22,500 B");
    items.push(
        Item::measured(
            "section2.average.queue",
            "backlog after a second of 3 Mbit/s, CIR being 2 Mbit/s",
            "B",
            steady.backlog().bytes.as_u64() as f64,
        )
        .bound(Bound::below(THRESHOLDS[0] as f64, basis)),
    );
    let milli = |times: &[Instant], n: usize| times.get(n).map_or(f64::NAN, |at| at.as_nanos() as f64 / 1e6);
    // Three packets arrive at once. By T1 each takes 6 ms at CIR. T2 is the time when both buckets hold enough; at
    // first each holds one packet.
    for (id, coupling, cbs, pbs, expected, text) in [
        (
            "plain",
            Coupling::Uncoupled,
            15_000,
            15_000,
            12.0,
            "section 2: the third of three packets is paid for after two at CIR",
        ),
        (
            "both",
            Coupling::Green,
            15_000,
            15_000,
            0.0,
            "section 3: released at T2 if that is before T1: with tokens in both buckets at once",
        ),
        (
            "committed",
            Coupling::Green,
            1_500,
            15_000,
            12.0,
            "section 3: T2 waits for the committed bucket: 6 ms a packet",
        ),
        ("peak", Coupling::Green, 15_000, 1_500, 6.0, "section 3: T2 waits for the peak bucket too: 3 ms a packet"),
        ("never", Coupling::Green, 1_400, 15_000, 12.0, "section 3.5: T2 is infinite if B is larger than CBS: only T1"),
    ] {
        let mut shaper = shaper(coupling, day, meter(cbs, pbs))?;
        let left = departures(&mut shaper, 3);
        let what = format!("when the third of three packets leaves: CBS {cbs} B, PBS {pbs} B, {id}");
        items.push(
            Item::measured(format!("section3.release.{id}"), what, "ms", milli(&left, 2))
                .paper(expected)
                .bound(Bound::around(expected, 0.01, paper(text))),
        );
    }
    for (id, packets, expected, text) in [
        ("cir", 5, 2.0, "section 2.3: below CIR_th the rate is CIR"),
        ("between", 25, 18.0, "section 2.3: half way from CIR_th to MIR_th, half way from CIR to MIR"),
        ("mir", 60, 34.0, "section 2.3: from MIR_th on it is MIR"),
    ] {
        let mut shaper = single(Coupling::Uncoupled, day, 3_000)?;
        for _ in 0..packets {
            shaper.enqueue(Instant::ZERO, SimPacket::datagram(1, SIZE), &mut Discard);
        }
        let what = format!("srRAS: shaping rate with {} B queued", packets * u64::from(SIZE));
        items.push(
            Item::measured(format!("section2.single.rate.{id}"), what, "Mbit/s", shaper.rate().as_bps() as f64 / 1e6)
                .paper(expected)
                .bound(Bound::near(expected, 0.005, paper(text))),
        );
    }
    for (id, coupling, cbs, expected, text) in [
        (
            "plain",
            Coupling::Uncoupled,
            15_000,
            12.0,
            "section 2.3: the third of three packets is paid for after two at CIR",
        ),
        (
            "green",
            Coupling::Green,
            15_000,
            0.0,
            "section 3.3: released at T2 if that is before T1: with tokens at once",
        ),
        ("never", Coupling::Green, 1_400, 12.0, "section 3.3: T2 is infinite if B is larger than CBS: only T1"),
    ] {
        let left = departures(&mut single(coupling, day, cbs)?, 3);
        let what = format!("srRAS: when the third of three packets leaves: CBS {cbs} B, {id}");
        items.push(
            Item::measured(format!("section3.single.release.{id}"), what, "ms", milli(&left, 2))
                .paper(expected)
                .bound(Bound::around(expected, 0.01, paper(text))),
        );
    }
    Ok(items)
}
