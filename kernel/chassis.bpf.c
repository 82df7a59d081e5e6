// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * The chassis in the kernel: a queueing discipline whose packets wait in slots while the disciplines decide on integers. It is
 * written from the kernel's documentation of BPF (struct_ops, kptr, kfuncs) and its tests' interface, not from its code.
 *
 * One instance at a time: its packets and its state are in maps and variables of the program. The kernel calls every operation
 * of an instance with the lock of the queue held. kernel/path loads it; kernel/equal-in-kernel loads it to compare calls.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>

/* A loop that the verifier follows until it repeats itself, by the iterators of Linux 6.4. */
#define TWIN_FOR(type, i, from, to)                                                                                         \
	type i __attribute__((unused)) = 0;                                                                                 \
	for (struct bpf_iter_num i##_iterator __attribute__((aligned(8), cleanup(bpf_iter_num_destroy))),                   \
	     /* clang 16 describes no function that only an attribute names. */                                              \
	     *i##_begun __attribute__((unused)) =                                                                           \
		     (bpf_iter_num_new(&i##_iterator, (from), (to)), (void)bpf_iter_num_destroy, NULL);                     \
	     ({                                                                                                             \
		     int *i##_next = bpf_iter_num_next(&i##_iterator);                                                      \
		     i##_next ? (i = *i##_next, true) : false;                                                              \
	     });)

#include "rates.h"
#ifdef TWIN_TREES
#include "reshape.h"
#endif
#include "skb.h"

char _license[] SEC("license") = "Dual MIT/GPL";

#undef __kptr
#define __kptr __attribute__((btf_type_tag("kptr")))

#define NET_XMIT_SUCCESS 0
#define NET_XMIT_DROP 1
#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd
#define EBUSY 16
#define EINVAL 22

struct twin_slot {
	struct sk_buff __kptr *skb;
};

/* Left out where it is not asked for: see kernel/path/src/bpf/program.rs. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct twin_tables);
} twin_tables SEC(".maps");
const volatile bool has_twin_tables = true;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TWIN_SLOTS);
	__type(key, u32);
	__type(value, struct twin_slot);
} twin_slots SEC(".maps");

/* Mapped by the user, and written before the first packet; a later change is put in force by the next call. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct twin_options);
} twin_options SEC(".maps");

/* The classes of TWIN_FBQ, written together with the options. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct twin_fbq_options);
} twin_classes SEC(".maps");

/* The interfaces that can have one total. */
#define TWIN_LINES 16

/* How the link counts packets, and until when it is shaped. Mapped by the user; zeros are for a user who sets nothing. */
struct twin_link {
	/* 1: a packet has the size that it has from the network header on, and the overhead. 0: as the kernel counts it. */
	u64 from_network;
	/* What the link adds to each packet, in bytes; to each segment of a superpacket. */
	u64 overhead;
	/* Packets pass undecided after this time, in ns of CLOCK_MONOTONIC. 0: never. */
	u64 until;
	/* 1 where packets get code points by their colours, which go on from this device to an interface by a program of marks.h. */
	u64 hands_over;
	/* The indices of the interfaces whose packets wait here, where there are several; others are 0. */
	u64 lines[TWIN_LINES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct twin_link);
} twin_link SEC(".maps");

/* Waits are counted in steps of 1,024 ns up to four of them, then four to each doubling; 2^38 ns is the longest. */
#define WAITS 108
#define LONGEST_SLEEP 100000000ull

/* Two for each reason of qdisc_drop_reason. */
#define DROPS 22

/*
 * What was counted of an account since the program was loaded; without classes all is of the first. Mapped by the user. A
 * superpacket is one packet.
 */
struct twin_counters {
	u64 arrived_packets, arrived_bytes;
	u64 sent_packets, sent_bytes;
	/* Dropped, by reason: packets and bytes. */
	u64 dropped[DROPS];
	/* Came from another account and went to one, while they waited. */
	u64 moved_in_packets, moved_in_bytes;
	u64 moved_out_packets, moved_out_bytes;
	u64 queued_packets, queued_bytes;
	/* How often none was queued after one was sent. */
	u64 emptied;
	/* What the bytes that were sent have beyond those from the network header on. */
	u64 overhead_bytes;
	/* Arrived by protocol. */
	u64 v4_packets, v6_packets;
	/* Of marks.h: those that got a mark of congestion, and those whose code point was changed. */
	u64 marked_packets, remarked_packets;
	/* Datagrams into which a rate was written, by advice.h. */
	u64 advised_packets;
	/* The longest wait of a packet that was sent, in ns. */
	u64 longest;
	u64 waits[WAITS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TWIN_FBQ_CLASSES);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct twin_counters);
} twin_counters SEC(".maps");

/* A call and what it decided, as kernel/translator/src/reference.rs describes them. */
struct twin_call {
	u64 what, now, first, second, flow, pair;
	u64 result, drops, which, deadline, packets, bytes;
};

enum { ENQUEUE = 1, DEQUEUE, SET_RATE };

#ifdef TWIN_CALLS
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TWIN_CALLS);
	__type(key, u32);
	__type(value, struct twin_call);
} twin_calls SEC(".maps");
static u32 recorded;
/* What is recorded of a call, while it is made. */
struct twin_call call;
/* Whether the state is that of the first packet on: a reset begins anew. */
static bool recording;
#define RECORD(...) __VA_ARGS__
#else
#define RECORD(...)
#endif

