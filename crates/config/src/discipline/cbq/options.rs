//! The words that CBQ's keys take, and the section of its reservations.

use tidegate_core::cbq::{Borrow, Conserving, Derivation, Finish, General, Heuristic, Regulation};
use tidegate_core::{Bytes, Rate, Span};

use crate::decode::Spanned;

crate::choices! {
    /// Which classes may borrow.
    pub enum Sharing as "sharing" {
        /// No class, while one at a lower level could still send or lend. Keeps the rate of every class.
        Formal = "formal",
        /// A class with an ancestor below its limit. A class that may borrow can take the rates of all classes of lower
        /// priority.
        AncestorOnly = "ancestor-only",
        /// Up to a level that `heuristic` sets: with `altq` it keeps the rate of every class, with `floyd` not.
        TopLevel = "top-level",
    }
}

crate::choices! {
    impl "heuristic" for Heuristic {
        /// When no class can send, the level rises one by one: the implementation that was measured in 1999.
        Altq = "altq",
        /// When a class has sent and cannot go on, the level is the highest: the paper of 1995. Until the next packet
        /// arrives for a class below its limit, a class that may borrow can take the rates of all classes of lower
        /// priority.
        Floyd1995 = "floyd",
    }
}

crate::choices! {
    impl "finish" for Finish {
        /// From when its packet left.
        Actual = "actual",
        /// From when its packet is expected to have left the link.
        Expected = "expected",
    }
}

crate::choices! {
    /// What is done when the driver takes packets faster than the link sends them.
    pub enum Clock as "link clock" {
        /// The clock of expected finish times never leads by more than `clock-lead`.
        Clamp = "clamp",
        /// Beyond `clock-lead` it is set back to the time of day, and every class seems over its limit.
        Reset = "reset",
    }
}

crate::choices! {
    impl "turns" for General {
        /// Bytes per round in proportion to their rates.
        WeightedRoundRobin = "weighted",
        /// One packet per round for each class.
        PacketRoundRobin = "packet",
    }
}

crate::choices! {
    /// How the rate of a class is measured.
    pub enum Measure as "accounting" {
        /// In bytes, exactly.
        Bytes = "bytes",
        /// As an average idle time, which needs `packet-size` to be right.
        IdleTime = "idle-time",
    }
}

crate::choices! {
    impl "derivation" for Derivation {
        /// As in the implementation that was measured in 1999: a class starts with its whole burst.
        Altq = "altq",
        /// As in ns-2: no `minidle`, no `extradelay` unless given, and a class starts without a burst.
        Ns2 = "ns-2",
    }
}

crate::choices! {
    impl "conserving" for Conserving {
        /// No class: the link stays idle.
        Strict = "strict",
        /// A class that may borrow sends, as fast as the driver takes packets.
        Efficient = "efficient",
        /// A class that may borrow sends when the link would otherwise be idle.
        WhenLinkIdle = "when-idle",
    }
}

crate::choices! {
    impl "suspension" for Regulation {
        /// The end of its own suspension, or an ancestor below its limit.
        Recheck = "recheck",
        /// The end of its own suspension.
        Sleep = "sleep",
    }
}

crate::choices! {
    impl "borrow" for Borrow {
        /// It keeps to its rate.
        Never = "never",
        /// It may, and through its parent what that may borrow.
        FromParent = "from-parent",
    }
}

crate::record! {
    /// Where flows get classes of their own on request (`tidegate reserve`), and how much one may ask for.
    pub struct Reservations as "reservations" {
        /// The class under which they get theirs. Its rate is what they share; it has no queue and no other classes.
        pub class: Spanned<String>,
        /// Their priority. Default 0: only there delays are bounded.
        pub priority: Spanned<u8> = 0,
        /// Whether they may borrow. Default from-parent, as the paper's.
        pub borrow: Borrow = "from-parent",
        /// The most at a time; all delay bounds grow with it. Default 16.
        pub flows: Spanned<u32> = 16,
        /// What their queues may hold together. Default 4 MB: one second of 32 Mbit/s.
        pub buffer: Spanned<Bytes> = "4MB",
        /// How long one lasts without being refreshed. Default 90 s, three times RSVP's refresh period.
        pub lifetime: Spanned<Span> = "90s",
        /// What is queued behind the discipline beyond its `lead`, for delay bounds. Default nothing: set it where a
        /// modem or a driver queues more.
        pub device: Spanned<Bytes> = "0B",
        /// The largest rate that one may get: token rate r, or what a delay needs. Default what is free.
        pub max_rate: Option<Spanned<Rate>>,
        /// The largest bucket b. Default 64 kB.
        pub max_bucket: Spanned<Bytes> = "64kB",
        /// The largest peak rate p. Default any: the bucket bounds what it can do.
        pub max_peak: Option<Spanned<Rate>>,
        /// The smallest minimum policed unit m. Default 1 B: accounting in bytes does not need it.
        pub min_unit: Spanned<Bytes> = "1B",
        /// The largest packet M. Default the `mtu`.
        pub max_packet: Option<Spanned<Bytes>>,
    }
}
