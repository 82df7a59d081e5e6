//! [`Names`]: the names of hosts, from files of this machine and, if requested, from its resolver.
//!
//! The caller waits neither for a file nor for the resolver: files are read, and look-ups run, on threads of their own, and
//! what they find is used when it is there. A look-up that has taken longer than [`LIMIT`] counts as an address without a
//! name, and no more than [`AT_ONCE`] threads wait for the resolver, whatever it does.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, open};

/// Files are read again after this time.
const FILES: Duration = Duration::from_secs(30);
/// The most bytes that are read of a file with names.
const MOST_OF_FILE: u64 = 1 << 20;
/// The longest that a look-up is waited for.
const LIMIT: Duration = Duration::from_secs(5);
/// The result of a look-up is used for this long, that there is no name as well.
const KEPT: Duration = Duration::from_secs(600);
/// The most look-ups at a time.
const AT_ONCE: usize = 4;
/// The most addresses whose look-ups are remembered.
const MOST: usize = 1_024;

/// Files in the form of hosts(5), and the leases of DHCP servers, each with the function that reads its form.
const PATHS: [(&str, Parse); 6] = [
    ("/etc/hosts", hosts),
    ("/var/lib/misc/dnsmasq.leases", dnsmasq),
    ("/var/lib/kea/kea-leases4.csv", kea),
    ("/var/lib/kea/kea-leases6.csv", kea),
    ("/var/lib/dhcp/dhcpd.leases", dhcpd),
    ("/var/lib/dhcpd/dhcpd.leases", dhcpd),
];
/// Those of OpenWrt, in a directory where everybody may make files.
const PATHS_OF_OPENWRT: [(&str, Parse); 2] = [("/tmp/hosts/odhcpd", hosts), ("/tmp/dhcp.leases", dnsmasq)];

type Parse = fn(&str) -> Vec<(IpAddr, String)>;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Names {
    read: fn() -> Written,
    written: Written,
    /// When files were read last, and what its thread found.
    reading: Option<(Instant, Arc<OnceLock<Written>>)>,
    resolver: Resolver,
}

type Written = BTreeMap<IpAddr, String>;

impl Default for Names {
    fn default() -> Self {
        Self::new(written, Resolver::new(of_system))
    }
}

impl Names {
    fn new(read: fn() -> Written, resolver: Resolver) -> Self {
        let mut names = Self { read, written: Written::new(), reading: None, resolver };
        names.refresh(Instant::now());
        names
    }

    /// The name of a host; with `reverse_lookup` also by the resolver, once it has answered.
    pub fn of(&mut self, address: IpAddr, reverse_lookup: bool) -> Option<String> {
        let now = Instant::now();
        self.refresh(now);
        let written = self.written.get(&address).cloned();
        written.or_else(|| if reverse_lookup { self.resolver.name(address, now) } else { None })
    }

    /// Takes the names that a thread has read, and begins to read anew when that is due. At most one thread reads.
    fn refresh(&mut self, now: Instant) {
        if let Some((begun, found)) = &mut self.reading {
            match Arc::get_mut(found) {
                Some(found) => self.written = found.take().unwrap_or_else(|| std::mem::take(&mut self.written)),
                None => return,
            }
            if now.duration_since(*begun) <= FILES {
                return;
            }
        }
        let found = Arc::<OnceLock<Written>>::default();
        let (read, result) = (self.read, Arc::clone(&found));
        // Without a thread the names stay as they are until the next time.
        let _ = std::thread::Builder::new().name("names".into()).spawn(move || result.set(read()));
        self.reading = Some((now, found));
    }
}

/// The names in files. An absent file has none.
fn written() -> Written {
    let is_openwrt = Path::new("/etc/openwrt_release").exists();
    let found = paths(is_openwrt).flat_map(|(path, parse)| parse(&text(Path::new(path), is_openwrt)));
    found.filter_map(|(address, name)| Some((address, valid(&name)?))).collect()
}

fn paths(is_openwrt: bool) -> impl Iterator<Item = &'static (&'static str, Parse)> {
    PATHS.iter().chain(PATHS_OF_OPENWRT.iter().filter(move |_| is_openwrt))
}

