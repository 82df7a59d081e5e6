/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A discipline of a user's own: one queue in the order of arrival, and a decider that is asked at each arrival and each departure.
 * Where TWIN_WITH_OWN is defined, deciders.h has the decider, translated from the user's crate; otherwise there is none. A part of
 * disciplines.h and departures.h.
 */
#ifndef TWIN_OWN_H
#define TWIN_OWN_H

#ifdef TWIN_WITH_OWN

TWIN_INLINE bool twin_is_own(const struct twin_options *options)
{
	return options->kind == TWIN_OWN;
}

TWIN_INLINE void twin_begin_own(const struct twin_options *options, struct twin_discipline *discipline)
{
	if (twin_is_own(options))
		discipline->own = own_decider_new(own_params_of(options->own), discipline->random);
}

/* Whether the packet that arrives is queued. */
TWIN_INLINE bool twin_admits_own(const struct twin_options *options, struct twin_discipline *discipline, u64 now)
{
	qdisc_backlog backlog = discipline->backlog;
	struct twin_arrival *arrives = &discipline->arrives;
	aqm_verdict verdict = own_decider_arrive(&discipline->own, now, backlog, arrives->size, arrives->capable);
	bool fits = options->rate == 0 || arrives->size <= bucket_token_bucket_depth(&discipline->bucket);

	if (verdict.kind == AQM_VERDICT_DROP)
		discipline->refusal = verdict.drop;
	else if (!fits)
		discipline->refusal = QDISC_DROP_REASON_LARGER_THAN_BURST;
	arrives->marked = verdict.kind == AQM_VERDICT_MARK && arrives->capable;
	return verdict.kind != AQM_VERDICT_DROP && fits && backlog.packets < options->limit_packets;
}

#else

TWIN_INLINE bool twin_is_own(const struct twin_options *options)
{
	(void)options;
	return false;
}

TWIN_INLINE void twin_begin_own(const struct twin_options *options, struct twin_discipline *discipline)
{
	(void)discipline;
	(void)options;
}

TWIN_INLINE bool twin_admits_own(const struct twin_options *options, struct twin_discipline *discipline, u64 now)
{
	(void)options;
	(void)discipline;
	(void)now;
	return false;
}

#endif

/* Whether the packets of a queue wait for a token bucket. */
TWIN_INLINE bool twin_has_bucket(const struct twin_options *options)
{
	return options->kind == TWIN_TBF || (twin_is_own(options) && options->rate != 0);
}

/* Whether the decider has the same parameters. */
TWIN_INLINE bool twin_same_own(const struct twin_options *options, const struct twin_options *before)
{
	bool same = twin_is_own(options);

	for (u32 i = 0; i < TWIN_OWN_NUMBERS; i++)
		same = same && options->own[i] == before->own[i];
	return same;
}

#endif
