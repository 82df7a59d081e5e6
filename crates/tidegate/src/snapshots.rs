//! Tables at terminals of several widths, for tests.

use tidegate_control::Status;
use tidegate_control::calls::Observation;
pub use tidegate_testbed::width::check;

/// The replies of the shaper of a gateway with three hosts.
pub fn gateway() -> (Status, Observation) {
    let mut replies: serde_json::Value = serde_json::from_str(include_str!("../tests/width/gateway.json")).unwrap();
    let mut reply = |name: &str| replies[name].take();
    (serde_json::from_value(reply("status")).unwrap(), serde_json::from_value(reply("observation")).unwrap())
}
