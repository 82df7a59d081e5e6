//! Which ECN code points arrive at this machine: whether the paths to it keep ECT(1).

use std::fs;
use std::path::Path;

use super::Examination;
use crate::rtnl::sysctl;

/// Packets received since the machine started, by their ECN field.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Arrivals {
    not_ect: u64,
    ect1: u64,
    ect0: u64,
    ce: u64,
}

/// The packets that [`Arrivals`] counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Counted<'a> {
    /// All that arrived in the network namespace, which forwards nothing.
    Here,
    /// All that arrived in the network namespace, also what its own hosts sent through it.
    Forwarded,
    /// Those that arrived over IPv6 at an interface.
    At(&'a str),
}

/// Reports which code points arrived, at `interface` if the kernel counts those.
pub(super) fn ecn(found: &mut Examination, interface: Option<&str>) {
    let read = |name: &str| fs::read_to_string(Path::new("/proc/thread-self/net").join(name)).unwrap_or_default();
    let of_interface = |name: &str| read(&format!("dev_snmp6/{name}"));
    if let Some(text) = report(sysctl::forwards(), interface, &read("netstat"), &read("snmp6"), of_interface) {
        found.fine("ecn", text);
    }
}

/// The finding. A machine that forwards counts the packets of its own hosts with those of the line, except over IPv6, where
/// each interface has counters; `None` if the kernel has none.
fn report(
    forwards: bool,
    interface: Option<&str>,
    netstat: &str,
    snmp6: &str,
    of_interface: impl FnOnce(&str) -> String,
) -> Option<String> {
    let all = arrivals(netstat, snmp6)?;
    if !forwards {
        return Some(all.describe(Counted::Here));
    }
    let at = interface.and_then(|name| Some((name, arrivals("", &of_interface(name))?)));
    Some(match at {
        Some((name, arrivals)) if arrivals.ect1 + arrivals.ect0 + arrivals.ce > 0 => {
            arrivals.describe(Counted::At(name))
        }
        _ => all.describe(Counted::Forwarded),
    })
}

impl Arrivals {
    fn describe(self, counted: Counted<'_>) -> String {
        let Self { not_ect, ect1, ect0, ce } = self;
        let place = match counted {
            Counted::At(name) => format!(" at {name} over IPv6"),
            Counted::Here | Counted::Forwarded => String::new(),
        };
        let counts =
            format!("{ect1} packets with ECT(1) arrived{place} since the start, {ect0} with ECT(0), {ce} with CE");
        let meaning = match (ect1, ect0 + ce) {
            _ if counted == Counted::Forwarded => {
                "no verdict about the path, because this machine forwards and packets of its own hosts are counted, too"
            }
            (0, 0) if not_ect == 0 => "nothing arrived yet",
            (0, 0) => "no sender used ECN, or the path clears it",
            (0, _) => "no scalable sender (L4S) was there, or the path clears ECT(1)",
            _ => "the path keeps ECT(1)",
        };
        format!("{counts}: {meaning}")
    }
}

/// The counters of IPv4 (`netstat`: a line of names, a line of numbers) and of IPv6 (`snmp6`) together; `None` if the kernel
/// has none.
fn arrivals(netstat: &str, snmp6: &str) -> Option<Arrivals> {
    let mut lines = netstat.lines().filter_map(|line| line.strip_prefix("IpExt:"));
    let (names, numbers) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let version4 = names.split_whitespace().zip(numbers.split_whitespace());
    let version6 = snmp6.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        Some((words.next()?.strip_prefix("Ip6")?, words.next()?))
    });
    let mut arrivals = Arrivals::default();
    let mut any = false;
    for (name, number) in version4.chain(version6) {
        let count = match name {
            "InNoECTPkts" => &mut arrivals.not_ect,
            "InECT1Pkts" => &mut arrivals.ect1,
            "InECT0Pkts" => &mut arrivals.ect0,
            "InCEPkts" => &mut arrivals.ce,
            _ => continue,
        };
        any = true;
        *count = count.saturating_add(number.parse().unwrap_or(0));
    }
    any.then_some(arrivals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_counted() {
        let netstat = "TcpExt: A B\nTcpExt: 1 2\nIpExt: InOctets InNoECTPkts InECT1Pkts InECT0Pkts InCEPkts\n\
                       IpExt: 900 70 5 3 1\n";
        let snmp6 = "Ip6InReceives 9\nIp6InNoECTPkts 30\nIp6InECT1Pkts 2\nIp6InECT0Pkts 0\nIp6InCEPkts 4\n";
        let found = arrivals(netstat, snmp6).unwrap();
        assert_eq!(found, Arrivals { not_ect: 100, ect1: 7, ect0: 3, ce: 5 });
        assert!(found.describe(Counted::Here).ends_with("the path keeps ECT(1)"));
        assert!(Arrivals { ect1: 0, ..found }.describe(Counted::Here).ends_with("or the path clears ECT(1)"));
        let none = arrivals(netstat.replace(" 5 3 1", " 0 0 0").as_str(), "").unwrap();
        assert!(none.describe(Counted::Here).ends_with("or the path clears it"), "{}", none.describe(Counted::Here));
        assert_eq!((arrivals("", ""), arrivals("IpExt: A\nIpExt:\n", "x")), (None, None));
    }

    /// A host of the LAN sends ECT(1) through the gateway, and the line clears it: the counters of the namespace have it all
    /// the same.
    #[test]
    fn a_machine_that_forwards_judges_its_interface_alone() {
        let netstat = "IpExt: InNoECTPkts InECT1Pkts InECT0Pkts InCEPkts\nIpExt: 4 120 0 0\n";
        let snmp6 = "Ip6InNoECTPkts 1\nIp6InECT1Pkts 7\nIp6InECT0Pkts 0\nIp6InCEPkts 0\n";
        let line = |ect1: u64, ect0: u64| {
            format!("ifIndex 2\nIp6InNoECTPkts 3\nIp6InECT1Pkts {ect1}\nIp6InECT0Pkts {ect0}\nIp6InCEPkts 0\n")
        };
        let found = |forwards, interface, line: String| report(forwards, interface, netstat, snmp6, |_| line).unwrap();
        assert!(found(false, Some("wan0"), line(0, 0)).ends_with("the path keeps ECT(1)"));
        for (interface, line) in [(None, line(9, 9)), (Some("wan0"), line(0, 0)), (Some("wan0"), String::new())] {
            let text = found(true, interface, line);
            assert!(
                text.starts_with("127 packets with ECT(1) arrived since") && text.contains(": no verdict"),
                "{text}"
            );
        }
        let cleared = found(true, Some("wan0"), line(0, 5));
        assert!(cleared.starts_with("0 packets with ECT(1) arrived at wan0 over IPv6"), "{cleared}");
        assert!(cleared.ends_with("or the path clears ECT(1)"), "{cleared}");
        assert!(found(true, Some("wan0"), line(2, 0)).ends_with("the path keeps ECT(1)"));
        assert_eq!(report(true, None, "", "", |_| String::new()), None);
    }
}
