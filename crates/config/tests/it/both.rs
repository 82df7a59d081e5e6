//! A file for both directions, and the files for each that it stands for.

use tidegate_config::shaper::{Direction, join, load, load_all, split};
use tidegate_config::{Diagnostics, Source};

const BOTH: &str = r#"# The office.
version = 1

[interface]
name = "ppp0"
mtu = "1492B"

# What leaves.
[up.shaper]
rate = "20mbit"    # of 21

[[up.class]]
name = "calls"
rate = "2mbit"

[[up.class]]
name = "rest"
rate = "10mbit"
default = true

# Telephones.
[[up.rule]]
class = "calls"
dscp = "ef"

[down]
default-class = "bulk"

# What arrives.
[down.discipline]
kind = "cbq"
link = "90mbit"
default = "bulk"

[[down.discipline.class]]
name = "bulk"
rate = "50mbit"

[control]
displace-to = ["rest"]
"#;

fn read(text: &str) -> (Option<Vec<tidegate_config::shaper::Config>>, String) {
    let source = Source::new("both.toml", text);
    let mut diagnostics = Diagnostics::new();
    let configs = load_all(&source, &mut diagnostics);
    (configs, diagnostics.render(&source))
}

#[test]
fn each_direction_has_its_configuration_and_its_text() {
    let (configs, said) = read(BOTH);
    assert_eq!(said, "");
    let configs = configs.expect("valid");
    assert_eq!(configs.len(), 2);
    for (config, direction, classes) in
        [(&configs[0], Direction::Egress, vec!["calls", "rest"]), (&configs[1], Direction::Ingress, vec!["bulk"])]
    {
        assert_eq!(config.interface.direction, direction);
        assert_eq!(config.interface.names, ["ppp0"]);
        assert_eq!(config.class_names(), classes);
        // The text is that of a file for one direction, which means the same; but for the bound that names a class of
        // the other direction.
        let text = config.text.replace("displace-to = [\"rest\"]", "");
        let (source, mut diagnostics) = (Source::new("one.toml", &text), Diagnostics::new());
        let one = load(&source, &mut diagnostics);
        assert!(one.is_some(), "{}\n{text}", diagnostics.render(&source));
        assert_eq!(one.expect("valid").class_names(), classes);
    }
    assert!(configs[0].text.contains("# Telephones.\n[[rule]]"), "{}", configs[0].text);
    assert!(configs[1].text.contains("direction = \"ingress\""), "{}", configs[1].text);
    assert!(!configs[1].text.contains("Telephones"), "{}", configs[1].text);
}

#[test]
fn the_texts_of_the_directions_make_the_file_again() {
    let part = |text: &str, direction| split(text, direction).expect("a direction");
    let [up, down] = [Direction::Egress, Direction::Ingress].map(|direction| part(BOTH, direction));
    let again = join(&up, &down).expect("tables in common are equal");
    // Tables that both directions have in common come first.
    let lines = |text: &str| {
        let mut lines: Vec<String> = text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
        lines.sort();
        lines
    };
    for (text, direction) in [(&up, Direction::Egress), (&down, Direction::Ingress)] {
        assert_eq!(lines(&part(&again, direction)), lines(text), "{again}");
    }
    assert!(again.starts_with("# The office.\nversion = 1\n"), "{again}");
    assert!(again.contains("# Telephones.\n[[up.rule]]") && again.contains("rate = \"20mbit\"    # of 21"), "{again}");
    assert_eq!(join(&up, &down.replace("1492B", "1500B")), None, "the interface would have two sizes");
}

#[test]
fn tables_written_in_other_ways_are_read_as_well() {
    let inline = "version = 1\ndown = { discipline = { kind = \"cake\", rate = \"9mbit\" } }\n[up]\n\
                  discipline.kind = \"cake\"\ndiscipline.rate = \"1mbit\"\n";
    let (configs, said) = read(inline);
    assert_eq!(said, "");
    let texts: Vec<_> = configs.expect("valid").into_iter().map(|config| config.text).collect();
    for (text, rate) in texts.iter().zip(["1mbit", "9mbit"]) {
        let (source, mut diagnostics) = (Source::new("one.toml", &**text), Diagnostics::new());
        assert!(load(&source, &mut diagnostics).is_some() && text.contains(rate), "{text}");
    }
}

#[test]
fn what_is_of_no_direction_or_of_both_is_an_error_with_a_remedy() {
    let class = "[[class]]\nname = \"a\"\nrate = \"1mbit\"\ndefault = true\n";
    for (text, wanted) in [
        (format!("{BOTH}\n{class}"), "[[class]] beside [up] or [down]"),
        (BOTH.replace("mtu = \"1492B\"", "direction = \"egress\""), "a `direction` beside [up] or [down]"),
        (BOTH.replace("[\"rest\"]", "[\"no\"]"), "there is no class `no`"),
        (BOTH.replace("[down]", "[dwon]"), "did you mean `down`?"),
        (BOTH.replace("[up.shaper]", "[up.shape]"), "did you mean `shaper`?"),
        (BOTH.replace("1492B", "14B"), "no link has an MTU"),
    ] {
        let (configs, said) = read(&text);
        assert!(configs.is_none() && said.contains(wanted), "{wanted}: {said}");
        assert_eq!(said.matches(wanted).count(), 1, "told once: {said}");
    }
    let (source, mut diagnostics) = (Source::new("both.toml", BOTH), Diagnostics::new());
    assert!(load(&source, &mut diagnostics).is_none());
    assert!(diagnostics.render(&source).contains("one direction is wanted here"));
}
