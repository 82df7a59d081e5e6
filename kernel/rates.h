/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* FBC: changes of rates and of promises while packets wait, and whether there is room for what the options ask for. */
#ifndef TWIN_RATES_H
#define TWIN_RATES_H

#include "fbc.h"

/* To be called after a change of rates where classes lend: all lend, and those that use their rates are counted anew. */
TWIN_GLOBAL u32 twin_fbq_renew_lending(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN,
				       struct twin_held *held TWIN_GIVEN)
{
	twin_fbq_lend_all(options, fbq);
	TWIN_FOR(u32, q, 0, TWIN_FBQ_CLASSES) {
		if (q >= options->classes)
			break;
		twin_fbq_rechoose(options, fbq, held, q, fbq->now, true);
		/* Its bucket need not be full. */
		twin_fbq_uses(options, fbq, q);
		twin_fbq_use_changed(options, fbq, q);
	}
	return 0;
}

/* A class has another rate, into which its minimums fit. */
TWIN_GLOBAL u32 twin_fbq_put_rate(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN,
				  struct twin_held *held TWIN_GIVEN, u32 q, u64 rate)
{
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, q);

	bucket_token_bucket_set_rate(&class->bucket, twin_fbq_time_of(options, fbq, q, fbq->now), rate);
	for (u32 k = 0; k < TWIN_FILLINGS; k++)
		twin_filling_of(class, k)->is_balanced = false;
	twin_fbq_shares_changed(class);
	twin_fbq_rechoose(options, fbq, held, q, fbq->now, true);
	return 0;
}

/* The change of a rate without those that lend. */
TWIN_INLINE void twin_fbq_change_rate(const struct twin_fbq_options *options, struct twin_fbq *fbq, struct twin_held *held,
				   u64 now, u32 q, u64 rate)
{
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, q);
	u64 sum = 0;

	fbq->now = now;
	TWIN_FOR(u32, other, 0, TWIN_FBQ_CLASSES) {
		if (other < options->classes && other != q)
			sum = saturating_add_u64(sum, twin_fbq_class_of(fbq, other)->bucket.rate);
	}
	if (q == TWIN_NONE) {
		if (sum <= rate)
			bucket_token_bucket_set_rate(&fbq->root, now, rate);
		return;
	}
	if (q >= options->classes || saturating_add_u64(sum, rate) > fbq->root.rate)
		return;
	if (twin_fbq_params(options, q)->most != 0 && twin_fbq_params(options, q)->most < rate)
		return;
	twin_fbq_advance(options, fbq, q);
	/* Minimums that no longer fit wait again, those of the youngest flows first. */
	TWIN_FOR(u32, older, 0, TWIN_QUEUES) {
		u32 number = TWIN_QUEUES - 1 - older;
		struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);

		if (class->bucket.rate - twin_fbq_unpromised(class) <= rate)
			break;
		if (flow->class != q || !flow->granted)
			continue;
		twin_fbq_grant(options, fbq, held, number, TWIN_WAITS);
		twin_fbq_wait(fbq, class, number);
	}
	twin_fbq_put_rate(options, fbq, held, q, rate);
}

/* Changes the total, or the rate of a class, as far as the classes fit into the total. */
TWIN_INLINE void twin_fbq_set_rate(const struct twin_fbq_options *options, struct twin_fbq *fbq, struct twin_held *held,
				   u64 now, u32 q, u64 rate)
{
	twin_fbq_change_rate(options, fbq, held, now, q, rate);
	if (fbq->lends)
		twin_fbq_renew_lending(options, fbq, held);
}

/* Puts other promises in force, and their conditions; nothing else has changed. */
TWIN_INLINE void twin_fbq_follow_promises(const struct twin_fbq_options *options, const struct twin_fbq_options *next,
					  struct twin_fbq *fbq, struct twin_held *held, u64 now)
{
	fbq->now = now;
	if (twin_fbq_end_promises(options, next, fbq) != 0)
		twin_fbq_end_promises_of_flows(options, next, fbq, held);
}

/* The queues that the discipline of a class needs; more than there are where the twin has it not. */
TWIN_GLOBAL u32 twin_fbq_queues_inside(const struct twin_fbq_options *options TWIN_GIVEN, u32 q)
{
	const struct twin_options *inside = &options->inside[twin_index(q, TWIN_FBQ_CLASSES)];

	if (!twin_fbq_has_inside(options, q))
		return 0;
	if (inside->kind == TWIN_TBF || (twin_is_cake(inside) && inside->rate != 0))
		return TWIN_SPACE + 1;
	return twin_supports(inside) ? twin_queues(inside) : TWIN_SPACE + 1;
}

/* Whether the twin has room for the disciplines in classes. */
TWIN_GLOBAL u32 twin_fbq_supports_insides(const struct twin_fbq_options *options TWIN_GIVEN)
{
	u64 queues = 0;

	TWIN_FOR(u32, q, 0, TWIN_FBQ_CLASSES) {
		queues += twin_fbq_queues_inside(options, q);
	}
	return queues <= TWIN_SPACE;
}

/* Whether the twin has room for them. */
TWIN_INLINE bool twin_fbq_supports(const struct twin_fbq_options *options)
{
	return twin_fbq_supports_insides(options) && options->classes > 0 && options->classes <= TWIN_FBQ_CLASSES && options->profiles <= TWIN_FBQ_PROFILES &&
	       options->flows <= TWIN_QUEUES && options->fair_by <= 2;
}

#endif
