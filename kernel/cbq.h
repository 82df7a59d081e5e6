/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * CBQ: which class sends next, and when: what crates/core/src/qdisc/cbq has with heaps, by the sets of tree.h. Whether a class is over its
 * limit, the clock of the link, turns and the levels that may lend are decided by the core's deciders. A packet is queued by the
 * discipline of its class, and the chassis tells here what became of that queue.
 */
#ifndef TWIN_CBQ_H
#define TWIN_CBQ_H

#include "tree.h"

/* Puts a class among those that are over their limits, or among the others, by its under-time. */
TWIN_INLINE void twin_cbq_place(struct twin_cbq *cbq, u32 node)
{
	const struct twin_cbq_node *of = twin_cbq_node_of(cbq, node);
	u64 due = of->estimator.under_time, bit = twin_cbq_bit(node);
	bool is_below = due <= cbq->now;

	if (!is_below)
		cbq->next_due = min_u64(cbq->next_due, due);
	if (node < TWIN_CBQ_LEAVES) {
		u64 *below = twin_cbq_lends_at(cbq, 1);

		*below = is_below ? *below | bit : *below & ~bit;
	} else if (is_below != ((cbq->below & bit) != 0)) {
		cbq->below ^= bit;
		*twin_cbq_lends_at(cbq, of->level) ^= *twin_cbq_under(cbq, node);
	}
}

TWIN_GLOBAL u32 twin_cbq_release(struct twin_cbq *cbq TWIN_GIVEN);

/* Classes come below their limits by this time, and queues that delay packets release them. The time does not run back. */
TWIN_GLOBAL u32 twin_cbq_advance(struct twin_cbq *cbq TWIN_GIVEN, u64 now)
{
	cbq->now = max_u64(cbq->now, now);
	if (cbq->now >= cbq->next_release)
		twin_cbq_release(cbq);
	if (cbq->now < cbq->next_due)
		return 0;
	cbq->next_due = U64_MAX;
	TWIN_FOR(u32, i, 0, TWIN_CBQ_NODES) {
		if (i >= cbq->node_count)
			break;
		twin_cbq_place(cbq, twin_cbq_node_at(cbq, i));
	}
	return 0;
}

/* Leaves over their limits that may send by the rate of others. */
TWIN_INLINE u64 twin_cbq_borrowing(struct twin_cbq *cbq)
{
	return cbq->ready & ~cbq->asleep & ~*twin_cbq_lends_at(cbq, 1);
}

/* Leaves that may send by the rate of classes of a level. */
TWIN_INLINE u64 twin_cbq_open(struct twin_cbq *cbq, u32 level)
{
	return *twin_cbq_lends_at(cbq, level) & (level == 1 ? cbq->ready : twin_cbq_borrowing(cbq));
}

/* The lowest level at which a leaf may send, or 0. */
TWIN_GLOBAL u32 twin_cbq_lowest(struct twin_cbq *cbq TWIN_GIVEN)
{
	if (cbq->ready == 0)
		return 0;
	for (u32 level = 1; level < TWIN_CBQ_LEVELS; level++) {
		if (level > cbq->root_level)
			break;
		if (twin_cbq_open(cbq, level) != 0)
			return level;
	}
	return 0;
}

/* The level of the lowest class that is not over its limit, among a leaf and those that it may borrow from, or 0. */
TWIN_GLOBAL u32 twin_cbq_lender(struct twin_cbq *cbq TWIN_GIVEN, u32 leaf)
{
	u64 bit = twin_cbq_bit(leaf);

	for (u32 level = 1; level < TWIN_CBQ_LEVELS; level++) {
		if (level > cbq->root_level)
			break;
		if (*twin_cbq_lends_at(cbq, level) & bit)
			return level;
	}
	return 0;
}

TWIN_INLINE option_u8 twin_cbq_level(u32 level)
{
	return (option_u8){ .some = level != 0, .value = level };
}

