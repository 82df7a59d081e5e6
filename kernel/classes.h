/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What FBC has of its classes, flows, hosts and promises: options of the user, and state. fbq.h and fbc.h decide. */
#ifndef TWIN_CLASSES_H
#define TWIN_CLASSES_H

#include "options.h"
#include "orders.h"

/* Classes, profiles and promises at most, powers of two. */
#define TWIN_FBQ_CLASSES 64
#define TWIN_FBQ_PROFILES 256
#define TWIN_FBQ_PROMISES 256
/* Flows with more than a weight, and entries of flows that were displaced, at most; powers of two. */
#define TWIN_FBQ_SPECIALS 4096
#define TWIN_FBQ_AWAY 4096
/* In place of a class: there is nothing to be done after the call. */
#define TWIN_FBQ_NOTHING (U32_MAX - 1)
/* Classes that no longer wait for a ceiling with one call, at most. */
#define TWIN_FBQ_RELEASES 2
/* Flows that end in one call, at most. */
#define TWIN_FBQ_ENDED 8
/* The profile of the flow of a class with a discipline: that of no rule. */
#define TWIN_FBQ_NO_PROFILE 0xffff

/* Sizes in bytes, times in nanoseconds, rates in bit/s. */
struct twin_fbq_class_options {
	/* Where the chassis counts for it. It keeps this in a change of structure, and with it what waits. */
	u64 account;
	u64 rate;
	u64 burst;
	u64 flow_burst;
	u64 priority;
	/* 1 where it may use the rate of others. */
	u64 borrows;
	u64 limit;
	u64 flow_limit;
	/* 1 where no flow exceeds its share: no hosts share such a class, and if it borrows it has no ceiling. */
	u64 strict;
	/* What a step of preference is of the rate, with 32 bits of fraction. */
	u64 increment;
	/* The ceiling: what it sends at most, borrowed rate included, and the burst above it; 0 for none. That of each of its hosts. */
	u64 most;
	u64 most_burst;
	u64 host_most;
	u64 host_most_burst;
	/* That of each of its flows. A class that is strict has none. */
	u64 flow_most;
	u64 flow_most_burst;
	/* 1 where its packets wait in a discipline; 0 where it has a queue for each flow. See fbc.h. */
	u64 inside;
	/* The queues of a flow at which its owner is told, rising and falling; 0 for neither. 1 where what arrives above is marked. */
	u64 feedback_above;
	u64 feedback_below;
	u64 feedback_marks;
	/* The wait from which packets of ECT(1) are marked; 0 for none. */
	u64 step;
};

struct twin_fbq_profile {
	/* With 16 bits of fraction. */
	u64 weight;
	u64 minimum;
	/* The rate below which a flow goes to another class, and that class plus 1; 0 for none. */
	u64 below;
	u64 to;
	/* The ceiling of its flows in a class together; 0 for none. */
	u64 most;
	u64 most_burst;
};

/* See promises.h. */
struct twin_fbq_promise {
	/* Another number is another promise; 0 is none. */
	u64 number;
	u64 class;
	u64 minimum;
	/* For how many flows rate is held. */
	u64 flows;
	/* Steps of preference. */
	u64 steps;
	/* As those of a profile, in place of them. */
	u64 below;
	u64 to;
};

struct twin_fbq_options {
	/* The total. */
	u64 rate;
	u64 burst;
	u64 idle_timeout;
	u64 flows;
	u64 catch_up;
	u64 classes;
	u64 profiles;
	/* Another number wherever anything but rates and promises has changed. */
	u64 structure;
	/* What waits in a class that there is no more goes to this one. */
	u64 default_class;
	/* Another number wherever the conditions of promises have changed. */
	u64 conditions;
	/* What shares a class equally: 0 flows, 1 hosts that send, 2 hosts that receive. */
	u64 fair_by;
	struct twin_fbq_class_options class[TWIN_FBQ_CLASSES];
	struct twin_fbq_profile profile[TWIN_FBQ_PROFILES];
	struct twin_fbq_promise promise[TWIN_FBQ_PROMISES];
	/* The disciplines in classes. Without classes the first is that of the interface. */
	struct twin_options inside[TWIN_FBQ_CLASSES];
};

