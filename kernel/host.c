/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A chassis for tests: reads operations, writes decisions. A record is six numbers of 64 bits: what, the time, and four
 * arguments; kernel/translator/src/reference.rs describes both. A record of zeros writes what was decided so far.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Every discipline that the twin has. */
#define TWIN_WITH_CAKE
#include "rates.h"
#include "reshape.h"

/* The bytes of a packet. */
typedef struct {
	const u8 *first;
	u32 count;
} twin_bytes;

static bool twin_read(const twin_bytes *bytes, u32 at, u8 *to, u32 count)
{
	if (at > bytes->count || count > bytes->count - at)
		return false;
	memcpy(to, bytes->first + at, count);
	return true;
}

/* From a network header on; beyond the end are zeros. */
typedef twin_bytes twin_start;

static u64 twin_word(twin_start start, u32 i)
{
	u64 word = 0;

	for (u32 at = 8 * i; at < 8 * i + 8; at++)
		word = word << 8 | (at < start.count ? start.first[at] : 0);
	return word;
}

#include "plain.h"

enum { FLUSH, ENQUEUE, DEQUEUE, SET_RATE, BEGIN, RULES, CLASSIFY, PROMISE, TERMS, LEAF, COUNTS };

/* Result, drops and marks, which were dropped, deadline, packets, bytes. */
struct decision {
	u64 result, drops, which, deadline, packets, bytes;
};

static struct twin_options options;
static struct twin_state state;
static struct twin_tables tables_of_mered;
/* Of the kind TWIN_FBQ, whose packets are in the state too. */
static struct twin_fbq_options fbq_options;
static struct twin_fbq fbq;
/* Of the kind TWIN_CBQ, whose classes have their disciplines as those of TWIN_FBQ. */
static struct twin_cbq_options tree;
static struct twin_cbq cbq;
/* Of the packet that arrives: the place of its promise, plus 1, and the key of its host. */
static u32 promise;
static u64 host;
/* Of the promise that is made next: steps of preference, a threshold, and the class below it, plus 1. */
static u64 terms[3];

TWIN_GLOBAL u32 twin_know_flow(u32 number)
{
	(void)number;
	return promise;
}

TWIN_GLOBAL u64 twin_know_host(u64 fair_by)
{
	(void)fair_by;
	return host;
}

static struct twin_rules rules;
/* Which are in force. */
static u64 which;
static struct twin_memory memory;

/* Takes other rules, of the number of numbers that the record has. */
static bool take_rules(const u64 *record)
{
	/* Those in force are not written. */
	u64 next = !which;

	if (record[1] > TWIN_RULES || fread(rules.numbers + next * TWIN_RULES, 8, record[1], stdin) != record[1])
		return false;
	which = next;
	memory.rules++;
	return true;
}

/* A frame of Ethernet: the bytes that were captured, and its length; mark, user and control group, or a number beyond each. */
static bool classify_frame(const u64 *record, struct decision *decision)
{
	static u8 frame[65536];
	const u64 *numbers = twin_rules_in_force(&rules, which);
	u32 first = U32_MAX;
	twin_bytes bytes = { frame, record[1] };
	struct twin_fields fields = { .known = 0 };
	struct twin_class_of of;
	struct twin_plain plain;
	struct twin_kept *kept;
	u8 type[2];
	bool is_plain;

	if (record[1] > sizeof(frame) || fread(frame, 1, record[1], stdin) != record[1])
		return false;
	twin_know(&fields, TWIN_PACKET_MARK, 0, record[3]);
	if (record[4] <= U32_MAX)
		twin_know(&fields, TWIN_UID, 0, record[4]);
	/* Then those that have it: each has half of its number. */
	for (u64 group = record[5]; record[5] != U64_MAX && group != 0; group = group < TWIN_INTERFACES ? group / 2 : 0)
		twin_know_group(numbers, group, &first, &fields);
	is_plain = record[1] >= 14 && twin_read(&bytes, 12, type, 2) &&
		   twin_read_plain((twin_start){ frame + 14, record[1] - 14 }, twin_be16(type), min_u64(record[1], record[2]) - 14, &plain);
	kept = is_plain ? twin_kept_at(&memory, twin_place_of(&plain)) : NULL;
	if (is_plain && !twin_needs_traits(numbers))
		twin_know_plain(&plain, &fields);
	else if (twin_read(&bytes, 12, type, 2))
		twin_dissect(&bytes, 14, twin_be16(type), record[2], record[1], &fields);
	if (kept && twin_is_kept(kept, &plain, twin_under(&memory, record[3]))) {
		of = kept->of;
		/* The same from what is kept, but for the owner, which no rule is about. */
		fields.known &= 1 << TWIN_UID | 1 << TWIN_CGROUP;
		twin_know_plain(&kept->plain, &fields);
		twin_know(&fields, TWIN_PACKET_MARK, 0, (u32)kept->under);
	} else {
		twin_find_class(numbers, &fields, &of);
		if (kept)
			twin_keep(numbers, kept, &plain, twin_under(&memory, record[3]), &of);
	}
	*decision = (struct decision){ of.class, of.profile | (u64)twin_find_promise(numbers, &fields) << 32, of.flow, twin_host_key(numbers, &fields, TWIN_SOURCE),
				       twin_host_key(numbers, &fields, TWIN_DESTINATION),
				       fields.is_fragment << 49 | fields.more << 48 | fields.fragment_at << 32 | fields.fragment_id };
	return true;
}

