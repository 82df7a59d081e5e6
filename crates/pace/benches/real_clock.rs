//! Pacing on the clock of this machine: `cargo bench -p tidegate-pace --bench real_clock`, about two minutes.
//!
//! Long-term error through a pipe from 10 kB/s to 500 MB/s, and the error of the gaps between 1400-byte datagrams at
//! 10 to 1000 Mbit/s, with the CPU time of the sending thread; in comparison with plain sleeping, a tokio interval,
//! `pv -L` and `trickle` where they are installed. Results are printed, never asserted, because they depend on the
//! machine.
//!
//! Arguments after `--`: `pipe` or `udp` for one half only; `quick` for a third of the time.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::thread::ClockId;
use tidegate_pace::sender::Destination;
use tidegate_pace::{Algorithm, At0, Clock, MonotonicClock, Pacer, Params, Recorder, SpinBudget, wait_until};
use tidegate_units::{Bytes, Instant, Rate, Span};

/// The method of keeping the rate.
#[derive(Clone, Copy)]
enum Way {
    /// The pacer, with this share of a core for spinning.
    Pacer(SpinBudget),
    /// The schedule of AT0 with sleeps only.
    At0,
    /// After each packet, sleep for S/R.
    PlainSleep,
    /// `tokio::time::interval`, a tick per packet, missed ticks in a burst.
    Tokio,
}

impl Way {
    const ALL: [(&'static str, Self); 5] = [
        ("pacer, spin <= 25 %", Self::Pacer(SpinBudget::DEFAULT)),
        ("pacer, spin <= 100 %", Self::Pacer(SpinBudget::FULL)),
        ("at0, sleeps only", Self::At0),
        ("plain sleep", Self::PlainSleep),
        ("tokio interval", Self::Tokio),
    ];
}

struct Measured {
    recorder: Recorder,
    /// CPU time of the sending thread over elapsed time.
    cpu: f64,
}

fn cpu_time() -> Span {
    let time = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
    Span::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Sends packets of `size` at `rate` for `span` by the given method.
fn send(way: Way, rate: Rate, size: Bytes, span: Span, mut packet: impl FnMut()) -> Measured {
    let mut clock = MonotonicClock::new();
    let mut recorder = Recorder::new(Some(rate));
    let (start, cpu) = (clock.now(), cpu_time());
    let end = start + span;
    let each = rate.time_for_ceil(size).expect("no rate here is zero");
    match way {
        Way::Pacer(spin) => {
            let params = Params { spin, ..Params::new(rate) };
            let mut pacer = Pacer::new(params, start).expect("the default parameters are valid");
            run(&mut clock, &mut pacer, &mut recorder, size, end, packet);
        }
        Way::At0 => {
            let mut at0 = At0::new(rate, start).expect("no rate here is zero");
            run(&mut clock, &mut at0, &mut recorder, size, end, packet);
        }
        Way::PlainSleep => {
            while clock.now() < end {
                packet();
                recorder.record(clock.now(), size);
                std::thread::sleep(Duration::from_nanos(each.as_nanos()));
            }
        }
        Way::Tokio => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
            runtime.block_on(async {
                let mut interval = tokio::time::interval(Duration::from_nanos(each.as_nanos()));
                while clock.now() < end {
                    interval.tick().await;
                    packet();
                    recorder.record(clock.now(), size);
                }
            });
        }
    }
    let used = cpu_time().saturating_sub(cpu);
    Measured { recorder, cpu: used.as_secs_f64() / clock.now().since(start).as_secs_f64() }
}

fn run(
    clock: &mut MonotonicClock,
    algorithm: &mut impl Algorithm,
    recorder: &mut Recorder,
    size: Bytes,
    end: Instant,
    mut packet: impl FnMut(),
) {
    let mut now = clock.now();
    while now < end {
        packet();
        now = clock.now();
        recorder.record(now, size);
        let due = algorithm.next(now, size);
        now = wait_until(clock, algorithm, due);
    }
}

fn pipes(span: Span) {
    println!(
        "\nlong-term error through a pipe, {} s each: rate asked, error, CPU of the sending thread",
        span.as_secs_f64()
    );
    for bytes in [10_000_u64, 100_000, 1_000_000, 10_000_000, 100_000_000, 500_000_000] {
        let rate = Rate::from_bytes_per_sec(bytes);
        // The size of the writes of `tidegate pace`.
        let size = (bytes / 500).clamp(256, 1 << 16);
        println!("{}/s in pieces of {}", Bytes::new(bytes), Bytes::new(size));
        let data = vec![7; size as usize];
        for (name, way) in Way::ALL {
            let (mut reader, writer) = std::io::pipe().expect("a pipe");
            let drain = std::thread::spawn(move || {
                let mut sink = vec![0; 1 << 18];
                while reader.read(&mut sink).is_ok_and(|n| n > 0) {}
            });
            let mut out = Destination::stream("pipe", File::from(OwnedFd::from(writer)));
            let measured = send(way, rate, Bytes::new(size), span, || {
                let mut sent = 0;
                while sent < data.len() {
                    match out.send(&data[sent..], None, None) {
                        Ok(n) => sent += n,
                        Err(_) => {
                            let _ = out.wait_for_room(Span::from_secs(1));
                        }
                    }
                }
            });
            drop(out);
            drain.join().expect("the reader ends with the pipe");
            let report = measured.recorder.report();
            println!("  {name:22} {:+9.4} %   cpu {:5.1} %", report.rate_error_ppm / 1e4, measured.cpu * 100.0);
        }
        for (name, error) in [("pv -L", pv(bytes, span)), ("trickle -u", trickle(bytes, span))] {
            match error {
                Ok(error) => println!("  {name:22} {:+9.4} %", error * 100.0),
                Err(why) => println!("  {name:22} NOT MEASURED: {why}"),
            }
        }
    }
}

/// The error of `pv -L`: its output from the first second on, over the time.
fn pv(rate: u64, span: Span) -> Result<f64, String> {
    let mut child = Command::new("pv")
        .args(["-q", "-L", &rate.to_string(), "/dev/zero"])
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("pv cannot be run ({error}); install it and run this again"))?;
    let mut out = child.stdout.take().expect("it is piped");
    let error = arriving(|buffer| out.read(buffer), rate, span);
    let _ = child.kill();
    let _ = child.wait();
    error
}