/*
 * Where the places are: of flows in the orders of shares, of hosts and other groups in those of classes, of flows with more than a weight in that of
 * minimums, in three fillings, by preference and by threshold, and of classes in six orders.
 */
#define TWIN_HOSTS TWIN_QUEUES
#define TWIN_GUARANTEES (2 * TWIN_QUEUES)
#define TWIN_FILLED (TWIN_GUARANTEES + TWIN_FBQ_SPECIALS)
#define TWIN_PREFERENCES (TWIN_FILLED + 3 * TWIN_FBQ_SPECIALS)
#define TWIN_THRESHOLDS (TWIN_PREFERENCES + TWIN_FBQ_SPECIALS)
#define TWIN_UPCOMING (TWIN_THRESHOLDS + TWIN_FBQ_SPECIALS)
#define TWIN_ENTITLED (TWIN_UPCOMING + TWIN_FBQ_CLASSES)
#define TWIN_PREFERRED (TWIN_ENTITLED + TWIN_FBQ_CLASSES)
#define TWIN_BORROWERS (TWIN_PREFERRED + TWIN_FBQ_CLASSES)
#define TWIN_CEILINGS (TWIN_BORROWERS + TWIN_FBQ_CLASSES)
#define TWIN_FILLING (TWIN_CEILINGS + TWIN_FBQ_CLASSES)
_Static_assert(TWIN_FILLING + TWIN_FBQ_CLASSES <= TWIN_NODES, "there are places for all");

struct twin_fbq_flow {
	/* The virtual time at which its bucket was empty. */
	u128 start;
	/* For scheduling: its own, and what preference makes of it. */
	u64 weight;
	u64 minimum;
	u64 idle_since;
	/* What was sent of it and what was dropped, and how long the former waited. */
	qdisc_backlog sent, dropped;
	u64 waited;
	/* Those for which its promise was found. */
	u64 conditions;
	/* That of its host where hosts share the classes, otherwise its own. */
	u64 host_key;
	/* The bucket of its ceiling, if it has one. */
	bucket_token_bucket ceiling;
	u32 class;
	/* The class of its packets, from which it may be displaced. */
	u32 home;
	u32 profile;
	/* The place of its promise, plus 1. */
	u32 promise;
	/* Its host, or another group of flows; TWIN_NONE where it is in none. */
	u32 host;
	/* Its place among those with more than a weight, plus 1. */
	u32 special;
	bool present, granted, waits;
	/* Its queue has risen to the upper threshold of feedback, and not fallen to the lower one since. */
	bool above;
	/* The step marked its packet that left last, if that is of ECT(1). */
	bool stepped;
	/* It has a ceiling; its place is among those of its group that wait for theirs. */
	bool has_ceiling, held;
};

/* What only few flows have: a minimum, a preference, a threshold of displacement. */
struct twin_fbq_special {
	bucket_token_bucket guarantee;
	/* Its weight without preference, and what it asks for of the rate of its class beyond its share. */
	u64 plain, part;
	/* The threshold, and since when it has been in its class. */
	u64 below, moved;
	/* The class that it is displaced to, plus 1. */
	u32 to;
	u32 steps;
	u32 flow;
	/* A bit for each filling in which it is at its minimum. */
	u32 held;
	/* The neighbours among those whose minimum waits; the next of those that are free. */
	u32 wait_before, wait_next;
};

/*
 * A host that has flows in a class, or other flows that have a ceiling in common: those of a rule, or a single one with a ceiling of
 * its own.
 */
