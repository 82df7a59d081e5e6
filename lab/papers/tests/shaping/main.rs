//! Shaping of real traffic between namespaces: kernel sockets on both ends, the kernel's queue, our engine.

#[path = "../../../../crates/live/tests/support/mod.rs"]
mod support;

mod arriving;
mod cbq;
mod changes;
mod classes;
mod conditioning;
mod congestion;
mod endings;
mod flows;
mod hosts;
mod kinds;
mod load;
mod malformed;
mod nat;
mod office;
mod order;
mod passing;
mod rates;
mod round_trips;
mod shares;
mod superpackets;
mod together;
mod vanishing;

macro_rules! tests {
    ($($module:ident :: $test:ident),* $(,)?) => {
        support::main_with(&[$((stringify!($test), $module::$test)),*], RATES)
    };
}

/// Those that hold rates to a few per cent: who may not have real-time scheduling cannot promise that on a busy machine.
const RATES: &[&str] = &[
    "one_megabit",
    "ten_megabits",
    "a_hundred_megabits",
    "five_hundred_megabits",
    "eight_flows_share_evenly",
    "a_minimum_is_held_against_fifty_greedy_flows",
    "ten_thousand_changes_lose_nothing",
    "classes_share_with_and_without_borrowing",
    "tcp_shares_with_and_without_borrowing",
    "a_reservation_is_made_and_dropped_under_load",
    "an_assured_class_is_metered_and_marked",
    "active_queues_are_short_for_what_arrives",
    "flows_that_arrive_are_kept_apart",
    "mice_that_arrive_go_before_elephants",
    "the_ingress_filter_keeps_elephants_below_the_line",
    "greedy_classes_get_their_rates_and_borrow_within_the_total",
    "preference_raises_a_share_at_once",
    "feedback_marks_what_is_capable",
    "a_file_gives_the_rates_of_the_simulator",
    "hosts_behind_translation_share_by_their_inner_addresses",
    "trees_share_what_a_class_leaves",
    "fair_queues_share_by_weights",
    "fq_pie_shares_between_flows",
    "two_interfaces_share_one_total",
    "one_of_two_vanishes_and_returns",
    "a_connection_alone_has_the_line_at_20_ms",
    "a_host_with_one_connection_has_half_at_20_ms",
    "the_preset_at_5_ms",
    "the_preset_at_20_ms",
    "the_preset_at_100_ms_down",
    "the_preset_at_100_ms_up",
    "examples_at_5_ms",
    "examples_at_20_ms",
    "examples_at_100_ms",
];

fn main() {
    // Minutes.
    if std::env::args().any(|argument| argument == "--ignored") {
        tests!(
            round_trips::the_preset_at_5_ms,
            round_trips::the_preset_at_20_ms,
            round_trips::the_preset_at_100_ms_down,
            round_trips::the_preset_at_100_ms_up,
            round_trips::examples_at_5_ms,
            round_trips::examples_at_20_ms,
            round_trips::examples_at_100_ms,
        );
    }
    tests!(
        round_trips::a_connection_alone_has_the_line_at_20_ms,
        round_trips::a_host_with_one_connection_has_half_at_20_ms,
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
        classes::probes_are_no_flows,
        superpackets::are_cut_where_they_would_last_too_long,
        superpackets::stay_whole_where_they_are_short,
        congestion::feedback_marks_what_is_capable,
        nat::hosts_behind_translation_share_by_their_inner_addresses,
        hosts::a_host_keeps_its_call_beside_its_own_uploads,
        office::a_file_gives_the_rates_of_the_simulator,
        arriving::classes_of_both_protocols_get_their_rates,
        arriving::loopback_arrivals_are_shaped,
        arriving::arriving_superpackets_are_cut,
        arriving::active_queues_are_short_for_what_arrives,
        arriving::flows_that_arrive_are_kept_apart,
        arriving::mice_that_arrive_go_before_elephants,
        arriving::the_ingress_filter_keeps_elephants_below_the_line,
        cbq::classes_share_with_and_without_borrowing,
        cbq::tcp_shares_with_and_without_borrowing,
        cbq::a_reservation_is_made_and_dropped_under_load,
        kinds::trees_share_what_a_class_leaves,
        kinds::fair_queues_share_by_weights,
        kinds::fq_pie_shares_between_flows,
        changes::ten_thousand_changes_lose_nothing,
        changes::another_file_takes_over_and_a_broken_one_does_not,
        malformed::nothing_is_lost_and_shaping_goes_on,
        order::the_data_path_stays_on_one_processor,
        together::two_interfaces_share_one_total,
        together::one_of_two_vanishes_and_returns,
        together::each_of_two_interfaces_is_locked,
        vanishing::the_interface_comes_back_shaped,
        passing::arrivals_that_a_bridge_takes_are_missed,
        passing::departures_that_a_bridge_takes_are_missed,
        endings::stop_loses_nothing,
        endings::dropping_the_handle_loses_nothing,
        endings::what_the_machine_drops_is_counted,
    );
}
