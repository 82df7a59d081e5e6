//! Sends datagrams at the rate that the shaper grants, which promises at least 2 Mbit/s, for a minute: `cargo run -p
//! tidegate-control --example sender 198.51.100.7:5004 [INTERFACE]`.

use std::time::{Duration, Instant};

use tidegate_control::calls::{PromiseCall, Protocol, Target};
use tidegate_control::{Client, Pushed};
use tidegate_pace::{Paced, Params, Rate, UdpSocket};

/// The payload of a packet, and its part of what the shaper counts: that is with the headers of IPv4 and UDP.
const PACKET: usize = 1200;
fn payload(rate: Rate) -> Rate {
    Rate::from_bps(rate.as_bps() * PACKET as u64 / (PACKET as u64 + 28))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let to: std::net::SocketAddr = std::env::args().nth(1).ok_or("usage: sender ADDRESS:PORT [INTERFACE]")?.parse()?;
    let minimum = Rate::from_mbit(2);
    let socket = UdpSocket::connect(to, Params::live(payload(minimum)))?;
    let mut client = Client::open(std::env::args().nth(2).as_deref())?;
    // A refusal says what would fit. With `wait` in the request this one would wait for others.
    let promised = client.promise(&PromiseCall {
        target: Target {
            protocol: Some(Protocol::UDP),
            source_port: Some(socket.get_ref().local_addr()?.port()),
            destination_port: Some(to.port()),
            ..Target::default()
        },
        minimum: Some(minimum),
        ..PromiseCall::default()
    })?;
    println!("promise {} in class {}", promised.promise, promised.state.class);
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {
        // Nobody listens there yet: a lost packet, as on any network.
        let _ = socket.send(&[0; PACKET]);
        while let Some((_, pushed)) = client.next_push(Some(Duration::ZERO))? {
            if let Pushed::Event(event) = pushed
                && let Some(granted) = event.granted.filter(|granted| !granted.is_zero())
            {
                println!("{}: granted {granted}", event.kind.name());
                socket.set_rate(payload(granted))?;
            }
        }
    }
    // The promise ends with the connection.
    Ok(())
}
