//! Every kind of discipline has a script with worked numbers, every script holds, and what each script runs on obeys the
//! laws.

use std::path::{Path, PathBuf};

use tidegate_config::Source;
use tidegate_config::discipline::{Discipline, Site};
use tidegate_core::{Accounted, Instant};
use tidegate_laws::{Shape, TestPacket, check_seeds};
use tidegate_script::{Limits, Script, Subject, no_files};

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

/// The laws of a kind as a file builds it, whatever its own tests check: a new kind needs no more than its script.
#[test]
fn every_kind_obeys_the_laws_as_a_file_builds_it() {
    for kind in Discipline::KINDS {
        let source = Source::open(&folder().join(format!("{kind}.tgs"))).expect("each kind has a script");
        let script = Script::parse(source, &Limits::default(), &mut no_files).expect("it is valid");
        let Some(Subject::Discipline(discipline)) = script.subject else { panic!("{kind}: not on a discipline") };
        let site = Site { seed: 1, name: (*kind).to_owned(), now: Instant::ZERO };
        let fresh = || Accounted::new(discipline.build::<TestPacket>(&site));
        for shape in [Shape::default(), Shape { flows: 200, enqueues: 140, ..Shape::default() }] {
            let report = check_seeds(fresh, &shape, 20, 1_000);
            assert!(report.enqueued > 1_000 && report.dequeued + report.dropped > 1_000, "{kind}: {report:?}");
        }
    }
}
