//! Links and their drivers.

use tidegate_config::Spanned;
use tidegate_config::values::Percent;
use tidegate_core::{Bytes, Rate, Span};

use crate::scenario::queue::QueueSection;

tidegate_config::record! {
    /// A link, by default with its twin in the other direction.
    pub struct LinkSection as "link" {
        /// A node, or a range of nodes.
        pub from: Spanned<String>,
        /// A node, or a range of nodes: as many as in `from`, or one.
        pub to: Spanned<String>,
        /// The rate of the link.
        pub rate: Spanned<Rate>,
        /// The propagation delay, one way. Default 1 ms, a metropolitan link.
        pub delay: Span = "1ms",
        /// Packets that may wait where no discipline is set. Default 1000, what plain interfaces keep.
        pub limit: Spanned<u64> = 1000,
        /// Packets that the line loses, at random. Default none.
        pub loss: Option<Percent>,
        /// Whether there is a link back, of the same rate, delay and loss. Default yes.
        pub both_ways: bool = true,
        /// The discipline before the transmitter, from `from` to `to`: `{ kind = "red", ... }`, or a whole shaper file:
        /// `{ shaper = "office.toml" }`, or its tables: `{ shaper = { class = [...], rule = [...] } }`. Default first
        /// in, first out.
        pub queue: Option<Spanned<QueueSection>>,
        /// The same in the other direction.
        pub queue_back: Option<Spanned<QueueSection>>,
        /// The driver between discipline and line, from `from` to `to`. Default none: the discipline is asked when
        /// the line is free.
        pub driver: Option<Spanned<DriverSection>>,
        /// The timer by which deadlines of the discipline are noticed. Default exactly.
        pub timer: Option<Spanned<Span>>,
        /// Whether queue, delay, drops and marks are kept over time. Default only where a discipline is set.
        pub watch: Option<bool>,
    }
}

tidegate_config::record! {
    /// A network card's driver, as in routers of the nineties.
    pub struct DriverSection as "driver" {
        /// A packet enters the software buffer when at most this waits there. Default 20 KiB (ALTQ).
        pub software: Bytes = "20KiB",
        /// The hardware's buffer. Default 32 KiB (ALTQ).
        pub hardware: Spanned<Bytes> = "32KiB",
        /// How much one call moves. Default one packet.
        pub service: ServiceWord = "one-per-call",
        /// Whether a receive interrupt calls the driver. Default no.
        pub on_receive: bool = false,
        /// The router's own work on a packet. Default 50 us.
        pub forwarding: Span = "50us",
        /// Ticks per second of the kernel's timer. Default: deadlines are noticed exactly.
        pub timer_hz: Option<Spanned<u32>>,
    }
}

tidegate_config::words! {
    /// The number of packets that one call of a driver moves.
    pub enum ServiceWord as "driver service" {
        /// Packets until the discipline has none to release or the buffer is full.
        DrainAll = "drain-all",
        /// One packet per call.
        OnePerCall = "one-per-call",
    }
}