/* Leaves that may send although no class has rate left. */
TWIN_INLINE u64 twin_cbq_rescued(struct twin_cbq *cbq)
{
	return cbq->ready & cbq->borrowers & ~*twin_cbq_lends_at(cbq, 1);
}

/* To be called at the end of each call. */
TWIN_INLINE void twin_cbq_reset_if_none_may_send(struct twin_cbq *cbq)
{
	option_units_instant from;

	if (cbq->params.sharing.kind != CBQ_SHARING_TOP_LEVEL || twin_cbq_lowest(cbq) != 0)
		return;
	from = cbq_link_use_rescue_from(&cbq->link, &cbq->params, cbq->now);
	if (!from.some || from.value > cbq->now || twin_cbq_rescued(cbq) == 0)
		cbq->top_level = cbq_highest();
}

/* Computes the allotment of a leaf in a round. */
TWIN_GLOBAL u32 twin_cbq_find_allotment(struct twin_cbq *cbq TWIN_GIVEN, u32 number)
{
	struct twin_cbq_leaf *leaf = twin_cbq_leaf_of(cbq, number);
	const struct twin_cbq_ring *ring = twin_cbq_ring_of(cbq, number);
	u64 rate = twin_cbq_node_of(cbq, number)->estimator.limits.rate;

	leaf->allotment = cbq_allotment(cbq->params.mtu, ring->leaves, ring->rates, rate);
	leaf->allotted_at = ring->version;
	return 0;
}

TWIN_INLINE s64 twin_cbq_allotment(struct twin_cbq *cbq, u32 number)
{
	struct twin_cbq_leaf *leaf = twin_cbq_leaf_of(cbq, number);

	if (leaf->allotted_at != twin_cbq_ring_of(cbq, number)->version)
		twin_cbq_find_allotment(cbq, number);
	return leaf->allotment;
}

TWIN_INLINE void twin_cbq_catch_up(struct twin_cbq *cbq, u32 leaf)
{
	cbq_turn_catch_up(&twin_cbq_leaf_of(cbq, leaf)->turn, twin_cbq_ring_of(cbq, leaf)->round, twin_cbq_allotment(cbq, leaf));
}

/* The queue of a leaf releases its next packet at `due`; TWIN_IDLE: it has none. */
TWIN_INLINE void twin_cbq_set_due(struct twin_cbq *cbq, u32 leaf, u64 due)
{
	u64 bit = twin_cbq_bit(leaf);
	bool ready = due <= cbq->now;

	twin_cbq_leaf_of(cbq, leaf)->due = due;
	if (ready || due == TWIN_IDLE) {
		cbq->delayed &= ~bit;
	} else {
		cbq->delayed |= bit;
		cbq->next_release = min_u64(cbq->next_release, due);
	}
	if (((cbq->ready & bit) != 0) == ready)
		return;
	if (ready)
		twin_cbq_catch_up(cbq, leaf);
	cbq->ready ^= bit;
}

/* The same for a leaf whose queue has lost packets without sending one, or has other packets. */
TWIN_GLOBAL u32 twin_cbq_refresh(struct twin_cbq *cbq TWIN_GIVEN, u32 leaf, u64 due)
{
	twin_cbq_set_due(cbq, leaf, due);
	return 0;
}

/* Queues that delay packets release those of which it is time. */
TWIN_GLOBAL u32 twin_cbq_release(struct twin_cbq *cbq TWIN_GIVEN)
{
	u64 of = cbq->delayed;

	cbq->next_release = U64_MAX;
	TWIN_FOR(u32, leaf, 0, TWIN_CBQ_LEAVES) {
		if (of & twin_cbq_bit(leaf))
			twin_cbq_set_due(cbq, leaf, twin_cbq_leaf_of(cbq, leaf)->due);
	}
	return 0;
}

