/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The disciplines: which decider is asked when, over the queues of queues.h; here what a packet does that arrives, and in departures.h
 * which one leaves. A chassis has the packets, each in a slot; it calls these with integers and does with its packets what they
 * return. host.c is a chassis for tests, chassis.bpf.c the one in the kernel.
 */
#ifndef TWIN_DISCIPLINES_H
#define TWIN_DISCIPLINES_H

#include "options.h"
#include "records.h"

/* Disciplines at most, a power of two: of an interface the first, of classes as many as there may be classes. */
#define TWIN_DISCIPLINES 64

/* The packet that arrives, of the flow `key`, between the hosts `pair`, and how many arrived before it. */
struct twin_arrival {
	u64 number, size, key, pair;
	u32 class;
	/* As of a packet in a slot. */
	u32 service, segments;
	/* Whether as far as there are slots it is not dropped; when it is accepted, whether it can be marked, and is to be. */
	bool always, capable, marked;
	/* cake: as of a packet in a slot. */
	bool is_ack;
};

/* Queue protection of dualpi2: the buckets that flows can own, a power of two, and the places where packets under sanction are counted. */
#define TWIN_BUCKETS 32
#define TWIN_PLACES 1024

struct twin_protection {
	protection_bucket buckets[TWIN_BUCKETS], shared;
	u32 waiting[TWIN_PLACES];
};

/* The meter of a marker: token buckets, or a window of time. */
struct twin_meter {
	two_bucket_buckets buckets;
	tswtcm_tsw_tcm window;
};

/* A colour with wred and rio: the packets that wait, their average, and who is dropped by it; the average of wred is that of the first. */
struct twin_lane {
	red_average average;
	red_dropper dropper;
	qdisc_backlog queue;
};

/* As many as colours, to a power of two. */
#define TWIN_LANES 4

struct twin_discipline {
	struct twin_arrival arrives;
	/* Of the packets that wait in it. */
	qdisc_backlog backlog;
	struct twin_room room;
	/* Why the last was refused that was, and why one is dropped that leaves. */
	qdisc_drop_reason refusal, loss;
	/* What becomes of the first packet of a queue, from one step of a call of dequeue to the next. */
	codel_call call;
	bucket_token_bucket bucket;
	/* Of all queues together. */
	codel_stats stats;
	/* red is this without adaptation. */
	ared_ared ared;
	pie_stats pie_stats;
	random_stream random;
	round_turns turns;
	sfq_hash hash;
	meredt_floor floor;
	meredt_mean_value mean;
	/* mered and ingress: the record of the flow of the packet that arrives, its value, and whether it is a mouse. */
	u32 record;
	u32 value;
	bool is_mouse;
	/* ingress: nothing is in its virtual queue, which is what the bucket lacks; the largest packet of an elephant. */
	bool is_unused;
	u64 largest;
	/* Queues that take turns; fq_codel and fq_pie: those that just became busy, and the others. */
	struct twin_list active, fresh;
#ifdef TWIN_WITH_OWN
	own_decider own;
#endif
	/* fq_codel, fq_pie: how often a packet arrived while none was queued. */
	u64 busy_period;
	struct twin_lengths lengths;
	decider_state dualpi2;
	struct twin_lane lanes[TWIN_LANES];
	struct twin_meter meter;
	ras_schedule ras;
	struct twin_protection protection;
};

struct twin_state {
	/* Packets that arrived. */
	u64 arrived;
	struct twin_discipline disciplines[TWIN_DISCIPLINES];
	struct twin_held held;
};

#include "own.h"
#include "cake.h"

TWIN_INLINE bool twin_is_fair(const struct twin_options *options)
{
	return (options->kind >= TWIN_DRR && options->kind <= TWIN_FQ_CODEL) || options->kind == TWIN_FQ_PIE || twin_is_cake(options);
}

/* The bits of congestion of a scalable sender. */
#define TWIN_ECT1 1

