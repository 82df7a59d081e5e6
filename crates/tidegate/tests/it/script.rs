//! `tidegate script` as a command.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use tidegate_testbed::files::text;

fn script(args: &[&str], text: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .arg("script")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    child.stdin.take().expect("it has an input").write_all(text.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}

/// The first example of the reference, which readers copy first.
fn example() -> String {
    let page = text(&script(&["--language"], "").stdout);
    let fence = page.find("```tgs").expect("it has an example");
    let begin = fence + page[fence..].find('\n').expect("the fence ends") + 1;
    page[begin..begin + page[begin..].find("```").expect("the example ends")].to_owned()
}

#[test]
fn the_example_of_the_reference_holds_and_has_a_digest() {
    let output = script(&["-"], &example());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(said.starts_with("<stdin>: 4 expectations hold; digest "), "{said}");
    assert_eq!(said, text(&script(&["-"], &example()).stdout), "the same script, the same digest");
    let trace = text(&script(&["--trace", "-"], &example()).stdout);
    assert!(trace.contains("a#3      leaves, waited 4ms"), "{trace}");
}

#[test]
fn failures_and_mistakes_have_codes_of_their_own() {
    let wrong = script(&["-"], "flow a\nsned a");
    assert_eq!(wrong.status.code(), Some(2));
    let told = text(&wrong.stderr);
    assert!(told.contains("<stdin>:2:1") && told.contains("did you mean `send`?"), "{told}");

    let output = script(&["--json", "--trace", "-"], "discipline { kind = \"fifo\" }\nflow a\nsend a\nexpect a at 1ms");
    assert_eq!(output.status.code(), Some(1));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let one = &json["scripts"][0];
    assert_eq!(one["holds"], false);
    assert_eq!((&one["failures"][0]["line"], &one["failures"][0]["column"]), (&4.into(), &8.into()));
    assert_eq!(one["trace"][1]["what"], "left");

    let both = "discipline { kind = \"fifo\" }\nflow a\nsend 2 a\nexpect a a at 1ms";
    let told = text(&script(&["-"], both).stdout);
    assert!(told.contains("1 of 1 expectation failed"), "{told}");
}
