/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* MERED and MEREDT: mice and elephants in two queues. A part of disciplines.h. */
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

/* The value of an elephant of a length. */
TWIN_GLOBAL u32 twin_value(const struct twin_options *options TWIN_GIVEN, u64 length)
{
	elephants_point before = {0}, after = {0};
	u64 count = min_u64(options->points, TWIN_POINTS);

	TWIN_FOR(u32, i, 0, TWIN_POINTS) {
		u64 point = options->values[twin_index(i, TWIN_POINTS)];

		if (i >= count)
			break;
		before = after;
		after = (elephants_point){ .length = point & TWIN_POINT_LENGTH, .value = point / (TWIN_POINT_LENGTH + 1) };
		if (after.length > length)
			return elephants_point_between(&before, &after, length);
	}
	return after.value;
}

/*
 * Finds out whether the packet that arrives is one of a mouse. Returns false when there is no record for its flow. For a packet that is
 * not dropped there is one.
 */
TWIN_GLOBAL u32 twin_measure(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN,
			     struct twin_held *held TWIN_GIVEN, struct twin_tables *tables TWIN_GIVEN)
{
	elephants_border border = twin_border(options);
	u64 size = discipline->arrives.size, key = discipline->arrives.key, pair = discipline->arrives.pair;
	u64 most = discipline->arrives.always ? TWIN_RECORDS : options->records;
	u32 number = twin_touch(&tables->flows, held->latest, options->by_pair == 1 ? pair : key, most, options->idle);
	elephants_flow *flow = &twin_record_of(&tables->flows, number)->flow;

	discipline->record = number;
	if (number == TWIN_NONE)
		return false;
	discipline->is_mouse = elephants_flow_arrive(flow, &border, size);
	if (discipline->is_mouse && options->pair_threshold != 0) {
		elephants_pair_rule rule = { .threshold = options->pair_threshold, .rate = options->pair_rate };
		u32 other = twin_touch(&tables->pairs, held->latest, pair, options->records, options->idle);

		if (other != TWIN_NONE &&
		    !elephants_pair_take(&twin_record_of(&tables->pairs, other)->pair, &rule, held->latest, size)) {
			elephants_flow_exceed(flow, &rule);
			discipline->is_mouse = false;
		}
	}
	if (!discipline->is_mouse) {
		discipline->value = twin_value(options, flow->length);
		twin_protect(&tables->flows, number, options->records);
	}
	return true;
}

/* Keeps the record of the flow of a packet that has been queued. */
TWIN_INLINE void twin_measured(struct twin_discipline *discipline, struct twin_tables *tables, struct twin_packet *packet)
{
	packet->record = discipline->record;
	twin_pin(&tables->flows, packet->record);
	twin_record_of(&tables->flows, packet->record)->flow.queued_mice += discipline->is_mouse;
	if (!discipline->is_mouse)
		ared_ared_on_busy(&discipline->ared);
}

/* Whether the packet that arrives, of a measured flow, is queued. */
TWIN_GLOBAL u32 twin_admits_measured(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN,
				     struct twin_held *held TWIN_GIVEN)
{
	fifo_limit limit = { .packets = options->limit_packets, .bytes = options->limit_bytes };
	qdisc_backlog elephants = twin_queue_of(held, discipline->room.first + TWIN_ELEPHANTS)->backlog;
	struct twin_arrival *arrives = &discipline->arrives;
	red_red *red = &discipline->ared.red;
	aqm_verdict verdict;
	red_zone zone;

	if (discipline->is_mouse)
		return fifo_limit_admits(&limit, discipline->backlog, arrives->size);
	zone = meredt_mean_value_scale(&discipline->mean, ared_ared_observe(&discipline->ared, held->latest, elephants), discipline->value,
				       options->fairness);
	verdict = red_dropper_judge(&red->dropper, &red->params.early, zone, arrives->size, arrives->capable);
	if (verdict.kind == AQM_VERDICT_DROP)
		discipline->refusal = verdict.drop;
	else if (elephants.bytes + arrives->size > options->elephant_limit)
		discipline->refusal = QDISC_DROP_REASON_CLASS_LIMIT;
	if (verdict.kind == AQM_VERDICT_DROP || elephants.bytes + arrives->size > options->elephant_limit ||
	    !fifo_limit_admits(&limit, discipline->backlog, arrives->size))
		return false;
	arrives->marked = verdict.kind == AQM_VERDICT_MARK;
	return true;
}

/* Whether an elephant leaves next. Something is queued. */
TWIN_INLINE bool twin_elephant_next(struct twin_discipline *discipline, struct twin_held *held, struct twin_tables *tables)
{
	u32 number = discipline->room.first;
	struct twin_queue *mice = twin_queue_of(held, number + TWIN_MICE), *elephants = twin_queue_of(held, number + TWIN_ELEPHANTS);
	struct twin_packet *first = twin_packet_of(held, elephants->head);

	if (mice->backlog.packets == 0 || elephants->backlog.packets == 0)
		return mice->backlog.packets == 0;
	return meredt_floor_due(&discipline->floor, first->size) &&
	       twin_record_of(&tables->flows, first->record)->flow.queued_mice == 0;
}

/* Takes the packet that leaves next. */
TWIN_GLOBAL u32 twin_pop_measured(struct twin_discipline *discipline TWIN_GIVEN, struct twin_held *held TWIN_GIVEN,
				  struct twin_tables *tables TWIN_GIVEN)
{
	bool is_elephant = twin_elephant_next(discipline, held, tables);
	u32 number = discipline->room.first, slot = twin_pop(held, number + (is_elephant ? TWIN_ELEPHANTS : TWIN_MICE));
	struct twin_packet *packet = twin_packet_of(held, slot);
	bool has_elephants = twin_queue_of(held, number + TWIN_ELEPHANTS)->backlog.packets != 0;

	qdisc_backlog_remove(&discipline->backlog, packet->size);
	if (is_elephant)
		meredt_floor_elephant(&discipline->floor, packet->size);
	else if (has_elephants)
		meredt_floor_mouse(&discipline->floor, packet->size);
	twin_record_of(&tables->flows, packet->record)->flow.queued_mice -= !is_elephant;
	twin_unpin(&tables->flows, held->latest, packet->record);
	if (!has_elephants) {
		meredt_floor_none_queued(&discipline->floor);
		if (is_elephant)
			ared_ared_on_empty(&discipline->ared, held->latest);
	}
	return slot;
}

#endif
