use super::*;

const DELAY: Span = Span::from_millis(10);
/// 1250 bytes take 1 ms of 10 Mbit/s.
const PACKET: u32 = 1250;

fn line(conditions: Conditions) -> LineState {
    assert_eq!(conditions.validate(), Ok(()));
    LineState::new(conditions, Rate::from_mbit(10), DELAY, 1, "a->b")
}

/// Transmits `n` packets back to back and returns the end of each transmission and the arrival.
fn run(state: &mut LineState, n: usize) -> Vec<(u64, Option<u64>)> {
    let mut at = 0;
    (0..n)
        .map(|_| {
            at = state.available(at);
            let carried = state.carry(at, PACKET);
            at = carried.free_at;
            (carried.free_at, carried.arrival)
        })
        .collect()
}

fn millis(n: u64) -> Instant {
    Instant::ZERO + Span::from_millis(n)
}

#[test]
fn without_conditions_the_line_is_constant() {
    let all = run(&mut line(Conditions::default()), 100);
    assert!(all.iter().zip(1..).all(|(packet, n)| *packet == (n * 1_000_000, Some(n * 1_000_000 + 10_000_000))));
}

#[test]
fn jitter_has_its_distribution_and_its_correlation() {
    let mean = 0.004;
    for (distribution, deviation) in [
        (Distribution::Uniform { low: 0.0, high: 0.008 }, 0.008 / 12.0_f64.sqrt()),
        (Distribution::Exponential { mean }, mean),
        (Distribution::LogNormal { mean, deviation: 0.002 }, 0.002),
        (Distribution::Empirical(vec![(0.0, 0.0), (0.008, 1.0)]), 0.008 / 12.0_f64.sqrt()),
    ] {
        for correlation in [0.0, 0.8] {
            let jitter = Jitter { distribution: distribution.clone(), correlation, reorders: true };
            let n = 100_000;
            let all = run(&mut line(Conditions { jitter: Some(jitter), ..Conditions::default() }), n);
            let extra = |(end, arrival): &(u64, Option<u64>)| (arrival.unwrap() - end) as f64 / 1e9 - 0.01;
            let extra: Vec<f64> = all.iter().map(extra).collect();
            let found = extra.iter().sum::<f64>() / n as f64;
            // Correlated values count as fewer: (1 + r) / (1 - r) times the variance of the mean.
            let error = 5.0 * deviation * ((1.0 + correlation) / (1.0 - correlation) / n as f64).sqrt();
            assert!((found - mean).abs() < error, "{distribution:?} {correlation}: mean {found}");
            let variance = extra.iter().map(|x| (x - found).powi(2)).sum::<f64>() / n as f64;
            assert!((variance.sqrt() / deviation - 1.0).abs() < 0.05, "{distribution:?}: {}", variance.sqrt());
            let product = extra.windows(2).map(|pair| (pair[0] - found) * (pair[1] - found)).sum::<f64>();
            let lag = product / n as f64 / variance;
            // The correlation of the underlying normal values is exact; the transformation reduces it slightly.
            let expected = if correlation == 0.0 { -0.02..0.02 } else { 0.7..0.82 };
            assert!(expected.contains(&lag), "{distribution:?} {correlation}: lag-one correlation {lag}");
        }
    }
}

#[test]
fn packets_overtake_each_other_only_where_they_may() {
    for reorders in [false, true] {
        let distribution = Distribution::Exponential { mean: 0.005 };
        let jitter = Some(Jitter { distribution, correlation: 0.0, reorders });
        let all = run(&mut line(Conditions { jitter, ..Conditions::default() }), 1_000);
        let overtaken = all.windows(2).filter(|pair| pair[0].1 > pair[1].1).count();
        assert_eq!(overtaken > 0, reorders, "{overtaken}");
    }
}

#[test]
fn listed_packets_are_lost_and_frames_arrive_at_once() {
    let conditions = Conditions { lost: [2, 3, 9].into(), frame: Some(Span::from_millis(4)), ..Conditions::default() };
    let all = run(&mut line(conditions), 12);
    let lost: Vec<usize> = (1..).zip(&all).filter(|(_, packet)| packet.1.is_none()).map(|(n, _)| n).collect();
    assert_eq!(lost, [2, 3, 9]);
    // Transmissions end at 1, 2, ... ms: four of them in each frame.
    let arrivals: Vec<u64> = all.iter().filter_map(|packet| Some(packet.1? / 1_000_000)).collect();
    assert_eq!(arrivals, [14, 14, 18, 18, 18, 18, 22, 22, 22]);
}

