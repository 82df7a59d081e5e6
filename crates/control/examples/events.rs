//! Prints flows as they come and go: `cargo run -p tidegate-control --example events [INTERFACE]`.

use tidegate_control::calls::{EventKind, Events};
use tidegate_control::{Client, Pushed};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let interface = std::env::args().nth(1);
    let mut client = Client::open(interface.as_deref())?;
    let which = Events { kinds: vec![EventKind::FlowStarted, EventKind::FlowEnded], ..Events::default() };
    for pushed in client.events(&which)? {
        match pushed? {
            Pushed::Event(event) => {
                let flow = event.flow.map_or("?".into(), |flow| flow.to_string());
                println!("{} {flow} in {}", event.kind.name(), event.class.unwrap_or_default());
            }
            // This client was too slow for the daemon to keep all events.
            Pushed::Lost(lost) => println!("{lost} events were lost"),
        }
    }
    Ok(())
}