/* Regulates a leaf with packets that is over its limit and may not borrow. */
TWIN_GLOBAL u32 twin_cbq_regulate_if_stuck(struct twin_cbq *cbq TWIN_GIVEN, u32 leaf)
{
	if (twin_cbq_lender(cbq, leaf) != 0)
		return 0;
	if (!estimator_estimator_regulate(&twin_cbq_node_of(cbq, leaf)->estimator))
		return 0;
	twin_cbq_node_of(cbq, leaf)->counts.regulated++;
	twin_cbq_place(cbq, leaf);
	if (cbq->params.regulation == CBQ_REGULATION_SLEEP)
		cbq->asleep |= twin_cbq_bit(leaf);
	return 0;
}

/* A packet is about to arrive, while `waiting` packets of all classes wait. */
TWIN_INLINE void twin_cbq_arrives(struct twin_cbq *cbq, u64 now, u64 waiting)
{
	twin_cbq_advance(cbq, now);
	/* Time before a packet was queued is not made up for. */
	if (waiting == 0)
		cbq_link_use_idle_until(&cbq->link, cbq->now);
}

/* The packet has arrived for a leaf, whose queue had `before` packets and has `after`, of which it releases the next at `due`. */
TWIN_GLOBAL u32 twin_cbq_arrived(struct twin_cbq *cbq TWIN_GIVEN, u32 leaf, u64 before, u64 after, u64 due)
{
	if (cbq->params.sharing.kind == CBQ_SHARING_TOP_LEVEL)
		cbq->top_level = cbq_sharing_level_on_arrival(cbq->params.sharing, cbq->top_level,
							      twin_cbq_level(twin_cbq_lender(cbq, leaf)));
	twin_cbq_set_due(cbq, leaf, due);
	if (before == 0 && after != 0)
		twin_cbq_regulate_if_stuck(cbq, leaf);
	twin_cbq_reset_if_none_may_send(cbq);
	return 0;
}

/* The leaf of a set whose turn is next, of those with the best priority. It looks at each leaf of them once. */
TWIN_GLOBAL u32 twin_cbq_first_of(struct twin_cbq *cbq TWIN_GIVEN, u64 set)
{
	u32 first = TWIN_NONE, position = 0;
	u64 round = U64_MAX, of = set;

	for (u32 priority = 0; priority < TWIN_CBQ_PRIORITIES; priority++) {
		of = set & cbq->rings[priority].members;
		if (of != 0)
			break;
	}
	for (u32 i = 0; i < TWIN_CBQ_LEAVES; i++, of >>= 1) {
		const struct twin_cbq_leaf *leaf = &cbq->leaves[i];

		if (of == 0)
			break;
		if ((of & 1) == 0 || leaf->turn.round > round || (leaf->turn.round == round && leaf->position > position))
			continue;
		first = i;
		round = leaf->turn.round;
		position = leaf->position;
	}
	return first;
}

/* The leaves among which the next is, of the levels that may lend, of which `lowest` is the lowest. */
TWIN_GLOBAL u64 twin_cbq_allowed(struct twin_cbq *cbq TWIN_GIVEN, u32 lowest)
{
	u32 highest;
	u64 allowed = 0;

	cbq->top_level = cbq_sharing_level_to_send(cbq->params.sharing, cbq->top_level, lowest);
	highest = cbq_sharing_highest(cbq->params.sharing, cbq->top_level, lowest);
	for (u32 level = 1; level < TWIN_CBQ_LEVELS; level++) {
		if (level > highest || level > cbq->root_level)
			break;
		allowed |= twin_cbq_open(cbq, level);
	}
	return allowed;
}

