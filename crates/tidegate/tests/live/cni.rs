//! `tidegate cni` and `tidegate oci` as container runtimes call them, and as the tools of the CNI project and runc do.

use std::io::Write;
use std::os::unix::fs::symlink;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tidegate_testbed::Ended;
use tidegate_testbed::veth::{LEFT, RIGHT};

use crate::steer::stage::{Finished, Stage, finished};

const SHAPER: &str = r#"version = 1

[shaper]
rate = "6mbit"

[[class]]
name = "media"
rate = "3mbit"

[[class]]
name = "rest"
rate = "1mbit"
default = true
"#;

/// The result of the plugin that made the interface of the container.
fn previous() -> Value {
    json!({ "cniVersion": "1.0.0", "ips": [{ "address": format!("{}/24", LEFT[0]), "interface": 0 }], "dns": {} })
}

fn start(control: &str, command: &str, container: &str, more: &Value) -> Child {
    let mut network = json!({
        "cniVersion": "1.0.0", "name": "pods", "type": "tidegate-cni", "control": control, "prevResult": previous(),
    });
    network.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let mut plugin = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    plugin.arg("cni").env("CNI_COMMAND", command).env("CNI_CONTAINERID", container).env("CNI_IFNAME", "eth0");
    let mut child = plugin.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(network.to_string().as_bytes()).unwrap();
    child
}

/// The exit code, and what is printed.
fn end(child: Child) -> (i32, Value) {
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let value = if text.is_empty() { Value::Null } else { serde_json::from_str(&text).expect(&text) };
    (output.status.code().unwrap(), value)
}

pub fn a_container_has_its_terms_while_it_lives() -> Ended {
    let stage = Stage::new(SHAPER);
    let control = stage.scratch.path("control");
    let call = |command: &str, container: &str, more: Value| end(start(&control, command, container, &more));
    let file = || stage.does(&["status", "--file"]);
    assert_eq!(call("VERSION", "x", json!({})).1["supportedVersions"][3], "1.0.0");

    // Everybody may open the directory of the socket, and lock it.
    let theirs = std::fs::File::open(std::path::Path::new(&control).parent().unwrap()).unwrap();
    theirs.try_lock().expect("nobody else locks it");
    // A minimum and a ceiling: a class of its own, in which what it sends is.
    let terms = json!({ "minimum": "1mbit", "at-most": "2mbit" });
    assert_eq!(call("ADD", "abc", terms.clone()), (0, previous()));
    assert_eq!(stage.rate("cni-abc-eth0"), Some(1_000_000));
    assert!(file().contains("at-most = \"2mbit\""), "{}", file());
    let traffic = stage.traffic(6_000, 200);
    stage.until("traffic in the class of the container", |stage| {
        let status = stage.status();
        let classes = status["directions"][0]["classes"].as_array().unwrap();
        let class = classes.iter().find(|class| class["name"] == "cni-abc-eth0").unwrap();
        class["through_packets"].as_u64().unwrap() > 50
    });
    traffic.stop();
    assert_eq!(call("CHECK", "abc", terms.clone()), (0, Value::Null));
    // The same again replaces it.
    assert_eq!(call("ADD", "abc", terms.clone()).0, 0);
    assert_eq!(file().matches("cni-abc-eth0").count(), 3, "{}", file());

    // What does not fit is refused, with the reason, and leaves nothing.
    let before = file();
    let (code, said) = call("ADD", "greedy", json!({ "minimum": "2mbit" }));
    assert_eq!((code, &said["code"], &said["cniVersion"]), (1, &100.into(), &"1.0.0".into()), "{said}");
    assert!(said["msg"].as_str().is_some_and(|text| text.contains("7mbit")), "{said}");
    for (more, code, text) in [
        (json!({ "minimum": "1mbit", "class": "media" }), 7, "a class of its own"),
        (json!({ "at-most": "1mbit" }), 7, "without `class`"),
        (json!({ "class": "media", "at-most": "fast" }), 7, "at-most"),
        (json!({ "class": "nosuch" }), 100, "nosuch"),
        (json!({ "clas": "media" }), 7, "would be given nothing"),
        (json!({ "class": "media", "prevResult": null }), 7, "after the one that makes the interface"),
        (json!({ "class": "media", "cniVersion": "0.1.0" }), 1, "0.1.0"),
        (json!({ "class": "media", "control": "/nonexistent/socket" }), 11, "is it running?"),
    ] {
        let (status, said) = call("ADD", "wrong", more.clone());
        assert_eq!((status, &said["code"]), (1, &code.into()), "{more}: {said}");
        assert!(said["msg"].as_str().is_some_and(|said| said.contains(text)), "{more}: {said}");
    }
    assert_eq!(call("ADD", "../abc", terms.clone()).1["code"], 4);
    assert_eq!(file(), before);

    assert_eq!(call("DEL", "abc", terms.clone()), (0, Value::Null));
    assert_eq!(file(), SHAPER);
    assert_eq!(call("DEL", "abc", terms.clone()), (0, Value::Null), "also where nothing is left");
    assert_eq!(call("DEL", "abc", json!({ "control": "/nonexistent/socket" })), (0, Value::Null));
    assert_eq!(call("CHECK", "abc", terms).1["code"], 100);
    stage.end();
    Ended::Passed
}

