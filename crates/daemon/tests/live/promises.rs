//! The terms, targets and leases of promises.

use std::io::Write;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use tidegate_control::calls::{Apply, Displacement, PromiseCall, PromiseState, Protocol, Target};
use tidegate_control::{Code, EventKind, Pushed};
use tidegate_testbed::topology::Pair;
use tidegate_testbed::{FlowSpec, Senders, Sink};
use tidegate_units::{Rate, Span};

use crate::running::{PATIENCE, Running, SHAPER, minimum, refusal, settles, target, udp, until};
use tidegate_testbed::Ended;
use tidegate_testbed::steady::Measurements;

pub fn a_promise_holds_before_and_after_the_first_packet_and_ends_with_its_connection() -> Ended {
    let (pair, mut measured) = (Pair::create().unwrap(), Measurements::new());
    let running = Running::start(&pair, SHAPER);
    // Four greedy flows of 8 Mbit/s, each worth 2: about 1.95 of payload.
    let flows: Vec<FlowSpec> = (0..4).map(|n| udp(5_000 + n, 8)).collect();
    let mut early = running.client();
    // Before the first packet.
    let given = early.promise(&minimum(5_000, 4_000)).unwrap();
    assert_eq!((given.state.class.as_str(), given.state.flows, given.state.held), ("media", 0, 1));
    assert_eq!(given.state.free, Rate::from_mbit(4), "half of the class is held");
    let sink = Sink::start(&pair.receiver, &flows).unwrap();
    let senders = Senders::start(&pair.sender, &pair.receiver, &flows).unwrap();
    thread::sleep(Duration::from_millis(500));
    // 4 Mbit/s at IP level are 4 * 1200/1228 = 3.9 of payload; the others share 4, 1.3 each, although they
    // always find the buffer in the same order.
    settles(&mut measured, &sink, 4, "4 Mbit/s for the first, the others share 4", |rates| {
        rates[0] > 3_600
            && (3_400..4_100).contains(&rates[1..].iter().sum::<u64>())
            && rates[1..].iter().all(|rate| (900..1_700).contains(rate))
    });
    // After it, for another flow; then there is no more than a megabit left.
    let mut late = running.client();
    let given = late.promise(&minimum(5_001, 3_000)).unwrap();
    assert_eq!((given.state.flows, given.state.waiting), (1, 0));
    let refused = refusal(late.promise(&minimum(5_002, 2_000)).unwrap_err());
    assert_eq!(refused.code, Code::NoRoom);
    assert!(refused.message.contains("1mbit"), "{refused}");
    settles(&mut measured, &sink, 4, "4 Mbit/s for the first, 3 for the second", |rates| {
        rates[0] > 3_600 && rates[1] > 2_700 && rates[2] + rates[3] < 1_300
    });
    // A waiting promise is granted as soon as another is released, here by closing the connection.
    let mut patient = running.client();
    let given = patient.promise(&PromiseCall { wait: true, ..minimum(5_002, 3_000) }).unwrap();
    assert_eq!((given.state.waiting, given.state.free), (1, Rate::from_mbit(1)));
    drop(late);
    let deadline = Instant::now() + PATIENCE;
    loop {
        match patient.next_push(Some(Duration::from_millis(100))).unwrap() {
            Some((_, Pushed::Event(event))) if event.kind == EventKind::Promised => {
                assert_eq!((event.promise, event.minimum), (Some(given.promise), Some(Rate::from_mbit(3))));
                break;
            }
            _ => assert!(Instant::now() < deadline, "it is never told"),
        }
    }
    settles(&mut measured, &sink, 4, "4 Mbit/s for the first, 3 for the third", |rates| {
        rates[0] > 3_600 && rates[2] > 2_700 && rates[1] + rates[3] < 1_300
    });
    assert_eq!(running.client().promises().unwrap().len(), 2);
    senders.stop();
    sink.stop();
    measured.ended()
}

