//! The simulator's TCP beside the kernel's.

mod kernel;
mod linux_tcp;
#[allow(dead_code)] // The tests of the simulator's TCP use all of it.
#[path = "../it/wire.rs"]
mod wire;

fn main() {
    tidegate_testbed::tests!(
        #[nightly, once]
        linux_tcp::losses_are_repaired_as_by_the_kernel,
        #[nightly, once]
        linux_tcp::losses_cost_the_time_that_they_cost_the_kernel
    );
}
