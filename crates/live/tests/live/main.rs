//! The data path on real interfaces: namespaces, a veth pair, real sockets, no mocks.

mod arrivals;
mod ceilings;
mod crash;
mod exempt;
mod filters;
mod guardian;
mod hold;
mod kernel;
mod l4s;
mod links;
mod mark;
mod moves;
mod panicking;
mod places;
mod proof;
mod queue;
mod restricted;
mod scone;
mod steady;
mod threads;
mod together;
mod unproven;
mod wire;

fn main() {
    // The processes that tests of the guardian start.
    match std::env::args().nth(1).as_deref() {
        Some("guard-a-shaper") => return tidegate_live::guardian::run().unwrap(),
        Some(guardian::SHAPE) => return guardian::shape_by(std::env::args().skip(2)),
        _ => {}
    }
    tidegate_testbed::tests! {
        queue::packets_of_both_families_arrive_and_verdicts_work,
        queue::verdicts_may_come_in_any_order,
        queue::superpackets_arrive_whole,
        queue::a_requeued_superpacket_comes_out_of_the_second_queue_in_segments_in_order,
        queue::a_full_queue_lets_packets_pass,
        queue::an_overrun_is_counted_and_the_queue_goes_on,
        queue::a_payload_is_rewritten,
        queue::several_queues_share_the_flows,
        queue::a_foreign_queue_is_refused_with_a_reason,
        mark::dscp_and_ce_are_written_with_right_checksums,
        mark::superpackets_are_rewritten_in_every_segment,
        mark::the_callers_bits_come_back,
        mark::senders_are_identified_by_uid,
        mark::senders_are_identified_by_control_group,
        l4s::dualpi2_marks_scalable_senders_and_bleaches_nothing,
        scone::a_flow_is_told_the_ceiling_of_its_class_and_nothing_else_changes,
        scone::shares_and_promises_are_told_as_they_are,
        scone::every_datagram_of_a_superpacket_is_looked_at,
        filters::code_points_and_marks_are_written_at_tc,
        filters::what_arrives_passes_another_device,
        filters::what_arrives_passes_a_device_with_two_ends,
        filters::what_leaves_passes_the_device_of_several_interfaces,
        crash::kill_leaves_traffic_passing_and_nothing_behind,
        crash::kill_leaves_arrivals_passing_and_nothing_behind,
        crash::what_a_killed_instance_left_is_removed,
        crash::a_living_instance_is_not_disturbed,
        crash::a_user_cannot_keep_an_instance_from_starting,
        crash::the_lock_lasts_as_long_as_a_process_has_its_socket,
        restricted::a_restricted_process_shapes_and_does_nothing_else,
        restricted::only_the_calls_that_were_named_are_left,
        restricted::a_thread_restricts_itself_apart_from_the_others,
        restricted::files_of_others_need_a_capability,
        guardian::a_stopped_shaper_loses_nothing_and_shapes_again_when_it_continues,
        guardian::a_killed_shaper_loses_nothing_and_its_rules_go,
        guardian::an_end_that_causes_a_burst_keeps_the_order,
        guardian::another_shaper_that_starts_and_ends_loses_and_reorders_nothing,
        guardian::a_successor_takes_over_from_a_killed_shaper_and_from_one_that_runs,
        guardian::a_guardian_that_ends_or_stops_is_replaced,
        guardian::a_shaper_that_is_stopped_between_two_guardians_lets_packets_pass,
        guardian::a_data_path_leaves_its_queue_and_what_is_in_it_to_the_next_one,
        guardian::a_successor_takes_over_all_threads,
        guardian::a_successor_that_is_killed_unguarded_leaves_all_to_the_next,
        guardian::threads_that_stop_and_are_killed_lose_nothing,
        panicking::a_data_path_that_panics_lets_all_packets_pass_in_order,
        ceilings::hosts_and_their_class_stay_below_their_ceilings_through_a_change,
        threads::two_threads_send_what_one_may_and_neither_idles,
        threads::two_interfaces_in_two_threads_have_one_total,
        threads::a_change_in_two_threads_loses_and_reorders_nothing,
        #[long]
        kernel::changes_lose_and_reorder_nothing_and_all_is_counted,
        #[long]
        kernel::classes_keep_what_waits_and_their_counts,
        #[long]
        kernel::promises_come_into_force_and_end,
        #[long]
        kernel::flows_that_rules_move_stay_in_order,
        #[long]
        kernel::what_is_not_in_force_is_noticed,
        #[long]
        kernel::a_killed_one_leaves_the_kernel_shaping,
        proof::tampering_is_found,
        proof::probes_of_each_class_come_through,
        proof::probes_that_take_another_way_are_missed,
        exempt::copies_of_multicast_for_this_host_are_not_queued,
        exempt::only_neighbour_discovery_of_the_link_is_not_queued,
        exempt::forwarded_neighbour_discovery_is_queued,
        links::links_are_made_changed_and_watched,
        links::rules_hold_through_a_rename,
        links::rules_survive_an_interface_that_comes_back,
        links::an_interface_below_others_is_refused_by_their_name,
        links::a_gateway_is_shaped_where_it_forwards,
        moves::a_move_between_data_paths_loses_and_reorders_nothing,
        moves::a_data_path_that_is_ready_takes_nothing_before_the_move,
        moves::a_move_that_is_cancelled_leaves_the_traffic_where_it_is,
        moves::a_start_that_awaits_the_kernel_shapes_in_user_space_and_moves,
        moves::a_kernel_that_is_not_to_be_had_or_not_wanted_is_awaited_no_longer,
        moves::a_data_path_that_is_begun_anew_moves_to_the_kernel,
        hold::an_exchanged_root_loses_nothing_that_is_held,
        places::an_uplink_with_a_delegated_prefix_is_shaped,
        places::what_a_translator_sends_is_shaped_at_the_uplink,
        places::a_card_with_several_queues_is_shaped,
        places::the_interface_of_a_virtual_machine_is_refused,
        together::each_of_several_interfaces_is_proven_locked_and_counted,
        together::one_of_several_interfaces_vanishes_and_returns,
        together::other_interfaces_are_taken_over_without_a_rule_left,
        unproven::a_filter_that_drops_the_probes_leaves_the_proof_to_traffic,
        unproven::an_interface_that_comes_up_later_is_proven_then,
        unproven::a_protocol_that_is_switched_off_is_not_carried,
        steady::busy_strangers_excuse_what_goes_wrong,
        steady::an_attempt_that_holds_leaves_no_thread_behind,
        steady::our_own_work_excuses_nothing,
    }
}