static bool has_classes(void)
{
	return options.kind == TWIN_FBQ || options.kind == TWIN_CBQ;
}

/* The options of the discipline of a class, or without classes those of the only one. */
static struct twin_options *options_of(u32 q)
{
	return has_classes() ? &fbq_options.inside[q] : &options;
}

static struct twin_tables *tables(const struct twin_options *of)
{
	return twin_measures(of) ? &tables_of_mered : NULL;
}

/* Drops the packet of a slot that has left its queue. */
static void drop(struct decision *decision, u32 slot)
{
	decision->drops += 2;
	decision->which += twin_packet_of(&state.held, slot)->number + 1;
	twin_free_slot(&state.held, slot);
}

static void refuse(struct decision *decision, u64 number)
{
	decision->drops += 2;
	decision->which += number + 1;
}

/* The flow whose queue has crossed a threshold in the call: the upper two bits. */
static u64 crossed(void)
{
	if (options.kind != TWIN_FBQ || fbq.crossed == 0)
		return 0;
	return twin_fbq_flow_of(&fbq, fbq.crossed - 1)->above ? 1ull << 63 : 1ull << 62;
}

/* Whether the call is an arrival. */
static bool arrives;

/* The slot of the packet that a discipline releases; TWIN_NONE for none. */
static u32 release(u32 q, struct decision *decision)
{
	const struct twin_options *of = options_of(q);
	struct twin_discipline *discipline = &state.disciplines[q];

	twin_prepare(discipline);
	for (u32 i = 0; i < TWIN_MOST_STEPS; i++) {
		u64 step = twin_next(of, discipline, &state.held, tables(of));

		switch (twin_action(step)) {
		case TWIN_AGAIN:
			continue;
		case TWIN_MARK_DROP:
			decision->drops++;
			/* fall through */
		case TWIN_DROP:
		case TWIN_DROP_END:
			/* That of this call, which was queued and is released at once. */
			if (arrives && twin_packet_of(&state.held, step)->number + 1 == state.arrived)
				decision->result = 0;
			drop(decision, step);
			if (twin_action(step) == TWIN_DROP_END)
				return TWIN_NONE;
			continue;
		case TWIN_MARK:
			decision->drops++;
			return step;
		case TWIN_SEND:
			return step;
		}
		return TWIN_NONE;
	}
	fprintf(stderr, "a call does not end\n");
	exit(1);
}

/* Puts what the discipline of a class releases into the flow of the class, if no packet is there. */
static void stage(u32 q, struct decision *decision)
{
	u32 slot, number;

	while (!fbq.classes[q].staged && fbq.alone == 0 && (slot = release(q, decision)) != TWIN_NONE) {
		if (twin_fbq_stage(&fbq_options, &fbq, &state.held, slot))
			break;
		number = twin_fbq_arrive(&fbq_options, &fbq, &state.held, fbq_options.flows);
		if (number == TWIN_NONE)
			drop(decision, slot);
		else
			twin_fbq_requeue(&fbq_options, &fbq, &state.held, number, slot);
		twin_fbq_finish(&fbq_options, &fbq, &state.held);
	}
	if (twin_is_ras(options_of(q)))
		twin_fbq_note_wait(&fbq, q, twin_deadline(options_of(q), &state.disciplines[q], &state.held, state.held.latest));
	twin_fbq_settle(&fbq_options, &fbq);
}

