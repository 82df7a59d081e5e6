//! No text panics, whatever it is; what is refused has an error, and every error can be rendered.

use proptest::prelude::*;
use tidegate_config::shaper::guarantees::guarantees;
use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_core::{Instant, Qdisc as _, Span};
use tidegate_engine::Tree;

/// Reads `text`; what is valid must also be something that can be built, so that nothing fails after the check.
fn try_text(text: &str) -> bool {
    let source = Source::new("any.toml", text);
    let mut diagnostics = Diagnostics::new();
    let config = shaper::load(&source, &mut diagnostics);
    let valid = config.is_some();
    assert_eq!(valid, diagnostics.errors() == 0, "{text}");
    let rendered = diagnostics.render(&source);
    assert_eq!(rendered.is_empty(), diagnostics.is_empty());
    if let Some(config) = config {
        let built = Tree::build(&config, 1, Instant::ZERO, Span::ZERO);
        assert_eq!(built.map(|tree| tree.backlog().packets), Ok(0), "{text}");
        let _ = guarantees(&config);
    }
    valid
}

/// Pieces that go far into the reader when put together.
fn piece() -> impl Strategy<Value = String> {
    let words: &[&str] = &[
        "version = 1\n",
        "[interface]\n",
        "[shaper]\n",
        "[[class]]\n",
        "[[rule]]\n",
        "[discipline]\n",
        "name = \"a\"\n",
        "name = \"b\"\n",
        "rate = \"1mbit\"\n",
        "rate = \"9999999999gbit\"\n",
        "rate = 1\n",
        "burst = \"1B\"\n",
        "default = true\n",
        "class = \"a\"\n",
        "class = \"\u{e9}\u{1f980}\"\n",
        "minimum = \"1mbit\"\n",
        "flows = 4294967295\n",
        "flows = 99999999999999999999\n",
        "displace = { below = \"1mbit\", to = \"b\" }\n",
        "feedback = { above = \"1%\" }\n",
        "kind = \"fifo\"\n",
        "share = \"strict\"\n",
        "queue = { kind = \"fifo\" }\n",
        "borrow = true\n",
        "dscp = []\n",
        "dscp = [1, \"ef\", 64]\n",
        "source = \"::/0\"\n",
        "source = \"0.0.0.0/0\"\n",
        "source-port = \"9-1\"\n",
        "mark = \"0xffffffff\"\n",
        "uid = -1\n",
        "cgroup = \"/\"\n",
        "x = nan\n",
        "y = 1979-05-27\n",
        "\"\" = 1\n",
        "weight = 1\n",
        "limit = \"0B\"\n",
        "mtu = \"68B\"\n",
        "default-class = \"a\"\n",
        "\r\n",
        "\t",
        "\u{feff}",
    ];
    prop_oneof![
        12 => proptest::sample::select(words).prop_map(str::to_owned),
        1 => any::<String>(),
        1 => "[a-z=\\[\\]{}\", .0-9\n-]{0,12}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn random_text(text in any::<String>()) {
        try_text(&text);
    }

    #[test]
    fn random_pieces(pieces in proptest::collection::vec(piece(), 0..30)) {
        try_text(&pieces.concat());
    }

    /// A good file with one piece cut out, doubled or put elsewhere.
    #[test]
    fn a_good_file_mutilated(from in 0_usize..2_000, len in 0_usize..60, to in 0_usize..2_000) {
        let good = include_str!("../../../../examples/host.toml");
        let cut = |i: usize| good.floor_char_boundary(i % good.len());
        let (from, to) = (cut(from), cut(to));
        let end = cut((from + len).min(good.len() - 1)).max(from);
        let mut text = good.to_owned();
        text.insert_str(to, &good[from..end]);
        try_text(&text);
        let mut text = good.to_owned();
        text.replace_range(from..end, "");
        try_text(&text);
    }
}

#[test]
fn the_good_file_itself_is_good() {
    assert!(try_text(include_str!("../../../../examples/host.toml")));
}

#[test]
fn deep_nesting_is_an_error_and_not_an_overflow() {
    let depth = 100_000;
    assert!(!try_text(&format!("version = {}1{}", "[".repeat(depth), "]".repeat(depth))));
    assert!(!try_text(&format!("version = {}1{}", "{a=".repeat(depth), "}".repeat(depth))));
    assert!(!try_text(&format!("{} = 1", vec!["a"; 200_000].join("."))));
}
