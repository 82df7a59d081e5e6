/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * DualPI2: a queue with a low delay for scalable senders, one for all others, and one for flows that build the first. A part of
 * disciplines.h.
 */
#ifndef TWIN_DUALPI2_H
#define TWIN_DUALPI2_H

enum { TWIN_LOW, TWIN_CLASSIC, TWIN_SANCTIONED, TWIN_COUPLED };

TWIN_INLINE dualpi2_params twin_dualpi2(const struct twin_options *options)
{
	return (dualpi2_params){
		.target = options->target,
		.update = options->interval,
		.alpha = options->alpha,
		.beta = options->beta,
		.coupling = options->coupling,
		.step = { .from = options->step_from, .full = options->step_full },
		.scheduler = {
			.kind = options->parts != 0 ? DUALPI2_SCHEDULER_WEIGHTED : DUALPI2_SCHEDULER_TIME_SHIFTED,
			.time_shifted_shift = options->shift,
			.weighted_parts = options->parts,
		},
		.protection = {
			.some = options->critical != 0,
			.value = { .critical = options->critical, .score = options->score, .ageing = options->ageing },
		},
	};
}

/* Begins the controller, with no flow under sanction. */
TWIN_INLINE void twin_begin_coupled(const struct twin_options *options, struct twin_discipline *discipline)
{
	dualpi2_params params = twin_dualpi2(options);

	discipline->dualpi2 = decider_state_new(&params);
	discipline->protection.shared = (protection_bucket){0};
	TWIN_FOR(u32, i, 0, TWIN_BUCKETS) {
		discipline->protection.buckets[twin_index(i, TWIN_BUCKETS)] = (protection_bucket){0};
	}
	TWIN_FOR(u32, place, 0, TWIN_PLACES) {
		discipline->protection.waiting[twin_index(place, TWIN_PLACES)] = 0;
	}
}

/* Whether the sender of a packet is taken for scalable. */
TWIN_INLINE bool twin_is_scalable(u32 service)
{
	return service & 1;
}

/* Whether a packet waits in the queue with a low delay unless its flow is under sanction. */
TWIN_INLINE bool twin_is_low(const struct twin_options *options, u32 service)
{
	return twin_is_scalable(service) || (options->nqb == 1 && (service >> 2 & 0x3f) == packet_dscp_nqb());
}

/* The bucket of a flow, or the one that is shared by flows without. wanted: an expired one is taken where the flow has none. */
TWIN_INLINE protection_bucket *twin_bucket_of(struct twin_protection *protection, u64 key, u64 now, bool wanted)
{
	protection_bucket *free = NULL;
	u64 hash = key_index_mix(key);

	for (u32 i = 0; i < protection_attempts(); i++) {
		protection_bucket *bucket = &protection->buckets[twin_index(hash, TWIN_BUCKETS)];

		if (bucket->key == key)
			return bucket;
		if (wanted && !free && protection_bucket_has_aged(bucket, now))
			free = bucket;
		hash >>= protection_bits();
	}
	if (!free)
		free = &protection->shared;
	if (wanted)
		free->key = key;
	return free;
}

/* The packets under sanction that are counted where those of a flow are. */
TWIN_INLINE u32 *twin_waiting_of(struct twin_protection *protection, u64 key)
{
	return &protection->waiting[twin_index(round_spread(key, TWIN_PLACES), TWIN_PLACES)];
}

/* Whether the packet that arrives, which would be in the queue with a low delay, is under sanction. */
TWIN_GLOBAL u32 twin_sanctions(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN,
			       struct twin_held *held TWIN_GIVEN)
{
	struct twin_queue *low = twin_queue_of(held, discipline->room.first + TWIN_LOW);
	u64 key = discipline->arrives.key, behind = low->backlog.packets, delay = 0, native;
	dualpi2_params params = twin_dualpi2(options);
	u32 *waiting = twin_waiting_of(&discipline->protection, key);
	bool moved;

