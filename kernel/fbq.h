/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * FBC over FBQ, as crates/core/src/qdisc/fbq has it: which decider is asked when. Flows are queues of queues.h. Who is next among
 * flows and among classes is kept in leftist heaps, whose order is that of the core, ties included.
 */
#ifndef TWIN_FBQ_H
#define TWIN_FBQ_H

#include "orders.h"

/* Classes, profiles and promises at most, powers of two. */
#define TWIN_FBQ_CLASSES 64
#define TWIN_FBQ_PROFILES 256
#define TWIN_FBQ_PROMISES 256
/* Flows that end in one call, at most. */
#define TWIN_FBQ_ENDED 4

/* Sizes in bytes, times in nanoseconds, rates in bit/s. */
struct twin_fbq_class_options {
	/* Where the chassis counts for it. It keeps this in a change of structure, and with it what waits. */
	u64 account;
	u64 rate;
	u64 burst;
	u64 flow_burst;
	u64 priority;
	/* 1 where it may use the rate of others. */
	u64 borrows;
	u64 limit;
	u64 flow_limit;
};

struct twin_fbq_profile {
	/* With 16 bits of fraction. */
	u64 weight;
	u64 minimum;
};

/* See promises.h. */
struct twin_fbq_promise {
	/* Another number is another promise; 0 is none. */
	u64 number;
	u64 class;
	u64 minimum;
	/* For how many flows rate is held. */
	u64 flows;
};

struct twin_fbq_options {
	/* The total. */
	u64 rate;
	u64 burst;
	u64 idle_timeout;
	u64 flows;
	u64 catch_up;
	u64 classes;
	u64 profiles;
	/* Another number wherever anything but rates and promises has changed. */
	u64 structure;
	/* What waits in a class that there is no more goes to this one. */
	u64 default_class;
	/* Another number wherever the conditions of promises have changed. */
	u64 conditions;
	struct twin_fbq_class_options class[TWIN_FBQ_CLASSES];
	struct twin_fbq_profile profile[TWIN_FBQ_PROFILES];
	struct twin_fbq_promise promise[TWIN_FBQ_PROMISES];
};

/* Where the places are: of flows in the orders of shares and of minimums, of classes in four orders. */
#define TWIN_GUARANTEES TWIN_QUEUES
#define TWIN_UPCOMING (2 * TWIN_QUEUES)
#define TWIN_ENTITLED (TWIN_UPCOMING + TWIN_FBQ_CLASSES)
#define TWIN_PREFERRED (TWIN_ENTITLED + TWIN_FBQ_CLASSES)
#define TWIN_BORROWERS (TWIN_PREFERRED + TWIN_FBQ_CLASSES)

struct twin_fbq_flow {
	/* The virtual time at which its bucket was empty. */
	u128 start;
	bucket_token_bucket guarantee;
	u64 weight;
	u64 minimum;
	u64 idle_since;
	/* What was sent of it and what was dropped, and how long the former waited. */
	qdisc_backlog sent, dropped;
	u64 waited;
	/* Those for which its promise was found. */
	u64 conditions;
	u32 class;
	u32 profile;
	/* The place of its promise, plus 1. */
	u32 promise;
	/* The neighbours among those whose minimum waits. */
	u32 wait_before, wait_next;
	bool present, granted, waits;
};

/* A length of virtual time that was computed last: divisions take long, and packets mostly have the size of the one before. */
struct twin_fbq_length {
	u128 length;
	u64 bytes, by;
};

struct twin_fbq_class {
	/* Of a packet by the weight of its flow, of what a flow may save by that weight, and of a packet by the rate of the class. */
	struct twin_fbq_length packet, saved, borrowed;
	u128 virtual_now;
	/* Its position in the virtual time of borrowing. */
	u128 borrowed_until;
	bucket_token_bucket bucket;
	qdisc_backlog backlog;
	/* Flows with a queue, and the sum of their granted minimums; that of all flows. */
	u64 queued, queued_minimum, minimum;
	/* What is held for flows that come under promises. */
	u64 held;
	/* The flow whose first packet leaves next, if has_candidate: since when it is selected, and when its bucket pays. */
	u64 since, due, size;
	u32 candidate, by;
	u32 share, guarantee;
	struct twin_list waiting;
	bool has_candidate, unsettled;
};

