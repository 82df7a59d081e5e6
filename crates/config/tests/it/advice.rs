//! `advice` of a class: what is read, and what is refused where it cannot be given.

use tidegate_config::shaper::{Advice, Config, Root, load};
use tidegate_config::{Diagnostics, Source};

fn read(text: &str) -> (Option<Config>, String) {
    let source = Source::new("advice.toml", format!("version = 1\n{text}"));
    let mut diagnostics = Diagnostics::new();
    let config = load(&source, &mut diagnostics);
    (config, diagnostics.render(&source))
}

const CLASS: &str = "[[class]]\nname = \"all\"\nrate = \"5mbit\"\ndefault = true\n";

#[test]
fn each_policy_is_read_and_none_is_the_default() {
    let policy = |text: &str| {
        let (config, said) = read(text);
        match config.unwrap_or_else(|| panic!("{said}")).root {
            Root::Shaper(shaper) => shaper.classes[0].advice,
            Root::Discipline(_) => panic!("a shaper"),
        }
    };
    assert_eq!(policy(CLASS), Advice::None);
    for word in Advice::ALL {
        assert_eq!(policy(&format!("{CLASS}advice = \"{}\"\n", word.word())), *word);
    }
}

#[test]
fn what_cannot_be_advised_is_refused_where_it_stands() {
    let queue = format!("{CLASS}queue = {{ kind = \"codel\" }}\n");
    let threads = format!("[interface]\nthreads = 2\n{CLASS}");
    for (text, says, help) in [
        (
            format!("{queue}advice = \"fair-share\"\n"),
            "`advice` in a class with a `queue` of its own",
            "remove `advice`",
        ),
        (format!("{queue}advice = \"promise\"\n"), "`advice` in a class with a `queue` of its own", "remove `advice`"),
        (format!("{threads}advice = \"fair-share\"\n"), "one of several threads", "advice = \"ceiling\""),
        (format!("{CLASS}advice = \"fare-share\"\n"), "fare-share", "fair-share"),
        (
            "[discipline]\nkind = \"fbq\"\nclass = [{ name = \"a\", rate = \"1mbit\", advice = \"ceiling\" }]\n".into(),
            "`advice` belongs to the classes of a shaper file",
            "[[class]]",
        ),
    ] {
        let (config, said) = read(&text);
        assert!(config.is_none() && said.contains(says) && said.contains(help), "{text}{said}");
    }
    for text in [format!("{queue}advice = \"ceiling\"\n"), format!("{threads}advice = \"promise\"\n")] {
        let (config, said) = read(&text);
        assert!(config.is_some() && said.is_empty(), "{text}{said}");
    }
}