/* Asks the disciplines in classes that have waited until now. */
static void stage_waiting(u64 now, struct decision *decision)
{
	while (twin_fbq_waits_until(&fbq) <= now) {
		u32 q = twin_fbq_first_waiting(&fbq);
		u64 until = twin_fbq_waits_until(&fbq);

		twin_fbq_begin_call(&fbq_options, &fbq, &state.held, now);
		stage(q, decision);
		if (twin_fbq_waits_until(&fbq) == until && twin_fbq_first_waiting(&fbq) == q)
			break;
	}
}

/* A packet arrives for a discipline. */
static void enqueue_in(struct twin_arrival arrival, struct decision *decision)
{
	u32 q = arrival.class, slot;
	const struct twin_options *of = options_of(q);
	struct twin_discipline *discipline = &state.disciplines[q];

	arrival.number = state.arrived++;
	discipline->arrives = arrival;
	slot = twin_accept(of, discipline, &state.held, tables(of));
	if (slot == TWIN_NONE) {
		refuse(decision, arrival.number);
		return;
	}
	decision->result = 1;
	decision->drops += discipline->arrives.marked;
	while ((slot = twin_overflow(of, discipline, &state.held)) != TWIN_NONE)
		drop(decision, slot);
}

/* When the queue of a leaf of CBQ releases its next packet. */
static u64 leaf_due(u32 leaf)
{
	return twin_deadline(options_of(leaf), &state.disciplines[leaf], &state.held, state.held.latest);
}

/* A packet arrives for a class of CBQ. */
static void enqueue_in_tree(const u64 *record, struct decision *decision)
{
	u32 leaf = twin_cbq_leaf_for(&tree, record[3] & 0xffff);
	u64 before;

	twin_cbq_arrives(&cbq, state.held.latest, state.held.backlog.packets);
	if (leaf == TWIN_NONE) {
		refuse(decision, state.arrived++);
		return;
	}
	before = state.disciplines[leaf].backlog.packets;
	enqueue_in((struct twin_arrival){ .size = record[2], .key = record[4], .pair = twin_pair_of(record[3] >> 32, record[3] >> 32),
					  .class = leaf, .service = record[3] >> 16 & 0xff },
		   decision);
	twin_cbq_arrived(&cbq, leaf, before, state.disciplines[leaf].backlog.packets, leaf_due(leaf));
}

/* The slot of the packet that leaves CBQ; TWIN_NONE for none. */
static u32 dequeue_in_tree(struct decision *decision)
{
	u32 slot, leaf;

	twin_cbq_advance(&cbq, state.held.latest);
	while ((leaf = twin_cbq_pick(&cbq, false)) != TWIN_NONE) {
		slot = release(leaf, decision);
		if (slot == TWIN_NONE) {
			twin_cbq_refresh(&cbq, leaf, leaf_due(leaf));
			continue;
		}
		twin_cbq_serve(&cbq, leaf, twin_packet_of(&state.held, slot)->size, state.disciplines[leaf].backlog.packets,
			       leaf_due(leaf));
		return slot;
	}
	return TWIN_NONE;
}

static void enqueue(const u64 *record, struct decision *decision)
{
	u64 now = twin_now(&state.held, record[1]), arrived = state.arrived;
	u32 q = record[3] & 0xffff, slot;

	if (options.kind == TWIN_CBQ) {
		enqueue_in_tree(record, decision);
		return;
	}
	if (options.kind != TWIN_FBQ) {
		enqueue_in((struct twin_arrival){ .size = record[2], .key = record[4], .pair = record[5], .service = record[3] & 0xff,
						  .is_ack = record[3] >> 8 & 1, .segments = record[3] >> 32 },
			   decision);
		return;
	}
	if (twin_fbq_has_inside(&fbq_options, q)) {
		twin_fbq_begin_call(&fbq_options, &fbq, &state.held, now);
		enqueue_in((struct twin_arrival){ .size = record[2], .key = record[4],
						  .pair = twin_pair_of(record[3] >> 32, record[3] >> 32), .class = q, .service = record[3] >> 16 & 0xff },
			   decision);
		stage(q, decision);
		return;
	}
	state.arrived++;
	promise = record[5] >> 32;
	host = record[3] >> 32;
	slot = twin_fbq_receive(&fbq_options, &fbq, &state.held, now, arrived, record[2], record[4], q, (u32)record[5], false);
	if (slot == TWIN_FBQ_NOTHING)
		slot = twin_fbq_enqueue(&fbq_options, &fbq, &state.held,
					twin_fbq_arrive(&fbq_options, &fbq, &state.held, fbq_options.flows), arrived, record[2]);
	twin_fbq_finish(&fbq_options, &fbq, &state.held);
	if (slot == TWIN_NONE)
		refuse(decision, arrived);
	else
		decision->result = 1 | crossed();
}

