/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A discipline of a user's own: one queue in the order of arrival, and a decider that is asked at each arrival and each departure.
 * Where TWIN_WITH_OWN is defined, deciders.h has the decider, translated from the user's crate; otherwise there is none. A part of
 * disciplines.h, which has the state.
 */
#ifndef TWIN_OWN_H
#define TWIN_OWN_H

#ifdef TWIN_WITH_OWN

TWIN_INLINE bool twin_is_own(const struct twin_options *options)
{
	return options->kind == TWIN_OWN;
}

TWIN_INLINE void twin_begin_own(struct twin_state *state, const struct twin_options *options)
{
	if (twin_is_own(options))
		state->own = own_decider_new(own_params_of(options->own), state->random);
}

/* Whether an arriving packet is queued; *mark: with a mark. */
TWIN_INLINE bool twin_admits_own(const struct twin_options *options, struct twin_state *state, u64 size, bool capable,
				 bool *mark)
{
	qdisc_backlog backlog = state->held.backlog;
	aqm_verdict verdict = own_decider_arrive(&state->own, state->latest, backlog, size, capable);
	bool fits = options->rate == 0 || size <= bucket_token_bucket_depth(&state->bucket);

	if (verdict.kind == AQM_VERDICT_DROP)
		state->refusal = verdict.drop;
	else if (!fits)
		state->refusal = QDISC_DROP_REASON_LARGER_THAN_BURST;
	*mark = verdict.kind == AQM_VERDICT_MARK && capable;
	return verdict.kind != AQM_VERDICT_DROP && fits && backlog.packets < options->limit_packets;
}

/* A step of dequeue. With a rate, the decider is asked once the packet may leave; a packet that it drops costs no tokens. */
TWIN_INLINE struct twin_step twin_step_own(const struct twin_options *options, struct twin_state *state)
{
	struct twin_step step = { .action = TWIN_EMPTY, .slot = TWIN_NONE };
	struct twin_packet *packet = twin_packet_of(&state->held, state->held.queues[0].head);
	aqm_verdict verdict;

	if (state->held.backlog.packets == 0)
		return step;
	if (options->rate != 0) {
		option_units_instant at = bucket_token_bucket_time_of(&state->bucket, state->latest, packet->size);

		step.action = TWIN_WAIT;
		if (!at.some || at.value > state->latest)
			return step;
	}
	step.slot = twin_pop(&state->held, 0);
	verdict = own_decider_depart(&state->own, state->latest, state->held.backlog, packet->size,
				     saturating_sub_u64(state->latest, packet->at), packet->capable != 0);
	step.action = TWIN_DROP;
	if (verdict.kind == AQM_VERDICT_DROP)
		return step;
	if (options->rate != 0)
		bucket_token_bucket_take(&state->bucket, state->latest, packet->size);
	step.action = verdict.kind == AQM_VERDICT_MARK && packet->capable ? TWIN_MARK : TWIN_SEND;
	return step;
}

#else

TWIN_INLINE bool twin_is_own(const struct twin_options *options)
{
	(void)options;
	return false;
}

TWIN_INLINE void twin_begin_own(struct twin_state *state, const struct twin_options *options)
{
	(void)state;
	(void)options;
}

TWIN_INLINE bool twin_admits_own(const struct twin_options *options, struct twin_state *state, u64 size, bool capable,
				 bool *mark)
{
	(void)options;
	(void)state;
	(void)size;
	(void)capable;
	(void)mark;
	return false;
}

TWIN_INLINE struct twin_step twin_step_own(const struct twin_options *options, struct twin_state *state)
{
	(void)options;
	(void)state;
	return (struct twin_step){ .action = TWIN_EMPTY, .slot = TWIN_NONE };
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
