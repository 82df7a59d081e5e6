//! A data path whose engine panics while packets are queued in it.

use std::time::{Duration, Instant};

use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_core::Span;
use tidegate_live::guardian::Settings;
use tidegate_live::shaping::{Fault, Injection, Options, Shaping};

use crate::queue::{PATIENCE, texts, udp};
use tidegate_testbed::Ended;
use tidegate_testbed::veth::{DEVICE, Pair};

/// Packets of 1,000 bytes, of which 100 kbit/s let a dozen leave in a second.
const PACKETS: usize = 60;

/// With and without a guardian every packet arrives, in order, also those that are sent after the panic.
pub fn a_data_path_that_panics_lets_all_packets_pass_in_order() -> Ended {
    for guarded in [false, true] {
        let pair = Pair::new();
        let text = format!(
            "version = 1\n[interface]\nname = \"{DEVICE}\"\n\
             [[class]]\nname = \"all\"\nrate = \"100kbit\"\nlimit = \"1MB\"\nflow-limit = \"1MB\"\ndefault = true\n"
        );
        let config = shaper::load(&Source::new("test.toml", &text), &mut Diagnostics::new()).expect("a file");
        let guardian = guarded.then(|| Settings {
            program: "/proc/self/exe".into(),
            arguments: vec!["guard-a-shaper".into()],
            directory: None,
            linger: Duration::from_secs(1),
            take_over: false,
            log: None,
        });
        let inject = Some(Injection { after: Span::from_millis(500), fault: Fault::Panic });
        let options = Options { guardian, inject, ..Options::default() };
        let shaping = pair.left.run(|| Shaping::start(&config, &options)).unwrap().unwrap();
        assert_eq!(shaping.unguarded(), None);
        let (sender, receiver) = udp(&pair, 0);
        let handle = shaping.watchdog_handle();
        let deadline = Instant::now() + PATIENCE;
        let mut failed_at = None;
        for number in 0..PACKETS {
            sender.send(format!("{number:01000}").as_bytes()).unwrap();
            std::thread::sleep(Duration::from_millis(20));
            failed_at = failed_at.or(handle.fault().map(|_| number));
            assert!(Instant::now() < deadline);
        }
        // They pass although nobody has called the watchdog.
        let arrived = texts(&receiver, PACKETS);
        let expected: Vec<String> = (0..PACKETS).map(|number| format!("{number:01000}")).collect();
        assert_eq!(arrived, expected, "guarded: {guarded}");
        assert!(failed_at.is_some_and(|at| at + 1 < PACKETS), "{failed_at:?}");
        assert!(handle.fault().is_some_and(|why| why.contains("the discipline panicked: a fault was injected")));
        assert_eq!(shaping.pages().map(|page| page.takeovers()).sum::<u64>(), u64::from(guarded));
        assert!(pair.left.run(|| shaping.stop()).unwrap().is_err(), "it was given up");
    }
    Ended::Passed
}
