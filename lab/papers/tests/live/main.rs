//! Shaping of real traffic between namespaces: kernel sockets on both ends, the kernel's queue, our engine.

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
mod video;

fn main() {
    // Tests that hold rates to a few per cent run once: without root there is no real-time scheduling, and on a busy machine
    // nobody can promise a rate without that. The grid of round trips, and what takes seven seconds or more where another test covers the same path, is run nightly.
    tidegate_testbed::tests! {
        #[once] round_trips::a_connection_alone_has_the_line_at_20_ms,
        #[nightly, once] round_trips::a_host_with_one_connection_has_half_at_20_ms,
        #[nightly, once] rates::one_megabit,
        #[once] rates::ten_megabits,
        #[nightly, once] rates::a_hundred_megabits,
        #[nightly, once] rates::five_hundred_megabits,
        #[once] shares::eight_flows_share_evenly,
        #[once] flows::a_minimum_is_held_against_fifty_greedy_flows,
        #[once] flows::preference_raises_a_share_at_once,
        flows::a_displaced_flow_keeps_its_order_and_comes_back,
        #[once] conditioning::an_assured_class_is_metered_and_marked,
        #[once] classes::greedy_classes_get_their_rates_and_borrow_within_the_total,
        classes::both_protocols_are_shaped_and_re_marked,
        #[nightly] classes::probes_are_no_flows,
        superpackets::are_cut_where_they_would_last_too_long,
        superpackets::stay_whole_where_they_are_short,
        #[once] congestion::feedback_marks_what_is_capable,
        #[nightly, once] nat::hosts_behind_translation_share_by_their_inner_addresses,
        hosts::a_host_keeps_its_call_beside_its_own_uploads,
        #[nightly, once] office::a_file_gives_the_rates_of_the_simulator,
        arriving::classes_of_both_protocols_get_their_rates,
        arriving::loopback_arrivals_are_shaped,
        arriving::arriving_superpackets_are_cut,
        #[nightly, once] arriving::active_queues_are_short_for_what_arrives,
        #[once] arriving::flows_that_arrive_are_kept_apart,
        #[once] arriving::mice_that_arrive_go_before_elephants,
        #[once] arriving::the_ingress_filter_keeps_elephants_below_the_line,
        #[nightly, once] cbq::classes_share_with_and_without_borrowing,
        #[nightly, once] cbq::tcp_shares_with_and_without_borrowing,
        #[nightly, once] cbq::a_reservation_is_made_and_dropped_under_load,
        #[nightly, once] kinds::trees_share_what_a_class_leaves,
        #[nightly, once] kinds::fair_queues_share_by_weights,
        #[once] kinds::fq_pie_shares_between_flows,
        #[nightly, once] changes::ten_thousand_changes_lose_nothing,
        changes::another_file_takes_over_and_a_broken_one_does_not,
        malformed::nothing_is_lost_and_shaping_goes_on,
        order::the_data_path_stays_on_one_processor,
        #[nightly, once] together::two_interfaces_share_one_total,
        #[once] together::one_of_two_vanishes_and_returns,
        together::each_of_two_interfaces_is_locked,
        vanishing::the_interface_comes_back_shaped,
        passing::arrivals_that_a_bridge_takes_are_missed,
        passing::departures_that_a_bridge_takes_are_missed,
        endings::stop_loses_nothing,
        endings::dropping_the_handle_loses_nothing,
        endings::what_the_machine_drops_is_counted,
        #[nightly, once] round_trips::the_preset_at_5_ms,
        #[nightly, once] round_trips::the_preset_at_20_ms,
        #[nightly, once] round_trips::the_preset_at_100_ms_down,
        #[nightly, once] round_trips::the_preset_at_100_ms_up,
        #[nightly, once] round_trips::examples_at_5_ms,
        #[nightly, once] round_trips::examples_at_20_ms,
        #[nightly, once] round_trips::examples_at_100_ms,
        #[nightly, once] video::a_video_that_follows_its_promise_keeps_its_quality,
        #[nightly, once] video::a_video_that_follows_a_ceiling_stalls_and_one_of_its_share_does_not,
    }
}
