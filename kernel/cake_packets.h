/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What CAKE asks of a packet of the kernel beyond its flow and its service: its host, and whether it is an acknowledgement. A part of
 * chassis.bpf.c. */
#ifndef TWIN_CAKE_PACKETS_H
#define TWIN_CAKE_PACKETS_H

#ifdef TWIN_WITH_CAKE
#define CAKE(...) __VA_ARGS__

#define CONNECTION_BITS 7ul
/* IP_CT_IS_REPLY of the kernel. */
#define FIRST_REPLY 3

/* Of the packet that was classified last: the packets that it is on the line, and whether it is plain and an acknowledgement without data. */
static u32 line_segments;
static bool is_plain_ack;
/* Its sender, where its connection is known: behind a gateway that translates addresses, the one before that. */
struct twin_fields sender;

/* Whether a plain packet is an acknowledgement without data; twin_segment of classify.h finds it of others. */
static __always_inline bool is_ack(const struct sk_buff *skb)
{
	u32 at = header_at(skb), linear = skb->len - skb->data_len, header = 20, stated, rest;
	u64 start = (u64)skb->data + at, first;
	struct twin_plain plain;

	if (!read_plain(skb, &plain) || (plain.rest >> 32 & 0xff) != TWIN_TCP)
		return false;
	first = twin_word(start, 0);
	if (plain.rest >> 48 == 6) {
		header = 40;
		stated = first >> 16 & 0xffff;
		stated = stated == 0 ? 0 : stated + header;
		rest = twin_word(start, 6) >> 16 & 0xffff;
	} else {
		stated = first >> 32 & 0xffff;
		rest = twin_word(start, 4) >> 48;
	}
	if (linear < at + header + 14)
		return false;
	/* ACK, perhaps with PSH, and nothing behind the header. */
	return (rest & 0xf7) == 16 && rest >> 12 >= 5 && header + (rest >> 12) * 4 == twin_total(stated, skb->len - at);
}

/* Notes who has sent a packet, before its addresses were translated. */
static __always_inline void note_sender(const struct sk_buff *skb)
{
	const union nf_inet_addr *from;
	const struct nf_conn *of;
	unsigned long connection;
	u32 all[4];

	sender.known = 0;
	if (!bpf_core_field_exists(skb->_nfct) || !bpf_core_type_exists(struct nf_conn))
		return;
	connection = skb->_nfct;
	of = (const struct nf_conn *)(connection & ~CONNECTION_BITS);
	if (!of)
		return;
	from = (connection & CONNECTION_BITS) >= FIRST_REPLY ? &of->tuplehash[1].tuple.src.u3 : &of->tuplehash[0].tuple.src.u3;
	if (bpf_probe_read_kernel(all, sizeof(all), from))
		return;
	sender.is_v6 = skb->protocol == bpf_htons(ETH_P_IPV6);
	if (sender.is_v6)
		twin_know(&sender, TWIN_SOURCE, (u64)bpf_ntohl(all[0]) << 32 | bpf_ntohl(all[1]), (u64)bpf_ntohl(all[2]) << 32 | bpf_ntohl(all[3]));
	else
		twin_know(&sender, TWIN_SOURCE, 0, bpf_ntohl(all[0]));
}

/* Notes what cannot be read of a packet once it is in its slot. Not a part of its callers, since the stack of the kernel is small. */
static __noinline int note_packet(const struct sk_buff *skb)
{
	line_segments = segments_of(skb);
	note_sender(skb);
	is_plain_ack = options_of(class_of.class)->ack_filter == 1 && is_ack(skb);
	return 0;
}

__noinline u32 twin_is_ack_by(struct twin_reader *from, struct twin_kept *kept)
{
	struct twin_fields *fields = &from->fields;

	if (!from || !kept)
		return false;
	if (from->recalled)
		twin_know_kept(kept, fields);
	return twin_knows(fields, TWIN_SEGMENT) ? fields->low[TWIN_SEGMENT] >> 8 & 1 : is_plain_ack;
}

/* Whether the packet that was classified last is an acknowledgement without data. */
__noinline u32 twin_know_ack(void)
{
	struct twin_here *from;

	if (!is_classified)
		return twin_is_ack_by(&reader, twin_kept_at(&memory, reader.place));
	from = here();
	return from ? twin_is_ack_by(&from->reader, &from->kept[twin_index(from->reader.place, TWIN_KEPT_HERE)]) : false;
}

/* The key of its sender. */
__noinline u64 twin_know_sender(void)
{
	struct twin_rules *rules;
	u32 key = 0;

	rules = bpf_map_lookup_elem(&twin_rules, &key);
	if (sender.known == 0 || !rules)
		return twin_know_host(1);
	return twin_host_key(twin_rules_in_force(rules, in_force.rules), &sender, TWIN_SOURCE);
}

/* The key of its host, by `hosts` of the options. */
__noinline u64 twin_know_sharer(u64 hosts)
{
	if (hosts == 3)
		return twin_pair_of(twin_know_sender(), twin_know_host(2));
	return hosts == 0 ? 0 : hosts == 1 ? twin_know_sender() : twin_know_host(2);
}

/* Completes what is known of the packet that arrives. */
static __always_inline void know_cake(const struct twin_options *options, struct twin_arrival *arrives)
{
	arrives->pair = twin_know_sharer(options->hosts);
	arrives->is_ack = twin_know_ack();
	arrives->segments = line_segments;
	/* The record of a packet in a class has no room for it. */
	RECORD(if (!has_classes(&in_force)) call.second |= (u64)arrives->is_ack << 8 | (u64)arrives->segments << 32;)
}

#else
#define CAKE(...)
#endif

#endif
