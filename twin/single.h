/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * FIFO, TBF and CoDel over one queue: which decider is asked when. chassis.bpf.c, which the program loads, has the queue; it
 * calls these with integers and does with its packets what they return. disciplines.h has more, over many queues.
 */
#ifndef TWIN_SINGLE_H
#define TWIN_SINGLE_H

#include "integers.h"
#include "deciders.h"

enum twin_kind { TWIN_FIFO, TWIN_TBF, TWIN_CODEL };

/* Sizes in bytes, times in nanoseconds, the rate in bit/s. */
struct twin_options {
	u64 kind;
	u64 limit_packets;
	u64 limit_bytes;
	u64 rate;
	u64 burst;
	u64 target;
	u64 interval;
	u64 mtu;
	/* 0 for none. */
	u64 longest;
	/* 1 to mark packets that can be marked instead of dropping them. */
	u64 marks;
	u64 reserved[2];
};

struct twin_state {
	/* The latest time of any call: time never runs back. */
	u64 latest;
	qdisc_backlog backlog;
	bucket_token_bucket bucket;
	codel_state codel;
	codel_stats stats;
};

/* What becomes of the first packet. TWIN_SIGNAL: it is marked and leaves (twin_marked), or is dropped. */
enum twin_action { TWIN_SEND, TWIN_SIGNAL, TWIN_DROP, TWIN_WAIT };

/* More than any call of dequeue drops and sends. */
#define TWIN_MOST_ACTIONS 40

/* The deadline of an empty queue, and that of one whose next packet may leave now. */
#define TWIN_IDLE U64_MAX
#define TWIN_NOW 0ull

TWIN_INLINE void twin_begin(struct twin_state *state, const struct twin_options *options)
{
	*state = (struct twin_state){0};
	state->bucket = bucket_token_bucket_full(options->rate, options->burst, 0);
}

TWIN_INLINE u64 twin_now(struct twin_state *state, u64 now)
{
	state->latest = max_u64(state->latest, now);
	return state->latest;
}

/* Whether a packet of size is queued; otherwise it is dropped. */
TWIN_INLINE bool twin_admits(const struct twin_options *options, const struct twin_state *state, u64 size)
{
	fifo_limit limit = { .packets = options->limit_packets, .bytes = options->limit_bytes };

	if (options->kind == TWIN_TBF && size > bucket_token_bucket_depth(&state->bucket))
		return false;
	return fifo_limit_admits(&limit, state->backlog, size);
}

TWIN_INLINE codel_params twin_codel(const struct twin_options *options)
{
	return (codel_params){
		.target = options->target,
		.interval = options->interval,
		.mtu = options->mtu,
		.longest = { .some = options->longest != 0, .value = options->longest },
	};
}

/* Decides on the first packet, of size, queued at the time at. The backlog includes it. */
TWIN_INLINE enum twin_action twin_first(const struct twin_options *options, struct twin_state *state, codel_call *call,
					u64 now, u64 size, u64 at)
{
	if (options->kind == TWIN_TBF)
		return bucket_token_bucket_take(&state->bucket, now, size) ? TWIN_SEND : TWIN_WAIT;
	if (options->kind == TWIN_CODEL) {
		codel_params params = twin_codel(options);

		switch (codel_state_decide(&state->codel, &params, &state->stats, call, now, saturating_sub_u64(now, at),
					   state->backlog.bytes - size)) {
		case CODEL_ACTION_SEND:
			return TWIN_SEND;
		case CODEL_ACTION_SIGNAL:
			return TWIN_SIGNAL;
		case CODEL_ACTION_DROP:
			return TWIN_DROP;
		}
	}
	return TWIN_SEND;
}

/* The first packet was marked. */
TWIN_INLINE void twin_marked(const struct twin_options *options, struct twin_state *state, const codel_call *call)
{
	codel_params params = twin_codel(options);

	codel_state_marked(&state->codel, &params, call);
}

/* The queue is empty, before a packet left. */
TWIN_INLINE void twin_ran_empty(const struct twin_options *options, struct twin_state *state, const codel_call *call)
{
	if (options->kind == TWIN_CODEL)
		codel_state_ran_empty(&state->codel, call);
}

/* When the first packet, of size, may leave. */
TWIN_INLINE u64 twin_deadline(const struct twin_options *options, const struct twin_state *state, u64 now, u64 size)
{
	option_units_instant at;

	if (state->backlog.packets == 0)
		return TWIN_IDLE;
	if (options->kind != TWIN_TBF)
		return TWIN_NOW;
	now = max_u64(state->latest, now);
	at = bucket_token_bucket_time_of(&state->bucket, now, size);
	if (!at.some)
		return TWIN_IDLE;
	return at.value <= now ? TWIN_NOW : at.value;
}

/* Changes the rate of a token bucket. */
TWIN_INLINE void twin_set_rate(const struct twin_options *options, struct twin_state *state, u64 now, u64 rate)
{
	if (options->kind == TWIN_TBF)
		bucket_token_bucket_set_rate(&state->bucket, twin_now(state, now), rate);
}

#endif