struct twin_fbq_host {
	/* That of the host or the flow, and the profile of the rule, plus 1; 0 for none. */
	u64 key;
	u32 rule;
	/* The virtual time of the class at which its share was empty, and that of its flows. */
	u128 start, virtual_now;
	/* Of its queues. */
	u64 bytes;
	/* The sum of the weights of its flows with a queue. */
	u64 queued_weight;
	/* Its flows, and those with a queue. */
	u32 flows, queued;
	/* The order of these, and of those that wait for their ceilings. */
	u32 share, held;
	u32 class;
	/* The next with the same hash of its key; the next of those of its class that are free. */
	u32 chain;
	/* Its number among those of its class. */
	u32 tie;
	/* Whether it is among those that wait for a ceiling, with the time until which it does. */
	bool waits;
	bucket_token_bucket ceiling;
};

/* See shares.h. */
struct twin_sum {
	u64 flows, minimum, weight, preferred_minimum, preferred_weight;
};

struct twin_filling {
	struct twin_sum all, held;
	/* Of the flows with a minimum those that are at it, the smallest ratio first, and the others, the largest first. */
	u32 at_minimum, above;
	bool is_balanced;
};

enum { TWIN_NOW_SHARED, TWIN_PLAIN, TWIN_REST, TWIN_FILLINGS };

/* A length of virtual time that was computed last: divisions take long, and packets mostly have the size of the one before. */
struct twin_fbq_length {
	u128 length;
	u64 bytes, by;
};

struct twin_fbq_class {
	/* Of a packet by the weight of its flow, of what a flow may save by that weight, and of a packet by the rate of the class. */
	struct twin_fbq_length packet, saved, borrowed;
	u128 virtual_now;
	/* Its position in the virtual time of borrowing. */
	u128 borrowed_until;
	bucket_token_bucket bucket, ceiling;
	qdisc_backlog backlog;
	/* Flows with a queue, and the sum of their granted minimums; that of all flows. Hosts with a queue. */
	u64 queued, queued_minimum, minimum, hosts_queued;
	/* What is held for flows that come under promises. */
	u64 held;
	/*
	 * The flow whose first packet leaves next, if has_candidate: since when it is selected, when its ceiling allows it, and when
	 * its bucket pays.
	 */
	u64 since, ready, due, size;
	u32 candidate, by;
	/* The orders of flows by their shares, except for those in groups, of groups, and of flows by their minimums. */
	u32 share, groups, guarantee;
	struct twin_list waiting;
	bool has_candidate, unsettled;
	/* Whether it uses its rate, or lends it: see lending.h. */
	bool uses;
	/* Where it is strict: since when virtual_now is that, and the rest of the division. */
	u64 virtual_at, virtual_rest;
	struct twin_filling fillings[4];
	/* The sum of what flows ask for by preference. */
	u64 parts;
	/* The flows that are preferred, in the order in which they are looked at; how many are to be, and the last that was. */
	u32 preferred, preferred_count, stale, weighed, round;
	/* The flows with a threshold, the largest first, and entries of those that were displaced from here. */
	u32 thresholds;
	struct twin_list away;
	/* Its hosts and other groups: how many there ever were, those that are free, and those that wait for a ceiling. */
	u32 hosts, free_host, waiting_hosts;
	/* The latest time as of which a flow was selected. */
	u64 host_time;
	/* Where it has a discipline: whether a packet that this has released is in its flow. */
	bool staged;
};

/* An entry of a flow that was displaced. */
struct twin_fbq_away {
	u64 key;
	u32 next;
};

/* Classes that have a candidate: those not yet found to be due, the others, and these by priority. */
struct twin_fbq_turns {
	u32 upcoming, entitled, preferred;
};

