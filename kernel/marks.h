/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Programs at tc, which may write to packets, as a queueing discipline may not: one sees a packet before it is queued at the
 * interface by which it leaves, the other sees what arrives, and leads it to the device where it is queued. Both classify a packet once,
 * for the discipline too, set the code point of its class, give it a mark of congestion where one is owed, and tell QUIC flows their
 * rate (advice.h). A part of chassis.bpf.c.
 *
 * A mark that the discipline decides on, when a packet arrives or leaves, is owed by the queue of that packet. The next packet that
 * arrives for this queue, and can carry the mark, gets it. What feedback and the step of a class mark is known when it arrives. See
 * the chapter *In the kernel* of the book for the effect.
 *
 * A code point by the colour of a meter is known when the meter has decided, which may be when the packet leaves. Where a file has such,
 * packets are led to a device whose root the discipline is, as those of several interfaces are, and come by the program once more on
 * their way from there to the interface. The discipline hands the code point over with the packet. What arrives waits at a device with two
 * ends then, since the kernel takes it back from one of kind ifb past all programs.
 */
#ifndef TWIN_MARKS_H
#define TWIN_MARKS_H

#define TC_ACT_UNSPEC (-1)
#define TC_ACT_SHOT 2
#define BPF_F_RECOMPUTE_CSUM 1
#define BPF_F_INGRESS 1
#define ETHERNET_HEADER 14
/* The own copy of a multicast packet, which has not come by the line. */
#define PACKET_LOOPBACK 5
/* A mark that was owed for longer is not given: congestion has gone since, ns. */
#define LONGEST_OWED 1000000000ull
#define TWIN_CONGESTED 3
/* The accounts, as many as TWIN_FBQ_CLASSES: the generator of options.rs reads it here. */
#define MARKED_ACCOUNTS 64

_Static_assert(MARKED_ACCOUNTS == TWIN_FBQ_CLASSES, "each class has an account");

/* What the programs at tc do. Mapped by the user. */
struct twin_marks {
	/* The index of the device where the packets of these programs are queued; 0 where that is the interface by which they leave. */
	u64 device;
	/* 1 where what arrives waits at a device with two ends, by whose other end it comes back: see twin_returning. */
	u64 returns;
	/* For each account, the code point of its packets plus 1; 0 where they keep theirs. */
	u64 dscp[MARKED_ACCOUNTS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct twin_marks);
} twin_marks SEC(".maps");

/* The marks that a queue owes to senders of ECT(0) and to scalable ones, and when the last of them was decided. */
struct twin_owed {
	u64 marks[2], at;
};

struct twin_owed owed[TWIN_SPACE];

/* Whether a packet is classified. */
static __always_inline bool twin_needs_class(const struct twin_options *options)
{
	return has_classes(options) || twin_has_flows(options);
}

/*
 * The queue of a discipline that owes the marks of packets like one of a flow with a service, and gives them to these: that of the flow
 * where each has a control law or a step, that in which it waits or would wait with dualpi2, else the first. Queues of drr belong to other
 * flows soon: a number by the key stands for them.
 */
static __always_inline u32 twin_owing_queue(const struct twin_options *options, struct twin_discipline *discipline, u64 key, u32 service)
{
	u32 first = discipline->room.first;

	if (options->kind == TWIN_DUALPI2)
		return first + twin_place_coupled(options, discipline, key, service);
	if (twin_is_cake(options))
		return first + twin_cake_queue_of(options, key);
	return first + (twin_is_controlled(options) || options->kind == TWIN_DRR ? round_spread(key, options->queues) : 0);
}

#include "advice.h"

/*
 * Whether a packet that arrives for the queue of a flow is marked by the feedback of its class, or by the step as the last packet
 * of the queue was that left. It looks at the flow without the lock of the queue, and may see it as it was before the last call, or
 * for one packet another in its place.
 */
static __noinline u32 marks_in_class(u64 key, u32 ecn)
{
	u32 number = twin_find(&state.held, &state.held.flows, key);
	struct twin_fbq_flow *flow = twin_fbq_flow_of(&fbq, number);
	const struct twin_fbq_class_options *params = twin_fbq_params(&classes, flow->class);

	if (number == TWIN_NONE)
		return false;
	return (flow->above && params->feedback_marks == 1) || (flow->stepped && ecn == TWIN_ECT1 && params->step != 0);
}

