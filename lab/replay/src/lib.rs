//! Replays captures and recordings through any configuration in virtual time, repeats recordings bit for bit with their own
//! configuration, and explains what was done to a packet.
//!
//! | module | content |
//! | --- | --- |
//! | [`recording`] | writes every call of the engine at full speed, and reads it back |
//! | [`decisions`] | makes the recorded decisions of a rate that follows the line again, and compares them |
//! | [`exact`] | repeats a recording with its own configuration, and compares the departures |
//! | [`source`] | reads packets with their times from a capture or a recording |
//! | [`run`] | runs packets through a configuration, and measures what leaves |
//! | [`session`] | replays a source through several configurations at once |
//! | [`explain`] | explains the fate of a packet |
//! | [`files`] | finds the files of a recording |

pub mod recording;

pub mod cut;
pub mod decisions;
pub mod departures;
pub mod exact;
pub mod explain;
pub mod files;
pub mod flows;
pub mod meter;
pub mod run;
pub mod session;
pub mod source;