struct twin_fbq {
	u128 borrow_now;
	/* The time of the call. */
	u64 now;
	/* No class has a better priority. */
	u64 best_priority;
	bucket_token_bucket root;
	/* Classes that may borrow are among borrowers, or, while they wait for a ceiling, among those by the time until which they do. */
	u32 borrowers, ceilings;
	/* The second is of classes whose times are those of the clock. */
	struct twin_fbq_turns turns[2];
	/* See lending.h: whether any class has its times by the clock, and the sums of rates. */
	fbq_clock clock;
	u64 used, borrowing;
	/* Idle classes that still use their rates, by the time at which their buckets are full. */
	u32 filling;
	/* Of a call: the class whose use may have changed, or TWIN_NONE. */
	u32 used_by;
	bool lends;
	u32 flow_count, cursor;
	/* Why the last was refused that was. */
	qdisc_drop_reason refusal;
	/* Of a call, to its end: the class of the flow whose packet has arrived, or TWIN_NONE; see fbc.h. */
	u32 touched;
	/* The packet that arrives. Where its class has a discipline, it is queued in another flow, with another profile. */
	struct {
		u64 key, flow;
		u32 class, profile, flow_profile;
	} packet;
	/* Whether that is not dropped by limits of its class. */
	bool always;
	/* The flow whose queue has crossed a threshold of feedback in this call, plus 1, and the one whose packet the step marks; 0 for none. */
	u32 crossed, stepped;
	/* The class with a discipline whose packet has left, plus 1; 0 for none. */
	u32 departed;
	/*
	 * Classes whose discipline has packets and has released none into the flow of the class, a bit for each, and when each is to be asked
	 * again.
	 */
	u64 waiting, waits_until[TWIN_FBQ_CLASSES];
	/* In a call, the one that was asked last, and until when it had waited. */
	u32 asked_class;
	u64 asked_at;
	/* The flow of the packet that is alone, plus 1, and its slot; 0 for none: see fbc.h. */
	u32 alone, alone_slot;
	/* Of the promises of flows that ended in this call, their places, plus 1. */
	u32 ended_count, ended[TWIN_FBQ_ENDED];
	struct twin_list idle;
	struct twin_fbq_class classes[TWIN_FBQ_CLASSES];
	struct twin_fbq_flow flows[TWIN_QUEUES];
	/* How many there ever were, and those that are free. */
	u32 used_specials, free_special, used_hosts, used_away, free_away;
	struct twin_fbq_special specials[TWIN_FBQ_SPECIALS];
	struct twin_fbq_away away[TWIN_FBQ_AWAY];
	struct twin_fbq_host hosts[TWIN_QUEUES];
	u32 host_chains[TWIN_QUEUES];
	/* A number of 128 bits that a function is given or returns, and what is left of a division by it. */
	u128 wide;
	u64 rest;
	/* The virtual time in which a flow is served: see twin_fbq_find_served. */
	u128 served;
	/* The minimum that a flow is to have, and the weight that it had: see twin_fbq_grant_in_place. */
	u64 asked, before;
	/* The candidate of a class before another is selected. */
	struct {
		u64 since, ready, due, size;
		u32 candidate, by;
		bool is_any, always;
	} chosen;
	/* The bucket of the host of a flow that was the last of it, while the flow is between two classes; TWIN_NONE for no flow. */
	bucket_token_bucket carried;
	u32 carried_by;
	/* Whether the host was made that a flow has joined. */
	bool host_is_new;
	/* Of a flow, before it has others. */
	u32 steps;
	/* See twin_raise. */
	u64 wanted, free, left;
	fbq_slots slots[TWIN_FBQ_PROMISES];
	struct twin_orders orders;
};

TWIN_INLINE struct twin_fbq_flow *twin_fbq_flow_of(struct twin_fbq *fbq, u32 number)
{
	return &fbq->flows[twin_index(number, TWIN_QUEUES)];
}

TWIN_INLINE struct twin_fbq_class *twin_fbq_class_of(struct twin_fbq *fbq, u32 number)
{
	return &fbq->classes[twin_index(number, TWIN_FBQ_CLASSES)];
}

TWIN_INLINE struct twin_fbq_host *twin_fbq_host_of(struct twin_fbq *fbq, u32 number)
{
	return &fbq->hosts[twin_index(number, TWIN_QUEUES)];
}

TWIN_INLINE struct twin_fbq_special *twin_fbq_special_at(struct twin_fbq *fbq, u32 place)
{
	return &fbq->specials[twin_index(place, TWIN_FBQ_SPECIALS)];
}