/// A rule must not stay because the plugin cannot tell which shaper has it.
pub fn of_several_shapers_one_must_be_named() -> Ended {
    let scratch = tidegate_testbed::files::Folder::new("test");
    std::fs::create_dir(scratch.0.join("tidegate")).unwrap();
    let listen = |name: &str| std::os::unix::net::UnixListener::bind(scratch.0.join("tidegate").join(name)).unwrap();
    let _sockets = [listen("eth0.sock"), listen("eth1.sock")];
    for command in ["ADD", "DEL"] {
        let mut plugin = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        plugin.arg("cni").env("XDG_RUNTIME_DIR", &scratch.0);
        plugin.env("CNI_COMMAND", command).env("CNI_CONTAINERID", "abc").env("CNI_IFNAME", "eth0");
        let mut child = plugin.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let network = json!({ "cniVersion": "1.0.0", "name": "pods", "class": "rest", "prevResult": previous() });
        child.stdin.take().unwrap().write_all(network.to_string().as_bytes()).unwrap();
        let (code, said) = end(child);
        assert_eq!((code, &said["code"]), (1, &7.into()), "{command}: {said}");
        assert!(said["details"].as_str().is_some_and(|text| text.contains("`interface`")), "{said}");
    }
    Ended::Passed
}

pub fn annotations_set_what_the_network_permits() -> Ended {
    let stage = Stage::new(SHAPER);
    let control = stage.scratch.path("control");
    let file = || stage.does(&["status", "--file"]);
    let annotated = |permitted: Value| {
        json!({
            "class": "rest", "annotations": permitted,
            "runtimeConfig": { "io.kubernetes.cri.pod-annotations": {
                "tidegate/class": "media", "tidegate/at-most": "1mbit", "tidegate/minimum": "2mbit",
            } },
        })
    };
    let rule = |permitted: Value| {
        assert_eq!(end(start(&control, "ADD", "abc", &annotated(permitted))).0, 0);
        let file: toml::Table = file().parse().unwrap();
        let rule = &file["rule"][0];
        (rule["class"].as_str().unwrap().to_owned(), rule.get("at-most").is_some())
    };
    assert_eq!(rule(json!([])), ("rest".into(), false));
    assert_eq!(rule(json!(["class"])), ("media".into(), false));
    assert_eq!(rule(json!(["class", "at-most"])), ("media".into(), true));
    assert_eq!(end(start(&control, "ADD", "abc", &annotated(json!(["rate"])))).1["code"], 7);
    // Many that come and go at once do not remove each other's rules.
    let all = ["a", "b", "c", "d", "e"];
    let at_once = |command: &str| {
        let children: Vec<Child> =
            all.iter().map(|id| start(&control, command, id, &json!({ "class": "media" }))).collect();
        children.into_iter().for_each(|child| assert_eq!(end(child).0, 0));
    };
    at_once("ADD");
    for id in all {
        assert!(file().contains(&format!("cni-{id}-eth0")), "{}", file());
    }
    at_once("DEL");
    assert!(file().contains("cni-abc-eth0") && file().matches("[[rule]]").count() == 1, "{}", file());
    assert_eq!(end(start(&control, "DEL", "abc", &json!({}))).0, 0);
    assert_eq!(file(), SHAPER);
    stage.end();
    Ended::Passed
}

