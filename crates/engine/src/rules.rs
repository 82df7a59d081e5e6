//! The rules of a configuration, with the users and control groups of this machine: they map a packet to a class and a flow.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::net::IpAddr;

use tidegate_config::discipline::Discipline;
use tidegate_config::shaper::{Config, FairBy, FlowBy, Match, Named, Owners, Root, UnknownOwner};
use tidegate_config::values::Mac;
use tidegate_core::classify::{self, BuildError, Classifier, Fields, Target};
use tidegate_core::flow::{self, FlowHash};
use tidegate_core::{ClassId, FlowKey, Span};

use crate::class_names::numbers_of;

/// Why a configuration cannot run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BuildFailure {
    /// The rules cannot be built.
    Rules(BuildError),
    /// The discipline cannot be built.
    Tree(String),
    /// A rule has times or a quota, and the data path has no wall clock.
    NoWallClock {
        /// The number of the rule, from 1.
        rule: usize,
        /// The key that needs the clock.
        key: &'static str,
    },
    /// A rule names a device by its hardware address, and the data path knows no neighbours.
    NoNeighbours {
        /// The number of the rule, from 1.
        rule: usize,
        /// The hardware address.
        mac: Mac,
    },
    /// A rule has a name whose addresses the data path does not know.
    NoNames {
        /// The number of the rule, from 1.
        rule: usize,
        /// The name.
        name: Named,
    },
    /// A rule names an interface by which packets came in, which the data path does not know.
    NoInterfaces {
        /// The number of the rule, from 1.
        rule: usize,
        /// The name of the interface.
        name: String,
    },
    /// A rule names a user that this machine does not have.
    UnknownUser {
        /// The number of the rule, from 1.
        rule: usize,
        /// The name of the user.
        name: String,
    },
    /// A rule names a control group that this machine does not have.
    UnknownControlGroup {
        /// The number of the rule, from 1.
        rule: usize,
        /// The path of the control group.
        path: String,
        /// Why its id cannot be determined.
        why: String,
    },
}

impl fmt::Display for BuildFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rules(error) => write!(f, "the rules cannot be built: {error}"),
            Self::Tree(text) => write!(f, "the discipline cannot be built: {text}"),
            Self::NoWallClock { rule, key } => write!(
                f,
                "rule {rule} has `{key}`, and there is no wall clock here; remove it, or use `tidegate run`, or a scenario with `starts`"
            ),
            Self::NoNeighbours { rule, mac } => write!(
                f,
                "rule {rule}: nobody knows here which addresses `{mac}` has; write `host` with its addresses, or use `tidegate run`"
            ),
            Self::NoNames { rule, name } => {
                let whose = match name {
                    Named::Device(_) => "nobody reads leases here",
                    Named::Answered(_) => "nobody sees answers of the Domain Name System here",
                };
                write!(
                    f,
                    "rule {rule} has `{} = \"{name}\"`, and {whose}; write `host` with the addresses, or use `tidegate run`",
                    name.key()
                )
            }
            Self::NoInterfaces { rule, name } => write!(
                f,
                "rule {rule}: nobody knows here which packets came in by `{name}`; write `source` with the addresses behind it, or use \
                 `tidegate run`"
            ),
            Self::UnknownUser { rule, name } => {
                write!(f, "rule {rule}: no user is called `{name}` here; write a number, or create the user first")
            }
            Self::UnknownControlGroup { rule, path, why } => write!(f, "rule {rule}: control group `{path}`: {why}"),
        }
    }
}

impl std::error::Error for BuildFailure {}

/// What rules depend on besides the configuration: the ids of the users and control groups that they name, on this machine, the
/// addresses of the devices that they name, and the rules that do not hold now. Empty for a data path that knows no owners and no
/// neighbours, and where all rules hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Names {
    /// The numbers of users by name.
    pub users: HashMap<String, u32>,
    /// The numbers of control groups by path, as the data path will set them in [`Fields::cgroup`].
    pub cgroups: HashMap<String, u64>,
    /// The numbers of interfaces by name, as the data path sets them in [`Fields::cgroup`] of packets that came in by them; one without
    /// an entry has [that of its name](interface_number). `None` if packets have no such numbers.
    pub interfaces: Option<BTreeMap<String, u64>>,
    /// The addresses of devices by hardware address; none for a device that is not there.
    pub macs: BTreeMap<Mac, BTreeSet<IpAddr>>,
    /// The addresses of names; none for a name that has no address now.
    pub named: BTreeMap<Named, BTreeSet<IpAddr>>,
    /// The indices of the rules that match nothing now, because it is not their time or their quota is used up.
    pub off: BTreeSet<u32>,
}

