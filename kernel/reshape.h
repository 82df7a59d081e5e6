/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* CBQ: the tree begins, and its classes change while packets wait, as crates/core/src/qdisc/cbq/tree.rs does it. */
#ifndef TWIN_RESHAPE_H
#define TWIN_RESHAPE_H

#include "cbq.h"

/* A leaf is no longer among those of its priority. */
TWIN_INLINE void twin_cbq_leave(struct twin_cbq *cbq, u32 leaf)
{
	struct twin_cbq_ring *ring = twin_cbq_ring_of(cbq, leaf);
	u64 bit = twin_cbq_bit(leaf);

	cbq->ready &= ~bit;
	cbq->delayed &= ~bit;
	cbq->asleep &= ~bit;
	ring->members &= ~bit;
	ring->version++;
	ring->leaves--;
	ring->rates -= twin_cbq_node_of(cbq, leaf)->estimator.limits.rate;
}

TWIN_INLINE void twin_cbq_join(struct twin_cbq *cbq, u32 leaf)
{
	struct twin_cbq_ring *ring = twin_cbq_ring_of(cbq, leaf);

	/* The allotment was computed for a version of a ring, which may have been another ring. */
	twin_cbq_leaf_of(cbq, leaf)->allotted_at = 0;
	ring->members |= twin_cbq_bit(leaf);
	ring->version++;
	ring->leaves++;
	ring->rates = saturating_add_u64(ring->rates, twin_cbq_node_of(cbq, leaf)->estimator.limits.rate);
}

/* Finds from which classes a leaf may borrow. */
TWIN_GLOBAL u32 twin_cbq_find_lenders(const struct twin_cbq_options *options TWIN_GIVEN, struct twin_cbq *cbq TWIN_GIVEN, u32 leaf)
{
	u64 bit = twin_cbq_bit(leaf);
	u32 node = leaf;

	TWIN_FOR(u32, up, 0, TWIN_CBQ_LEVELS) {
		if (twin_cbq_class(options, node)->borrows != 1 || twin_cbq_node_of(cbq, node)->parent == TWIN_NONE)
			break;
		node = twin_cbq_node_of(cbq, node)->parent;
		*twin_cbq_under(cbq, node) |= bit;
		cbq->borrowers |= bit;
	}
	return 0;
}

/* Finds from which classes each leaf may borrow, and which classes may lend now. */
TWIN_GLOBAL u32 twin_cbq_find_all_lenders(const struct twin_cbq_options *options TWIN_GIVEN, struct twin_cbq *cbq TWIN_GIVEN)
{
	cbq->borrowers = cbq->below = 0;
	cbq->next_due = U64_MAX;
	TWIN_FOR(u32, i, 0, TWIN_CBQ_INNER) {
		*twin_cbq_under(cbq, i) = 0;
	}
	TWIN_FOR(u32, level, 0, TWIN_CBQ_LEVELS) {
		*twin_cbq_lends_at(cbq, level) = 0;
	}
	TWIN_FOR(u32, leaf, 0, TWIN_CBQ_LEAVES) {
		if (leaf < cbq->leaf_count)
			twin_cbq_find_lenders(options, cbq, leaf);
	}
	TWIN_FOR(u32, n, 0, TWIN_CBQ_NODES) {
		if (n < cbq->node_count)
			twin_cbq_place(cbq, twin_cbq_node_at(cbq, n));
	}
	return 0;
}

/* Sets what changes of a class: its limits, and the priority of a leaf. */
TWIN_GLOBAL u32 twin_cbq_take_class(const struct twin_cbq_options *options TWIN_GIVEN, struct twin_cbq *cbq TWIN_GIVEN, u32 node)
{
	if (node < TWIN_CBQ_LEAVES)
		twin_cbq_leaf_of(cbq, node)->priority = twin_cbq_class(options, node)->priority;
	estimator_estimator_set_limits(&twin_cbq_node_of(cbq, node)->estimator, twin_cbq_limits(options, node), cbq->now);
	return 0;
}

/* A class of a tree begins; a leaf that is vacant is in no round. */
TWIN_GLOBAL u32 twin_cbq_begin_class(const struct twin_cbq_options *options TWIN_GIVEN, struct twin_cbq *cbq TWIN_GIVEN, u32 number)
{
	const struct twin_cbq_class_options *class = twin_cbq_class(options, number);
	struct twin_cbq_node *node = twin_cbq_node_of(cbq, number);

	node->estimator = estimator_estimator_new(twin_cbq_limits(options, number), cbq->now);
	node->parent = (u32)class->parent - 1;
	node->level = class->level;
	node->counts = (struct twin_cbq_counts){0};
	if (number < TWIN_CBQ_LEAVES) {
		*twin_cbq_leaf_of(cbq, number) =
			(struct twin_cbq_leaf){ .priority = class->priority, .position = class->position, .due = TWIN_IDLE };
		if (!twin_cbq_is_vacant(options, number))
			twin_cbq_join(cbq, number);
	}
	return 0;
}

