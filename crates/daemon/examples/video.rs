//! A sender like that of a video call, which adapts its quality to the granted rate.
//!
//! `cargo run -p tidegate-daemon --example video 192.0.2.1:5004 [--blind]` sends 25 frames a second for ten seconds.
//! It requests feedback on its own flow, before the first packet, and chooses for each frame the best quality that fits
//! into nine tenths of the granted rate; when its queue fills or packets are lost or late, the next lower one until the
//! queue has emptied. With `--blind` it always sends the best quality.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use tidegate_control::calls::{Feedback, Protocol, Target};
use tidegate_control::{Client, Event, EventKind, Place, Pushed};

/// The qualities, in bit/s.
const LADDER: [u64; 6] = [300_000, 700_000, 1_200_000, 2_000_000, 3_000_000, 4_000_000];
/// Time between frames.
const FRAME: Duration = Duration::from_millis(40);
/// Bytes of a packet.
const PACKET: usize = 1_200;

/// Whether the sender uses feedback.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// The quality follows feedback.
    Heeding,
    /// The best quality is always sent.
    Blind,
}

/// The header of each packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The number of the frame.
    pub frame: u64,
    /// The number of packets of the frame.
    pub packets: u32,
    /// The time of sending, by the monotonic clock in ns.
    pub sent: u64,
}

impl Header {
    fn write(self, packet: &mut [u8]) {
        packet[..8].copy_from_slice(&self.frame.to_be_bytes());
        packet[8..12].copy_from_slice(&self.packets.to_be_bytes());
        packet[12..20].copy_from_slice(&self.sent.to_be_bytes());
    }
    /// Parses the header of a packet; `None` when it is too short.
    pub fn read(packet: &[u8]) -> Option<Self> {
        Some(Self {
            frame: u64::from_be_bytes(packet.get(..8)?.try_into().ok()?),
            packets: u32::from_be_bytes(packet.get(8..12)?.try_into().ok()?),
            sent: u64::from_be_bytes(packet.get(12..20)?.try_into().ok()?),
        })
    }
}

/// Chooses the quality from the feedback of the shaper.
struct Quality {
    granted: u64,
    troubled: bool,
}

impl Quality {
    fn handle(&mut self, event: &Event) {
        if let Some(granted) = event.granted {
            self.granted = granted.as_bps();
        }
        match event.kind {
            EventKind::QueueAbove | EventKind::DelayAbove | EventKind::Dropped => self.troubled = true,
            EventKind::QueueBelow | EventKind::DelayBelow => self.troubled = false,
            _ => {}
        }
    }
    fn bps(&self) -> u64 {
        let fitting = LADDER.iter().filter(|rate| **rate <= self.granted / 10 * 9).count();
        LADDER[fitting.saturating_sub(1 + usize::from(self.troubled))]
    }
}

/// Sends for `duration`; returns the number of frames.
pub fn send(
    to: SocketAddr,
    mode: Mode,
    socket: &Path,
    duration: Duration,
) -> Result<u64, Box<dyn std::error::Error + Send + Sync>> {
    let video = UdpSocket::bind(if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
    video.connect(to)?;
    let mut client = match mode {
        Mode::Blind => None,
        Mode::Heeding => {
            let mut client = Client::connect(socket)?;
            let target = Target {
                protocol: Some(Protocol::UDP),
                source_port: Some(video.local_addr()?.port()),
                destination_port: Some(to.port()),
                ..Target::default()
            };
            client.feedback(&Feedback { target, ..Feedback::default() })?;
            Some(client)
        }
    };
    let mut quality = Quality { granted: LADDER[5] * 2, troubled: false };
    let (began, mut frames) = (Instant::now(), 0_u32);
    while began.elapsed() < duration {
        let due = began + FRAME * frames;
        // Feedback that arrives before the time of the frame.
        loop {
            let left = due.saturating_duration_since(Instant::now());
            match &mut client {
                None => {
                    std::thread::sleep(left);
                    break;
                }
                Some(client) => match client.next_push(Some(left))? {
                    Some((_, Pushed::Event(event))) => quality.handle(&event),
                    Some((_, Pushed::Lost(_))) => quality.troubled = true,
                    None => break,
                },
            }
        }
        let bps = if mode == Mode::Blind { LADDER[5] } else { quality.bps() };
        let bytes = (bps / 8) as usize * FRAME.as_millis() as usize / 1_000;
        frame(&video, u64::from(frames), bytes)?;
        frames += 1;
    }
    Ok(frames.into())
}

fn frame(video: &UdpSocket, frame: u64, bytes: usize) -> io::Result<()> {
    let packets = bytes.div_ceil(PACKET) as u32;
    let header = Header { frame, packets, sent: monotonic() };
    let mut packet = [0; PACKET];
    header.write(&mut packet);
    for n in 0..packets as usize {
        let left = bytes - n * PACKET;
        match video.send(&packet[..left.clamp(20, PACKET)]) {
            // No receiver listens yet, or the socket's own buffer is full: a lost packet, as on any network.
            Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::WouldBlock) => {}
            other => drop(other?),
        }
    }
    Ok(())
}

/// The monotonic clock, which receivers on the same machine share.
fn monotonic() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let to = arguments.first().ok_or("give an address and port, such as 192.0.2.1:5004")?.parse()?;
    let mode = if arguments.iter().any(|argument| argument == "--blind") { Mode::Blind } else { Mode::Heeding };
    let place = if mode == Mode::Blind { Default::default() } else { Place::Any.find()? };
    let frames = send(to, mode, &place, Duration::from_secs(10))?;
    println!("{frames} frames");
    Ok(())
}
