//! Packets that the machine itself drops between two hosts.

use std::{fs, io};

use tidegate_live::netns::Namespace;

/// Packets that the kernel has dropped so far on their way from a socket in `from` to one in `to`, not counting drops
/// of a shaper: packets that the device of one end could not pass to the other, and datagrams that overflowed a socket
/// buffer at the other end because the reader was not scheduled.
///
/// # Errors
/// When a namespace cannot be entered or its counters cannot be read.
pub fn dropped_between(from: &Namespace, to: &Namespace) -> io::Result<u64> {
    let read = |name: &str| fs::read_to_string(format!("/proc/thread-self/net/{name}"));
    let devices = from.run(|| read("dev"))??;
    // After the name follow eight counters of reception and eight of transmission, of which the fourth is drops.
    let devices: u64 = devices.lines().filter_map(|line| column(line.split_once(':')?.1, 11)).sum();
    // Without IPv6 there is no second file.
    let (v4, v6) = to.run(|| (read("snmp"), read("snmp6")))?;
    Ok(devices + overrun_v4(&v4?) + v6.map_or(0, |text| overrun_v6(&text)))
}

/// Two lines begin with `Udp:`, the names and the values.
fn overrun_v4(snmp: &str) -> u64 {
    let mut udp = snmp.lines().filter(|line| line.starts_with("Udp: "));
    let (Some(names), Some(numbers)) = (udp.next(), udp.next()) else { return 0 };
    let at = names.split_whitespace().position(|name| name == "RcvbufErrors");
    at.and_then(|at| column(numbers, at)).unwrap_or(0)
}

fn overrun_v6(snmp6: &str) -> u64 {
    snmp6.lines().find(|line| line.starts_with("Udp6RcvbufErrors")).and_then(|line| column(line, 1)).unwrap_or(0)
}

fn column(line: &str, n: usize) -> Option<u64> {
    line.split_whitespace().nth(n)?.parse().ok()
}
