//! The quality that users of applications experienced, as values of a section of flows.

use tidegate_core::Span;
use tidegate_metrics::{Digest, Points};

use super::outcome::Collector;
use crate::applications::{CallQuality, Experience, MediaQuality, PageLoad, Pages, Playback, emodel};

/// The experiences of all users of a section of flows.
#[derive(Default)]
pub(super) struct Experiences {
    calls: Vec<CallQuality>,
    pages: Option<Pages>,
    videos: Vec<Playback>,
    media: Option<MediaQuality>,
}

impl Experiences {
    pub fn add(&mut self, experience: Experience) {
        match experience {
            Experience::Call(calls) => self.calls.extend(calls),
            Experience::Video(playback) => self.videos.push(playback),
            Experience::Media(media) => {
                let all = self.media.get_or_insert_default();
                all.frames += media.frames;
                all.complete += media.complete;
                all.delay_ns.merge(&media.delay_ns);
            }
            Experience::Pages(pages) => {
                let all = self.pages.get_or_insert_default();
                all.begun += pages.begun;
                all.loaded += pages.loaded;
                all.objects += pages.objects;
                all.bytes += pages.bytes;
                all.load_ns.merge(&pages.load_ns);
                all.each.extend(pages.each);
            }
        }
    }

    /// The pages of all browsers one by one.
    pub fn pages(&self) -> &[PageLoad] {
        self.pages.as_ref().map_or(&[], |pages| &pages.each)
    }

    pub fn digest(&self, digest: &mut Digest) {
        for call in &self.calls {
            for number in [call.expected, call.played, call.late, call.delay.as_nanos()] {
                digest.number(number);
            }
        }
        if let Some(pages) = &self.pages {
            for number in [pages.begun, pages.loaded, pages.objects, pages.bytes] {
                digest.number(number);
            }
            digest.histogram(&pages.load_ns.finished);
        }
        if let Some(media) = &self.media {
            digest.number(media.frames);
            digest.number(media.complete);
            digest.histogram(&media.delay_ns.finished);
        }
        for video in &self.videos {
            let numbers = [video.played_ns, video.stalled_ns, video.stalls, video.segments, video.switches];
            for number in numbers.into_iter().chain([video.startup_ns.unwrap_or(u64::MAX), video.rates as u64]) {
                digest.number(number);
            }
        }
    }

    pub fn values(&self, to: &mut Collector<'_>) {
        if !self.calls.is_empty() {
            self.calls(to);
        }
        if let Some(pages) = &self.pages {
            to.add("pages begun", "1", pages.begun as f64);
            to.add("pages loaded", "1", pages.loaded as f64);
            to.add("objects a page", "1", pages.objects as f64 / pages.begun.max(1) as f64);
            to.add("bytes a page", "B", pages.bytes as f64 / pages.begun.max(1) as f64);
            to.survival("page load", "ns", 1.0, &pages.load_ns);
        }
        if !self.videos.is_empty() {
            self.viewers(to);
        }
        if let Some(media) = &self.media {
            to.add("frames", "1", media.frames as f64);
            to.add("frames complete", "1", media.complete as f64);
            to.add("frames incomplete", "%", 100.0 - media.complete as f64 / media.frames.max(1) as f64 * 100.0);
            to.survival("frame delay", "ns", 1.0, &media.delay_ns);
        }
    }

    /// The values of calls, for each direction if there are two: a mean over both would describe neither.
    fn calls(&self, to: &mut Collector<'_>) {
        let heard_at = |end: usize| self.calls.iter().filter(move |call| call.end == end).collect::<Vec<_>>();
        let [down, up] = [heard_at(0), heard_at(1)];
        match (up.is_empty(), down.is_empty()) {
            (false, false) => {
                Self::calls_one_way(&up, " up", to);
                Self::calls_one_way(&down, " down", to);
            }
            (false, true) => Self::calls_one_way(&up, "", to),
            (true, _) => Self::calls_one_way(&down, "", to),
        }
    }

    fn calls_one_way(all: &[&CallQuality], way: &str, to: &mut Collector<'_>) {
        let sum = |of: fn(&CallQuality) -> u64| all.iter().map(|call| of(call)).sum::<u64>() as f64;
        let ratings = || all.iter().map(|call| call.rating);
        let expected = sum(|call| call.expected).max(1.0);
        let lowest = ratings().fold(f64::INFINITY, f64::min);
        let mean = ratings().sum::<f64>() / all.len() as f64;
        let opinions = ratings().map(emodel::opinion).sum::<f64>() / all.len() as f64;
        let delays: Vec<Span> = all.iter().filter(|one| one.played > 0).map(|one| one.delay).collect();
        to.add(format!("R factor{way}"), "1", mean);
        to.add(format!("MOS{way}"), "1", opinions);
        if all.len() > 1 {
            to.add(format!("R factor{way} lowest"), "1", lowest);
            to.add(format!("MOS{way} lowest"), "1", emodel::opinion(lowest));
        }
        if !delays.is_empty() {
            let total: f64 = delays.iter().map(|delay| delay.as_nanos() as f64).sum();
            to.add(format!("mouth to ear{way}"), "ns", total / delays.len() as f64);
        }
        // Like the loss in the network, which they stand beside.
        to.add(format!("not played{way}"), "%", 100.0 - sum(|call| call.played) / expected * 100.0);
        to.add(format!("late{way}"), "%", sum(|call| call.late) / expected * 100.0);
    }

    fn viewers(&self, to: &mut Collector<'_>) {
        let all = &self.videos;
        let sum = |of: fn(&Playback) -> u64| all.iter().map(of).sum::<u64>() as f64;
        let segments = sum(|video| video.segments);
        let startups: Vec<u64> = all.iter().filter_map(|video| video.startup_ns).collect();
        if !startups.is_empty() {
            to.add("startup mean", "ns", startups.iter().sum::<u64>() as f64 / startups.len() as f64);
        }
        let (played, stalled) = (sum(|video| video.played_ns), sum(|video| video.stalled_ns));
        to.add("played", "ns", played);
        to.add("rebuffering", "1", stalled / (played + stalled).max(1.0));
        to.add("stalls", "1", sum(|video| video.stalls));
        let rates = all.iter().map(|video| video.rates as f64).sum::<f64>();
        to.add("bit rate mean", "bps", rates / segments.max(1.0));
        to.add("switches", "1", sum(|video| video.switches));
    }

    /// The distributions for curves.
    pub fn distributions(&self) -> impl Iterator<Item = (&'static str, Points)> {
        let pages = self.pages.iter().map(|pages| ("page load", pages.load_ns.points()));
        pages.chain(self.media.iter().map(|media| ("frame delay", media.delay_ns.points())))
    }
}
