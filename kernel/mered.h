/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* MERED: mice and elephants in two queues. A part of disciplines.h, which has the state. */
#ifndef TWIN_MERED_H
#define TWIN_MERED_H

/* mered has two queues. */
enum { TWIN_MICE, TWIN_ELEPHANTS };

TWIN_INLINE elephants_border twin_border(const struct twin_options *options)
{
	return (elephants_border){
		.longest_mouse = options->longest_mouse,
		.measure = options->counts_packets == 1 ? ELEPHANTS_MEASURE_PACKETS : ELEPHANTS_MEASURE_BYTES,
	};
}

/*
 * Finds out whether an arriving packet is one of a mouse. Returns false when there is no record for its flow, of up to `most`; of
 * TWIN_RECORDS there is one.
 */
TWIN_INLINE bool twin_measure(const struct twin_options *options, struct twin_state *state, struct twin_tables *tables,
			      u64 size, u64 key, u64 pair, u64 most)
{
	elephants_border border = twin_border(options);
	u32 number = twin_touch(&tables->flows, state->latest, options->by_pair == 1 ? pair : key, most, options->idle);
	elephants_flow *flow = &twin_record_of(&tables->flows, number)->flow;

	state->record = number;
	if (number == TWIN_NONE)
		return false;
	state->is_mouse = elephants_flow_arrive(flow, &border, size);
#ifdef TWIN_PAIRS
	if (state->is_mouse && options->pair_threshold != 0) {
		elephants_pair_rule rule = { .threshold = options->pair_threshold, .rate = options->pair_rate };
		u32 other = twin_touch(&tables->pairs, state->latest, pair, options->records, options->idle);

		if (other != TWIN_NONE &&
		    !elephants_pair_take(&twin_record_of(&tables->pairs, other)->pair, &rule, state->latest, size)) {
			elephants_flow_exceed(flow, &rule);
			state->is_mouse = false;
		}
	}
#endif
	if (!state->is_mouse)
		twin_protect(&tables->flows, number, options->records);
	return true;
}

/* Keeps the record of the flow of a packet that has been queued. */
TWIN_INLINE void twin_measured(struct twin_state *state, struct twin_tables *tables, struct twin_packet *packet)
{
	packet->record = state->record;
	twin_pin(&tables->flows, packet->record);
	twin_record_of(&tables->flows, packet->record)->flow.queued_mice += state->is_mouse;
	if (!state->is_mouse)
		ared_ared_on_busy(&state->ared);
}

/* Whether an arriving packet of a measured flow is queued; *mark: with a mark. */
TWIN_INLINE bool twin_admits_measured(const struct twin_options *options, struct twin_state *state, u64 size, bool capable,
				      bool *mark)
{
	fifo_limit limit = { .packets = options->limit_packets, .bytes = options->limit_bytes };
	qdisc_backlog elephants = state->held.queues[TWIN_ELEPHANTS].backlog;
	red_red *red = &state->ared.red;
	aqm_verdict verdict;
	red_zone zone;

	if (state->is_mouse)
		return fifo_limit_admits(&limit, state->held.backlog, size);
	zone = ared_ared_observe(&state->ared, state->latest, elephants);
	verdict = red_dropper_judge(&red->dropper, &red->params.early, zone, size, capable);
	if (verdict.kind == AQM_VERDICT_DROP)
		state->refusal = verdict.drop;
	else if (elephants.bytes + size > options->elephant_limit)
		state->refusal = QDISC_DROP_REASON_CLASS_LIMIT;
	if (verdict.kind == AQM_VERDICT_DROP || elephants.bytes + size > options->elephant_limit ||
	    !fifo_limit_admits(&limit, state->held.backlog, size))
		return false;
	*mark = verdict.kind == AQM_VERDICT_MARK;
	return true;
}

/* Whether an elephant leaves next. Something is queued. */
TWIN_INLINE bool twin_elephant_next(struct twin_state *state, struct twin_tables *tables)
{
	struct twin_queue *mice = &state->held.queues[TWIN_MICE], *elephants = &state->held.queues[TWIN_ELEPHANTS];
	struct twin_packet *first = twin_packet_of(&state->held, elephants->head);

	if (mice->backlog.packets == 0 || elephants->backlog.packets == 0)
		return mice->backlog.packets == 0;
	return meredt_floor_due(&state->floor, first->size) &&
	       twin_record_of(&tables->flows, first->record)->flow.queued_mice == 0;
}

/* Takes the packet that leaves next. */
TWIN_INLINE u32 twin_pop_measured(struct twin_state *state, struct twin_tables *tables)
{
	bool is_elephant = twin_elephant_next(state, tables);
	u32 slot = twin_pop(&state->held, is_elephant ? TWIN_ELEPHANTS : TWIN_MICE);
	struct twin_packet *packet = twin_packet_of(&state->held, slot);
	bool has_elephants = state->held.queues[TWIN_ELEPHANTS].backlog.packets != 0;

	if (is_elephant)
		meredt_floor_elephant(&state->floor, packet->size);
	else if (has_elephants)
		meredt_floor_mouse(&state->floor, packet->size);
	twin_record_of(&tables->flows, packet->record)->flow.queued_mice -= !is_elephant;
	twin_unpin(&tables->flows, state->latest, packet->record);
	if (!has_elephants) {
		meredt_floor_none_queued(&state->floor);
		if (is_elephant)
			ared_ared_on_empty(&state->ared, state->latest);
	}
	return slot;
}

#endif
