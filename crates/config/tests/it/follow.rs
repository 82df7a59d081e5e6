//! A rate that follows the line: its bounds, its errors, and a shaper at another rate.

use tidegate_config::shaper::{self, Config, Root};
use tidegate_config::{Diagnostics, Source};
use tidegate_core::{Bytes, Rate};

fn load(shaper: &str, classes: &[&str]) -> Result<Config, String> {
    let mut text = format!("version = 1\n[shaper]\n{shaper}\n");
    for (n, rate) in classes.iter().enumerate() {
        text.push_str(&format!("[[class]]\nname = \"c{n}\"\nrate = \"{rate}\"\ndefault = {}\n", n == 0));
    }
    let source = Source::new("file", text);
    let mut diagnostics = Diagnostics::new();
    shaper::load(&source, &mut diagnostics).ok_or_else(|| diagnostics.render(&source))
}

#[test]
fn the_rate_is_the_base() {
    let follow =
        "rate = \"20mbit\"\nfollow = { from = \"5mbit\", to = \"80mbit\", peers = [\"192.0.2.1\", \"2001:db8::1\"] }";
    let config = load(follow, &["4mbit", "8mbit"]).unwrap();
    let follow = config.follow().unwrap();
    let bounds = follow.bounds;
    assert_eq!([bounds.least, bounds.base, bounds.most], [5, 20, 80].map(Rate::from_mbit));
    assert_eq!(follow.peers.len(), 2);
    // Without a rate the sum of the classes is the base.
    let config = load("follow = { from = \"5mbit\", to = \"80mbit\" }", &["4mbit", "8mbit"]).unwrap();
    assert_eq!(config.follow().unwrap().bounds.base, Rate::from_mbit(12));
    assert!(load("rate = \"20mbit\"", &["4mbit"]).unwrap().follow().is_none());
}

#[test]
fn errors_name_the_place_and_the_way_out() {
    for (shaper, message) in [
        ("rate = \"9mbit\"\nfollow = { from = \"10mbit\", to = \"80mbit\" }", "is not between 10mbit and 80mbit"),
        ("rate = \"90mbit\"\nfollow = { from = \"10mbit\", to = \"80mbit\" }", "is not between"),
        ("follow = { from = \"10mbit\", to = \"80mbit\" }", "the base is the sum of the classes"),
        ("rate = \"9mbit\"\nfollow = { from = \"80mbit\", to = \"10mbit\" }", "exchange them"),
        ("rate = \"9mbit\"\nfollow = { from = \"0mbit\", to = \"10mbit\" }", "at its worst"),
        ("rate = \"9mbit\"\nfollow = { from = \"1mbit\" }", "to"),
        (
            "rate = \"9mbit\"\nfollow = { from = \"1mbit\", to = \"10mbit\", peers = \"10.0.0.0/8\" }",
            "a peer is one host",
        ),
        (
            "rate = \"9mbit\"\nfollow = { from = \"1mbit\", to = \"10mbit\", peers = [\"10.0.0.1\", \"10.0.0.2\", \"10.0.0.3\", \
             \"10.0.0.4\", \"10.0.0.5\", \"10.0.0.6\", \"10.0.0.7\", \"10.0.0.8\", \"10.0.0.9\"] }",
            "three are enough",
        ),
    ] {
        let error = load(shaper, &["4mbit"]).unwrap_err();
        assert!(error.contains(message), "{shaper}: {error}");
    }
}

#[test]
fn classes_keep_their_shares_at_another_rate() {
    let config =
        load("rate = \"20mbit\"\nfollow = { from = \"1mbit\", to = \"80mbit\" }", &["4mbit", "16mbit"]).unwrap();
    for mbit in [1, 5, 20, 80] {
        let Root::Shaper(scaled) = config.at_rate(Rate::from_mbit(mbit)).unwrap().root else { panic!("a shaper") };
        let Root::Shaper(own) = &config.root else { panic!("a shaper") };
        assert_eq!(scaled.rate, Rate::from_mbit(mbit));
        assert_eq!(scaled.classes[0].rate, Rate::from_kbit(200 * mbit));
        assert_eq!(scaled.classes[1].rate, Rate::from_kbit(800 * mbit));
        for (class, before) in scaled.classes.iter().zip(&own.classes) {
            assert!(class.burst >= before.burst && class.limit >= Bytes::new(96_000), "{mbit}: {class:?}");
        }
    }
    // The rate is never below what its classes need at least.
    let Root::Shaper(least) = config.at_rate(Rate::ZERO).unwrap().root else { panic!("a shaper") };
    assert!(least.classes.iter().all(|class| class.rate > Rate::ZERO) && least.rate > Rate::ZERO);
}
