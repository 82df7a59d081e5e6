/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which packet of a discipline leaves, and when; see disciplines.h. */
#ifndef TWIN_DEPARTURES_H
#define TWIN_DEPARTURES_H

#include "disciplines.h"

/*
 * What one step of dequeue does. TWIN_AGAIN: nothing yet. TWIN_WAIT: no packet may leave before the deadline. TWIN_DROP: the
 * packet of the slot is dropped, and there is another step. TWIN_MARK_DROP: after it has been marked. TWIN_DROP_END: it is dropped,
 * and the call ends. TWIN_SEND, TWIN_MARK: it leaves, marked or not.
 */
enum twin_action { TWIN_AGAIN, TWIN_EMPTY, TWIN_WAIT, TWIN_DROP, TWIN_SEND, TWIN_MARK, TWIN_MARK_DROP, TWIN_DROP_END };

/* A step: the action in the upper half, the slot in the lower one. */
TWIN_INLINE u64 twin_step(u32 action, u32 slot)
{
	return (u64)action << 32 | slot;
}

TWIN_INLINE u32 twin_action(u64 step)
{
	return step >> 32;
}

/* More than any call of dequeue takes: a visit of each queue for each 64 B of its first packet, two to find it empty. */
#define TWIN_MOST_STEPS (1 << 22)

/* The deadline of an empty queue, and that of one whose next packet may leave now. */
#define TWIN_IDLE U64_MAX
#define TWIN_NOW 0ull

/* Takes the first packet of a queue of a discipline. */
TWIN_INLINE u32 twin_pop_of(struct twin_discipline *discipline, struct twin_held *held, u32 number)
{
	u32 slot = twin_pop(held, number);

	qdisc_backlog_remove(&discipline->backlog, twin_packet_of(held, slot)->size);
	return slot;
}

/* Takes the first packet of a queue that takes turns. */
TWIN_INLINE u32 twin_pop_fair(const struct twin_options *options, struct twin_discipline *discipline, struct twin_held *held, u32 number)
{
	struct twin_control *control = twin_control_of(held, number);
	u32 slot = twin_pop_of(discipline, held, number);

	twin_classify(held, &discipline->lengths, number);
	if (twin_queue_of(held, number)->backlog.packets != 0)
		return slot;
	if (options->kind == TWIN_SFQ)
		sfq_hash_emptied(&discipline->hash, control->since);
	if (options->kind == TWIN_DRR || options->kind == TWIN_SFQ) {
		round_turns_left(&discipline->turns, &control->allowance, discipline->active.head == number);
		twin_list_remove(held, &discipline->active, number);
	}
	if (options->kind == TWIN_DRR)
		twin_forget(held, &discipline->room, number);
	return slot;
}

/* Whether the limit of all queues together is exceeded, or a packet is to be dropped for another reason after an arrival. */
TWIN_INLINE bool twin_exceeds(const struct twin_options *options, const struct twin_discipline *discipline)
{
	return twin_is_fair(options) && (discipline->backlog.packets > options->limit_packets ||
					 discipline->backlog.bytes > options->limit_bytes || twin_has_filtered(options));
}

/* After an arrival: the slot of a packet that is dropped because the limit of all queues is exceeded, or TWIN_NONE. */
TWIN_INLINE u32 twin_overflow(const struct twin_options *options, struct twin_discipline *discipline, struct twin_held *held)
{
	u32 longest;

	if (!twin_exceeds(options, discipline))
		return TWIN_NONE;
	discipline->refusal = QDISC_DROP_REASON_FLOW_LIMIT;
	if (twin_is_cake(options))
		return twin_overflow_cake(options, discipline, held);
	longest = twin_longest(&discipline->lengths);
	return longest == TWIN_NONE ? TWIN_NONE : twin_pop_fair(options, discipline, held, longest);
}

/* A step of CoDel on a queue. */
TWIN_GLOBAL u64 twin_step_codel(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN,
				struct twin_held *held TWIN_GIVEN, u32 number)
{
	struct twin_queue *queue = twin_queue_of(held, number);
	codel_state *codel = &twin_control_of(held, number)->codel;
	codel_params params = twin_codel(options);
	struct twin_packet *packet;
	u64 now = held->latest;
	u32 slot;

