/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * FBC: the path of a packet through the classes of fbq.h, and which class sends when.
 *
 * A packet that is alone: nothing else waits when it arrives, and it may leave at once. Mostly it does with the next call, and what
 * its arrival and its departure change in queues, orders and candidates is then as before. It is put there only when something else
 * happens first.
 *
 * A class with a discipline (crates/core/src/qdisc/nested.rs): its packets are of one flow, which has the one that the discipline has
 * released last. The others wait in the discipline, and once that one has left it releases the next into the flow, in the same call. A
 * discipline that delays packets may release none, and is asked again at its deadline.
 */
#ifndef TWIN_FBC_H
#define TWIN_FBC_H

#include "departures.h"
#include "openings.h"
#include "promises.h"

/* Whether the flow may not queue size more; *why: by which limit. */
TWIN_INLINE bool twin_fbq_refuses(const struct twin_fbq_options *options, struct twin_fbq *fbq, struct twin_held *held,
				  u32 number, u64 size, qdisc_drop_reason *why)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, flow->class);
	const struct twin_fbq_class_options *params = twin_fbq_params(options, flow->class);
	qdisc_backlog backlog = twin_queue_of(held, number)->backlog;
	u64 rate = class->bucket.rate, minimum = twin_fbq_minimum(flow), bytes = saturating_add_u64(backlog.bytes, size);
	bool first = backlog.packets == 0;
	u64 kept = fbq_kept(params->limit, twin_fbq_unpromised(class), rate), promised, space;
	u64 room = saturating_sub_u64(params->limit, class->backlog.bytes);
	u64 queued = class->queued;
	bool within, may;

	*why = QDISC_DROP_REASON_CLASS_LIMIT;
	/* A queue that begins, without a minimum, needs no part, unless its host does. */
	if (first && minimum == 0 && options->fair_by == 0)
		return size > saturating_sub_u64(room, kept);
	promised = fbq_promised_part(params->limit, class->queued_minimum, rate);
	space = saturating_sub_u64(saturating_sub_u64(params->limit, promised), kept);
	may = first;
	if (options->fair_by != 0) {
		struct twin_fbq_host *host = twin_fbq_host_of(fbq, flow->host);

		may = first && twin_fbq_host_may(fbq, flow, space, size);
		space = twin_fbq_equal_part(space, max_u64(class->hosts_queued + (host->queued == 0), 1));
		queued = host->queued;
	}
	within = (bytes <= params->flow_limit && fbq_is_within_part(bytes, space, max_u64(queued + first, 1))) ||
		 (flow->granted && bytes <= fbq_promised_part(params->limit, minimum, rate));
	if (within && minimum != 0)
		kept = 0;
	if (size > saturating_sub_u64(room, kept))
		return true;
	*why = QDISC_DROP_REASON_FLOW_LIMIT;
	return !(may || within);
}

/* Notes that the queue of a flow has crossed a threshold of feedback; the chassis tells it. */
TWIN_INLINE void twin_fbq_feed_back(const struct twin_fbq_options *options, struct twin_fbq *fbq, struct twin_held *held, u32 number)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	const struct twin_fbq_class_options *params = twin_fbq_params(options, flow->class);
	u64 bytes = twin_queue_of(held, number)->backlog.bytes;

	if (params->feedback_above == 0 || (flow->above ? bytes > params->feedback_below : bytes < params->feedback_above))
		return;
	flow->above = !flow->above;
	fbq->crossed = number + 1;
}

/* Notes whether the step marks the packet that leaves, where it is of ECT(1): `waited` in its queue, which it has left. */
TWIN_INLINE void twin_fbq_note_step(const struct twin_fbq_options *options, struct twin_fbq *fbq, struct twin_held *held, u32 number,
				    u64 waited)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);

	flow->stepped = twin_is_late(held, number, twin_fbq_params(options, flow->class)->step, waited);
	fbq->stepped = flow->stepped ? number + 1 : 0;
}

