/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * FBC over FBQ, as crates/core/src/qdisc/fbq has it: which decider is asked when. Flows are queues of queues.h. Who is next among
 * flows and among classes is kept in leftist heaps, whose order is that of the core, ties included.
 */
#ifndef TWIN_FBQ_H
#define TWIN_FBQ_H

#include "classes.h"

/* The virtual length of bytes for a weight. */
TWIN_INLINE u128 twin_fbq_length(struct twin_fbq_length *last, u64 bytes, u64 weight)
{
	if (last->bytes != bytes || last->by != weight)
		*last = (struct twin_fbq_length){ fbq_virtual_length(bytes, weight), bytes, weight };
	return last->length;
}

#include "lending.h"
#include "shares.h"
#include "hosts.h"
#include "candidates.h"

/* And a flow with a granted minimum into that of minimums, if the minimum ever covers its first packet. */
TWIN_GLOBAL u32 twin_fbq_key_minimum(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN,
				     struct twin_held *held TWIN_GIVEN, u32 number)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, flow->class);
	const struct twin_packet *head = twin_packet_of(held, twin_queue_of(held, number)->head);
	option_units_instant covered = {0};

	/* The packets of others of its group count towards the ceiling of the group, so that the flow has to wait for the group's turn. */
	if (flow->granted && (flow->host == TWIN_NONE || twin_fbq_group_ceiling(options, twin_fbq_host_of(fbq, flow->host)).rate == 0))
		covered = fbq_covered_at(&twin_fbq_special_of(fbq, number)->guarantee, head->size, head->at);
	covered.value = max_u64(covered.value, twin_fbq_flow_pays_at(flow, head->size));
	if (covered.some && covered.value != U64_MAX)
		twin_order_set(&fbq->orders, &class->guarantee, TWIN_GUARANTEES + flow->special - 1, covered.value, number);
	else
		twin_order_remove(&fbq->orders, &class->guarantee, TWIN_GUARANTEES + flow->special - 1);
	return 0;
}

/* Enters a flow with a queue into the order of its class. */
TWIN_GLOBAL u32 twin_fbq_key_in_class(struct twin_fbq *fbq TWIN_GIVEN, struct twin_held *held TWIN_GIVEN, u32 number)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, flow->class);
	const struct twin_packet *head = twin_packet_of(held, twin_queue_of(held, number)->head);

	twin_order_set(&fbq->orders, &class->share, number,
		       flow->start + twin_fbq_length(&class->packet, head->size, flow->weight), number);
	return 0;
}

/* Enters a flow with a queue into both orders of its class. */
TWIN_INLINE void twin_fbq_key(const struct twin_fbq_options *options, struct twin_fbq *fbq, struct twin_held *held, u32 number)
{
	if (twin_fbq_flow_of(fbq, number)->host != TWIN_NONE) {
		twin_fbq_key_in_host(fbq, held, number);
		twin_fbq_key_host(options, fbq, held, twin_fbq_flow_of(fbq, number)->host);
	} else {
		twin_fbq_key_in_class(fbq, held, number);
	}
	if (twin_fbq_flow_of(fbq, number)->special != 0)
		twin_fbq_key_minimum(options, fbq, held, number);
}

TWIN_INLINE void twin_fbq_unkey(const struct twin_fbq_options *options, struct twin_fbq *fbq, struct twin_held *held, u32 number)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, flow->class);

	if (flow->host != TWIN_NONE) {
		twin_fbq_unlist_flow(fbq, number);
		twin_fbq_key_host(options, fbq, held, flow->host);
	} else {
		twin_order_remove(&fbq->orders, &class->share, number);
	}
	if (flow->special != 0)
		twin_order_remove(&fbq->orders, &class->guarantee, TWIN_GUARANTEES + flow->special - 1);
	if (class->candidate == number)
		class->has_candidate = false;
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
	struct twin_fbq_special *special = twin_fbq_special_of(fbq, number);

	twin_fbq_flow_of(fbq, number)->waits = true;
	special->wait_before = class->waiting.tail;
	special->wait_next = TWIN_NONE;
	if (special->wait_before == TWIN_NONE)
		class->waiting.head = number;
	else
		twin_fbq_special_of(fbq, special->wait_before)->wait_next = number;
	class->waiting.tail = number;
}