/* Not static: the compiler splits static structs, and the kernel refuses what it then writes of their types. */
struct twin_state state;
static u64 in_use;
/* The options in force: the user may be writing others. And those read of the user last. */
struct twin_options in_force, fresh;
/* Of TWIN_FBQ: its state, and the same of its options. Of other kinds there is one class, with an account and its discipline. */
struct twin_fbq fbq;
struct twin_fbq_options classes, fresh_classes;
/* Of TWIN_CBQ: its state, its tree, and the tree that was read of the user last. See trees.h. */
#ifdef TWIN_TREES
#define HAS_TREE true
struct twin_cbq cbq;
struct twin_cbq_options tree, fresh_tree;
#else
#define HAS_TREE false
#endif
/* The class that the packets of a class have after a change of structure; TWIN_NONE for another account. */
u32 moved[TWIN_FBQ_CLASSES];
/* The account that each had before. */
u32 accounts[TWIN_FBQ_CLASSES];

/* Packets that arrived and were matched by the rule of each profile, by the first or the second rules. */
struct twin_matched {
	u64 packets, bytes;
} matched[2 * TWIN_FBQ_PROFILES];

/* Of each of several interfaces: what was sent, from the network header on, and how many packets were dropped. */
struct twin_line {
	u64 packets, bytes, dropped;
} lines[TWIN_LINES];

/* Whether packets have classes with a queue for each of their flows. */
static __always_inline bool is_fbq(const struct twin_options *options)
{
	return !HAS_TREE && options->kind == TWIN_FBQ;
}

/* Whether packets have classes. */
static __always_inline bool has_classes(const struct twin_options *options)
{
	return HAS_TREE || options->kind == TWIN_FBQ;
}

/* See promises.h. */
__noinline u32 twin_know_flow(u32 number)
{
	struct twin_here *from;

	if (!is_classified)
		return twin_know_fields(&reader, twin_kept_at(&memory, reader.place), number, in_force.rules);
	from = here();
	return from ? twin_know_fields(&from->reader, &from->kept[twin_index(from->reader.place, TWIN_KEPT_HERE)], number, in_force.rules) : 0;
}

/* See hosts.h. */
__noinline u64 twin_know_host(u64 fair_by)
{
	struct twin_here *from;
	u64 host = 0;

	if (!is_classified)
		host = twin_host_by(&reader, twin_kept_at(&memory, reader.place), fair_by, in_force.rules);
	else if ((from = here()))
		host = twin_host_by(&from->reader, &from->kept[twin_index(from->reader.place, TWIN_KEPT_HERE)], fair_by, in_force.rules);
	/* A record has room for half of it. */
	RECORD(host = (u32)host;)
	return host;
}

/* The key of the pair of hosts of the packet that arrives. */
__noinline u64 twin_know_pair(void)
{
	u64 source = twin_know_host(1), destination = twin_know_host(2);

	/* The reference has one host for a packet in a class. */
	RECORD(if (has_classes(&in_force)) destination = source;)
	return twin_pair_of(source, destination);
}

