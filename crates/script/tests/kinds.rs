//! Every kind of discipline has a script with worked numbers, and every script holds.

use std::path::Path;

use tidegate_config::Source;
use tidegate_config::discipline::Discipline;
use tidegate_script::{Limits, Script, no_files};

#[test]
fn every_kind_has_a_script_and_every_script_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut ran = Vec::new();
    let mut failed = String::new();
    for entry in std::fs::read_dir(folder).expect("there are scripts") {
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