/// What stands in [`Fields::cgroup`] of a forwarded packet, which has no control group, for the interface by which it came in. It
/// follows from the name, and no control group has a number as large.
pub fn interface_number(name: &str) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in name.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash | 1 << 63
}

/// The parameters of an engine that are not part of its configuration.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The seed of the random streams of disciplines.
    pub seed: u64,
    /// The secret of flow keys: random bytes in a live shaper, a constant if runs must be equal.
    pub secret: [u64; 2],
    /// The lateness for which the discipline makes up.
    pub catch_up: Span,
    /// The most packets queued in all. Beyond it a class with more than its part of them, by rate, queues no more. For a data path
    /// in which a departure costs more the more packets wait.
    pub most_queued: Option<u32>,
    /// The ids of users and control groups.
    pub names: Names,
}

/// The result of classifying a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Classification {
    /// The number of the rule that matched, from 0. The rules of reservations are numbered after those of the configuration.
    pub rule: Option<u32>,
    /// The class.
    pub class: ClassId,
    /// The flow. A flow is within one class: its key depends on the class.
    pub flow: FlowKey,
}

/// Returns the rules and the hash of flow keys as an array of numbers, for a program that classifies by itself. The rules of reservations
/// are ahead of those of the configuration, and have the profile that follows those of the latter. `number` returns the number that a
/// class has in the program.
///
/// # Errors
/// If the rules cannot be built, or name an owner that `setup` does not have.
pub fn image(
    config: &Config,
    setup: &Setup,
    reserved: &[(&Match, ClassId)],
    number: impl Fn(ClassId) -> u32,
) -> Result<Vec<u64>, BuildFailure> {
    let mut rules = Rules::new(config, setup)?;
    rules.set_reserved(reserved, &setup.names)?;
    let target = |class: ClassId, profile| Target { class: number(class), profile, salt: rules.salt(class) };
    let mut targets: Vec<Target> =
        rules.classes.iter().zip(1..).map(|(class, profile)| target(*class, profile)).collect();
    let of_file = targets.len() as u32;
    targets.extend(rules.reserved_classes.iter().map(|class| target(*class, of_file + 1)));
    let ahead = rules.reserved.iter().flat_map(Classifier::rules).cloned();
    let ahead = ahead.map(|rule| classify::Rule { target: of_file + rule.target, ..rule });
    let all: Vec<_> = ahead.chain(rules.classifier.rules().iter().cloned()).collect();
    let matches = reserved.iter().map(|(matches, _)| *matches).chain(config.rules.iter().map(|rule| &rule.matches));
    let groups = groups(matches, &setup.names);
    classify::image(&all, &targets, target(rules.default, 0), &rules.hash, &groups).map_err(BuildFailure::Rules)
}

/// The numbers of the control groups and interfaces that rules name, in their order.
fn groups<'a>(all: impl Iterator<Item = &'a Match>, mut names: &Names) -> Vec<u64> {
    let mut groups = Vec::new();
    for matches in all {
        let named = matches.cgroups.iter().filter_map(|path| names.cgroup(path)).collect::<Vec<_>>();
        let incoming = matches.from_interfaces.iter().filter_map(|name| names.interface(name));
        for group in named.into_iter().chain(incoming) {
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
    }
    groups
}

/// The rules with their classes, and the hash of flow keys.
pub(crate) struct Rules {
    /// The rules of reservations, which are matched first. They have a classifier of their own, so that another reservation
    /// does not cost a new classifier of all rules.
    reserved: Option<Classifier>,
    reserved_classes: Vec<ClassId>,
    classifier: Classifier,
    hash: FlowHash,
    /// The hash of each class that goes into the keys of its flows.
    salts: Vec<u64>,
    classes: Vec<ClassId>,
    default: ClassId,
}

/// Builds a classifier whose targets are the numbers of `matches`.
fn classifier<'a>(matches: impl Iterator<Item = (u32, &'a Match)>, names: &Names) -> Result<Classifier, BuildFailure> {
    let mut rules = Vec::new();
    for (target, matches) in matches {
        // All alternatives of a rule have its index as the target, so that the first rule that matches counts.
        let alternatives = matches.conjunctions(&mut &*names);
        for matching in alternatives.map_err(|owner| BuildFailure::unknown(target as usize, owner))? {
            rules.push(classify::Rule { matching, target });
        }
    }
    Classifier::new(rules).map_err(BuildFailure::Rules)
}