static __always_inline struct twin_options *written_options(void)
{
	u32 key = 0;

	return bpf_map_lookup_elem(&twin_options, &key);
}

static __always_inline struct twin_slot *slot_of(u32 number)
{
	u32 key = number % TWIN_SLOTS;

	return bpf_map_lookup_elem(&twin_slots, &key);
}

static __always_inline struct twin_link *link_of(void)
{
	u32 key = 0;

	return bpf_map_lookup_elem(&twin_link, &key);
}

static __always_inline struct twin_counters *counters_at(u32 account)
{
	u32 key = account;

	return bpf_map_lookup_elem(&twin_counters, &key);
}

/* The counters of a class. */
static __always_inline struct twin_counters *counters_of(u32 class)
{
	return counters_at(twin_index(twin_fbq_params(&classes, class)->account, TWIN_FBQ_CLASSES));
}

/* The options of the discipline of a class, or without classes of the only one; and its state. */
static __always_inline struct twin_options *options_of(u32 q)
{
	return &classes.inside[twin_index(q, TWIN_FBQ_CLASSES)];
}

static __always_inline struct twin_discipline *discipline_of(u32 q)
{
	return &state.disciplines[twin_index(q, TWIN_DISCIPLINES)];
}

/* The records of mice and elephants; NULL for kinds that have none. */
static __always_inline struct twin_tables *tables_of(const struct twin_options *options)
{
	u32 key = 0;

	return has_twin_tables && twin_measures(options) ? bpf_map_lookup_elem(&twin_tables, &key) : NULL;
}

/* The packets that a superpacket becomes. Kernels before 6.19 do not keep their number: it counts as one. */
static __always_inline u64 segments_of(const struct sk_buff *skb)
{
	struct qdisc_skb_cb *cb = (struct qdisc_skb_cb *)skb->cb;

	return bpf_core_field_exists(cb->pkt_segs) ? max_u64(cb->pkt_segs, 1) : 1;
}

#include "marks.h"
#include "cake_packets.h"

/* The size as the link counts it. */
static __always_inline u64 size_of(const struct sk_buff *skb, const struct twin_link *link)
{
	u64 size = ((struct qdisc_skb_cb *)skb->cb)->pkt_len, segments, header;

	if (!link->from_network)
		return size;
	segments = segments_of(skb);
	header = (u16)(skb->network_header - skb->mac_header);
	return saturating_sub_u64(size, segments * header) + segments * min_u64(link->overhead, U32_MAX);
}

/* Whether packets pass undecided, because the user has not renewed the time until which the link is shaped. */
static __always_inline bool is_over(const struct twin_link *link, u64 now)
{
	/* In one comparison: before 0 is the largest number. */
	return link->until - 1 < now - 1;
}

static __always_inline u32 wait_index(u64 wait)
{
	u64 units = min_u64(wait >> 10, (1 << 28) - 1), rest = units;
	u32 doubling = 0;

	if (units < 4)
		return units;
	for (u32 bits = 16; bits > 0; bits /= 2) {
		if (rest >> bits) {
			rest >>= bits;
			doubling += bits;
		}
	}
	return 4 * (doubling - 1) + ((units >> (doubling - 2)) & 3);
}

static __always_inline void count_sent(struct twin_counters *counters, u64 size, u64 wait)
{
	u32 index = wait_index(wait);

	counters->sent_packets++;
	counters->sent_bytes += size;
	if (counters->queued_packets == 0)
		counters->emptied++;
	if (wait > counters->longest)
		counters->longest = wait;
	if (index < WAITS)
		counters->waits[index]++;
}

/* Counts a packet that arrives for the rule that has matched it. */
static __always_inline void count_matched(u64 size)
{
	u32 at = (u32)(in_force.rules & 1) * TWIN_FBQ_PROFILES + twin_index(class_of.profile, TWIN_FBQ_PROFILES);
	struct twin_matched *to = &matched[twin_index(at, 2 * TWIN_FBQ_PROFILES)];

	to->packets++;
	to->bytes += size;
}

/* Counts a packet for the interface with this index, by which it leaves or has arrived: one of so many bytes that was sent, or one that
 * was dropped. */
