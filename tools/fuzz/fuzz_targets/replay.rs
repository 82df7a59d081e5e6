//! Replays any bytes as a capture through configurations of every kind: it does not panic, it ends, and every packet is
//! accounted for.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use tidegate_config::{Diagnostics, Source as Text, shaper};
use tidegate_core::Rate;
use tidegate_replay::departures::Departures;
use tidegate_replay::meter::Keep;
use tidegate_replay::run::Settings;
use tidegate_replay::session::{self, Hooks, Part};
use tidegate_replay::source::{Choice, Source};

const CONFIGURATIONS: [&str; 3] = [
    "version = 1\n[[class]]\nname = \"a\"\nrate = \"1mbit\"\ndscp = \"ef\"\n[[class]]\nname = \"b\"\nrate = \"9mbit\"\n\
     default = true\n[[rule]]\nclass = \"a\"\nprotocol = \"udp\"\n",
    "version = 1\n[discipline]\nkind = \"fq-codel\"\n",
    "version = 1\n[interface]\nmtu = \"576B\"\n[discipline]\nkind = \"fifo\"\npackets = 3\n",
];

fn parts() -> &'static Vec<shaper::Config> {
    static PARTS: OnceLock<Vec<shaper::Config>> = OnceLock::new();
    PARTS.get_or_init(|| {
        let load = |text: &&str| shaper::load(&Text::new("fuzz", *text), &mut Diagnostics::new()).expect("valid");
        CONFIGURATIONS.iter().map(load).collect()
    })
}

fuzz_target!(|input: &[u8]| {
    let Ok(mut source) = Source::capture(input, Choice::default()) else { return };
    let part = |(n, config): (usize, &shaper::Config)| {
        let mut settings = Settings::seeded(1);
        settings.link = (n > 0).then(|| Rate::from_bps(10_000_000));
        settings.keep = Keep { series: true, departures: true };
        Part { name: n.to_string(), config: config.clone(), settings }
    };
    let parts: Vec<_> = parts().iter().enumerate().map(part).collect();
    let mut departures = Departures::new(Vec::new()).expect("into memory");
    let hooks = Hooks { notice: &mut |_| (), pace: None, departures: Some(&mut departures) };
    let session = session::replay(&mut source, &parts, hooks).expect("into memory");
    for outcome in &session.outcomes {
        assert!(outcome.passed + outcome.refused >= session.packets);
    }
    let written = departures.finish().expect("into memory");
    let again = Source::capture(&written[..], Choice::default());
    assert!(again.is_ok());
});
