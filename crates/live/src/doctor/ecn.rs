//! Which ECN code points arrive at this machine: whether the paths to it keep ECT(1).

use std::fs;
use std::path::Path;

use super::Examination;

/// Packets received since the machine started, by their ECN field.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Arrivals {
    not_ect: u64,
    ect1: u64,
    ect0: u64,
    ce: u64,
}

/// Reports which code points arrived.
pub(super) fn ecn(found: &mut Examination) {
    let read = |name: &str| fs::read_to_string(Path::new("/proc/thread-self/net").join(name)).unwrap_or_default();
    if let Some(arrivals) = arrivals(&read("netstat"), &read("snmp6")) {
        found.fine("ecn", arrivals.describe());
    }
}

impl Arrivals {
    fn describe(self) -> String {
        let Self { not_ect, ect1, ect0, ce } = self;
        let counts = format!("{ect1} packets with ECT(1) arrived since the start, {ect0} with ECT(0), {ce} with CE");
        let meaning = match (ect1, ect0 + ce) {
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
        assert!(found.describe().ends_with("the path keeps ECT(1)"));
        assert!(Arrivals { ect1: 0, ..found }.describe().ends_with("or the path clears ECT(1)"));
        let none = arrivals(netstat.replace(" 5 3 1", " 0 0 0").as_str(), "").unwrap();
        assert!(none.describe().ends_with("or the path clears it"), "{}", none.describe());
        assert_eq!((arrivals("", ""), arrivals("IpExt: A\nIpExt:\n", "x")), (None, None));
    }
}
