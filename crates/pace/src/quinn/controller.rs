//! [`AtMost`]: a congestion control of quinn whose window follows a rate.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ::quinn::congestion::{Controller, ControllerFactory, ControllerMetrics};
use quinn_proto::RttEstimator;
use tidegate_units::Rate;

/// A congestion control for [`TransportConfig::congestion_controller_factory`](::quinn::TransportConfig) that keeps the window of
/// another one below a rate: what a shaper grants or advises (SCONE), which is known without losing packets on it.
///
/// The window is at most the rate times the smoothed round trip, and two datagrams. So no more waits in front of a paced
/// [`Socket`](super::Socket) or a shaper than a round trip holds, and an endpoint can give its connections different rates. It does not space
/// datagrams: above a plain socket quinn's pacer does that, at five quarters of the window in a round trip and in bursts of at
/// least ten datagrams with timers of a millisecond. Accurate gaps need [`Socket`](super::Socket), which also sees what all
/// connections of an endpoint send.
///
/// ```
/// use std::sync::Arc;
///
/// use quinn::{TransportConfig, congestion::CubicConfig};
/// use tidegate_pace::{Rate, quinn::AtMost};
///
/// let control = Arc::new(AtMost::new(Arc::new(CubicConfig::default()), Rate::from_mbit(5)));
/// let mut transport = TransportConfig::default();
/// transport.congestion_controller_factory(control.clone());
/// // For all connections with this configuration, from their next acknowledgement on:
/// control.set_rate(Rate::from_mbit(2));
/// ```
#[derive(Clone)]
pub struct AtMost {
    inner: Arc<dyn ControllerFactory + Send + Sync>,
    bps: Arc<AtomicU64>,
}

impl std::fmt::Debug for AtMost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AtMost").field("rate", &self.rate()).finish_non_exhaustive()
    }
}

impl AtMost {
    /// Keeps the windows of the controls that `inner` makes below `rate`.
    pub fn new(inner: Arc<dyn ControllerFactory + Send + Sync>, rate: Rate) -> Self {
        Self { inner, bps: Arc::new(AtomicU64::new(rate.as_bps())) }
    }
    /// Sets the rate of all connections of this factory, from their next acknowledgement on.
    pub fn set_rate(&self, rate: Rate) {
        self.bps.store(rate.as_bps(), Ordering::Relaxed);
    }
    /// The rate.
    pub fn rate(&self) -> Rate {
        Rate::from_bps(self.bps.load(Ordering::Relaxed))
    }
}

impl ControllerFactory for AtMost {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        let inner = Arc::clone(&self.inner).build(now, mtu);
        Box::new(Bounded { inner, bps: Arc::clone(&self.bps), mtu: mtu.into(), most: None })
    }
}

/// The control of a connection.
struct Bounded {
    inner: Box<dyn Controller>,
    bps: Arc<AtomicU64>,
    mtu: u64,
    /// The most that the window may be, from the first round trip on.
    most: Option<u64>,
}

/// The bytes that `bps` are in a round trip, and two datagrams of `mtu`, with which a delayed acknowledgement is waited for.
fn most(bps: u64, round_trip: Duration, mtu: u64) -> u64 {
    let bytes = u128::from(bps).saturating_mul(round_trip.as_nanos()) / 8_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX).saturating_add(2 * mtu)
}

impl Controller for Bounded {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.inner.on_sent(now, bytes, last_packet_number);
    }
    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        self.most = Some(most(self.bps.load(Ordering::Relaxed), rtt.get(), self.mtu));
        // A window that the rate bounds is not filled, and must not grow: the control takes it for a want of data.
        let app_limited = app_limited || self.inner.window() > self.window();
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }
    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest_packet_num_acked: Option<u64>) {
        self.inner.on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
    }
    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent_congestion: bool, lost_bytes: u64) {
        self.inner.on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
    }
    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = new_mtu.into();
        self.inner.on_mtu_update(new_mtu);
    }
    fn window(&self) -> u64 {
        self.most.map_or(u64::MAX, |most| most.max(2 * self.mtu)).min(self.inner.window())
    }
    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = self.inner.metrics();
        metrics.congestion_window = self.window();
        metrics
    }
    fn clone_box(&self) -> Box<dyn Controller> {
        let (inner, bps) = (self.inner.clone_box(), Arc::clone(&self.bps));
        Box::new(Self { inner, bps, ..*self })
    }
    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self.inner.into_any()
    }
}

#[cfg(test)]
mod tests {
    use ::quinn::congestion::CubicConfig;

    use super::*;

    #[test]
    fn the_window_is_the_rate_in_a_round_trip() {
        // 5 Mbit/s for 20 ms are 12,500 bytes.
        assert_eq!(most(5_000_000, Duration::from_millis(20), 1_200), 12_500 + 2_400);
        assert_eq!(most(0, Duration::from_millis(20), 1_200), 2_400);
        assert_eq!(most(u64::MAX, Duration::from_secs(1 << 40), 1_200), u64::MAX);
    }

    #[test]
    fn the_smaller_window_counts() {
        let control = Arc::new(AtMost::new(Arc::new(CubicConfig::default()), Rate::from_mbit(5)));
        let built = Arc::clone(&control).build(Instant::now(), 1_200);
        let mut bounded = Bounded { inner: built, bps: Arc::clone(&control.bps), mtu: 1_200, most: None };
        let own = bounded.inner.window();
        assert_eq!(bounded.window(), own, "nothing is known of the path");
        bounded.most = Some(3_000);
        assert_eq!((bounded.window(), bounded.metrics().congestion_window), (3_000, 3_000));
        bounded.most = Some(own + 1);
        assert_eq!(bounded.window(), own);
        control.set_rate(Rate::from_mbit(2));
        assert_eq!(bounded.clone_box().window(), own);
        assert_eq!(bounded.bps.load(Ordering::Relaxed), 2_000_000);
    }
}