/// The beginning of a regular file that not everybody may write, or nothing. Where others may make files in its directory
/// (`shared`), it is no symbolic link, and belongs to root or to the user of this process.
fn text(path: &Path, shared: bool) -> String {
    // A named pipe without a writer must not be waited for.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let flags = if shared { flags | OFlags::NOFOLLOW } else { flags };
    let mut text = Vec::new();
    if let Ok(file) = open(path, flags, Mode::empty()).map(File::from)
        && let Ok(data) = file.metadata()
        && data.is_file()
        && data.mode() & 0o002 == 0
        && (!shared || [0, rustix::process::geteuid().as_raw()].contains(&data.uid()))
    {
        let _ = file.take(MOST_OF_FILE).read_to_end(&mut text);
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// A name as hosts may have it. A client of DHCP, and whoever answers for an address, can send anything, also control
/// sequences of a terminal.
fn valid(name: &str) -> Option<String> {
    let name = name.trim_end_matches('.');
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    (!name.is_empty() && name.len() <= 253 && name.chars().all(allowed)).then(|| name.to_owned())
}

/// An address and its names; `#` begins a comment.
fn hosts(text: &str) -> Vec<(IpAddr, String)> {
    let of = |line: &str| {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        Some((words.next()?.parse().ok()?, words.next()?.to_owned()))
    };
    text.lines().filter_map(of).collect()
}

/// dnsmasq: expiry, hardware address, address, name, client; `*` is no name.
fn dnsmasq(text: &str) -> Vec<(IpAddr, String)> {
    let of = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        Some((words.get(2)?.parse().ok()?, (*words.get(3)?).to_owned()))
    };
    text.lines().filter_map(of).collect()
}

/// Kea: values with commas between them, the first line has their names; a later line replaces an earlier one.
fn kea(text: &str) -> Vec<(IpAddr, String)> {
    let mut lines = text.lines();
    let heads: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let place = |name: &str| heads.iter().position(|head| *head == name);
    let (Some(address), Some(name)) = (place("address"), place("hostname")) else { return Vec::new() };
    let of = |line: &str| {
        let values: Vec<&str> = line.split(',').collect();
        Some((values.get(address)?.parse().ok()?, (*values.get(name)?).to_owned()))
    };
    lines.filter_map(of).collect()
}

/// ISC dhcpd: `lease ADDRESS {` with `client-hostname "NAME";` before the next one.
fn dhcpd(text: &str) -> Vec<(IpAddr, String)> {
    let (mut leases, mut lease) = (Vec::new(), None);
    for line in text.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("lease ") {
            lease = address.split_whitespace().next().and_then(|address| address.parse().ok());
        } else if let (Some(name), Some(address)) = (line.strip_prefix("client-hostname \""), lease) {
            leases.push((address, name.trim_end_matches(';').trim_end_matches('"').to_owned()));
        }
    }
    leases
}

/// Asks the resolver of the system (nsswitch.conf(5), resolv.conf(5)), and waits for it.
fn of_system(address: IpAddr) -> Option<String> {
    dns_lookup::lookup_addr(&address).ok()
}

/// Look-ups under way, and the results of earlier ones.
#[derive(Debug)]
struct Resolver {
    look_up: fn(IpAddr) -> Option<String>,
    known: HashMap<IpAddr, LookUp>,
    under_way: Arc<AtomicUsize>,
}

/// The last look-up of an address.
#[derive(Debug)]
struct LookUp {
    begun: Instant,
    /// Set by its thread.
    answer: Arc<OnceLock<Option<String>>>,
    /// The result of the look-up before, until this one has one.
    before: Option<String>,
}

impl LookUp {
    /// The name as it is known `now`: none where the limit is over without an answer.
    fn name(&self, now: Instant) -> Option<String> {
        match self.answer.get() {
            Some(answer) => answer.clone(),
            None if now.duration_since(self.begun) < LIMIT => self.before.clone(),
            None => None,
        }
    }
}

