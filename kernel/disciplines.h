/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The disciplines: which decider is asked when, over the queues of queues.h. A chassis has the packets, each in a slot; it
 * calls these with integers and does with its packets what they return. host.c is a chassis for tests, chassis.bpf.c the one
 * in the kernel.
 */
#ifndef TWIN_DISCIPLINES_H
#define TWIN_DISCIPLINES_H

#include "queues.h"
#include "records.h"

enum twin_kind {
	TWIN_FIFO,
	TWIN_TBF,
	TWIN_CODEL,
	TWIN_RED,
	TWIN_ARED,
	TWIN_PIE,
	TWIN_DRR,
	TWIN_SFQ,
	TWIN_FQ_CODEL,
	TWIN_MERED,
	TWIN_KINDS,
	/* Of fbc.h. */
	TWIN_FBQ = TWIN_KINDS,
	/* Of own.h. */
	TWIN_OWN,
};

/* The most parameters of a decider of a user's own. */
#define TWIN_OWN_NUMBERS 16

/*
 * Sizes in bytes, times in nanoseconds, the rate in bit/s, probabilities and weights in 32 bits of fraction. What a kind does
 * not name it does not read. path/src/options.rs is made from this.
 */
struct twin_options {
	/* All kinds. Room for fewer packets than there are slots. */
	u64 kind;
	u64 limit_packets;
	u64 limit_bytes;
	/* tbf. */
	u64 rate;
	u64 burst;
	/* codel, fq_codel; the target also pie. The interval also of adaptation (ared) and of updates (pie). */
	u64 target;
	u64 interval;
	u64 mtu;
	/* 0 for none. */
	u64 longest;
	/* 1 to mark packets that can be marked instead of dropping them. */
	u64 marks;
	/* red, ared, mered: the thresholds in packets, or in bytes where in_bytes is 1. */
	u64 min;
	u64 max;
	u64 in_bytes;
	u64 max_p;
	u64 weight;
	/* 1 for gentle. */
	u64 above_max;
	/* 1 for geometric gaps. */
	u64 spacing;
	u64 idle_packet;
	/* red, ared, pie: the mean packet, by which the probability is scaled; 0 for all packets alike. */
	u64 mean;
	/* pie. In 1/16 per second: alpha and beta. */
	u64 allowance;
	u64 alpha;
	u64 beta;
	u64 least_queue_mean;
	u64 most_marked;
	/* drr, sfq, fq_codel. */
	u64 quantum;
	u64 queues;
	/* sfq: 0 for never. */
	u64 perturb;
	u64 seed;
	/* red, ared, pie: the state and the step of the random stream, each with the upper half first. */
	u64 random[4];
	/* mered, beside the fields of ared. The longest flow that is a mouse. */
	u64 longest_mouse;
	/* 1 where a length counts packets; 1 where a flow is a pair of hosts. */
	u64 counts_packets;
	u64 by_pair;
	/* How many records there are, of flows and of pairs, and for how long an idle one is kept. */
	u64 records;
	u64 idle;
	/* What a pair of hosts may send as mice: a burst, 0 for no such rule, and a rate. */
	u64 pair_threshold;
	u64 pair_rate;
	u64 elephant_limit;
	/* What is served to elephants at least, and the service beyond it that counts for it later. */
	u64 floor;
	u64 floor_credit;
	/* own, beside the rate and the burst of a bucket, 0 for none: the parameters of its decider, in the order of their fields. */
	u64 own[16];
	/* Without classes: where the chassis counts. */
	u64 account;
	/* Which of the two in struct twin_rules are in force, in the lowest bit; above it another number where the rules are others. */
	u64 rules;
	/* Last, in the kernel: odd while the others are written, and another number each time. */
	u64 changes;
};

