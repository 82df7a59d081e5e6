// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * The chassis in the kernel: a queueing discipline whose packets wait in slots while the disciplines decide on integers. It is
 * written from the kernel's documentation of BPF (struct_ops, kptr, kfuncs) and its tests' interface, not from its code.
 *
 * One instance at a time: its packets and its state are in maps and variables of the program. The kernel calls every operation
 * of an instance with the lock of the queue held.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "disciplines.h"

char _license[] SEC("license") = "Dual MIT/GPL";

#undef __kptr
#define __kptr __attribute__((btf_type_tag("kptr")))

#define NET_XMIT_SUCCESS 0
#define NET_XMIT_DROP 1
#define EBUSY 16
#define EINVAL 22

/* Packets that wait at most. A power of two. */
#define SLOTS 4096

struct twin_slot {
	struct sk_buff __kptr *skb;
	u64 size;
	/* When it was queued. */
	u64 at;
};

/* A ring: the packet number n is in slot n % SLOTS. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLOTS);
	__type(key, u32);
	__type(value, struct twin_slot);
} twin_slots SEC(".maps");

/* Written by the user before the first packet; later changes of the rate are taken over by the next call. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct twin_options);
} twin_options SEC(".maps");

/* A call and what it decided, as .ci/checks/src/twin/reference.rs describes them. */
struct twin_call {
	u64 what, now, first, second;
	u64 result, drops, deadline, packets, bytes;
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
#endif

/* Not static: the compiler splits static structs, and the kernel refuses what it then writes of their types. */
struct twin_state state;
codel_call call;
static u64 in_use;
/* Whether the state is that of the first packet on: a reset begins anew. */
static bool recording;
static u64 head, tail;

static __always_inline struct twin_options *options_of(void)
{
	u32 key = 0;

	return bpf_map_lookup_elem(&twin_options, &key);
}

static __always_inline struct twin_slot *slot_of(u64 number)
{
	u32 key = number % SLOTS;

	return bpf_map_lookup_elem(&twin_slots, &key);
}

static __always_inline u32 size_of(const struct sk_buff *skb)
{
	return ((struct qdisc_skb_cb *)skb->cb)->pkt_len;
}

/* These are verified once each, and not at every place that calls them. */

__noinline int twin_decide(u64 now, u64 size, u64 at)
{
	struct twin_options *options = options_of();

	return options ? (int)twin_first(options, &state, &call, now, size, at) : TWIN_SEND;
}

__noinline u64 twin_due(u64 now)
{
	struct twin_options *options = options_of();
	struct twin_slot *slot = slot_of(head);

	return options && slot ? twin_deadline(options, &state, now, slot->size) : TWIN_IDLE;
}

__noinline int twin_record(u64 what, u64 now, u64 first, u64 result, u64 drops)
{
#ifdef TWIN_CALLS
	u32 key = recorded;
	struct twin_call *record;

	if (!recording)
		return 0;
	record = bpf_map_lookup_elem(&twin_calls, &key);
	if (!record)
		return 0;
	recorded = key + 1;
	record->what = what;
	record->now = now;
	record->first = first;
	record->second = 0;
	record->result = result;
	record->drops = drops;
	record->deadline = twin_due(now);
	record->packets = state.backlog.packets;
	record->bytes = state.backlog.bytes;
#endif
	return 0;
}

/* Takes over a rate that the user has changed. */
__noinline int twin_follow(u64 now)
{
	struct twin_options *options = options_of();
	u64 rate;

	if (!options)
		return 0;
	rate = options->rate;
	if (options->kind != TWIN_TBF || rate == state.bucket.rate)
		return 0;
	twin_set_rate(options, &state, now, rate);
	twin_record(SET_RATE, now, rate, 0, 0);
	return 0;
}

SEC("struct_ops/twin_enqueue")
int BPF_PROG(twin_enqueue, struct sk_buff *skb, struct Qdisc *sch, struct bpf_sk_buff_ptr *to_free)
{
	u64 now = bpf_ktime_get_ns(), size = size_of(skb);
	struct twin_options *options = options_of();
	struct twin_slot *slot = slot_of(tail);

	twin_follow(now);
	if (!options || !slot || tail - head >= SLOTS)
		goto drop;
	if (!twin_admits(options, &state, size))
		goto drop;
	slot->size = size;
	slot->at = twin_now(&state, now);
	skb = bpf_kptr_xchg(&slot->skb, skb);
	if (skb)
		bpf_qdisc_skb_drop(skb, to_free);
	tail++;
	qdisc_backlog_add(&state.backlog, size);
	sch->q.qlen++;
	sch->qstats.backlog += size;
	twin_record(ENQUEUE, now, size, 1, 0);
	return NET_XMIT_SUCCESS;
drop:
	twin_now(&state, now);
	bpf_qdisc_skb_drop(skb, to_free);
	sch->qstats.drops++;
	twin_record(ENQUEUE, now, size, 0, 2);
	return NET_XMIT_DROP;
}

SEC("struct_ops/twin_dequeue")
struct sk_buff *BPF_PROG(twin_dequeue, struct Qdisc *sch)
{
	u64 now = bpf_ktime_get_ns(), latest, drops = 0;
	struct twin_options *options = options_of();

