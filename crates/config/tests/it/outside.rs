//! A kind from outside in shaper files: its errors have places, the schema knows it, and it runs.

use tidegate_config::discipline::{self, Inside, Kind, RegisterError, Site};
use tidegate_config::shaper::{self, Root};
use tidegate_config::{Decode, Diagnostics, Place, Source, Spanned, record};
use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::qdisc::Discard;
use tidegate_core::{AnyPacket, Bytes, FlowKey, Instant, Packet, Qdisc};

record! {
    /// A queue of a few packets, or another discipline instead.
    pub struct Short as "short queue" {
        /// Packets that may wait. Default 8.
        pub packets: Spanned<u64> = 8,
        /// The discipline in its place. Default: none.
        pub instead: Option<Inside>,
    }
}

impl Kind for Short {
    const KIND: &'static str = "short";
    fn check(&self, _place: Place, diagnostics: &mut Diagnostics) {
        if self.packets.value == 0 {
            diagnostics.error(self.packets.place, "a queue of no packets drops everything").help("write at least 1");
        }
    }
    fn build(&self, site: &Site) -> Box<dyn Qdisc<AnyPacket>> {
        match &self.instead {
            Some(Inside(inside)) => inside.build(site),
            None => Box::new(Fifo::new(Limit::packets(self.packets.value))),
        }
    }
}

/// Registered once for all tests of this file, which run side by side.
fn registered() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| discipline::register::<Short>().expect("the name is free"));
}

fn load(text: &str) -> Result<shaper::Config, String> {
    registered();
    let (source, mut diagnostics) = (Source::new("shaper.toml", text), Diagnostics::new());
    shaper::load(&source, &mut diagnostics).ok_or_else(|| diagnostics.render(&source))
}

struct Sized(u64);
impl Packet for Sized {
    fn size(&self) -> Bytes {
        Bytes::new(self.0)
    }
    fn flow(&self) -> FlowKey {
        FlowKey::default()
    }
}

/// How many of ten packets the discipline of `text` keeps.
fn kept(text: &str) -> u64 {
    let config = load(text).unwrap_or_else(|errors| panic!("{errors}"));
    let Root::Discipline(discipline) = &config.root else { panic!("not a discipline") };
    let mut queue = discipline.build(&Site { seed: 1, name: "root".into(), now: Instant::ZERO });
    for _ in 0..10 {
        queue.enqueue(Instant::ZERO, Sized(100), &mut Discard);
    }
    queue.backlog().packets
}

#[test]
fn it_is_built_with_its_parameters_and_may_hold_others() {
    assert_eq!(kept("version = 1\n[discipline]\nkind = \"short\""), 8);
    assert_eq!(kept("version = 1\n[discipline]\nkind = \"short\"\npackets = 3"), 3);
    let nested = "{ kind = \"short\", instead = { kind = \"fifo\", packets = 5 } }";
    assert_eq!(kept(&format!("version = 1\n[discipline]\nkind = \"short\"\ninstead = {nested}")), 5);
}

#[test]
fn its_errors_have_places_and_ways_out() {
    let errors = load("version = 1\n[discipline]\nkind = \"short\"\npakets = 3").unwrap_err();
    assert!(errors.contains("shaper.toml:4:1") && errors.contains("did you mean `packets`?"), "{errors}");
    let errors = load("version = 1\n[discipline]\nkind = \"short\"\npackets = 0").unwrap_err();
    assert!(errors.contains("shaper.toml:4:11") && errors.contains("drops everything"), "{errors}");
    let errors = load("version = 1\n[discipline]\nkind = \"shrot\"").unwrap_err();
    assert!(errors.contains("did you mean `short`?"), "{errors}");
}

#[test]
fn the_schema_and_the_reference_have_it() {
    registered();
    let schema = shaper::schema();
    let text = tidegate_config::schema::reference(&schema);
    assert!(text.contains("kind = \"short\"") && text.contains("Packets that may wait"), "{text}");
    assert!(discipline::Discipline::kinds().contains(&"short"));
    assert!(!discipline::Discipline::KINDS.contains(&"short"));
    assert_eq!(discipline::Discipline::example(), "{ kind = \"ared\" }");
}

#[test]
fn names_that_cannot_be_are_refused() {
    registered();
    assert_eq!(discipline::register::<Short>(), Err(RegisterError::Taken("short")));
    for (name, good) in
        [("red2", true), ("my-red", true), ("Red", false), ("2red", false), ("a--b", false), ("a-", false), ("", false)]
    {
        assert_eq!(discipline::is_kind_name(name), good, "{name}");
    }
}
