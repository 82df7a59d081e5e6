//! The paper's equations against the shaper.

use super::*;

/// Equations (5.1) to (5.4) as written: the tokens of every flow are updated at every step of one microsecond; ready
/// packets leave in the order of readiness.
#[test]
fn strict_shares_agree_with_the_papers_equations() {
    let rate = Rate::from_mbit(8); // one byte per microsecond
    let (burst, flow_burst) = (4_000, 2_000);
    for seed in 0..20 {
        let mut random = Stream::named(seed, "oracle");
        let class = ClassParams {
            spare: Spare::Idle,
            burst: Bytes::new(burst),
            flow_burst: Bytes::new(flow_burst),
            limit: Bytes::MAX,
            flow_limit: Bytes::MAX,
            ..ClassParams::new(rate)
        };
        let params = FbcParams { burst: Bytes::new(burst), ..FbcParams::new(rate) };
        let mut shaper: Shaper = Fbc::new(params, vec![class], vec![], at_us(0)).unwrap();
        let flows = 4;
        // All four are present before the comparison begins, with empty queues and full buckets.
        for n in 0..flows {
            let packet = TestPacket::new(n, n, 1);
            shaper.enqueue(at_us(0), packet, &mut Discard);
            assert!(shaper.dequeue(at_us(0), &mut Discard).is_some());
        }
        let begin = 20_000;
        let mut tokens = vec![flow_burst as f64; flows as usize];
        let mut aggregate = burst as f64;
        let mut queues: Vec<Vec<(u64, u64)>> = vec![vec![]; flows as usize];
        let (mut expected, mut got) = (BTreeMap::new(), BTreeMap::new());
        let mut chosen: Option<usize> = None;
        let mut id = 100;
        for us in begin..begin + 200_000 {
            if random.below(900) == 0 && us < begin + 150_000 {
                let (flow, size) = (random.below(flows), 100 + random.below(1_300));
                queues[flow as usize].push((id, size));
                shaper.enqueue(at_us(us), TestPacket::new(id, flow, size), &mut Discard);
                id += 1;
            }
            loop {
                if chosen.is_none() {
                    chosen = (0..flows as usize)
                        .filter(|&f| queues[f].first().is_some_and(|(_, size)| *size as f64 <= tokens[f] + 1e-6))
                        .min_by(|a, b| tokens[*b].total_cmp(&tokens[*a]));
                }
                let Some(f) = chosen else { break };
                let (packet, size) = queues[f][0];
                if size as f64 > aggregate + 1e-6 {
                    break;
                }
                queues[f].remove(0);
                tokens[f] -= size as f64;
                aggregate -= size as f64;
                expected.insert(packet, us);
                chosen = None;
            }
            while let Some(packet) = shaper.dequeue(at_us(us), &mut Discard) {
                got.insert(packet.id, us);
            }
            for (f, level) in tokens.iter_mut().enumerate() {
                // (5.2); a flow with a waiting packet does not lose what exceeds the bucket in the meantime.
                let cap = if queues[f].is_empty() { flow_burst as f64 } else { (flow_burst as f64).max(*level) };
                *level = (*level + 1.0 / flows as f64).min(cap);
            }
            aggregate = (aggregate + 1.0).min(burst as f64);
        }
        assert_eq!(expected.len(), got.len());
        assert!(got.len() > 100);
        for (packet, us) in &expected {
            // The order of several ready packets may differ, by one packet of each other flow.
            assert!(got[packet].abs_diff(*us) <= 3 * 1_400, "packet {packet}: {} instead of {us}", got[packet]);
        }
        let exact = expected.iter().filter(|(packet, us)| got[*packet].abs_diff(**us) <= 2).count();
        assert!(exact * 10 >= expected.len() * 9, "only {exact} of {} to the microsecond", expected.len());
    }
}