static __always_inline struct twin_owed *owed_by(u32 queue)
{
	return &owed[twin_index(queue, TWIN_SPACE)];
}

static __always_inline void owe_mark(u32 queue, u32 service, u64 now)
{
	struct twin_owed *of = owed_by(queue);

	of->at = now;
	__sync_fetch_and_add(&of->marks[twin_is_scalable(service)], 1);
}

/* Takes a mark that is owed to packets with such a service. Other processors may take one at the same time. */
static __always_inline bool take_owed(u32 queue, u32 service)
{
	struct twin_owed *of = owed_by(queue);
	u64 *owing = &of->marks[twin_is_scalable(service)], marks = *owing;

	if (marks == 0)
		return false;
	if (bpf_ktime_get_ns() - of->at > LONGEST_OWED) {
		*owing = 0;
		return false;
	}
	return __sync_val_compare_and_swap(owing, marks, marks - 1) == marks;
}

/* What the discipline hands over with a packet that goes on: this, the account of its class and its code point; or 0. */
#define TWIN_HANDED (1u << 31)
#define TWIN_HANDED_ACCOUNT 8
/*
 * Packets on their way from the discipline to the program, a power of two. They are told apart and found by their addresses. Where two on
 * their way have one place, the first keeps the code point that it came with.
 */
#define TWIN_ON_THEIR_WAY 65536

struct twin_handed {
	u64 packet, word;
} handed[TWIN_ON_THEIR_WAY];
/* That which leaves the discipline. */
u64 leaving_packet;

/* The place of a packet whose address is in memory. The verifier lets nothing be computed of the address itself, which that is not. */
static __always_inline struct twin_handed *handed_with(const u64 *packet)
{
	return &handed[twin_index(key_index_mix(*(const volatile u64 *)packet) >> 32, TWIN_ON_THEIR_WAY)];
}

static __always_inline void hand_over(const struct sk_buff *skb, const struct twin_packet *packet)
{
	struct twin_handed *to;
	u32 account = twin_fbq_params(&classes, packet->class)->account;

	*(volatile u64 *)&leaving_packet = (u64)skb;
	to = handed_with(&leaving_packet);
	to->packet = (u64)skb;
	to->word = packet->service >> TWIN_REMARKED & 1 ? TWIN_HANDED | account << TWIN_HANDED_ACCOUNT | (packet->service >> 2 & 0x3f) : 0;
}

/* The first two bytes of a packet's network header, or UNREAD where it is none of IP. */
static __noinline u32 first_bytes(struct __sk_buff *context, struct sk_buff *skb)
{
	bool is_v6 = skb->protocol == bpf_htons(ETH_P_IPV6);
	u8 bytes[2];
	u32 first;

	if ((!is_v6 && skb->protocol != bpf_htons(ETH_P_IP)) || bpf_skb_load_bytes(context, header_at(skb), bytes, 2))
		return UNREAD;
	first = (u32)bytes[0] << 8 | bytes[1];
	return first >> 12 == (is_v6 ? 6 : 4) ? first : UNREAD;
}

/* Changes the code point and the bits of congestion of a packet, whose first two bytes of the network header are given. */
static __noinline int set_service(struct __sk_buff *context, u32 at, bool is_v6, u32 first, u32 service)
{
	u16 before, after;
	u8 bytes[2];

	if (is_v6) {
		first = (first & 0xf00f) | service << 4;
		bytes[0] = first >> 8;
		bytes[1] = first;
		return bpf_skb_store_bytes(context, at, bytes, 2, BPF_F_RECOMPUTE_CSUM);
	}
	before = bpf_htons(first);
	after = bpf_htons((first & 0xff00) | service);
	bytes[0] = service;
	/* The checksum of the header makes up for the change, so that a sum over the packet stays as it is. */
	if (bpf_l3_csum_replace(context, at + 10, before, after, 2))
		return -1;
	return bpf_skb_store_bytes(context, at + 1, bytes, 1, 0);
}

