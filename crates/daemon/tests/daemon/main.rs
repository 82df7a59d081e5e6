//! A daemon between namespaces: what it answers, what it promises, and what its clients cannot do to the data path.

#[path = "../../../live/tests/support/mod.rs"]
mod support;

mod clients;
mod lasting;
mod owners;
mod promises;
mod running;
mod told;

macro_rules! tests {
    ($($module:ident::$test:ident),* ; once: $($once:ident),*) => {
        support::main_with(&[$((stringify!($test), $module::$test)),*], &[$(stringify!($once)),*])
    };
}

fn main() {
    tests!(
        clients::who_is_not_root_may_look_and_steer_his_own_within_bounds,
        told::status_counts_and_events_tell,
        promises::a_promise_holds_before_and_after_the_first_packet_and_ends_with_its_connection,
        promises::preference_displacement_and_leases,
        promises::a_process_tree_has_its_promise_before_it_sends,
        clients::hostile_clients_change_nothing_for_the_data_path,
        clients::a_slow_reader_is_told_what_it_lost,
        told::feedback_comes_within_milliseconds,
        told::what_happens_right_after_a_subscription_is_told,
        clients::promises_and_subscriptions_of_a_connection_have_limits_of_their_own,
        told::the_owner_is_told_of_each_flow_that_joins,
        told::metrics_are_served_where_the_file_says,
        told::metrics_tell_that_shaping_is_not_in_force,
        lasting::promises_outlive_the_data_path_and_the_tree,
        lasting::reservations_outlive_the_data_path,
        lasting::a_change_that_nobody_confirms_goes_back_as_soon_as_it_can,
        lasting::a_trial_ends_while_the_data_path_is_begun_anew,
        owners::a_user_has_his_promise_and_nobody_else,
        owners::a_control_group_has_its_promise,
        clients::one_user_cannot_take_all_connections,
        clients::one_user_does_not_delay_root,
        clients::one_user_cannot_take_all_reservations,
        clients::one_user_cannot_have_all_processes_followed,
        told::video_that_heeds_its_grants_does_not_stall_where_blind_video_does,
        clients::the_socket_of_the_dead_is_replaced_and_of_the_living_is_not,
        told::a_hook_is_run_with_the_facts,
        told::who_may_connect_and_what_is_run_are_as_the_file_in_force_says;
        once: who_is_not_root_may_look_and_steer_his_own_within_bounds,
        a_promise_holds_before_and_after_the_first_packet_and_ends_with_its_connection,
        preference_displacement_and_leases,
        promises_outlive_the_data_path_and_the_tree,
        reservations_outlive_the_data_path,
        a_trial_ends_while_the_data_path_is_begun_anew,
        hostile_clients_change_nothing_for_the_data_path,
        a_slow_reader_is_told_what_it_lost,
        feedback_comes_within_milliseconds,
        the_owner_is_told_of_each_flow_that_joins,
        metrics_tell_that_shaping_is_not_in_force,
        video_that_heeds_its_grants_does_not_stall_where_blind_video_does,
        the_socket_of_the_dead_is_replaced_and_of_the_living_is_not
    );
}