__noinline int twin_count_line(u32 index, u64 bytes, u64 sent)
{
	struct twin_link *link = link_of();

	TWIN_FOR(u32, i, 0, TWIN_LINES) {
		struct twin_line *line = &lines[twin_index(i, TWIN_LINES)];

		if (!link || link->lines[twin_index(i, TWIN_LINES)] != index)
			continue;
		line->packets += sent;
		line->bytes += bytes;
		line->dropped += !sent;
		break;
	}
	return 0;
}

/* A packet of several interfaces has the index of its own, which our device sends it on to. */
static __always_inline void drop_on_line(const struct sk_buff *skb)
{
	const struct twin_link *link = link_of();

	if (link && link->lines[0])
		twin_count_line(skb->skb_iif, 0, false);
}

static __always_inline void count_queued(struct twin_counters *counters, u64 size)
{
	counters->queued_packets++;
	counters->queued_bytes += size;
}

/* These are verified once each, and not at every place that calls them; each call costs about 20 instructions. */

/*
 * The slot of a packet that arrives for a discipline, or TWIN_NONE. The lowest bit of `how`: always; the 8 above it: its service, as a
 * packet in a slot has it; the upper half: its class.
 */
__noinline u32 twin_take(u64 now, u64 size, u64 key, u64 how)
{
	u32 q = how >> 32, slot;
	u64 arrived = state.arrived++;
	struct twin_options *options = options_of(q);
	struct twin_discipline *discipline = discipline_of(q);

	twin_now(&state.held, now);
	discipline->arrives = (struct twin_arrival){ .number = arrived, .size = size, .key = key, .class = q, .service = how >> 1 & 0xff, .always = how & 1 };
	if (twin_has_pairs(options))
		discipline->arrives.pair = twin_know_pair();
	CAKE(if (twin_is_cake(options)) know_cake(options, &discipline->arrives);)
	RECORD(if (!has_classes(&in_force)) call.pair = discipline->arrives.pair;)
	slot = twin_accept(options, discipline, &state.held, tables_of(options));
	if (slot == TWIN_NONE)
		return TWIN_NONE;
	if (discipline->arrives.marked)
		owe_mark(twin_owing_queue(options, discipline, key, discipline->arrives.service), discipline->arrives.service, state.held.latest);
	return slot;
}

/* The same of a packet of a class without a discipline; it has a class, in the lower half, and a profile in the upper one. */
__noinline u32 twin_take_classified(u64 now, u64 size, u64 key, u64 class, u64 always)
{
	u64 arrived = state.arrived++;

	return twin_fbq_receive(&classes, &fbq, &state.held, twin_now(&state.held, now), arrived, size, key, class, class >> 32,
				always != 0);
}

/* The rest of that for a packet that is not alone. */
__noinline u32 twin_queue_classified(u32 number, u64 size)
{
	return twin_fbq_enqueue(&classes, &fbq, &state.held, number, state.arrived - 1, size);
}

/* The beginning of a call about a packet of a class with a discipline, and the end of any call about packets that have classes. */
__noinline int twin_begin_classified(u64 now)
{
	twin_fbq_begin_call(&classes, &fbq, &state.held, twin_now(&state.held, now));
	return 0;
}

__noinline int twin_finish_classified(void)
{
	twin_fbq_finish(&classes, &fbq, &state.held);
	return 0;
}

/* The slot of a packet that exceeds the limit of a discipline, or TWIN_NONE. */
__noinline u32 twin_excess(u32 q)
{
	return twin_overflow(options_of(q), discipline_of(q), &state.held);
}

/* A step of a discipline. first: it is the first of a call. always: a packet leaves if there is one. */
__noinline u64 twin_decide(u32 q, u64 first, u64 always)
{
	struct twin_options *options = options_of(q);
	struct twin_discipline *discipline = discipline_of(q);
	u64 step = twin_step(TWIN_EMPTY, TWIN_NONE);

	if (first)
		twin_prepare(discipline);
	CAKE(twin_cake.always = always;)
	if (always && !twin_has_flows(options)) {
		if (discipline->backlog.packets != 0)
			step = twin_step(TWIN_SEND, twin_pop_of(discipline, &state.held, discipline->room.first));
	} else {
		step = always ? twin_next_inside(options, discipline, &state.held, tables_of(options))
			      : twin_next(options, discipline, &state.held, tables_of(options));
	}
	if (twin_action(step) == TWIN_MARK) {
		struct twin_packet *packet = twin_packet_of(&state.held, (u32)step);

		owe_mark(twin_owing_queue(options, discipline, packet->key, packet->service), packet->service, state.held.latest);
		step = twin_step(TWIN_SEND, step);
		RECORD(call.drops++;)
	}
	CAKE(if (twin_action(step) == TWIN_MARK_DROP) {
		step = twin_step(TWIN_DROP, step);
		RECORD(call.drops++;)
	})
	return step;
}