/* The leaf that sends next; TWIN_NONE where none may. always: one that has packets. */
TWIN_GLOBAL u32 twin_cbq_pick(struct twin_cbq *cbq TWIN_GIVEN, u64 always)
{
	option_units_instant from;
	u32 lowest;

	if (always)
		return twin_cbq_first_of(cbq, cbq->ready | cbq->delayed);
	if (cbq->ready == 0 || cbq_link_use_earliest_release(&cbq->link, &cbq->params) > cbq->now)
		return TWIN_NONE;
	lowest = twin_cbq_lowest(cbq);
	if (lowest != 0)
		return twin_cbq_first_of(cbq, twin_cbq_allowed(cbq, lowest));
	from = cbq_link_use_rescue_from(&cbq->link, &cbq->params, cbq->now);
	if (!from.some || from.value > cbq->now)
		return TWIN_NONE;
	return twin_cbq_first_of(cbq, twin_cbq_rescued(cbq));
}

/* Charges a class for a packet. by_right: the class has used its own rate. */
TWIN_GLOBAL u32 twin_cbq_charge(struct twin_cbq *cbq TWIN_GIVEN, u32 node, u64 size, u64 finish, u64 by_right)
{
	struct twin_cbq_node *of = twin_cbq_node_of(cbq, node);

	estimator_estimator_charge(&of->estimator,
				   (estimator_sent){ .now = cbq->now, .finish = finish, .size = size, .by_right = by_right != 0 });
	qdisc_backlog_add(&of->counts.sent, size);
	of->counts.overlimit += of->estimator.under_time > cbq->now;
	twin_cbq_place(cbq, node);
	return 0;
}

/* Counts whose rate a packet has used: that of `lender`, the leaf itself or a class above it, or that of no class. */
TWIN_GLOBAL u32 twin_cbq_count(struct twin_cbq *cbq TWIN_GIVEN, u32 leaf, u32 lender, u64 size)
{
	struct twin_cbq_counts *counts = &twin_cbq_node_of(cbq, leaf)->counts;

	if (lender == TWIN_NONE) {
		qdisc_backlog_add(&counts->rescued, size);
	} else if (lender != leaf) {
		qdisc_backlog_add(&counts->borrowed, size);
		qdisc_backlog_add(&twin_cbq_node_of(cbq, lender)->counts.lent, size);
	}
	return 0;
}

/* Subtracts a packet from the turn of the leaf that sends it. */
TWIN_GLOBAL u32 twin_cbq_take_turn(struct twin_cbq *cbq TWIN_GIVEN, u32 number, u64 size)
{
	struct twin_cbq_leaf *leaf = twin_cbq_leaf_of(cbq, number);
	struct twin_cbq_ring *ring = twin_cbq_ring_of(cbq, number);

	twin_cbq_catch_up(cbq, number);
	ring->round = leaf->turn.round;
	cbq_turn_take(&leaf->turn, cbq->params.general, leaf->allotment, size);
	return 0;
}

/* Charges the link for a packet; returns when it is expected to have left it. */
TWIN_GLOBAL u64 twin_cbq_tick(struct twin_cbq *cbq TWIN_GIVEN, u64 size)
{
	return cbq_link_use_tick(&cbq->link, &cbq->params, cbq->now, size);
}

/* A leaf has sent a packet of this size, and has `left` packets more, of which its queue releases the next at `due`. */
TWIN_GLOBAL u32 twin_cbq_serve(struct twin_cbq *cbq TWIN_GIVEN, u32 leaf, u64 size, u64 left, u64 due)
{
	u32 level = twin_cbq_lender(cbq, leaf), lender = TWIN_NONE, node = leaf;
	u64 finish;

	twin_cbq_take_turn(cbq, leaf, size);
	/* Ends the suspension of a leaf that sent because no class could. */
	cbq->asleep &= ~twin_cbq_bit(leaf);
	twin_cbq_set_due(cbq, leaf, due);
	finish = twin_cbq_tick(cbq, size);
	TWIN_FOR(u32, up, 0, TWIN_CBQ_LEVELS) {
		if (twin_cbq_node_of(cbq, node)->level == level)
			lender = node;
		twin_cbq_charge(cbq, node, size, finish, lender != TWIN_NONE);
		node = twin_cbq_node_of(cbq, node)->parent;
		if (node == TWIN_NONE)
			break;
	}
	twin_cbq_count(cbq, leaf, lender, size);
	if (left != 0)
		twin_cbq_regulate_if_stuck(cbq, leaf);
	if (cbq->params.sharing.kind == CBQ_SHARING_TOP_LEVEL)
		cbq->top_level = cbq_sharing_level_once_sent(cbq->params.sharing, cbq->top_level, due <= cbq->now,
							     twin_cbq_level(twin_cbq_lender(cbq, leaf)));
	twin_cbq_reset_if_none_may_send(cbq);
	return 0;
}

