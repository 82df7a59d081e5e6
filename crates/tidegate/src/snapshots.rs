//! Tables at terminals of several widths, for tests.

use tidegate_control::Status;
use tidegate_control::answer::{Before, answer};
use tidegate_control::calls::Observation;
pub use tidegate_testbed::width::check;

/// The replies of the shaper of a gateway with three hosts.
pub fn gateway() -> (Status, Observation) {
    let mut replies: serde_json::Value = serde_json::from_str(include_str!("../tests/width/gateway.json")).unwrap();
    let mut reply = |name: &str| replies[name].take();
    let status = serde_json::from_value(reply("status")).unwrap();
    let mut seen: Observation = serde_json::from_value(reply("observation")).unwrap();
    for direction in &mut seen.directions {
        let mut found = answer(direction, &seen.hosts, &Before::of(direction));
        found.text = found.sentence(crate::output::wait);
        direction.answer = Some(found);
    }
    (status, seen)
}
