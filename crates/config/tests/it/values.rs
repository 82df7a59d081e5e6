//! Configurations are compared and examined by their values, not by their text.

use tidegate_config::discipline::{self, Discipline, Kind, Site};
use tidegate_config::node::Node;
use tidegate_config::{Decode, Diagnostics, Schemas, Source, read, record, shaper};
use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::{AnyPacket, Qdisc};

/// A number whose debug text does not show it, as that of a handle.
#[derive(Clone, PartialEq)]
pub struct Hidden(u64);

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a number")
    }
}

impl Decode for Hidden {
    fn decode(node: &Node, diagnostics: &mut Diagnostics) -> Option<Self> {
        u64::decode(node, diagnostics).map(Self)
    }
    fn example() -> String {
        u64::example()
    }
    fn schema(schemas: &mut Schemas) -> serde_json::Value {
        u64::schema(schemas)
    }
}

record! {
    /// A queue with a number that its debug text hides.
    pub struct Secret as "secret queue" {
        /// The number.
        pub number: Hidden,
    }
}

impl Kind for Secret {
    const KIND: &'static str = "secret";
    fn build(&self, _site: &Site) -> Box<dyn Qdisc<AnyPacket>> {
        Box::new(Fifo::new(Limit::packets(self.number.0)))
    }
}

fn discipline(text: &str) -> Discipline {
    let (source, mut diagnostics) = (Source::new("q.toml", text), Diagnostics::new());
    read(&source, &mut diagnostics).unwrap_or_else(|| panic!("{}", diagnostics.render(&source)))
}

#[test]
fn disciplines_are_equal_that_have_equal_values() {
    discipline::register::<Secret>().expect("the name is free");
    let one = discipline("kind = \"secret\"\nnumber = 1");
    assert_eq!(one, discipline("# Elsewhere in its file.\nnumber = 1\nkind = \"secret\""));
    let two = discipline("kind = \"secret\"\nnumber = 2");
    assert!(one != two && format!("{one:?}") == format!("{two:?}"));
    // A default is equal to the same value in the file, and a unit is no value.
    assert_eq!(discipline("kind = \"codel\""), discipline("kind = \"codel\"\ntarget = \"5000us\""));
    assert_ne!(discipline("kind = \"codel\""), discipline("kind = \"codel\"\ntarget = \"6ms\""));
}

#[test]
fn what_marks_early_is_found_wherever_it_is() {
    let marks = |text: &str| {
        let (source, mut diagnostics) =
            (Source::new("shaper.toml", format!("version = 1\n{text}")), Diagnostics::new());
        let config = shaper::load(&source, &mut diagnostics);
        config.unwrap_or_else(|| panic!("{}", diagnostics.render(&source))).marks_early()
    };
    let class = |keys: &str| format!("[[class]]\nname = \"a\"\nrate = \"1mbit\"\ndefault = true\n{keys}\n");
    assert!(marks(&class("l4s-step = \"1ms\"")));
    assert!(marks(&class("queue = { kind = \"dualpi2\" }")));
    assert!(marks(&class("queue = { kind = \"fq-codel\", l4s-step = \"1ms\" }")));
    let htb = |queue: &str| {
        let leaf = format!("{{ name = \"leaf\", rate = \"1mbit\", queue = {queue} }}");
        format!("[discipline]\nkind = \"htb\"\ndefault = \"leaf\"\nclass = [{leaf}]")
    };
    assert!(marks(&htb("{ kind = \"drr\", l4s-step = \"1ms\" }")) && !marks(&htb("{ kind = \"drr\" }")));
    assert!(marks("[discipline]\nkind = \"dualpi2\"") && !marks("[discipline]\nkind = \"cake\"\nrate = \"1mbit\""));
    // A class may have any name.
    assert!(!marks(&class("").replace("\"a\"", "\"DualPi2 with l4s_step: Some\"")));
}
