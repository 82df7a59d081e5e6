//! [`Leases`]: the names of hosts in files of this machine: `/etc/hosts`, and the leases of DHCP servers.
//!
//! Nobody waits for a file: they are read on a thread of their own, and what it finds is used when it is there. A device chooses
//! its name, so that a name proves nothing, and only names that hosts may have are read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, open};

/// The most bytes that are read of a file with names.
const MOST_OF_FILE: u64 = 1 << 20;

/// Files in the form of hosts(5), and the leases of DHCP servers, each with the function that reads its form.
const PATHS: [(&str, Parse); 6] = [
    ("/etc/hosts", hosts),
    ("/var/lib/misc/dnsmasq.leases", dnsmasq),
    ("/var/lib/kea/kea-leases4.csv", kea),
    ("/var/lib/kea/kea-leases6.csv", kea),
    ("/var/lib/dhcp/dhcpd.leases", dhcpd),
    ("/var/lib/dhcpd/dhcpd.leases", dhcpd),
];
/// The files of OpenWrt, in a directory where everybody may make files.
const PATHS_OF_OPENWRT: [(&str, Parse); 2] = [("/tmp/hosts/odhcpd", hosts), ("/tmp/dhcp.leases", dnsmasq)];

type Parse = fn(&str) -> Vec<(IpAddr, String)>;

/// Names by address.
pub type Written = BTreeMap<IpAddr, String>;

/// See the [module](self).
#[derive(Debug)]
pub struct Leases {
    read: fn() -> Written,
    every: Duration,
    written: Written,
    /// When files were read last, and what its thread found.
    reading: Option<(Instant, Arc<OnceLock<Written>>)>,
}

impl Leases {
    /// Begins to read the files, and reads them again after `every`.
    pub fn new(every: Duration) -> Self {
        Self::read_by(read, every)
    }

    /// As [`new`](Self::new), with a function that reads the files.
    pub fn read_by(read: fn() -> Written, every: Duration) -> Self {
        let mut leases = Self { read, every, written: Written::new(), reading: None };
        leases.refresh(Instant::now());
        leases
    }

    /// The names that were found last.
    pub fn names(&self) -> &Written {
        &self.written
    }

    /// Takes the names that a thread has read, and begins to read anew when that is due. At most one thread reads.
    pub fn refresh(&mut self, now: Instant) {
        if let Some((begun, found)) = &mut self.reading {
            match Arc::get_mut(found) {
                Some(found) => self.written = found.take().unwrap_or_else(|| std::mem::take(&mut self.written)),
                None => return,
            }
            if now.duration_since(*begun) <= self.every {
                return;
            }
        }
        let found = Arc::<OnceLock<Written>>::default();
        let (read, result) = (self.read, Arc::clone(&found));
        // Without a thread the names stay as they are until the next time.
        let _ = std::thread::Builder::new().name("names".into()).spawn(move || result.set(read()));
        self.reading = Some((now, found));
    }

    /// Waits until the files have been read, for `longest` at most.
    pub fn wait(&mut self, longest: Duration) {
        let until = Instant::now() + longest;
        while self.reading.as_ref().is_some_and(|(_, found)| Arc::strong_count(found) > 1) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.refresh(Instant::now());
    }
}

/// The names in files. An absent file has none.
pub fn read() -> Written {
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
pub fn valid(name: &str) -> Option<String> {
    let name = name.trim_end_matches('.');
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    (!name.is_empty() && name.len() <= 253 && name.chars().all(allowed)).then(|| name.to_owned())
}

/// An address and its names; `#` begins a comment.
pub fn hosts(text: &str) -> Vec<(IpAddr, String)> {
    let of = |line: &str| {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        Some((words.next()?.parse().ok()?, words.next()?.to_owned()))
    };
    text.lines().filter_map(of).collect()
}

/// dnsmasq: expiry, hardware address, address, name, client; `*` is no name.
pub fn dnsmasq(text: &str) -> Vec<(IpAddr, String)> {
    let of = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        Some((words.get(2)?.parse().ok()?, (*words.get(3)?).to_owned()))
    };
    text.lines().filter_map(of).collect()
}

/// Kea: values with commas between them, the first line has their names; a later line replaces an earlier one.
pub fn kea(text: &str) -> Vec<(IpAddr, String)> {
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
pub fn dhcpd(text: &str) -> Vec<(IpAddr, String)> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

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
        let every = Duration::from_secs(30);
        let held = HANGS.lock().unwrap();
        let read = || {
            drop(HANGS.lock());
            Written::from([(host(7), "laptop".into())])
        };
        let mut leases = Leases::read_by(read, every);
        leases.refresh(Instant::now() + 2 * every);
        leases.wait(Duration::from_millis(10));
        let threads = leases.reading.as_ref().map(|(_, found)| Arc::strong_count(found) - 1);
        assert_eq!((leases.names().len(), threads), (0, Some(1)));
        drop(held);
        leases.wait(Duration::from_secs(60));
        assert_eq!(leases.names().get(&host(7)).map(String::as_str), Some("laptop"));
        leases.refresh(Instant::now() + 2 * every);
        assert_eq!(leases.names().len(), 1, "it is known while files are read anew");
    }
}