struct twin_fbq {
	u128 borrow_now;
	/* The time of the call. */
	u64 now;
	/* No class has a better priority. */
	u64 best_priority;
	bucket_token_bucket root;
	u32 upcoming, entitled, preferred, borrowers;
	u32 flow_count, cursor;
	/* Why the last was refused that was. */
	qdisc_drop_reason refusal;
	/* The flow of the packet that is alone, plus 1, and its slot; 0 for none: see fbc.h. */
	u32 alone, alone_slot;
	/* Of the promises of flows that ended in this call, their places, plus 1. */
	u32 ended_count, ended[TWIN_FBQ_ENDED];
	struct twin_list idle;
	struct twin_fbq_class classes[TWIN_FBQ_CLASSES];
	struct twin_fbq_flow flows[TWIN_QUEUES];
	fbq_slots slots[TWIN_FBQ_PROMISES];
	struct twin_orders orders;
};

TWIN_INLINE struct twin_fbq_flow *twin_fbq_flow_of(struct twin_fbq *fbq, u32 number)
{
	return &fbq->flows[twin_index(number, TWIN_QUEUES)];
}

TWIN_INLINE struct twin_fbq_class *twin_fbq_class_of(struct twin_fbq *fbq, u32 number)
{
	return &fbq->classes[twin_index(number, TWIN_FBQ_CLASSES)];
}

TWIN_INLINE const struct twin_fbq_class_options *twin_fbq_params(const struct twin_fbq_options *options, u32 class)
{
	return &options->class[twin_index(class, TWIN_FBQ_CLASSES)];
}

TWIN_INLINE void twin_fbq_begin(const struct twin_fbq_options *options, struct twin_fbq *fbq)
{
	struct twin_list none = { .head = TWIN_NONE, .tail = TWIN_NONE };

	fbq->borrow_now = 0;
	fbq->root = bucket_token_bucket_full(options->rate, options->burst, 0);
	fbq->upcoming = fbq->entitled = fbq->preferred = fbq->borrowers = TWIN_NONE;
	fbq->flow_count = fbq->cursor = fbq->ended_count = fbq->alone = 0;
	fbq->idle = none;
	fbq->best_priority = U64_MAX;
	TWIN_FOR(u32, q, 0, TWIN_FBQ_CLASSES) {
		struct twin_fbq_class *class = twin_fbq_class_of(fbq, q);
		const struct twin_fbq_class_options *params = twin_fbq_params(options, q);

		*class = (struct twin_fbq_class){ .share = TWIN_NONE, .guarantee = TWIN_NONE, .waiting = none };
		if (q < options->classes)
			fbq->best_priority = min_u64(fbq->best_priority, params->priority);
		class->virtual_now = fbq_virtual_start();
		class->bucket = bucket_token_bucket_full(params->rate, params->burst, 0);
	}
	TWIN_FOR(u32, flow, 0, TWIN_QUEUES) {
		twin_fbq_flow_of(fbq, flow)->granted = false;
		twin_fbq_flow_of(fbq, flow)->promise = 0;
		twin_fbq_flow_of(fbq, flow)->present = false;
	}
	TWIN_FOR(u32, place, 0, TWIN_FBQ_PROMISES) {
		fbq->slots[twin_index(place, TWIN_FBQ_PROMISES)] = (fbq_slots){0};
	}
	TWIN_FOR(u32, number, 0, TWIN_NODES) {
		twin_node_of(&fbq->orders, number)->rank = 0;
	}
}

/* The virtual length of bytes for a weight. */
TWIN_INLINE u128 twin_fbq_length(struct twin_fbq_length *last, u64 bytes, u64 weight)
{
	if (last->bytes != bytes || last->by != weight)
		*last = (struct twin_fbq_length){ fbq_virtual_length(bytes, weight), bytes, weight };
	return last->length;
}

/* What the candidate of a class adds to what it has borrowed. */
TWIN_INLINE u128 twin_fbq_borrows(struct twin_fbq_class *class)
{
	struct twin_fbq_length *last = &class->borrowed;

	if (last->bytes != class->size || last->by != class->bucket.rate)
		*last = (struct twin_fbq_length){ fbq_borrow_length(class->size, class->bucket.rate), class->size, class->bucket.rate };
	return last->length;
}