/* The slot of a packet of a class that leaves, or TWIN_NONE. */
__noinline u32 twin_decide_classified(u64 now, u64 always)
{
	return twin_fbq_dequeue(&classes, &fbq, &state.held, twin_now(&state.held, now), always != 0);
}

__noinline u64 twin_due(u64 now)
{
	u64 at;

#ifdef TWIN_TREES
	return twin_cbq_deadline(&cbq, now);
#endif
	if (!is_fbq(&in_force))
		return twin_deadline(&in_force, discipline_of(0), &state.held, now);
	at = twin_fbq_deadline(&fbq, &state.held);
	return at != TWIN_IDLE && at <= max_u64(state.held.latest, now) ? TWIN_NOW : at;
}

/* A ring of events for the owners of flows, about their queues; the user reads those that are new. */
#define TOLD 1024
struct twin_told {
	/* The key of the flow, the bytes in its queue, and whether they are above the upper threshold. */
	u64 flow, bytes, above;
} told[TOLD];
u64 told_count;

/* Tells that the queue of a flow has crossed a threshold of feedback in this call. */
__noinline int twin_tell(void)
{
	struct twin_told *next = &told[twin_index(told_count, TOLD)];
	u32 number = fbq.crossed - 1;

	fbq.crossed = 0;
	next->flow = twin_queue_of(&state.held, number)->key;
	next->bytes = twin_queue_of(&state.held, number)->backlog.bytes;
	next->above = twin_fbq_flow_of(&fbq, number)->above;
	__sync_fetch_and_add(&told_count, 1);
	RECORD(call.result |= next->above ? 1ull << 63 : 1ull << 62;)
	return 0;
}

#ifdef TWIN_CALLS
/* Begins that of an arrival. Not a part of it, since the stack of the kernel is small. */
__noinline int twin_record_arrival(u64 size, u64 service)
{
	bool is_in_class = has_classes(&in_force);

	call = (struct twin_call){ .first = size, .second = is_in_class ? class_of.class | service << 16 : service, .flow = class_of.flow, .pair = class_of.profile };
	if (is_in_class)
		call.second |= twin_know_host(max_u64(classes.fair_by, 1)) << 32;
	return 0;
}

/* Ends the record of a call. */
__noinline int twin_record(u64 what, u64 now)
{
	u32 key = recorded, after = key + 1;
	struct twin_call *record, *next;

	if (!recording)
		return 0;
	record = bpf_map_lookup_elem(&twin_calls, &key);
	/* The record ends before the first call that is none. */
	next = bpf_map_lookup_elem(&twin_calls, &after);
	if (!record || !next)
		return 0;
	next->what = 0;
	recorded = after;
	call.what = what;
	call.now = now;
	call.deadline = twin_due(now);
	call.packets = state.held.backlog.packets;
	call.bytes = state.held.backlog.bytes;
	*record = call;
	return 0;
}
#endif

#include "release.h"
#include "trees.h"
#include "change.h"

