//! The examples of the tree are valid.

use tidegate_config::{Diagnostics, Source, shaper};

fn load(name: &str) -> shaper::Config {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    let source = Source::open(&path).unwrap();
    let mut diagnostics = Diagnostics::new();
    let config = shaper::load(&source, &mut diagnostics);
    assert!(diagnostics.is_empty(), "{}", diagnostics.render(&source));
    config.unwrap()
}

#[test]
fn minimal() {
    let config = load("minimal.toml");
    assert_eq!(config.class_names(), ["calls", "rest"]);
}

#[test]
fn host() {
    let config = load("host.toml");
    assert_eq!(config.class_names(), ["premium", "assured", "best-effort"]);
}

#[test]
fn gateway() {
    let config = load("gateway.toml");
    assert_eq!(config.class_names(), ["calls", "house", "guests", "backup"]);
}

#[test]
fn assured() {
    let config = load("assured.toml");
    assert_eq!(config.class_names(), ["calls", "assured"]);
}

#[test]
fn mice() {
    let config = load("mice.toml");
    assert_eq!(config.class_names(), ["line"]);
}

#[test]
fn office() {
    let config = load("office.toml");
    assert_eq!(config.class_names(), ["calls", "web", "backup"]);
}