static void dequeue(u64 now, struct decision *decision)
{
	u32 slot;

	now = twin_now(&state.held, now);
	if (options.kind == TWIN_FBQ) {
		stage_waiting(now, decision);
		slot = twin_fbq_dequeue(&fbq_options, &fbq, &state.held, now, false);
		decision->drops += fbq.stepped != 0;
		if (slot != TWIN_NONE)
			decision->result = (twin_packet_of(&state.held, slot)->number + 1) | crossed();
		twin_fbq_finish(&fbq_options, &fbq, &state.held);
		if (fbq.departed != 0)
			stage(fbq.departed - 1, decision);
	} else {
		if (twin_rests(&options) && state.held.backlog.packets == 0)
			return;
		slot = options.kind == TWIN_CBQ ? dequeue_in_tree(decision) : release(0, decision);
		if (slot != TWIN_NONE)
			decision->result = twin_packet_of(&state.held, slot)->number + 1;
	}
	if (slot != TWIN_NONE)
		twin_free_slot(&state.held, slot);
}

/* Begins anew, without packets. */
static void begin(void)
{
	u32 first = TWIN_FIRST;

	twin_forget_all(&state);
	twin_empty_queues(&state.held);
	for (u32 q = 0; q < TWIN_DISCIPLINES; q++) {
		const struct twin_options *of = options_of(q);
		struct twin_discipline *discipline = &state.disciplines[q];

		if (has_classes() ? !twin_fbq_has_inside(&fbq_options, q) : q != 0)
			continue;
		twin_begin_aqm(of, discipline, tables(of));
		twin_begin_adapting(of, discipline);
		twin_begin_lanes(of, discipline);
		twin_begin_queues(of, discipline, &state.held, first);
		first += twin_queues(of);
	}
	if (options.kind == TWIN_CBQ) {
		cbq = (struct twin_cbq){0};
		twin_cbq_begin(&tree, &cbq);
	}
}

/* Another rate of a class of CBQ, whose limits follow as options. */
static bool change_class(const u64 *record)
{
	u32 class = record[3] - 1, node = class < tree.leaves ? class : TWIN_CBQ_LEAVES + class - tree.leaves;

	if (node >= TWIN_CBQ_NODES || fread(&tree.class[node], sizeof(tree.class[node]), 1, stdin) != 1)
		return false;
	twin_cbq_change(&tree, &cbq, twin_now(&state.held, record[1]), node);
	return true;
}

/* Another class of a leaf of CBQ, or none, which follows as options. Packets of the class before are dropped. */
static bool replace_leaf(const u64 *record, struct decision *decision)
{
	u64 now = twin_now(&state.held, record[1]);
	u32 leaf = record[3] - 1, slot;

	if (leaf >= tree.leaves || fread(&tree.class[leaf], sizeof(tree.class[leaf]), 1, stdin) != 1)
		return false;
	twin_cbq_replace(&tree, &cbq, now, leaf);
	while ((slot = release(leaf, decision)) != TWIN_NONE)
		drop(decision, slot);
	return true;
}

static u64 sum(qdisc_backlog of)
{
	return of.packets << 32 ^ of.bytes;
}

