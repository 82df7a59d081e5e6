/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The kinds of disciplines and their options: of the only discipline of an interface, or of one in a class. */
#ifndef TWIN_OPTIONS_H
#define TWIN_OPTIONS_H

#include "integers.h"

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
	TWIN_FQ_PIE,
	TWIN_DUALPI2,
	TWIN_WRED,
	TWIN_RIO,
	TWIN_INGRESS,
	TWIN_RAS,
	TWIN_KINDS,
	/* Of fbc.h. */
	TWIN_FBQ = TWIN_KINDS,
	/* Of own.h. */
	TWIN_OWN,
	/* Of cbq.h. */
	TWIN_CBQ,
	/* Of cake.h. */
	TWIN_CAKE,
};

/* The most points of a table of values, a power of two, and the longest length in it. */
#define TWIN_POINTS 16
#define TWIN_POINT_LENGTH ((1ull << 48) - 1)

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
	/* tbf; of ingress the rate and the limit of its virtual queue. */
	u64 rate;
	u64 burst;
	/* codel, fq_codel; the target also pie, fq_pie and dualpi2. The interval also of adaptation (ared) and of updates (the others). */
	u64 target;
	u64 interval;
	/* Of ingress the packet in which its virtual queue is counted. */
	u64 mtu;
	/* 0 for none. */
	u64 longest;
	/* 1 to mark packets that can be marked instead of dropping them. */
	u64 marks;
	/* red, ared, mered, wred, rio: the thresholds in packets, or in bytes where in_bytes is 1. Of wred and rio those of green packets. */
	u64 min;
	u64 max;
	u64 in_bytes;
	u64 max_p;
	u64 weight;
	/* 1 for gentle, 2 for marks. */
	u64 above_max;
	/* 1 for geometric gaps. */
	u64 spacing;
	u64 idle_packet;
	/* red, ared, pie: the mean packet, by which the probability is scaled; 0 for all packets alike. */
	u64 mean;
	/* pie, fq_pie. Alpha and beta in 1/16 per second, of dualpi2 in 1/1000. */
	u64 allowance;
	u64 alpha;
	u64 beta;
	u64 least_queue_mean;
	u64 most_marked;
	/* drr, sfq, fq_codel, fq_pie. */
	u64 quantum;
	u64 queues;
	/* sfq: 0 for never. */
	u64 perturb;
	u64 seed;
	/* red, ared, pie, wred, rio: the state and the step of the random stream, each with the upper half first. */
	u64 random[4];
	/* mered, which is meredt as well, and ingress, beside the fields of ared. The longest flow that is a mouse. */
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
	/* The value of an elephant by its length: how many points there are, of each the length in 48 bits, and above them the value. */
	u64 points;
	u64 values[16];
	/* The part of the probability of its drops that is in proportion to its value. */
	u64 fairness;
	/* dualpi2: k; from which delay on marks begin. */
	u64 coupling;
	u64 step_from;
	/* The delay from which all packets of ECT(1) are marked: of dualpi2, and of drr, fq_codel and cake, where 0 is none. */
	u64 step_full;
	/* The parts of which the classic queue sends one; 0 for turns by time, in which the other queue counts as older by the shift. */
	u64 parts;
	u64 shift;
	/* 1 where packets of the code point NQB have a low delay. */
	u64 nqb;
	/* Queue protection, none where the first is 0: a delay, the score that is too much at it, and the bytes by which it ages in a second. */
	u64 critical;
	u64 score;
	u64 ageing;
	/* wred, rio: the curves of yellow and of red packets, and their random streams. */
	u64 yellow_min;
	u64 yellow_max;
	u64 yellow_max_p;
	u64 red_min;
	u64 red_max;
	u64 red_max_p;
	u64 more_random[8];
	/* rio: 1 where the average of a colour counts better ones as well. */
	u64 coupled;
	/*
	 * ras, beside its buffer, which is the limit in bytes, and the interval, over which it averages: the committed, the peak and the maximum
	 * rate, the second 0 for the single rate shaper; up to, at and from which occupancy it shapes to these; the lateness that it makes up
	 * for; 1 where it releases a packet earlier that its meter would colour green.
	 */
	u64 shaping_rates[3];
	u64 shaping_bytes[3];
	u64 slack;
	u64 green;
	/*
	 * The meter of a marker around the discipline, or of ras: 1 srTCM, 2 trTCM, 3 RFC 4115, 4 TSWTCM, 0 none; 1 where it is behind the
	 * discipline, 2 for ras; 1 where the colour of an arriving packet counts. Rates and bursts: committed, and peak or excess.
	 */
	u64 meter;
	u64 meter_exit;
	u64 meter_aware;
	u64 meter_rates[2];
	u64 meter_bursts[2];
	u64 meter_window;
	u64 meter_random[4];
	/* What becomes of green, yellow and red packets: 0 they pass, 1 they are dropped, else 2 and their code point. */
	u64 actions[3];
	/* own, beside the rate and the burst of a bucket, 0 for none: the parameters of its decider, in the order of their fields. */
	u64 own[16];
	/*
	 * cake, beside its limits, queues, quantum, random, the target, the interval, the mtu and marks of codel, and rate, 0 for none, with
	 * burst for the depth of the line. What the line adds to a packet, the least that one takes there, and the framing by its number in
	 * the core.
	 */
	u64 overhead;
	u64 least;
	u64 framing;
	/* How many tins there are; of each the weight, and in the upper half the 16ths of the rate for which it goes first. */
	u64 tins;
	u64 tin[4];
	/* The tin of each code point, in two bits. */
	u64 tin_of[2];
	/* The hosts that share a tin: 0 for none, 1 senders, 2 receivers, 3 pairs. */
	u64 hosts;
	/* 1 where later acknowledgements replace earlier ones. */
	u64 ack_filter;
	/* Without classes: where the chassis counts. */
	u64 account;
	/* Which of the two in struct twin_rules are in force, in the lowest bit; above it another number where the rules are others. */
	u64 rules;
	/* Last, in the kernel: odd while the others are written, and another number each time. */
	u64 changes;
};

#endif