struct twin_state {
	/* The latest time of any call: time never runs back. */
	u64 latest;
	/* Packets that arrived. */
	u64 arrived;
	/* Why the last was refused that was. */
	qdisc_drop_reason refusal;
	/* What becomes of the first packet of a queue, from one step of a call of dequeue to the next. */
	codel_call call;
	bucket_token_bucket bucket;
	/* Of all queues together. */
	codel_stats stats;
	/* red is this without adaptation. */
	ared_ared ared;
	pie_state pie;
	pie_stats pie_stats;
	random_stream random;
	round_turns turns;
	sfq_hash hash;
	meredt_floor floor;
	/* mered: the record of the flow of the packet that arrives, and whether it is a mouse. */
	u32 record;
	bool is_mouse;
	/* Queues that take turns; fq_codel: those that just became busy, and the others. */
	struct twin_list active, fresh;
#ifdef TWIN_WITH_OWN
	own_decider own;
#endif
	/* fq_codel: how often a packet arrived while none was queued. */
	u64 busy_period;
	struct twin_held held;
};

/*
 * What one step of dequeue does. TWIN_AGAIN: nothing yet. TWIN_WAIT: no packet may leave before the deadline. TWIN_DROP: the
 * packet of the slot is dropped, and there is another step. TWIN_SEND, TWIN_MARK: it leaves, marked or not.
 */
enum twin_action { TWIN_AGAIN, TWIN_EMPTY, TWIN_WAIT, TWIN_DROP, TWIN_SEND, TWIN_MARK };

struct twin_step {
	u32 action;
	u32 slot;
};

/* More than any call of dequeue takes: a visit of each queue for each 64 B of its first packet, two to find it empty. */
#define TWIN_MOST_STEPS (1 << 22)

/* The deadline of an empty queue, and that of one whose next packet may leave now. */
#define TWIN_IDLE U64_MAX
#define TWIN_NOW 0ull

#include "own.h"

TWIN_INLINE codel_params twin_codel(const struct twin_options *options)
{
	return (codel_params){
		.target = options->target,
		.interval = options->interval,
		.mtu = options->mtu,
		.longest = { .some = options->longest != 0, .value = options->longest },
	};
}

TWIN_INLINE red_sizing twin_sizing(const struct twin_options *options)
{
	return (red_sizing){
		.kind = options->mean != 0 ? RED_SIZING_PER_BYTE : RED_SIZING_PER_PACKET,
		.per_byte_mean = options->mean,
	};
}

TWIN_INLINE red_params twin_red(const struct twin_options *options)
{
	return (red_params){
		.profile = {
			.thresholds = {
				.kind = options->in_bytes == 1 ? RED_THRESHOLDS_BYTES : RED_THRESHOLDS_PACKETS,
				.packets_min = options->min,
				.packets_max = options->max,
				.bytes_min = options->min,
				.bytes_max = options->max,
			},
			.max_p = options->max_p,
		},
		.early = {
			.weight = options->weight,
			.above_max = options->above_max == 1 ? RED_ABOVE_MAX_GENTLE : RED_ABOVE_MAX_CLIFF,
			.spacing = options->spacing == 1 ? RED_SPACING_GEOMETRIC : RED_SPACING_UNIFORM,
			.sizing = twin_sizing(options),
			.signal = options->marks == 1 ? RED_SIGNAL_MARK : RED_SIGNAL_DROP,
			.idle_packet = options->idle_packet,
		},
	};
}

TWIN_INLINE pie_params twin_pie(const struct twin_options *options)
{
	return (pie_params){
		.target = options->target,
		.update = options->interval,
		.burst = options->allowance,
		.alpha = options->alpha,
		.beta = options->beta,
		.mean = options->least_queue_mean,
		.sizing = twin_sizing(options),
		.signal = options->marks == 1 ? RED_SIGNAL_MARK : RED_SIGNAL_DROP,
		.most_marked = options->most_marked,
	};
}

TWIN_INLINE bool twin_has_ared(const struct twin_options *options)
{
	return options->kind == TWIN_ARED || options->kind == TWIN_MERED;
}