TWIN_INLINE void twin_fbq_wait_no_more(struct twin_fbq *fbq, struct twin_fbq_class *class, u32 number)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	u32 before, next;

	if (!flow->waits)
		return;
	flow->waits = false;
	before = twin_fbq_special_of(fbq, number)->wait_before;
	next = twin_fbq_special_of(fbq, number)->wait_next;
	if (before == TWIN_NONE)
		class->waiting.head = next;
	else
		twin_fbq_special_of(fbq, before)->wait_next = next;
	if (next == TWIN_NONE)
		class->waiting.tail = before;
	else
		twin_fbq_special_of(fbq, next)->wait_before = before;
}

/* Adds a flow to those of its class that are preferred, in the order in which they are looked at. */
TWIN_INLINE void twin_fbq_prefer(struct twin_fbq *fbq, struct twin_fbq_class *class, u32 number)
{
	u64 round = (u64)class->round + (number <= class->weighed);

	twin_order_set(&fbq->orders, &class->preferred, TWIN_PREFERENCES + twin_fbq_flow_of(fbq, number)->special - 1,
		       round << 32 | number, number);
	class->preferred_count++;
}

TWIN_INLINE void twin_fbq_prefer_no_more(struct twin_fbq *fbq, struct twin_fbq_class *class, u32 number)
{
	u32 place = TWIN_PREFERENCES + twin_fbq_flow_of(fbq, number)->special - 1;

	class->preferred_count -= twin_node_of(&fbq->orders, place)->rank != 0;
	twin_order_remove(&fbq->orders, &class->preferred, place);
}

/* A flow that has none gets what only few have, if there is one left. */
TWIN_INLINE void twin_fbq_take_special(struct twin_fbq *fbq, u32 number)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	u32 place = fbq->free_special;

	if (flow->special != 0)
		return;
	if (place != TWIN_NONE)
		fbq->free_special = twin_fbq_special_at(fbq, place)->wait_next;
	else if (fbq->used_specials < TWIN_FBQ_SPECIALS)
		place = fbq->used_specials++;
	else
		return;
	*twin_fbq_special_at(fbq, place) = (struct twin_fbq_special){ .flow = number, .plain = flow->weight, .moved = fbq->now };
	flow->special = place + 1;
}

TWIN_INLINE void twin_fbq_free_special(struct twin_fbq *fbq, u32 number)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);

	if (flow->special == 0)
		return;
	twin_fbq_special_of(fbq, number)->wait_next = fbq->free_special;
	fbq->free_special = flow->special - 1;
	flow->special = 0;
}

/* To be called after a flow joined, left or got another minimum or preference, or the rate of its class changed. */
TWIN_INLINE void twin_fbq_shares_changed(struct twin_fbq_class *class)
{
	class->virtual_rest = 0;
	class->unsettled = true;
	class->stale = class->preferred_count;
}

/* What a flow asks for by its steps of preference. */
TWIN_INLINE u64 twin_fbq_part_of(const struct twin_fbq_class_options *params, const struct twin_fbq_special *special)
{
	return min_u64(saturating_mul_u64(params->increment, special->steps), fbq_whole());
}

/* Adds a flow with more than a weight to those of its class. */
TWIN_GLOBAL u32 twin_fbq_enter_special(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN,
				       u32 number)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, flow->class);
	struct twin_fbq_special *special = twin_fbq_special_of(fbq, number);
	const struct twin_fbq_class_options *params = twin_fbq_params(options, flow->class);

	special->part = twin_fbq_part_of(params, special);
	if (special->part != 0)
		twin_fbq_prefer(fbq, class, number);
	flow->granted = flow->minimum != 0 && flow->minimum <= twin_fbq_unpromised(class);
	if (flow->minimum != 0 && !flow->granted)
		twin_fbq_wait(fbq, class, number);
	special->guarantee = bucket_token_bucket_full(twin_fbq_minimum(flow), params->flow_burst,
						      twin_fbq_time_of(options, fbq, flow->class, fbq->now));
	return 0;
}

