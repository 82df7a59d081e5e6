//! The words that CBQ's keys take, and the section of its reservations.

use tidegate_core::cbq::{Borrow, Conserving, Derivation, Finish, General, Heuristic, Regulation};
use tidegate_core::{Bytes, Rate, Span};

use crate::decode::Spanned;

crate::choices! {
    /// Which classes may borrow.
    pub enum Sharing as "sharing" {
        /// A class may borrow from an ancestor only while no class below the level of that ancestor is unsatisfied. Keeps
        /// the rate of every class.
        Formal = "formal",
        /// A class may borrow from any ancestor that is below its limit. It can then take the rates of all classes of
        /// lower priority.
        AncestorOnly = "ancestor-only",
        /// A class may borrow up to a level that `heuristic` sets. With `altq` this keeps the rate of every class, with
        /// `floyd` it does not.
        TopLevel = "top-level",
    }
}

crate::choices! {
    impl "heuristic" for Heuristic {
        /// The level rises by one whenever no class can send, as in the implementation measured in 1999.
        Altq = "altq",
        /// The level rises to the top when a class has sent and may not continue, as in the paper of 1995. Until a
        /// packet arrives for a class below its limit, a class that may borrow can take the rates of all classes of
        /// lower priority.
        Floyd1995 = "floyd",
    }
}

crate::choices! {
    impl "finish" for Finish {
        /// From the time at which its packet left.
        Actual = "actual",
        /// From the time at which its packet should have left the link.
        Expected = "expected",
    }
}

crate::choices! {
    /// How to correct the link clock when the driver takes packets faster than the link sends them.
    pub enum Clock as "link clock" {
        /// The clock of expected finish times never leads by more than `clock-lead`.
        Clamp = "clamp",
        /// Beyond `clock-lead` the clock is set back to the current time, so that every class seems to be over its
        /// limit.
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
        /// As in the implementation measured in 1999: a class starts with its whole burst.
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
        /// It does not exceed its rate.
        Never = "never",
        /// It borrows from its parent, and through it from those that the parent may borrow from.
        FromParent = "from-parent",
    }
}

crate::record! {
    /// Reservations: classes that flows get on request (`tidegate reserve`), and the limits of one request.
    pub struct Reservations as "reservations" {
        /// The parent of the reserved classes, which share its rate. It has no queue and no other children.
        pub class: Spanned<String>,
        /// The priority of reserved classes. Default 0, because delays are bounded only there.
        pub priority: Spanned<u8> = 0,
        /// Whether reserved classes may borrow. Default from-parent, as in the paper.
        pub borrow: Borrow = "from-parent",
        /// The largest number of reservations; all delay bounds grow with it. Default 16.
        pub flows: Spanned<u32> = 16,
        /// The queue limit of all reservations together. Default 4 MB: one second at 32 Mbit/s.
        pub buffer: Spanned<Bytes> = "4MB",
        /// The lifetime of a reservation that is not refreshed. Default 90 s, three times RSVP's refresh period.
        pub lifetime: Spanned<Span> = "90s",
        /// The queue behind the discipline beyond its `lead`, which delay bounds must include. Default none; set it if
        /// a modem or a driver queues more.
        pub device: Spanned<Bytes> = "0B",
        /// The largest rate of one reservation: its token rate r, or the rate that its delay bound requires. Default:
        /// whatever is free.
        pub max_rate: Option<Spanned<Rate>>,
        /// The largest bucket b. Default 64 kB.
        pub max_bucket: Spanned<Bytes> = "64kB",
        /// The largest peak rate p. Default unlimited, because the bucket bounds its effect.
        pub max_peak: Option<Spanned<Rate>>,
        /// The smallest minimum policed unit m. Default 1 B: accounting in bytes does not need it.
        pub min_unit: Spanned<Bytes> = "1B",
        /// The largest packet M. Default the `mtu`.
        pub max_packet: Option<Spanned<Bytes>>,
    }
}
