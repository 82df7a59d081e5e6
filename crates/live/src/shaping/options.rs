//! Options of a run that are not part of the configuration.

use std::sync::Arc;

use tidegate_config::shaper::{Config, DataPath};
use tidegate_engine::{Recorder, Setup};
use tidegate_units::{Instant, Span};

use super::backend::OffloadProvider;
use super::{KnownNames, Quotas};
use crate::guardian;
use crate::marks::MarkLayout;
use crate::timing::Priority;

/// Options of a run that are not part of the configuration.
#[derive(Clone, Debug)]
pub struct Options {
    /// The interfaces, in place of the configuration's; empty to use these.
    pub interfaces: Vec<String>,
    /// The lateness of the process that is made up for: by default 5 ms, what a loaded machine needs with real-time
    /// scheduling.
    pub catch_up: Span,
    /// The lateness that is made up for where the system does not grant real-time scheduling: by default 20 ms.
    pub catch_up_normal: Span,
    /// The longest time between two groups of departures: by default 50 µs, so that a fast link does not cost a wake-up
    /// for each packet; zero for the finest spacing.
    pub quantum: Span,
    /// How long the thread may rest between two turns while packets arrive singly and faster than that: by default 1 ms, for
    /// which a call does not suffer. Zero: never.
    pub rest: Span,
    /// How long before a deadline the thread spins instead of sleeping, which costs processor time. Zero: never.
    pub spin: Span,
    /// The most packets held in all, beyond which a class with more than its part queues no more. By default what the kernel can
    /// hold without making every verdict dear.
    pub most_queued: Option<u32>,
    /// Whether to ask for real-time scheduling.
    pub priority: Priority,
    /// The bits of the firewall mark that may be used.
    pub marks: MarkLayout,
    /// The secret of flow keys; random if absent, given to make runs reproducible.
    pub secret: Option<[u64; 2]>,
    /// The bytes of each packet that the kernel copies: enough for headers, or all if payload is recorded.
    pub copy_range: Option<u32>,
    /// Makes the recorder of an engine before it runs.
    pub recorder: Option<RecorderFactory>,
    /// Where packets are queued, in place of what the configuration has.
    pub data_path: Option<DataPath>,
    /// Schedulers for data paths in the kernel; without it packets are queued in this process.
    pub offload: Option<Arc<dyn OffloadProvider>>,
    /// What rules with a quota have used.
    pub quotas: Quotas,
    /// The addresses of the names that rules have.
    pub known_names: KnownNames,
    /// How to start the guardian; without it packets pass only as long as the process runs.
    pub guardian: Option<guardian::Settings>,
    /// A fault to inject, to test that traffic passes nevertheless.
    #[cfg(debug_assertions)]
    pub inject: Option<super::Injection>,
}

/// Called for each engine before its first packet, with its configuration, its setup and the time.
pub type MakeRecorder = dyn Fn(&Config, &Setup, Instant) -> Option<Box<dyn Recorder>> + Send + Sync;

/// Makes recorders, which receive every call of the engine from the first on.
#[derive(Clone)]
pub struct RecorderFactory(pub Arc<MakeRecorder>);

impl std::fmt::Debug for RecorderFactory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RecorderFactory")
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            interfaces: Vec::new(),
            catch_up: Span::from_millis(5),
            catch_up_normal: Span::from_millis(20),
            quantum: Span::from_micros(50),
            rest: Span::from_millis(1),
            spin: Span::ZERO,
            most_queued: None,
            priority: Priority::RealTime,
            marks: MarkLayout::default(),
            secret: None,
            copy_range: None,
            recorder: None,
            data_path: None,
            offload: None,
            quotas: Quotas::default(),
            known_names: KnownNames::default(),
            guardian: None,
            #[cfg(debug_assertions)]
            inject: None,
        }
    }
}