/* A beginning has three parts, since the stack of the kernel is small. First what red, ared, mered and pie need. */
TWIN_INLINE void twin_begin_aqm(struct twin_state *state, struct twin_tables *tables, const struct twin_options *options)
{
	random_stream random = random_stream_from_parts(options->random[0], options->random[1], options->random[2],
							options->random[3]);

	state->random = random;
	if (options->kind == TWIN_RED || twin_has_ared(options))
		state->ared.red = red_red_drawing(twin_red(options), random);
	if (options->kind == TWIN_MERED) {
		state->floor = meredt_floor_new(options->floor, options->floor_credit);
		if (tables)
			twin_table_begin(&tables->flows);
#ifdef TWIN_PAIRS
		twin_table_begin(&tables->pairs);
#endif
	}
	if (options->kind == TWIN_PIE) {
		pie_params params = twin_pie(options);

		state->pie = pie_state_new(&params);
		state->pie_stats = (pie_stats){0};
	}
}

/* Then what ared has beyond red. */
TWIN_INLINE void twin_begin_adapting(struct twin_state *state, const struct twin_options *options)
{
	if (twin_has_ared(options))
		state->ared = ared_ared_adapting(state->ared.red, options->interval);
}

/* And empty queues, at the latest time of any call. Slots stay as they are. */
TWIN_INLINE void twin_begin_queues(struct twin_state *state, const struct twin_options *options)
{
	struct twin_list none = { .head = TWIN_NONE, .tail = TWIN_NONE };

	state->call = (codel_call){0};
	state->bucket = bucket_token_bucket_full(options->rate, options->burst, state->latest);
	state->stats = (codel_stats){0};
	state->turns = round_turns_of(options->quantum);
	state->active = state->fresh = none;
	if (options->kind == TWIN_SFQ) {
		option_units_span perturb = { .some = options->perturb != 0, .value = options->perturb };

		state->hash = sfq_hash_new(options->seed, options->queues, perturb);
	}
	twin_begin_own(state, options);
	twin_empty_queues(&state->held);
}

/* Forgets all packets and times. */
TWIN_INLINE void twin_forget_all(struct twin_state *state)
{
	state->latest = state->arrived = 0;
	state->held.free = TWIN_NONE;
	state->held.used = 0;
}

TWIN_INLINE u64 twin_now(struct twin_state *state, u64 now)
{
	state->latest = max_u64(state->latest, now);
	return state->latest;
}

TWIN_INLINE bool twin_is_fair(const struct twin_options *options)
{
	return options->kind >= TWIN_DRR && options->kind <= TWIN_FQ_CODEL;
}

/* Whether the keys of flows matter. */
TWIN_INLINE bool twin_has_flows(const struct twin_options *options)
{
	return twin_is_fair(options) || options->kind == TWIN_MERED;
}

#include "mered.h"

