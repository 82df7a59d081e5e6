//! Promises to users and control groups.

use std::io::Write;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use tidegate_control::calls::{PromiseCall, Target};
use tidegate_control::{Code, EventKind, Pushed};
use tidegate_testbed::topology::Pair;
use tidegate_units::Rate;

use crate::promises::CHILD;
use crate::running::{OTHER, PATIENCE, Running, SHAPER, is_root_of_the_machine, refusal};
use tidegate_testbed::Ended;

pub fn a_promise_to_a_user_applies_to_no_other() -> Ended {
    if !is_root_of_the_machine() {
        return Ended::Skipped("only root of the machine can be two users".into());
    }
    let pair = Pair::create().unwrap();
    let running = Running::start(&pair, SHAPER);
    let call = PromiseCall {
        minimum: Some(Rate::from_mbit(3)),
        class: Some("media".into()),
        target: Target { uid: Some(OTHER), ..Target::default() },
        ..PromiseCall::default()
    };
    let mut client = running.client();
    let given = client.promise(&call).unwrap();
    assert_eq!((given.state.flows, given.state.held), (0, 1));
    let socket = |uid: u32| {
        let bind = move || {
            tidegate_sys::process::set_file_user(uid);
            UdpSocket::bind("10.77.0.1:0").unwrap()
        };
        pair.sender.namespace.run(bind).unwrap()
    };
    let (own, of_root) = (socket(OTHER), socket(0));
    of_root.send_to(&[0; 100], "10.77.0.2:5000").unwrap();
    own.send_to(&[0; 100], "10.77.0.2:5000").unwrap();
    let deadline = Instant::now() + PATIENCE;
    let flow = loop {
        assert!(Instant::now() < deadline, "he is never promised anything");
        match client.next_push(Some(Duration::from_millis(100))).unwrap() {
            Some((_, Pushed::Event(event))) if event.kind == EventKind::Promised => {
                break event.flow.expect("of a flow");
            }
            _ => {}
        }
    };
    assert_eq!((flow.uid, flow.source_port), (Some(OTHER), Some(own.local_addr().unwrap().port())));
    assert_eq!(running.client().promises().unwrap()[0].flows, 1, "that of root is not his");
    Ended::Passed
}

/// A control group that is removed when this is dropped.
struct Group {
    path: PathBuf,
    below_root: String,
}

impl Group {
    fn create() -> Result<Self, String> {
        let root = Path::new("/sys/fs/cgroup");
        // On some machines the unified hierarchy is beside the older ones.
        let below = if root.join("cgroup.procs").exists() { "" } else { "unified/" };
        let below_root = format!("{below}tidegate-test-{}", std::process::id());
        let path = root.join(&below_root);
        std::fs::create_dir(&path).map_err(|error| format!("no control group can be made here: {error}"))?;
        let group = Self { path, below_root };
        match group.path.join("cgroup.procs").exists() {
            true => Ok(group),
            false => Err("there are no control groups of the second version".into()),
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(5);
        while std::fs::remove_dir(&self.path).is_err() && self.path.exists() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(20));
        }
    }
}

pub fn a_control_group_has_its_promise() -> Ended {
    let group = match Group::create() {
        Ok(group) => group,
        Err(reason) => return Ended::Skipped(reason),
    };
    let pair = Pair::create().unwrap();
    let running = Running::start(&pair, SHAPER);
    let mut command = pair.sender.namespace.command("bash").unwrap();
    command.args(["-c", CHILD]);
    let Ok(mut child) = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn() else {
        return Ended::Skipped("there is no bash".into());
    };
    if let Err(error) = std::fs::write(group.path.join("cgroup.procs"), child.id().to_string()) {
        child.kill().unwrap();
        child.wait().unwrap();
        return Ended::Skipped(format!("a process cannot be put into a control group here: {error}"));
    }
    let call = PromiseCall {
        minimum: Some(Rate::from_mbit(4)),
        class: Some("media".into()),
        target: Target { cgroup: Some(group.below_root.clone()), ..Target::default() },
        ..PromiseCall::default()
    };
    let mut client = running.client();
    let given = client.promise(&call);
    let mut found = false;
    if given.is_ok() {
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        let deadline = Instant::now() + PATIENCE;
        while !found && Instant::now() < deadline {
            if let Some((_, Pushed::Event(event))) = client.next_push(Some(Duration::from_millis(200))).unwrap() {
                found = event.kind == EventKind::Promised && event.minimum == Some(Rate::from_mbit(4));
            }
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(given.unwrap().state.held, 1);
    assert!(found, "a flow of the group is promised its minimum");
    let missing = Target { cgroup: Some("tidegate-test/not-there".into()), ..Target::default() };
    let refused = refusal(client.promise(&PromiseCall { target: missing, ..call }).unwrap_err());
    assert!(refused.code == Code::NotFound && refused.help.is_some(), "{refused}");
    Ended::Passed
}
