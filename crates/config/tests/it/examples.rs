//! The examples of the tree are valid.

use tidegate_config::{Diagnostics, Source, shaper};

fn path(name: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

fn load(name: &str) -> shaper::Config {
    let source = Source::open(&path(name)).unwrap();
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
    let source = Source::open(&path("gateway.toml")).unwrap();
    let mut diagnostics = Diagnostics::new();
    let configs = shaper::load_all(&source, &mut diagnostics).unwrap_or_default();
    assert!(diagnostics.is_empty(), "{}", diagnostics.render(&source));
    assert_eq!(configs.len(), 2);
    assert_eq!(configs[0].class_names(), ["calls", "house", "guests", "backup"]);
    assert_eq!(configs[1].class_names(), ["calls", "house", "guests"]);
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