/* The tree without packets, at the time of the last call. The link keeps its clock. */
TWIN_GLOBAL u32 twin_cbq_begin(const struct twin_cbq_options *options TWIN_GIVEN, struct twin_cbq *cbq TWIN_GIVEN)
{
	twin_cbq_take_params(options, &cbq->params);
	cbq->ready = cbq->asleep = cbq->delayed = 0;
	cbq->next_release = U64_MAX;
	cbq->leaf_count = options->leaves;
	cbq->node_count = options->leaves + options->inner;
	cbq->top_level = cbq_highest();
	cbq->root_level = twin_cbq_class(options, TWIN_CBQ_LEAVES + options->inner - 1)->level;
	TWIN_FOR(u32, priority, 0, TWIN_CBQ_PRIORITIES) {
		cbq->rings[twin_index(priority, TWIN_CBQ_PRIORITIES)] = (struct twin_cbq_ring){ .version = 1 };
	}
	TWIN_FOR(u32, i, 0, TWIN_CBQ_NODES) {
		if (i < cbq->node_count)
			twin_cbq_begin_class(options, cbq, twin_cbq_node_at(cbq, i));
	}
	twin_cbq_find_all_lenders(options, cbq);
	return 0;
}

/* Whether a leaf is a class or below it. */
TWIN_GLOBAL u32 twin_cbq_is_in(struct twin_cbq *cbq TWIN_GIVEN, u32 leaf, u32 node)
{
	u32 at = leaf;

	TWIN_FOR(u32, up, 0, TWIN_CBQ_LEVELS) {
		if (at == node || at == TWIN_NONE)
			break;
		at = twin_cbq_node_of(cbq, at)->parent;
	}
	return at == node;
}

/* Puts a leaf among those whose queues have packets again, if its own has: its class has changed, or one above it. */
TWIN_GLOBAL u32 twin_cbq_rejoin(struct twin_cbq *cbq TWIN_GIVEN, u32 leaf, u64 is_it)
{
	struct twin_cbq_leaf *of = twin_cbq_leaf_of(cbq, leaf);

	/* A deficit counted in rounds of another priority or turns of another rate does not apply. */
	if (is_it)
		cbq_turn_set(&of->turn, cbq->params.general, twin_cbq_ring_of(cbq, leaf)->round, twin_cbq_allotment(cbq, leaf),
			     cbq->turns);
	twin_cbq_set_due(cbq, leaf, of->due);
	return 0;
}

/* The leaves of a class that changes are in no round meanwhile. */
TWIN_GLOBAL u32 twin_cbq_begin_change(struct twin_cbq *cbq TWIN_GIVEN, u32 node)
{
	if (node < TWIN_CBQ_LEAVES)
		cbq->turns = cbq_turn_turns(&twin_cbq_leaf_of(cbq, node)->turn, cbq->params.general, twin_cbq_ring_of(cbq, node)->round,
					    twin_cbq_allotment(cbq, node));
	TWIN_FOR(u32, leaf, 0, TWIN_CBQ_LEAVES) {
		if (leaf < cbq->leaf_count && twin_cbq_is_in(cbq, leaf, node))
			twin_cbq_leave(cbq, leaf);
	}
	return 0;
}

/* They are among the others again: allotments depend on all leaves of a priority. */
TWIN_GLOBAL u32 twin_cbq_join_again(struct twin_cbq *cbq TWIN_GIVEN, u32 node)
{
	TWIN_FOR(u32, leaf, 0, TWIN_CBQ_LEAVES) {
		if (leaf < cbq->leaf_count && twin_cbq_is_in(cbq, leaf, node))
			twin_cbq_join(cbq, leaf);
	}
	return 0;
}

/* Changes a class, of which the options have all but the place in the tree. The leaves below it keep their packets. */
TWIN_INLINE void twin_cbq_change(const struct twin_cbq_options *options, struct twin_cbq *cbq, u64 now, u32 node)
{
	twin_cbq_advance(cbq, now);
	twin_cbq_begin_change(cbq, node);
	twin_cbq_take_class(options, cbq, node);
	twin_cbq_join_again(cbq, node);
	TWIN_FOR(u32, leaf, 0, TWIN_CBQ_LEAVES) {
		if (leaf < cbq->leaf_count && twin_cbq_is_in(cbq, leaf, node))
			twin_cbq_rejoin(cbq, leaf, leaf == node);
	}
	twin_cbq_find_all_lenders(options, cbq);
}

/*
 * A leaf has another class from now on, or none: a reservation is made or ends. Packets of the class before are to be taken out of its
 * queue. No other class changes its average or its turn.
 */
TWIN_GLOBAL u32 twin_cbq_replace(const struct twin_cbq_options *options TWIN_GIVEN, struct twin_cbq *cbq TWIN_GIVEN, u64 now, u32 leaf)
{
	twin_cbq_advance(cbq, now);
	if (twin_cbq_node_of(cbq, leaf)->parent != TWIN_NONE) {
		twin_cbq_leave(cbq, leaf);
		cbq->top_level = cbq_highest();
	}
	twin_cbq_begin_class(options, cbq, leaf);
	twin_cbq_find_all_lenders(options, cbq);
	return 0;
}

#endif
