//! The clients in other languages have the calls that are declared: what is generated of them is what the declarations give.

mod declared;
mod go;
mod typescript;

use std::path::Path;

use tidegate_control::calls::{Declaration, Permission};

use crate::protocol::WRITE;

/// The chapter with the examples of the clients.
const PAGE: &str = include_str!("../../../../../book/src/promise.md");

/// How long a reply may take, in seconds: as for the client in Rust.
fn limit(call: &Declaration) -> u32 {
    // A change of the configuration may start other data paths.
    if matches!(call.permission, Permission::Operator(_)) { 60 } else { 10 }
}

/// `in-force` as `InForce`.
fn camel(name: &str) -> String {
    let word = |word: &str| word[..1].to_uppercase() + &word[1..];
    name.split(['-', '_']).map(word).collect()
}

/// The lines of a documentation, each behind `mark`.
fn commented(documentation: &str, mark: &str) -> String {
    documentation.lines().map(|line| format!("{mark} {}", line.trim()).trim_end().to_owned() + "\n").collect()
}

#[test]
fn the_clients_are_those_of_the_declarations() {
    let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients");
    let types = declared::types();
    for (name, text) in [
        ("go/calls.go", go::calls(&types)),
        ("go/examples_test.go", go::examples(&types)),
        ("typescript/calls.js", typescript::calls()),
        ("typescript/calls.d.ts", typescript::types(&types)),
    ] {
        let path = clients.join(name);
        if std::env::var_os(WRITE).is_some() {
            std::fs::write(&path, &text).expect("written");
        }
        let there = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(there == text, "{name}: a declaration has changed: run this test with {WRITE}=1, then again");
    }
}

/// The live tests of `tidegate` run these examples.
#[test]
fn the_examples_of_the_chapter_are_those_of_the_clients() {
    for (language, example) in [
        ("go", include_str!("../../../../../clients/go/examples/promise/main.go")),
        ("js", include_str!("../../../../../clients/typescript/examples/promise.js")),
    ] {
        assert!(
            PAGE.contains(&format!("```{language}\n{example}```\n")),
            "book/src/promise.md: the example in {language}"
        );
    }
}