/* A flow begins to queue whose bucket was empty before fbq->served, the virtual time. */
TWIN_GLOBAL u32 twin_fbq_start_behind(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN, u32 number)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, flow->class);
	u64 burst = twin_fbq_params(options, flow->class)->flow_burst;

	flow->start = fbq_starts_again(flow->start, fbq->served, twin_fbq_length(&class->saved, burst, flow->weight));
	return 0;
}

/* A flow begins to queue. One that is not behind has saved nothing. */
TWIN_INLINE void twin_fbq_start(const struct twin_fbq_options *options, struct twin_fbq *fbq, u32 number)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);

	twin_fbq_find_served(options, fbq, number);
	if (flow->start < fbq->served)
		twin_fbq_start_behind(options, fbq, number);
}

/* Queues the packet of a slot in its flow. */
TWIN_INLINE void twin_fbq_put(const struct twin_fbq_options *options, struct twin_fbq *fbq, struct twin_held *held, u32 number,
			      u32 slot)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, flow->class);
	bool first = twin_queue_of(held, number)->backlog.packets == 0;
	u32 q = twin_packet_of(held, slot)->class;

	if (twin_fbq_has_inside(options, q))
		twin_fbq_class_of(fbq, q)->staged = true;
	if (class->backlog.packets == 0)
		class->borrowed_until = max_u128(class->borrowed_until, fbq->borrow_now);
	twin_push(held, number, slot);
	qdisc_backlog_add(&class->backlog, twin_packet_of(held, slot)->size);
	if (flow->host != TWIN_NONE)
		twin_fbq_host_queued(options, fbq, held, number, twin_packet_of(held, slot)->size);
	if (first) {
		twin_list_remove(held, &fbq->idle, number);
		twin_fbq_queues(class, flow);
		class->host_time = max_u64(class->host_time, fbq->now);
		twin_fbq_start(options, fbq, number);
		twin_fbq_key(options, fbq, held, number);
	}
}

/* Queues the packet that is alone as any other. The chassis does so before each change. */
TWIN_GLOBAL u32 twin_fbq_queue_alone(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN,
				     struct twin_held *held TWIN_GIVEN)
{
	u32 number = fbq->alone - 1, slot = fbq->alone_slot;

	if (fbq->alone == 0)
		return 0;
	fbq->alone = 0;
	held->backlog = (qdisc_backlog){0};
	twin_fbq_put(options, fbq, held, number, slot);
	twin_fbq_choose(options, fbq, held, twin_fbq_flow_of(fbq, number)->class, twin_packet_of(held, slot)->at);
	return 0;
}

/* Notes the packet that arrives in its slot. */
TWIN_INLINE void twin_fbq_note(const struct twin_fbq *fbq, struct twin_packet *packet, u64 arrived, u64 size)
{
	packet->size = size;
	packet->came = packet->at = fbq->now;
	packet->number = arrived;
	packet->key = fbq->packet.key;
	/* No meter has given it a code point; its slot may have been that of a packet with one. */
	packet->service = 0;
	packet->class = fbq->packet.class;
	packet->profile = fbq->packet.profile;
}

/* Finds the flow of the packet that arrives, and the profile of this flow. */
TWIN_INLINE void twin_fbq_find_flow(const struct twin_fbq_options *options, struct twin_fbq *fbq)
{
	bool one = twin_fbq_has_inside(options, fbq->packet.class);

	fbq->packet.flow = one ? U64_MAX - fbq->packet.class : fbq->packet.key;
	fbq->packet.flow_profile = one ? TWIN_FBQ_NO_PROFILE : fbq->packet.profile;
}

