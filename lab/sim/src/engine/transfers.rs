//! Transfers of a known size: when they began, how they end, and the time that they take when the path is idle.

use tidegate_core::{Bytes, Span};

use super::{Connection, Exchange, FlowPaths, Role, Simulation};
use crate::ids::FlowId;
use crate::metrics::{Transfer, TransferEnd};
use crate::packet::TCP_HEADER;

/// A transfer that is under way, or has just been completed.
pub(super) struct Underway {
    /// The number of its connection.
    connection: u64,
    size: u64,
    /// When its connection was opened, or when it was requested.
    pub began: u64,
    /// How often each direction of the path is crossed, one after another, until the data is there.
    crossings: [u64; 2],
    /// The direction of the data.
    data: usize,
    /// Whether its client waits for it before it asks for more.
    is_waited_for: bool,
}

impl Underway {
    /// Data that the client sends on a connection, given by its number and when it was opened: after SYN and SYN-ACK.
    pub fn upload(size: u64, (connection, opened): (u64, u64)) -> Self {
        Self { connection, size, began: opened, crossings: [2, 1], data: 0, is_waited_for: false }
    }
    /// An answer on a new connection: after SYN, SYN-ACK and the request.
    pub fn download(size: u64, (connection, opened): (u64, u64)) -> Self {
        Self { connection, size, began: opened, crossings: [2, 2], data: 1, is_waited_for: false }
    }
    /// The current answer on a connection, which was perhaps opened for an earlier request.
    pub fn answer(exchange: &Exchange, connection: (u64, u64)) -> Self {
        let first = Self { is_waited_for: true, ..Self::download(exchange.response, connection) };
        if exchange.asked_at == first.began {
            return first;
        }
        Self { began: exchange.asked_at, crossings: [1, 1], ..first }
    }

    /// Whether it counts where measuring begins at `warm_up`: if it began later or, of one that its client waits for, if it was not over by
    /// then. Otherwise those that take longest would be missing.
    pub fn counts(&self, warm_up: u64) -> bool {
        self.is_waited_for || self.began >= warm_up
    }

    /// The transfer with its end at `now`.
    fn ended(&self, paths: &FlowPaths, now: u64, end: TransferEnd) -> Transfer {
        // The ideal time: the delays of the path, then the data, with headers for each segment of 1460 bytes.
        let [there, back] = [0, 1].map(|side| paths.ideal[side].0.saturating_mul(self.crossings[side]));
        let rate = paths.ideal[self.data].1;
        let bytes = self.size + self.size.div_ceil(1460) * u64::from(TCP_HEADER);
        let sending = rate.time_for_ceil(Bytes::new(bytes)).unwrap_or(Span::MAX).as_nanos();
        let ideal = there.saturating_add(back).saturating_add(sending).max(1);
        let (connection, begun_ns, size) = (self.connection, self.began, self.size);
        Transfer { connection, begun_ns, size, time_ns: now - begun_ns, ideal_ns: ideal, end }
    }
}

impl Connection {
    /// The transfer that has not been completed, if there is one.
    pub(super) fn underway(&self) -> Option<Underway> {
        match &self.role {
            Role::Upload { size: Some(size) } if !self.completed => {
                Some(Underway::upload(*size, (self.number, self.opened)))
            }
            Role::Download { size, .. } if !self.completed => {
                Some(Underway::download(*size, (self.number, self.opened)))
            }
            Role::Requests(exchange) if exchange.taken < exchange.answered => {
                Some(Underway::answer(exchange, (self.number, self.opened)))
            }
            Role::Upload { .. } | Role::Download { .. } | Role::Requests(_) | Role::Stream => None,
        }
    }
}

impl Simulation {
    /// Records a transfer of `flow` that ends now.
    pub(super) fn book(&mut self, flow: usize, transfer: &Underway, end: TransferEnd) {
        let paths = &self.paths[flow];
        let transfer = transfer.ended(paths, self.now, end);
        let metrics = &mut self.metrics[flow];
        metrics.opened += u64::from(transfer.begun_ns < self.warm_up);
        let pool = &mut self.metrics[paths.pool as usize];
        if end == TransferEnd::Completed {
            pool.complete(&transfer);
            self.metrics[flow].completed += 1;
        } else {
            pool.aborted[transfer.class() as usize] += 1;
        }
        self.metrics[flow].transfers.keep(transfer);
    }

    /// The transfers that count and are still under way, in the order of their beginning.
    pub fn underway(&self) -> Vec<(FlowId, Transfer)> {
        let open = self.connections.iter().flatten().filter_map(|connection| {
            let transfer = connection.underway().filter(|transfer| transfer.counts(self.warm_up))?;
            let paths = &self.paths[connection.group as usize];
            Some((FlowId(connection.group), transfer.ended(paths, self.now, TransferEnd::Cut)))
        });
        let mut open: Vec<(FlowId, Transfer)> = open.chain(self.elsewhere.underway.iter().copied()).collect();
        open.sort_by_key(|(flow, transfer)| (transfer.begun_ns, flow.0));
        open
    }
}