	if (queue->backlog.packets == 0) {
		codel_state_ran_empty(codel, &discipline->call);
		return twin_step(TWIN_EMPTY, TWIN_NONE);
	}
	slot = twin_pop_of(discipline, held, number);
	packet = twin_packet_of(held, slot);
	switch (codel_state_decide(codel, &params, &discipline->stats, &discipline->call, now, saturating_sub_u64(now, packet->at),
				   queue->backlog.bytes)) {
	case CODEL_ACTION_SEND:
		return twin_step(twin_is_stepped(options, held, number, slot) ? TWIN_MARK : TWIN_SEND, slot);
	case CODEL_ACTION_SIGNAL:
		if (options->marks == 1 && twin_is_capable(packet->service)) {
			codel_state_marked(codel, &params, &discipline->call);
			return twin_step(TWIN_MARK, slot);
		}
		break;
	case CODEL_ACTION_DROP:
		break;
	}
	return twin_step(TWIN_DROP, slot);
}

/* A step of deficit round robin. */
TWIN_GLOBAL u64 twin_step_round(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN,
				struct twin_held *held TWIN_GIVEN)
{
	u32 number = discipline->active.head;
	u64 size = twin_packet_of(held, twin_queue_of(held, number)->head)->size;
	u32 slot;

	if (number == TWIN_NONE)
		return twin_step(TWIN_EMPTY, TWIN_NONE);
	if (round_turns_pays(&discipline->turns, &twin_control_of(held, number)->allowance, size)) {
		slot = twin_pop_fair(options, discipline, held, number);
		return twin_step(twin_is_stepped(options, held, number, slot) ? TWIN_MARK : TWIN_SEND, slot);
	}
	twin_list_remove(held, &discipline->active, number);
	twin_list_append(held, &discipline->active, number);
	return twin_step(TWIN_AGAIN, TWIN_NONE);
}

/* A step of PIE on a queue. */
TWIN_GLOBAL u64 twin_step_pie(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN,
			      struct twin_held *held TWIN_GIVEN, u32 number)
{
	struct twin_queue *queue = twin_queue_of(held, number);
	u32 slot;

	twin_catch_up_pie(options, discipline, held, number);
	if (queue->backlog.packets == 0)
		return twin_step(TWIN_EMPTY, TWIN_NONE);
	slot = twin_pop_of(discipline, held, number);
	pie_state_departed(&twin_control_of(held, number)->pie, saturating_sub_u64(held->latest, twin_packet_of(held, slot)->at),
			   queue->backlog.packets == 0);
	return twin_step(TWIN_SEND, slot);
}

/* A step of DualPI2. */
TWIN_GLOBAL u64 twin_step_coupled(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN,
				  struct twin_held *held TWIN_GIVEN)
{
	u32 slot, number, action;
	bool marked, sent;
	u64 popped;

	twin_catch_up_coupled(options, discipline, held);
	if (discipline->backlog.packets == 0)
		return twin_step(TWIN_EMPTY, TWIN_NONE);
	popped = twin_pop_coupled(options, discipline, held);
	slot = popped;
	number = discipline->room.first + (popped >> 40);
	action = popped >> 32 & 0xff;
	marked = action == CODEL_ACTION_SIGNAL && twin_is_capable(twin_packet_of(held, slot)->service);
	sent = marked || action == CODEL_ACTION_SEND || discipline->call.drops == codel_most_drops_a_call();
	twin_count_coupled(held, number, slot, sent, marked);
	if (marked)
		return twin_step(TWIN_MARK, slot);
	if (sent)
		return twin_step(TWIN_SEND, slot);
	discipline->call.drops++;
	return twin_step(TWIN_DROP, slot);
}

/* A step of FQ-CoDel or FQ-PIE: a queue at the end of its turn, or its first packet. */
TWIN_GLOBAL u64 twin_step_fq(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN,
			     struct twin_held *held TWIN_GIVEN)
{
	struct twin_list *list = discipline->fresh.head != TWIN_NONE ? &discipline->fresh : &discipline->active;
	u32 number = list->head;
	struct twin_control *control = twin_control_of(held, number);
	u64 step;