	if (!options)
		return NULL;
	twin_follow(now);
	latest = twin_now(&state, now);
	call = (codel_call){0};
	for (u32 i = 0; i < TWIN_MOST_ACTIONS; i++) {
		struct twin_slot *slot = slot_of(head);
		struct sk_buff *skb;
		int action;
		u64 size;

		if (!slot)
			return NULL;
		if (state.backlog.packets == 0) {
			twin_ran_empty(options, &state, &call);
			break;
		}
		size = slot->size;
		action = twin_decide(latest, size, slot->at);
		if (action == TWIN_WAIT) {
			bpf_qdisc_watchdog_schedule(sch, twin_due(now), 0);
			break;
		}
		skb = bpf_kptr_xchg(&slot->skb, NULL);
		head++;
		qdisc_backlog_remove(&state.backlog, size);
		sch->q.qlen--;
		sch->qstats.backlog -= size;
		if (!skb)
			return NULL;
		if (action == TWIN_SEND) {
			twin_record(DEQUEUE, now, 0, head, drops);
			bpf_qdisc_bstats_update(sch, skb);
			return skb;
		}
		/* Marks are not set yet: a signal is a drop. */
		bpf_kfree_skb(skb);
		sch->qstats.drops++;
		drops += 2;
	}
	twin_record(DEQUEUE, now, 0, 0, drops);
	return NULL;
}

static __always_inline void begin(struct twin_options *options)
{
	head = 0;
	tail = 0;
	twin_begin(&state, options);
}

SEC("struct_ops/twin_init")
int BPF_PROG(twin_init, struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct twin_options *options = options_of();

	if (!options || options->limit_packets > SLOTS || options->kind > TWIN_CODEL || options->marks != 0)
		return -EINVAL;
	if (__sync_val_compare_and_swap(&in_use, 0, 1) != 0)
		return -EBUSY;
	sch->limit = options->limit_packets;
	begin(options);
	recording = true;
	return 0;
}

SEC("struct_ops/twin_reset")
void BPF_PROG(twin_reset, struct Qdisc *sch)
{
	struct twin_options *options = options_of();

	recording = false;
	for (u32 i = 0; i < SLOTS; i++) {
		struct twin_slot *slot = slot_of(i);
		struct sk_buff *skb;

		if (!slot)
			break;
		skb = bpf_kptr_xchg(&slot->skb, NULL);
		if (skb)
			bpf_kfree_skb(skb);
	}
	sch->q.qlen = 0;
	sch->qstats.backlog = 0;
	if (options)
		begin(options);
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