/* Notes a packet that is queued anew for twin_fbq_arrive. */
TWIN_INLINE void twin_fbq_note_again(const struct twin_fbq_options *options, struct twin_fbq *fbq, struct twin_held *held, u32 slot)
{
	struct twin_packet *packet = twin_packet_of(held, slot);

	fbq->packet.key = packet->key;
	fbq->packet.class = packet->class;
	fbq->packet.profile = packet->profile;
	twin_fbq_find_flow(options, fbq);
}

/* The flow of the packet that arrives, if it is alone and its arrival changes nothing else; otherwise TWIN_NONE. */
TWIN_INLINE u32 twin_fbq_flow_alone(const struct twin_fbq_options *options, struct twin_fbq *fbq, struct twin_held *held, u64 size)
{
	u64 now = fbq->now, key = fbq->packet.flow;
	u32 number = held->chains[twin_chain_of(&held->flows, key)], next = twin_fbq_next_visited(options, fbq), q = fbq->packet.class;
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, q);
	u64 limit = twin_fbq_params(options, q)->limit;
	option_units_instant own, all;

	if (twin_fbq_params(options, q)->strict == 1 || fbq->lends)
		return TWIN_NONE;
	/* Of a flow that is known, and as it is. */
	if (!twin_is_of(held, &held->flows, number, key) || flow->host != TWIN_NONE || flow->conditions != options->conditions ||
	    flow->class != q || flow->home != q || flow->profile != fbq->packet.flow_profile || flow->granted)
		return TWIN_NONE;
	if (twin_fbq_is_restless(class) || twin_fbq_is_restless(twin_fbq_class_of(fbq, next)) || twin_fbq_is_over(options, fbq))
		return TWIN_NONE;
	/* It crosses no threshold of feedback: where there is none, 0 - 1 is the largest number. */
	if (flow->above || size >= twin_fbq_params(options, q)->feedback_above - 1)
		return TWIN_NONE;
	/* Even where some of the buffer is kept, there is room. */
	if (size > limit - fbq_kept(limit, 0, U64_MAX))
		return TWIN_NONE;
	own = bucket_token_bucket_time_for(&class->bucket, now, size);
	if (!own.some || own.value != now)
		return TWIN_NONE;
	all = bucket_token_bucket_time_for(&fbq->root, now, size);
	if (!all.some || all.value != now)
		return TWIN_NONE;
	return twin_fbq_pays_at(options, fbq, q, size) > now ? TWIN_NONE : number;
}

/* The packet of a slot is alone, of a flow. */
TWIN_INLINE void twin_fbq_leave_alone(const struct twin_fbq_options *options, struct twin_fbq *fbq, struct twin_held *held, u32 number,
				      u32 slot)
{
	fbq->cursor = twin_fbq_next_visited(options, fbq);
	fbq->alone = number + 1;
	fbq->alone_slot = slot;
	held->backlog = (qdisc_backlog){ .packets = 1, .bytes = twin_packet_of(held, slot)->size };
}

/* A call begins, at a time that is the latest of any call. */
TWIN_INLINE void twin_fbq_begin_call(const struct twin_fbq_options *options, struct twin_fbq *fbq, struct twin_held *held, u64 now)
{
	if (fbq->alone != 0)
		twin_fbq_queue_alone(options, fbq, held);
	fbq->now = now;
	fbq->crossed = fbq->departed = 0;
	fbq->touched = TWIN_FBQ_NOTHING;
}

/*
 * A packet arrives in a class without a discipline. First: what it is, is noted, and it is queued if it is alone. Returns its slot;
 * TWIN_NONE where it is dropped; TWIN_FBQ_NOTHING where twin_fbq_arrive and twin_fbq_enqueue go on. always: as far as there are slots
 * and queues it is not dropped, if it has a class. In the end twin_fbq_finish is to be called.
 */