/// Its class goes, or all classes do.
pub fn a_promise_that_ends_with_a_change_reports_why() -> Ended {
    let pair = Pair::create().unwrap();
    let running = Running::start(&pair, SHAPER);
    let without = SHAPER.replace("\"media\"", "\"films\"");
    let discipline = "version = 1\n[discipline]\nkind = \"fifo\"\n".to_owned();
    for (text, why) in [(without, "there is no class `media`"), (discipline, "there is no class `films`")] {
        let mut holder = running.client();
        let class = if text.contains("films") { "media" } else { "films" };
        let given = holder.promise(&PromiseCall { class: Some(class.into()), ..minimum(5_000, 1_000) }).unwrap();
        running.client().call(&Apply { text: Some(text), ..Apply::default() }).unwrap();
        let ended = loop {
            match holder.next_push(Some(PATIENCE)).unwrap() {
                Some((_, Pushed::Event(event))) if event.kind == EventKind::PromiseEnded => break event,
                Some(_) => {}
                None => panic!("its end is not reported"),
            }
        };
        assert_eq!((ended.promise, ended.text.as_deref()), (Some(given.promise), Some(why)));
        assert!(running.client().promises().unwrap().is_empty());
    }
    Ended::Passed
}

pub fn preference_displacement_and_leases() -> Ended {
    let (pair, mut measured) = (Pair::create().unwrap(), Measurements::new());
    let running = Running::start(&pair, SHAPER);
    let flows: Vec<FlowSpec> = (0..4).map(|n| udp(5_000 + n, 8)).collect();
    let sink = Sink::start(&pair.receiver, &flows).unwrap();
    let senders = Senders::start(&pair.sender, &pair.receiver, &flows).unwrap();
    let mut client = running.client();
    // A step is a tenth of the class at the cost of the others: they must be present.
    until("four flows", || running.client().status().unwrap().directions[0].classes[0].flows == Some(4));
    // Two steps of 10% of 8 Mbit/s: 2 + 1.6 = 3.6, and 1.47 for each of the others.
    let call = PromiseCall { prefer: 2, target: target(5_000), ..PromiseCall::default() };
    let given = client.promise(&call).unwrap();
    thread::sleep(Duration::from_millis(300));
    settles(&mut measured, &sink, 4, "3.6 Mbit/s for the preferred, 1.47 for each other", |rates| {
        (3_200..3_800).contains(&rates[0]) && rates[1..].iter().all(|rate| (1_200..1_700).contains(rate))
    });
    client.release(given.promise).unwrap();
    settles(&mut measured, &sink, 4, "2 Mbit/s each", |rates| rates.iter().all(|rate| (1_700..2_200).contains(rate)));
    // With 2 Mbit/s it is granted less than 3, and `rest` is empty.
    let displace = Some(Displacement { below: Rate::from_mbit(3), to: "rest".into() });
    let call = PromiseCall {
        displace,
        target: target(5_001),
        lease: Some(Span::from_secs(3_600)),
        detached: true,
        ..PromiseCall::default()
    };
    let given = client.promise(&call).unwrap();
    until("word of the displacement", || {
        let pushed = client.next_push(Some(Duration::from_millis(100))).unwrap();
        let Some((_, Pushed::Event(event))) = pushed else { return false };
        let moved = event.kind == EventKind::Moved;
        if moved {
            assert_eq!((event.from_class.as_deref(), event.class.as_deref()), (Some("media"), Some("rest")));
        }
        moved
    });
    drop(client);
    settles(&mut measured, &sink, 4, "alone in rest with 4", |rates| rates[1] > 3_500 && rates[0] > 2_300);
    // It outlives its connection, and ends with its lease, a short one.
    let mut other = running.client();
    let state = &other.promises().unwrap()[0];
    assert_eq!((state.promise, state.detached), (given.promise, true));
    other.release(given.promise).unwrap();
    let began = Instant::now();
    let lease = Some(Span::from_millis(1_500));
    let given =
        other.promise(&PromiseCall { prefer: 1, target: target(5_002), lease, detached: true, ..call }).unwrap();
    drop(other);
    let listed = running.client().promises().unwrap();
    assert!(listed.iter().any(|one| one.promise == given.promise) || began.elapsed() > Duration::from_millis(1_500));
    until("the end of the lease", || running.client().promises().unwrap().is_empty());
    assert!(began.elapsed() >= Duration::from_millis(1_500), "{:?}", began.elapsed());
    senders.stop();
    sink.stop();
    measured.ended()
}

/// A child process that waits for a line, then sends from one socket to a port for as long as it lives.
pub const CHILD: &str =
    "read go; exec 3>/dev/udp/10.77.0.2/5003; while :; do printf '%01200d' 0 >&3 || true; sleep 0.005; done";

