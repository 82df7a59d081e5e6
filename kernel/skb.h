/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What a packet of the kernel is classified by: its headers, its mark, and who has the socket that sent it. */
#ifndef TWIN_SKB_H
#define TWIN_SKB_H

typedef struct bpf_dynptr twin_bytes;

static __always_inline bool twin_read(const twin_bytes *bytes, u32 at, u8 *to, u32 count)
{
	return bpf_dynptr_read(to, count, bytes, at, 0) == 0;
}

/*
 * A place in the linear part of a packet. What is read beyond its end is memory of the packet all the same. The type is one of two
 * words that every kernel has which has these programs.
 */
typedef u64 twin_start;

static __always_inline u64 twin_word(twin_start start, u32 i)
{
	const struct bpf_dynptr *words = bpf_rdonly_cast((void *)(start + i / 2 * sizeof(*words)),
							 bpf_core_type_id_kernel(struct bpf_dynptr));

	return bpf_be64_to_cpu(words->opaque[i % 2]);
}

#include "plain.h"

#define TCP_TIME_WAIT 6
#define TCP_NEW_SYN_RECV 12

/* Control groups, one in the other, that are asked for. */
#define TWIN_NESTED_GROUPS 32

/* Mapped by the user. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct twin_rules);
} twin_rules SEC(".maps");

/* What is read of a packet, and what it is classified as; not on the stack, of which there are 512 bytes. */
struct twin_reader {
	struct twin_fields fields;
	struct twin_class_of class_of;
	/* Whether it was kept what the packet is: then the fields are those that were kept, at this place. */
	u32 recalled, place;
};

/* Of the packet that the discipline classifies. */
struct twin_reader reader;
struct twin_memory memory;
/* What the packet is classified as that arrives, by the discipline or before. */
struct twin_class_of class_of;

/* The service of a packet that nobody has read. */
#define UNREAD U32_MAX

/* Packets of which a processor keeps what they are classified as; a power of two. */
#define TWIN_KEPT_HERE 256

/*
 * Of one processor, on which a packet that passes a program of marks.h is queued next: what that program read of it. The
 * discipline takes it over where the packet is the same.
 */
struct twin_here {
	struct twin_reader reader;
	/* The address of the packet, and twin_under when it was classified; 0 where there is none. */
	u64 packet, under;
	/* Its code point and bits of congestion before they were changed, these 0 where no mark is given; UNREAD where nobody has read them. */
	u64 service;
	struct twin_kept kept[TWIN_KEPT_HERE];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct twin_here);
} twin_here SEC(".maps");

/* Whether a program of marks.h has classified packets, and the one that arrives. */
static bool has_classifier, is_classified;

static __always_inline struct twin_here *here(void)
{
	u32 key = 0;

	return bpf_map_lookup_elem(&twin_here, &key);
}

/* Sockets of connections that begin or have ended are smaller, and have no owner. */
static __always_inline bool is_full(const struct sock *sk)
{
	return sk->__sk_common.skc_state != TCP_TIME_WAIT && sk->__sk_common.skc_state != TCP_NEW_SYN_RECV;
}

/*
 * As NFQUEUE has the user: of the process that opened the socket, while it is open. A packet without a socket was forwarded, if it came
 * in by an interface.
 */
static __noinline void know_owner(const u64 *rules, const struct sk_buff *skb, struct twin_fields *fields)
{
	const struct sock *sk = skb->sk;
	struct socket *socket;
	struct cgroup *group;
	u32 first = U32_MAX;

	if (!sk && skb->skb_iif != 0 && twin_uses(rules, TWIN_CGROUP))
		twin_know_group(rules, TWIN_INTERFACES | (u32)skb->skb_iif, &first, fields);
	if (!sk || !is_full(sk))
		return;
	socket = sk->sk_socket;
	if (twin_uses(rules, TWIN_UID) && socket && socket->file && socket->file->f_cred)
		twin_know(fields, TWIN_UID, 0, socket->file->f_cred->fsuid.val);
	group = sk->sk_cgrp_data.cgroup;
	if (twin_uses(rules, TWIN_CGROUP) && group) {
		struct kernfs_node *node = group->kn;

		TWIN_FOR(u32, i, 0, TWIN_NESTED_GROUPS) {
			if (!node)
				break;
			twin_know_group(rules, node->id, &first, fields);
			node = node->__parent;
		}
	}
}