/* The place of a flow in the order of thresholds, if it has one and is in its own class. */
TWIN_GLOBAL u32 twin_fbq_note_threshold(struct twin_fbq *fbq TWIN_GIVEN, u32 number)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	u32 *root = &twin_fbq_class_of(fbq, flow->class)->thresholds;

	if (flow->special == 0 || twin_fbq_special_of(fbq, number)->to == 0 || flow->class != flow->home)
		return 0;
	twin_ratio(fbq, twin_fbq_special_of(fbq, number)->below, flow->weight);
	twin_order_set(&fbq->orders, root, TWIN_THRESHOLDS + flow->special - 1, ~fbq->wide, TWIN_QUEUES - 1 - number);
	return 0;
}

TWIN_INLINE void twin_fbq_forget_threshold(struct twin_fbq *fbq, u32 number)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);

	if (flow->special != 0)
		twin_order_remove(&fbq->orders, &twin_fbq_class_of(fbq, flow->class)->thresholds, TWIN_THRESHOLDS + flow->special - 1);
}

/* Ends that a flow, which is in the shares, is added to its class: as of fbq->served its bucket is empty, or has a burst. */
TWIN_GLOBAL u32 twin_fbq_admit(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN,
			       struct twin_held *held TWIN_GIVEN, u32 number)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, flow->class);
	struct twin_queue *queue = twin_queue_of(held, number);
	bool alone = class->backlog.packets == 0;
	u64 credit = 0;

	class->minimum += twin_fbq_minimum(flow);
	if (flow->host != TWIN_NONE)
		alone = twin_fbq_host_of(fbq, flow->host)->queued == 0;
	if (alone)
		credit = min_u64(twin_fbq_params(options, flow->class)->flow_burst,
				 bucket_token_bucket_bytes(&class->bucket, twin_fbq_time_of(options, fbq, flow->class, fbq->now)));
	flow->start = fbq_starts_with(fbq->served, fbq_virtual_length(credit, flow->weight));
	twin_fbq_shares_changed(class);
	class->backlog.packets += queue->backlog.packets;
	class->backlog.bytes += queue->backlog.bytes;
	if (queue->backlog.packets != 0)
		twin_fbq_queues(class, flow);
	return 0;
}

/* Adds a flow to a class, with its queue if it has one. In several functions, since the stack of the kernel is small. */
TWIN_GLOBAL u32 twin_fbq_join(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN,
			      struct twin_held *held TWIN_GIVEN, u32 number, u32 q)
{
	twin_fbq_flow_of(fbq, number)->class = q;
	twin_fbq_flow_of(fbq, number)->granted = false;
	twin_fbq_advance(options, fbq, q);
	if (twin_fbq_flow_of(fbq, number)->special != 0)
		twin_fbq_enter_special(options, fbq, number);
	twin_shares_join(fbq, number);
	twin_fbq_limit_flow(options, fbq, number);
	if (twin_fbq_is_grouped(options, twin_fbq_flow_of(fbq, number))) {
		twin_fbq_join_host(options, fbq, held, number);
		twin_fbq_limit_host(options, fbq, number);
	}
	twin_fbq_find_served(options, fbq, number);
	twin_fbq_admit(options, fbq, held, number);
	twin_fbq_note_threshold(fbq, number);
	if (twin_queue_of(held, number)->backlog.packets != 0)
		twin_fbq_key(options, fbq, held, number);
	twin_fbq_choose(options, fbq, held, q, fbq->now);
	twin_fbq_queue_moved(options, fbq, held, number);
	return 0;
}

