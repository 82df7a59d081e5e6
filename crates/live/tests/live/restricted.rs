//! A process without privileges that it does not need.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::mpsc::channel;

use rustix::mount::MountFlags;
use rustix::net::{AddressFamily, SocketType};
use tidegate_live::netlink::{Protocol, Socket};
use tidegate_live::netns::Namespace;
use tidegate_live::nfqueue::{Outcome, QueueSettings, QueueSocket};
use tidegate_live::nft;
use tidegate_live::privileges::{
    Calls, Capabilities, LOADER, Privileges, Restriction, SHAPER, Scope, needed, restrict,
};
use tidegate_live::rtnl::Rtnl;
use tidegate_live::rules::{Rules, Spec};
use tidegate_live::timing::Priority;

use crate::queue::{PATIENCE, QUEUE};
use tidegate_testbed::Ended;
use tidegate_testbed::harness::Child;
use tidegate_testbed::veth::{DEVICE, Pair};

/// Does `work` in a process that has given up privileges, in the left namespace.
fn restricted(pair: &Pair, calls: Calls<'_>, work: impl FnOnce()) {
    let (mut ended, mut tell) = UnixStream::pair().unwrap();
    let child = Child::fork(|| {
        pair.left.enter_thread().unwrap();
        let result = restrict(&Restriction { keep: SHAPER, calls, scope: Scope::Process });
        assert_eq!((&result.capabilities, &result.no_new_privs), (&Outcome::InForce, &Outcome::InForce));
        assert_eq!(result.calls, Outcome::InForce);
        work();
        tell.write_all(b"d").unwrap();
        0
    });
    drop(tell);
    ended.set_read_timeout(Some(PATIENCE)).unwrap();
    let done = ended.read_exact(&mut [0]);
    child.kill();
    done.expect("the process has done everything");
}

pub fn a_restricted_process_shapes_and_does_nothing_else() -> Ended {
    let pair = Pair::new();
    restricted(&pair, Calls::Program, || {
        let mut queue = QueueSocket::open(1 << 20).unwrap();
        queue.bind(QUEUE, &QueueSettings::default()).unwrap();
        let mut rules = Rules::install(&Spec::new(DEVICE, QUEUE)).unwrap();
        assert_eq!(rules.verify().unwrap(), []);
        rules.remove().unwrap();
        let index = Rtnl::open().unwrap().index(DEVICE).unwrap();
        Rtnl::open().unwrap().rename(index, "other0").unwrap();
        // Threads are made, and have no more.
        std::thread::spawn(|| {
            assert!(nft::tables(&mut Socket::open(Protocol::Netfilter).unwrap()).unwrap().is_empty())
        })
        .join()
        .unwrap();
        let found = Privileges::in_force().unwrap();
        assert!(
            SHAPER.contains(found.capabilities) && found.capabilities.contains(Capabilities::NET_ADMIN),
            "{found:?}"
        );
        assert!(found.no_new_privs && found.filtered);
        // What an attacker would do next.
        let refused = |what: &str, result: std::io::Result<()>| {
            let error = result.expect_err(what);
            assert_eq!(error.raw_os_error(), Some(libc::EPERM), "{what}: {error}");
        };
        refused("a namespace", Namespace::create().map(drop));
        refused("another namespace", Namespace::current().unwrap().enter_thread());
        refused("a vsock", socket(libc::AF_VSOCK));
        let of_rustix = |result: rustix::io::Result<()>| result.map_err(std::io::Error::from);
        refused("a mount", of_rustix(rustix::mount::mount("none", "/nosuch", "tmpfs", MountFlags::empty(), None)));
        refused("a trace", nix::sys::ptrace::attach(nix::unistd::getppid()).map_err(std::io::Error::from));
        refused("a program of BPF", tidegate_sys::bpf::Types::load(&[]).map(drop));
        refused("another root", of_rustix(rustix::process::chroot("/")));
        // A program that it runs inherits all of that.
        let output = Command::new("cat").arg("/proc/self/status").output().unwrap();
        let status = String::from_utf8(output.stdout).unwrap();
        assert!(status.contains("NoNewPrivs:\t1") && status.contains("Seccomp:\t2"), "{status}");
    });
    Ended::Passed
}