/* Whether a packet can be marked. */
TWIN_INLINE bool twin_is_capable(u32 service)
{
	return (service & 3) != 0;
}

/* Whether the step, where there is one, marks a packet of ECT(1) that waited for a time in the queue of a flow, which it has left. */
TWIN_INLINE bool twin_is_late(struct twin_held *held, u32 number, u64 step, u64 waited)
{
	return step != 0 && waited >= step && twin_queue_of(held, number)->backlog.packets >= step_least_behind();
}

/* Whether the step marks the packet of a slot, which has left the queue of its flow. */
TWIN_INLINE bool twin_is_stepped(const struct twin_options *options, struct twin_held *held, u32 number, u32 slot)
{
	const struct twin_packet *packet = twin_packet_of(held, slot);

	return (packet->service & 3) == TWIN_ECT1 &&
	       twin_is_late(held, number, options->step_full, saturating_sub_u64(held->latest, packet->at));
}

/* Whether the kind delays packets by RAS. */
TWIN_INLINE bool twin_is_ras(const struct twin_options *options)
{
	return options->kind == TWIN_RAS;
}

/* Whether the colours of packets matter. */
TWIN_INLINE bool twin_is_coloured(const struct twin_options *options)
{
	return options->kind == TWIN_WRED || options->kind == TWIN_RIO;
}

/* Whether the code point and the bits of congestion of packets matter. */
TWIN_INLINE bool twin_has_service(const struct twin_options *options)
{
	return options->kind == TWIN_DUALPI2 || twin_is_cake(options) || twin_is_coloured(options) || options->meter != 0;
}

/* Whether each of many queues has a control law. */
TWIN_INLINE bool twin_is_controlled(const struct twin_options *options)
{
	return options->kind == TWIN_FQ_CODEL || options->kind == TWIN_FQ_PIE;
}

/* Whether it tells mice from elephants, by records of flows. */
TWIN_INLINE bool twin_measures(const struct twin_options *options)
{
	return options->kind == TWIN_MERED || options->kind == TWIN_INGRESS;
}

/* Whether the keys of flows matter. */
TWIN_INLINE bool twin_has_flows(const struct twin_options *options)
{
	return twin_is_fair(options) || twin_measures(options) || options->kind == TWIN_DUALPI2;
}

/* Whether it matters between which hosts a packet is. */
TWIN_INLINE bool twin_has_pairs(const struct twin_options *options)
{
	return twin_measures(options) && (options->by_pair == 1 || options->pair_threshold != 0);
}

/* The key of a pair of hosts, as crates/core/src/packet.rs has it. */
TWIN_INLINE u64 twin_pair_of(u64 source, u64 destination)
{
	return rotate_left_u64(source * 0x9e3779b97f4a7c15ull, 29) ^ destination;
}

/* The queues that a discipline needs. */
TWIN_INLINE u64 twin_queues(const struct twin_options *options)
{
	if (twin_is_fair(options))
		return options->queues;
	if (options->kind == TWIN_DUALPI2)
		return 3;
	return options->kind == TWIN_MERED ? 2 : 1;
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
			.above_max = options->above_max == 1 ? RED_ABOVE_MAX_GENTLE :
				     options->above_max == 2 ? RED_ABOVE_MAX_MARK : RED_ABOVE_MAX_CLIFF,
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
	return options->kind == TWIN_ARED || twin_measures(options);
}

#include "meters.h"
#include "dualpi2.h"
#include "coloured.h"
#include "ras.h"

