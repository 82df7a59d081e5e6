//! A file for both directions, and the files for each that it stands for.

use tidegate_config::edit::{Document, Edit};
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

/// A file whose rules are written once for both directions.
const ONCE: &str = r#"version = 1

[up.shaper]
rate = "20mbit"

[[up.class]]
name = "guests"
rate = "2mbit"

[[up.class]]
name = "rest"
rate = "10mbit"
default = true

[down.shaper]
rate = "90mbit"

[[down.class]]
name = "guests"
rate = "9mbit"

[[down.class]]
name = "rest"
rate = "50mbit"
default = true

# Only of what arrives.
[[down.rule]]
class = "rest"
source = "192.168.50.9"

# The guests.
[[rule]]
class = "guests"
host = "192.168.50.0/24"

[[rule]]
class = "guests"
source = "192.168.1.5"
source-port = 443
both-ways = true
"#;

#[test]
fn rules_of_one_direction_and_of_both_are_tried_in_the_order_of_the_file() {
    let (first, rest) = ONCE.split_once("[up.shaper]").expect("tables");
    let first =
        format!("{first}# Before all.\n[[rule]]\nclass = \"rest\"\nhost = \"192.168.50.1\"\n\n[up.shaper]{rest}");
    let (configs, said) = read(&first);
    assert_eq!(said, "");
    let configs = configs.expect("valid");
    let labels = |config: &tidegate_config::shaper::Config| -> Vec<String> {
        config.rules.iter().map(tidegate_config::shaper::Rule::label).collect()
    };
    let [shared, own] = ["host 192.168.50.1/32", "source 192.168.50.9/32"];
    assert_eq!(labels(&configs[0])[0], shared);
    assert_eq!(labels(&configs[1])[..2], [shared, own]);
    // The texts of the directions have this order, and the file that is made of them again.
    let parts = |text: &str| {
        [Direction::Egress, Direction::Ingress].map(|direction| split(text, direction).expect("a direction"))
    };
    let [up, down] = parts(&first);
    assert!(down.find(shared.split_once(' ').unwrap().1.trim_end_matches("/32")) < down.find("192.168.50.9"), "{down}");
    let again = join(&up, &down).expect("tables in common are equal");
    assert_eq!(again.matches("\n[[rule]]").count(), 3, "{again}");
    assert!(again.find("# Before all.\n[[rule]]") < again.find("[[down.rule]]"), "{again}");
    let configs = read(&again).0.expect("valid");
    assert_eq!(labels(&configs[1])[..2], [shared, own]);
    assert_eq!(join(&parts(&again)[0], &parts(&again)[1]).as_deref(), Some(&*again));
    // Such a rule has the same number in both, and is changed in both.
    let [up, down] = parts(&first).map(|text| Document::parse(text).unwrap());
    let remove = Edit::Remove { section: "rule".into(), name: "1".into() };
    let [up, down] = up.edited_alike(&down, &[remove]).unwrap();
    assert!(!up.text().contains("192.168.50.1\"") && !down.text().contains("192.168.50.1\""), "{}", down.text());
}

#[test]
fn a_rule_at_the_top_is_for_both_directions_and_follows_their_own() {
    let (configs, said) = read(ONCE);
    assert_eq!(said, "");
    let labels: Vec<Vec<String>> = configs
        .expect("valid")
        .iter()
        .map(|config| config.rules.iter().map(tidegate_config::shaper::Rule::label).collect())
        .collect();
    let shared = ["host 192.168.50.0/24", "source 192.168.1.5/32 source-port 443, both ways"];
    assert_eq!(labels, [shared.to_vec(), vec!["source 192.168.50.9/32", shared[0], shared[1]]]);
}

