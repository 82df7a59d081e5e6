/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * CBQ: the tree of classes, as the user describes it, and its state. Leaves have the numbers of their classes, and their packets wait in the
 * disciplines of these; inner classes and the root follow from TWIN_CBQ_LEAVES on. cbq.h decides.
 *
 * The core keeps the leaves that may send in heaps. With at most 64 leaves they are sets of bits here: of one level at most one class is
 * above a leaf, so that one set for each level tells which leaves could use the rate of a class there.
 */
#ifndef TWIN_TREE_H
#define TWIN_TREE_H

#include "disciplines.h"

/* Leaves, inner classes with the root, and both, at most: bits of a set, and powers of two. */
#define TWIN_CBQ_LEAVES 64
#define TWIN_CBQ_INNER 64
#define TWIN_CBQ_NODES 128
#define TWIN_CBQ_PRIORITIES 8
/* Levels, from 1 of leaves; a power of two. */
#define TWIN_CBQ_LEVELS 32

/* A class. Sizes in bytes, times in nanoseconds, rates in bit/s, credit in bit ns/s. */
struct twin_cbq_class_options {
	/* The class above it, plus 1; 0 for the root, and for a leaf that is vacant, which a reservation may get. */
	u64 parent;
	u64 level;
	/* 1 where it may use the rate of its parent. */
	u64 borrows;
	/*
	 * The priority of a leaf, and its place in the round, by the order in which leaves were made: a leaf with another place is another
	 * class. Of no meaning for other classes.
	 */
	u64 priority;
	u64 position;
	/* Its limits: `Limits::numbers` of crates/core/src/qdisc/cbq/limits.rs. */
	u64 rate;
	u64 whole_link;
	u64 max_idle;
	u64 min_idle;
	u64 off_time;
	u64 depth_high;
	u64 depth;
	u64 resume_high;
	u64 resume;
};

struct twin_cbq_options {
	u64 link;
	u64 mtu;
	/* 0: formal; 1: by ancestors alone; 2, 3: top-level by the heuristic of 1995 and by that of ALTQ. */
	u64 sharing;
	/* 1 where each class sends one packet in a round. */
	u64 by_packets;
	/* The weight of a packet in an average idle time is 2^-gain; 0 where rates are measured in bytes. */
	u64 gain;
	/* 1 where an average begins at zero. */
	u64 from_zero;
	/* 1 where the under-time is that of the expected finish. */
	u64 expected;
	/* 1 where a class that is regulated sleeps until its own under-time. */
	u64 sleeps;
	/* 0: the link stays idle when no class may send; 1: a class that may borrow sends; 2: it does once the link is idle. */
	u64 conserving;
	/* 1 where the clock of the link is set back; how far it leads at most. */
	u64 resets;
	u64 clock_lead;
	/* How far ahead of the link packets leave, plus 1; 0 for no bound. */
	u64 lead;
	u64 catch_up;
	/* The leaf of packets of no class, plus 1; 0 where they are dropped. */
	u64 fallback;
	/* How many leaves there are, vacant ones among them, and how many other classes, of which the last is the root. */
	u64 leaves;
	u64 inner;
	struct twin_cbq_class_options class[TWIN_CBQ_NODES];
};

/* `Stats` of crates/core/src/qdisc/cbq/state.rs; packets that arrived are counted with the class of the leaf. */
struct twin_cbq_counts {
	qdisc_backlog sent, borrowed, lent, rescued;
	u64 overlimit, regulated;
};

struct twin_cbq_node {
	estimator_estimator estimator;
	u32 parent, level;
	struct twin_cbq_counts counts;
};

struct twin_cbq_leaf {
	cbq_turn turn;
	/* Its allotment in a round, and the version of its ring for which that was computed; 0 for none. */
	s64 allotment;
	u64 allotted_at;
	/* When its queue releases the next packet; TWIN_IDLE where it has none. */
	u64 due;
	u32 priority, position;
};

struct twin_cbq_ring {
	u64 round;
	/* The number of its leaves, the sum of their rates, and the number of changes of these, from 1. */
	u64 leaves, rates, version;
	/* Its leaves. */
	u64 members;
};

