//! Every kind of discipline has a script with worked numbers, every script holds, and what each script runs on obeys the
//! laws.

use std::path::{Path, PathBuf};

use tidegate_config::Source;
use tidegate_config::discipline::{Discipline, Site};
use tidegate_core::qdisc::Discard;
use tidegate_core::random::Stream;
use tidegate_core::{Accounted, FlowKey, Instant, Qdisc, Span};
use tidegate_laws::{CodePoints, Shape, TestPacket, check_seeds};
use tidegate_script::{Limits, Script, Subject, no_files};
use tidegate_testbed::share;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts")
}

#[test]
fn every_kind_has_a_script_and_every_script_holds() {
    let mut ran = Vec::new();
    let mut failed = String::new();
    for entry in std::fs::read_dir(folder()).expect("there are scripts") {
        let path = entry.expect("it can be read").path();
        let source = Source::open(&path).expect("it is text");
        let run = || Script::parse(source.clone(), &Limits::default(), &mut no_files).and_then(|script| script.run());
        match (run(), run()) {
            (Ok(outcome), Ok(again)) => {
                assert_eq!(outcome.digest(), again.digest(), "{}: not the same twice", path.display());
                assert!(outcome.expectations > 0, "{}: expects nothing", path.display());
                failed += &outcome.failures();
            }
            (Err(findings), _) | (_, Err(findings)) => failed += &findings.to_string(),
        }
        ran.push(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default());
    }
    assert!(failed.is_empty(), "{failed}");
    for kind in Discipline::KINDS {
        assert!(ran.iter().any(|name| name == kind), "there is no script for {kind}");
    }
}

/// The discipline of the script of a kind.
fn discipline_of(kind: &str) -> Discipline {
    let source = Source::open(&folder().join(format!("{kind}.tgs"))).expect("each kind has a script");
    let script = Script::parse(source, &Limits::default(), &mut no_files).expect("it is valid");
    let Some(Subject::Discipline(discipline)) = script.subject else { panic!("{kind}: not on a discipline") };
    *discipline
}

/// The laws of a kind as a file builds it, whatever its own tests check: a new kind needs no more than its script.
#[test]
fn every_kind_obeys_the_laws_as_a_file_builds_it() {
    for kind in Discipline::KINDS {
        let discipline = discipline_of(kind);
        let site = Site { seed: 1, name: (*kind).to_owned(), now: Instant::ZERO };
        let fresh = || Accounted::new(discipline.build::<TestPacket>(&site));
        // A discipline with queues by code point keeps the order of flows whose packets have one.
        let ecn = if *kind == "dualpi2" { CodePoints::OfFlows } else { CodePoints::OfPackets };
        let usual = Shape { ecn, ..Shape::default() };
        for shape in [usual, Shape { flows: 200, enqueues: 140, ..usual }] {
            let report = check_seeds(fresh, &shape, share(20), 1_000);
            assert!(
                report.enqueued > share(1_000) && report.dequeued + report.dropped > share(1_000),
                "{kind}: {report:?}"
            );
        }
    }
}

/// A kind that reads no hosts decides the same without their hashes; the others are those that a table of kinds must not
/// lose.
#[test]
fn hosts_matter_only_where_they_are_read() {
    let sent = |discipline: &Discipline, hosts: bool| {
        let site = Site { seed: 1, name: "hosts".to_owned(), now: Instant::ZERO };
        let mut queue = discipline.build::<TestPacket>(&site);
        let (mut random, mut now, mut sent) = (Stream::named(1, "hosts"), Instant::ZERO, Vec::new());
        for id in 0..4_000 {
            now += Span::from_micros(random.below(400));
            let (flow, source, destination) = (random.below(40), random.below(5), random.below(5));
            let flow =
                if hosts { FlowKey { flow, source, destination } } else { FlowKey { flow, ..FlowKey::default() } };
            let (class, size) = (random.below(4) as u32, 64 + random.below(1_400));
            queue.enqueue(now, TestPacket { flow, ..TestPacket::new(id, 0, size).in_class(class) }, &mut Discard);
            while random.below(3) > 0
                && let Some(packet) = queue.dequeue(now, &mut Discard)
            {
                sent.push((now, packet.id));
            }
        }
        sent
    };
    for kind in Discipline::KINDS {
        let discipline = discipline_of(kind);
        if !discipline.reads_hosts() {
            let with = sent(&discipline, true);
            assert!(with.len() > 100 && with == sent(&discipline, false), "{kind}");
        }
    }
    assert!(discipline_of("cake").reads_hosts() && discipline_of("mered").reads_hosts());
    assert_ne!(sent(&discipline_of("cake"), true), sent(&discipline_of("cake"), false), "hosts are told apart");
}
