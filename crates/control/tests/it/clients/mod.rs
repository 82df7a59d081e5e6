//! The clients in other languages have the calls that are declared: what is generated of them is what the declarations give.

mod constants;
mod declared;
mod go;
mod typescript;
mod varlink;

use std::path::Path;

use tidegate_control::calls::{Declaration, Permission};
use tidegate_control::protocol::{CHANGE_TIMEOUT, REPLY_TIMEOUT};

use crate::protocol::WRITE;

/// The chapter with the examples of the clients.
const PAGE: &str = include_str!("../../../../../book/src/promise.md");

/// How long a reply may take, in seconds: as for the client in Rust.
fn limit(call: &Declaration) -> u32 {
    let limit = if matches!(call.permission, Permission::Operator(_)) { CHANGE_TIMEOUT } else { REPLY_TIMEOUT };
    limit.as_secs() as u32
}

/// The lines of a documentation, each behind `mark`.
fn commented(documentation: &str, mark: &str) -> String {
    documentation.lines().map(|line| format!("{mark} {}", line.trim()).trim_end().to_owned() + "\n").collect()
}

#[test]
fn the_clients_are_those_of_the_declarations() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let types = declared::types();
    for (name, text) in [
        ("clients/go/calls.go", go::calls(&types)),
        ("clients/go/constants.go", constants::go()),
        ("clients/go/examples_test.go", go::examples(&types)),
        ("clients/typescript/calls.js", typescript::calls()),
        ("clients/typescript/calls.d.ts", typescript::types(&types)),
        ("clients/typescript/constants.js", constants::javascript()),
        ("clients/typescript/constants.d.ts", constants::typescript()),
        ("lab/python/python/tidegate/protocol.py", constants::python()),
        ("crates/control/src/invalid.tidegate.Control.varlink", varlink::interface(&types)),
    ] {
        let path = root.join(name);
        if std::env::var_os(WRITE).is_some() {
            std::fs::write(&path, &text).expect("written");
        }
        let there = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(there == text, "{name}: a declaration has changed: run this test with {WRITE}=1, then again");
    }
}

#[test]
fn the_page_of_the_protocol_has_the_constants() {
    let table = constants::table();
    assert!(
        crate::protocol::PAGE.contains(&table),
        "book/src/reference/control-protocol.md lacks this table:\n{table}"
    );
}

/// The live tests of `tidegate` run these examples.
#[test]
fn the_examples_of_the_chapter_are_those_of_the_clients() {
    for (language, example) in [
        ("go", include_str!("../../../../../clients/go/examples/sender/main.go")),
        ("js", include_str!("../../../../../clients/typescript/examples/sender.js")),
        // It is compiled as an example of this crate, and not by the book.
        ("rust,ignore", include_str!("../../../examples/sender.rs")),
    ] {
        assert!(
            PAGE.contains(&format!("```{language}\n{example}```\n")),
            "book/src/promise.md: the example in {language}"
        );
    }
}