struct twin_cbq {
	/* The time of the call. */
	u64 now;
	cbq_params params;
	cbq_link_use link;
	/* No class that is over its limit comes below it before. */
	u64 next_due;
	/*
	 * Leaves whose queues may release a packet; those that sleep while they are over their limits, whatever their ancestors have; those
	 * that may borrow.
	 */
	u64 ready, asleep, borrowers;
	/* Leaves with packets that their queues delay, and a time before which none of them is released. */
	u64 delayed, next_release;
	/* For each level the leaves that could use the rate of a class there, itself or above, since it is not over its limit. */
	u64 lends[TWIN_CBQ_LEVELS];
	/* Inner classes that are not over their limits, and for each inner class the leaves that may borrow from it. */
	u64 below;
	u64 under[TWIN_CBQ_INNER];
	/* The level of top-level sharing, and that of the root. */
	u32 top_level, root_level;
	/* How many leaves there are, and all classes. */
	u32 leaf_count, node_count;
	struct twin_cbq_ring rings[TWIN_CBQ_PRIORITIES];
	struct twin_cbq_leaf leaves[TWIN_CBQ_LEAVES];
	struct twin_cbq_node nodes[TWIN_CBQ_NODES];
	/* Between the two parts of a change of a class: the turns of the leaf that it is. */
	s64 turns;
};

TWIN_INLINE struct twin_cbq_node *twin_cbq_node_of(struct twin_cbq *cbq, u32 node)
{
	return &cbq->nodes[twin_index(node, TWIN_CBQ_NODES)];
}

TWIN_INLINE struct twin_cbq_leaf *twin_cbq_leaf_of(struct twin_cbq *cbq, u32 leaf)
{
	return &cbq->leaves[twin_index(leaf, TWIN_CBQ_LEAVES)];
}

TWIN_INLINE struct twin_cbq_ring *twin_cbq_ring_of(struct twin_cbq *cbq, u32 leaf)
{
	return &cbq->rings[twin_index(twin_cbq_leaf_of(cbq, leaf)->priority, TWIN_CBQ_PRIORITIES)];
}

TWIN_INLINE u64 *twin_cbq_lends_at(struct twin_cbq *cbq, u32 level)
{
	return &cbq->lends[twin_index(level, TWIN_CBQ_LEVELS)];
}

TWIN_INLINE u64 *twin_cbq_under(struct twin_cbq *cbq, u32 node)
{
	return &cbq->under[twin_index(node, TWIN_CBQ_INNER)];
}

TWIN_INLINE const struct twin_cbq_class_options *twin_cbq_class(const struct twin_cbq_options *options, u32 node)
{
	return &options->class[twin_index(node, TWIN_CBQ_NODES)];
}

/* The set of one leaf. */
TWIN_INLINE u64 twin_cbq_bit(u32 leaf)
{
	return 1ull << (leaf & 63);
}

/* The node with this number among all: leaves first. */
TWIN_INLINE u32 twin_cbq_node_at(const struct twin_cbq *cbq, u32 i)
{
	return i < cbq->leaf_count ? i : TWIN_CBQ_LEAVES + i - cbq->leaf_count;
}

/* Whether a leaf has no class. */
TWIN_INLINE bool twin_cbq_is_vacant(const struct twin_cbq_options *options, u32 leaf)
{
	return twin_cbq_class(options, leaf)->parent == 0;
}

/* The leaf of a packet of this class, or TWIN_NONE. */
TWIN_INLINE u32 twin_cbq_leaf_for(const struct twin_cbq_options *options, u32 class)
{
	return class < options->leaves && !twin_cbq_is_vacant(options, class) ? class : (u32)options->fallback - 1;
}

TWIN_INLINE estimator_accounting twin_cbq_accounting(const struct twin_cbq_options *options)
{
	return (estimator_accounting){
		.kind = options->gain != 0 ? ESTIMATOR_ACCOUNTING_IDLE_TIME : ESTIMATOR_ACCOUNTING_BYTES,
		.idle_time_gain = options->gain,
		.idle_time_derivation = options->from_zero == 1 ? ESTIMATOR_DERIVATION_NS2 : ESTIMATOR_DERIVATION_ALTQ,
	};
}