pub fn a_process_tree_has_its_promise_before_it_sends() -> Ended {
    let pair = Pair::create().unwrap();
    let running = Running::start(&pair, SHAPER);
    let mut command = pair.sender.namespace.command("bash").unwrap();
    // The one that sends is a child of the one that is named.
    command.args(["-c", &format!("bash -c \"{CHILD}\""), "outer"]);
    let Ok(mut outer) = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn() else {
        return Ended::Skipped("there is no bash".into());
    };
    let call = PromiseCall {
        minimum: Some(Rate::from_mbit(4)),
        flows: 1,
        class: Some("media".into()),
        target: Target { pid: Some(outer.id()), ..Target::default() },
        ..PromiseCall::default()
    };
    let mut client = running.client();
    let given = client.promise(&call).unwrap();
    assert_eq!((given.state.flows, given.state.held), (0, 1));
    // The one flow lives on: its process can be looked up at any time, however slow the machine is.
    outer.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let deadline = Instant::now() + PATIENCE;
    let mut found = false;
    while !found && Instant::now() < deadline {
        if let Some((_, Pushed::Event(event))) = client.next_push(Some(Duration::from_millis(200))).unwrap() {
            found = event.kind == EventKind::Promised && event.minimum == Some(Rate::from_mbit(4));
        }
    }
    let listed = running.client().promises().unwrap();
    outer.kill().unwrap();
    outer.wait().unwrap();
    // The inner shell ends with its pipe or is killed with the namespace.
    assert!(found, "a flow of the tree is promised its minimum: {listed:?}");
    let missing = PromiseCall { target: Target { pid: Some(4_000_000), ..Target::default() }, ..call };
    assert_eq!(refusal(client.promise(&missing).unwrap_err()).code, Code::NotFound);
    Ended::Passed
}

/// Flows to the receiver's address go to `films` by a rule that says nothing of ports, all others to `rest`.
const BY_ADDRESS: &str = "version = 1\n\
    [shaper]\nidle-timeout = \"30s\"\n\
    [[class]]\nname = \"films\"\nrate = \"5mbit\"\nborrow = false\n\
    [[class]]\nname = \"rest\"\nrate = \"8mbit\"\ndefault = true\nborrow = false\n\
    [[rule]]\nclass = \"films\"\ndestination = \"10.77.0.2\"\n";

/// A port alone does not tell the class where flows go by address; where the flow is now, does.
pub fn a_promise_is_made_in_the_class_where_the_flow_is() -> Ended {
    let pair = Pair::create().unwrap();
    let running = Running::start(&pair, BY_ADDRESS);
    let mut client = running.client();
    let free = |class: usize| running.client().status().unwrap().directions[0].classes[class].unpromised;
    // Without a flow the rules decide, and none of them is about ports.
    let early = client.promise(&minimum(5_100, 1_000)).unwrap();
    assert_eq!(early.state.class, "rest");
    client.release(early.promise).unwrap();
    let flows = [udp(5_004, 1)];
    let sink = Sink::start(&pair.receiver, &flows).unwrap();
    let senders = Senders::start(&pair.sender, &pair.receiver, &flows).unwrap();
    until("the flow", || running.client().status().unwrap().directions[0].classes[0].flows == Some(1));
    // 6 Mbit/s never fit into a class of 5: refused also to who would wait, and nothing is held in any class.
    for wait in [false, true] {
        let refused = refusal(client.promise(&PromiseCall { wait, ..minimum(5_004, 6_000) }).unwrap_err());
        assert_eq!(
            (refused.code, refused.message.as_str()),
            (Code::NoRoom, "class `films` has 5mbit in all, which is less than 6mbit")
        );
        let help = refused.help.as_deref().unwrap_or_default();
        assert!(help.contains("ask for at most 5mbit") && help.contains("class `rest`, which has 8mbit"), "{help}");
    }
    assert_eq!((free(0), free(1)), (Some(Rate::from_mbit(5)), Some(Rate::from_mbit(8))));
    let given = client.promise(&minimum(5_004, 4_000)).unwrap();
    let PromiseState { class, elsewhere, flows: present, waiting, held, .. } = &given.state;
    assert_eq!((class.as_str(), elsewhere.as_deref(), *present, *waiting, *held), ("films", None, 1, 0, 0));
    // A status is shared by those who ask within a moment.
    until("the minimum", || (free(0), free(1)) == (Some(Rate::from_mbit(1)), Some(Rate::from_mbit(8))));
    // What would fit is told, for each of several flows as well.
    let refused = refusal(client.promise(&minimum(5_004, 2_000)).unwrap_err());
    assert!(refused.message.contains("class `films` has 1mbit left to promise, not 2mbit"), "{refused}");
    assert!(refused.help.as_deref().unwrap_or_default().contains("ask for at most 1mbit,"), "{refused:?}");
    let several = PromiseCall { flows: 4, ..minimum(5_004, 500) };
    let refused = refusal(client.promise(&several).unwrap_err());
    assert!(refused.help.as_deref().unwrap_or_default().contains("250kbit for each of 4 flows"), "{refused:?}");
    client.release(given.promise).unwrap();
    // Rate may be held in another class on purpose; then the state names the one where the flow is.
    let given = client.promise(&PromiseCall { class: Some("rest".into()), ..minimum(5_004, 2_000) }).unwrap();
    assert_eq!((given.state.class.as_str(), given.state.elsewhere.as_deref()), ("rest", Some("films")));
    senders.stop();
    sink.stop();
    Ended::Passed
}

