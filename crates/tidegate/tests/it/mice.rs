//! `tidegate reproduce mice` by the built binary: the fast items have their recorded verdicts, twice the same.

use tidegate_testbed::is_nightly;

use crate::command::tidegate;

#[test]
fn the_quick_groups_are_as_recorded_and_repeat_themselves() {
    let groups: &[&str] =
        if is_nightly() { &["dialup.me", "dialup.default", "dialup.start", "ared"] } else { &["ared"] };
    for &only in groups {
        let args = ["reproduce", "mice", "--only", only, "--recorded", "--json"];
        let (first, second) = (tidegate(&args), tidegate(&args));
        assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));
        assert_eq!(first.stdout, second.stdout, "the same seed gave other numbers");
        let text = String::from_utf8(first.stdout).expect("JSON is UTF-8");
        assert!(text.contains("\"verdict\": \""), "{text}");
        // Shares of runs have no interval.
        assert!(only == "dialup.start" || text.contains("\"interval\": ["), "{only}: {text}");
    }
}

#[test]
fn what_the_kernel_lacks_is_said_and_what_it_has_is_measured() {
    let output = tidegate(&["reproduce", "mice", "--only", "live.load.kernel_cake", "--json"]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    let lacking = text.contains("\"verdict\": null") && text.contains("\"note\": \"");
    assert!(lacking || text.contains("came through"), "{text}");
}