/* A beginning has four parts, since the stack of the kernel is small. First what red and what adapts as ared does need. */
TWIN_INLINE void twin_begin_aqm(const struct twin_options *options, struct twin_discipline *discipline, struct twin_tables *tables)
{
	random_stream random = random_stream_from_parts(options->random[0], options->random[1], options->random[2],
							options->random[3]);

	discipline->random = random;
	if (options->kind == TWIN_RED || twin_has_ared(options))
		discipline->ared.red = red_red_drawing(twin_red(options), random);
	if (twin_measures(options)) {
		discipline->floor = meredt_floor_new(options->floor, options->kind == TWIN_MERED ? options->floor_credit : 0);
		discipline->mean = (meredt_mean_value){0};
		discipline->is_unused = true;
		discipline->largest = 0;
		if (tables) {
			twin_table_begin(&tables->flows);
			twin_table_begin(&tables->pairs);
		}
	}
	if (options->kind == TWIN_DUALPI2)
		twin_begin_coupled(options, discipline);
	discipline->pie_stats = (pie_stats){0};
}

/* Then what ared has beyond red. */
TWIN_INLINE void twin_begin_adapting(const struct twin_options *options, struct twin_discipline *discipline)
{
	if (twin_has_ared(options))
		discipline->ared = ared_ared_adapting(discipline->ared.red, options->interval);
}

/* Then the colours of wred and rio. */
TWIN_INLINE void twin_begin_lanes(const struct twin_options *options, struct twin_discipline *discipline)
{
	for (u32 colour = 0; twin_is_coloured(options) && colour < TWIN_COLOURS; colour++)
		twin_begin_lane(options, discipline, colour);
}

/*
 * And that no packet waits in it, at the latest time of any call: its queues are empty, of which the first is given. Slots stay as
 * they are.
 */
TWIN_INLINE void twin_begin_queues(const struct twin_options *options, struct twin_discipline *discipline, struct twin_held *held,
				   u32 first)
{
	struct twin_list none = { .head = TWIN_NONE, .tail = TWIN_NONE };

	discipline->backlog = (qdisc_backlog){0};
	discipline->room = (struct twin_room){ .first = first, .count = twin_queues(options), .free = TWIN_NONE };
	discipline->call = (codel_call){0};
	discipline->bucket = bucket_token_bucket_full(options->rate, options->burst, held->latest);
	discipline->stats = (codel_stats){0};
	discipline->turns = round_turns_of(options->quantum);
	discipline->active = discipline->fresh = none;
	twin_no_lengths(&discipline->lengths);
	if (options->kind == TWIN_SFQ) {
		option_units_span perturb = { .some = options->perturb != 0, .value = options->perturb };

		discipline->hash = sfq_hash_new(options->seed, options->queues, perturb);
	}
	twin_begin_own(options, discipline);
	if (options->meter != 0)
		twin_begin_meter(options, discipline, held->latest);
	if (twin_is_ras(options))
		twin_begin_ras(options, discipline);
	if (twin_is_cake(options))
		twin_begin_cake(options);
	if (options->kind == TWIN_PIE || options->kind == TWIN_FQ_PIE) {
		pie_params params = twin_pie(options);

		TWIN_FOR(u32, i, 0, TWIN_SPACE) {
			if (i >= discipline->room.count)
				break;
			twin_control_of(held, first + i)->pie = pie_state_new(&params);
		}
	}
}

/* Forgets all packets and times. */
TWIN_INLINE void twin_forget_all(struct twin_state *state)
{
	state->held.latest = state->arrived = 0;
	state->held.free = TWIN_NONE;
	state->held.used = 0;
}

#include "mered.h"
#include "ingress.h"

/*
 * Whether the packet that arrives is queued. In several functions, since the kernel's verifier follows the ways through a function with
 * those through all that are a part of it.
 */