/* Tells the counts of a class of CBQ: sent, borrowed, lent, rescued, over its limit, regulated. */
static bool tell_counts(const u64 *record, struct decision *decision)
{
	u32 class = record[3] - 1, node = class < tree.leaves ? class : TWIN_CBQ_LEAVES + class - tree.leaves;
	const struct twin_cbq_counts *counts;

	if (node >= TWIN_CBQ_NODES)
		return false;
	counts = &twin_cbq_node_of(&cbq, node)->counts;
	*decision = (struct decision){ sum(counts->sent), sum(counts->borrowed), sum(counts->lent), sum(counts->rescued), counts->overlimit,
				       counts->regulated };
	return true;
}

/* Another promise in the place of one: place and class, minimum, flows, number; with the terms of the record before. Packets may be of other promises from then on. */
static void set_promise(const u64 *record)
{
	static struct twin_fbq_options next;

	twin_fbq_queue_alone(&fbq_options, &fbq, &state.held);
	next = fbq_options;
	next.conditions++;
	next.promise[record[2] % TWIN_FBQ_PROMISES] =
		(struct twin_fbq_promise){ record[5], record[2] >> 32, record[3], record[4], terms[0], terms[1], terms[2] };
	twin_fbq_follow_promises(&fbq_options, &next, &fbq, &state.held, max_u64(state.held.latest, record[1]));
	fbq_options = next;
	twin_fbq_hold_promises(&fbq_options, &fbq);
}

static u64 deadline(u64 now)
{
	u64 at;

	if (options.kind == TWIN_CBQ)
		return twin_cbq_deadline(&cbq, now);
	if (options.kind != TWIN_FBQ)
		return twin_deadline(&options, &state.disciplines[0], &state.held, now);
	at = twin_fbq_deadline(&fbq, &state.held);
	return at != TWIN_IDLE && at <= max_u64(state.held.latest, now) ? TWIN_NOW : at;
}

int main(void)
{
	u64 record[6];

	while (fread(record, sizeof(record), 1, stdin) == 1) {
		struct decision decision = {0};

		switch (record[0]) {
		case FLUSH:
			fflush(stdout);
			continue;
		case BEGIN:
			if (fread(&options, sizeof(options), 1, stdin) != 1)
				return 1;
			if (options.kind == TWIN_FBQ) {
				if (fread(&fbq_options, sizeof(fbq_options), 1, stdin) != 1 || !twin_fbq_supports(&fbq_options))
					return 1;
				twin_fbq_begin(&fbq_options, &fbq);
			} else if (options.kind == TWIN_CBQ) {
				if (fread(&fbq_options, sizeof(fbq_options), 1, stdin) != 1 || fread(&tree, sizeof(tree), 1, stdin) != 1 ||
				    !twin_fbq_supports_insides(&fbq_options) || !twin_cbq_supports(&tree))
					return 1;
			} else if (!twin_supports(&options)) {
				return 1;
			}
			begin();
			continue;
		case RULES:
			if (!take_rules(record))
				return 1;
			continue;
		case CLASSIFY:
			if (!classify_frame(record, &decision))
				return 1;
			fwrite(&decision, sizeof(decision), 1, stdout);
			continue;
		case COUNTS:
			if (!tell_counts(record, &decision))
				return 1;
			fwrite(&decision, sizeof(decision), 1, stdout);
			continue;
		case ENQUEUE:
			arrives = true;
			enqueue(record, &decision);
			break;
		case DEQUEUE:
			dequeue(record[1], &decision);
			break;
		case SET_RATE:
			if (options.kind == TWIN_CBQ) {
				if (!change_class(record))
					return 1;
			} else if (options.kind == TWIN_FBQ) {
				twin_fbq_queue_alone(&fbq_options, &fbq, &state.held);
				twin_fbq_set_rate(&fbq_options, &fbq, &state.held, max_u64(state.held.latest, record[1]),
						  record[3] == 0 ? TWIN_NONE : record[3] - 1, record[2]);
			} else
				twin_set_rate(&options, &state.disciplines[0], twin_now(&state.held, record[1]), record[2]);
			break;
		case LEAF:
			if (!replace_leaf(record, &decision))
				return 1;
			break;
		case TERMS:
			memcpy(terms, record + 2, sizeof(terms));
			break;
		case PROMISE:
			set_promise(record);
			break;
		default:
			return 1;
		}
		arrives = false;
		decision.deadline = deadline(record[1]);
		decision.packets = state.held.backlog.packets;
		decision.bytes = state.held.backlog.bytes;
		fwrite(&decision, sizeof(decision), 1, stdout);
	}
	return 0;
}
