//! Prints the feedback on all flows of this process's user: `cargo run -p tidegate-control --example feedback UID
//! [INTERFACE]`.

use tidegate_control::calls::{Feedback, Target};
use tidegate_control::{Client, Pushed, Span};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let uid = std::env::args().nth(1).ok_or("give the number of a user")?.parse()?;
    let interface = std::env::args().nth(2);
    let mut client = Client::open(interface.as_deref())?;
    let target = Target { uid: Some(uid), ..Target::default() };
    let (flows, events) =
        client.feedback(&Feedback { target, delay: Some(Span::from_millis(10)), ..Feedback::default() })?;
    for flow in flows {
        println!("{} in {}: granted {}", flow.flow, flow.class, flow.granted);
    }
    for pushed in events {
        match pushed? {
            Pushed::Event(event) => println!("{} {:?} granted {:?}", event.kind.name(), event.flow, event.granted),
            Pushed::Lost(lost) => println!("{lost} events were lost"),
        }
    }
    Ok(())
}