TWIN_GLOBAL u32 twin_admits_early(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN, u64 now)
{
	fifo_limit limit = { .packets = options->limit_packets, .bytes = options->limit_bytes };
	struct twin_arrival *arrives = &discipline->arrives;
	red_red *red = &discipline->ared.red;
	red_zone zone = options->kind == TWIN_RED ? red_red_observe(red, now, discipline->backlog)
						  : ared_ared_observe(&discipline->ared, now, discipline->backlog);
	aqm_verdict verdict = red_dropper_judge(&red->dropper, &red->params.early, zone, arrives->size, arrives->capable);

	if (verdict.kind == AQM_VERDICT_DROP)
		discipline->refusal = verdict.drop;
	if (verdict.kind == AQM_VERDICT_DROP || !fifo_limit_admits(&limit, discipline->backlog, arrives->size))
		return false;
	arrives->marked = verdict.kind == AQM_VERDICT_MARK;
	red_red_on_busy(red);
	return true;
}

/* Makes the next update of a queue of PIE, if it is due by the latest time of any call. Returns whether another may be. */
TWIN_GLOBAL u32 twin_update_pie(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN,
				struct twin_held *held TWIN_GIVEN, u32 number)
{
	pie_params params = twin_pie(options);

	return pie_state_update_if_due(&twin_control_of(held, number)->pie, &params, &discipline->pie_stats, held->latest);
}

/* Makes those that are due, as the core does. */
TWIN_GLOBAL u32 twin_catch_up_pie(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN,
				  struct twin_held *held TWIN_GIVEN, u32 number)
{
	pie_params params = twin_pie(options);

	TWIN_FOR(u32, i, 0, pie_most_updates()) {
		if (!twin_update_pie(options, discipline, held, number))
			break;
	}
	pie_state_skip_missed(&twin_control_of(held, number)->pie, &params, held->latest);
	return 0;
}

/* For a queue of PIE, of those of fq_pie that of the flow; all queues of that have a limit together. */
TWIN_GLOBAL u32 twin_admits_pie(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN,
				struct twin_held *held TWIN_GIVEN)
{
	fifo_limit limit = { .packets = options->limit_packets, .bytes = options->limit_bytes };
	struct twin_arrival *arrives = &discipline->arrives;
	pie_params params = twin_pie(options);
	u32 number = discipline->room.first;
	pie_state *pie;

	if (options->kind == TWIN_FQ_PIE)
		number += round_spread(arrives->key, options->queues);
	pie = &twin_control_of(held, number)->pie;
	twin_catch_up_pie(options, discipline, held, number);
	if (options->kind == TWIN_PIE && !fifo_limit_admits(&limit, discipline->backlog, arrives->size))
		return false;
	if (!pie_state_unlucky(pie, &params, &discipline->random, arrives->size, twin_queue_of(held, number)->backlog))
		return true;
	arrives->marked = arrives->capable && pie_state_signal(pie, &params) == RED_SIGNAL_MARK;
	discipline->refusal = QDISC_DROP_REASON_EARLY;
	return arrives->marked;
}

TWIN_INLINE bool twin_admits(const struct twin_options *options, struct twin_discipline *discipline, struct twin_held *held)
{
	fifo_limit limit = { .packets = options->limit_packets, .bytes = options->limit_bytes };
	u64 size = discipline->arrives.size, now = held->latest;

	if (twin_is_fair(options) && (size > limit.bytes || limit.packets == 0))
		return false;
	if (options->kind == TWIN_PIE || options->kind == TWIN_FQ_PIE)
		return twin_admits_pie(options, discipline, held);
	if (twin_is_fair(options))
		return true;
	if (options->kind == TWIN_MERED)
		return twin_admits_measured(options, discipline, held);
	if (options->kind == TWIN_INGRESS)
		return twin_admits_virtually(options, discipline, held);
	if (options->kind == TWIN_DUALPI2)
		return twin_admits_coupled(options, discipline, held);
	if (twin_is_coloured(options))
		return twin_admits_coloured(options, discipline, now);
	if (twin_is_ras(options))
		return twin_admits_ras(options, discipline, now);
	if (twin_is_own(options))
		return twin_admits_own(options, discipline, now);
	if (options->kind == TWIN_RED || options->kind == TWIN_ARED)
		return twin_admits_early(options, discipline, now);
	if (options->kind == TWIN_TBF && size > bucket_token_bucket_depth(&discipline->bucket)) {
		discipline->refusal = QDISC_DROP_REASON_LARGER_THAN_BURST;
		return false;
	}
	return fifo_limit_admits(&limit, discipline->backlog, size);
}

