//! Applications: they send packet patterns, load web pages and play videos, and measure the quality that their users
//! experience.
//!
//! *Law*: the random values of an application come from a stream of its own, in an order that no event of the network
//! changes. With the same seed, every queue is tested with the same pages, talk spurts and sizes.

mod browser;
pub mod emodel;
mod listener;
mod media;
mod player;
mod scream;
mod talker;

pub(crate) use browser::{Browser, Step};
pub use browser::{PageLoad, Pages};
pub use listener::CallQuality;
pub(crate) use listener::Listener;
pub(crate) use media::Live;
pub use media::MediaQuality;
pub use player::{Playback, Player};
pub(crate) use talker::Talker;

/// The state of an application that needs more than a timer.
pub(crate) enum Application {
    /// A packet pattern in one direction or both. Calls also have a listener at each end.
    Talk { talkers: [Option<Talker>; 2], listeners: Option<Box<[Listener; 2]>> },
    /// A web browser.
    Browse(Browser),
    /// A video player.
    Play(Player),
    /// A live video.
    Live(Box<Live>),
}

impl Application {
    /// The experience of its user until `now`.
    pub fn experience(&self, now: u64) -> Option<Experience> {
        match self {
            Self::Talk { talkers, listeners } => {
                let ends = listeners.as_ref()?;
                // Packets that one end sends are played at the other.
                let played =
                    |side: usize| talkers[1 - side].as_ref().map(|talker| ends[side].result(side, talker, now));
                Some(Experience::Call([0, 1].into_iter().filter_map(played).collect()))
            }
            Self::Browse(browser) => Some(Experience::Pages(browser.pages(now))),
            Self::Play(player) => Some(Experience::Video(player.result(now))),
            Self::Live(live) => Some(Experience::Media(live.quality(now))),
        }
    }
}

/// The quality that the user of an application experienced, after the warm-up.
#[derive(Clone, PartialEq, Debug)]
pub enum Experience {
    /// A call: the quality at each end that receives the other one.
    Call(Vec<CallQuality>),
    /// Web pages.
    Pages(Pages),
    /// A video.
    Video(Playback),
    /// A live video.
    Media(MediaQuality),
}