/* Removes a flow that is in no order and not in the shares from its class. */
TWIN_GLOBAL u32 twin_fbq_take_out(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN,
				  struct twin_held *held TWIN_GIVEN, u32 number)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, flow->class);
	struct twin_queue *queue = twin_queue_of(held, number);

	if (queue->backlog.packets != 0)
		twin_fbq_queues_no_more(class, flow);
	class->minimum -= twin_fbq_minimum(flow);
	if (flow->special != 0) {
		twin_fbq_prefer_no_more(fbq, class, number);
		twin_fbq_wait_no_more(fbq, class, number);
		twin_fbq_forget_threshold(fbq, number);
	}
	twin_fbq_shares_changed(class);
	if (flow->host != TWIN_NONE)
		twin_fbq_leave_host(options, fbq, held, number);
	class->backlog.packets -= queue->backlog.packets;
	class->backlog.bytes -= queue->backlog.bytes;
	return 0;
}

/* Removes a flow from its class, with its queue. */
TWIN_GLOBAL u32 twin_fbq_part(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN,
			      struct twin_held *held TWIN_GIVEN, u32 number)
{
	u32 q = twin_fbq_flow_of(fbq, number)->class;
	bool chosen = twin_fbq_class_of(fbq, q)->has_candidate && twin_fbq_class_of(fbq, q)->candidate == number;

	twin_fbq_advance(options, fbq, q);
	/* If it was the candidate, there is none then. */
	twin_fbq_unkey(options, fbq, held, number);
	twin_shares_leave(fbq, number);
	twin_fbq_take_out(options, fbq, held, number);
	if (chosen)
		twin_fbq_rechoose(options, fbq, held, q, fbq->now, true);
	else
		twin_fbq_choose(options, fbq, held, q, fbq->now);
	twin_fbq_queue_moved(options, fbq, held, number);
	return 0;
}

enum { TWIN_WAITS, TWIN_GRANTED, TWIN_IF_FREE, TWIN_AS_IT_IS };

/* The weight of a flow was `before`: its saved tokens and its debt as of fbq->served are kept. */
TWIN_GLOBAL u32 twin_fbq_keep_tokens(struct twin_fbq *fbq TWIN_GIVEN, u32 number, u64 before)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	u128 virtual_now = fbq->served;
	bool saved = flow->start <= virtual_now;

	fbq->wide = saved ? virtual_now - flow->start : flow->start - virtual_now;
	twin_divide(fbq, flow->weight);
	twin_multiply(fbq, before);
	if (saved)
		flow->start = virtual_now - min_u128(fbq->wide, virtual_now);
	else
		flow->start = virtual_now + fbq->wide < virtual_now ? ~(u128)0 : virtual_now + fbq->wide;
	return 0;
}

/* The same, with its place in the order of thresholds, if it has one. */
TWIN_INLINE void twin_fbq_reweighed(struct twin_fbq *fbq, u32 number, u64 before)
{
	twin_fbq_keep_tokens(fbq, number, before);
	if (twin_node_of(&fbq->orders, TWIN_THRESHOLDS + twin_fbq_flow_of(fbq, number)->special - 1)->rank != 0)
		twin_fbq_note_threshold(fbq, number);
}

/* Sets minimum and preference of a flow that is not in the shares of its class, and whether the former is granted. */
TWIN_GLOBAL u32 twin_fbq_set_terms(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN,
				   struct twin_held *held TWIN_GIVEN, u32 number, u32 granted)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, flow->class);
	struct twin_fbq_special *special = twin_fbq_special_of(fbq, number);
	bool queues = twin_queue_of(held, number)->backlog.packets != 0;

	class->minimum -= twin_fbq_minimum(flow);
	if (queues)
		twin_fbq_queues_no_more(class, flow);
	flow->minimum = fbq->asked;
	flow->granted = granted == TWIN_IF_FREE ? flow->minimum != 0 && flow->minimum <= twin_fbq_unpromised(class)
						: granted == TWIN_GRANTED;
	special->part = twin_fbq_part_of(twin_fbq_params(options, flow->class), special);
	bucket_token_bucket_set_rate(&special->guarantee, twin_fbq_time_of(options, fbq, flow->class, fbq->now), twin_fbq_minimum(flow));
	class->minimum += twin_fbq_minimum(flow);
	if (queues)
		twin_fbq_queues(class, flow);
	if (granted == TWIN_IF_FREE && flow->minimum != 0 && !flow->granted)
		twin_fbq_wait(fbq, class, number);
	return 0;
}