/* The place of a class in the orders of classes, after its candidate changed. */
TWIN_INLINE void twin_fbq_place(const struct twin_fbq_options *options, struct twin_fbq *fbq, u32 q)
{
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, q);
	const struct twin_fbq_class_options *params = twin_fbq_params(options, q);

	twin_order_remove(&fbq->orders, &fbq->entitled, TWIN_ENTITLED + q);
	twin_order_remove(&fbq->orders, &fbq->preferred, TWIN_PREFERRED + q);
	if (class->has_candidate)
		twin_order_set(&fbq->orders, &fbq->upcoming, TWIN_UPCOMING + q, fbq_by_due(class->due, params->priority));
	else
		twin_order_remove(&fbq->orders, &fbq->upcoming, TWIN_UPCOMING + q);
	if (class->has_candidate && params->borrows == 1)
		twin_order_set(&fbq->orders, &fbq->borrowers, TWIN_BORROWERS + q,
			       class->borrowed_until + twin_fbq_borrows(class));
	else
		twin_order_remove(&fbq->orders, &fbq->borrowers, TWIN_BORROWERS + q);
}

/* Selects the candidate of a class as of base. */
TWIN_INLINE void twin_fbq_select(struct twin_fbq *fbq, struct twin_held *held, struct twin_fbq_class *class, u64 base)
{
	u32 number = class->share, by = FBQ_BY_SHARE;
	const struct twin_packet *head;
	option_units_instant due;

	class->has_candidate = number != TWIN_NONE;
	if (number == TWIN_NONE)
		return;
	if (class->guarantee != TWIN_NONE && twin_node_of(&fbq->orders, class->guarantee)->key <= base) {
		number = class->guarantee - TWIN_GUARANTEES;
		by = FBQ_BY_GUARANTEE;
	}
	head = twin_packet_of(held, twin_queue_of(held, number)->head);
	due = bucket_token_bucket_time_for(&class->bucket, max_u64(base, head->at), head->size);
	if (!due.some)
		due.value = U64_MAX;
	class->candidate = number;
	class->by = by;
	class->since = base;
	class->due = due.value;
	class->size = head->size;
}

TWIN_GLOBAL u32 twin_fbq_rechoose(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN,
				  struct twin_held *held TWIN_GIVEN, u32 q, u64 base)
{
	twin_fbq_select(fbq, held, twin_fbq_class_of(fbq, q), base);
	twin_fbq_place(options, fbq, q);
	return 0;
}

/* Selects a candidate unless there is one that was selected by then. */
TWIN_INLINE void twin_fbq_choose(const struct twin_fbq_options *options, struct twin_fbq *fbq, struct twin_held *held, u32 q,
				 u64 base)
{
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, q);

	if (!class->has_candidate || class->since > base)
		twin_fbq_rechoose(options, fbq, held, q, base);
}

/* Enters a flow with a queue into both orders of its class. */
TWIN_GLOBAL u32 twin_fbq_key(struct twin_fbq *fbq TWIN_GIVEN, struct twin_held *held TWIN_GIVEN, u32 number)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, flow->class);
	const struct twin_packet *head = twin_packet_of(held, twin_queue_of(held, number)->head);
	option_units_instant covered = {0};

	twin_order_set(&fbq->orders, &class->share, number, flow->start + twin_fbq_length(&class->packet, head->size, flow->weight));
	if (flow->granted)
		covered = fbq_covered_at(&flow->guarantee, head->size, head->at);
	if (covered.some)
		twin_order_set(&fbq->orders, &class->guarantee, TWIN_GUARANTEES + number, covered.value);
	else
		twin_order_remove(&fbq->orders, &class->guarantee, TWIN_GUARANTEES + number);
	return 0;
}

TWIN_GLOBAL u32 twin_fbq_unkey(struct twin_fbq *fbq TWIN_GIVEN, u32 number)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, flow->class);

	twin_order_remove(&fbq->orders, &class->share, number);
	twin_order_remove(&fbq->orders, &class->guarantee, TWIN_GUARANTEES + number);
	if (class->candidate == number)
		class->has_candidate = false;
	return 0;
}

TWIN_INLINE u64 twin_fbq_minimum(const struct twin_fbq_flow *flow)
{
	return flow->granted ? flow->minimum : 0;
}

TWIN_INLINE void twin_fbq_queues(struct twin_fbq_class *class, const struct twin_fbq_flow *flow)
{
	class->queued++;
	class->queued_minimum += twin_fbq_minimum(flow);
}

TWIN_INLINE void twin_fbq_queues_no_more(struct twin_fbq_class *class, const struct twin_fbq_flow *flow)
{
	class->queued--;
	class->queued_minimum -= twin_fbq_minimum(flow);
}