/* Whether an arriving packet is queued; *mark: with a mark. */
TWIN_INLINE bool twin_admits(const struct twin_options *options, struct twin_state *state, u64 size, bool capable,
			     bool *mark)
{
	fifo_limit limit = { .packets = options->limit_packets, .bytes = options->limit_bytes };
	qdisc_backlog backlog = state->held.backlog;
	u64 now = state->latest;

	if (twin_is_fair(options))
		return size <= limit.bytes && limit.packets > 0;
	if (options->kind == TWIN_MERED)
		return twin_admits_measured(options, state, size, capable, mark);
	if (twin_is_own(options))
		return twin_admits_own(options, state, size, capable, mark);
	if (options->kind == TWIN_TBF && size > bucket_token_bucket_depth(&state->bucket)) {
		state->refusal = QDISC_DROP_REASON_LARGER_THAN_BURST;
		return false;
	}
	if (options->kind == TWIN_RED || options->kind == TWIN_ARED) {
		red_red *red = &state->ared.red;
		red_zone zone = options->kind == TWIN_RED ? red_red_observe(red, now, backlog)
							  : ared_ared_observe(&state->ared, now, backlog);
		aqm_verdict verdict = red_dropper_judge(&red->dropper, &red->params.early, zone, size, capable);

		if (verdict.kind == AQM_VERDICT_DROP)
			state->refusal = verdict.drop;
		if (verdict.kind == AQM_VERDICT_DROP || !fifo_limit_admits(&limit, backlog, size))
			return false;
		*mark = verdict.kind == AQM_VERDICT_MARK;
		red_red_on_busy(red);
		return true;
	}
	if (options->kind == TWIN_PIE) {
		pie_params params = twin_pie(options);

		pie_state_catch_up(&state->pie, &params, &state->pie_stats, now);
		if (!fifo_limit_admits(&limit, backlog, size))
			return false;
		if (!pie_state_unlucky(&state->pie, &params, &state->random, size, backlog))
			return true;
		*mark = capable && pie_state_signal(&state->pie, &params) == RED_SIGNAL_MARK;
		state->refusal = QDISC_DROP_REASON_EARLY;
		return *mark;
	}
	return fifo_limit_admits(&limit, backlog, size);
}

/* The queue of a packet that is queued now. */
TWIN_INLINE u32 twin_queue_for(const struct twin_options *options, struct twin_state *state, u64 key)
{
	if (options->kind == TWIN_DRR)
		return twin_flow(&state->held, key);
	if (options->kind == TWIN_FQ_CODEL)
		return round_spread(key, options->queues);
	if (options->kind == TWIN_MERED)
		return state->is_mouse ? TWIN_MICE : TWIN_ELEPHANTS;
	if (options->kind == TWIN_SFQ) {
		option_u32 before;

		sfq_hash_change(&state->hash, state->latest);
		before = sfq_hash_queue_before(&state->hash, key);
		if (before.some) {
			struct twin_queue *queue = twin_queue_of(&state->held, before.value);

			if (queue->backlog.packets != 0 && sfq_hash_keeps(&state->hash, queue->since))
				return before.value;
		}
		return sfq_hash_queue(&state->hash, key, state->hash.epoch);
	}
	return 0;
}

/* Puts the packet of a slot into its queue. */
TWIN_INLINE void twin_put(const struct twin_options *options, struct twin_state *state, u32 slot)
{
	struct twin_packet *packet = twin_packet_of(&state->held, slot);
	u32 number = twin_queue_for(options, state, packet->key);
	struct twin_queue *queue = twin_queue_of(&state->held, number);

	if (options->kind == TWIN_SFQ && queue->backlog.packets == 0)
		queue->since = sfq_hash_entered(&state->hash);
	if (options->kind == TWIN_FQ_CODEL && state->held.backlog.packets == 0) {
		state->active = state->fresh = (struct twin_list){ .head = TWIN_NONE, .tail = TWIN_NONE };
		state->busy_period++;
	}
	twin_push(&state->held, number, slot);
	if (!twin_is_fair(options))
		return;
	twin_classify(&state->held, number);
	if (options->kind == TWIN_FQ_CODEL) {
		if (queue->place == FLOW_QUEUES_PLACE_OFF || queue->since != state->busy_period) {
			queue->place = FLOW_QUEUES_PLACE_NEW;
			queue->since = state->busy_period;
			queue->deficit = round_deficit_starting_with(options->quantum);
			twin_list_append(&state->held, &state->fresh, number);
		}
	} else if (round_turns_queued(&state->turns, &queue->allowance, packet->size)) {
		twin_list_append(&state->held, &state->active, number);
	}
}

/*
 * A packet arrives, of the flow `key`, between the hosts `pair`. Returns its slot, or TWIN_NONE where it is dropped. always:
 * as far as there are slots it is not. *mark: it is to be marked. tables: NULL for all kinds but mered, here and below.
 */