#[test]
fn rules_for_both_directions_stay_one_when_the_file_is_made_again() {
    let part = |text: &str, direction| split(text, direction).expect("a direction");
    let [up, down] = [Direction::Egress, Direction::Ingress].map(|direction| part(ONCE, direction));
    assert!(up.contains("# The guests.\n[[rule]]") && down.contains("# The guests.\n[[rule]]"), "{down}");
    assert!(down.find("192.168.50.9") < down.find("# The guests."), "{down}");
    let again = join(&up, &down).expect("tables in common are equal");
    assert_eq!(again.matches("[[rule]]").count(), 2, "{again}");
    assert_eq!(again.matches("host = ").count(), 1, "{again}");
    assert_eq!(
        [Direction::Egress, Direction::Ingress].map(|direction| part(&again, direction)),
        [up.clone(), down],
        "{again}"
    );
    // A rule that means another thing in the other direction is written for each.
    let one_sided = |text: &str| text.replace("both-ways = true\n", "");
    let again = join(&one_sided(&up), &one_sided(&part(ONCE, Direction::Ingress))).expect("equal tables");
    assert_eq!((again.matches("[[up.rule]]").count(), again.matches("[[down.rule]]").count()), (2, 3), "{again}");
}

#[test]
fn a_shared_rule_that_is_changed_in_both_directions_stays_shared() {
    let [up, down] =
        [Direction::Egress, Direction::Ingress].map(|way| Document::parse(split(ONCE, way).unwrap()).unwrap());
    let set = |name: &str| Edit::Set {
        section: "rule".into(),
        name: Some(name.into()),
        key: "when".into(),
        value: "mon-fri 08:00-18:00".into(),
    };
    // The first of `up` is the second of `down`, which has a rule of its own.
    let values = vec![("class".into(), "rest".into()), ("host".into(), "192.168.50.7".into())];
    let add = Edit::Add { section: "rule".into(), values };
    let [up_new, down_new] = up.edited_alike(&down, &[set("1")]).unwrap();
    let again = join(up_new.text(), down_new.text()).expect("tables in common are equal");
    let shared = again.split("# The guests.").nth(1).expect("it stays shared");
    assert!(shared.contains("[[rule]]") && again.matches("when = ").count() == 1, "{again}");
    assert_eq!(again.matches("\n[[rule]]").count(), 2, "{again}");
    // One that was added is the first in both, and counts.
    let [up_new, down_new] = up.edited_alike(&down, &[add, set("2")]).unwrap();
    assert!(up_new.text().matches("when = ").count() == 1 && down_new.text().matches("when = ").count() == 1);
    // The first of each is another rule, and of the third there is one alone.
    assert_eq!(up.differs_at(&down, &[set("1")]).as_deref(), Some("1"));
    assert_eq!(up.differs_at(&down, &[set("3")]), None);
    // A rule of one direction is none of both.
    let other = down.edited_alike(&up, &[set("1")]).unwrap_err();
    assert!(other.contains("rule 1 is not the same in both directions"), "{other}");
    assert!(up.edited_alike(&down, &[set("7")]).unwrap_err().contains("there is no rule 7"));
}

#[test]
fn a_class_that_one_direction_lacks_is_named_with_the_direction() {
    let renamed = ONCE.replacen("name = \"guests\"", "name = \"visitors\"", 1);
    let (configs, said) = read(&renamed);
    assert!(configs.is_none() && said.contains("there is no class `guests` in [up]"), "{said}");
    assert!(said.contains("only [down] has it") && said.contains("[[down.rule]]"), "{said}");
    assert!(!said.contains("in [down]"), "{said}");
}

#[test]
fn a_rule_for_both_directions_that_has_a_sender_alone_is_refused() {
    for (from, to, wanted) in [
        ("both-ways = true\n", "", "`source` in a rule for both directions"),
        ("host = \"192.168.50.0/24\"", "destination-port = 53", "write `port` for either end"),
        ("host = \"192.168.50.0/24\"", "both-ways = true", "`both-ways` without an end to exchange"),
        ("name = \"guests\"\nrate = \"9mbit\"", "name = \"visitors\"\nrate = \"9mbit\"", "there is no class `guests`"),
    ] {
        let (configs, said) = read(&ONCE.replace(from, to));
        assert!(configs.is_none() && said.contains(wanted), "{wanted}: {said}");
        assert!(said.matches(wanted).count() <= 2, "{said}");
    }
}