	if (discipline->backlog.packets == 0)
		return twin_step(TWIN_EMPTY, TWIN_NONE);
	if (round_deficit_renew(&control->deficit, options->quantum)) {
		control->place = FLOW_QUEUES_PLACE_OLD;
		twin_list_remove(held, list, number);
		twin_list_append(held, &discipline->active, number);
		return twin_step(TWIN_AGAIN, TWIN_NONE);
	}
	step = options->kind == TWIN_FQ_PIE ? twin_step_pie(options, discipline, held, number)
					    : twin_step_codel(options, discipline, held, number);
	twin_classify(held, &discipline->lengths, number);
	if (twin_action(step) == TWIN_SEND || twin_action(step) == TWIN_MARK)
		round_deficit_spend(&control->deficit, twin_packet_of(held, step)->size);
	if (twin_action(step) != TWIN_EMPTY)
		return step;
	discipline->call = (codel_call){0};
	twin_list_remove(held, list, number);
	control->place = flow_queues_place_once_empty(control->place, discipline->active.head != TWIN_NONE);
	if (control->place == FLOW_QUEUES_PLACE_OLD)
		twin_list_append(held, &discipline->active, number);
	return twin_step(TWIN_AGAIN, TWIN_NONE);
}

#ifdef TWIN_WITH_OWN
/* A step of a discipline of a user's own. With a rate, the decider is asked once the packet may leave; a packet that it drops costs no tokens. */
TWIN_GLOBAL u64 twin_step_own(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN,
			      struct twin_held *held TWIN_GIVEN)
{
	u32 number = discipline->room.first, slot;
	struct twin_packet *packet = twin_packet_of(held, twin_queue_of(held, number)->head);
	aqm_verdict verdict;

	if (discipline->backlog.packets == 0)
		return twin_step(TWIN_EMPTY, TWIN_NONE);
	if (options->rate != 0) {
		option_units_instant at = bucket_token_bucket_time_of(&discipline->bucket, held->latest, packet->size);

		if (!at.some || at.value > held->latest)
			return twin_step(TWIN_WAIT, TWIN_NONE);
	}
	slot = twin_pop_of(discipline, held, number);
	verdict = own_decider_depart(&discipline->own, held->latest, discipline->backlog, packet->size,
				     saturating_sub_u64(held->latest, packet->at), twin_is_capable(packet->service));
	if (verdict.kind == AQM_VERDICT_DROP)
		return twin_step(TWIN_DROP, slot);
	if (options->rate != 0)
		bucket_token_bucket_take(&discipline->bucket, held->latest, packet->size);
	return twin_step(verdict.kind == AQM_VERDICT_MARK && twin_is_capable(packet->service) ? TWIN_MARK : TWIN_SEND, slot);
}
#else
TWIN_INLINE u64 twin_step_own(const struct twin_options *options, struct twin_discipline *discipline, struct twin_held *held)
{
	(void)options;
	(void)discipline;
	(void)held;
	return twin_step(TWIN_EMPTY, TWIN_NONE);
}
#endif

#include "cake_departures.h"

/* Before the steps of a call of dequeue. */
TWIN_INLINE void twin_prepare(struct twin_discipline *discipline)
{
	discipline->call = (codel_call){0};
}

/* Whether a call of dequeue does nothing but to advance the time where no packet waits. */
TWIN_INLINE bool twin_rests(const struct twin_options *options)
{
	u64 kind = options->kind;

	return twin_is_own(options) || twin_is_cake(options) || kind == TWIN_FIFO || kind == TWIN_TBF || kind == TWIN_RED || kind == TWIN_ARED ||
	       kind == TWIN_FBQ || kind == TWIN_CBQ || twin_is_ras(options) || twin_is_coloured(options);
}

/* A step of RAS. A call releases one packet at most, which its own meter behind it may drop. */
TWIN_GLOBAL u64 twin_step_ras(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN,
			      struct twin_held *held TWIN_GIVEN)
{
	struct twin_packet *packet;
	u64 now = held->latest, due;
	u32 slot, service;

	if (discipline->backlog.packets == 0)
		return twin_step(TWIN_EMPTY, TWIN_NONE);
	due = twin_release_of_ras(options, discipline, held);
	if (due > now)
		return twin_step(TWIN_WAIT, TWIN_NONE);
	slot = twin_pop_of(discipline, held, discipline->room.first);
	packet = twin_packet_of(held, slot);
	twin_released_ras(options, discipline, now, due, packet->size);
	if (!twin_has_conditioner(options))
		return twin_step(TWIN_SEND, slot);
	service = twin_condition(options, discipline, now, packet->size, packet->service);
	if (service == TWIN_NONE)
		return twin_step(TWIN_DROP_END, slot);
	packet->service = service;
	return twin_step(TWIN_SEND, slot);
}