SEC("struct_ops/twin_enqueue")
int BPF_PROG(twin_enqueue, struct sk_buff *skb, struct Qdisc *sch, struct bpf_sk_buff_ptr *to_free)
{
	u64 now = bpf_ktime_get_ns(), size, arrived = state.arrived;
	struct twin_options *options = &in_force;
	struct twin_counters *counters;
	struct twin_link *link = link_of();
	struct twin_slot *slot;
	u32 number, q, service;
	u64 before = 0;
	bool inside;

	follow(now);
	is_classified = false;
	if (!take_over(skb, &service)) {
		class_of = (struct twin_class_of){0};
		if (twin_needs_class(options))
			classify(skb, options->rules);
	}
	/* The lab has no rules: the class in the lower 8 bits of the mark, the profile in the next 8, the service in those above. */
	RECORD(class_of.class = has_classes(options) ? skb->mark & 0xff : 0; class_of.profile = skb->mark >> 8 & 0xff;)
	q = HAS_TREE ? twin_tree_arrives(now, class_of.class) : class_of.class;
	if (service == UNREAD)
		service = twin_has_service(options_of(q)) ? service_of(skb) & 0xfc : 0;
	RECORD(service = skb->mark >> 16 & 0xff;)
	CAKE(note_packet(skb);)
	counters = counters_of(q);
	if (!counters || !link) {
		bpf_qdisc_skb_drop(skb, to_free);
		return NET_XMIT_DROP;
	}
	size = size_of(skb, link);
	counters->arrived_packets++;
	counters->arrived_bytes += size;
	if (skb->protocol == bpf_htons(ETH_P_IP))
		counters->v4_packets++;
	else if (skb->protocol == bpf_htons(ETH_P_IPV6))
		counters->v6_packets++;
	RECORD(twin_record_arrival(size, service);)
	if (has_classes(options))
		count_matched(size);
	inside = !is_fbq(options) || twin_fbq_has_inside(&classes, q);
	if (HAS_TREE && q == TWIN_NONE) {
		number = TWIN_NONE;
		state.arrived++;
	} else if (inside) {
		if (is_fbq(options))
			twin_begin_classified(now);
		if (HAS_TREE)
			before = discipline_of(q)->backlog.packets;
		number = twin_take(now, size, class_of.flow, (u64)q << 32 | service << 1 | is_over(link, now));
	} else {
		number = twin_take_classified(now, size, class_of.flow, (u64)class_of.profile << 32 | q, is_over(link, now));
		if (number == TWIN_FBQ_NOTHING) {
			number = twin_fbq_arrive(&classes, &fbq, &state.held, is_over(link, now) ? TWIN_QUEUES : classes.flows);
			number = twin_queue_classified(number, size);
			twin_finish_classified();
		}
	}
	slot = number == TWIN_NONE ? NULL : slot_of(number);
	if (!slot) {
		count_drop(counters, arrived, size,
			   HAS_TREE && q == TWIN_NONE ? QDISC_DROP_REASON_NO_CLASS
			   : inside		      ? discipline_of(q)->refusal
						      : fbq.refusal);
		drop_on_line(skb);
		sch->qstats.drops++;
		bpf_qdisc_skb_drop(skb, to_free);
		tree_arrived(q, before);
		RECORD(twin_record(ENQUEUE, now);)
		return NET_XMIT_DROP;
	}
	skb = bpf_kptr_xchg(&slot->skb, skb);
	if (skb)
		bpf_qdisc_skb_drop(skb, to_free);
	sch->q.qlen++;
	sch->qstats.backlog += size;
	count_queued(counters, size);
	RECORD(call.result = 1;)
	if (!HAS_TREE && fbq.crossed != 0)
		twin_tell();
	if (inside && twin_exceeds(options_of(q), discipline_of(q))) {
		TWIN_FOR(u32, i, 0, TWIN_SLOTS) {
			number = twin_excess(q);
			if (number == TWIN_NONE)
				break;
			drop(sch, number, discipline_of(q)->refusal);
		}
	}
	if (inside && is_fbq(options))
		stage(sch, q, is_over(link, now));
	tree_arrived(q, before);
	RECORD(twin_record(ENQUEUE, now);)
	return NET_XMIT_SUCCESS;
}

/* Takes a packet that leaves out of its slot, and counts it. Not a part of twin_dequeue, for the stack. */
static __noinline struct sk_buff *send(struct Qdisc *sch, struct twin_link *link, u32 number)
{
	struct twin_packet *packet = twin_packet_of(&state.held, number);
	struct twin_counters *counters = counters_of(packet->class);
	struct sk_buff *skb = take_out(sch, number);
	u64 overhead = 0;

	RECORD(call.result = packet->number + 1; call.drops += is_fbq(&in_force) && fbq.stepped != 0;)
	if (!skb)
		return NULL;
	if (link->hands_over)
		hand_over(skb, packet);
	if (!counters)
		return skb;
	count_sent(counters, packet->size, saturating_sub_u64(state.held.latest, packet->came));
	if (link->from_network)
		overhead = segments_of(skb) * min_u64(link->overhead, U32_MAX);
	counters->overhead_bytes += overhead;
	if (link->lines[0])
		twin_count_line(skb->skb_iif, saturating_sub_u64(packet->size, overhead), true);
	return skb;
}

