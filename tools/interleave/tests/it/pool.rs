//! Shards that take credit of one pool.

use loom::sync::{Arc, Mutex};
use loom::thread;
use tidegate_core::pool::{Pool, PoolAccess, Reply, Request, Stake};
use tidegate_core::{Bytes, ClassId, Credit, Instant, Rate};

use tidegate_interleave::shards::SharedPool;

const BURST: Bytes = Bytes::new(3_000);
const RATE: Rate = Rate::from_mbit(1);
const CLASS: ClassId = ClassId(0);

fn at(micros: u64) -> Instant {
    Instant::from_nanos(1_000_000_000 + micros * 1_000)
}

/// A request for `bytes` of the class, or of the spare rate.
fn request(shard: u32, class: Option<ClassId>, bytes: u64) -> Request {
    let stake = Stake { weight: 1, minimum: Rate::ZERO };
    Request { shard, class, need: Bytes::new(1_000), wish: Bytes::new(bytes), stake }
}

/// Law 1 in every order of calls, with times that are not in order: what two shards may use until a time, less what they gave back,
/// is at most the burst and what the rate has earned.
#[test]
fn shards_take_no_more_than_there_is() {
    loom::model(|| {
        // The total is the class's: nothing is spare but what its bucket does not hold.
        let pool = Arc::new(SharedPool::new(Pool::new(2, (RATE, BURST), &[(RATE, BURST)], at(0))));
        let used = Arc::new(Mutex::new(Vec::new()));
        let shard = |number: u32, times: [u64; 2]| {
            let (pool, used) = (Arc::clone(&pool), Arc::clone(&used));
            move || {
                for (turn, time) in times.into_iter().enumerate() {
                    let Reply::Granted(slice) = pool.take(at(time), &request(number, Some(CLASS), 2_000)) else {
                        panic!("a slice of a class is granted always");
                    };
                    // The second slice is not needed in full.
                    let back = if turn == 1 { Bytes::new(slice.bytes.as_u64() / 2) } else { Bytes::ZERO };
                    if turn == 1 {
                        pool.give_back(at(time), number, Some(CLASS), back);
                    }
                    used.lock().unwrap().push((slice.from, slice.bytes.as_u64() - back.as_u64()));
                }
            }
        };
        let other = thread::spawn(shard(1, [700, 900]));
        shard(0, [500, 1_200])();
        other.join().unwrap();
        let mut used = used.lock().unwrap().clone();
        used.sort_unstable();
        let mut sum = 0;
        for (from, bytes) in used {
            sum += bytes;
            let may = Credit::of(BURST) + RATE.credit_in(from.since(at(0)));
            assert!(Credit::of(Bytes::new(sum)) <= may, "{sum} bytes until {from:?}");
        }
    });
}

/// One of the minimums that do not fit together is granted, whichever comes first, and a release makes room.
#[test]
fn minimums_are_granted_as_far_as_they_fit() {
    loom::model(|| {
        let pool = Arc::new(SharedPool::new(Pool::new(2, (RATE, BURST), &[(RATE, BURST)], at(0))));
        let ask = |pool: &SharedPool| pool.promise(CLASS, Rate::from_kbit(600));
        let other = thread::spawn({
            let pool = Arc::clone(&pool);
            move || ask(&pool)
        });
        let granted = [ask(&pool), other.join().unwrap()];
        assert_eq!(granted.iter().filter(|one| **one).count(), 1);
        assert_eq!(pool.promised(CLASS), Rate::from_kbit(600));
        pool.release(CLASS, Rate::from_kbit(600));
        assert!(ask(&pool));
    });
}
