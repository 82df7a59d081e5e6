//! Replay: recordings of the engine, done again bit for bit; captures and recordings through any configuration, in
//! virtual time; and explanations of what was done to a packet.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`recording`] | every call of the engine, written at full speed and read back |
//! | [`exact`] | a recording done again with its own configuration, and compared |
//! | [`source`] | packets of a capture or a recording, with their times |
//! | [`run`] | a configuration that packets are put through, and what it measures |
//! | [`explain`] | why a packet went where it went |
//! | [`files`] | recordings in several files |

pub mod recording;

pub mod cut;
pub mod departures;
pub mod exact;
pub mod explain;
pub mod files;
pub mod flows;
pub mod meter;
pub mod run;
pub mod session;
pub mod source;
