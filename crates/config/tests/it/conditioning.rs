//! Markers, rate adaptive shapers and early drop from a file: built and run, and refused with the place and the way
//! out.

use tidegate_core::qdisc::Discard;
use tidegate_core::{Bytes, Deadline, Dscp, FlowKey, Instant, Packet, Qdisc, Span};

use crate::discipline_file;

#[derive(Debug, Default)]
struct P {
    size: u64,
    dscp: Dscp,
    colour: tidegate_core::Colour,
}

impl Packet for P {
    fn size(&self) -> Bytes {
        Bytes::new(self.size)
    }
    fn flow(&self) -> FlowKey {
        FlowKey::default()
    }
    fn set_dscp(&mut self, dscp: Dscp) {
        self.dscp = dscp;
    }
    fn colour(&self) -> tidegate_core::Colour {
        self.colour
    }
    fn set_colour(&mut self, colour: tidegate_core::Colour) {
        self.colour = colour;
    }
}

fn load(text: &str) -> Result<Box<dyn Qdisc<P>>, String> {
    discipline_file::load(text).map(|(discipline, _)| discipline_file::build(&discipline))
}

/// The thresholds follow from the bursts of the meter: CIR up to the committed burst, PIR at the peak burst, MIR at twice that. One
/// that is given counts for those behind it, and a meter without bursts gives none.
#[test]
fn thresholds_follow_from_the_bursts_of_the_meter() {
    let given = ["cir-th = \"4kB\"\n", "pir-th = \"8kB\"\n", "mir-th = \"16kB\"\n"];
    let without = |keys: &[&str]| {
        keys.iter().fold(RAS.replace("averaging = \"1h\"", "averaging = \"1h\"\nbuffer = \"100kB\""), |text, key| {
            text.replace(key, "")
        })
    };
    // Packets of 500 B that find 1000, 1500, 2000 and 3000 B waiting: the rate is 8, 12, 16 and 48 of up to 80 kbit/s, so that the next
    // packet leaves after 500 * 8 / rate.
    let wait = |text: &str, packets: u64| {
        let mut queue = load(text).unwrap();
        for _ in 0..=packets {
            queue.enqueue(Instant::ZERO, P { size: 500, ..P::default() }, &mut Discard);
        }
        queue.dequeue(Instant::ZERO, &mut Discard).unwrap();
        match queue.deadline(Instant::ZERO) {
            Deadline::At(at) => at.as_nanos() / 1_000_000,
            other => panic!("{other:?}"),
        }
    };
    let all = without(&given);
    assert_eq!([2, 3, 4, 6].map(|packets| wait(&all, packets)), [500, 333, 250, 83]);
    // With 2 kB the same 4 packets are at the threshold, and PIR and MIR are at 2 and 4 kB.
    let own = all.replace("line-rate", "cir-th = \"2kB\"\n    line-rate");
    assert_eq!([4, 6, 8].map(|packets| wait(&own, packets)), [250, 83, 50]);
    let chance = all.replace(
        "kind = \"trtcm\", cir = \"8kbit\", cbs = \"1kB\", pir = \"16kbit\", pbs = \"2kB\"",
        "kind = \"tswtcm\", ctr = \"8kbit\", ptr = \"16kbit\"",
    );
    let missing = load(&chance).err().expect("no bursts");
    for key in ["cir-th", "pir-th", "mir-th"] {
        assert!(missing.contains(&format!("`{key}` is missing")), "{missing}");
    }
}

#[test]
fn a_threshold_far_beyond_the_burst_is_reported() {
    let warnings = |text: &str| discipline_file::load(text).expect("valid").1;
    assert_eq!(warnings(RAS), "");
    let far = RAS.replace("cir-th = \"4kB\"", "cir-th = \"8001B\"").replace("pir-th = \"8kB\"", "pir-th = \"9kB\"");
    let report = warnings(&far);
    assert!(
        report.contains("test.toml:7:14") && report.contains("8 times the committed burst of the meter, 1kB"),
        "{report}"
    );
    assert_eq!(warnings(&far.replace("8001B", "8kB")), "");
}

/// Mark an assured forwarding class by trTCM, a RAS before it.
const RAS: &str = r#"
    [discipline]
    kind = "ras"
    cir = "8kbit"
    pir = "16kbit"
    line-rate = "80kbit"
    cir-th = "4kB"
    pir-th = "8kB"
    mir-th = "16kB"
    averaging = "1h"
    conditioner = { class = 1, meter = { kind = "trtcm", cir = "8kbit", cbs = "1kB", pir = "16kbit", pbs = "2kB" } }
"#;

#[test]
fn a_shaper_before_a_marker() {
    let mut queue = load(RAS).unwrap();
    let now = Instant::ZERO;
    for _ in 0..2 {
        queue.enqueue(now, P { size: 1_000, ..P::default() }, &mut Discard);
    }
    assert_eq!(queue.dequeue(now, &mut Discard).unwrap().dscp, Dscp::assured(1, 1).unwrap());
    // 1000 B at 8 kbit/s take a second, and then the committed bucket holds them again.
    assert_eq!(queue.deadline(now), Deadline::At(now + Span::from_secs(1)));
    let later = now + Span::from_secs(1);
    assert_eq!(queue.dequeue(later, &mut Discard).unwrap().dscp, Dscp::assured(1, 1).unwrap());
}