	if (behind != 0)
		delay = saturating_sub_u64(held->latest, twin_packet_of(held, low->head)->at);
	native = step_step_likelihood(&params.step, delay, behind);
	moved = protection_bucket_exceeds(twin_bucket_of(&discipline->protection, key, held->latest, true), &params.protection.value,
					  held->latest, discipline->arrives.size, delay, native) ||
		*waiting > 0;
	*waiting += moved;
	return moved;
}

/* The queue of the packet that arrives. */
TWIN_INLINE u32 twin_queue_coupled(const struct twin_options *options, struct twin_discipline *discipline, struct twin_held *held)
{
	u32 number = discipline->room.first;

	if (!twin_is_low(options, discipline->arrives.service))
		number += TWIN_CLASSIC;
	else if (options->critical != 0 && twin_sanctions(options, discipline, held))
		number += TWIN_SANCTIONED;
	else
		number += TWIN_LOW;
	twin_control_of(held, number)->counts.enqueued++;
	return number;
}

/* Counts a packet that has left a queue. */
TWIN_INLINE void twin_count_coupled(struct twin_held *held, u32 number, u32 slot, bool sent, bool marked)
{
	struct twin_counts *counts = &twin_control_of(held, number)->counts;

	counts->sent += sent;
	counts->dropped += !sent;
	counts->marked += marked;
	if (sent)
		counts->waited += saturating_sub_u64(held->latest, twin_packet_of(held, slot)->at);
}

/* The queue in which packets like one of a flow with a service wait. It may be called without the lock. */
TWIN_INLINE u32 twin_place_coupled(const struct twin_options *options, struct twin_discipline *discipline, u64 key, u32 service)
{
	if (!twin_is_low(options, service))
		return TWIN_CLASSIC;
	return options->critical != 0 && *twin_waiting_of(&discipline->protection, key) != 0 ? TWIN_SANCTIONED : TWIN_LOW;
}

/* Whether a mark is a signal to the sender of a packet: not to those that are not scalable and have a low delay by their code point. */
TWIN_INLINE bool twin_can_signal(const struct twin_options *options, u32 service)
{
	return options->kind != TWIN_DUALPI2 || twin_is_scalable(service) || !twin_is_low(options, service);
}

/* The first packet of a queue, to the scheduler. */
TWIN_INLINE option_decider_head twin_head_of(struct twin_held *held, u32 number)
{
	struct twin_queue *queue = twin_queue_of(held, number);
	struct twin_packet *packet = twin_packet_of(held, queue->head);

	return (option_decider_head){
		.some = queue->backlog.packets != 0,
		.value = { .arrived = packet->at, .size = packet->size },
	};
}

/* When the oldest packet of all queues arrived. */
TWIN_INLINE option_units_instant twin_oldest(const struct twin_discipline *discipline, struct twin_held *held)
{
	option_units_instant oldest = { .some = discipline->backlog.packets != 0, .value = U64_MAX };

	for (u32 i = 0; i < TWIN_COUPLED; i++) {
		struct twin_queue *queue = twin_queue_of(held, discipline->room.first + i);

		if (queue->backlog.packets != 0)
			oldest.value = min_u64(oldest.value, twin_packet_of(held, queue->head)->at);
	}
	return oldest;
}

/* Makes the next update, if it is due by the latest time of any call. Returns whether another may be. */
TWIN_GLOBAL u32 twin_update_coupled(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN,
				    struct twin_held *held TWIN_GIVEN)
{
	dualpi2_params params = twin_dualpi2(options);

	return decider_state_update_if_due(&discipline->dualpi2, &params, held->latest, twin_oldest(discipline, held));
}

/* Makes those that are due, as the core does. */
TWIN_GLOBAL u32 twin_catch_up_coupled(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN,
				      struct twin_held *held TWIN_GIVEN)
{
	dualpi2_params params = twin_dualpi2(options);