impl Resolver {
    fn new(look_up: fn(IpAddr) -> Option<String>) -> Self {
        Self { look_up, known: HashMap::new(), under_way: Arc::default() }
    }

    /// The name of `address` if it is known, and begins a look-up where none is remembered.
    fn name(&mut self, address: IpAddr, now: Instant) -> Option<String> {
        if let Some(known) = self.known.get(&address)
            && now.duration_since(known.begun) < KEPT
        {
            return known.name(now);
        }
        let before = self.known.get(&address).and_then(|known| known.name(now));
        if self.known.len() >= MOST {
            self.known.retain(|_, known| now.duration_since(known.begun) < KEPT);
        }
        if self.known.len() >= MOST || self.under_way.load(Ordering::Acquire) >= AT_ONCE {
            return before;
        }
        let answer = Arc::<OnceLock<Option<String>>>::default();
        let (look_up, under_way, answered) = (self.look_up, Arc::clone(&self.under_way), Arc::clone(&answer));
        under_way.fetch_add(1, Ordering::AcqRel);
        let thread = std::thread::Builder::new().name("name".into()).spawn(move || {
            let name = look_up(address).as_deref().and_then(valid);
            // Only this thread sets it.
            let _ = answered.set(name);
            under_way.fetch_sub(1, Ordering::AcqRel);
        });
        if thread.is_err() {
            self.under_way.fetch_sub(1, Ordering::AcqRel);
        }
        self.known.insert(address, LookUp { begun: now, answer, before: before.clone() });
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicU32;

    fn host(n: u8) -> IpAddr {
        [192, 0, 2, n].into()
    }

    #[test]
    fn leases_have_names() {
        let one = |name: &str| vec![(host(7), name.to_owned())];
        assert_eq!(dnsmasq("1700000000 00:11:22:33:44:55 192.0.2.7 laptop 01:00\nnonsense\n"), one("laptop"));
        assert_eq!(hosts("# 192.0.2.9 no\n192.0.2.7 laptop laptop.lan # yes\n"), one("laptop"));
        let text = "address,hwaddr,client_id,valid_lifetime,expire,subnet_id,fqdn_fwd,fqdn_rev,hostname,state\n\
                    192.0.2.7,00:11:22:33:44:55,,3600,1700000000,1,0,0,laptop.lan.,0\n";
        assert_eq!(kea(text), one("laptop.lan."));
        assert_eq!(kea("192.0.2.7,laptop\n"), vec![]);
        let text = "lease 192.0.2.6 {\n  binding state free;\n}\nlease 192.0.2.7 {\n  starts 4;\n  \
                    client-hostname \"laptop\";\n}\n";
        assert_eq!(dhcpd(text), one("laptop"));
    }

    #[test]
    fn a_name_is_one_that_a_host_may_have() {
        assert_eq!(valid("laptop.lan."), Some("laptop.lan".into()));
        for name in ["", "*", ".", "a b", "\u{1b}[2J", "ü", &"a".repeat(254)] {
            assert_eq!(valid(name), None, "{name:?}");
        }
    }

    /// A directory of a test, removed at its end.
    struct Directory(std::path::PathBuf);

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn names_are_read_from_regular_files_that_nobody_else_made() {
        use std::fs::{Permissions, set_permissions};
        use std::os::unix::fs::{PermissionsExt, chown, symlink};
        let directory = Directory(std::env::temp_dir().join(format!("tidegate-names-{}", std::process::id())));
        std::fs::create_dir_all(&directory.0).unwrap();
        let path = |name: &str| directory.0.join(name);
        for (name, mode) in [("own", 0o644), ("everybodys", 0o646), ("anothers", 0o644)] {
            std::fs::write(path(name), "1 0 192.0.2.7 laptop 0\n").unwrap();
            set_permissions(path(name), Permissions::from_mode(mode)).unwrap();
        }
        symlink(path("own"), path("link")).unwrap();
        let made = std::process::Command::new("mkfifo").arg(path("pipe")).status().unwrap();
        assert!(made.success());
        assert!(paths(true).any(|(path, _)| path.starts_with("/tmp/")));
        assert!(!paths(false).any(|(path, _)| path.starts_with("/tmp/")));
        let there = |name: &str, shared| !text(&path(name), shared).is_empty();
        for (name, alone, shared) in
            [("own", true, true), ("everybodys", false, false), ("link", true, false), ("pipe", false, false)]
        {
            assert_eq!((there(name, false), there(name, true)), (alone, shared), "{name}");
        }
        if rustix::process::geteuid().is_root() {
            chown(path("anothers"), Some(1_000), None).unwrap();
            assert_eq!(
                (there("anothers", false), there("anothers", true)),
                (true, false),
                "a service may own its file"
            );
        }
    }

    #[test]
    fn files_that_hang_hold_one_thread_and_nobody_else() {
        static HANGS: Mutex<()> = Mutex::new(());
        let held = HANGS.lock().unwrap();
        let read = || {
            drop(HANGS.lock());
            Written::from([(host(7), "laptop".into())])
        };
        let mut names = Names::new(read, Resolver::new(|_| None));
        names.refresh(Instant::now() + 2 * FILES);
        let threads = names.reading.as_ref().map(|(_, found)| Arc::strong_count(found) - 1);
        assert_eq!((names.of(host(7), false), threads), (None, Some(1)));
        drop(held);
        while names.of(host(7), false).is_none() {
            std::thread::yield_now();
        }
        names.refresh(Instant::now() + 2 * FILES);
        assert_eq!(names.of(host(7), false), Some("laptop".into()), "it is known while files are read anew");
    }

    /// Asks until the thread of the look-up has ended.
    fn answered(resolver: &mut Resolver, address: IpAddr, now: Instant) -> Option<String> {
        while resolver.under_way.load(Ordering::Acquire) > 0 {
            std::thread::yield_now();
        }
        resolver.name(address, now)
    }

    #[test]
    fn a_look_up_is_remembered_and_repeated() {
        static ASKED: AtomicU32 = AtomicU32::new(0);
        let mut resolver = Resolver::new(|address| match ASKED.fetch_add(1, Ordering::Relaxed) {
            0 => Some(format!("first-{address}")),
            1 => Some("second".into()),
            _ => None,
        });
        let begin = Instant::now();
        assert_eq!(resolver.name(host(1), begin), None, "nobody waits");
        assert_eq!(answered(&mut resolver, host(1), begin), Some("first-192.0.2.1".into()));
        assert_eq!(resolver.name(host(1), begin + KEPT / 2), Some("first-192.0.2.1".into()));
        assert_eq!(ASKED.load(Ordering::Relaxed), 1);
        // The old name until there is another.
        assert_eq!(resolver.name(host(1), begin + KEPT), Some("first-192.0.2.1".into()));
        assert_eq!(answered(&mut resolver, host(1), begin + KEPT), Some("second".into()));
        resolver.name(host(1), begin + 2 * KEPT);
        assert_eq!(answered(&mut resolver, host(1), begin + 2 * KEPT), None);
        assert_eq!(
            resolver.name(host(1), begin + 2 * KEPT + KEPT / 2),
            None,
            "that there is no name is remembered, too"
        );
        assert_eq!(ASKED.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn a_resolver_that_hangs_holds_four_threads_and_nobody_else() {
        static HANGS: Mutex<()> = Mutex::new(());
        let mut resolver = Resolver::new(|_| {
            drop(HANGS.lock());
            Some("late".into())
        });
        let held = HANGS.lock().unwrap();
        let begin = Instant::now();
        for n in 0..50 {
            assert_eq!(resolver.name(host(n), begin), None);
        }
        assert_eq!((resolver.known.len(), resolver.under_way.load(Ordering::Acquire)), (AT_ONCE, AT_ONCE));
        assert_eq!(resolver.name(host(0), begin + 2 * LIMIT), None, "it counts as an address without a name");
        drop(held);
        assert_eq!(answered(&mut resolver, host(0), begin + 2 * LIMIT), Some("late".into()));
        resolver.name(host(9), begin + 2 * LIMIT);
        assert_eq!(answered(&mut resolver, host(9), begin + 2 * LIMIT), Some("late".into()));
    }
}
