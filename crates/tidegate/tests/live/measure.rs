//! `tidegate measure --responsiveness` over a line with a delay and a long buffer, without and with shaping.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tidegate_live::rtnl::Rtnl;
use tidegate_testbed::steady::patiently;
use tidegate_testbed::{Chain, Ended};
use tidegate_units::{Bytes, Rate};

use crate::running::Running;

const UP: u64 = 8;
const DOWN: u64 = 16;
/// The delay of the line in one direction.
const DELAY: Duration = Duration::from_millis(10);

/// A home with an uplink `tgs0`, and beyond a router with long buffers and a delay a peer.
struct Home {
    chain: Chain,
    peer: Running,
    address: String,
}

impl Home {
    fn new() -> Result<Self, String> {
        let chain = Chain::create_delayed(DELAY).map_err(|error| error.to_string())?;
        // Buffers of 250 ms.
        for (device, mbit) in [("tgr1", UP), ("tgr0", DOWN)] {
            let limit = move || {
                let mut rtnl = Rtnl::open().unwrap();
                let index = rtnl.index(device).unwrap();
                rtnl.set_tbf(index, Rate::from_mbit(mbit), Bytes::new(6_000), Bytes::new(mbit * 250_000 / 8))
            };
            chain.router.namespace.run(limit).unwrap().map_err(|error| error.to_string())?;
        }
        let address = format!("{}:9436", chain.client.v4);
        let mut serve = chain.client.namespace.command(env!("CARGO_BIN_EXE_tidegate")).unwrap();
        serve.args(["measure", "--serve", &address, "--for", "10min"]);
        let mut peer = Running::start(serve);
        peer.says("serving measurements");
        Ok(Self { chain, peer, address })
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.chain.server.namespace.command(env!("CARGO_BIN_EXE_tidegate")).unwrap();
        command.args(words).stdin(Stdio::null());
        command
    }

    /// Round trips a minute, down and up, with the whole result.
    fn measure(&self) -> ([f64; 2], Value) {
        let words = ["measure", "--responsiveness", &self.address, "--interface", "tgs0", "--json"];
        let output = self.command(&words).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let all: Value = serde_json::from_slice(&output.stdout).unwrap();
        (["down", "up"].map(|way| all[way]["rpm"].as_f64().unwrap()), all)
    }
}

pub fn responsiveness_is_better_with_shaping() -> Ended {
    patiently(|| {
        let home = Home::new()?;
        let (without, all) = home.measure();
        // The loaded connections are measured, too; the load fills the line; without load a round trip takes 20 ms.
        for (way, mbit) in [("down", DOWN), ("up", UP)] {
            let one = &all[way];
            assert!(one["loaded_rpm"].as_f64().unwrap() > 0.0 && one["tls_ms"].is_null(), "{one}");
            let goodput = one["goodput_bps"].as_f64().unwrap() / 1e6;
            if !(mbit as f64 * 0.7..mbit as f64 * 1.02).contains(&goodput) {
                return Err(format!("{way}: {goodput} Mbit/s of {mbit}"));
            }
            let idle = one["idle_rpm"].as_f64().unwrap();
            if !(1_000.0..3_100.0).contains(&idle) {
                return Err(format!("{way}: {idle} RPM without load, where 20 ms make 3,000"));
            }
        }
        let rates = [format!("{UP}mbit"), format!("{DOWN}mbit")];
        let shape = ["run", "--interface", "tgs0", "--up", &rates[0], "--down", &rates[1], "--link", "ethernet"];
        let mut shaper = Running::start(history_off(home.command(&shape)));
        shaper.says("is in force");
        let (with, _) = home.measure();
        println!("  RPM down and up: {without:.0?} without shaping, {with:.0?} with it");
        shaper.signal(libc::SIGTERM);
        shaper.end();
        for (without, with) in without.into_iter().zip(with) {
            if with < without * 2.0 {
                return Err(format!("{with:.0} RPM with shaping, {without:.0} without"));
            }
        }
        Ok(())
    })
}

/// The peer ends between the directions: what was finished is printed.
pub fn a_finished_direction_is_printed_when_the_peer_ends() -> Ended {
    let mut home = match Home::new() {
        Ok(home) => home,
        Err(why) => return Ended::Skipped(why),
    };
    let measure = home.command(&["measure", "--responsiveness", &home.address, "--interface", "tgs0"]);
    let mut measure = Running::start(measure);
    measure.says("measuring the responsiveness up");
    home.peer.child.kill().unwrap();
    let (status, out, said) = measure.end();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(out.starts_with("down: ") && !out.contains("up: "), "{out}");
    assert!(said.contains("nothing was measured up"), "{said}");
    Ended::Passed
}

fn history_off(mut command: Command) -> Command {
    command.args(["--history", "off"]);
    command
}