#[test]
fn a_failure_takes_what_is_on_the_line_and_keeps_what_is_not() {
    // Down from 20.5 ms to 50 ms: the packet in transmission and the ten on their way are lost.
    let outages = [(Instant::from_nanos(20_500_000), millis(50))].into();
    let all = run(&mut line(Conditions { outages, ..Conditions::default() }), 30);
    let lost: Vec<usize> = (1..).zip(&all).filter(|(_, packet)| packet.1.is_none()).map(|(n, _)| n).collect();
    assert_eq!(lost, (11..=21).collect::<Vec<_>>());
    assert_eq!(all[20].0, 50_000_000, "the transmitter waits for the return");
    assert_eq!(all[21], (51_000_000, Some(61_000_000)));
}

#[test]
fn failures_at_random_have_their_share() {
    let exponential = |mean| Distribution::Exponential { mean };
    let failures = Some(Failures { works: exponential(0.9), fails: exponential(0.1) });
    let mut state = line(Conditions { failures, ..Conditions::default() });
    let mut down = 0;
    let (mut at, mut count) = (0, 0);
    while at < 2_000_000_000_000 {
        let available = state.available(at);
        (down, count) = (down + available - at, count + u64::from(available > at));
        at = available + 1_000_000;
    }
    // The line fails a tenth of the time. There are 2,000 failures, so their mean has an error of 1/45; allow five
    // of it.
    let share = down as f64 / at as f64;
    assert!((share - 0.1).abs() < 0.012 && (1_700..2_300).contains(&count), "{share} {count}");
}

#[test]
fn the_rate_adds_up_to_the_bits() {
    let steps: Arc<[(Span, Rate)]> = [(Span::ZERO, 8), (Span::from_millis(3), 2), (Span::from_millis(5), 0)]
        .map(|(at, mbit)| (at, Rate::from_mbit(mbit)))
        .into();
    let rate = Some(RateProcess::Steps { steps, repeat: Some(Span::from_millis(7)) });
    let mut state = line(Conditions { rate, ..Conditions::default() });
    // A period has 3 ms x 8 Mbit/s + 2 ms x 2 Mbit/s = 28,000 bits, 2.8 packets: the third ends in the next period.
    // 10,000 bits: 1.25 ms each; the third has 4,000 left at 3 ms, which take 2 ms; the fourth begins at 5 ms, waits
    // until 7 ms, and takes 1.25 ms.
    let ends: Vec<u64> = run(&mut state, 4).iter().map(|packet| packet.0 / 1_000).collect();
    assert_eq!(ends, [1_250, 2_500, 7_250, 8_500]);
    let changes = [LineChange { at: millis(2), rate: Some(Rate::from_mbit(5)), ..LineChange::default() }].into();
    let mut state = line(Conditions { changes, ..Conditions::default() });
    let ends: Vec<u64> = (0..2).map(|_| state.carry(1_500_000, PACKET).free_at / 1_000).collect();
    // Half a millisecond at 10 Mbit/s, the other 5,000 bits at 5: 1 ms.
    assert_eq!(ends[0], 3_000);
}

/// Bits a second that the line carries in `seconds`.
fn mean_rate(process: RateProcess, seconds: u64) -> f64 {
    let mut state = line(Conditions { rate: Some(process), ..Conditions::default() });
    let (mut at, mut bits) = (0, 0);
    while at < seconds * 1_000_000_000 {
        at = state.carry(at, PACKET).free_at;
        bits += u64::from(PACKET) * 8;
    }
    bits as f64 * 1e9 / at as f64
}