/* Sets the code point of the packet's class, and a mark that is owed. Returns the service that the packet came with, see struct twin_here. */
static __noinline u32 mark_packet(struct __sk_buff *context, struct sk_buff *skb, const struct twin_class_of *of)
{
	bool is_v6 = skb->protocol == bpf_htons(ETH_P_IPV6), capable;
	u32 account = twin_index(twin_fbq_params(&classes, of->class)->account, MARKED_ACCOUNTS), at = header_at(skb), key = 0;
	struct twin_counters *counters = bpf_map_lookup_elem(&twin_counters, &account);
	struct twin_marks *marks = bpf_map_lookup_elem(&twin_marks, &key);
	u32 first, service, after, q = of->class;
	bool inside = !is_fbq(&in_force) || twin_fbq_has_inside(&classes, q);
	u64 dscp, gives = inside ? options_of(q)->marks | options_of(q)->step_full : in_force.marks;

	if (!marks || !counters)
		return UNREAD;
	dscp = marks->dscp[twin_index(account, MARKED_ACCOUNTS)];
	first = dscp == 0 && gives == 0 ? UNREAD : first_bytes(context, skb);
	if (first == UNREAD)
		return UNREAD;
	service = after = is_v6 ? first >> 4 & 0xff : first & 0xff;
	capable = (service & 3) != 0;
	if (dscp)
		after = (dscp - 1) << 2 | (service & 3);
	if (after != service)
		__sync_fetch_and_add(&counters->remarked_packets, 1);
	if (capable && gives && (!inside || twin_can_signal(options_of(q), service)) &&
	    (inside ? take_owed(twin_owing_queue(options_of(q), discipline_of(q), of->flow, service), service)
		    : marks_in_class(of->flow, service & 3))) {
		if ((service & 3) != TWIN_CONGESTED)
			__sync_fetch_and_add(&counters->marked_packets, 1);
		after |= TWIN_CONGESTED;
	}
	if (after != service)
		set_service(context, at, is_v6, first, after & 0xff);
	/* Where no mark is given, a decider that would have it owed must drop. */
	return (service & 0xfc) | (gives ? service & 3 : 0);
}

/* Writes the code point that the discipline has handed over with a packet, unless its class has one, which is written already. */
static __noinline int write_handed(struct __sk_buff *context, struct sk_buff *skb)
{
	const struct twin_handed *from;
	struct twin_counters *counters;
	u32 word, account, key = 0;
	struct twin_here *at = here();
	struct twin_marks *marks = bpf_map_lookup_elem(&twin_marks, &key);
	bool is_v6 = skb->protocol == bpf_htons(ETH_P_IPV6);
	u32 first, service, after;

	if (!at)
		return 0;
	*(volatile u64 *)&at->packet = (u64)skb;
	from = handed_with(&at->packet);
	word = from->packet == (u64)skb ? from->word : 0;
	at->packet = 0;
	account = twin_index(word >> TWIN_HANDED_ACCOUNT, MARKED_ACCOUNTS);
	counters = bpf_map_lookup_elem(&twin_counters, &account);
	if (!(word & TWIN_HANDED) || !counters || !marks || marks->dscp[twin_index(account, MARKED_ACCOUNTS)])
		return 0;
	first = first_bytes(context, skb);
	if (first == UNREAD)
		return 0;
	service = is_v6 ? first >> 4 & 0xff : first & 0xff;
	after = (word & 0x3f) << 2 | (service & 3);
	if (after == service)
		return 0;
	__sync_fetch_and_add(&counters->remarked_packets, 1);
	return set_service(context, header_at(skb), is_v6, first, after);
}

/* Classifies a packet and marks it. */
static __always_inline void see(struct __sk_buff *context, struct sk_buff *skb)
{
	struct twin_here *to = here();
	struct twin_plain plain;
	struct twin_reader *read;

	if (!to)
		return;
	read = &to->reader;
	to->packet = 0;
	to->under = twin_under(&memory, 0);
	read->class_of = (struct twin_class_of){0};
	if (twin_needs_class(&in_force)) {
		bool is_plain = read_plain(skb, &plain);
		u32 place = is_plain ? twin_place_of(&plain) : 0;
		struct twin_kept *kept = &to->kept[twin_index(place, TWIN_KEPT_HERE)];

		if (!is_plain || !recall(skb, &plain, kept, read, place))
			classify_anew(context, skb, in_force.rules, read, kept);
	}
	to->service = mark_packet(context, skb, &read->class_of);
	advise(context, skb, &read->class_of);
	to->packet = (u64)skb;
	has_classifier = true;
}

