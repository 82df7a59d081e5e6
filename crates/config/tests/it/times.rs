//! Rules that hold at some times only.

use tidegate_config::shaper::{self, Config};
use tidegate_config::values::WeekMinute;
use tidegate_config::{Diagnostics, Source};

fn load(rules: &str) -> (Option<Config>, String) {
    let text = format!(
        "version = 1\n[[class]]\nname = \"a\"\nrate = \"1mbit\"\n\
         [[class]]\nname = \"b\"\nrate = \"1mbit\"\ndefault = true\n{rules}"
    );
    let source = Source::new("times.toml", text);
    let mut diagnostics = Diagnostics::new();
    let config = shaper::load(&source, &mut diagnostics);
    (config, diagnostics.render(&source))
}

#[test]
fn a_rule_holds_in_one_of_its_spans() {
    let (config, report) = load(
        "[[rule]]\nclass = \"a\"\nwhen = [\"mon-fri 08:00-12:00\", \"sat\"]\n[[rule]]\nclass = \"a\"\ndestination-port = 53\n",
    );
    let config = config.unwrap_or_else(|| panic!("{report}"));
    assert_eq!(report, "", "a rule with times does not shadow the next one");
    assert_eq!(config.timed_rule(), Some(0));
    assert_eq!(config.rules[0].matches.to_string(), "when mon-fri 08:00-12:00,sat");
    let off = |day: u32, hour: u32| config.rules_off(WeekMinute::new(day, hour * 60)).into_iter().collect::<Vec<_>>();
    assert_eq!((off(0, 8), off(0, 12), off(5, 23), off(6, 9)), (vec![], vec![0], vec![], vec![0]));
}

#[test]
fn two_rules_without_times_still_shadow_each_other() {
    let rule = "[[rule]]\nclass = \"a\"\n";
    assert!(load(&format!("{rule}{rule}")).1.contains("rule 2 never matches"));
    let timed = "[[rule]]\nclass = \"a\"\nwhen = \"sun\"\n";
    assert!(load(&format!("{timed}{rule}{rule}")).1.contains("rule 3 never matches"));
}

#[test]
fn an_error_shows_the_place_and_an_example() {
    let (config, report) = load("[[rule]]\nclass = \"a\"\nwhen = \"mon-fri 8:00 to 18:00\"\n");
    assert!(config.is_none() && report.contains("write for example \"mon-fri 08:00-18:00\""), "{report}");
    assert!(report.contains("times.toml:11"), "{report}");
}
