//! `tidegate conform`: what it prints, its exit codes, and its scenarios as files.

use std::fs;
use std::process::{Command, Output};

use tidegate_testbed::files::Folder;
use tidegate_testbed::is_nightly;

fn tidegate(folder: &Folder, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidegate")).args(arguments).current_dir(&folder.0).output().expect("it starts")
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_control_is_judged_with_its_exit_code_and_a_digest() {
    let folder = Folder::new("conform");
    let good = tidegate(&folder, &["conform", "cubic", "--only", "single", "--runs", "1"]);
    assert!(good.status.success() && out(&good).contains("cubic over TCP: 2 of 2 criteria hold"), "{}", out(&good));
    let bad =
        tidegate(&folder, &["conform", "reno", "--only", "deep-queue", "--only", "single", "--runs", "1", "--json"]);
    assert_eq!(bad.status.code(), Some(1), "a criterion fails");
    let json: serde_json::Value = serde_json::from_slice(&bad.stdout).expect("JSON");
    let criterion = &json["cases"][0]["criteria"][0];
    assert_eq!((&criterion["section"], &criterion["holds"]), (&"5.1.2".into(), &false.into()));
    let hash = |arguments: &[&str]| out(&tidegate(&folder, &[&["conform"], arguments].concat()));
    let one = ["quinn-cubic", "--only", "half-lost", "--runs", "2", "--hash"];
    assert_eq!(hash(&one), hash(&[&one[..], &["--jobs", "1"]].concat()));
    assert_ne!(hash(&one), hash(&["cubic", "--quic", "--only", "half-lost", "--runs", "2", "--hash"]));
    for (wrong, why) in [
        (&["cubik"][..], "did you mean `cubic`?"),
        (&["quinn-bbr"], "draws random numbers from the machine"),
        (&["cubic", "--only", "singel"], "did you mean `single`?"),
        (&["{ kind = \"mine\" }"], "congestion control"),
    ] {
        let refused = tidegate(&folder, &[&["conform"], wrong].concat());
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(2) && said.contains(why), "{wrong:?}: {said}");
        // The scenario in which it is tried is no file of the user.
        assert!(!said.contains(".toml"), "{wrong:?}: {said}");
    }
}

/// The scenarios are those of `simulate`, which has the same results.
#[test]
fn its_scenarios_can_be_run_by_themselves() {
    let folder = Folder::new("conform-files");
    let made = tidegate(
        &folder,
        &["conform", "bbr", "--quic", "--only", "half-lost", "--runs", "1", "--scenarios", "s", "--json"],
    );
    let json: serde_json::Value = serde_json::from_slice(&made.stdout).expect("JSON");
    let simulated = tidegate(&folder, &["simulate", "s/half-lost.toml", "--runs", "1", "--no-cache", "--hash"]);
    assert!(simulated.status.success(), "{}", String::from_utf8_lossy(&simulated.stderr));
    assert_eq!(json["cases"][0]["digest"], out(&simulated).trim(), "the same runs");
    let text = fs::read_to_string(folder.0.join("s/matrix.toml")).expect("the matrix, too");
    assert!(text.contains("congestion = \"bbr\""));
}

#[test]
fn the_matrix_of_coexistence_is_drawn() {
    if !is_nightly() {
        eprintln!("SKIP: the matrix takes minutes; TIDEGATE_TESTS=nightly");
        return;
    }
    let folder = Folder::new("conform-matrix");
    let made = tidegate(&folder, &["conform", "cubic", "--only", "single", "--runs", "1", "--matrix", "m"]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    for queue in ["fifo", "codel", "fq-codel", "dualpi2"] {
        let svg = fs::read_to_string(folder.0.join(format!("m/{queue}.svg"))).expect("a figure of each queue");
        assert!(svg.contains("120mbit") && svg.contains("cubic / CUBIC") && !svg.contains("flow new"), "{queue}");
    }
}