TWIN_INLINE u32 twin_fbq_receive(const struct twin_fbq_options *options, struct twin_fbq *fbq, struct twin_held *held,
				 u64 now, u64 arrived, u64 size, u64 key, u32 q, u32 profile, bool always)
{
	u32 number, slot;

	twin_fbq_begin_call(options, fbq, held, now);
	fbq->refusal = QDISC_DROP_REASON_NO_CLASS;
	if (q >= options->classes)
		return TWIN_NONE;
	fbq->packet.key = key;
	fbq->packet.class = q;
	fbq->packet.profile = profile;
	fbq->always = always;
	twin_fbq_find_flow(options, fbq);
	if (always || held->backlog.packets != 0)
		return TWIN_FBQ_NOTHING;
	number = twin_fbq_flow_alone(options, fbq, held, size);
	slot = number == TWIN_NONE ? TWIN_NONE : twin_take_slot(held);
	if (slot == TWIN_NONE)
		return TWIN_FBQ_NOTHING;
	twin_fbq_note(fbq, twin_packet_of(held, slot), arrived, size);
	twin_fbq_leave_alone(options, fbq, held, number, slot);
	return slot;
}

/*
 * Takes over a packet that the discipline of a class has released, if it is alone. Otherwise twin_fbq_arrive, twin_fbq_requeue and
 * twin_fbq_finish are to follow. In both cases twin_fbq_settle is.
 */
TWIN_GLOBAL u32 twin_fbq_stage(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN,
			       struct twin_held *held TWIN_GIVEN, u32 slot)
{
	struct twin_packet *packet = twin_packet_of(held, slot);
	u32 number = TWIN_NONE;

	packet->at = fbq->now;
	fbq->touched = TWIN_FBQ_NOTHING;
	twin_fbq_note_again(options, fbq, held, slot);
	if (held->backlog.packets == 0)
		number = twin_fbq_flow_alone(options, fbq, held, packet->size);
	if (number == TWIN_NONE)
		return false;
	twin_fbq_leave_alone(options, fbq, held, number, slot);
	return true;
}

/* Before a packet of a flow is queued: the class of the flow may begin to use its rate. */
TWIN_INLINE void twin_fbq_note_use(struct twin_fbq *fbq, u32 number)
{
	u32 q = twin_fbq_flow_of(fbq, number)->class;

	fbq->used_by = twin_fbq_class_of(fbq, q)->backlog.packets == 0 ? q : TWIN_NONE;
}

/* The rest of the same for a packet of the flow `number`, which twin_fbq_arrive has returned. */
TWIN_INLINE u32 twin_fbq_enqueue(const struct twin_fbq_options *options, struct twin_fbq *fbq, struct twin_held *held,
				 u32 number, u64 arrived, u64 size)
{
	qdisc_drop_reason why = QDISC_DROP_REASON_QUEUE_LIMIT;
	u32 slot = TWIN_NONE;

	fbq->refusal = QDISC_DROP_REASON_FLOW_LIMIT;
	if (number == TWIN_NONE)
		return TWIN_NONE;
	twin_fbq_note_use(fbq, number);
	if (fbq->always || !twin_fbq_refuses(options, fbq, held, number, size, &why)) {
		slot = twin_take_slot(held);
		why = QDISC_DROP_REASON_QUEUE_LIMIT;
	}
	fbq->refusal = why;
	if (slot == TWIN_NONE) {
		qdisc_backlog_add(&twin_fbq_flow_of(fbq, number)->dropped, size);
	} else {
		twin_fbq_note(fbq, twin_packet_of(held, slot), arrived, size);
		twin_fbq_put(options, fbq, held, number, slot);
		twin_fbq_feed_back(options, fbq, held, number);
	}
	fbq->touched = twin_fbq_flow_of(fbq, number)->class;
	twin_fbq_choose(options, fbq, held, fbq->touched, fbq->now);
	return slot;
}