#[test]
fn rates_over_time_have_their_means() {
    let mbit = Rate::from_mbit;
    let sine = RateProcess::Sine {
        mean: mbit(4),
        amplitude: mbit(3),
        period: Span::from_secs(2),
        step: Span::from_millis(10),
    };
    let rate = mean_rate(sine, 20);
    assert!((rate / 4e6 - 1.0).abs() < 0.01, "sine {rate}");
    let state = |rate, millis| MarkovState { rate: mbit(rate), mean: Span::from_millis(millis), next: Vec::new() };
    // (1 x 300 + 8 x 100 + 0 x 100) / 500 = 2.2 Mbit/s: all three states equally often.
    let rate = mean_rate(RateProcess::Markov([state(1, 300), state(8, 100), state(0, 100)].into()), 4_000);
    assert!((rate / 2.2e6 - 1.0).abs() < 0.08, "Markov {rate}");
    let trace = RateProcess::mahimahi("1\n1\n3\n10\n").unwrap();
    let rate = mean_rate(trace, 10);
    // Four times 1500 bytes in 10 ms.
    assert!((rate / 4.8e6 - 1.0).abs() < 0.01, "Mahimahi {rate}");
    let csv = RateProcess::csv("time,rate\n0,1000000\n1, 3mbit # more\n", Some(Span::from_secs(2))).unwrap();
    let rate = mean_rate(csv, 100);
    assert!((rate / 2e6 - 1.0).abs() < 0.02, "CSV {rate}");
    assert!(RateProcess::csv("0,1\n0,2", None).unwrap_err().starts_with("step 2"));
    assert!(RateProcess::mahimahi("5\n3\n").unwrap_err().starts_with("line 2"));
    let cellular = Cellular::default();
    let rate = mean_rate(RateProcess::Cellular(cellular), 2_000);
    assert!((2e6..9e6).contains(&rate), "cellular {rate}");
}

/// Windows of one trace: what is before the beginning comes at the end of the period, and the mean of a period stays.
#[test]
fn a_trace_may_begin_later() {
    let ends = |process: RateProcess, n: usize| {
        let mut state = line(Conditions { rate: Some(process), ..Conditions::default() });
        run(&mut state, n).iter().map(|packet| packet.0 / 1_000).collect::<Vec<_>>()
    };
    let trace = |from: u64| {
        RateProcess::csv("0,8mbit\n0.003,2mbit\n0.005,0\n", Some(Span::from_millis(7)))
            .unwrap()
            .begun_at(Span::from_millis(from))
    };
    // From 4 ms on there are 1 ms at 2 Mbit/s (2,000 bits), nothing for 2 ms, and 8,000 bits in 1 ms of the next period.
    assert_eq!(ends(trace(4).unwrap(), 3), [4_000, 5_250, 8_000]);
    // The whole trace, shifted: three and a half periods are 24.5 ms.
    for from in 0..7 {
        let shifted = trace(from).unwrap();
        assert_eq!(shifted.mean(Span::from_secs(7)), trace(0).unwrap().mean(Span::from_secs(7)), "{from}");
    }
    assert!(trace(7).unwrap_err().starts_with("it lasts 0.007 s, and has nothing at 0.007 s"));
    let open = RateProcess::csv("0,8mbit\n1,2mbit\n", None).unwrap();
    let begun = open.clone().begun_at(Span::from_secs(1)).unwrap();
    assert_eq!(begun, RateProcess::constant(Rate::from_mbit(2)));
    assert!(open.begun_at(Span::from_secs(2)).is_err());
    // A trace that repeats after no time carries infinitely much.
    assert!(RateProcess::mahimahi("0\n0\n").unwrap_err().contains("lasts no time"));
    assert!(RateProcess::mahimahi("0\n4\n").is_ok());
}

