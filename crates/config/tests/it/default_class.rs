//! The class of packets that no rule matches, in a file with a discipline on the whole interface.

use tidegate_config::shaper::load;
use tidegate_config::{Diagnostics, Source};
use tidegate_core::ClassId;

const CONDITIONER: &str = r#"{ meter = { kind = "trtcm", cir = "8kbit", cbs = "1kB", pir = "16kbit", pbs = "2kB" } }"#;

/// The number of the default class of a file with the discipline `inside` and, where given, `default-class`.
fn default_class(inside: &str, default: Option<&str>) -> ClassId {
    let default = default.map_or(String::new(), |name| format!("default-class = \"{name}\"\n"));
    let source = Source::new("shaper.toml", format!("version = 1\n{default}[discipline]\n{inside}"));
    let mut diagnostics = Diagnostics::new();
    let config = load(&source, &mut diagnostics);
    config.unwrap_or_else(|| panic!("{}", diagnostics.render(&source))).default_class
}

#[test]
fn the_default_of_a_discipline_is_that_of_its_file() {
    let classes = "class = [{ name = \"a\", rate = \"1mbit\" }, { name = \"b\", rate = \"1mbit\" }]\n";
    let cbq = format!("kind = \"cbq\"\nlink = \"10mbit\"\n{classes}");
    let htb = format!("kind = \"htb\"\n{classes}");
    for tree in [&cbq, &htb] {
        assert_eq!(default_class(tree, None), ClassId(0), "the first where nothing is named");
        let named = format!("{tree}default = \"b\"\n");
        assert_eq!(default_class(&named, None), ClassId(1));
        assert_eq!(default_class(&named, Some("a")), ClassId(0), "the file's own goes first");
        let marker = format!("kind = \"marker\"\nconditioner = {CONDITIONER}\n[discipline.inside]\n{named}");
        assert_eq!(default_class(&marker, None), ClassId(1), "of what is inside a marker");
    }
}