/* Queues it in the flow that that has returned. In the end twin_fbq_finish may be called. */
TWIN_GLOBAL u32 twin_fbq_requeue(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN,
				 struct twin_held *held TWIN_GIVEN, u32 number, u32 slot)
{
	twin_fbq_note_use(fbq, number);
	twin_fbq_put(options, fbq, held, number, slot);
	fbq->touched = twin_fbq_flow_of(fbq, number)->class;
	twin_fbq_choose(options, fbq, held, fbq->touched, fbq->now);
	return 0;
}

/*
 * Notes when the discipline of a class is to be asked for a packet again, which has just been asked: its deadline, unless it has released
 * one. TWIN_IDLE for never.
 */
TWIN_INLINE void twin_fbq_note_wait(struct twin_fbq *fbq, u32 q, u64 deadline)
{
	u64 bit = 1ull << twin_index(q, TWIN_FBQ_CLASSES);
	bool waits = !twin_fbq_class_of(fbq, q)->staged && fbq->alone == 0 && deadline != TWIN_IDLE;

	fbq->waiting = waits ? fbq->waiting | bit : fbq->waiting & ~bit;
	fbq->waits_until[twin_index(q, TWIN_FBQ_CLASSES)] = max_u64(deadline, fbq->now);
}

/* The class whose discipline is to be asked next, or TWIN_NONE. */
TWIN_GLOBAL u32 twin_fbq_first_waiting(struct twin_fbq *fbq TWIN_GIVEN)
{
	u64 waiting = fbq->waiting, until = U64_MAX;
	u32 first = TWIN_NONE;

	TWIN_FOR(u32, q, 0, TWIN_FBQ_CLASSES) {
		u64 of_this = fbq->waits_until[twin_index(q, TWIN_FBQ_CLASSES)];

		if (waiting == 0)
			break;
		/* Of equal times the first class has it. */
		if ((waiting & 1) && of_this < until) {
			first = q;
			until = of_this;
		}
		waiting >>= 1;
	}
	return first;
}

/* When a discipline is to be asked again: TWIN_IDLE for never. */
TWIN_INLINE u64 twin_fbq_waits_until(struct twin_fbq *fbq)
{
	u32 q = fbq->waiting == 0 ? TWIN_NONE : twin_fbq_first_waiting(fbq);

	return q == TWIN_NONE ? TWIN_IDLE : fbq->waits_until[twin_index(q, TWIN_FBQ_CLASSES)];
}

/* The time for which a packet is charged that might have left at a time. */
TWIN_INLINE u64 twin_fbq_charged_at(const struct twin_fbq_options *options, u64 time, u64 now)
{
	return max_u64(time, saturating_sub_u64(now, options->catch_up));
}

/* A packet of a class has left the flow of the class, if that has a discipline, which releases the next. */
TWIN_INLINE void twin_fbq_leaves(const struct twin_fbq_options *options, struct twin_fbq *fbq, u32 q)
{
	if (!twin_fbq_has_inside(options, q))
		return;
	twin_fbq_class_of(fbq, q)->staged = false;
	fbq->departed = q + 1;
}

TWIN_INLINE void twin_fbq_charge_ceiling(const struct twin_fbq_options *options, struct twin_fbq_class *class, u32 q, u64 then,
					 u64 size)
{
	if (twin_fbq_params(options, q)->most != 0)
		bucket_token_bucket_charge(&class->ceiling, then, size);
}

