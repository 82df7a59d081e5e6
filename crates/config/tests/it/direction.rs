//! Arriving packets have no owner, and a file that names one is refused with its place.

use tidegate_config::shaper::{Direction, load};
use tidegate_config::{Diagnostics, Source};

fn rendered(text: &str) -> String {
    let source = Source::new("in.toml", text);
    let mut diagnostics = Diagnostics::new();
    let config = load(&source, &mut diagnostics);
    assert_eq!(config.is_some(), diagnostics.errors() == 0);
    config.map_or_else(|| diagnostics.render(&source), |config| format!("{:?}", config.interface.direction))
}

const CLASS: &str = "[[class]]\nname = \"all\"\nrate = \"1mbit\"\ndefault = true\n";

#[test]
fn a_file_has_its_direction() {
    let file = |interface: &str| format!("version = 1\n[interface]\n{interface}\n{CLASS}");
    assert_eq!(rendered(&file("")), format!("{:?}", Direction::Egress));
    assert_eq!(rendered(&file("direction = \"ingress\"")), format!("{:?}", Direction::Ingress));
    let error = rendered(&file("direction = \"ingres\""));
    assert!(error.contains("did you mean `ingress`?"), "{error}");
}

#[test]
fn what_arrives_has_no_owner() {
    for (rule, marked) in [
        ("[[rule]]\nclass = \"all\"\nuid = 1000\n", "`uid` in a rule for what arrives"),
        ("[[rule]]\nclass = \"all\"\ncgroup = \"a/b\"\n", "`cgroup` in a rule for what arrives"),
        ("[shaper]\nflow-by = \"uid\"\n", "flows by owner for what arrives"),
        ("[shaper]\nflow-by = \"cgroup\"\n", "flows by owner for what arrives"),
    ] {
        let file = |direction: &str| format!("version = 1\n[interface]\ndirection = \"{direction}\"\n{CLASS}{rule}");
        let error = rendered(&file("ingress"));
        assert!(error.contains(marked) && error.contains("because of this"), "{error}");
        assert!(error.contains("direction = \"egress\"") && error.contains("destination-port"), "{error}");
        assert_eq!(rendered(&file("egress")), format!("{:?}", Direction::Egress), "what leaves has one");
    }
}

#[test]
fn several_interfaces_have_one_total() {
    let names_of = |name: &str| {
        let source = Source::new("in.toml", format!("version = 1\n[interface]\nname = {name}\n{CLASS}"));
        let mut diagnostics = Diagnostics::new();
        let names = load(&source, &mut diagnostics).map(|config| config.interface.names);
        names.ok_or_else(|| diagnostics.render(&source))
    };
    assert_eq!(names_of("\"lan0\"").unwrap(), ["lan0"]);
    assert_eq!(names_of("[\"lan0\", \"lan0.20\"]").unwrap(), ["lan0", "lan0.20"]);
    let error = names_of("[\"lan0\", \"lan1\", \"lan0\"]").unwrap_err();
    assert!(error.contains("`lan0` is named twice") && error.contains("the first time"), "{error}");
    let error = names_of("[\"lan0\", \"lan/1\"]").unwrap_err();
    assert!(error.contains("in.toml:3:17") && error.contains("cannot be the name of an interface"), "{error}");
    let many: Vec<String> = (0..17).map(|n| format!("\"e{n}\"")).collect();
    let error = names_of(&format!("[{}]", many.join(", "))).unwrap_err();
    assert!(error.contains("more than 16 interfaces under one total"), "{error}");
    assert_eq!(names_of(&format!("[{}]", many[..16].join(", "))).unwrap().len(), 16);
}
