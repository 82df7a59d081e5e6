//! Rules that hold at some times only, or until a quota is used up, or for what came in by an interface.

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
    assert_eq!(config.timed_rule(), Some((0, "when")));
    assert_eq!(config.rules[0].matches.to_string(), "when mon-fri 08:00-12:00,sat");
    let off = |day: u32, hour: u32| config.rules_off(WeekMinute::new(day, hour * 60)).into_iter().collect::<Vec<_>>();
    assert_eq!((off(0, 8), off(0, 12), off(5, 23), off(6, 9)), (vec![], vec![0], vec![], vec![0]));
}

#[test]
fn a_rule_with_a_quota_shadows_nothing_and_has_a_count_of_its_own() {
    let rule = |more: &str| format!("[[rule]]\nclass = \"a\"\n{more}\n");
    let (config, report) = load(&(rule("quota = \"1GB/day\"") + &rule("quota = \"5TB/month\"") + &rule("port = 1")));
    let config = config.unwrap_or_else(|| panic!("{report}"));
    assert_eq!((report.as_str(), config.timed_rule()), ("", Some((0, "quota"))));
    assert_eq!(config.rules[0].matches.to_string(), "quota 1GB/day");
    let keys: Vec<String> = config.quotas().map(|(_, rule, _)| config.quota_key(rule)).collect();
    assert_ne!(keys[0], keys[1], "two periods are counted apart");
    let (more, _) = load(&(rule("port = 2") + &rule("quota = \"9GB/day\"")));
    let more = more.expect("valid");
    assert_eq!(more.quota_key(&more.rules[1]), keys[0], "the count stays when the rule moves and may use more");
    let (none, report) = load(&rule("quota = \"1GB/day\"\nport = 1").repeat(257));
    assert!(none.is_none() && report.contains("more than 256 rules with `quota`"), "{report}");
}

/// A rule beside [up] and [down] has one quota for both.
#[test]
fn both_directions_share_a_quota() {
    let class = |way: &str| format!("[[{way}.class]]\nname = \"a\"\nrate = \"1mbit\"\ndefault = true\n");
    let rule = "[[rule]]\nclass = \"a\"\nhost = \"192.0.2.0/24\"\nquota = \"1GB/day\"\n";
    let text = format!("version = 1\n{}{}{rule}", class("up"), class("down"));
    let configs = shaper::load_all(&Source::new("both.toml", text), &mut Diagnostics::new()).expect("valid");
    let keys: Vec<String> = configs.iter().map(|config| config.quota_key(&config.rules[0])).collect();
    assert_eq!((keys.len(), &keys[0]), (2, &keys[1]));
}

#[test]
fn two_rules_without_times_still_shadow_each_other() {
    let rule = "[[rule]]\nclass = \"a\"\n";
    assert!(load(&format!("{rule}{rule}")).1.contains("rule 2 never matches"));
    let timed = "[[rule]]\nclass = \"a\"\nwhen = \"sun\"\n";
    assert!(load(&format!("{timed}{rule}{rule}")).1.contains("rule 3 never matches"));
}

/// A rule that never lets the one with the quota have a packet is the likeliest mistake with quotas. The other order is right.
#[test]
fn a_rule_with_a_time_a_quota_or_a_device_may_be_covered() {
    let rule = |more: &str| format!("[[rule]]\nclass = \"a\"\n{more}\n");
    let guests = "host = \"192.0.2.0/24\"";
    let warns = |rules: &[&str]| {
        load(&rules.iter().map(|more| rule(more)).collect::<String>()).1.contains("rule 2 never matches")
    };
    for narrowed in ["quota = \"1GB/day\"", "when = \"sun\""] {
        let narrowed = format!("{guests}\n{narrowed}");
        assert!(warns(&[guests, &narrowed]), "{narrowed}");
        assert!(!warns(&[&narrowed, guests]) && !warns(&[&narrowed, &narrowed]), "{narrowed}");
    }
    let [tv, nas] = ["mac = \"02:00:5e:00:53:01\"", "host-name = \"nas\""];
    assert!(warns(&[tv, tv]) && warns(&[nas, &format!("{nas}\nport = 873")]));
    assert!(!warns(&[tv, nas]) && !warns(&[guests, tv]) && !warns(&["source = \"0.0.0.0/0\"", tv]));
    // Which of the addresses of the device are in this network is not known.
    assert!(!warns(&["source = \"::/0\"", &format!("{tv}\nsource = [\"::/0\", \"192.0.2.0/24\"]")]));
}

#[test]
fn an_error_shows_the_place_and_an_example() {
    let (config, report) = load("[[rule]]\nclass = \"a\"\nwhen = \"mon-fri 8:00 to 18:00\"\n");
    assert!(config.is_none() && report.contains("write for example \"mon-fri 08:00-18:00\""), "{report}");
    assert!(report.contains("times.toml:11"), "{report}");
}

/// Arriving packets have come in by the shaped interface itself, so that a rule about another one never matches.
#[test]
fn an_incoming_interface_is_for_what_leaves() {
    let class = |way: &str| format!("[[{way}.class]]\nname = \"a\"\nrate = \"1mbit\"\ndefault = true\n");
    let text = |table: &str| {
        let rule = format!("[[{table}]]\nclass = \"a\"\nfrom-interface = \"lan0\"\n");
        format!("version = 1\n{}{}{rule}", class("up"), class("down"))
    };
    let report = |table: &str| {
        let source = Source::new("incoming.toml", text(table));
        let mut diagnostics = Diagnostics::new();
        shaper::load_all(&source, &mut diagnostics);
        diagnostics.render(&source)
    };
    assert_eq!(report("up.rule"), "");
    for table in ["rule", "down.rule"] {
        let said = report(table);
        assert!(said.contains("`from-interface` in a rule for what arrives") && said.contains("[[up.rule]]"), "{said}");
    }
}