/* The slot of the packet that is alone, which leaves now. */
TWIN_INLINE u32 twin_fbq_dequeue_alone(const struct twin_fbq_options *options, struct twin_fbq *fbq, struct twin_held *held,
				       u64 now)
{
	u32 number = fbq->alone - 1, slot = fbq->alone_slot;
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, flow->class);
	struct twin_packet *packet = twin_packet_of(held, slot);
	u64 then = twin_fbq_charged_at(options, packet->at, now), size = packet->size;

	fbq->now = now;
	fbq->alone = 0;
	fbq->touched = TWIN_NONE;
	bucket_token_bucket_charge(&fbq->root, then, size);
	bucket_token_bucket_charge(&class->bucket, then, size);
	twin_fbq_charge_ceiling(options, class, flow->class, then, size);
	twin_fbq_start(options, fbq, number);
	flow->start += twin_fbq_length(&class->packet, size, flow->weight);
	class->virtual_now = max_u128(class->virtual_now, flow->start);
	qdisc_backlog_add(&flow->sent, size);
	flow->waited += now - packet->at;
	held->backlog = (qdisc_backlog){0};
	flow->idle_since = now;
	flow->stepped = false;
	if (fbq->idle.tail != number) {
		twin_list_remove(held, &fbq->idle, number);
		twin_list_append(held, &fbq->idle, number);
	}
	twin_fbq_leaves(options, fbq, packet->class);
	return slot;
}

/* Charges a flow for its first packet, which leaves as of a time. */
TWIN_INLINE void twin_fbq_charge(const struct twin_fbq_options *options, struct twin_fbq *fbq, u32 number, u64 then, u64 size)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, flow->class);
	u128 length = twin_fbq_length(&class->packet, size, flow->weight);

	if (flow->host != TWIN_NONE) {
		twin_fbq_charge_host(options, fbq, number, then, size, length);
	} else if (twin_fbq_params(options, flow->class)->strict == 1) {
		u128 virtual_then = class->by == FBQ_BY_SHARE ? 0 : twin_fbq_virtual_time(options, fbq, flow->class, then);

		flow->start = fbq_charged(flow->start, virtual_then, class->by, length);
	} else {
		flow->start = fbq_charged(flow->start, class->virtual_now, class->by, length);
		if (class->by == FBQ_BY_SHARE)
			class->virtual_now = max_u128(class->virtual_now, flow->start);
	}
	if (flow->granted)
		fbq_charge_minimum(&twin_fbq_special_of(fbq, number)->guarantee, then, size);
}

/*
 * The slot of the packet that leaves now, or TWIN_NONE. always: there is one if any is queued. In the end twin_fbq_finish is to be
 * called. Where fbq->departed is not 0 the discipline of that class may release a packet then, for twin_fbq_stage.
 */
