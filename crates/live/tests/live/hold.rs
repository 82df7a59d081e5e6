//! Exchanging the root of an interface under traffic.

use std::net::UdpSocket;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use tidegate_live::rtnl::Rtnl;
use tidegate_live::shaping::{Hold, wait_until_empty};
use tidegate_testbed::Ended;
use tidegate_testbed::veth::{DEVICE, LEFT, Pair, RIGHT};
use tidegate_units::{Bytes, Rate};

use crate::queue::{PATIENCE, PORT};

/// Datagrams that are sent at once, every [`PAUSE`]: 3.2 Mbit/s, of which some nearly always wait in a bucket of [`RATE`].
const BURST: u32 = 4;
pub const RATE: Rate = Rate::from_mbit(4);
const PAUSE: Duration = Duration::from_millis(10);
const ROUNDS: u32 = 10;
/// Nothing arrives for so long after the last datagram only.
const LONGEST_GAP: Duration = Duration::from_secs(2);

/// Sends numbered datagrams while `work` runs. Returns how many were sent, and the numbers that arrived.
pub fn while_sending(pair: &Pair, work: impl FnOnce()) -> (u32, Vec<u32>) {
    let to = pair.right.run(|| UdpSocket::bind((RIGHT[0], PORT)).unwrap()).unwrap();
    let from = pair.left.run(|| UdpSocket::bind((LEFT[0], 0)).unwrap()).unwrap();
    from.connect((RIGHT[0], PORT)).unwrap();
    to.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut bytes = [0; 1_000];
    // The first packet waits for a neighbour's address, where others could be dropped.
    from.send(&bytes).unwrap();
    to.recv(&mut bytes).unwrap();
    to.set_read_timeout(Some(LONGEST_GAP)).unwrap();
    // What waited for half a second leaves at once when shaping ends, and the receiver may have no processor then.
    let _ = set_socket_recv_buffer_size_force(&to, 8 << 20);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let (mut bytes, mut sent) = ([0; 1_000], 0_u32);
            while !stop.load(Ordering::Relaxed) {
                for _ in 0..BURST {
                    bytes[..4].copy_from_slice(&sent.to_be_bytes());
                    from.send(&bytes).unwrap();
                    sent += 1;
                }
                std::thread::sleep(PAUSE);
            }
            sent
        });
        let receiver = scope.spawn(|| {
            let (mut bytes, mut arrived) = ([0; 1_000], Vec::new());
            while to.recv(&mut bytes).is_ok() {
                arrived.push(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
            }
            arrived
        });
        // The scope waits for the sender, also where `work` panics.
        let done = catch_unwind(AssertUnwindSafe(work));
        stop.store(true, Ordering::Relaxed);
        done.unwrap_or_else(|panic| resume_unwind(panic));
        (sender.join().unwrap(), receiver.join().unwrap())
    })
}

/// Panics unless what was sent has arrived, in order.
pub fn all_in_order(sent: u32, arrived: &[u32]) {
    let lost: Vec<u32> = (0..sent).filter(|number| !arrived.contains(number)).collect();
    let late: Vec<u32> = arrived.windows(2).filter(|pair| pair[0] > pair[1]).map(|pair| pair[1]).collect();
    assert!(lost.is_empty() && late.is_empty(), "of {sent} packets were lost: {lost:?}; were late: {late:?}");
}

/// A bucket becomes the root and goes again, and `clsact` with it, again and again. With a hold nothing is lost or overtaken, and
/// without one something is.
pub fn an_exchanged_root_loses_nothing_that_is_held() -> Ended {
    let pair = Pair::new();
    let index = pair.left.run(|| Rtnl::open().unwrap().index(DEVICE).unwrap()).unwrap();
    let exchange = |rtnl: &mut Rtnl, is_bucket: bool| {
        if is_bucket {
            rtnl.set_tbf(index, RATE, Bytes::new(3_000), Bytes::new(1_000_000)).unwrap();
        } else {
            rtnl.clear_qdisc(index).unwrap();
        }
    };
    let rounds = |is_held: bool, rounds: u32| {
        pair.left
            .run(|| {
                let mut rtnl = Rtnl::open().unwrap();
                for is_bucket in [true, false].repeat(rounds as usize) {
                    let hold = is_held.then(|| Hold::begin(&mut rtnl, index).unwrap());
                    if is_held {
                        wait_until_empty(&mut rtnl, index);
                    }
                    exchange(&mut rtnl, is_bucket);
                    hold.map(Hold::end).transpose().unwrap();
                    std::thread::sleep(3 * PAUSE);
                }
            })
            .unwrap();
    };
    let (sent, arrived) = while_sending(&pair, || rounds(true, ROUNDS));
    assert!(sent > ROUNDS * BURST, "{sent}");
    all_in_order(sent, &arrived);
    let (sent, arrived) = while_sending(&pair, || rounds(false, 4 * ROUNDS));
    assert!(arrived.len() < sent as usize, "without a hold nothing was lost of {sent}: this test shows nothing");
    println!("without a hold {} of {sent} were lost", sent as usize - arrived.len());
    Ended::Passed
}