#[test]
fn a_marker_around_rio() {
    let text = r#"
        [discipline]
        kind = "marker"
        conditioner = { green = "af21", yellow = "pass", red = "drop", meter = { kind = "srtcm", cir = "8kbit", cbs = "1kB", ebs = "1kB" } }
        [discipline.inside]
        kind = "rio"
        green = { min-th = "40 packets", max-th = "80 packets", max-p = 0.02 }
        yellow = { min-th = "20 packets", max-th = "40 packets", max-p = 0.05 }
        red = { min-th = "10 packets", max-th = "20 packets" }
        early = { above-max = "cliff", weight = 0.002 }
    "#;
    let mut queue = load(text).unwrap();
    let mut dropped = Vec::new();
    for _ in 0..3 {
        queue.enqueue(Instant::ZERO, P { size: 1_000, ..P::default() }, &mut dropped);
    }
    assert_eq!(dropped.len(), 1);
    let marks = [(); 2].map(|()| queue.dequeue(Instant::ZERO, &mut Discard).unwrap().dscp);
    assert_eq!(marks, [Dscp::assured(2, 1).unwrap(), Dscp::BEST_EFFORT]);
}

#[test]
fn every_meter_and_every_early_drop_builds() {
    for meter in [
        r#"{ kind = "srtcm", cir = "1mbit", cbs = "3kB" }"#,
        r#"{ kind = "trtcm", cir = "1mbit", cbs = "3kB", pir = "2mbit", pbs = "6kB", mode = "aware" }"#,
        r#"{ kind = "rfc4115", cir = "1mbit", cbs = "3kB", eir = "1mbit", ebs = "3kB" }"#,
        r#"{ kind = "tswtcm", ctr = "1mbit", ptr = "2mbit" }"#,
    ] {
        for at in ["entry", "exit"] {
            let text = format!(
                "[discipline]\nkind = \"marker\"\nat = \"{at}\"\nconditioner = {{ class = 4, meter = {meter} }}"
            );
            let mut queue = load(&text).unwrap();
            queue.enqueue(Instant::ZERO, P { size: 1_000, ..P::default() }, &mut Discard);
            let dscp = queue.dequeue(Instant::ZERO, &mut Discard).unwrap().dscp;
            assert_eq!(dscp, Dscp::assured(4, 1).unwrap());
        }
    }
    let wred = r#"
        [discipline]
        kind = "wred"
        green = { min-th = "40kB", max-th = "80kB" }
        yellow = { min-th = "20kB", max-th = "40kB" }
        red = { min-th = "10kB", max-th = "20kB" }
    "#;
    let red = "[discipline]\nkind = \"red\"\nmin-th = \"30kB\"\nmax-th = \"90kB\"\nearly = { mean-packet = \"500B\" }";
    for text in [wred, red] {
        let mut queue = load(text).unwrap();
        queue.enqueue(Instant::ZERO, P { size: 1_000, ..P::default() }, &mut Discard);
        assert_eq!(queue.backlog().packets, 1);
    }
}

#[test]
fn what_cannot_work_is_refused_at_its_place() {
    let red = "[discipline]\nkind = \"red\"\nmin-th = \"30kB\"\nmax-th = \"90kB\"\nmax-p = 0.1";
    for (text, from, to, place, message) in [
        (RAS, "pir = \"16kbit\"\n", "pir = \"7kbit\"\n", "test.toml:5:11", "`pir` must be at least cir"),
        (RAS, "mir-th = \"16kB\"", "mir-th = \"7kB\"", "test.toml:9:14", "`mir-th` must be at least pir_th"),
        (RAS, "line-rate = \"80kbit\"", "line-rate = \"12kbit\"", "test.toml:6:17", "`mir` must be at least pir"),
        (RAS, "pir = \"16kbit\"\n", "\n", "test.toml:8:14", "`pir-th` needs `pir`"),
        (RAS, "averaging = \"1h\"", "averaging = \"0s\"", "test.toml:10:17", "`averaging` must be more than 0"),
        (RAS, "class = 1", "class = 5", "test.toml:11:29", "no assured forwarding class 5"),
        (RAS, "pbs = \"2kB\"", "pbs = \"0B\"", "test.toml:11:", "`pbs` must be more than 0"),
        (red, "max-th = \"90kB\"", "max-th = \"30kB\"", "test.toml:4:10", "`max-th` must exceed min_th"),
        (red, "max-th = \"90kB\"", "max-th = \"9 packets\"", "test.toml:4:10", "different units"),
        (red, "max-p = 0.1", "max-p = 1.5", "test.toml:5:9", "not a number from 0 to 1"),
        (red, "max-p = 0.1", "max-p = 0.0", "test.toml:5:9", "`max-p` must be more than 0"),
    ] {
        assert!(load(text).is_ok(), "{text}");
        assert!(text.contains(from), "{from}");
        let rendered = load(&text.replace(from, to)).err().expect(message);
        assert!(rendered.contains(place) && rendered.contains(message), "{message} at {place}:\n{rendered}");
    }
    let green = RAS.replace("averaging = \"1h\"", "release = \"green\"");
    assert!(load(&green).is_ok());
    let chance = green.replace(
        "kind = \"trtcm\", cir = \"8kbit\", cbs = \"1kB\", pir = \"16kbit\", pbs = \"2kB\"",
        "kind = \"tswtcm\", ctr = \"8kbit\", ptr = \"16kbit\"",
    );
    assert!(load(&chance).err().unwrap().contains("computes the time"));
}