	TWIN_FOR(u32, i, 0, decider_most_updates()) {
		if (!twin_update_coupled(options, discipline, held))
			break;
	}
	decider_state_skip_missed(&discipline->dualpi2, &params, held->latest, twin_oldest(discipline, held));
	return 0;
}

/* Whether the packet that arrives is queued. */
TWIN_GLOBAL u32 twin_admits_coupled(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN,
				    struct twin_held *held TWIN_GIVEN)
{
	fifo_limit limit = { .packets = options->limit_packets, .bytes = options->limit_bytes };

	twin_catch_up_coupled(options, discipline, held);
	return fifo_limit_admits(&limit, discipline->backlog, discipline->arrives.size);
}

/* Whose turn it is: the queue; then whether it has the turn of the queue with a low delay, whether the other side has packets, and whether
 * the packets under sanction are sanctioned no more. Something is queued. */
struct twin_turn {
	u32 queue;
	bool from_low, other_waits, returns;
};

TWIN_INLINE struct twin_turn twin_turn_of(const struct twin_options *options, struct twin_discipline *discipline, struct twin_held *held)
{
	dualpi2_params params = twin_dualpi2(options);
	u32 first = discipline->room.first, low = TWIN_LOW, classic = TWIN_CLASSIC;
	option_decider_head of_low = twin_head_of(held, first + TWIN_LOW), of_classic = twin_head_of(held, first + TWIN_CLASSIC),
			    sanctioned = twin_head_of(held, first + TWIN_SANCTIONED);
	struct twin_turn turn = {0};

	sanctioned.value.sanctioned = true;
	if (sanctioned.some) {
		u64 key = twin_packet_of(held, twin_queue_of(held, first + TWIN_SANCTIONED)->head)->key;

		if (protection_bucket_has_aged(twin_bucket_of(&discipline->protection, key, held->latest, false), held->latest)) {
			/* After those with a low delay, so that none of them waits for these. */
			if (!of_low.some) {
				of_low = sanctioned;
				low = TWIN_SANCTIONED;
				turn.returns = true;
			}
		} else if (!of_classic.some || sanctioned.value.arrived < of_classic.value.arrived) {
			of_classic = sanctioned;
			classic = TWIN_SANCTIONED;
		}
	}
	turn.from_low = decider_state_chooses_low(&discipline->dualpi2, &params, of_low, of_classic);
	turn.other_waits = turn.from_low ? of_classic.some : of_low.some;
	turn.queue = first + (turn.from_low ? low : classic);
	return turn;
}

/* Takes the packet whose turn it is, which is in the lower half; above it is what the decider does with it, and above that its queue. */
TWIN_GLOBAL u64 twin_pop_coupled(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN,
				 struct twin_held *held TWIN_GIVEN)
{
	struct twin_turn turn = twin_turn_of(options, discipline, held);
	u32 slot = twin_pop(held, turn.queue), number = turn.queue - discipline->room.first;
	struct twin_packet *packet = twin_packet_of(held, slot);
	decider_state *state = &discipline->dualpi2;
	dualpi2_params params = twin_dualpi2(options);
	bool scalable = twin_is_scalable(packet->service);
	codel_action action;
	u64 native;

	qdisc_backlog_remove(&discipline->backlog, packet->size);
	decider_state_took(state, &params, turn.from_low, packet->size, turn.other_waits);
	if (number == TWIN_SANCTIONED)
		--*twin_waiting_of(&discipline->protection, packet->key);
	native = step_step_likelihood(&params.step, saturating_sub_u64(held->latest, packet->at),
				      twin_queue_of(held, turn.queue)->backlog.packets);
	if (number == TWIN_LOW)
		action = decider_state_low_latency(state, &params, native, scalable);
	else if (number == TWIN_CLASSIC)
		action = decider_state_classic(state, &params);
	else if (turn.returns)
		action = decider_state_returning(state, &params, native, scalable);
	else
		action = decider_state_sanctioned(state, &params, scalable);
	return (u64)number << 40 | (u64)action << 32 | slot;
}

#endif
