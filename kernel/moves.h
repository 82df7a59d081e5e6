/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What is done besides packets, a bounded amount in each call, as crates/core/src/qdisc/fbq/control.rs does it: flows end that are
 * idle, preferred ones are weighed again, minimums that wait are granted, flows are displaced to other classes and come back.
 */
#ifndef TWIN_MOVES_H
#define TWIN_MOVES_H

#include "fbq.h"

/* Of a call. */
#define TWIN_FBQ_WEIGHED 4
#define TWIN_FBQ_MOVES 2
/* The shortest time that a flow stays displaced, in ns. It returns when it would get nine eighths of its threshold. */
#define TWIN_FBQ_AWAY_AT_LEAST 1000000000ull

/* The preferred flow whose weight is to be found again; TWIN_NONE for none. */
TWIN_INLINE u32 twin_fbq_next_stale(struct twin_fbq *fbq, struct twin_fbq_class *class)
{
	u32 place = class->preferred;
	u64 key;

	if (class->stale == 0)
		return TWIN_NONE;
	class->stale--;
	if (place == TWIN_NONE)
		return TWIN_NONE;
	key = twin_node_of(&fbq->orders, place)->key;
	class->round = key >> 32;
	class->weighed = key;
	/* It is the last of the next round. */
	twin_order_set(&fbq->orders, &class->preferred, place, ((u64)class->round + 1) << 32 | class->weighed, class->weighed);
	return class->weighed;
}

/* Finds the weight of a preferred flow again, after others joined or left. */
TWIN_GLOBAL u32 twin_fbq_weigh(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN,
			       struct twin_held *held TWIN_GIVEN, u32 number)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, flow->class);
	u64 before = flow->weight, after = twin_shares_weight(fbq, number);

	if (before == after)
		return 0;
	twin_fbq_advance(options, fbq, flow->class);
	twin_filling_leave(fbq, number, TWIN_NOW_SHARED);
	flow->weight = after;
	twin_filling_join(fbq, number, TWIN_NOW_SHARED);
	class->virtual_rest = 0;
	class->unsettled = true;
	twin_fbq_host_weighed(fbq, held, number, before);
	twin_fbq_find_served(options, fbq, number);
	twin_fbq_reweighed(fbq, number, before);
	if (twin_queue_of(held, number)->backlog.packets != 0)
		twin_fbq_key(options, fbq, held, number);
	twin_fbq_choose(options, fbq, held, flow->class, fbq->now);
	return 0;
}

/* Grants the first minimum that waits in an unsettled class, if it fits. Returns whether a candidate is to be chosen then. */
TWIN_GLOBAL u32 twin_fbq_grant_first(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN,
				     struct twin_held *held TWIN_GIVEN, u32 q)
{
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, q);
	u32 first = class->waiting.head;

	if (first == TWIN_NONE)
		return false;
	if (twin_fbq_flow_of(fbq, first)->minimum > twin_fbq_unpromised(class)) {
		class->unsettled = false;
		return false;
	}
	twin_fbq_wait_no_more(fbq, class, first);
	twin_fbq_grant(options, fbq, held, first, TWIN_GRANTED);
	return true;
}

/* Whether a flow would get at least so much in a class, its minimum included. */
TWIN_GLOBAL u32 twin_fbq_has_room(struct twin_fbq *fbq TWIN_GIVEN, u32 number, u32 to, u64 least)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	u64 minimum = flow->granted ? flow->minimum : 0;

	return minimum <= twin_fbq_unpromised(twin_fbq_class_of(fbq, to)) &&
	       max_u64(twin_shares_prospect(fbq, to, twin_filled_weight(fbq, number, TWIN_PLAIN)), minimum) >= least;
}

/* Whether the flow with a place among the thresholds of a class goes to another. */
TWIN_GLOBAL u32 twin_fbq_is_to_go(struct twin_fbq *fbq TWIN_GIVEN, u32 q, u32 place)
{
	struct twin_fbq_special *special = twin_fbq_special_at(fbq, place - TWIN_THRESHOLDS);
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, special->flow);
	struct twin_common common;

	if (place == TWIN_NONE || special->to == 0 || special->to - 1 == q || (flow->granted && flow->minimum >= special->below))
		return false;
	common = twin_common(fbq, q);
	return twin_is_more(special->below, max_u64(common.weight, 1), common.rate, flow->weight) &&
	       twin_fbq_has_room(fbq, special->flow, special->to - 1, special->below);
}

/* The flow of a class that is displaced now, of the two with the largest thresholds by their weights; TWIN_NONE for none. */
TWIN_INLINE u32 twin_fbq_mover(struct twin_fbq *fbq, u32 q)
{
	u32 first = twin_fbq_class_of(fbq, q)->thresholds, left, right;
	struct twin_node *node = twin_node_of(&fbq->orders, first), *a, *b;

	if (first == TWIN_NONE || (fbq->free_away == TWIN_NONE && fbq->used_away == TWIN_FBQ_AWAY))
		return TWIN_NONE;
	if (!twin_fbq_is_to_go(fbq, q, first)) {
		left = node->left;
		right = node->right;
		a = twin_node_of(&fbq->orders, left);
		b = twin_node_of(&fbq->orders, right);
		/* There is no right one without a left one. */
		if (right != TWIN_NONE && (b->key < a->key || (b->key == a->key && b->tie < a->tie)))
			left = right;
		first = left;
		if (!twin_fbq_is_to_go(fbq, q, first))
			return TWIN_NONE;
	}
	return twin_fbq_special_at(fbq, first - TWIN_THRESHOLDS)->flow;
}

