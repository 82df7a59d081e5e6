//! The data path on real interfaces: namespaces, a veth pair, real sockets, no mocks.

#[path = "../support/mod.rs"]
mod support;

mod queue;

fn main() {
    support::main(&[(
        "packets_of_both_families_arrive_and_verdicts_work",
        queue::packets_of_both_families_arrive_and_verdicts_work,
    )]);
}