TWIN_INLINE u32 twin_accept(const struct twin_options *options, struct twin_state *state, struct twin_tables *tables,
			    u64 now, u64 size, u64 key, u64 pair, bool capable, bool always, bool *mark)
{
	u64 arrived = state->arrived;
	struct twin_packet *packet;
	u32 slot;

	*mark = false;
	twin_now(state, now);
	state->arrived = arrived + 1;
	state->refusal = QDISC_DROP_REASON_QUEUE_LIMIT;
	if (tables && !twin_measure(options, state, tables, size, key, pair, always ? TWIN_RECORDS : options->records))
		return TWIN_NONE;
	if (!twin_admits(options, state, size, capable, mark) && !always)
		return TWIN_NONE;
	slot = twin_take_slot(&state->held);
	if (slot == TWIN_NONE)
		return TWIN_NONE;
	packet = twin_packet_of(&state->held, slot);
	packet->size = size;
	packet->came = packet->at = state->latest;
	packet->number = arrived;
	packet->capable = capable;
	packet->key = key;
	packet->class = packet->profile = 0;
	twin_put(options, state, slot);
	if (tables)
		twin_measured(state, tables, packet);
	return slot;
}

/*
 * Queues a packet again that twin_take_all has taken. With a beginning between, the discipline begins anew with what waits:
 * nothing is dropped, and packets of a flow stay in order, since they were in one queue, or in that of mice before that of
 * elephants.
 */
TWIN_INLINE void twin_put_again(const struct twin_options *options, struct twin_state *state, struct twin_tables *tables,
				u32 slot)
{
	struct twin_packet *packet = twin_packet_of(&state->held, slot);

	/* More packets may wait than there are records for by the options. */
	if (tables)
		twin_measure(options, state, tables, packet->size, packet->key, 0, TWIN_RECORDS);
	twin_put(options, state, slot);
	if (tables)
		twin_measured(state, tables, packet);
	else
		red_red_on_busy(&state->ared.red);
}

/* Takes the first packet of a queue that takes turns. */
TWIN_INLINE u32 twin_pop_fair(const struct twin_options *options, struct twin_state *state, u32 number)
{
	struct twin_queue *queue = twin_queue_of(&state->held, number);
	u32 slot = twin_pop(&state->held, number);

	twin_classify(&state->held, number);
	if (queue->backlog.packets != 0)
		return slot;
	if (options->kind == TWIN_SFQ)
		sfq_hash_emptied(&state->hash, queue->since);
	if (options->kind == TWIN_DRR || options->kind == TWIN_SFQ) {
		round_turns_left(&state->turns, &queue->allowance, state->active.head == number);
		twin_list_remove(&state->held, &state->active, number);
	}
	if (options->kind == TWIN_DRR)
		twin_forget(&state->held, number);
	return slot;
}

/* Whether the limit of all queues together is exceeded. */
TWIN_INLINE bool twin_exceeds(const struct twin_options *options, const struct twin_state *state)
{
	return twin_is_fair(options) && (state->held.backlog.packets > options->limit_packets ||
					 state->held.backlog.bytes > options->limit_bytes);
}

/* After an arrival: the slot of a packet that is dropped because the limit of all queues is exceeded, or TWIN_NONE. */
TWIN_INLINE u32 twin_overflow(const struct twin_options *options, struct twin_state *state)
{
	u32 longest;

	if (!twin_exceeds(options, state))
		return TWIN_NONE;
	longest = twin_longest(&state->held);
	return longest == TWIN_NONE ? TWIN_NONE : twin_pop_fair(options, state, longest);
}

