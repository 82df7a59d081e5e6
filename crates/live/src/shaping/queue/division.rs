//! The division of a data path over threads: the addresses by which flows are divided, and the engine and queues of each thread.

use tidegate_config::shaper::{Config, DividedBy, Root};
use tidegate_engine::shards::Shard;
use tidegate_engine::{Engine, Setup};
use tidegate_units::Instant;

use crate::nfqueue::{FIRST_QUEUE, QueueReport, QueueSettings, QueueSocket, Superpackets};
use crate::rules::QUEUES_OF_ONE;
use crate::shaping::command::LiveEngine;
use crate::shaping::error::{StartError, is_permission, no_queue};
use crate::shaping::options::{Options, RecorderFactory};

/// The queue numbers that are tried.
const QUEUES: std::ops::Range<u16> = FIRST_QUEUE..FIRST_QUEUE + 200;

/// How flows are divided over threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Division {
    pub threads: usize,
    /// The addresses that the hash is of. Without meaning for a single thread.
    pub by: DividedBy,
}

impl Division {
    pub fn of(config: &Config) -> Self {
        let by = match &config.root {
            Root::Shaper(shaper) => shaper.divided_by(),
            Root::Discipline(_) => None,
        };
        match (config.interface.threads as usize, by) {
            (threads @ 2.., Some(by)) => Self { threads, by },
            _ => Self { threads: 1, by: DividedBy::HostPair },
        }
    }
    /// The number by which guardians keep it.
    pub fn key(self) -> u8 {
        match (self.threads, self.by) {
            (..=1, _) => 0,
            (_, DividedBy::Source) => 1,
            (_, DividedBy::Destination) => 2,
            (_, DividedBy::HostPair) => 3,
        }
    }
    /// The division over `threads` threads whose guardians have kept `key`; `None` where `key` contradicts their number.
    pub fn from_key(threads: usize, key: u8) -> Option<Self> {
        let all = [DividedBy::Source, DividedBy::Destination, DividedBy::HostPair];
        let all = all.map(|by| Self { threads, by });
        all.into_iter().rev().find(|division| division.key() == key)
    }
}

/// The engines of a data path, one for each thread; several have the rates in common.
pub(super) fn engines(
    config: &Config,
    setup: &Setup,
    options: &Options,
    threads: usize,
    now: Instant,
) -> Result<Vec<LiveEngine>, StartError> {
    let mut engines = (0..threads).map(|_| Engine::new(config, setup, now)).collect::<Result<Vec<_>, _>>()?;
    if threads > 1 {
        for (engine, shard) in engines.iter_mut().zip(&Shard::all(config, threads, now)?) {
            engine.join(shard);
        }
    }
    if let Some(RecorderFactory(make)) = &options.recorder {
        if threads > 1 {
            return Err(StartError::Divided("a recording is of one".into()));
        }
        engines[0].set_recorder(make(config, setup, now));
    }
    Ok(engines)
}

/// The queues of a thread with their socket, and what the kernel takes of their settings.
pub(in crate::shaping) type Bound = (QueueSocket, [u16; 2], Vec<QueueReport>);

/// Binds the queues of `threads` threads in a row.
pub(in crate::shaping) fn bind(settings: &QueueSettings, threads: usize) -> Result<Vec<Bound>, StartError> {
    let first = QUEUES.start + (std::process::id() % (u32::from(QUEUES.end - QUEUES.start) / 2)) as u16 * QUEUES_OF_ONE;
    let all = threads as u16 * QUEUES_OF_ONE;
    let candidates = (first..QUEUES.end).chain(QUEUES.start..first).step_by(QUEUES_OF_ONE.into());
    'next: for queue in candidates.filter(|queue| queue + all <= QUEUES.end) {
        let mut bound = Vec::new();
        for thread in 0..threads as u16 {
            match bind_pair(queue + thread * QUEUES_OF_ONE, settings)? {
                Some(of_thread) => bound.push(of_thread),
                // Closing the sockets unbinds the queues.
                None => continue 'next,
            }
        }
        return Ok(bound);
    }
    Err(StartError::NoQueue(format!("queues {} to {} are all taken", QUEUES.start, QUEUES.end - 1)))
}

/// Binds two neighbouring queues: in the first superpackets arrive whole, in the second the kernel segments them. `None`
/// when one of them is taken.
fn bind_pair(queue: u16, settings: &QueueSettings) -> Result<Option<Bound>, StartError> {
    let mut socket = QueueSocket::open(64 << 20).map_err(|error| StartError::NoQueue(error.to_string()))?;
    let cutting = QueueSettings { superpackets: Superpackets::Segmented, ..*settings };
    match socket.bind(queue, settings) {
        Ok(whole) => match socket.bind(queue + 1, &cutting) {
            Ok(cut) => Ok(Some((socket, [queue, queue + 1], vec![whole, cut]))),
            Err(error) if is_permission(&error) => Err(no_queue(error)),
            Err(_) => Ok(None),
        },
        // Another program serves it, or a privilege is missing: EPERM stands for both, so the next ones decide.
        Err(error) if error.errno() == Some(libc::EBUSY) => Ok(None),
        Err(error) => Err(no_queue(error)),
    }
}
