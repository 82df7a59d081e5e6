//! Observation of real traffic between namespaces: over the control socket, as metrics, and on the page in a browser.

#[path = "../metrics/parser.rs"]
#[allow(dead_code)] // The other target uses all of it.
mod parser;
#[path = "../../../live/tests/support/mod.rs"]
mod support;

mod browser;
mod devtools;
mod numbers;
mod testbed;
mod web;

fn main() {
    support::main_with(
        &[
            ("flows_and_classes_are_seen_as_they_are", numbers::flows_and_classes_are_seen_as_they_are),
            ("the_page_is_read_only_and_ours_alone", web::the_page_is_read_only_and_ours_alone),
            ("a_browser_shows_it", browser::a_browser_shows_it),
        ],
        // A browser is no other without privileges.
        &["a_browser_shows_it", "the_page_is_read_only_and_ours_alone"],
    );
}
