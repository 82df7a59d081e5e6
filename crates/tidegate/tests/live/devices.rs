//! Rules about devices by hardware address, whose addresses come from the table of neighbours.

use std::time::{Duration, Instant};

use crate::at_pair::{command, succeeds};
use crate::running::{PATIENCE, Running, Traffic};
use tidegate_testbed::Ended;
use tidegate_testbed::files::Folder;
use tidegate_testbed::veth::{DEVICE, LEFT, Pair};

const MAC: &str = "02:00:5e:00:53:01";

fn file() -> String {
    format!(
        "version = 1\n\
         [[class]]\nname = \"device\"\nrate = \"4mbit\"\n\
         [[class]]\nname = \"rest\"\nrate = \"4mbit\"\ndefault = true\n\
         [[rule]]\nclass = \"device\"\nmac = \"{MAC}\"\n"
    )
}

/// The device is this host itself, which nobody asks for its hardware address: its entry is the test's own.
pub fn a_device_is_known_by_its_hardware_address_while_it_is_a_neighbour() -> Ended {
    let (pair, scratch) = (Pair::new(), Folder::new("devices"));
    let file = scratch.write("devices.toml", &file());
    let (path, socket) = (file.to_str().unwrap(), scratch.0.join("s"));
    let at = ["--control", socket.to_str().unwrap()];
    let own = LEFT[0].to_string();
    let neighbour = |words: &[&str]| {
        let mut command = pair.left.command("ip").unwrap();
        command.args(["neighbour", words[0], &own, "dev", DEVICE]).args(&words[1..]);
        assert!(command.status().expect("iproute2").success(), "{words:?}");
    };
    assert!(succeeds(&pair, &["check", path]).contains("is not in the table of neighbours now"));
    let mut running = Running::start(command(&pair, &["run", path, "--interface", DEVICE, at[0], at[1]]));
    running.says("control socket");
    let packets = |class: &str| {
        let status: serde_json::Value =
            serde_json::from_str(&succeeds(&pair, &["status", "--json", at[0], at[1]])).expect("JSON");
        let classes = status["directions"][0]["classes"].as_array().expect("classes").clone();
        let class = classes.into_iter().find(|one| one["name"] == class).expect("the class");
        class["enqueued_packets"].as_u64().expect("a count")
    };
    let traffic = Traffic::start(&pair, 500, Duration::from_millis(5));
    traffic.until(100);
    assert_eq!(packets("device"), 0);

    neighbour(&["replace", "lladdr", MAC, "nud", "permanent"]);
    let deadline = Instant::now() + PATIENCE;
    while packets("device") == 0 {
        assert!(Instant::now() < deadline, "the device is not noticed");
        std::thread::sleep(Duration::from_millis(100));
    }
    let (rest, device) = (packets("rest"), packets("device"));
    std::thread::sleep(Duration::from_millis(1_500));
    let (rest, device) = (packets("rest") - rest, packets("device") - device);
    assert!(device > 50 && rest < 20, "{rest} and {device}");
    assert!(succeeds(&pair, &["check", path]).contains(&format!("rule 1 {MAC} has {own} now")));
    let explained = succeeds(&pair, &["explain", "--with", path, "--source", &own, "--destination", "198.51.100.1"]);
    assert!(explained.contains("mac") && explained.contains("device"), "{explained}");

    neighbour(&["del"]);
    let before = packets("rest");
    while packets("rest") < before + 100 {
        assert!(Instant::now() < deadline + PATIENCE, "the device is not forgotten");
        std::thread::sleep(Duration::from_millis(100));
    }
    let arrivals = traffic.stop();
    assert_eq!((arrivals.lost(), arrivals.reordered()), (0, 0));
    running.signal(libc::SIGTERM);
    let (ended, _, said) = running.end();
    assert!(ended.success(), "{said}");
    Ended::Passed
}