/// Successive seeds have each window once, whatever the line is called, and each ends before the trace does.
#[test]
fn a_trace_may_begin_where_the_seed_says() {
    // In second n of 100 the rate is n packets of 1,000 bytes.
    let text: String = (0..100).map(|n| format!("{n},{}\n", (n + 1) * 8_000)).collect();
    let trace = RateProcess::csv(&text, Some(Span::from_secs(100))).unwrap();
    let drawn = RateProcess::drawn(vec![trace.clone()], Span::from_secs(9)).unwrap();
    let first = |process: &RateProcess, seed: u64, name: &str| {
        line_of(process, seed, name).capacity(Rate::from_mbit(1), 0, 9_000_000_000) / 8_000
    };
    let all: Vec<u64> = (7..18).map(|seed| first(&drawn, seed, "a->b")).collect();
    assert_eq!(all, (7..18).map(|seed| first(&drawn, seed, "b->a")).collect::<Vec<_>>());
    // Neighbours are far from each other.
    assert!(all.windows(2).all(|two| two[0].abs_diff(two[1]) > 200), "{all:?}");
    let mut sorted = all.clone();
    sorted.sort_unstable();
    // Seconds 1 to 9 have 45 packets, the next nine 81 more, and so on to seconds 91 to 99.
    assert_eq!(sorted, (0..11).map(|n| 45 + 81 * n).collect::<Vec<u64>>());
    assert_eq!(first(&drawn, 18, "a->b"), all[0]);
    // The mean is that of the whole trace, whatever is drawn.
    assert_eq!(drawn.mean(Span::from_secs(9)), trace.mean(Span::from_secs(100)));
    // Where there is no room for two windows, they overlap, and end before the trace does.
    let long = Windows::of(&[Span::from_secs(100)], Span::from_secs(60));
    let begin = |seed| long.begin(seed).1.as_nanos();
    assert!((1..2_000).all(|seed| begin(seed) <= 40_000_000_000));
    assert!((1..4).all(|seed| begin(seed).abs_diff(begin(seed + 1)) > 8_000_000_000));
    // A trace that repeats and is not longer than a run may begin anywhere, and a run has all of it.
    let whole = RateProcess::drawn(vec![trace.clone()], Span::from_secs(100)).unwrap();
    let state = |seed| line_of(&whole, seed, "a->b").capacity(Rate::from_mbit(1), 0, 100_000_000_000);
    assert!((1..9).all(|seed| state(seed).abs_diff(5_050 * 8_000) <= 1));
    let open = RateProcess::csv("0,8mbit\n1,2mbit\n", None).unwrap();
    let refused = |traces: Vec<RateProcess>| RateProcess::drawn(traces, Span::from_secs(1)).unwrap_err();
    assert!(refused(vec![open]).1.contains("nothing to draw"));
    // Several traces are one sample: each window of each is met once, and none goes from one to the next.
    let slow = RateProcess::csv("0,8kbit\n", Some(Span::from_secs(20))).unwrap();
    let both = RateProcess::drawn(vec![trace.clone(), slow.clone()], Span::from_secs(9)).unwrap();
    let mut met: Vec<u64> = (1..14).map(|seed| first(&both, seed, "a->b")).collect();
    met.sort_unstable();
    let mut windows: Vec<u64> = (0..11).map(|n| 45 + 81 * n).chain([9, 9]).collect();
    windows.sort_unstable();
    assert_eq!(met, windows);
    let packets = (5_050 + 20) as f64 / 120.0;
    let mean = both.mean(Span::from_secs(9)).unwrap().as_bps() as f64 / 8_000.0;
    assert!((mean - packets).abs() < 1e-3, "{mean}");
    // That of a run is that of its own part, by which the ideal time of its transfers is counted.
    let of_part = |seed| both.mean_of_part(seed, Span::from_secs(9)).unwrap().as_bps();
    assert!((1..14).all(|seed| of_part(seed) == first(&both, seed, "a->b") * 8_000 / 9), "{}", of_part(1));
    let short = RateProcess::csv("0,8kbit\n", Some(Span::from_millis(900))).unwrap();
    let (number, why) = refused(vec![slow, short]);
    assert!(number == 1 && why.contains("it lasts 0.9 s"), "{number}: {why}");
}

fn line_of(process: &RateProcess, seed: u64, name: &str) -> LineState {
    let conditions = Conditions { rate: Some(process.clone()), ..Conditions::default() };
    LineState::new(conditions, Rate::from_mbit(1), Span::ZERO, seed, name)
}

#[test]
fn wrong_conditions_are_named() {
    let none = Conditions::default;
    let rate = |steps: &[(u64, u64)], repeat: Option<u64>| {
        let steps = steps.iter().map(|&(at, bps)| (Span::from_secs(at), Rate::from_bps(bps))).collect();
        Conditions { rate: Some(RateProcess::Steps { steps, repeat: repeat.map(Span::from_secs) }), ..none() }
    };
    for (wrong, part) in [
        (rate(&[], None), "needs a step"),
        (rate(&[(0, 1), (0, 2)], None), "rise"),
        (rate(&[(0, 1), (1, 0)], None), "end at zero"),
        (rate(&[(0, 0)], Some(1)), "zero for ever"),
        (rate(&[(0, 1), (2, 1)], Some(2)), "after its last"),
        (Conditions { duplication: 1.5, ..none() }, "between 0 and 1"),
        (Conditions { frame: Some(Span::ZERO), ..none() }, "longer than zero"),
        (Conditions { outages: [(millis(2), millis(1))].into(), ..none() }, "end after"),
    ] {
        assert!(wrong.validate().unwrap_err().contains(part), "{wrong:?}");
    }
}
