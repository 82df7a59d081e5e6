//! A rate that follows a line which is changed under it.

use tidegate_control::calls::FollowStatus;
use tidegate_testbed::{Ended, FlowSpec};
use tidegate_units::{Bytes, Rate};

use crate::testbed::{Testbed, until};

const SHAPER: &str = "version = 1\n\
    [interface]\nname = \"tg0\"\n\
    [up.shaper]\nrate = \"6mbit\"\nfollow = { from = \"1mbit\", to = \"40mbit\" }\n\
    [[up.class]]\nname = \"all\"\nrate = \"6mbit\"\ndefault = true\n\
    [[down.class]]\nname = \"all\"\nrate = \"90mbit\"\ndefault = true\n";

/// The wire carries 12 Mbit/s behind a buffer of a third of a second, then 4, then 12 again. There are no probes.
pub fn a_rate_follows_the_line_by_passing_traffic_alone() -> Ended {
    let testbed = Testbed::with("follow", SHAPER, &[FlowSpec::tcp("bulk", 9_000, 0)]);
    let wire = |mbit| testbed.pair.limit_wire(Rate::from_mbit(mbit), Bytes::new(500_000)).expect("a slow wire");
    wire(12);
    let mut client = testbed.client();
    let mut follow = || -> FollowStatus {
        let status = client.status().expect("a status");
        status.directions.into_iter().find_map(|direction| direction.follow).expect("a rate that follows")
    };
    // The rate counts packets without the wire's link headers, 14 of 1514 bytes.
    let mut settles = |low: u64, high: u64| {
        until(&format!("a rate of {low} to {high} Mbit/s, three times in a row"), || {
            (0..3).all(|_| {
                std::thread::sleep(std::time::Duration::from_millis(300));
                let follow = follow();
                let within = (Rate::from_mbit(low)..=Rate::from_mbit(high)).contains(&follow.allowed);
                within && follow.peers > 0 && follow.probes == 0
            })
        });
    };
    settles(9, 14);
    wire(4);
    settles(2, 5);
    wire(12);
    settles(9, 14);
    let follow = follow();
    assert!(follow.changes > 10 && follow.floor.is_some() && !follow.recent.is_empty(), "{follow:?}");
    let (_, history) = testbed.get("/api/history?span=600");
    let history: serde_json::Value = serde_json::from_str(&history).expect("JSON");
    let series = history["series"].as_array().expect("series");
    let line = series.iter().find(|one| one["class"] == "" && one["direction"] == "up").expect("a series of the line");
    let allowed = line["rate_bps"].as_array().expect("values").iter().filter_map(serde_json::Value::as_f64);
    assert!(allowed.clone().any(|rate| rate > 9e6) && allowed.clone().any(|rate| rate < 6e6), "{line}");
    let (_, metrics) = testbed.get("/metrics");
    assert!(metrics.contains("tidegate_follow_allowed_bytes_per_second{interface="), "{metrics}");
    Ended::Passed
}
