//! The receiver: arrival times of datagrams, by the clock of the kernel.

use std::io::{self, IoSliceMut};
use std::net::{ToSocketAddrs, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use tidegate_pace::sender::{Target, wait_for_data};
use tidegate_pace::{Clock, MonotonicClock, Recorder};
use tidegate_units::{Bytes, Instant, Span};

use super::control_socket::ControlSocket;
use super::progress::{Progress, View};
use super::{Args, measure};
use crate::Failure;

/// Receives at `target` until stopped, and reports the distribution.
pub fn run(args: &Args, target: &Target) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::Failed(format!("--receive {target}: {error}"));
    let addresses: Vec<_> = target.address.to_socket_addrs().map_err(failed)?.collect();
    let socket = UdpSocket::bind(&addresses[..]).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    let stamped = setsockopt(&socket, sockopt::ReceiveTimestampns, &true).is_ok();
    // A larger buffer means fewer losses; without permission the default remains, and losses are counted.
    let _ = setsockopt(&socket, sockopt::RcvBufForce, &(8 << 20))
        .or_else(|_| setsockopt(&socket, sockopt::RcvBuf, &(8 << 20)));
    let counted = setsockopt(&socket, sockopt::RxqOvfl, &1).is_ok();
    if args.verbose {
        let by = if stamped { "the kernel, as they arrive" } else { "this process, as it reads them" };
        message!("tidegate: receiving at {}, times are taken by {by}", socket.local_addr().map_err(failed)?);
    }
    let control = ControlSocket::new(args.rate.unwrap_or_default());
    control.obey_signals(args.rate.unwrap_or_default())?;
    let mut receiver = Receiver {
        args,
        clock: MonotonicClock::new(),
        recorder: Recorder::new(args.rate),
        lost: counted.then_some(0),
        control,
    };
    receiver.go(&socket).map_err(failed)?;
    let report = receiver.recorder.report();
    let mut out = crate::output::stdout();
    if args.json {
        measure::json(&mut out, &report, receiver.lost)?;
    } else {
        measure::text(&mut out, &report, receiver.lost)?;
    }
    if report.packets == 0 {
        return Err(Failure::Failed(format!("--receive {target}: nothing arrived")));
    }
    Ok(())
}

struct Receiver<'a> {
    args: &'a Args,
    clock: MonotonicClock,
    recorder: Recorder,
    lost: Option<u64>,
    control: Arc<ControlSocket>,
}

impl Receiver<'_> {
    fn go(&mut self, socket: &UdpSocket) -> io::Result<()> {
        let mut progress = Progress::new(self.args.progress, self.args.quiet, self.clock.now());
        let mut buffer = vec![0; 1 << 16];
        let mut control_space = nix::cmsg_space!(nix::sys::time::TimeSpec, u32);
        // The first and the last datagram, by our clock.
        let mut seen: Option<(Instant, Instant)> = None;
        while self.args.count.is_none_or(|count| self.recorder.packets() < count) {
            let now = self.clock.now();
            if let Some((first, last)) = seen
                && (self.args.duration.is_some_and(|most| now.since(first) >= most)
                    || self.args.idle.is_some_and(|most| now.since(last) >= most))
            {
                break;
            }
            if self.control.wanted().stop.is_some() {
                break;
            }
            if progress.is_due(now) {
                progress.show(now, &self.view());
            }
            if !wait_for_data(socket.as_fd(), Span::from_millis(20))? {
                continue;
            }
            // All that are queued, but not so many that the clock is not read.
            for _ in 0..256 {
                if self.args.count.is_some_and(|count| self.recorder.packets() >= count) {
                    break;
                }
                let mut slices = [IoSliceMut::new(&mut buffer)];
                let message = match recvmsg::<()>(
                    socket.as_raw_fd(),
                    &mut slices,
                    Some(&mut control_space),
                    MsgFlags::MSG_DONTWAIT,
                ) {
                    Ok(message) => message,
                    Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EINTR) => break,
                    Err(error) => return Err(error.into()),
                };
                let mut arrived = None;
                for control in message.cmsgs()? {
                    match control {
                        ControlMessageOwned::ScmTimestampns(time) => {
                            let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
                            let nanos = u64::try_from(time.tv_nsec()).unwrap_or(0);
                            arrived = Some(Instant::from_nanos(seconds * 1_000_000_000 + nanos));
                        }
                        ControlMessageOwned::RxqOvfl(count) => self.lost = Some(u64::from(count)),
                        _ => {}
                    }
                }
                let now = self.clock.now();
                let size = Bytes::new(message.bytes as u64);
                self.recorder.record(arrived.unwrap_or(now), size);
                seen = Some((seen.map_or(now, |(first, _)| first), now));
            }
        }
        progress.end();
        Ok(())
    }
    fn view(&self) -> View {
        View {
            bytes: self.recorder.bytes().as_u64(),
            total: None,
            rate_bps: self.args.rate.unwrap_or_default().as_bps(),
            paused: false,
            gap_p50: self.recorder.gap(500),
            gap_p99: self.recorder.gap(990),
            dropped: 0,
        }
    }
}
