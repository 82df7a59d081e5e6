//! Shaping of real traffic between namespaces: kernel sockets on both ends, the kernel's queue, our engine.

#[path = "../../../live/tests/support/mod.rs"]
mod support;

mod classes;
mod conditioning;
mod congestion;
mod endings;
mod flows;
mod malformed;
mod rates;
mod shares;
mod superpackets;
mod vanishing;

macro_rules! tests {
    ($($module:ident :: $test:ident),* $(,)?) => {
        support::main_with(&[$((stringify!($test), $module::$test)),*], RATES)
    };
}

/// Long ones, to which it makes no difference who runs them.
const RATES: &[&str] = &["one_megabit", "ten_megabits", "a_hundred_megabits", "five_hundred_megabits"];

fn main() {
    tests!(
        rates::one_megabit,
        rates::ten_megabits,
        rates::a_hundred_megabits,
        rates::five_hundred_megabits,
        shares::eight_flows_share_evenly,
        flows::a_minimum_is_held_against_fifty_greedy_flows,
        flows::preference_raises_a_share_at_once,
        flows::a_displaced_flow_keeps_its_order_and_comes_back,
        conditioning::an_assured_class_is_metered_and_marked,
        classes::greedy_classes_get_their_rates_and_borrow_within_the_total,
        classes::both_protocols_are_shaped_and_re_marked,
        superpackets::are_cut_where_they_would_last_too_long,
        superpackets::stay_whole_where_they_are_short,
        congestion::feedback_marks_what_is_capable,
        malformed::nothing_is_lost_and_shaping_goes_on,
        vanishing::the_interface_comes_back_shaped,
        endings::stop_loses_nothing,
        endings::dropping_the_handle_loses_nothing,
    );
}