/// As a process that only reads and writes is.
pub fn only_the_calls_that_were_named_are_left() -> Ended {
    let pair = Pair::new();
    // The standard library sends on a stream socket.
    let calls = [libc::SYS_write, libc::SYS_sendto, libc::SYS_exit_group];
    restricted(&pair, Calls::Only(&calls), || {
        assert_eq!(socket(libc::AF_UNIX).unwrap_err().raw_os_error(), Some(libc::EPERM));
    });
    Ended::Passed
}

/// The thread that loads programs keeps what that takes, while the rest of the process has given it up.
pub fn a_thread_restricts_itself_apart_from_the_others() -> Ended {
    let pair = Pair::new();
    let child = Child::fork(|| {
        pair.left.enter_thread().unwrap();
        let loaded = || tidegate_sys::bpf::Types::load(&[]).expect_err("no types").raw_os_error();
        let mounted = || rustix::mount::mount("none", "/nosuch", "tmpfs", MountFlags::empty(), None);
        let before = loaded();
        let (restricted, is_restricted) = channel();
        let (go_on, goes_on) = channel::<()>();
        let loader = std::thread::spawn(move || {
            let result = restrict(&Restriction { keep: LOADER, calls: Calls::Loader, scope: Scope::Thread });
            assert_eq!((&result.capabilities, &result.calls), (&Outcome::InForce, &Outcome::InForce));
            restricted.send(()).unwrap();
            goes_on.recv().unwrap();
            assert_eq!(loaded(), before, "it may do as it might");
            assert_eq!(mounted(), Err(rustix::io::Errno::PERM));
        });
        is_restricted.recv().unwrap();
        let result = restrict(&Restriction { keep: SHAPER, calls: Calls::Program, scope: Scope::Thread });
        assert_eq!((&result.capabilities, &result.calls), (&Outcome::InForce, &Outcome::InForce));
        assert_eq!(loaded(), Some(libc::EPERM), "the rest of the process may not");
        let found = Privileges::in_force().unwrap();
        assert!(found.capabilities.contains(Capabilities::BPF) && found.filtered, "{found:?}");
        go_on.send(()).unwrap();
        loader.join().unwrap();
        let found = Privileges::in_force().unwrap();
        assert!(SHAPER.contains(found.capabilities) && SHAPER.contains(found.bounding_set), "{found:?}");
        0
    });
    assert_eq!(ended(&child), Ok(0));
    Ended::Passed
}

pub fn files_of_others_need_a_capability() -> Ended {
    let pair = Pair::new();
    let directory = std::env::temp_dir().join(format!("tidegate-restricted-{}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    let file = directory.join("file");
    std::fs::write(&file, "").unwrap();
    let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(&file, mode(0o000)).unwrap();
    let child = Child::fork(|| {
        pair.left.enter_thread().unwrap();
        let (both, new) = (Capabilities::DAC_READ_SEARCH | Capabilities::DAC_OVERRIDE, directory.join("new"));
        assert!(needed(&[&file], &[&file], Priority::Normal).unwrap().contains(both));
        assert!(!needed(&[&directory], &[&new], Priority::Normal).unwrap().contains(Capabilities::DAC_OVERRIDE));
        std::fs::set_permissions(&directory, mode(0o555)).unwrap();
        assert!(needed(&[], &[&new], Priority::Normal).unwrap().contains(Capabilities::DAC_OVERRIDE));
        0
    });
    let ended = ended(&child);
    std::fs::set_permissions(&directory, mode(0o755)).unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    assert_eq!(ended, Ok(0));
    Ended::Passed
}

/// How a process ends.
fn ended(child: &Child) -> Result<i32, i32> {
    let began = std::time::Instant::now();
    loop {
        match child.try_wait() {
            Some(ended) => return ended,
            None => assert!(began.elapsed() < PATIENCE),
        }
    }
}

fn socket(family: i32) -> std::io::Result<()> {
    Ok(rustix::net::socket(AddressFamily::from_raw(family as u16), SocketType::DGRAM, None).map(drop)?)
}