/* The queue of a packet that is queued now, among those of the discipline. Flows beyond the queues of drr share its first. */
TWIN_INLINE u32 twin_queue_for(const struct twin_options *options, struct twin_discipline *discipline, struct twin_held *held, u64 key)
{
	u32 first = discipline->room.first;

	if (options->kind == TWIN_DRR) {
		u32 number = twin_flow(held, &discipline->room, key);

		return number == TWIN_NONE ? first : number;
	}
	if (twin_is_controlled(options))
		return first + round_spread(key, options->queues);
	if (options->kind == TWIN_MERED)
		return first + (discipline->is_mouse ? TWIN_MICE : TWIN_ELEPHANTS);
	if (options->kind == TWIN_DUALPI2)
		return twin_queue_coupled(options, discipline, held);
	if (options->kind == TWIN_SFQ) {
		option_u32 before;

		sfq_hash_change(&discipline->hash, held->latest);
		before = sfq_hash_queue_before(&discipline->hash, key);
		if (before.some && twin_queue_of(held, first + before.value)->backlog.packets != 0 &&
		    sfq_hash_keeps(&discipline->hash, twin_control_of(held, first + before.value)->since))
			return first + before.value;
		return first + sfq_hash_queue(&discipline->hash, key, discipline->hash.epoch);
	}
	return first;
}

/* Puts the packet of a slot into its queue. */
TWIN_GLOBAL u32 twin_put(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN,
			 struct twin_held *held TWIN_GIVEN, u32 slot)
{
	struct twin_packet *packet = twin_packet_of(held, slot);
	u32 number;
	struct twin_control *control;

	if (twin_is_cake(options))
		return twin_put_cake(options, discipline, held, slot);
	number = twin_queue_for(options, discipline, held, packet->key);
	control = twin_control_of(held, number);
	if (options->kind == TWIN_SFQ && twin_queue_of(held, number)->backlog.packets == 0)
		control->since = sfq_hash_entered(&discipline->hash);
	if (twin_is_controlled(options) && discipline->backlog.packets == 0) {
		discipline->active = discipline->fresh = (struct twin_list){ .head = TWIN_NONE, .tail = TWIN_NONE };
		discipline->busy_period++;
	}
	twin_push(held, number, slot);
	qdisc_backlog_add(&discipline->backlog, packet->size);
	if (twin_is_coloured(options))
		twin_queued_coloured(options, discipline, packet);
	if (twin_is_ras(options))
		twin_queued_ras(options, discipline, held->latest);
	if (!twin_is_fair(options))
		return 0;
	twin_classify(held, &discipline->lengths, number);
	if (twin_is_controlled(options)) {
		if (control->place == FLOW_QUEUES_PLACE_OFF || control->since != discipline->busy_period) {
			control->place = FLOW_QUEUES_PLACE_NEW;
			control->since = discipline->busy_period;
			control->deficit = round_deficit_starting_with(options->quantum);
			twin_list_append(held, &discipline->fresh, number);
		}
	} else if (round_turns_queued(&discipline->turns, &control->allowance, packet->size)) {
		twin_list_append(held, &discipline->active, number);
	}
	return 0;
}

/*
 * A packet arrives, which is discipline->arrives, at the latest time of any call. Returns its slot, or TWIN_NONE where it is dropped.
 * tables: NULL for all kinds that do not measure flows, here and below.
 */
TWIN_INLINE u32 twin_accept(const struct twin_options *options, struct twin_discipline *discipline, struct twin_held *held,
			    struct twin_tables *tables)
{
	struct twin_arrival *arrives = &discipline->arrives;
	struct twin_packet *packet;
	u32 slot;