/// Flows of one promise in two classes have their minimum where they are, and what waits in a class that can never grant it says so.
pub fn flows_of_a_promise_have_their_minimum_where_they_are() -> Ended {
    let pair = Pair::create().unwrap();
    let by_port = "[[rule]]\nclass = \"rest\"\ndestination-port = \"5100-5199\"\n";
    let running = Running::start(&pair, &BY_ADDRESS.replacen("[[rule]]", &format!("{by_port}[[rule]]"), 1));
    let flows = [udp(5_004, 1), udp(5_104, 1)];
    let sink = Sink::start(&pair.receiver, &flows).unwrap();
    let senders = Senders::start(&pair.sender, &pair.receiver, &flows).unwrap();
    let mut client = running.client();
    until("both flows", || {
        let status = running.client().status().unwrap();
        status.directions[0].classes.iter().all(|class| class.flows == Some(1))
    });
    let ours = || Target { protocol: Some(Protocol::UDP), ..Target::default() };
    let both = |minimum, flows| PromiseCall { target: ours(), flows, ..minimum_of(minimum) };
    // 4 of 5 Mbit/s in one class, and 4 of 8 in the other. In neither are 8 left beside it.
    let given = client.promise(&both(4_000, 2)).unwrap().promise;
    until("both minimums", || {
        let classes = running.client().status().unwrap().directions[0].classes.clone();
        let left: Vec<_> = classes.iter().map(|class| class.unpromised).collect();
        left == [Some(Rate::from_mbit(1)), Some(Rate::from_mbit(4))]
    });
    let state = client.promises().unwrap().remove(0);
    assert_eq!((state.flows, state.waiting, state.held, state.obstacle), (2, 0, 0, None));
    client.release(given).unwrap();
    // A flow to come besides does not fit where most of them are.
    let refused = refusal(client.promise(&both(4_000, 3)).unwrap_err());
    assert!(refused.message.contains("5mbit left to promise"), "{refused}");
    // A minimum that does not fit where one of them is, is refused by the name of that class.
    let kept = client.promise(&PromiseCall { class: Some("rest".into()), ..minimum(5_150, 6_000) }).unwrap().promise;
    let refused = refusal(client.promise(&both(4_000, 2)).unwrap_err());
    assert!(refused.message.contains("class `rest` has 2mbit left to promise, not 4mbit"), "{refused}");
    client.release(kept).unwrap();
    senders.stop();
    sink.stop();

    // Before its first packet nobody knows that the flow will be in the smaller class.
    let early = client.promise(&minimum(5_030, 6_000)).unwrap();
    assert_eq!((early.state.class.as_str(), early.state.held, early.state.obstacle), ("rest", 1, None));
    let flows = [udp(5_030, 1)];
    let sink = Sink::start(&pair.receiver, &flows).unwrap();
    let senders = Senders::start(&pair.sender, &pair.receiver, &flows).unwrap();
    until("the reason why it waits", || {
        let state = client.promises().unwrap().remove(0);
        state.waiting == 1
            && state.elsewhere.as_deref() == Some("films")
            && state.obstacle.is_some_and(|text| {
                text.contains("class `films` has 5mbit in all, which is less than 6mbit; ask for at most 5mbit")
            })
    });
    senders.stop();
    sink.stop();
    Ended::Passed
}

fn minimum_of(kbit: u64) -> PromiseCall {
    PromiseCall { minimum: Some(Rate::from_kbit(kbit)), ..PromiseCall::default() }
}