/// A shaper of both directions, whose rest has the same name in both.
const BOTH: &str = "version = 1\n\
    [up.shaper]\nrate = \"5mbit\"\n\
    [[up.class]]\nname = \"rest\"\nrate = \"5mbit\"\ndefault = true\n\
    [down.shaper]\nrate = \"20mbit\"\n\
    [[down.class]]\nname = \"rest\"\nrate = \"20mbit\"\ndefault = true\n";

pub fn a_container_is_shaped_in_both_directions() -> Ended {
    let stage = Stage::new(BOTH);
    let control = stage.scratch.path("control");
    let call = |command: &str, container: &str, more: Value| end(start(&control, command, container, &more));
    let file = |direction: &str| stage.does(&["status", "--file", "--direction", direction]);
    let rules = |container: &str| ["up", "down"].map(|direction| file(direction).matches(container).count());
    let whole = stage.does(&["status", "--file"]);
    let terms = json!({ "class": "rest", "at-most": "2mbit" });
    assert_eq!(call("ADD", "abc", terms.clone()), (0, previous()));
    assert_eq!(rules("cni-abc-eth0"), [1, 1]);
    assert!(stage.does(&["status", "--file"]).contains("\n[[rule]]"), "one rule for both");
    assert_eq!(call("CHECK", "abc", terms.clone()).0, 0);
    assert_eq!(call("ADD", "abc", terms.clone()).0, 0, "the same again");
    assert_eq!(rules("cni-abc-eth0"), [1, 1]);
    // A rule of one direction gives ours another number there.
    stage.does(&["add", "rule", "rest", "port", "5005", "--direction", "down"]);
    assert_eq!(call("ADD", "def", json!({ "class": "rest" })).0, 0);
    assert_eq!(call("ADD", "abc", terms.clone()).0, 0);
    assert_eq!((rules("cni-abc-eth0"), rules("cni-def-eth0")), ([1, 1], [1, 1]));
    // A class of its own, in both.
    assert_eq!(call("ADD", "abc", json!({ "minimum": "1mbit" })).1["code"], 100, "no rate is left");
    assert_eq!(rules("cni-abc-eth0"), [1, 1]);
    stage.does(&["set", "class", "rest", "rate", "3mbit", "--direction", "both"]);
    for container in ["abc", "def"] {
        assert_eq!(call("DEL", container, json!({})), (0, Value::Null));
    }
    assert_eq!((rules("cni-abc-eth0"), rules("cni-def-eth0")), ([0, 0], [0, 0]));
    assert_eq!(call("CHECK", "abc", terms).1["code"], 100);
    // One direction alone, where the network says so.
    let one = json!({ "class": "rest", "direction": "up" });
    assert_eq!(call("ADD", "abc", one.clone()).0, 0);
    assert_eq!(rules("cni-abc-eth0"), [1, 0]);
    assert_eq!(call("DEL", "abc", one).0, 0);
    stage.does(&["remove", "rule", "1", "--direction", "down"]);
    stage.does(&["set", "class", "rest", "rate", "5mbit", "--direction", "up"]);
    stage.does(&["set", "class", "rest", "rate", "20mbit", "--direction", "down"]);
    assert_eq!(stage.does(&["status", "--file"]), whole);
    stage.end();
    Ended::Passed
}

/// A network namespace like that of a container, held by a process.
struct Container(Child);