	arrives->capable = twin_is_capable(arrives->service);
	arrives->marked = false;
	arrives->service = twin_with_colour(arrives->service, twin_colour_of(arrives->service));
	if (options->meter != 0 && options->meter_exit == 0 && !arrives->always) {
		discipline->refusal = QDISC_DROP_REASON_POLICED;
		arrives->service = twin_condition(options, discipline, held->latest, arrives->size, arrives->service);
		if (arrives->service == TWIN_NONE)
			return TWIN_NONE;
	}
	discipline->refusal = QDISC_DROP_REASON_QUEUE_LIMIT;
	if (tables && !twin_measure(options, discipline, held, tables))
		return TWIN_NONE;
	if (!twin_admits(options, discipline, held) && !arrives->always)
		return TWIN_NONE;
	slot = twin_take_slot(held);
	if (slot == TWIN_NONE)
		return TWIN_NONE;
	packet = twin_packet_of(held, slot);
	packet->size = arrives->size;
	packet->came = packet->at = held->latest;
	packet->number = arrives->number;
	packet->service = arrives->service;
	packet->key = arrives->key;
	packet->class = arrives->class;
	packet->profile = 0;
	if (twin_is_cake(options))
		twin_note_cake(arrives, packet);
	twin_put(options, discipline, held, slot);
	if (tables && options->kind == TWIN_MERED)
		twin_measured(discipline, tables, packet);
	return slot;
}

/*
 * Queues a packet again that was taken out of the queues. With a beginning between, the discipline begins anew with what waits:
 * nothing is dropped, and packets of a flow stay in order, since they were in one queue, or in that of mice before that of
 * elephants.
 */
TWIN_INLINE void twin_put_again(const struct twin_options *options, struct twin_discipline *discipline, struct twin_held *held,
				struct twin_tables *tables, u64 pair, u32 slot)
{
	struct twin_packet *packet = twin_packet_of(held, slot);

	/* More packets may wait than there are records for by the options. */
	discipline->arrives = (struct twin_arrival){
		.size = packet->size, .key = packet->key, .pair = pair, .service = packet->service, .always = true,
	};
	if (tables && options->kind == TWIN_MERED)
		twin_measure(options, discipline, held, tables);
	twin_put(options, discipline, held, slot);
	if (tables && options->kind == TWIN_MERED)
		twin_measured(discipline, tables, packet);
	else if (options->kind != TWIN_INGRESS)
		red_red_on_busy(&discipline->ared.red);
}

/* Whether options change without a new beginning: what is derived from them is not kept, but for a bucket. */
TWIN_INLINE bool twin_continues(const struct twin_options *options, const struct twin_options *before)
{
	return options->kind == before->kind &&
	       (options->kind <= TWIN_CODEL || options->kind == TWIN_PIE || twin_same_own(options, before));
}

/* Changes the rate of a token bucket. */
TWIN_INLINE void twin_set_rate(const struct twin_options *options, struct twin_discipline *discipline, u64 now, u64 rate)
{
	if (twin_has_bucket(options))
		bucket_token_bucket_set_rate(&discipline->bucket, now, rate);
}

/* Whether the twin has this discipline, with room for its packets; how many queues there are for it is another question. */
TWIN_INLINE bool twin_supports(const struct twin_options *options)
{
	/* A packet more is held before another is dropped for it. */
	return (options->kind < TWIN_KINDS || twin_is_own(options) || (twin_is_cake(options) && twin_supports_cake(options))) &&
	       options->limit_packets < TWIN_SLOTS && options->meter < TWIN_METERS &&
	       (!twin_is_fair(options) || options->queues > 0) && twin_queues(options) <= TWIN_SPACE &&
	       (!twin_measures(options) || (options->records > options->limit_packets && options->records <= TWIN_RECORDS)) &&
	       (options->kind != TWIN_INGRESS || options->mtu > 0);
}

#endif