/* A step of CoDel on a queue. */
TWIN_INLINE struct twin_step twin_step_codel(const struct twin_options *options, struct twin_state *state, u32 number)
{
	struct twin_queue *queue = twin_queue_of(&state->held, number);
	codel_params params = twin_codel(options);
	struct twin_step step = { .action = TWIN_EMPTY, .slot = TWIN_NONE };
	struct twin_packet *packet;
	u64 now = state->latest;

	if (queue->backlog.packets == 0) {
		codel_state_ran_empty(&queue->codel, &state->call);
		return step;
	}
	step.slot = twin_pop(&state->held, number);
	packet = twin_packet_of(&state->held, step.slot);
	switch (codel_state_decide(&queue->codel, &params, &state->stats, &state->call, now,
				   saturating_sub_u64(now, packet->at), queue->backlog.bytes)) {
	case CODEL_ACTION_SEND:
		step.action = TWIN_SEND;
		break;
	case CODEL_ACTION_SIGNAL:
		step.action = TWIN_DROP;
		if (options->marks == 1 && packet->capable) {
			codel_state_marked(&queue->codel, &params, &state->call);
			step.action = TWIN_MARK;
		}
		break;
	case CODEL_ACTION_DROP:
		step.action = TWIN_DROP;
		break;
	}
	return step;
}

/* A step of deficit round robin. */
TWIN_INLINE struct twin_step twin_step_round(const struct twin_options *options, struct twin_state *state)
{
	struct twin_step step = { .action = TWIN_EMPTY, .slot = TWIN_NONE };
	u32 number = state->active.head;
	struct twin_queue *queue = twin_queue_of(&state->held, number);

	if (number == TWIN_NONE)
		return step;
	step.action = TWIN_AGAIN;
	if (round_turns_pays(&state->turns, &queue->allowance, twin_packet_of(&state->held, queue->head)->size)) {
		step.slot = twin_pop_fair(options, state, number);
		step.action = TWIN_SEND;
	} else {
		twin_list_remove(&state->held, &state->active, number);
		twin_list_append(&state->held, &state->active, number);
	}
	return step;
}

/* A step of FQ-CoDel: a queue at the end of its turn, or its first packet. */
TWIN_INLINE struct twin_step twin_step_fq(const struct twin_options *options, struct twin_state *state)
{
	struct twin_step step = { .action = TWIN_EMPTY, .slot = TWIN_NONE };
	struct twin_list *list = state->fresh.head != TWIN_NONE ? &state->fresh : &state->active;
	u32 number = list->head;
	struct twin_queue *queue = twin_queue_of(&state->held, number);

	if (state->held.backlog.packets == 0)
		return step;
	if (round_deficit_renew(&queue->deficit, options->quantum)) {
		queue->place = FLOW_QUEUES_PLACE_OLD;
		twin_list_remove(&state->held, list, number);
		twin_list_append(&state->held, &state->active, number);
		step.action = TWIN_AGAIN;
		return step;
	}
	step = twin_step_codel(options, state, number);
	twin_classify(&state->held, number);
	if (step.action == TWIN_SEND || step.action == TWIN_MARK)
		round_deficit_spend(&queue->deficit, twin_packet_of(&state->held, step.slot)->size);
	if (step.action != TWIN_EMPTY)
		return step;
	state->call = (codel_call){0};
	twin_list_remove(&state->held, list, number);
	queue->place = flow_queues_place_once_empty(queue->place, state->active.head != TWIN_NONE);
	if (queue->place == FLOW_QUEUES_PLACE_OLD)
		twin_list_append(&state->held, &state->active, number);
	step.action = TWIN_AGAIN;
	return step;
}

/* Before the steps of a call of dequeue. */
TWIN_INLINE void twin_prepare(const struct twin_options *options, struct twin_state *state, u64 now)
{
	twin_now(state, now);
	state->call = (codel_call){0};
	if (options->kind == TWIN_PIE) {
		pie_params params = twin_pie(options);

		pie_state_catch_up(&state->pie, &params, &state->pie_stats, state->latest);
	}
}