/* The place of a flow among those that are preferred, by its part. */
TWIN_GLOBAL u32 twin_fbq_prefer_again(struct twin_fbq *fbq TWIN_GIVEN, u32 number)
{
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, twin_fbq_flow_of(fbq, number)->class);

	twin_fbq_prefer_no_more(fbq, class, number);
	if (twin_fbq_special_of(fbq, number)->part != 0)
		twin_fbq_prefer(fbq, class, number);
	return 0;
}

/* The same of a flow in its class, with the place of its queue in the orders. */
TWIN_INLINE void twin_fbq_grant_in_place(const struct twin_fbq_options *options, struct twin_fbq *fbq, struct twin_held *held,
					 u32 number, u32 granted)
{
	fbq->before = twin_fbq_flow_of(fbq, number)->weight;
	twin_fbq_advance(options, fbq, twin_fbq_flow_of(fbq, number)->class);
	twin_shares_leave(fbq, number);
	twin_fbq_set_terms(options, fbq, held, number, granted);
	twin_fbq_prefer_again(fbq, number);
	twin_shares_join(fbq, number);
	if (twin_fbq_flow_of(fbq, number)->weight != fbq->before) {
		twin_fbq_host_weighed(fbq, held, number, fbq->before);
		twin_fbq_find_served(options, fbq, number);
		twin_fbq_reweighed(fbq, number, fbq->before);
	}
	twin_fbq_shares_changed(twin_fbq_class_of(fbq, twin_fbq_flow_of(fbq, number)->class));
	if (twin_queue_of(held, number)->backlog.packets != 0)
		twin_fbq_key(options, fbq, held, number);
}

TWIN_GLOBAL u32 twin_fbq_regrant(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN,
				 struct twin_held *held TWIN_GIVEN, u32 number, u32 granted)
{
	twin_fbq_grant_in_place(options, fbq, held, number, granted);
	return 0;
}

/* Grants the minimum of a flow, or takes it back. */
TWIN_INLINE void twin_fbq_grant(const struct twin_fbq_options *options, struct twin_fbq *fbq, struct twin_held *held, u32 number,
				u32 granted)
{
	fbq->asked = twin_fbq_flow_of(fbq, number)->minimum;
	twin_fbq_regrant(options, fbq, held, number, granted);
}

/* Ends an idle flow that is in no class any more. */
TWIN_GLOBAL u32 twin_fbq_end_flow(struct twin_fbq *fbq TWIN_GIVEN, struct twin_held *held TWIN_GIVEN, u32 number)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);

	fbq->carried_by = TWIN_NONE;
	flow->granted = false;
	if (flow->promise != 0)
		fbq->ended[twin_index(fbq->ended_count++, TWIN_FBQ_ENDED)] = flow->promise;
	flow->promise = 0;
	flow->present = false;
	twin_fbq_free_special(fbq, number);
	twin_list_remove(held, &fbq->idle, number);
	twin_forget(held, &held->flows, number);
	fbq->flow_count--;
	return 0;
}

/* Ends the flow that has been idle for the longest time. */
TWIN_INLINE void twin_fbq_forget_oldest(const struct twin_fbq_options *options, struct twin_fbq *fbq, struct twin_held *held)
{
	u32 number = fbq->idle.head;

	twin_fbq_part(options, fbq, held, number);
	twin_fbq_end_flow(fbq, held, number);
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

#endif
