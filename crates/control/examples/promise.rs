//! Requests 2 Mbit/s for packets to port 5004, and prints events of the promise until it is stopped: `cargo run -p
//! tidegate-control --example promise [INTERFACE]`.

use tidegate_control::calls::{PromiseCall, Target};
use tidegate_control::{Client, ClientError, Code, Pushed, Rate, Span};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut client = Client::open(std::env::args().nth(1).as_deref())?;
    let mut call = PromiseCall {
        target: Target { destination_port: Some(5004), ..Target::default() },
        minimum: Some(Rate::from_mbit(2)),
        lease: Some(Span::from_secs(60)),
        ..PromiseCall::default()
    };
    let promised = match client.promise(&call) {
        // There is not enough: wait for rate that others release.
        Err(ClientError::Refused(refusal)) if refusal.code == Code::NoRoom => {
            println!("{refusal}");
            call.wait = true;
            client.promise(&call)?
        }
        other => other?,
    };
    println!("promise {} in class {}", promised.promise, promised.state.class);
    for other in client.promises()? {
        println!("  of user {}: {} for {} flows", other.uid, other.minimum, other.flows);
    }
    for _ in 0..6 {
        // It ends after a minute unless it is renewed, and with this connection in any case.
        client.renew(promised.promise, Span::from_secs(60))?;
        while let Some((_, pushed)) = client.next_push(Some(std::time::Duration::from_secs(10)))? {
            if let Pushed::Event(event) = pushed {
                println!("{}: granted {:?}", event.kind.name(), event.granted);
            }
        }
    }
    client.release(promised.promise)?;
    Ok(())
}