/* Whether a call of dequeue does nothing but to advance the time. */
TWIN_INLINE bool twin_rests(const struct twin_options *options, const struct twin_state *state)
{
	u64 kind = options->kind;

	return state->held.backlog.packets == 0 &&
	       (twin_is_own(options) || kind == TWIN_FIFO || kind == TWIN_TBF || kind == TWIN_RED || kind == TWIN_ARED || kind == TWIN_FBQ);
}

/* A step of dequeue. */
TWIN_INLINE struct twin_step twin_next(const struct twin_options *options, struct twin_state *state,
				       struct twin_tables *tables)
{
	struct twin_step step = { .action = TWIN_EMPTY, .slot = TWIN_NONE };
	struct twin_packet *packet;
	u64 now = state->latest;
	struct twin_queue *first = &state->held.queues[0];

	if (options->kind == TWIN_DRR || options->kind == TWIN_SFQ)
		return twin_step_round(options, state);
	if (options->kind == TWIN_FQ_CODEL)
		return twin_step_fq(options, state);
	if (options->kind == TWIN_CODEL)
		return twin_step_codel(options, state, 0);
	if (twin_is_own(options))
		return twin_step_own(options, state);
	if (tables) {
		if (state->held.backlog.packets != 0) {
			step.slot = twin_pop_measured(state, tables);
			step.action = TWIN_SEND;
		}
		return step;
	}
	if (first->backlog.packets == 0)
		return step;
	packet = twin_packet_of(&state->held, first->head);
	step.action = TWIN_WAIT;
	if (options->kind == TWIN_TBF && !bucket_token_bucket_take(&state->bucket, now, packet->size))
		return step;
	step.action = TWIN_SEND;
	step.slot = twin_pop(&state->held, 0);
	if ((options->kind == TWIN_RED || options->kind == TWIN_ARED) && first->backlog.packets == 0)
		red_red_on_empty(&state->ared.red, now);
	if (options->kind == TWIN_PIE)
		pie_state_departed(&state->pie, saturating_sub_u64(now, packet->at), first->backlog.packets == 0);
	return step;
}

/* When the next packet may leave. */
TWIN_INLINE u64 twin_deadline(const struct twin_options *options, struct twin_state *state, u64 now)
{
	option_units_instant at;

	if (state->held.backlog.packets == 0)
		return TWIN_IDLE;
	if (!twin_has_bucket(options))
		return TWIN_NOW;
	now = max_u64(state->latest, now);
	at = bucket_token_bucket_time_of(&state->bucket, now,
					 twin_packet_of(&state->held, state->held.queues[0].head)->size);
	if (!at.some)
		return TWIN_IDLE;
	return at.value <= now ? TWIN_NOW : at.value;
}

/* Whether options change without a new beginning: what is derived from them is not kept, but for a bucket. */
TWIN_INLINE bool twin_continues(const struct twin_options *options, const struct twin_options *before)
{
	return options->kind == before->kind &&
	       (options->kind <= TWIN_CODEL || options->kind == TWIN_PIE || twin_same_own(options, before));
}

/* Changes the rate of a token bucket. */
TWIN_INLINE void twin_set_rate(const struct twin_options *options, struct twin_state *state, u64 now, u64 rate)
{
	if (twin_has_bucket(options))
		bucket_token_bucket_set_rate(&state->bucket, twin_now(state, now), rate);
}

/* Whether the twin has this discipline, with room for its packets. */
TWIN_INLINE bool twin_supports(const struct twin_options *options)
{
	bool hashes = options->kind == TWIN_SFQ || options->kind == TWIN_FQ_CODEL;

	/* A packet more is held before another is dropped for it. */
	return (options->kind < TWIN_KINDS || twin_is_own(options)) && options->limit_packets < TWIN_SLOTS &&
	       (!hashes || (options->queues > 0 && options->queues <= TWIN_QUEUES)) &&
	       (options->kind != TWIN_MERED ||
		(options->records > options->limit_packets && options->records <= TWIN_RECORDS));
}

#endif