/* Of a flow that has one. */
TWIN_INLINE struct twin_fbq_special *twin_fbq_special_of(struct twin_fbq *fbq, u32 number)
{
	return twin_fbq_special_at(fbq, twin_fbq_flow_of(fbq, number)->special - 1);
}

TWIN_INLINE const struct twin_fbq_class_options *twin_fbq_params(const struct twin_fbq_options *options, u32 class)
{
	return &options->class[twin_index(class, TWIN_FBQ_CLASSES)];
}

/* Whether the packets of a class wait in a discipline. */
TWIN_INLINE bool twin_fbq_has_inside(const struct twin_fbq_options *options, u32 class)
{
	return class < options->classes && twin_fbq_params(options, class)->inside == 1;
}

TWIN_INLINE struct twin_filling *twin_filling_of(struct twin_fbq_class *class, u32 k)
{
	return &class->fillings[twin_index(k, 4)];
}

TWIN_INLINE void twin_fbq_begin(const struct twin_fbq_options *options, struct twin_fbq *fbq)
{
	struct twin_list none = { .head = TWIN_NONE, .tail = TWIN_NONE };

	fbq->borrow_now = 0;
	fbq->root = bucket_token_bucket_full(options->rate, options->burst, 0);
	fbq->turns[0] = fbq->turns[1] = (struct twin_fbq_turns){ TWIN_NONE, TWIN_NONE, TWIN_NONE };
	fbq->borrowers = fbq->ceilings = fbq->filling = fbq->used_by = TWIN_NONE;
	fbq->clock = fbq_clock_new(0, 0);
	fbq->used = fbq->borrowing = 0;
	fbq->lends = false;
	fbq->waiting = 0;
	fbq->flow_count = fbq->cursor = fbq->ended_count = fbq->alone = fbq->departed = fbq->crossed = fbq->stepped = 0;
	fbq->used_specials = fbq->used_hosts = fbq->used_away = 0;
	fbq->free_special = fbq->free_away = fbq->carried_by = TWIN_NONE;
	fbq->idle = none;
	fbq->best_priority = U64_MAX;
	TWIN_FOR(u32, q, 0, TWIN_FBQ_CLASSES) {
		struct twin_fbq_class *class = twin_fbq_class_of(fbq, q);
		const struct twin_fbq_class_options *params = twin_fbq_params(options, q);

		*class = (struct twin_fbq_class){ .share = TWIN_NONE, .groups = TWIN_NONE, .guarantee = TWIN_NONE, .waiting = none };
		TWIN_FOR(u32, k, 0, TWIN_FILLINGS) {
			struct twin_filling *filling = twin_filling_of(class, k);

			filling->at_minimum = filling->above = TWIN_NONE;
		}
		class->preferred = class->thresholds = class->free_host = class->waiting_hosts = TWIN_NONE;
		class->away = none;
		if (q < options->classes) {
			fbq->best_priority = min_u64(fbq->best_priority, params->priority);
			fbq->lends |= params->strict == 1 && params->borrows == 1;
		}
		class->virtual_now = fbq_virtual_start();
		class->bucket = bucket_token_bucket_full(params->rate, params->burst, 0);
		class->ceiling = bucket_token_bucket_full(params->most, params->most_burst, 0);
	}
	TWIN_FOR(u32, flow, 0, TWIN_QUEUES) {
		twin_fbq_flow_of(fbq, flow)->granted = false;
		twin_fbq_flow_of(fbq, flow)->promise = 0;
		twin_fbq_flow_of(fbq, flow)->present = false;
		twin_fbq_flow_of(fbq, flow)->special = 0;
		fbq->host_chains[twin_index(flow, TWIN_QUEUES)] = TWIN_NONE;
	}
	TWIN_FOR(u32, place, 0, TWIN_FBQ_PROMISES) {
		fbq->slots[twin_index(place, TWIN_FBQ_PROMISES)] = (fbq_slots){0};
	}
	TWIN_FOR(u32, number, 0, TWIN_NODES) {
		twin_node_of(&fbq->orders, number)->rank = 0;
	}
}

#endif
