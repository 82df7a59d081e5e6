//! Prints the classes of a running tidegate: `cargo run -p tidegate-control --example status [INTERFACE]`.

use tidegate_control::Client;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let interface = std::env::args().nth(1);
    let status = Client::open(interface.as_deref())?.status()?;
    for direction in status.directions {
        for class in direction.classes {
            let flows = class.flows.unwrap_or_default();
            println!("{} {}: {flows} flows, {} waits", direction.name, class.name, class.queue.bytes);
        }
    }
    Ok(())
}