SEC("struct_ops/twin_dequeue")
struct sk_buff *BPF_PROG(twin_dequeue, struct Qdisc *sch)
{
	struct twin_options *options = &in_force;
	struct twin_link *link;
	struct sk_buff *skb = NULL;
	u32 number;
	u64 now;
	bool over;

	/* Every second call finds nothing. The clock does not run back, so that the time need not be kept. */
	if (state.held.backlog.packets == 0 && twin_rests(options))
		return NULL;
	link = link_of();
	if (!link)
		return NULL;
	now = bpf_ktime_get_ns();
	over = is_over(link, now);
	follow(now);
	RECORD(call = (struct twin_call){0};)
	if (is_fbq(options)) {
		if (fbq.waiting != 0)
			stage_waiting(sch, now, over);
		number = twin_decide_classified(now, over);
		if (fbq.touched != TWIN_FBQ_NOTHING)
			twin_finish_classified();
	} else {
		twin_now(&state.held, now);
		number = HAS_TREE ? release_from_tree(sch, over) : release(sch, 0, over, false);
	}
	if (number != TWIN_NONE)
		skb = send(sch, link, number);
	if (!HAS_TREE && fbq.crossed != 0)
		twin_tell();
	if (!HAS_TREE && fbq.departed != 0)
		stage(sch, fbq.departed - 1, over);
	RECORD(twin_record(DEQUEUE, now);)
	if (skb) {
		bpf_qdisc_bstats_update(sch, skb);
		return skb;
	}
	/* By then at the latest, what the user has changed is in force. */
	if (state.held.backlog.packets != 0)
		bpf_qdisc_watchdog_schedule(sch, min_u64(twin_due(now), now + LONGEST_SLEEP), 0);
	return NULL;
}

/* Begins anew, without packets. */
static __always_inline void clear(void)
{
	twin_forget_all(&state);
	restart();
}

SEC("struct_ops/twin_init")
int BPF_PROG(twin_init, struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct twin_options *written = written_options();

	if (__sync_val_compare_and_swap(&in_use, 0, 1) != 0)
		return -EBUSY;
	if (!written || !take_options(written)) {
		in_use = 0;
		return -EINVAL;
	}
	copy_options(&in_force, &fresh);
	memory.rules++;
	copy_classes(&classes, &fresh_classes);
	twin_use_tree();
	sch->limit = in_force.limit_packets;
	clear();
	RECORD(recorded = 0; recording = true;)
	return 0;
}

SEC("struct_ops/twin_reset")
void BPF_PROG(twin_reset, struct Qdisc *sch)
{
	RECORD(recording = false;)
	TWIN_FOR(u32, account, 0, TWIN_FBQ_CLASSES) {
		struct twin_counters *counters = counters_at(account);

		if (counters) {
			counters->dropped[2 * QDISC_DROP_REASON_FLUSHED] += counters->queued_packets;
			counters->dropped[2 * QDISC_DROP_REASON_FLUSHED + 1] += counters->queued_bytes;
		}
	}
	TWIN_FOR(u32, i, 0, TWIN_SLOTS) {
		struct twin_slot *slot = i < state.held.used ? slot_of(i) : NULL;
		struct sk_buff *skb;

		if (!slot)
			break;
		skb = bpf_kptr_xchg(&slot->skb, NULL);
		if (skb)
			bpf_kfree_skb(skb);
	}
	sch->q.qlen = 0;
	sch->qstats.backlog = 0;
	clear();
}

SEC("struct_ops/twin_destroy")
void BPF_PROG(twin_destroy, struct Qdisc *sch)
{
	in_use = 0;
}

SEC(".struct_ops.link")
struct Qdisc_ops twin = {
	.enqueue = (void *)twin_enqueue,
	.dequeue = (void *)twin_dequeue,
	.init = (void *)twin_init,
	.reset = (void *)twin_reset,
	.destroy = (void *)twin_destroy,
	.id = "bpf_tidegate",
};
