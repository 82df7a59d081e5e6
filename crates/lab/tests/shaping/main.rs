//! Shaping of real traffic between namespaces: kernel sockets on both ends, the kernel's queue, our engine.

#[path = "../../../live/tests/support/mod.rs"]
mod support;

mod rates;
mod shares;

macro_rules! tests {
    ($($module:ident :: $test:ident),* $(,)?) => {
        support::main(&[$((stringify!($test), $module::$test)),*])
    };
}

fn main() {
    tests!(
        rates::one_megabit,
        rates::ten_megabits,
        rates::a_hundred_megabits,
        rates::five_hundred_megabits,
        shares::eight_flows_share_evenly,
    );
}