/* Notes that a flow was displaced from a class. */
TWIN_INLINE void twin_fbq_note_away(struct twin_fbq *fbq, u32 q, u64 key)
{
	struct twin_list *list = &twin_fbq_class_of(fbq, q)->away;
	u32 place = fbq->free_away;

	if (place != TWIN_NONE)
		fbq->free_away = fbq->away[twin_index(place, TWIN_FBQ_AWAY)].next;
	else
		place = fbq->used_away++;
	fbq->away[twin_index(place, TWIN_FBQ_AWAY)] = (struct twin_fbq_away){ .key = key, .next = TWIN_NONE };
	if (list->tail == TWIN_NONE)
		list->head = place;
	else
		fbq->away[twin_index(list->tail, TWIN_FBQ_AWAY)].next = place;
	list->tail = place;
}

TWIN_INLINE void twin_fbq_forget_away(struct twin_fbq *fbq, u32 q)
{
	struct twin_list *list = &twin_fbq_class_of(fbq, q)->away;
	u32 place = list->head;

	list->head = fbq->away[twin_index(place, TWIN_FBQ_AWAY)].next;
	if (list->head == TWIN_NONE)
		list->tail = TWIN_NONE;
	fbq->away[twin_index(place, TWIN_FBQ_AWAY)].next = fbq->free_away;
	fbq->free_away = place;
}

/* Moves a flow with its queue to another class. */
TWIN_INLINE void twin_fbq_transfer(const struct twin_fbq_options *options, struct twin_fbq *fbq, struct twin_held *held, u32 number,
				   u32 to)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);

	if (flow->class == to)
		return;
	twin_fbq_part(options, fbq, held, number);
	if (flow->special != 0)
		twin_fbq_special_of(fbq, number)->moved = fbq->now;
	twin_fbq_join(options, fbq, held, number, to);
}

/* The flow that was displaced from a class first, if it returns now; TWIN_NONE for none. */
TWIN_GLOBAL u32 twin_fbq_returner(struct twin_fbq *fbq TWIN_GIVEN, struct twin_held *held TWIN_GIVEN, u32 q)
{
	u32 first = twin_fbq_class_of(fbq, q)->away.head, number;
	struct twin_fbq_flow *flow;
	u64 below = 0, moved = 0;

	number = twin_find(held, &held->flows, fbq->away[twin_index(first, TWIN_FBQ_AWAY)].key);
	flow = twin_fbq_flow_of(fbq, number);
	if (number == TWIN_NONE || flow->home != q || flow->class == q) {
		/* It ended, or has another class now. */
		twin_fbq_forget_away(fbq, q);
		return TWIN_NONE;
	}
	if (flow->special != 0) {
		moved = twin_fbq_special_of(fbq, number)->moved;
		if (twin_fbq_special_of(fbq, number)->to != 0)
			below = twin_fbq_special_of(fbq, number)->below;
	}
	if (saturating_sub_u64(fbq->now, moved) < TWIN_FBQ_AWAY_AT_LEAST ||
	    !twin_fbq_has_room(fbq, number, q, saturating_mul_u64(below, 9) / 8))
		return TWIN_NONE;
	twin_fbq_forget_away(fbq, q);
	return number;
}

/* Whether there may be something to do in a class. */
TWIN_INLINE bool twin_fbq_is_restless(const struct twin_fbq_class *class)
{
	return class->unsettled || class->stale != 0 || class->thresholds != TWIN_NONE || class->away.head != TWIN_NONE;
}

/* Does what is to be done in a class. */
TWIN_INLINE void twin_fbq_visit(const struct twin_fbq_options *options, struct twin_fbq *fbq, struct twin_held *held, u32 q)
{
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, q);
	u32 number;

	if (!twin_fbq_is_restless(class))
		return;
	TWIN_FOR(u32, i, 0, TWIN_FBQ_WEIGHED) {
		number = twin_fbq_next_stale(fbq, class);
		if (number == TWIN_NONE)
			break;
		twin_fbq_weigh(options, fbq, held, number);
	}
	if (class->unsettled && twin_fbq_grant_first(options, fbq, held, q))
		twin_fbq_choose(options, fbq, held, q, fbq->now);
	if (class->thresholds != TWIN_NONE) {
		TWIN_FOR(u32, move, 0, TWIN_FBQ_MOVES) {
			number = twin_fbq_mover(fbq, q);
			if (number == TWIN_NONE)
				break;
			twin_fbq_transfer(options, fbq, held, number, twin_fbq_special_of(fbq, number)->to - 1);
			twin_fbq_note_away(fbq, q, twin_queue_of(held, number)->key);
		}
	}
	if (class->away.head != TWIN_NONE) {
		number = twin_fbq_returner(fbq, held, q);
		if (number != TWIN_NONE)
			twin_fbq_transfer(options, fbq, held, number, q);
	}
	if (class->waiting.head == TWIN_NONE)
		class->unsettled = false;
}

/* The part of a call that is done after its packet; touched: the class of the flow of one that has arrived. */
TWIN_INLINE void twin_fbq_tidy(const struct twin_fbq_options *options, struct twin_fbq *fbq, struct twin_held *held, u32 touched)
{
	if (twin_fbq_is_over(options, fbq)) {
		twin_fbq_forget_oldest(options, fbq, held);
		if (twin_fbq_is_over(options, fbq))
			twin_fbq_forget_oldest(options, fbq, held);
	}
	fbq->cursor = twin_fbq_next_visited(options, fbq);
	TWIN_FOR(u32, i, 0, 2) {
		u32 q = i == 0 ? touched : fbq->cursor;

		if (q != TWIN_NONE)
			twin_fbq_visit(options, fbq, held, q);
	}
}

#endif
