/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Rate that classes lend to strict classes that borrow, as crates/core/src/qdisc/fbq/lending.rs has it: the times of the latter are
 * those of a clock that runs faster while rate is lent. A part of fbq.h.
 */
#ifndef TWIN_LENDING_H
#define TWIN_LENDING_H

/* Whether a class borrows although it is strict, so that its times are those of the clock. */
TWIN_INLINE bool twin_fbq_is_clocked(const struct twin_fbq_options *options, u32 q)
{
	return twin_fbq_params(options, q)->strict == 1 && twin_fbq_params(options, q)->borrows == 1;
}

TWIN_INLINE struct twin_fbq_turns *twin_fbq_turns_of(const struct twin_fbq_options *options, struct twin_fbq *fbq, u32 q)
{
	return &fbq->turns[twin_index(twin_fbq_is_clocked(options, q), 2)];
}

TWIN_GLOBAL u64 twin_fbq_shows(struct twin_fbq *fbq TWIN_GIVEN, u64 time)
{
	return fbq_clock_shows(&fbq->clock, time);
}

TWIN_GLOBAL u64 twin_fbq_reaches(struct twin_fbq *fbq TWIN_GIVEN, u64 shown)
{
	return fbq_clock_reaches(&fbq->clock, shown);
}

/* A time as a class counts it. */
TWIN_INLINE u64 twin_fbq_time_of(const struct twin_fbq_options *options, struct twin_fbq *fbq, u32 q, u64 time)
{
	return twin_fbq_is_clocked(options, q) ? twin_fbq_shows(fbq, time) : time;
}

/* Counts a class among those that use their rates, or no longer. */
TWIN_GLOBAL u32 twin_fbq_count(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN, u32 q, u32 uses)
{
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, q);
	bool borrows = twin_fbq_params(options, q)->borrows == 1;
	u64 rate = class->bucket.rate;

	class->uses = uses;
	fbq->used = uses ? saturating_add_u64(fbq->used, rate) : saturating_sub_u64(fbq->used, rate);
	if (borrows)
		fbq->borrowing = uses ? saturating_add_u64(fbq->borrowing, rate) : saturating_sub_u64(fbq->borrowing, rate);
	fbq_clock_lend(&fbq->clock, fbq->now, fbq->borrowing, saturating_sub_u64(fbq->root.rate, fbq->used));
	return 0;
}

/* Lets the classes lend whose buckets are full. */
TWIN_GLOBAL u32 twin_fbq_expire(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN)
{
	TWIN_FOR(u32, i, 0, TWIN_FBQ_CLASSES) {
		u32 first = fbq->filling;

		if (first == TWIN_NONE || twin_node_of(&fbq->orders, first)->key > fbq->now)
			break;
		twin_order_remove(&fbq->orders, &fbq->filling, first);
		twin_fbq_count(options, fbq, first - TWIN_FILLING, false);
	}
	return 0;
}

/* A class uses its rate. */
TWIN_GLOBAL u32 twin_fbq_uses(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN, u32 q)
{
	twin_order_remove(&fbq->orders, &fbq->filling, TWIN_FILLING + q);
	if (!twin_fbq_class_of(fbq, q)->uses)
		twin_fbq_count(options, fbq, q, true);
	return 0;
}

/* A class without a queue uses its rate until its bucket is full; one whose bucket never is has no rate to lend. */
TWIN_GLOBAL u32 twin_fbq_fills(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN, u32 q)
{
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, q);
	u64 own = twin_fbq_time_of(options, fbq, q, fbq->now);
	option_units_instant full = bucket_token_bucket_time_for(&class->bucket, own, bucket_token_bucket_depth(&class->bucket));

	/* By the clock it is full as soon or sooner. */
	if (class->uses)
		twin_order_set(&fbq->orders, &fbq->filling, TWIN_FILLING + q,
			       saturating_add_u64(fbq->now, full.some ? saturating_sub_u64(full.value, own) : 0), q);
	return 0;
}

/* To be called when a class may have got its first packet or lost its last one, where classes lend. */
TWIN_INLINE void twin_fbq_use_changed(const struct twin_fbq_options *options, struct twin_fbq *fbq, u32 q)
{
	if (twin_fbq_class_of(fbq, q)->backlog.packets == 0)
		twin_fbq_fills(options, fbq, q);
	else
		twin_fbq_uses(options, fbq, q);
	twin_fbq_expire(options, fbq);
}

/* To be called when a flow has joined a class or left it. */
TWIN_INLINE void twin_fbq_queue_moved(const struct twin_fbq_options *options, struct twin_fbq *fbq, struct twin_held *held, u32 number)
{
	if (fbq->lends && twin_queue_of(held, number)->backlog.packets != 0)
		twin_fbq_use_changed(options, fbq, twin_fbq_flow_of(fbq, number)->class);
}

/* All classes lend, and the clock goes on. */
TWIN_GLOBAL u32 twin_fbq_lend_all(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN)
{
	fbq->clock = fbq_clock_new(twin_fbq_shows(fbq, fbq->now), fbq->now);
	fbq->used = fbq->borrowing = 0;
	TWIN_FOR(u32, q, 0, TWIN_FBQ_CLASSES) {
		twin_order_remove(&fbq->orders, &fbq->filling, TWIN_FILLING + q);
		twin_fbq_class_of(fbq, q)->uses = false;
		fbq->lends |= q < options->classes && twin_fbq_is_clocked(options, q);
	}
	return 0;
}

#endif
