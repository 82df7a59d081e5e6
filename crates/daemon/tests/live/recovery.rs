//! State that survives faults of the data path and changes of the tree.

use std::thread;
use std::time::{Duration, Instant};

use tidegate_control::calls::{
    Apply, Confirm, Events, Flows, InForce, PromiseCall, Refresh, ReservationsQuery, Reserve, Rollback, Unreserve,
};
use tidegate_control::{Client, Code, EventKind, Pushed};
use tidegate_live::shaping::{Injection, Options};
use tidegate_testbed::topology::Pair;
use tidegate_testbed::{FlowSpec, Senders, Sink};
use tidegate_units::{Rate, Span};

use crate::running::{PATIENCE, Running, SHAPER, minimum, refusal, settles, udp, until};
use tidegate_testbed::Ended;
use tidegate_testbed::steady::Measurements;

/// Waits until the log contains `text`.
fn logs(client: &mut Client, text: &str) {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Some((_, Pushed::Event(event))) = client.next_push(Some(Duration::from_millis(100))).unwrap()
            && event.text.is_some_and(|said| said.contains(text))
        {
            return;
        }
    }
    panic!("the log does not contain {text:?}");
}

/// A data path that panics three seconds after each start, as soon as packets wait.
pub fn mortal() -> Options {
    Options { inject: Some(Injection::parse("panic:3s").unwrap()), ..Options::default() }
}

pub fn promises_outlive_the_data_path_and_the_tree() -> Ended {
    promises_outlive(SHAPER)
}

pub fn promises_in_two_threads_outlive_the_data_path_and_the_tree() -> Ended {
    promises_outlive(&SHAPER.replacen("[shaper]", "[interface]\nthreads = 2\n[shaper]", 1))
}