/// The hashes of classes. A class with a name is hashed by its name, so that a flow keeps its key when the number of its class
/// changes. The classes of reservations have only numbers.
fn salts(hash: &FlowHash, config: &Config) -> Vec<u64> {
    let named = numbers_of(config);
    let mut salts: Vec<u64> = (0..named.values().map(|class| class.0 + 1).max().unwrap_or(0))
        .map(|class| hash.class(&class.to_le_bytes()))
        .collect();
    for (name, class) in named {
        salts[class.0 as usize] = hash.class(name.as_bytes());
    }
    salts
}

/// The target of the first rule that matches.
fn first_match(classifier: &Classifier, fields: &Fields) -> Option<u32> {
    classifier.classify(fields).map(|index| classifier.rules()[index as usize].target)
}

impl Rules {
    pub(crate) fn new(config: &Config, setup: &Setup) -> Result<Self, BuildFailure> {
        let (by, hosts) = match &config.root {
            Root::Shaper(shaper) => {
                // The shaper itself needs hosts only for fairness between hosts, but a discipline of a class may need them.
                let inside =
                    shaper.classes.iter().any(|class| class.queue.as_ref().is_some_and(Discipline::reads_hosts));
                (shaper.flow_by, shaper.fair_by != FairBy::Flow || inside)
            }
            Root::Discipline(discipline) => (FlowBy::FiveTuple, discipline.reads_hosts()),
        };
        let hash = FlowHash::new(setup.secret, flow_by(by));
        let hash = if hosts { hash } else { hash.without_hosts() };
        let all = (0..).zip(config.rules.iter().map(|rule| &rule.matches));
        let hold = all.filter(|(rule, _)| !setup.names.off.contains(rule));
        Ok(Self {
            reserved: None,
            reserved_classes: Vec::new(),
            classifier: classifier(hold, &setup.names)?,
            salts: salts(&hash, config),
            hash,
            classes: config.rules.iter().map(|rule| rule.class).collect(),
            default: config.default_class,
        })
    }

    /// Sets the rules of reservations.
    pub(crate) fn set_reserved(&mut self, rules: &[(&Match, ClassId)], names: &Names) -> Result<(), BuildFailure> {
        let built = classifier((0..).zip(rules.iter().map(|(matches, _)| *matches)), names)?;
        self.reserved = (!rules.is_empty()).then_some(built);
        self.reserved_classes = rules.iter().map(|(_, class)| *class).collect();
        Ok(())
    }

    pub(crate) fn classify(&self, fields: &Fields) -> Classification {
        self.in_class(self.lookup(fields), fields)
    }

    /// The flow that a packet with these fields belongs to if it is in `class`.
    pub(crate) fn key_in(&self, class: ClassId, fields: &Fields) -> FlowKey {
        self.in_class((None, class), fields).flow
    }

    /// Classifies a packet of which the rule and the class are known.
    #[inline]
    fn in_class(&self, (rule, class): (Option<u32>, ClassId), fields: &Fields) -> Classification {
        let mut flow = self.hash.key(fields);
        // Both hashes are keyed, so that no sender can make two flows collide.
        flow.flow ^= self.salt(class);
        Classification { rule, class, flow }
    }

    /// The part of the flow key that does not depend on the class.
    pub(crate) fn flow_key(&self, fields: &Fields) -> FlowKey {
        self.hash.key(fields)
    }

    fn salt(&self, class: ClassId) -> u64 {
        self.salts.get(class.0 as usize).copied().unwrap_or_else(|| self.hash.class(&class.0.to_le_bytes()))
    }

    fn lookup(&self, fields: &Fields) -> (Option<u32>, ClassId) {
        if let Some(at) = self.reserved.as_ref().and_then(|reserved| first_match(reserved, fields)) {
            let rule = Some(self.classes.len() as u32 + at);
            return (rule, self.reserved_classes[at as usize]);
        }
        self.class_of(first_match(&self.classifier, fields))
    }

    #[inline]
    fn class_of(&self, rule: Option<u32>) -> (Option<u32>, ClassId) {
        (rule, rule.map_or(self.default, |rule| self.classes[rule as usize]))
    }
}

fn flow_by(by: FlowBy) -> flow::FlowBy {
    match by {
        FlowBy::FiveTuple => flow::FlowBy::FiveTuple,
        FlowBy::HostPair => flow::FlowBy::HostPair,
        FlowBy::Source => flow::FlowBy::Source,
        FlowBy::Destination => flow::FlowBy::Destination,
        FlowBy::Socket => flow::FlowBy::Socket,
        FlowBy::User => flow::FlowBy::Uid,
        FlowBy::ControlGroup => flow::FlowBy::Cgroup,
        FlowBy::Dscp => flow::FlowBy::Dscp,
        FlowBy::Mark => flow::FlowBy::Mark,
    }
}

