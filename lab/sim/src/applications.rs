//! What applications do with the network: they send packets by a pattern, load pages, play videos; and how good that was
//! for their users.
//!
//! *Law*: what an application draws depends on its own stream only, and is drawn in an order that no event of the
//! network changes: with the same seed the same pages, spurts and sizes meet every queue.

mod browser;
pub mod emodel;
mod listener;
mod player;
mod talker;

pub use browser::Pages;
pub(crate) use browser::{Browser, Step};
pub use listener::Hearing;
pub(crate) use listener::Listener;
pub use player::Playback;
pub(crate) use player::Player;
pub(crate) use talker::Talker;

/// The state of an application that needs more than a timer.
pub(crate) enum Application {
    /// Packets by a pattern, in one direction or both; of a call, also who listens at each end.
    Talk { talkers: [Option<Talker>; 2], listeners: Option<Box<[Listener; 2]>> },
    /// A browser.
    Browse(Browser),
    /// A player of videos.
    Play(Player),
}

impl Application {
    /// What its user has met until `now`.
    pub fn experience(&self, now: u64) -> Option<Experience> {
        match self {
            Self::Talk { talkers, listeners } => {
                let ends = listeners.as_ref()?;
                // What one end sends is played at the other.
                let heard = |side: usize| talkers[1 - side].as_ref().map(|talker| ends[side].result(talker, now));
                Some(Experience::Call([0, 1].into_iter().filter_map(heard).collect()))
            }
            Self::Browse(browser) => Some(Experience::Pages(browser.pages.clone())),
            Self::Play(player) => Some(Experience::Video(player.result(now))),
        }
    }
}

/// What the user of an application has met, after the warm-up.
#[derive(Clone, PartialEq, Debug)]
pub enum Experience {
    /// A call, at each end that receives the other.
    Call(Vec<Hearing>),
    /// Pages of the web.
    Pages(Pages),
    /// A video.
    Video(Playback),
}