/* These are verified once each, as those of the chassis. */
__noinline int twin_read_headers(const struct bpf_dynptr *bytes, u32 at, u32 type, u32 length, struct twin_reader *to)
{
	struct bpf_dynptr own;

	/* The verifier forgets what the argument is when the compiler keeps it on the stack, but not what is there itself. */
	if (to && bpf_dynptr_clone(bytes, &own) == 0)
		twin_dissect(&own, at, type, length, length, &to->fields);
	return 0;
}

__noinline int twin_classify_fields(struct twin_rules *rules, u64 which, struct twin_reader *to)
{
	if (rules && to)
		twin_find_class(twin_rules_in_force(rules, which), &to->fields, &to->class_of);
	return 0;
}

/* Whose packets a flow has: the fields of one of them, as the user reads them. */
struct twin_flow_fields {
	u64 source_high, source_low, destination_high, destination_low;
	u32 source_port, destination_port, kind, dscp;
	u32 uid, mark;
	/* A bit for each that is known, by enum twin_field. */
	u32 known, is_v6;
};

struct twin_flow_fields flow_fields[TWIN_QUEUES];

static __always_inline void note_fields(const struct twin_fields *fields, struct twin_flow_fields *to)
{
	to->source_high = fields->high[TWIN_SOURCE];
	to->source_low = fields->low[TWIN_SOURCE];
	to->destination_high = fields->high[TWIN_DESTINATION];
	to->destination_low = fields->low[TWIN_DESTINATION];
	to->source_port = fields->low[TWIN_SOURCE_PORT];
	to->destination_port = fields->low[TWIN_DESTINATION_PORT];
	to->kind = fields->low[TWIN_IP_KIND];
	to->dscp = fields->low[TWIN_DSCP];
	to->uid = fields->low[TWIN_UID];
	to->mark = fields->low[TWIN_PACKET_MARK];
	to->is_v6 = fields->is_v6;
	to->known = fields->known;
}

/* Where the network header is: a packet that is to be sent begins with the header of its link. */
static __always_inline u32 header_at(const struct sk_buff *skb)
{
	return (u16)(skb->network_header - skb->mac_header);
}

/* The code point and the bits of congestion of a packet. */
static __always_inline u32 service_of(const struct sk_buff *skb)
{
	u32 at = header_at(skb), linear = skb->len - skb->data_len;
	u64 first;

	if (linear < at + 20)
		return 0;
	first = twin_word((u64)skb->data + at, 0);
	return first >> (first >> 60 == 6 ? 52 : 48) & 0xff;
}

static __always_inline bool read_plain(const struct sk_buff *skb, struct twin_plain *plain)
{
	u32 at = header_at(skb), linear = skb->len - skb->data_len;

	if (linear < at)
		return false;
	return twin_read_plain((u64)skb->data + at, bpf_ntohs(skb->protocol), linear - at, plain);
}

/*
 * Finds the fields of a packet, of which a program has `context`. Not a part of classify_anew, whose callers need little of the
 * stack.
 */
static __noinline int know_packet(struct __sk_buff *context, struct sk_buff *skb, const u64 *rules, struct twin_reader *to)
{
	struct twin_fields *fields = &to->fields;
	struct bpf_dynptr bytes;
	struct twin_plain plain;

	fields->known = fields->is_v6 = fields->is_fragment = 0;
	twin_know(fields, TWIN_PACKET_MARK, 0, skb->mark);
	if (twin_uses(rules, TWIN_UID) || twin_uses(rules, TWIN_CGROUP))
		know_owner(rules, skb, fields);
	if (!twin_needs_traits(rules) && read_plain(skb, &plain))
		twin_know_plain(&plain, fields);
	else if (bpf_dynptr_from_skb(context, 0, &bytes) == 0)
		twin_read_headers(&bytes, header_at(skb), bpf_ntohs(skb->protocol), skb->len, to);
	return 0;
}