impl Owners for &Names {
    fn user(&mut self, name: &str) -> Option<u32> {
        self.users.get(name).copied()
    }
    fn cgroup(&mut self, path: &str) -> Option<u64> {
        self.cgroups.get(path).copied()
    }
    fn interface(&mut self, name: &str) -> Option<u64> {
        let own = self.interfaces.as_ref()?.get(name);
        Some(own.copied().unwrap_or_else(|| interface_number(name)))
    }
    fn addresses(&mut self, mac: Mac) -> Option<Vec<IpAddr>> {
        Some(self.macs.get(&mac)?.iter().copied().collect())
    }
    fn named(&mut self, name: &Named) -> Option<Vec<IpAddr>> {
        Some(self.named.get(name)?.iter().copied().collect())
    }
}

impl BuildFailure {
    /// Returns the failure of the first rule that names an owner who is not in `names`.
    pub fn unknown_owner(config: &Config, names: &Names) -> Option<Self> {
        let mut rules = config.rules.iter().enumerate();
        rules.find_map(|(at, rule)| rule.matches.conjunctions(&mut &*names).err().map(|owner| Self::unknown(at, owner)))
    }
    /// Checks that no rule has times or a quota, for a data path without a wall clock.
    ///
    /// # Errors
    /// [`BuildFailure::NoWallClock`] for the first rule that has them.
    pub fn without_clock(config: &Config) -> Result<(), Self> {
        config.timed_rule().map_or(Ok(()), |(at, key)| Err(Self::NoWallClock { rule: at + 1, key }))
    }
    /// Returns the failure of the rule at index `at`.
    fn unknown(at: usize, owner: UnknownOwner) -> Self {
        let rule = at + 1;
        match owner {
            UnknownOwner::User(name) => Self::UnknownUser { rule, name },
            UnknownOwner::Interface(name) => Self::NoInterfaces { rule, name },
            UnknownOwner::Mac(mac) => Self::NoNeighbours { rule, mac },
            UnknownOwner::Named(name) => Self::NoNames { rule, name },
            UnknownOwner::ControlGroup(path) => {
                let why = "this data path does not know control groups".into();
                Self::UnknownControlGroup { rule, path, why }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_config::{Diagnostics, Source, shaper};
    use tidegate_core::classify::Hosts;

    /// The classes of packets from and to 192.0.2.7, from 192.0.2.8, and from 2001:db8::7, when the device has `addresses`.
    fn classes(rule: &str, addresses: Option<&[&str]>) -> Result<[u32; 4], BuildFailure> {
        let text = format!(
            "version = 1\n[[class]]\nname = \"rest\"\nrate = \"1mbit\"\ndefault = true\n\
             [[class]]\nname = \"device\"\nrate = \"1mbit\"\n[[rule]]\nclass = \"device\"\n{rule}\n"
        );
        let source = Source::new("mac.toml", text);
        let mut diagnostics = Diagnostics::new();
        let config =
            shaper::load(&source, &mut diagnostics).unwrap_or_else(|| panic!("{}", diagnostics.render(&source)));
        assert_eq!(diagnostics.render(&source), "");
        let mac = Mac([2, 0, 0x5e, 0, 0x53, 1]);
        let known = addresses.map(|all| (mac, all.iter().map(|one| one.parse().expect("an address")).collect()));
        let names = Names { macs: known.into_iter().collect(), ..Names::default() };
        let rules =
            Rules::new(&config, &Setup { seed: 1, secret: [1, 2], catch_up: Span::ZERO, most_queued: None, names })?;
        let v4 = |source: [u8; 4], destination: [u8; 4]| Hosts::V4 {
            source: source.into(),
            destination: destination.into(),
        };
        let v6 =
            Hosts::V6 { source: "2001:db8::7".parse().expect("v6"), destination: "2001:db8::9".parse().expect("v6") };
        let (device, other, far) = ([192, 0, 2, 7], [192, 0, 2, 8], [198, 51, 100, 1]);
        let packets = [v4(device, far), v4(far, device), v4(other, far), v6];
        Ok(packets.map(|hosts| rules.classify(&Fields { hosts, protocol: Some(17), ..Fields::default() }).class.0))
    }

    #[test]
    fn a_device_is_its_addresses_at_either_end() {
        let rule = "mac = \"02:00:5e:00:53:01\"";
        assert_eq!(classes(rule, Some(&["192.0.2.7", "2001:db8::7"])), Ok([1, 1, 0, 1]));
        assert_eq!(classes(rule, Some(&["192.0.2.8"])), Ok([0, 0, 1, 0]));
        assert_eq!(classes(rule, Some(&[])), Ok([0; 4]), "a device that is not there has no packets");
        let narrower = format!("{rule}\nhost = \"192.0.2.0/24\"\nsource = \"192.0.2.7\"");
        assert_eq!(classes(&narrower, Some(&["192.0.2.7", "2001:db8::7"])), Ok([1, 0, 0, 0]));
    }

    /// The class of a packet between two hosts when the names have these addresses.
    fn class_of(rule: &str, named: &[(Named, &str)], hosts: [&str; 2]) -> Result<u32, BuildFailure> {
        let text = format!(
            "version = 1\n[[class]]\nname = \"rest\"\nrate = \"1mbit\"\ndefault = true\n\
             [[class]]\nname = \"named\"\nrate = \"1mbit\"\n[[rule]]\nclass = \"named\"\n{rule}\n"
        );
        let (source, mut diagnostics) = (Source::new("names.toml", text), Diagnostics::new());
        let config =
            shaper::load(&source, &mut diagnostics).unwrap_or_else(|| panic!("{}", diagnostics.render(&source)));
        let mut names = Names::default();
        for (name, address) in named {
            names.named.entry(name.clone()).or_default().insert(address.parse().expect("an address"));
        }
        let rules =
            Rules::new(&config, &Setup { seed: 1, secret: [1, 2], catch_up: Span::ZERO, most_queued: None, names })?;
        let [source, destination] = hosts.map(|host| host.parse().expect("an address"));
        Ok(rules.classify(&Fields { hosts: Hosts::V4 { source, destination }, ..Fields::default() }).class.0)
    }

    #[test]
    fn names_are_their_addresses_and_two_keys_mean_both_ends() {
        let (device, site) =
            (Named::Device("laptop".parse().unwrap()), Named::Answered("*.example.com".parse().unwrap()));
        let named = [(device, "192.0.2.7"), (site.clone(), "198.51.100.1"), (site, "198.51.100.2")];
        let rule = "host-name = \"laptop\"\ndns-name = \"*.example.com\"";
        for (hosts, class) in [
            (["192.0.2.7", "198.51.100.2"], 1),
            (["198.51.100.1", "192.0.2.7"], 1),
            (["192.0.2.8", "198.51.100.1"], 0),
            (["192.0.2.7", "198.51.100.3"], 0),
        ] {
            assert_eq!(class_of(rule, &named, hosts), Ok(class), "{hosts:?}");
        }
        let failure = class_of("dns-name = \"example.com\"", &named, ["192.0.2.7", "198.51.100.1"]).unwrap_err();
        assert!(failure.to_string().contains("nobody sees answers of the Domain Name System here"), "{failure}");
    }

    #[test]
    fn without_neighbours_the_way_out_is_told() {
        let failure = classes("mac = \"02:00:5e:00:53:01\"", None).expect_err("nobody knows neighbours");
        assert!(failure.to_string().contains("write `host` with its addresses"), "{failure}");
    }

    /// In the order of the file, each once; by the numbers of the data path where it has others than those of names.
    #[test]
    fn an_image_has_the_groups_and_interfaces_of_its_rules() {
        let text = "version = 1\n[[class]]\nname = \"a\"\nrate = \"1mbit\"\ndefault = true\n\
                    [[rule]]\nclass = \"a\"\nfrom-interface = [\"lan1\", \"lan0\"]\n\
                    [[rule]]\nclass = \"a\"\ncgroup = \"voice\"\n\
                    [[rule]]\nclass = \"a\"\nport = 7\nfrom-interface = \"lan0\"\n";
        let (source, mut diagnostics) = (Source::new("groups.toml", text), Diagnostics::new());
        let config =
            shaper::load(&source, &mut diagnostics).unwrap_or_else(|| panic!("{}", diagnostics.render(&source)));
        let names = Names {
            interfaces: Some([("lan0".into(), 1 << 63 | 5)].into()),
            cgroups: [("voice".into(), 77)].into(),
            ..Names::default()
        };
        assert_eq!(
            groups(config.rules.iter().map(|rule| &rule.matches), &names),
            [interface_number("lan1"), 1 << 63 | 5, 77]
        );
    }

    #[test]
    fn an_interface_is_known_where_packets_have_it() {
        assert_ne!(interface_number("lan0"), interface_number("lan1"));
        let failure = classes("from-interface = \"lan0\"", None).expect_err("nobody knows interfaces");
        assert!(failure.to_string().contains("write `source` with the addresses behind it"), "{failure}");
    }
}