/// The error of `trickle -u`, a library that is preloaded and shapes socket calls; here those of Python.
fn trickle(rate: u64, span: Span) -> Result<f64, String> {
    // It counts in KB/s.
    if rate < 100_000 {
        return Err("its unit, 1 KB/s, is too coarse for this rate".into());
    }
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    let port = listener.local_addr().map_err(|error| error.to_string())?.port();
    for tool in ["trickle", "python3"] {
        if Command::new(tool).arg("-h").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
            return Err(format!("{tool} cannot be run; install it and run this again"));
        }
    }
    let sender = format!(
        "import socket\ns = socket.create_connection(('127.0.0.1', {port}))\nd = bytes(8192)\nwhile True: s.sendall(d)"
    );
    let mut child = Command::new("trickle")
        .args(["-s", "-u", &(rate / 1024).to_string(), "python3", "-c", &sender])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    listener.set_nonblocking(true).map_err(|error| error.to_string())?;
    let mut connected = Err("no connection".to_string());
    for _ in 0..200 {
        std::thread::sleep(Duration::from_millis(10));
        if let Ok((stream, _)) = listener.accept() {
            connected = Ok(stream);
            break;
        }
    }
    let error = connected.and_then(|mut stream| {
        let usable = stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(Some(Duration::from_secs(3))));
        usable.map_err(|error| error.to_string())?;
        arriving(|buffer| stream.read(buffer), rate / 1024 * 1024, span)
    });
    let _ = child.kill();
    let _ = child.wait();
    error
}

/// The error of the rate at which bytes arrive, after half a second of settling.
fn arriving(mut read: impl FnMut(&mut [u8]) -> std::io::Result<usize>, rate: u64, span: Span) -> Result<f64, String> {
    let mut clock = MonotonicClock::new();
    let mut buffer = vec![0; 1 << 18];
    let begin = clock.now() + Span::from_millis(500);
    let (mut first, mut bytes, mut last, mut latest) = (None, 0, begin, 0);
    while last.since(begin) < span {
        let n = read(&mut buffer).map_err(|error| error.to_string())?;
        if n == 0 {
            return Err("the stream ended".into());
        }
        let now = clock.now();
        if now >= begin {
            first.get_or_insert(now);
            (bytes, latest, last) = (bytes + n as u64, n as u64, now);
        }
    }
    let elapsed = last.since(first.unwrap_or(last)).as_secs_f64();
    let error = (bytes - latest) as f64 / elapsed / rate as f64 - 1.0;
    if error > 1.0 { Err(format!("it did not limit the rate: {:.0} times the rate", error + 1.0)) } else { Ok(error) }
}

fn datagrams(span: Span) {
    println!(
        "\ngaps between 1400-byte datagrams, {} s each: error of the gap, error of the rate, CPU of the sending thread",
        span.as_secs_f64()
    );
    for mbit in [10, 100, 1000] {
        let rate = Rate::from_mbit(mbit);
        println!("{mbit} Mbit/s, a gap of {}", rate.time_for_ceil(Bytes::new(1400)).expect("not zero"));
        for (name, way) in Way::ALL {
            // The receiving socket drops what nobody reads, at no cost to the sender.
            let receiver = UdpSocket::bind("127.0.0.1:0").expect("loopback");
            let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
            socket.connect(receiver.local_addr().expect("it is bound")).expect("loopback");
            let data = [7; 1400];
            let measured = send(way, rate, Bytes::new(1400), span, || {
                let _ = socket.send(&data);
            });
            let report = measured.recorder.report();
            let us = |nanos: u64| nanos as f64 / 1e3;
            let gap = report.gap_error_ns;
            println!(
                "  {name:22} p50 {:8.2} us  p99 {:8.2} us  p99.9 {:9.2} us   rate {:+9.4} %   cpu {:5.1} %",
                us(gap.p50),
                us(gap.p99),
                us(gap.p999),
                report.rate_error_ppm / 1e4,
                measured.cpu * 100.0
            );
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    // `cargo test --all-targets` runs benchmarks too, without this.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let given = |name: &str| arguments.iter().any(|argument| argument == name);
    let span = if given("quick") { Span::from_secs(1) } else { Span::from_secs(3) };
    if !given("udp") {
        pipes(span);
    }
    if !given("pipe") {
        datagrams(span);
    }
    let _ = std::io::stdout().flush();
}