fn promises_outlive(file: &str) -> Ended {
    let (pair, mut measured) = (Pair::create().unwrap(), Measurements::new());
    let running = Running::start_with(&pair, file, mortal());
    let flows: Vec<FlowSpec> = (0..4).map(|n| udp(5_000 + n, 8)).collect();
    let sink = Sink::start(&pair.receiver, &flows).unwrap();
    let mut owner = running.client();
    let given = owner.promise(&PromiseCall { prefer: 1, ..minimum(5_000, 4_000) }).unwrap();
    let mut listener = running.client();
    let _ = listener.events(&Events { kinds: vec![EventKind::Log], ..Events::default() }).unwrap();
    let senders = Senders::start(&pair.sender, &pair.receiver, &flows).unwrap();
    let in_force_for_its_flow = |what: &str| {
        let deadline = Instant::now() + PATIENCE;
        let mut seen = Vec::new();
        loop {
            // While the data path is restarted there is no reply.
            let states = running.client().promises().unwrap_or_default();
            if let [state] = &states[..]
                && (state.flows, state.waiting) == (1, 0)
            {
                assert_eq!((state.promise, state.minimum, state.prefer), (given.promise, Rate::from_mbit(4), 1));
                assert!(state.granted >= Rate::from_mbit(4), "{state:?}");
                return;
            }
            seen.extend(states);
            assert!(Instant::now() < deadline, "not in force {what}: {seen:?}");
            thread::sleep(Duration::from_millis(20));
        }
    };
    in_force_for_its_flow("at first");
    logs(&mut listener, "is in force again");
    in_force_for_its_flow("after the data path was begun anew");
    // Before the other flows use the unshaped link, and after: at least the promised rate.
    settles(&mut measured, &sink, 4, "4 Mbit/s for the first", |rates| rates[0] > 3_400);
    // Its owner is notified over the subscription that existed all the time.
    until("word to its owner", || match owner.next_push(Some(Duration::from_millis(50))).unwrap() {
        Some((of, Pushed::Event(event))) => of == given.subscription && event.kind == EventKind::Promised,
        _ => false,
    });
    // Another tree with one more class: the promise is applied again there.
    let more = "[[class]]\nname = \"new\"\nrate = \"1mbit\"\nborrow = false\n[[rule]]\n";
    let deadline = Instant::now() + PATIENCE;
    loop {
        let text = Some(file.replacen("[[rule]]\n", more, 1));
        match running.client().call(&Apply { text, ..Apply::default() }) {
            Ok(applied) => {
                assert!(!applied.in_place, "{applied:?}");
                break;
            }
            // Nothing is changed while nothing is in force.
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        thread::sleep(Duration::from_millis(50));
    }
    in_force_for_its_flow("in another tree");
    // What the client sees is of all threads: each flow and each class once.
    let flows = running.client().flows(&Flows::default()).unwrap().directions.remove(0).flows;
    assert_eq!(flows.iter().filter(|flow| flow.class == "media").count(), 4, "{flows:?}");
    let classes = running.client().status().unwrap().directions.remove(0).classes;
    let media = classes.iter().find(|class| class.name == "media").expect("the class");
    assert_eq!((classes.len(), media.flows), (3, Some(4)), "{classes:?}");
    assert_eq!(media.unpromised, Some(Rate::from_mbit(4)));
    senders.stop();
    sink.stop();
    measured.ended()
}

pub fn an_unconfirmed_change_is_taken_back_as_soon_as_possible() -> Ended {
    let pair = Pair::create().unwrap();
    let running = Running::start(&pair, SHAPER);
    let mut listener = running.client();
    let _ = listener.events(&Events { kinds: vec![EventKind::Log], ..Events::default() }).unwrap();
    let text = || running.client().call(&InForce::default()).unwrap().text;
    let other = SHAPER.replace("4mbit", "3mbit");
    let on_trial = |text: &str, seconds| Apply {
        text: Some(text.to_owned()),
        confirm: Some(Span::from_secs(seconds)),
        ..Apply::default()
    };
    running.client().call(&on_trial(&other, 2)).unwrap();
    pair.disconnect().unwrap();
    // Nothing can be proven of an interface that is absent; the trial continues.
    logs(&mut listener, "cannot be taken back yet");
    assert_eq!(text(), other);
    assert!(running.client().status().unwrap().trial.is_some());
    assert_eq!(refusal(running.client().call(&Rollback {}).unwrap_err()).code, Code::Failed);
    pair.connect().unwrap();
    logs(&mut listener, "the change was taken back");
    assert_eq!(text(), SHAPER);
    assert_eq!(running.client().status().unwrap().trial, None);
    // A detached promise outlives its connection.
    running.client().call(&on_trial(&other, 2)).unwrap();
    pair.disconnect().unwrap();
    logs(&mut listener, "cannot be taken back yet");
    running.client().call(&Confirm {}).unwrap();
    pair.connect().unwrap();
    assert_eq!((text(), running.client().status().unwrap().trial), (other, None));
    Ended::Passed
}

/// While traffic is not shaped no change is possible: the restart uses the configuration that was in force before the
/// trial.
pub fn a_trial_ends_while_the_data_path_is_begun_anew() -> Ended {
    let pair = Pair::create().unwrap();
    let running = Running::start_with(&pair, SHAPER, mortal());
    let flows = [udp(5_000, 1)];
    let mut listener = running.client();
    let _ = listener.events(&Events { kinds: vec![EventKind::Log], ..Events::default() }).unwrap();
    let sink = Sink::start(&pair.receiver, &flows).unwrap();
    let senders = Senders::start(&pair.sender, &pair.receiver, &flows).unwrap();
    // Panics repeat, with growing pauses: the next occurs in 3 s, and 4 s without a data path follow, in which the
    // trial ends.
    logs(&mut listener, "the next start is tried in 2 s");
    let other = SHAPER.replace("4mbit", "3mbit");
    let call = Apply { text: Some(other), confirm: Some(Span::from_secs(5)), ..Apply::default() };
    until("a trial", || running.client().call(&call).is_ok());
    logs(&mut listener, "the next start is tried in");
    logs(&mut listener, "the change was taken back");
    senders.stop();
    sink.stop();
    assert_eq!(running.client().call(&InForce::default()).unwrap().text, SHAPER);
    until("shaping by it", || {
        let status = running.client().status().unwrap();
        status.in_force && status.directions[0].classes.get(1).is_some_and(|rest| rest.rate == Some(Rate::from_mbit(4)))
    });
    Ended::Passed
}

/// 8 Mbit/s, 3 of them for reservations.
pub const CBQ: &str = "version = 1\n[discipline]\nkind = \"cbq\"\nlink = \"8mbit\"\n\
    class = [{ name = \"rest\", rate = \"5mbit\" }, { name = \"reserved\", rate = \"3mbit\" }]\n\
    reservations = { class = \"reserved\", flows = 4, max-rate = \"2.5mbit\" }\n";

pub fn reservations_outlive_the_data_path() -> Ended {
    let pair = Pair::create().unwrap();
    let running = Running::start_with(&pair, CBQ, mortal());
    let mut holder = running.client();
    let ask = |port: u16, lasts| Reserve {
        name: Some(format!("to {port}")),
        matches: vec![("destination-port".into(), port.to_string())],
        rate: Rate::from_kbit(700),
        lasts,
        ..Reserve::default()
    };
    let kept = holder.call(&ask(5_000, None)).unwrap();
    let asked = Instant::now();
    let lasting = running.client().call(&ask(5_001, Some(Span::from_secs(3_600)))).unwrap();
    // One ends at its requested time, even if it is refreshed; the other without a refresh.
    let took = |expires: Span| Span::from_secs(3_600).as_nanos() - expires.as_nanos();
    assert!(u128::from(took(lasting.expires)) <= asked.elapsed().as_nanos(), "{:?}", lasting.expires);
    assert!(kept.expires <= Span::from_secs(90), "{:?}", kept.expires);
    let listed = holder.call(&ReservationsQuery {}).unwrap().reservations;
    let listed = listed.iter().find(|one| one.reservation == lasting.reservation).unwrap();
    assert!(listed.expires <= lasting.expires && u128::from(took(listed.expires)) <= asked.elapsed().as_nanos());
    let refreshed = holder.call(&Refresh { reservation: lasting.reservation }).unwrap().expires;
    assert!(refreshed <= listed.expires && u128::from(took(refreshed)) <= asked.elapsed().as_nanos(), "{refreshed}");
    let mut listener = running.client();
    let _ = listener.events(&Events { kinds: vec![EventKind::Log], ..Events::default() }).unwrap();
    let flows = [udp(6_000, 12)];
    let sink = Sink::start(&pair.receiver, &flows).unwrap();
    let senders = Senders::start(&pair.sender, &pair.receiver, &flows).unwrap();
    logs(&mut listener, "is in force again");
    // Must not be interrupted again during the check.
    senders.stop();
    sink.stop();
    let mut list = || {
        let listed = holder.call(&ReservationsQuery {}).unwrap().reservations;
        let mut listed: Vec<(u64, String)> = listed.into_iter().map(|one| (one.reservation, one.name)).collect();
        listed.sort();
        listed
    };
    let both = [(kept.reservation, "to 5000".to_owned()), (lasting.reservation, "to 5001".to_owned())];
    assert_eq!(list(), both);
    // It keeps the rate, and its holder refreshes and releases it by its number.
    holder.call(&Refresh { reservation: kept.reservation }).unwrap();
    let more = Reserve { rate: Rate::from_mbit(2), ..ask(5_002, None) };
    assert_eq!(refusal(holder.call(&more).unwrap_err()).code, Code::NoRoom);
    holder.call(&Unreserve { reservation: lasting.reservation }).unwrap();
    holder.call(&more).unwrap();
    drop(holder);
    until("the end of what a connection holds", || {
        running.client().call(&ReservationsQuery {}).unwrap().reservations.is_empty()
    });
    Ended::Passed
}