/* Keeps what the packet was classified as, if it is plain; at `kept` where that is given, and else in the discipline's memory. */
static __noinline int keep(const struct sk_buff *skb, const u64 *rules, const struct twin_reader *from, struct twin_kept *kept)
{
	struct twin_plain plain;

	if (read_plain(skb, &plain))
		twin_keep(rules, kept ? kept : twin_kept_at(&memory, twin_place_of(&plain)), &plain,
			  twin_under(&memory, skb->mark), &from->class_of);
	return 0;
}

static __noinline int classify_anew(struct __sk_buff *context, struct sk_buff *skb, u64 which, struct twin_reader *to,
				    struct twin_kept *kept)
{
	struct twin_rules *rules;
	u32 key = 0;

	to->recalled = 0;
	rules = bpf_map_lookup_elem(&twin_rules, &key);
	if (!rules)
		return 0;
	know_packet(context, skb, twin_rules_in_force(rules, which), to);
	twin_classify_fields(rules, which, to);
	keep(skb, twin_rules_in_force(rules, which), to, kept);
	return 0;
}

/* Recalls what a packet is, if that was kept. */
static __always_inline bool recall(const struct sk_buff *skb, const struct twin_plain *plain, const struct twin_kept *kept,
				   struct twin_reader *to, u32 place)
{
	if (!twin_is_kept(kept, plain, twin_under(&memory, skb->mark)))
		return false;
	to->class_of = kept->of;
	to->recalled = 1;
	to->place = place;
	return true;
}

/* Finds class, profile and flow of a packet, by the first or the second rules. */
static __always_inline void classify(struct sk_buff *skb, u64 which)
{
	struct twin_plain plain;

	is_classified = false;
	if (read_plain(skb, &plain)) {
		u32 place = twin_place_of(&plain);

		if (recall(skb, &plain, twin_kept_at(&memory, place), &reader, place)) {
			class_of = reader.class_of;
			return;
		}
	}
	classify_anew((struct __sk_buff *)skb, skb, which, &reader, NULL);
	class_of = reader.class_of;
}

/*
 * Takes over what a program has read of this packet just before, on this processor. Returns whether it has, by the rules in force;
 * *service as it has found it, or UNREAD.
 */
static __always_inline bool take_over(struct sk_buff *skb, u32 *service)
{
	struct twin_here *from;

	*service = UNREAD;
	if (!has_classifier)
		return false;
	from = here();
	if (!from || from->packet != (u64)skb)
		return false;
	from->packet = 0;
	*service = from->service;
	if (from->under != twin_under(&memory, 0))
		return false;
	class_of = from->reader.class_of;
	is_classified = true;
	return true;
}

/* The key of the host of the packet that arrives, by these rules and by fair_by of struct twin_fbq_options. */
__noinline u64 twin_host_by(struct twin_reader *from, struct twin_kept *kept, u64 fair_by, u64 which)
{
	struct twin_rules *rules;
	u32 key = 0;

	rules = bpf_map_lookup_elem(&twin_rules, &key);
	if (!from || !kept || !rules)
		return 0;
	if (from->recalled)
		twin_know_kept(kept, &from->fields);
	return twin_host_key(twin_rules_in_force(rules, which), &from->fields, fair_by == 2 ? TWIN_DESTINATION : TWIN_SOURCE);
}

/* Notes the fields of the packet that arrives as those of a flow, and returns the promise of that by these rules. */
__noinline u32 twin_know_fields(struct twin_reader *from, struct twin_kept *kept, u32 flow, u64 which)
{
	struct twin_rules *rules;
	u32 key = 0;

	rules = bpf_map_lookup_elem(&twin_rules, &key);
	if (!from || !kept || !rules)
		return 0;
	if (from->recalled)
		twin_know_kept(kept, &from->fields);
	note_fields(&from->fields, &flow_fields[twin_index(flow, TWIN_QUEUES)]);
	return twin_find_promise(twin_rules_in_force(rules, which), &from->fields);
}

#endif