impl Container {
    /// Starts one in the processes of the left host.
    fn new(stage: &Stage) -> Self {
        let mut holder = stage.pair.left.command("unshare").unwrap();
        holder.args(["--net", "sh", "-c", "ip link set lo up && echo ready && exec sleep 600"]);
        let mut child = holder.stdout(Stdio::piped()).spawn().unwrap();
        let mut ready = [0; 6];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
        Self(child)
    }

    fn namespace(&self) -> String {
        format!("/proc/{}/ns/net", self.0.id())
    }

    /// Sends datagrams to the right host.
    fn sends(&self) {
        let script = format!("for n in $(seq 100); do echo hello >/dev/udp/{}/6000; done", RIGHT[0]);
        let within = ["-t", &self.0.id().to_string(), "-n", "bash", "-c", &script];
        assert!(Command::new("nsenter").args(within).status().unwrap().success());
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Packets that a class let through.
fn through(stage: &Stage, class: &str) -> u64 {
    let status = stage.status();
    let classes = status["directions"][0]["classes"].as_array().unwrap();
    classes.iter().find(|one| one["name"] == class).map_or(0, |one| one["through_packets"].as_u64().unwrap())
}

/// Where a program is, if it is installed.
fn installed(program: &str, folders: &[&str]) -> Option<String> {
    let path = std::env::var("PATH").unwrap_or_default();
    let all = path.split(':').chain(folders.iter().copied());
    all.map(|folder| format!("{folder}/{program}")).find(|file| std::path::Path::new(file).is_file())
}

/// The CNI project's own runtime makes a container's interface by its plugins, ours behind them, and packets of the container are
/// in its class.
pub fn the_tools_of_cni_run_the_plugin() -> Ended {
    let home = std::env::var("HOME").unwrap_or_default();
    let Some(tool) = installed("cnitool", &[&format!("{home}/go/bin"), "/usr/local/go/bin"]) else {
        let how = "GOBIN=/usr/local/bin go install github.com/containernetworking/cni/cnitool@latest";
        return Ended::Skipped(format!("cnitool is not installed: {how}"));
    };
    let plugins = ["/opt/cni/bin", "/usr/lib/cni"].into_iter().find(|folder| installed("ptp", &[folder]).is_some());
    let Some(plugins) = plugins else {
        return Ended::Skipped(
            "the plugins of CNI are not installed: apt-get install containernetworking-plugins".into(),
        );
    };
    let stage = Stage::new(SHAPER);
    let control = stage.scratch.path("control");
    let (bin, networks) = (stage.scratch.0.join("bin"), stage.scratch.0.join("net.d"));
    std::fs::create_dir(&bin).unwrap();
    std::fs::create_dir(&networks).unwrap();
    symlink(env!("CARGO_BIN_EXE_tidegate"), bin.join("tidegate-cni")).unwrap();
    let addresses = json!({ "type": "host-local", "subnet": "10.88.0.0/16", "routes": [{ "dst": "0.0.0.0/0" }], "dataDir": stage.scratch.path("leases") });
    let network = |ours: Value| {
        let list =
            json!({ "cniVersion": "1.0.0", "name": "pods", "plugins": [{ "type": "ptp", "ipam": addresses }, ours] });
        std::fs::write(networks.join("10-pods.conflist"), list.to_string()).unwrap();
    };
    let container = Container::new(&stage);
    let call = |command: &str| {
        let mut tool = stage.pair.left.command(&tool).unwrap();
        tool.args([command, "pods", &container.namespace()]).env("NETCONFPATH", &networks);
        finished({
            tool.env("CNI_PATH", format!("{}:{plugins}", bin.display()));
            tool
        })
    };
    network(json!({ "type": "tidegate-cni", "control": control, "minimum": "1mbit", "at-most": "2mbit" }));
    let Finished { code, out, err } = call("add");
    assert_eq!(code, Some(0), "{out}{err}");
    // The runtime gets the result that the plugin prints.
    let result: Value = serde_json::from_str(&out).expect(&out);
    assert!(result["ips"][0]["address"].as_str().unwrap().starts_with("10.88."), "{out}");
    let file = stage.does(&["status", "--file"]);
    let parsed: toml::Table = file.parse().unwrap();
    let class = parsed["rule"][0]["class"].as_str().unwrap().to_owned();
    assert!(class.starts_with("cni-cnitool-") && file.contains("at-most = \"2mbit\""), "{file}");
    assert_eq!(through(&stage, &class), 0);
    container.sends();
    stage.until("packets of the container in its class", |stage| through(stage, &class) >= 50);
    assert_eq!(call("check").code, Some(0));
    stage.does(&["remove", "rule", "1"]);
    stage.does(&["remove", "class", &class]);
    let missed = call("check");
    assert!(missed.code == Some(1) && missed.err.contains("it may have been restarted"), "{}", missed.err);
    assert_eq!(call("del").code, Some(0));
    assert_eq!(stage.does(&["status", "--file"]), SHAPER);
    // A refusal is shown by the runtime with its remedy.
    network(json!({ "type": "tidegate-cni", "control": control, "minimum": "4mbit" }));
    let refused = call("add");
    assert!(refused.code == Some(1) && refused.err.contains("8mbit"), "{}", refused.err);
    assert_eq!(call("del").code, Some(0));
    assert_eq!(stage.does(&["status", "--file"]), SHAPER);
    stage.end();
    Ended::Passed
}

/// Runs a command in the processes of the left host.
fn at_left(stage: &Stage, program: &str, arguments: &[&str]) {
    let mut command = stage.pair.left.command(program).unwrap();
    assert!(command.args(arguments).status().unwrap().success(), "{program} {arguments:?}");
}

/// Joins a container to the left host, which forwards what it sends. It has no address yet.
fn join(stage: &Stage, pid: &str) {
    at_left(stage, "ip", &["link", "add", "pod0", "type", "veth", "peer", "name", "eth0", "netns", pid]);
    at_left(stage, "ip", &["addr", "add", "10.88.0.1/24", "dev", "pod0"]);
    at_left(stage, "ip", &["link", "set", "pod0", "up"]);
    at_left(stage, "nsenter", &["-t", pid, "-n", "ip", "link", "set", "eth0", "up"]);
    at_left(stage, "sh", &["-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"]);
}

/// The configuration of a bundle: in the network namespace `network` or that of the host, with the options of the hook.
fn bundle(control: &str, network: Option<&str>, options: Option<&[&str]>, annotations: &Value) -> Value {
    let own = ["tidegate", "oci", "--control", control];
    let hook = |more: &[&str]| {
        let args = [&own[..], more].concat();
        json!([{ "path": env!("CARGO_BIN_EXE_tidegate"), "args": args }])
    };
    let namespace = network.map_or_else(|| json!({ "type": "ipc" }), |path| json!({ "type": "network", "path": path }));
    let hooks =
        options.map_or_else(|| json!({}), |options| json!({ "createRuntime": hook(options), "poststop": hook(&[]) }));
    json!({
        "ociVersion": "1.0.2",
        "process": { "cwd": "/", "args": ["/bin/busybox", "sleep", "600"], "user": { "uid": 0, "gid": 0 } },
        "root": { "path": "rootfs" },
        "mounts": [{ "destination": "/proc", "type": "proc", "source": "proc" }],
        "linux": { "namespaces": [{ "type": "mount" }, { "type": "pid" }, namespace] },
        "annotations": annotations,
        "hooks": hooks,
    })
}

/// runc starts a container with our hooks: its packets are in its class, and the rule goes with it.
pub fn runc_runs_the_hooks() -> Ended {
    let Some(runc) = installed("runc", &["/usr/sbin"]) else {
        return Ended::Skipped("runc is not installed: apt-get install runc".into());
    };
    let Some(busybox) = installed("busybox", &[]) else {
        return Ended::Skipped("no static program for a container: apt-get install busybox-static".into());
    };
    let stage = Stage::new(SHAPER);
    let container = Container::new(&stage);
    let pid = container.0.id().to_string();
    let runtime = runc.clone();
    join(&stage, &pid);

    let folder = stage.scratch.0.join("bundle");
    std::fs::create_dir_all(folder.join("rootfs/bin")).unwrap();
    std::fs::copy(busybox, folder.join("rootfs/bin/busybox")).unwrap();
    let write = |network: Option<&str>, options: Option<&[&str]>, annotations: Value| {
        let config = bundle(&stage.scratch.path("control"), network, options, &annotations);
        std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    };
    let runc = |words: &[&str]| {
        let mut command = stage.pair.left.command(&runc).unwrap();
        command.arg("--root").arg(stage.scratch.0.join("runc")).args(words).current_dir(&folder).stdin(Stdio::null());
        let log = stage.scratch.0.join("said");
        let file = std::fs::File::create(&log).unwrap();
        // The container has the output of runc, and lives on.
        let status = command.stdout(file.try_clone().unwrap()).stderr(file).status().unwrap();
        (status.success(), std::fs::read_to_string(log).unwrap())
    };
    let namespace = container.namespace();
    write(Some(&namespace), None, json!({}));
    let (starts, said) = runc(&["run", "--detach", "plain"]);
    if !starts {
        return Ended::Skipped(format!("runc starts no container here: {}", said.trim()));
    }
    assert!(runc(&["delete", "--force", "plain"]).0);

    // Without an address there is nothing to shape, and the container does not start; nor in the network of the host.
    write(Some(&namespace), Some(&["--class", "media"]), json!({}));
    let (starts, said) = runc(&["run", "--detach", "early"]);
    assert!(!starts && said.contains("no address yet"), "{said}");
    write(None, Some(&["--class", "media"]), json!({}));
    let (starts, said) = runc(&["run", "--detach", "host"]);
    assert!(!starts && said.contains("shares the network of the host"), "{said}");
    let inside = ["-t", &pid, "-n", "ip"];
    at_left(&stage, "nsenter", &[&inside[..], &["addr", "add", "10.88.0.2/24", "dev", "eth0"]].concat());
    at_left(&stage, "nsenter", &[&inside[..], &["route", "add", "default", "via", "10.88.0.1"]].concat());

    // Annotations set what the hook permits.
    let annotations = json!({ "tidegate.class": "media", "tidegate.at-most": "2mbit", "tidegate.minimum": "9mbit" });
    write(Some(&namespace), Some(&["--class", "rest", "--annotations", "class,at-most"]), annotations.clone());
    let (starts, said) = runc(&["run", "--detach", "camera"]);
    assert!(starts, "{said}");
    let file = stage.does(&["status", "--file"]);
    let parsed: toml::Table = file.parse().unwrap();
    let rule = &parsed["rule"][0];
    let text = |key: &str| rule[key].as_str().unwrap();
    assert_eq!((text("name"), text("class"), text("at-most")), ("oci-camera", "media", "2mbit"), "{file}");
    assert!(rule["host"].to_string().contains("10.88.0.2"), "{file}");
    container.sends();
    stage.until("packets of the container in its class", |stage| through(stage, "media") >= 50);
    assert!(runc(&["delete", "--force", "camera"]).0);
    stage.until("the end of the rule", |stage| stage.does(&["status", "--file"]) == SHAPER);

    // As a runtime around this one, for Docker, it adds the hooks itself.
    let around = |words: &[&str]| {
        let mut command = stage.pair.left.command(env!("CARGO_BIN_EXE_tidegate")).unwrap();
        command.args([
            "oci",
            "--control",
            &stage.scratch.path("control"),
            "--class",
            "media",
            "--runtime",
            &runtime,
            "--",
        ]);
        command.arg("--root").arg(stage.scratch.0.join("runc")).args(words).current_dir("/").stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
    };
    write(Some(&namespace), None, json!({}));
    let bundle = stage.scratch.path("bundle");
    assert!(around(&["run", "--detach", "--bundle", &bundle, "wrapped"]));
    assert!(stage.does(&["status", "--file"]).contains("\"oci-wrapped\""));
    assert!(around(&["delete", "--force", "wrapped"]));
    stage.until("the end of its rule", |stage| stage.does(&["status", "--file"]) == SHAPER);

    // A minimum that does not fit is refused, and the container does not start.
    write(Some(&namespace), Some(&["--annotations", "minimum"]), annotations);
    let (starts, said) = runc(&["run", "--detach", "greedy"]);
    assert!(!starts && said.contains("13mbit"), "{said}");
    assert_eq!(stage.does(&["status", "--file"]), SHAPER);
    stage.end();
    Ended::Passed
}

/// Podman adds our hook to a container with our annotations, by a file in its folder of hooks.
pub fn podman_adds_the_hook() -> Ended {
    let (Some(podman), Some(runc)) = (installed("podman", &[]), installed("runc", &["/usr/sbin"])) else {
        return Ended::Skipped("podman or runc is not installed: apt-get install podman runc".into());
    };
    let Some(busybox) = installed("busybox", &[]) else {
        return Ended::Skipped("no static program for a container: apt-get install busybox-static".into());
    };
    let stage = Stage::new(SHAPER);
    let path = |name: &str| stage.scratch.path(name);
    std::fs::create_dir_all(path("rootfs/bin")).unwrap();
    std::fs::create_dir_all(path("hooks")).unwrap();
    std::fs::copy(busybox, path("rootfs/bin/busybox")).unwrap();
    let args = ["tidegate", "oci", "--control", &path("control"), "--annotations", "class,at-most"];
    let hook = json!({
        "version": "1.0.0",
        "hook": { "path": env!("CARGO_BIN_EXE_tidegate"), "args": args },
        "when": { "annotations": { "^tidegate[.]": "." } },
        "stages": ["createRuntime", "poststop"],
    });
    std::fs::write(path("hooks/tidegate.json"), hook.to_string()).unwrap();
    let podman = |words: &[&str]| {
        let mut command = stage.pair.left.command(&podman).unwrap();
        command.args(["--root", &path("images"), "--runroot", &path("state"), "--runtime", &runc]);
        command.args(["--cgroup-manager", "cgroupfs", "--hooks-dir", &path("hooks")]).args(words);
        let output = command.stdin(Stdio::null()).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let begin = |name: &str, annotations: &[&str]| {
        // A limit above that of this process needs a privilege that it may not have.
        let limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024", "--network", "bridge"];
        let named = ["run", "--detach", "--name", name];
        let what = ["--rootfs", &path("rootfs"), "/bin/busybox", "sleep", "100"];
        podman(&[&named[..], &limits, annotations, &what].concat())
    };
    let (starts, said) = begin("plain", &[]);
    if !starts {
        let _ = podman(&["rm", "--force", "plain"]);
        return Ended::Skipped(format!("podman starts no container here: {}", said.trim()));
    }
    assert_eq!(stage.does(&["status", "--file"]), SHAPER, "a container without annotations has no rule");
    assert!(podman(&["rm", "--force", "--time", "0", "plain"]).0);

    let annotations = ["--annotation", "tidegate.class=media", "--annotation", "tidegate.at-most=2mbit"];
    let (starts, said) = begin("camera", &annotations);
    assert!(starts, "{said}");
    let file = stage.does(&["status", "--file"]);
    let parsed: toml::Table = file.parse().unwrap();
    let rule = &parsed["rule"][0];
    assert_eq!((rule["class"].as_str(), rule["at-most"].as_str()), (Some("media"), Some("2mbit")), "{file}");
    assert!(rule["name"].as_str().unwrap().starts_with("oci-"), "{file}");
    assert!(podman(&["rm", "--force", "--time", "0", "camera"]).0);
    stage.until("the end of the rule", |stage| stage.does(&["status", "--file"]) == SHAPER);

    let (starts, said) = begin("unknown", &["--annotation", "tidegate.class=none-such"]);
    assert!(!starts && said.contains("none-such"), "{said}");
    let _ = podman(&["rm", "--force", "unknown"]);
    stage.end();
    Ended::Passed
}