/*
 * Where packets are queued at a device of ours, the filter of this program has an action, which leads each packet there. From there it
 * comes by here again. The kernel knows that and does not lead it there a second time.
 */
SEC("tc")
int twin_leaving(struct __sk_buff *context)
{
	struct sk_buff *skb = bpf_cast_to_kern_ctx(context);
	struct twin_marks *marks;
	struct twin_link *link = link_of();
	u32 key = 0;

	marks = bpf_map_lookup_elem(&twin_marks, &key);
	if (!marks || !link)
		return TC_ACT_UNSPEC;
	if (marks->device == 0 || marks->device != (u32)skb->skb_iif)
		see(context, skb);
	else if (link->hands_over)
		write_handed(context, skb);
	return TC_ACT_UNSPEC;
}

/*
 * Where the packets that arrive have waited at a device with two ends, each has its own address in its control block, as no other
 * packet has, and the index of its interface.
 */
enum { CB_LINE, CB_ADDRESS_LOW, CB_ADDRESS_HIGH };

/* The address of a packet as a number, which the verifier lets be computed of when it has been in memory. */
static __always_inline u64 address_of(struct sk_buff *skb)
{
	struct twin_here *at = here();
	u64 address;

	if (!at)
		return 0;
	*(volatile u64 *)&at->packet = (u64)skb;
	address = *(volatile u64 *)&at->packet;
	at->packet = 0;
	return address;
}

/* Whether a packet has been marked as one of ours. */
static __always_inline bool is_ours(struct __sk_buff *context, u64 address)
{
	return address != 0 && context->cb[CB_ADDRESS_LOW] == (u32)address && context->cb[CB_ADDRESS_HIGH] == (u32)(address >> 32);
}

SEC("tc")
int twin_arriving(struct __sk_buff *context)
{
	struct sk_buff *skb = bpf_cast_to_kern_ctx(context);
	struct twin_marks *marks;
	u64 address = 0;
	u32 key = 0;
	u16 protocol;

	marks = bpf_map_lookup_elem(&twin_marks, &key);
	if (!marks || (skb->protocol != bpf_htons(ETH_P_IP) && skb->protocol != bpf_htons(ETH_P_IPV6)) ||
	    context->pkt_type == PACKET_LOOPBACK)
		return TC_ACT_UNSPEC;
	if (marks->returns) {
		address = address_of(skb);
		if (is_ours(context, address)) {
			context->cb[CB_ADDRESS_LOW] = 0;
			return TC_ACT_UNSPEC;
		}
	}
	see(context, skb);
	/* The device takes packets with a header of Ethernet only, and gives them back without it. */
	if (header_at(skb) == 0) {
		protocol = skb->protocol;
		if (bpf_skb_change_head(context, ETHERNET_HEADER, 0) ||
		    bpf_skb_store_bytes(context, ETHERNET_HEADER - sizeof(protocol), &protocol, sizeof(protocol), 0))
			return TC_ACT_UNSPEC;
	}
	if (marks->returns) {
		context->cb[CB_LINE] = context->ifindex;
		context->cb[CB_ADDRESS_LOW] = address;
		context->cb[CB_ADDRESS_HIGH] = address >> 32;
	}
	return bpf_redirect(marks->device, 0);
}

/*
 * What has arrived and waited comes by the other end of our device, where the code point is written that the discipline has handed over
 * with it, and goes back to its interface, which it arrives by once more. What anybody else sends by our device ends here.
 */
SEC("tc")
int twin_returning(struct __sk_buff *context)
{
	struct sk_buff *skb = bpf_cast_to_kern_ctx(context);
	struct twin_link *link = link_of();

	if (!link || !is_ours(context, address_of(skb)))
		return TC_ACT_SHOT;
	if (link->hands_over)
		write_handed(context, skb);
	return bpf_redirect(context->cb[CB_LINE], BPF_F_INGRESS);
}

#endif
