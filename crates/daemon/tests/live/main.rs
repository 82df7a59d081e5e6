//! A daemon between namespaces: its replies, its promises, the isolation of the data path from clients, and what it shows of
//! real traffic, over the control socket, as metrics, and on the page in a browser.

mod browser;
mod clients;
mod devtools;
mod follow;
mod notifications;
mod numbers;
mod owners;
mod promises;
mod recovery;
mod running;
mod testbed;
mod web;

fn main() {
    tidegate_testbed::tests! {
        #[once] clients::users_may_query_and_control_their_own_flows_within_bounds,
        notifications::status_counts_and_events_are_reported,
        #[once] promises::a_promise_holds_before_and_after_the_first_packet_and_ends_with_its_connection,
        promises::a_promise_that_ends_with_a_change_reports_why,
        #[nightly, once] promises::preference_displacement_and_leases,
        promises::a_promise_is_made_in_the_class_where_the_flow_is,
        promises::flows_of_a_promise_have_their_minimum_where_they_are,
        promises::a_process_tree_has_its_promise_before_it_sends,
        #[nightly, once] clients::hostile_clients_change_nothing_for_the_data_path,
        #[once] clients::a_slow_reader_receives_the_number_of_lost_events,
        #[once] notifications::feedback_comes_within_milliseconds,
        notifications::events_right_after_a_subscription_are_reported,
        clients::promises_and_subscriptions_of_a_connection_have_limits_of_their_own,
        #[once] notifications::the_owner_is_notified_of_each_flow_that_joins,
        notifications::metrics_are_served_where_the_file_specifies,
        #[once] notifications::metrics_report_that_shaping_is_not_in_force,
        #[once] recovery::promises_outlive_the_data_path_and_the_tree,
        #[once] recovery::promises_in_two_threads_outlive_the_data_path_and_the_tree,
        #[once] recovery::reservations_outlive_the_data_path,
        #[nightly] recovery::an_unconfirmed_change_is_taken_back_as_soon_as_possible,
        #[nightly, once] recovery::a_trial_ends_while_the_data_path_is_begun_anew,
        owners::a_promise_to_a_user_applies_to_no_other,
        owners::a_control_group_has_its_promise,
        clients::one_user_cannot_take_all_connections,
        #[nightly] clients::one_user_does_not_delay_root,
        clients::one_user_cannot_take_all_reservations,
        clients::one_user_cannot_have_all_processes_followed,
        #[nightly, once] notifications::video_that_follows_its_grants_does_not_stall_where_blind_video_does,
        #[once] clients::the_socket_of_the_dead_is_replaced_and_of_the_living_is_not,
        notifications::a_hook_is_run_with_the_facts,
        notifications::access_and_the_hook_follow_the_file_in_force,
        numbers::status_has_who_lends_and_who_borrows,
        numbers::status_has_both_queues_of_dualpi2,
        numbers::the_class_of_a_discipline_without_classes_has_a_name,
        #[nightly] numbers::flows_and_classes_are_seen_as_they_are,
        #[once] follow::a_rate_follows_the_line_by_passing_traffic_alone,
        #[once] web::the_page_is_read_only_and_ours_alone,
        #[once] browser::a_browser_shows_it,
    }
}
