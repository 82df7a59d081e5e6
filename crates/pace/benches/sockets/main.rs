//! The paced sockets beside other ways of sending at a rate: `cargo bench -p tidegate-pace --bench sockets`, about two
//! minutes.
//!
//! Datagrams go over loopback to a receiver that takes the kernel's time stamps of their arrival, so that it need not run
//! when they arrive. Printed are the error of the rate, the gaps between datagrams, and the processor time of the sending
//! thread. Quinn sends through the same receiver, which hands its datagrams on to a server 10 ms later, and back: its own
//! pacer divides a window by a round trip, and needs one. Results are printed, never asserted, because they depend on the
//! machine.
//!
//! Arguments after `--`: rates in Mbit/s (default 10, 100 and 400), `quick` for a third of the time, `to=ADDRESS` to send
//! to a receiver of one's own (`tidegate pace --receive`) on a route with fq.

mod quic;
mod receiver;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use receiver::Receiver;
use rustix::thread::ClockId;
use tidegate_pace::udp::{Choice, Settings};
use tidegate_pace::{Bytes, Params, Rate, Report, Span, SpinBudget, UdpSocket};

/// The size of a datagram.
const SIZE: usize = 1400;

/// How datagrams are sent.
#[derive(Clone, Copy)]
enum Way {
    /// This crate's socket with these settings, in a thread.
    Blocking(SpinBudget, Choice),
    /// This crate's socket in a task.
    Task,
    /// Gaps between batches.
    Batches,
    /// After each datagram a sleep of its time at the rate.
    PlainSleep,
    /// `tokio::time::interval`, a tick per datagram, missed ticks in a burst.
    Interval,
    /// Quinn with its own pacer; the window is the rate times the round trip.
    Quinn,
    /// Quinn over this crate's socket; the window is twice that, so that the socket limits the rate.
    QuinnOverPaced,
}

impl Way {
    const ALL: [(&'static str, Self); 10] = [
        ("UdpSocket", Self::Blocking(SpinBudget::NONE, Choice::Timers)),
        ("UdpSocket, spin <= 25 %", Self::Blocking(SpinBudget::DEFAULT, Choice::Timers)),
        ("UdpSocket, SO_TXTIME", Self::Blocking(SpinBudget::NONE, Choice::TransmitTime)),
        ("UdpSocket, SO_MAX_PACING_RATE", Self::Blocking(SpinBudget::NONE, Choice::MaxRate)),
        ("tokio::UdpSocket", Self::Task),
        ("tokio, send_segments", Self::Batches),
        ("thread::sleep", Self::PlainSleep),
        ("tokio interval", Self::Interval),
        ("quinn's pacer", Self::Quinn),
        ("quinn::Socket", Self::QuinnOverPaced),
    ];

    /// Sends to `to` at `rate` for `span`; returns the processor time of this thread over the time that passed.
    fn send(self, to: SocketAddr, rate: Rate, span: Duration) -> io::Result<f64> {
        let settings = Settings::new(rate);
        let (start, cpu) = (std::time::Instant::now(), cpu_time());
        let data = [7; SIZE];
        match self {
            Self::Blocking(spin, backend) => {
                let params = Params { spin, ..settings.params };
                let socket = UdpSocket::connect(to, Settings { params, backend, ..settings })?;
                while start.elapsed() < span {
                    socket.send(&data)?;
                }
            }
            Self::Task => runtime()?.block_on(async {
                let socket = tidegate_pace::tokio::UdpSocket::connect(to, settings)?;
                until(start, span, async || socket.send(&data).await.map(drop)).await
            })?,
            Self::Batches => runtime()?.block_on(async {
                let socket = tidegate_pace::tokio::UdpSocket::connect(to, settings)?;
                let data = [7; 40 * SIZE];
                until(start, span, async || socket.send_segments(&data, SIZE as u16).await.map(drop)).await
            })?,
            Self::PlainSleep => {
                let socket = plain(to)?;
                while start.elapsed() < span {
                    socket.send(&data)?;
                    std::thread::sleep(each(rate));
                }
            }
            Self::Interval => runtime()?.block_on(async {
                let socket = plain(to)?;
                let mut interval = tokio::time::interval(each(rate));
                until(start, span, async || {
                    interval.tick().await;
                    socket.send(&data).map(drop)
                })
                .await
            })?,
            Self::Quinn | Self::QuinnOverPaced => {
                let paced = matches!(self, Self::QuinnOverPaced).then_some(settings);
                runtime()?.block_on(quic::send(to, rate, span, paced))?;
            }
        }
        Ok(cpu_time().saturating_sub(cpu).as_secs_f64() / start.elapsed().as_secs_f64())
    }
}

/// Repeats `step` for `span` from `start` on.
async fn until(
    start: std::time::Instant,
    span: Duration,
    mut step: impl AsyncFnMut() -> io::Result<()>,
) -> io::Result<()> {
    while start.elapsed() < span {
        step().await?;
    }
    Ok(())
}

/// The runtime of one thread, whose processor time is that of sending.
fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

fn plain(to: SocketAddr) -> io::Result<std::net::UdpSocket> {
    let socket = std::net::UdpSocket::bind(("0.0.0.0", 0))?;
    socket.connect(to)?;
    Ok(socket)
}

/// The time of a datagram at `rate`.
fn each(rate: Rate) -> Duration {
    let span = rate.time_for_ceil(Bytes::new(SIZE as u64)).expect("no rate here is zero");
    Duration::from_nanos(span.as_nanos())
}

fn cpu_time() -> Span {
    let time = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
    Span::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

fn print(name: &str, report: &Report, cpu: f64) {
    let us = |nanos: u64| nanos as f64 / 1e3;
    let gap = report.gap_ns;
    println!(
        "| {name} | {:+.3} % | {:.0} | {:.0} | {:.0} | {:.1} % |",
        report.rate_error_ppm / 1e4,
        us(gap.p50),
        us(gap.p99),
        us(gap.p999),
        cpu * 100.0
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    // `cargo test --all-targets` runs benchmarks too, without this.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let quick = arguments.iter().any(|argument| argument == "quick");
    let span = Duration::from_secs(if quick { 1 } else { 3 });
    let to =
        arguments.iter().find_map(|argument| argument.strip_prefix("to=")).map(|to| to.parse().expect("to=IP:PORT"));
    let mut rates: Vec<u64> = arguments.iter().filter_map(|argument| argument.parse().ok()).collect();
    if rates.is_empty() {
        rates = vec![10, 100, 400];
    }
    for mbit in rates {
        let rate = Rate::from_mbit(mbit);
        println!("\n{mbit} Mbit/s, a gap of {:.0} us, {} s each", each(rate).as_secs_f64() * 1e6, span.as_secs());
        println!("| sender | rate | gap p50, us | p99 | p99.9 | processor |\n| --- | --- | --- | --- | --- | --- |");
        for (name, way) in Way::ALL {
            if let Some(to) = to {
                match way.send(to, rate, span) {
                    Ok(cpu) => println!("| {name} | the receiver measures | | | | {:.1} % |", cpu * 100.0),
                    Err(error) => println!("| {name} | NOT MEASURED: {error} | | | | |"),
                }
                continue;
            }
            let server = matches!(way, Way::Quinn | Way::QuinnOverPaced).then(quic::serve);
            let receiver = Receiver::start(rate, server).expect("loopback");
            match way.send(receiver.address, rate, span) {
                Ok(cpu) => print(name, &receiver.report(), cpu),
                Err(error) => println!("| {name} | NOT MEASURED: {error} | | | | |"),
            }
        }
    }
}