TWIN_INLINE u32 twin_fbq_dequeue(const struct twin_fbq_options *options, struct twin_fbq *fbq, struct twin_held *held,
				 u64 now, bool always)
{
	struct twin_opening first, chosen;
	struct twin_fbq_class *class;
	struct twin_fbq_flow *flow;
	struct twin_packet *packet;
	u32 number, q, slot;
	bool borrowed;
	u64 then, base, own;

	fbq->crossed = fbq->stepped = fbq->departed = 0;
	if (fbq->alone != 0)
		return twin_fbq_dequeue_alone(options, fbq, held, now);
	fbq->touched = TWIN_FBQ_NOTHING;
	first = twin_fbq_first(fbq);
	chosen = twin_fbq_own(fbq, first);
	borrowed = chosen.class == TWIN_NONE || chosen.time > now;
	fbq->now = now;
	if (always && borrowed) {
		q = twin_fbq_first_of(fbq, &fbq->turns[0]);
		if (q == TWIN_NONE)
			q = twin_fbq_first_of(fbq, &fbq->turns[1]);
		if (q == TWIN_NONE)
			return TWIN_NONE;
		borrowed = false;
		chosen.time = now;
		chosen.class = q;
	} else if (borrowed) {
		chosen = twin_fbq_borrower(fbq, held, first);
		if (chosen.class == TWIN_NONE || chosen.time > now || chosen.time == U64_MAX)
			return TWIN_NONE;
	} else {
		chosen.class = twin_fbq_best_of_both(options, fbq, chosen.time, chosen.class);
	}
	q = chosen.class;
	then = twin_fbq_charged_at(options, chosen.time, now);
	/* The clock has no past. */
	base = twin_fbq_is_clocked(options, q) ? now : then;
	own = twin_fbq_time_of(options, fbq, q, base);
	class = twin_fbq_class_of(fbq, q);
	number = class->candidate;
	class->has_candidate = false;
	flow = twin_fbq_flow_of(fbq, number);
	slot = twin_queue_of(held, number)->head;
	packet = twin_packet_of(held, slot);
	bucket_token_bucket_charge(&fbq->root, then, packet->size);
	if (borrowed) {
		/* All that may borrow waited for a ceiling. */
		if (fbq->borrowers == TWIN_NONE)
			twin_fbq_start_borrowing(fbq, q);
		class->borrowed_until += twin_fbq_borrows(class);
		fbq->borrow_now = max_u128(fbq->borrow_now, class->borrowed_until);
	} else {
		bucket_token_bucket_charge(&class->bucket, own, packet->size);
	}
	twin_fbq_charge_ceiling(options, class, q, then, packet->size);
	twin_fbq_charge(options, fbq, number, own, packet->size);
	qdisc_backlog_add(&flow->sent, packet->size);
	flow->waited += now - packet->at;
	twin_pop(held, number);
	twin_fbq_note_step(options, fbq, held, number, now - packet->at);
	qdisc_backlog_remove(&class->backlog, packet->size);
	if (flow->host != TWIN_NONE)
		twin_fbq_host_sent(fbq, held, number, packet->size);
	if (twin_queue_of(held, number)->backlog.packets == 0) {
		flow->idle_since = now;
		twin_fbq_queues_no_more(class, flow);
		twin_fbq_unkey(options, fbq, held, number);
		twin_list_append(held, &fbq->idle, number);
	} else {
		twin_fbq_key(options, fbq, held, number);
	}
	twin_fbq_rechoose(options, fbq, held, q, base, true);
	fbq->used_by = class->backlog.packets == 0 ? q : TWIN_NONE;
	fbq->touched = TWIN_NONE;
	twin_fbq_feed_back(options, fbq, held, number);
	twin_fbq_leaves(options, fbq, packet->class);
	return slot;
}

/* Lets classes lend that have come to do so, after the class whose use may have changed in a call. */
TWIN_GLOBAL u32 twin_fbq_lend(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN)
{
	if (fbq->used_by != TWIN_NONE)
		twin_fbq_use_changed(options, fbq, fbq->used_by);
	fbq->used_by = TWIN_NONE;
	return twin_fbq_expire(options, fbq);
}

/* The end of a call in which a packet arrives, or of twin_fbq_dequeue. Where another packet follows the one that left, the call goes on. */
TWIN_INLINE void twin_fbq_finish(const struct twin_fbq_options *options, struct twin_fbq *fbq, struct twin_held *held)
{
	if (fbq->touched == TWIN_FBQ_NOTHING)
		return;
	if (fbq->lends)
		twin_fbq_lend(options, fbq);
	twin_fbq_tidy(options, fbq, held, fbq->touched);
	if (fbq->departed == 0)
		twin_fbq_settle(options, fbq);
}

/* When the shaper is to be asked next: U64_MAX for never. */
TWIN_INLINE u64 twin_fbq_opening(struct twin_fbq *fbq, struct twin_held *held)
{
	struct twin_opening first = twin_fbq_first(fbq), own, borrower = twin_fbq_borrower(fbq, held, first);

	if (fbq->alone != 0)
		return twin_packet_of(held, fbq->alone_slot)->at;
	if (borrower.class != TWIN_NONE)
		return borrower.time;
	own = twin_fbq_own(fbq, first);
	return own.class != TWIN_NONE ? own.time : U64_MAX;
}

/* When dequeue is to be called next: U64_MAX for never. */
TWIN_INLINE u64 twin_fbq_deadline(struct twin_fbq *fbq, struct twin_held *held)
{
	return min_u64(twin_fbq_opening(fbq, held), twin_fbq_waits_until(fbq));
}

#endif
