//! The built command between namespaces, with real traffic.

mod at_pair;
mod both;
mod chaos;
mod cni;
mod devices;
mod exec;
mod faulty;
mod frozen;
mod killed;
mod measure;
mod names;
mod promise;
mod reboot;
mod record;
mod run;
mod running;
mod service;
mod setup;
mod steer;
mod times;
mod together;
mod varlink;
mod watchdog;

use std::process::ExitCode;

use tidegate::Registry;

fn main() -> ExitCode {
    // The processes that tests start: a client inside `tidegate exec`, and a command with a discipline of its own.
    if let Ok(role) = std::env::var(exec::ROLE) {
        exec::roles::play(&role);
        return ExitCode::SUCCESS;
    }
    if std::env::var_os(faulty::AS_COMMAND).is_some() {
        return tidegate::main_with(Registry::new().with::<faulty::Faulty>());
    }
    tidegate_testbed::tests! {
        both::one_file_shapes_both_ways,
        both::the_preset_is_a_file,
        both::what_is_stacked_later_is_reported_while_it_is_there,
        both::doctor_tries_both_ways_and_leaves_nothing,
        both::both_ways_are_shaped_before_either_is_proven,
        both::it_waits_for_its_interface,
        both::what_is_not_proven_at_the_start_is_proven_when_the_link_comes,
        both::two_processes_have_plain_sockets_and_one_status,
        #[nightly, once, long] chaos::random_faults_lose_and_reorder_nothing,
        #[once] cni::a_container_has_its_terms_while_it_lives,
        #[once] cni::annotations_set_what_the_network_permits,
        #[once] cni::a_container_is_shaped_in_both_directions,
        #[once] cni::of_several_shapers_one_must_be_named,
        #[once] cni::the_tools_of_cni_run_the_plugin,
        #[once] cni::runc_runs_the_hooks,
        #[once] cni::podman_adds_the_hook,
        varlink::a_client_of_varlink_has_the_calls,
        #[nightly] exec::downloads_keep_the_rate,
        exec::uploads_keep_the_rate_and_nothing_is_lost_at_the_end,
        #[nightly, once] exec::datagrams_keep_the_rate_in_both_directions,
        #[nightly] exec::datagrams_that_heed_no_drop_do_not_wait,
        exec::a_call_beside_a_download_does_not_wait,
        exec::exit_codes_and_signals_are_passed_through,
        exec::standard_input_and_output_pass_through,
        exec::a_terminal_works_as_without,
        exec::pings_pass_where_the_host_lets_everybody_ping,
        exec::the_program_is_who_it_was,
        exec::what_cannot_be_reached_is_said_at_once,
        exec::large_datagrams_and_ipv6_pass,
        exec::the_loopback_is_the_hosts_or_its_own,
        exec::the_host_is_not_touched_and_a_dead_relay_lets_nothing_out,
        #[once] exec::a_static_program_is_shaped,
        #[once] exec::a_shaper_file_shapes,
        exec::processes_left_behind_are_served_until_they_end,
        faulty::a_bug_in_enqueue_loses_nothing,
        faulty::a_bug_in_dequeue_loses_nothing,
        #[once] faulty::a_bug_in_deadline_loses_nothing,
        #[once] faulty::a_bug_in_what_is_done_after_a_bug_loses_nothing,
        #[once] frozen::a_freeze_of_both_processes_is_counted_packet_by_packet,
        #[once] frozen::a_frozen_file_system_holds_no_packet_up,
        #[nightly, once] faulty::a_reservation_outlives_outages_with_its_command,
        #[once] faulty::bugs_when_it_is_built_or_thrown_away_stop_nothing,
        devices::forwarded_packets_are_known_by_the_interface_they_came_from,
        names::a_device_is_known_by_the_name_in_its_lease,
        names::a_host_is_known_by_the_answer_that_named_it,
        names::the_answer_to_a_host_behind_a_gateway_is_seen,
        names::a_hand_over_with_a_rule_about_names_loses_nothing,
        devices::a_device_is_known_by_its_hardware_address_while_it_is_a_neighbour,
        times::a_rule_begins_at_its_hour_and_no_packet_is_lost,
        times::a_quota_is_used_up_outlives_a_crash_and_begins_anew,
        times::a_quota_of_both_directions_is_told_once,
        #[nightly, once] measure::responsiveness_is_better_with_shaping,
        promise::a_program_runs_under_its_promise,
        promise::signals_and_exit_codes_of_the_program_pass_through,
        promise::a_promise_holds_while_another_process_takes_over,
        promise::a_promise_holds_while_a_change_is_proven,
        promise::a_promise_holds_while_the_traffic_moves,
        #[once] promise::a_promise_is_requested_again_after_a_restart,
        #[once] promise::a_promise_from_another_namespace_of_processes_is_refused,
        #[once] promise::a_service_is_found_by_its_control_group,
        #[once] promise::a_program_in_go_holds_a_promise,
        #[once] promise::a_program_in_javascript_holds_a_promise,
        #[nightly, once] measure::a_finished_direction_is_printed_when_the_peer_ends,
        record::live_record_and_replay_are_equal,
        record::live_changes_and_promises_are_replayed,
        record::live_reservations_are_replayed,
        record::live_decisions_of_a_rate_are_made_again,
        #[once] record::files_of_a_limited_size,
        record::a_flow_is_explained_live,
        record::a_flow_is_explained_as_it_was_recorded,
        #[once] record::the_report_of_a_live_run,
        record::a_file_that_cannot_be_written,
        run::in_force_and_an_orderly_end,
        run::rates_of_the_line_shape_both_ways,
        run::killed_it_stops_no_traffic_and_starts_again,
        run::a_qdisc_that_shapes_below_is_announced,
        run::the_history_of_one_run_is_that_of_the_next,
        reboot::history_and_quotas_outlive_a_reboot,
        run::signals_that_ask_for_reports_do_not_end_it,
        run::a_wrong_interface_is_named_with_the_right_ones,
        run::missing_permission_is_said,
        run::a_directory_that_is_read_only_is_said_before_the_start,
        run::packets_that_another_program_takes_are_missed,
        run::packets_that_are_rewritten_are_mistaken,
        #[nightly] run::packets_that_a_bridge_takes_are_noticed,
        run::a_file_that_changes_is_noticed,
        run::a_second_one_on_the_same_interface_is_refused,
        run::an_interface_that_vanishes_is_noticed,
        run::the_demonstration_ends_with_its_table,
        service::a_service_manager_hears_of_it,
        #[once] service::a_fault_is_told_to_the_service_manager,
        service::a_reload_applies_the_file_and_a_wrong_one_changes_nothing,
        service::it_goes_on_when_nobody_reads_what_it_says,
        #[once] service::the_unit_is_valid_and_allows_little,
        #[once] service::the_unit_of_a_promise_is_valid_and_allows_less,
        service::doctor_finds_nothing_where_nothing_is,
        service::doctor_finds_what_is_wrong_with_the_interface,
        service::doctor_finds_other_rules_and_other_instances,
        service::doctor_finds_filters_that_take_packets,
        service::doctor_finds_xdp_programs,
        service::doctor_says_when_it_may_not,
        setup::a_gateway_is_set_up_and_back,
        setup::a_failure_leaves_everything_as_it_was,
        setup::the_uppermost_interface_is_set_up,
        setup::an_interface_may_come_later,
        setup::questions_are_asked_at_a_terminal,
        #[nightly, once] setup::a_line_is_measured,
        steer::rates_change_while_packets_wait,
        #[once] steer::classes_and_rules_come_and_go_while_packets_wait,
        #[once] steer::a_change_on_trial_goes_back_unless_it_is_confirmed,
        #[once] steer::a_promise_is_kept_refused_listed_and_ends,
        steer::status_events_and_top_show_what_arrives,
        steer::a_flow_is_preferred_from_the_screen_and_no_longer,
        steer::what_is_wrong_is_said_and_changes_nothing,
        #[once] steer::another_user_may_look_and_not_touch,
        steer::a_reservation_is_kept_refused_listed_and_ends,
        together::each_interface_is_shown_and_followed,
        together::a_successor_takes_over_all_of_them,
        together::two_uplinks_in_one_process_have_their_own_rates,
        together::what_cannot_be_is_refused,
        watchdog::a_stalled_data_path_is_let_pass_and_started_again,
        #[once] watchdog::a_stall_at_the_start_is_waited_for,
        watchdog::a_panic_in_a_discipline_is_caught_and_said,
        #[once] watchdog::a_clock_that_goes_back_stops_nothing,
        #[once] watchdog::a_clock_that_jumps_ahead_makes_no_burst,
        watchdog::memory_refused_ends_the_process_and_stops_no_traffic,
        watchdog::privileges_are_given_up_and_a_data_path_starts_again,
        #[once] watchdog::a_renamed_interface_stays_shaped,
        #[once] watchdog::without_descriptors_shaping_goes_on,
        #[once] watchdog::a_rename_is_noticed_whatever_was_before,
        #[once] watchdog::a_link_that_goes_down_and_up_stays_shaped,
        #[nightly, once] watchdog::a_suspended_process_makes_no_burst_when_it_wakes,
        #[once] watchdog::packets_that_the_kernel_drops_are_counted_and_reported,
        #[once] watchdog::packets_whose_route_goes_are_counted_and_reported,
        watchdog::a_start_beside_a_shaper_drops_nothing_that_waits,
        #[once] killed::promises_survive_a_restart_and_a_kill,
        #[once] killed::drops_around_a_kill_are_counted,
        #[once] killed::guardians_that_end_drop_nothing_of_each_other,
        #[nightly, once] watchdog::clients_notice_that_the_daemon_is_stopped,
    }
}
