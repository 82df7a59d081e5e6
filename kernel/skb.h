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

/* Of the packet that is classified; not on the stack, of which there are 512 bytes. */
struct twin_fields fields;
struct twin_class_of class_of;
struct twin_memory memory;
/* Where it was kept what the packet is, plus 1; 0 where it was not, and the fields are its own. */
static u32 recalled;

/* Sockets of connections that begin or have ended are smaller, and have no owner. */
static __always_inline bool is_full(const struct sock *sk)
{
	return sk->__sk_common.skc_state != TCP_TIME_WAIT && sk->__sk_common.skc_state != TCP_NEW_SYN_RECV;
}

/* As NFQUEUE has the user: of the process that opened the socket, while it is open. */
static __noinline void know_owner(const u64 *rules, const struct sock *sk)
{
	struct socket *socket;
	struct cgroup *group;
	u32 first = U32_MAX;

	if (!sk || !is_full(sk))
		return;
	socket = sk->sk_socket;
	if (twin_uses(rules, TWIN_UID) && socket && socket->file && socket->file->f_cred)
		twin_know(&fields, TWIN_UID, 0, socket->file->f_cred->fsuid.val);
	group = sk->sk_cgrp_data.cgroup;
	if (twin_uses(rules, TWIN_CGROUP) && group) {
		struct kernfs_node *node = group->kn;

		TWIN_FOR(u32, i, 0, TWIN_NESTED_GROUPS) {
			if (!node)
				break;
			twin_know_group(rules, node->id, &first, &fields);
			node = node->__parent;
		}
	}
}

/* These are verified once each, as those of the chassis. */
__noinline int twin_read_headers(const struct bpf_dynptr *bytes, u32 at, u32 type, u32 length)
{
	twin_dissect(bytes, at, type, length, length, &fields);
	return 0;
}

__noinline int twin_classify_fields(struct twin_rules *rules, u64 which)
{
	if (rules)
		twin_find_class(twin_rules_in_force(rules, which), &fields, &class_of);
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

static __always_inline void note_fields(struct twin_flow_fields *to)
{
	if (recalled)
		twin_know_kept(twin_kept_at(&memory, recalled - 1), &fields);
	to->source_high = fields.high[TWIN_SOURCE];
	to->source_low = fields.low[TWIN_SOURCE];
	to->destination_high = fields.high[TWIN_DESTINATION];
	to->destination_low = fields.low[TWIN_DESTINATION];
	to->source_port = fields.low[TWIN_SOURCE_PORT];
	to->destination_port = fields.low[TWIN_DESTINATION_PORT];
	to->kind = fields.low[TWIN_IP_KIND];
	to->dscp = fields.low[TWIN_DSCP];
	to->uid = fields.low[TWIN_UID];
	to->mark = fields.low[TWIN_PACKET_MARK];
	to->is_v6 = fields.is_v6;
	to->known = fields.known;
}

/* Where the network header is: a packet that is to be sent begins with the header of its link. */
static __always_inline u32 header_at(const struct sk_buff *skb)
{
	return (u16)(skb->network_header - skb->mac_header);
}

static __always_inline bool read_plain(const struct sk_buff *skb, struct twin_plain *plain)
{
	u32 at = header_at(skb), linear = skb->len - skb->data_len;

	if (linear < at)
		return false;
	return twin_read_plain((u64)skb->data + at, bpf_ntohs(skb->protocol), linear - at, plain);
}

/* Finds the fields of a packet. Not a part of classify_anew, whose callers need little of the stack. */
static __noinline int know_packet(struct sk_buff *skb, const u64 *rules)
{
	struct bpf_dynptr bytes;
	struct twin_plain plain;

	fields.known = fields.is_v6 = fields.is_fragment = 0;
	twin_know(&fields, TWIN_PACKET_MARK, 0, skb->mark);
	if (twin_uses(rules, TWIN_UID) || twin_uses(rules, TWIN_CGROUP))
		know_owner(rules, skb->sk);
	if (read_plain(skb, &plain))
		twin_know_plain(&plain, &fields);
	else if (bpf_dynptr_from_skb((struct __sk_buff *)skb, 0, &bytes) == 0)
		twin_read_headers(&bytes, header_at(skb), bpf_ntohs(skb->protocol), skb->len);
	return 0;
}

/* Keeps what the packet was classified as, if it is plain. */
static __noinline int keep(const struct sk_buff *skb, const u64 *rules)
{
	struct twin_plain plain;

	if (read_plain(skb, &plain))
		twin_keep(rules, &memory, &plain, skb->mark, &class_of);
	return 0;
}

static __noinline int classify_anew(struct sk_buff *skb, u64 which)
{
	struct twin_rules *rules;
	u32 key = 0;

	rules = bpf_map_lookup_elem(&twin_rules, &key);
	if (!rules)
		return 0;
	know_packet(skb, twin_rules_in_force(rules, which));
	twin_classify_fields(rules, which);
	keep(skb, twin_rules_in_force(rules, which));
	return 0;
}

/* Finds class, profile and flow of a packet, by the first or the second rules. */
static __always_inline void classify(struct sk_buff *skb, u64 which)
{
	struct twin_plain plain;

	if (read_plain(skb, &plain)) {
		u32 place = twin_place_of(&plain);
		struct twin_kept *kept = twin_kept_at(&memory, place);

		if (twin_is_kept(kept, &plain, twin_under(&memory, skb->mark))) {
			class_of = kept->of;
			recalled = place + 1;
			return;
		}
	}
	recalled = 0;
	classify_anew(skb, which);
}

/* The key of the host of a packet that has been classified by these rules, by fair_by of struct twin_fbq_options. */
__noinline u64 twin_host_by(struct twin_rules *rules, u64 which, u64 fair_by)
{
	if (!rules)
		return 0;
	if (recalled)
		twin_know_kept(twin_kept_at(&memory, recalled - 1), &fields);
	return twin_host_key(twin_rules_in_force(rules, which), &fields, fair_by == 2 ? TWIN_DESTINATION : TWIN_SOURCE);
}

/* The promise of a flow whose packet has been classified by these rules. */
__noinline u32 twin_promise_by(struct twin_rules *rules, u64 which)
{
	return rules ? twin_find_promise(twin_rules_in_force(rules, which), &fields) : 0;
}

#endif
