//! Threads: by which addresses flows are divided, and what cannot be divided.

use tidegate_config::shaper::{Config, DividedBy, Root, load, load_all};
use tidegate_config::{Diagnostics, Source};

const CLASS: &str = "[[class]]\nname = \"all\"\nrate = \"1mbit\"\ndefault = true\n";

fn read(text: &str) -> (Option<Config>, String) {
    let source = Source::new("threads.toml", text);
    let mut diagnostics = Diagnostics::new();
    let config = load(&source, &mut diagnostics);
    (config, diagnostics.render(&source))
}

fn file(threads: &str, shaper: &str) -> String {
    format!("version = 1\n[interface]\nthreads = {threads}\n[shaper]\n{shaper}\n{CLASS}")
}

fn threads(config: Option<Config>) -> (u32, Option<DividedBy>) {
    let Some(config) = config else { panic!("not valid") };
    let Root::Shaper(shaper) = &config.root else { panic!("not a shaper") };
    (config.interface.threads, shaper.divided_by())
}

#[test]
fn there_is_one_thread_by_default() {
    assert_eq!(threads(read(&format!("version = 1\n{CLASS}")).0).0, 1);
    assert_eq!(threads(read(&format!("version = 1\n[interface]\nname = \"eth0\"\n{CLASS}")).0).0, 1);
}

#[test]
fn flows_are_divided_by_the_addresses_that_their_packets_have_in_common() {
    for (shaper, by) in [
        ("", DividedBy::HostPair),
        ("flow-by = \"host-pair\"", DividedBy::HostPair),
        ("flow-by = \"socket\"", DividedBy::Source),
        ("flow-by = \"destination\"", DividedBy::Destination),
        ("fair-by = \"host\"", DividedBy::Source),
        ("fair-by = \"destination\"", DividedBy::Destination),
        ("fair-by = \"source\"\nflow-by = \"host-pair\"", DividedBy::Source),
    ] {
        let (config, said) = read(&file("2", shaper));
        assert_eq!((threads(config), said.as_str()), ((2, Some(by)), ""), "{shaper}");
    }
}

#[test]
fn both_directions_have_the_threads() {
    let text = format!("version = 1\n[interface]\nthreads = 2\n[[up.class]]\n{0}[[down.class]]\n{0}", &CLASS[10..]);
    let source = Source::new("both.toml", text);
    let mut diagnostics = Diagnostics::new();
    let configs = load_all(&source, &mut diagnostics).unwrap_or_else(|| panic!("{}", diagnostics.render(&source)));
    assert_eq!(configs.iter().map(|config| config.interface.threads).collect::<Vec<_>>(), [2, 2]);
}

#[test]
fn what_cannot_be_divided_is_refused_where_it_stands() {
    for (text, place, message, help) in [
        (file("0", ""), "threads.toml:3:11", "0 threads", "threads = 2"),
        (file("17", ""), "threads.toml:3:11", "17 threads", "threads = 2"),
        (file("2", "flow-by = \"mark\""), "threads.toml:3:11", "cannot be divided", "remove `threads`, or `flow-by`"),
        (
            file("2", "flow-by = \"source\"\nfair-by = \"destination\""),
            "threads.toml:3:11",
            "cannot be divided",
            "remove `threads`, or `flow-by`",
        ),
        (
            "version = 1\n[interface]\nthreads = 2\n[discipline]\nkind = \"fifo\"\n".into(),
            "threads.toml:3:11",
            "cannot be divided",
            "remove `threads`, or write [[class]]",
        ),
    ] {
        let (config, said) = read(&text);
        assert!(config.is_none(), "{text}");
        for part in [place, message, help] {
            assert!(said.contains(part), "{part} is missing in:\n{said}");
        }
    }
    // One thread goes with everything.
    assert_eq!(read(&file("1", "flow-by = \"mark\"")).1, "");
}