/* A step of dequeue of one queue in the order of arrival. */
TWIN_GLOBAL u64 twin_step_queue(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN,
				struct twin_held *held TWIN_GIVEN)
{
	u32 number = discipline->room.first, slot;
	struct twin_queue *first = twin_queue_of(held, number);
	struct twin_packet *packet = twin_packet_of(held, first->head);
	u64 now = held->latest;

	if (first->backlog.packets == 0)
		return twin_step(TWIN_EMPTY, TWIN_NONE);
	if (options->kind == TWIN_TBF && !bucket_token_bucket_take(&discipline->bucket, now, packet->size))
		return twin_step(TWIN_WAIT, TWIN_NONE);
	slot = twin_pop_of(discipline, held, number);
	if ((options->kind == TWIN_RED || options->kind == TWIN_ARED) && first->backlog.packets == 0)
		red_red_on_empty(&discipline->ared.red, now);
	if (twin_is_coloured(options))
		twin_left_coloured(options, discipline, packet, now);
	return twin_step(TWIN_SEND, slot);
}

/* A step of dequeue, before a meter behind the discipline. */
TWIN_INLINE u64 twin_next_inside(const struct twin_options *options, struct twin_discipline *discipline, struct twin_held *held,
			  struct twin_tables *tables)
{
	if (options->kind == TWIN_DRR || options->kind == TWIN_SFQ)
		return twin_step_round(options, discipline, held);
	if (twin_is_controlled(options))
		return twin_step_fq(options, discipline, held);
	if (options->kind == TWIN_CODEL)
		return twin_step_codel(options, discipline, held, discipline->room.first);
	if (options->kind == TWIN_PIE)
		return twin_step_pie(options, discipline, held, discipline->room.first);
	if (options->kind == TWIN_DUALPI2)
		return twin_step_coupled(options, discipline, held);
	if (twin_is_ras(options))
		return twin_step_ras(options, discipline, held);
	if (twin_is_own(options))
		return twin_step_own(options, discipline, held);
	if (twin_is_cake(options))
		return twin_step_cake(options, discipline, held);
	if (!tables || options->kind == TWIN_INGRESS)
		return twin_step_queue(options, discipline, held);
	if (discipline->backlog.packets == 0)
		return twin_step(TWIN_EMPTY, TWIN_NONE);
	return twin_step(TWIN_SEND, twin_pop_measured(discipline, held, tables));
}

/* A step of dequeue. */
TWIN_INLINE u64 twin_next(const struct twin_options *options, struct twin_discipline *discipline, struct twin_held *held,
			  struct twin_tables *tables)
{
	u64 step = twin_next_inside(options, discipline, held, tables);
	struct twin_packet *packet = twin_packet_of(held, step);
	u32 service;

	discipline->loss = twin_action(step) == TWIN_DROP_END ? QDISC_DROP_REASON_POLICED : QDISC_DROP_REASON_EARLY;
	if (options->meter == 0 || options->meter_exit != 1 || (twin_action(step) != TWIN_SEND && twin_action(step) != TWIN_MARK))
		return step;
	service = twin_condition(options, discipline, held->latest, packet->size, packet->service);
	if (service != TWIN_NONE) {
		packet->service = service;
		return step;
	}
	discipline->loss = QDISC_DROP_REASON_POLICED;
	/* The discipline is asked anew for another. */
	twin_prepare(discipline);
	return twin_step(TWIN_DROP, step);
}

/* When the next packet may leave. */
TWIN_INLINE u64 twin_deadline(const struct twin_options *options, struct twin_discipline *discipline, struct twin_held *held, u64 now)
{
	u32 head = twin_queue_of(held, discipline->room.first)->head;
	option_units_instant at;

	if (discipline->backlog.packets == 0)
		return TWIN_IDLE;
	if (twin_is_cake(options))
		return twin_deadline_cake(options, discipline, max_u64(held->latest, now));
	if (twin_is_ras(options)) {
		u64 due = twin_release_of_ras(options, discipline, held);

		return due <= max_u64(held->latest, now) ? TWIN_NOW : due;
	}
	if (!twin_has_bucket(options))
		return TWIN_NOW;
	now = max_u64(held->latest, now);
	at = bucket_token_bucket_time_of(&discipline->bucket, now, twin_packet_of(held, head)->size);
	if (!at.some)
		return TWIN_IDLE;
	return at.value <= now ? TWIN_NOW : at.value;
}

#endif