/* The under-time of a class by which a leaf may send; U64_MAX where none waits for it. All that wait are over their limits. */
TWIN_INLINE u64 twin_cbq_awaited(struct twin_cbq *cbq, u32 node)
{
	u64 waits = node < TWIN_CBQ_LEAVES ? cbq->ready & twin_cbq_bit(node) : *twin_cbq_under(cbq, node) & twin_cbq_borrowing(cbq);

	return waits != 0 ? twin_cbq_node_of(cbq, node)->estimator.under_time : U64_MAX;
}

/* When the limits of a leaf, and of those that it may borrow from, allow it to send. */
TWIN_GLOBAL u64 twin_cbq_permitted_at(struct twin_cbq *cbq TWIN_GIVEN, u32 leaf)
{
	u64 bit = twin_cbq_bit(leaf), at = twin_cbq_node_of(cbq, leaf)->estimator.under_time;
	u32 node = leaf;

	if (cbq->asleep & bit)
		return at;
	TWIN_FOR(u32, up, 0, TWIN_CBQ_LEVELS) {
		node = twin_cbq_node_of(cbq, node)->parent;
		if (node == TWIN_NONE || (*twin_cbq_under(cbq, node) & bit) == 0)
			break;
		at = min_u64(at, twin_cbq_node_of(cbq, node)->estimator.under_time);
	}
	return at;
}

/* When the first of the leaves may send whose queues delay their packets. rescue: when one that may borrow does although no class has rate. */
TWIN_GLOBAL u64 twin_cbq_first_delayed(struct twin_cbq *cbq TWIN_GIVEN, u64 rescue)
{
	u64 first = U64_MAX;

	TWIN_FOR(u32, leaf, 0, TWIN_CBQ_LEAVES) {
		u64 at;

		if ((cbq->delayed & twin_cbq_bit(leaf)) == 0)
			continue;
		at = twin_cbq_permitted_at(cbq, leaf);
		if (cbq->borrowers & twin_cbq_bit(leaf))
			at = min_u64(at, rescue);
		first = min_u64(first, max_u64(at, twin_cbq_leaf_of(cbq, leaf)->due));
	}
	return first;
}

/* When the next packet may leave. */
TWIN_GLOBAL u64 twin_cbq_deadline(struct twin_cbq *cbq TWIN_GIVEN, u64 now)
{
	option_units_instant from;
	u64 due = U64_MAX;

	now = max_u64(cbq->now, now);
	if ((cbq->ready | cbq->delayed) == 0)
		return TWIN_IDLE;
	from = cbq_link_use_rescue_from(&cbq->link, &cbq->params, now);
	if (twin_cbq_lowest(cbq) != 0) {
		due = now;
	} else {
		TWIN_FOR(u32, i, 0, TWIN_CBQ_NODES) {
			if (i >= cbq->node_count)
				break;
			due = min_u64(due, twin_cbq_awaited(cbq, twin_cbq_node_at(cbq, i)));
		}
		if (from.some && twin_cbq_rescued(cbq) != 0)
			due = min_u64(due, from.value);
	}
	if (cbq->delayed != 0)
		due = min_u64(due, twin_cbq_first_delayed(cbq, from.some ? from.value : U64_MAX));
	if (due == U64_MAX)
		return TWIN_IDLE;
	due = max_u64(due, cbq_link_use_earliest_release(&cbq->link, &cbq->params));
	return due <= now ? TWIN_NOW : due;
}

#endif
