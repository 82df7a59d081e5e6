//! The flows of the demonstration, their shaper file, and the changes while it runs.

use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_testbed::{FlowSpec, Transport};
use tidegate_units::{Bytes, Rate};

/// The shaper file of the demonstration. Its classes are those of the FBQ paper's experiment, and use 80 of 100 Mbit/s.
pub const SHAPER: &str = r#"version = 1

[shaper]
rate = "80mbit"

[[class]]
name = "premium"
rate = "10mbit"
priority = 0
dscp = "ef"
borrow = false

[[class]]
name = "assured"
rate = "30mbit"
dscp = "af11"
limit = "750kB"

[[class]]
name = "besteffort"
rate = "40mbit"
priority = 2
dscp = "be"
limit = "1MB"
default = true

[[rule]]
class = "premium"
destination-port = 5001

[[rule]]
class = "premium"
destination-port = 5002
minimum = "4mbit"

[[rule]]
class = "premium"
destination-port = 5003

[[rule]]
class = "assured"
destination-port = 5011
minimum = "8mbit"

[[rule]]
class = "assured"
destination-port = 5012

[[rule]]
class = "assured"
destination-port = 5013

[[rule]]
class = "assured"
destination-port = 5014
displace = { below = "7mbit", to = "besteffort" }

[[rule]]
class = "besteffort"
destination-port = 5021

[[rule]]
class = "besteffort"
destination-port = 5022

[[rule]]
class = "besteffort"
destination-port = 5023
"#;

/// The rate of the link, shaped or not.
pub const WIRE: Rate = Rate::from_mbit(100);

/// A flow of the demonstration.
pub struct DemoFlow {
    /// The traffic that it sends.
    pub spec: FlowSpec,
    /// The class that its rule names.
    pub class: &'static str,
    /// The terms of its rule, as text.
    pub terms: &'static str,
}

/// The flows, in the order of the rules: flow `i` matches rule `i`.
pub fn flows() -> Vec<DemoFlow> {
    let udp =
        |name, port, dscp, kbit, payload| FlowSpec::udp(name, port, dscp, Rate::from_kbit(kbit), Bytes::new(payload));
    let flow = |spec, class, terms| DemoFlow { spec, class, terms };
    vec![
        flow(udp("voice", 5_001, 46, 500, 200), "premium", ""),
        flow(udp("call", 5_002, 46, 4_000, 1_200), "premium", "at least 4mbit"),
        flow(udp("greedy", 5_003, 46, 14_000, 1_400), "premium", ""),
        flow(udp("video", 5_011, 10, 10_000, 1_400), "assured", "at least 8mbit"),
        flow(FlowSpec::tcp("backup", 5_012, 10), "assured", ""),
        flow(FlowSpec::tcp("sync", 5_013, 10), "assured", "preferred later"),
        flow(udp("stream", 5_014, 10, 7_500, 1_400), "assured", "moved below 7mbit"),
        flow(FlowSpec::tcp("web", 5_021, 0), "besteffort", ""),
        flow(FlowSpec::tcp("download", 5_022, 0), "besteffort", "minimum later"),
        flow(udp("flood", 5_023, 0, 60_000, 1_400), "besteffort", ""),
    ]
}

/// A change that is applied while the demonstration runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// A flow is preferred by this number of steps.
    Prefer(usize, u32),
    /// A minimum rate is requested for a flow.
    Minimum(usize, Rate),
}

/// The changes, each with the fraction of the shaped phase after which it is applied.
pub fn changes() -> [(f64, Change); 2] {
    [(0.4, Change::Prefer(5, 2)), (0.7, Change::Minimum(8, Rate::from_mbit(20)))]
}

/// Parses the shaper file.
///
/// # Panics
/// If the file is not valid, which a test excludes.
pub fn config() -> shaper::Config {
    let source = Source::new("demo.toml", SHAPER);
    let mut diagnostics = Diagnostics::new();
    match shaper::load(&source, &mut diagnostics) {
        Some(config) => config,
        None => panic!("{}", diagnostics.render(&source)),
    }
}

/// Describes the demand of a flow.
pub fn demand(spec: &FlowSpec) -> String {
    match spec.transport {
        Transport::Udp { rate, .. } => format!("UDP {rate}"),
        Transport::Tcp => "TCP".into(),
    }
}

/// The rate at which a flow offers its payload, in bit/s; `None` for TCP, which takes what it finds.
pub fn offered(spec: &FlowSpec) -> Option<f64> {
    match spec.transport {
        Transport::Udp { rate, .. } => Some(rate.as_bps() as f64),
        Transport::Tcp => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flow_has_its_rule_and_its_class() {
        let config = config();
        let names: Vec<_> = config.class_names().into_iter().map(String::from).collect();
        assert_eq!(config.rules.len(), flows().len());
        for (rule, flow) in config.rules.iter().zip(flows()) {
            assert_eq!(names[rule.class.0 as usize], flow.class);
            assert_eq!(rule.matches.destination_ports[0].first, flow.spec.port);
        }
    }
}