TWIN_INLINE cbq_limits twin_cbq_limits(const struct twin_cbq_options *options, u32 node)
{
	const struct twin_cbq_class_options *class = twin_cbq_class(options, node);

	return (cbq_limits){
		.rate = class->rate,
		.finish = options->expected == 1 ? ESTIMATOR_FINISH_EXPECTED : ESTIMATOR_FINISH_ACTUAL,
		.accounting = twin_cbq_accounting(options),
		.whole_link = class->whole_link == 1,
		.max_idle = (s64)class->max_idle,
		.min_idle = (s64)class->min_idle,
		.off_time = class->off_time,
		.depth = (u128)class->depth_high << 64 | class->depth,
		.resume = (u128)class->resume_high << 64 | class->resume,
	};
}

/* Fills in the parameters of the tree that deciders read. */
TWIN_INLINE void twin_cbq_take_params(const struct twin_cbq_options *options, cbq_params *params)
{
	params->link = options->link;
	params->mtu = options->mtu;
	params->sharing.kind = options->sharing == 0   ? CBQ_SHARING_FORMAL
			       : options->sharing == 1 ? CBQ_SHARING_ANCESTOR_ONLY
						       : CBQ_SHARING_TOP_LEVEL;
	params->sharing.top_level = options->sharing == 3 ? CBQ_HEURISTIC_ALTQ : CBQ_HEURISTIC_FLOYD1995;
	params->general = options->by_packets == 1 ? CBQ_GENERAL_PACKET_ROUND_ROBIN : CBQ_GENERAL_WEIGHTED_ROUND_ROBIN;
	params->accounting = twin_cbq_accounting(options);
	params->regulation = options->sleeps == 1 ? CBQ_REGULATION_SLEEP : CBQ_REGULATION_RECHECK;
	params->conserving = options->conserving == 0	? CBQ_CONSERVING_STRICT
			     : options->conserving == 1 ? CBQ_CONSERVING_EFFICIENT
							: CBQ_CONSERVING_WHEN_LINK_IDLE;
	params->link_clock.kind = options->resets == 1 ? CBQ_LINK_CLOCK_RESET : CBQ_LINK_CLOCK_CLAMP;
	params->link_clock.reset = params->link_clock.clamp = options->clock_lead;
	params->lead.kind = options->lead != 0 ? CBQ_LEAD_WITHIN : CBQ_LEAD_UNBOUNDED;
	params->lead.within = options->lead - 1;
	params->catch_up = options->catch_up;
}

/* Whether there is room for the tree, and it is one: a class is above those with lower levels. */
TWIN_GLOBAL u32 twin_cbq_supports(const struct twin_cbq_options *options TWIN_GIVEN)
{
	u64 root = TWIN_CBQ_LEAVES + options->inner - 1;

	if (options->leaves == 0 || options->leaves > TWIN_CBQ_LEAVES || options->inner == 0 || options->inner > TWIN_CBQ_INNER ||
	    options->fallback > options->leaves || options->gain > 12 || options->link == 0 || options->mtu == 0)
		return false;
	TWIN_FOR(u32, node, 0, TWIN_CBQ_NODES) {
		const struct twin_cbq_class_options *class = twin_cbq_class(options, node);

		if (node < TWIN_CBQ_LEAVES ? node >= options->leaves || twin_cbq_is_vacant(options, node) : node > root)
			continue;
		if (class->rate == 0 || class->level == 0 || class->level >= TWIN_CBQ_LEVELS || class->priority >= TWIN_CBQ_PRIORITIES)
			return false;
		if (node == root ? class->parent != 0
				 : class->parent <= TWIN_CBQ_LEAVES || class->parent - 1 > root ||
					   twin_cbq_class(options, class->parent - 1)->level <= class->level)
			return false;
	}
	return true;
}

#endif