TWIN_INLINE u64 twin_fbq_unpromised(const struct twin_fbq_class *class)
{
	return saturating_sub_u64(saturating_sub_u64(class->bucket.rate, class->minimum), class->held);
}

/* Rate that was held is free. */
TWIN_INLINE void twin_fbq_release(struct twin_fbq_class *class, u64 rate)
{
	class->held = saturating_sub_u64(class->held, rate);
	class->unsettled = true;
}

TWIN_INLINE void twin_fbq_wait(struct twin_fbq *fbq, struct twin_fbq_class *class, u32 number)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);

	flow->waits = true;
	flow->wait_before = class->waiting.tail;
	flow->wait_next = TWIN_NONE;
	if (flow->wait_before == TWIN_NONE)
		class->waiting.head = number;
	else
		twin_fbq_flow_of(fbq, flow->wait_before)->wait_next = number;
	class->waiting.tail = number;
}

TWIN_INLINE void twin_fbq_wait_no_more(struct twin_fbq *fbq, struct twin_fbq_class *class, u32 number)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	u32 before = flow->wait_before, next = flow->wait_next;

	if (!flow->waits)
		return;
	flow->waits = false;
	if (before == TWIN_NONE)
		class->waiting.head = next;
	else
		twin_fbq_flow_of(fbq, before)->wait_next = next;
	if (next == TWIN_NONE)
		class->waiting.tail = before;
	else
		twin_fbq_flow_of(fbq, next)->wait_before = before;
}

/* Adds a flow to a class, but not its queue to the orders. */
TWIN_GLOBAL u32 twin_fbq_enter(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN,
			       struct twin_held *held TWIN_GIVEN, u32 number, u32 q)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, q);
	const struct twin_fbq_class_options *params = twin_fbq_params(options, q);
	struct twin_queue *queue = twin_queue_of(held, number);
	u64 credit = 0;

	flow->class = q;
	flow->granted = flow->minimum != 0 && flow->minimum <= twin_fbq_unpromised(class);
	if (flow->minimum != 0 && !flow->granted)
		twin_fbq_wait(fbq, class, number);
	class->minimum += twin_fbq_minimum(flow);
	if (class->backlog.packets == 0)
		credit = min_u64(params->flow_burst, bucket_token_bucket_bytes(&class->bucket, fbq->now));
	flow->start = fbq_starts_with(class->virtual_now, fbq_virtual_length(credit, flow->weight));
	flow->guarantee = bucket_token_bucket_full(twin_fbq_minimum(flow), params->flow_burst, fbq->now);
	class->unsettled = true;
	class->backlog.packets += queue->backlog.packets;
	class->backlog.bytes += queue->backlog.bytes;
	if (queue->backlog.packets != 0)
		twin_fbq_queues(class, flow);
	return 0;
}

/* Adds a flow to a class, with its queue if it has one. In two functions, since the stack of the kernel is small. */
TWIN_GLOBAL u32 twin_fbq_join(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN,
			      struct twin_held *held TWIN_GIVEN, u32 number, u32 q)
{
	twin_fbq_enter(options, fbq, held, number, q);
	if (twin_queue_of(held, number)->backlog.packets != 0)
		twin_fbq_key(fbq, held, number);
	twin_fbq_choose(options, fbq, held, q, fbq->now);
	return 0;
}

/* Removes a flow from its class, with its queue. */
TWIN_GLOBAL u32 twin_fbq_part(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN,
			      struct twin_held *held TWIN_GIVEN, u32 number)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, flow->class);
	struct twin_queue *queue = twin_queue_of(held, number);
	bool chosen = class->has_candidate && class->candidate == number;

	twin_fbq_unkey(fbq, number);
	if (queue->backlog.packets != 0)
		twin_fbq_queues_no_more(class, flow);
	class->minimum -= twin_fbq_minimum(flow);
	twin_fbq_wait_no_more(fbq, class, number);
	class->unsettled = true;
	class->backlog.packets -= queue->backlog.packets;
	class->backlog.bytes -= queue->backlog.bytes;
	if (chosen)
		twin_fbq_rechoose(options, fbq, held, flow->class, fbq->now);
	else
		twin_fbq_choose(options, fbq, held, flow->class, fbq->now);
	return 0;
}

enum { TWIN_WAITS, TWIN_GRANTED, TWIN_IF_FREE };

/* Sets the minimum of a flow and whether it is granted, without the place of its queue in the orders. */
TWIN_GLOBAL u32 twin_fbq_regrant(struct twin_fbq *fbq TWIN_GIVEN, struct twin_held *held TWIN_GIVEN, u32 number, u64 minimum,
				 u32 granted)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, flow->class);
	bool queues = twin_queue_of(held, number)->backlog.packets != 0;

	class->minimum -= twin_fbq_minimum(flow);
	if (queues)
		twin_fbq_queues_no_more(class, flow);
	flow->minimum = minimum;
	flow->granted = granted == TWIN_IF_FREE ? minimum != 0 && minimum <= twin_fbq_unpromised(class) : granted == TWIN_GRANTED;
	bucket_token_bucket_set_rate(&flow->guarantee, fbq->now, twin_fbq_minimum(flow));
	class->minimum += twin_fbq_minimum(flow);
	if (queues)
		twin_fbq_queues(class, flow);
	class->unsettled = true;
	return 0;
}

/* Grants the minimum of a flow, or takes it back. */
TWIN_INLINE void twin_fbq_grant(struct twin_fbq *fbq, struct twin_held *held, u32 number, u32 granted)
{
	twin_fbq_regrant(fbq, held, number, twin_fbq_flow_of(fbq, number)->minimum, granted);
	if (twin_queue_of(held, number)->backlog.packets != 0)
		twin_fbq_key(fbq, held, number);
}

/* Grants the first minimum that waits in an unsettled class, if it fits. */
TWIN_GLOBAL u32 twin_fbq_visit(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN,
			       struct twin_held *held TWIN_GIVEN, u32 q)
{
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, q);
	u32 first = class->waiting.head;

	if (first != TWIN_NONE) {
		if (twin_fbq_flow_of(fbq, first)->minimum > twin_fbq_unpromised(class)) {
			class->unsettled = false;
		} else {
			twin_fbq_wait_no_more(fbq, class, first);
			twin_fbq_grant(fbq, held, first, TWIN_GRANTED);
			twin_fbq_choose(options, fbq, held, q, fbq->now);
		}
	}
	if (class->waiting.head == TWIN_NONE)
		class->unsettled = false;
	return 0;
}

/* Ends an idle flow. */
TWIN_GLOBAL u32 twin_fbq_forget(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN,
				struct twin_held *held TWIN_GIVEN, u32 number)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);

	twin_fbq_part(options, fbq, held, number);
	flow->granted = false;
	if (flow->promise != 0)
		fbq->ended[twin_index(fbq->ended_count++, TWIN_FBQ_ENDED)] = flow->promise;
	flow->promise = 0;
	flow->present = false;
	twin_list_remove(held, &fbq->idle, number);
	twin_forget(held, number);
	fbq->flow_count--;
	return 0;
}

/* Whether the flow that has been idle for the longest time ends. */
TWIN_INLINE bool twin_fbq_is_over(const struct twin_fbq_options *options, struct twin_fbq *fbq)
{
	u32 oldest = fbq->idle.head;

	return oldest != TWIN_NONE &&
	       saturating_sub_u64(fbq->now, twin_fbq_flow_of(fbq, oldest)->idle_since) >= options->idle_timeout;
}

/* The class that is visited next. */
TWIN_INLINE u32 twin_fbq_next_visited(const struct twin_fbq_options *options, const struct twin_fbq *fbq)
{
	return fbq->cursor + 1 < options->classes ? fbq->cursor + 1 : 0;
}

TWIN_INLINE void twin_fbq_housekeep(const struct twin_fbq_options *options, struct twin_fbq *fbq, struct twin_held *held,
				    u32 touched)
{
	if (twin_fbq_is_over(options, fbq)) {
		twin_fbq_forget(options, fbq, held, fbq->idle.head);
		if (twin_fbq_is_over(options, fbq))
			twin_fbq_forget(options, fbq, held, fbq->idle.head);
	}
	if (touched != TWIN_NONE && twin_fbq_class_of(fbq, touched)->unsettled)
		twin_fbq_visit(options, fbq, held, touched);
	fbq->cursor = twin_fbq_next_visited(options, fbq);
	if (twin_fbq_class_of(fbq, fbq->cursor)->unsettled)
		twin_fbq_visit(options, fbq, held, fbq->cursor);
}

#endif
