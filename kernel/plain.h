/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Packets as most are: of IPv4 without options or of IPv6 without extensions, whole, of TCP or UDP, without tags. They are read by words
 * instead of field by field, and what such a packet was classified as is kept for others that do not differ in anything that
 * rules and keys of flows are about.
 *
 * The includer defines before, beside what classify.h needs:
 *	twin_start: a type for where a network header begins,
 *	u64 twin_word(twin_start start, u32 i): the 8 bytes from byte 8 * i on, the first of which is the highest. It is called only where
 *	the packet has the first of them; the others may be anything then.
 */
#ifndef TWIN_PLAIN_H
#define TWIN_PLAIN_H

#include "classify.h"

/* What a plain packet differs in, but for its mark and its owner. */
struct twin_plain {
	/* The upper and the lower half of each address. Of IPv4 the first number has both, the source above, and the others are 0. */
	u64 source[2], destination[2];
	/* The version, the code point, the protocol and the ports. */
	u64 rest;
};

TWIN_INLINE u64 twin_plain_rest(u64 version, u64 service, u64 protocol, u32 ports)
{
	return version << 48 | (service & 0xfc) << 38 | protocol << 32 | ports;
}

/*
 * Reads a packet whose type, as Ethernet has it, is `type`, and which has `length` bytes from the network header on that can be read.
 * Returns whether it is plain.
 */
TWIN_INLINE bool twin_read_plain(twin_start start, u32 type, u32 length, struct twin_plain *plain)
{
	u64 first, second, third;
	u32 protocol, stated;

	if (length < 24)
		return false;
	first = twin_word(start, 0);
	second = twin_word(start, 1);
	third = twin_word(start, 2);
	if (type == 0x0800 && first >> 56 == 0x45 && (first & 0x3fff) == 0) {
		protocol = second >> 48 & 0xff;
		stated = first >> 32 & 0xffff;
		*plain = (struct twin_plain){
			.source = { second << 32 | third >> 32 },
			.rest = twin_plain_rest(4, first >> 48, protocol, third),
		};
		/* Offloading leaves a length of zero. */
		return (protocol == TWIN_UDP || protocol == TWIN_TCP) && (stated == 0 || stated >= 24);
	}
	if (type == 0x86dd && first >> 60 == 6 && length >= 44) {
		protocol = first >> 8 & 0xff;
		stated = first >> 16 & 0xffff;
		*plain = (struct twin_plain){
			.source = { second, third },
			.destination = { twin_word(start, 3), twin_word(start, 4) },
			.rest = twin_plain_rest(6, first >> 52, protocol, twin_word(start, 5) >> 32),
		};
		return (protocol == TWIN_UDP || protocol == TWIN_TCP) && (stated == 0 || stated >= 4);
	}
	return false;
}

/* The fields of a plain packet. */
TWIN_INLINE void twin_know_plain(const struct twin_plain *plain, struct twin_fields *fields)
{
	fields->is_v6 = plain->rest >> 48 == 6;
	if (fields->is_v6) {
		twin_know(fields, TWIN_SOURCE, plain->source[0], plain->source[1]);
		twin_know(fields, TWIN_DESTINATION, plain->destination[0], plain->destination[1]);
	} else {
		twin_know(fields, TWIN_SOURCE, 0, plain->source[0] >> 32);
		twin_know(fields, TWIN_DESTINATION, 0, (u32)plain->source[0]);
	}
	twin_know_protocol(fields, plain->rest >> 32 & 0xff);
	twin_know(fields, TWIN_DSCP, 0, plain->rest >> 40 & 0x3f);
	twin_know(fields, TWIN_SOURCE_PORT, 0, plain->rest >> 16 & 0xffff);
	twin_know(fields, TWIN_DESTINATION_PORT, 0, plain->rest & 0xffff);
}

/* Packets of which it is kept what they are classified as; a power of two. */
#define TWIN_KEPT 1024

struct twin_kept {
	struct twin_plain plain;
	/* The mark of the packet, and the number of the rules above. */
	u64 under;
	struct twin_class_of of;
};

struct twin_memory {
	/* How often the rules have changed. */
	u64 rules;
	struct twin_kept kept[TWIN_KEPT];
};

/* Where it is kept of a packet, in place of any other. */
TWIN_INLINE u32 twin_place_of(const struct twin_plain *plain)
{
	u64 mixed = (plain->source[0] ^ plain->source[1] ^ plain->destination[1]) + plain->rest * 0x9e3779b97f4a7c15ull;

	return (mixed * 0xd6e8feb86659fd93ull) >> 54;
}

TWIN_INLINE struct twin_kept *twin_kept_at(struct twin_memory *memory, u32 place)
{
	return &memory->kept[place & (TWIN_KEPT - 1)];
}

TWIN_INLINE u64 twin_under(const struct twin_memory *memory, u32 mark)
{
	return memory->rules << 32 | mark;
}

/* Whether it is what is kept. */
TWIN_INLINE bool twin_is_kept(const struct twin_kept *kept, const struct twin_plain *plain, u64 under)
{
	return kept->plain.rest == plain->rest && kept->plain.source[0] == plain->source[0] && kept->under == under &&
	       (plain->rest >> 48 == 4 ||
		(kept->plain.source[1] == plain->source[1] && kept->plain.destination[0] == plain->destination[0] &&
		 kept->plain.destination[1] == plain->destination[1]));
}

/* Whether rules are about what shows in no struct twin_plain, so that a packet is read field by field. */
TWIN_INLINE bool twin_needs_traits(const u64 *rules)
{
	return (twin_number(rules, TWIN_USED) & TWIN_TRAITS) != 0;
}

/* Keeps what a packet is classified as at a place of its own, unless its owner counts, or what differs from packet to packet. */
TWIN_INLINE void twin_keep(const u64 *rules, struct twin_kept *kept, const struct twin_plain *plain, u64 under,
			   const struct twin_class_of *of)
{
	if (!twin_uses(rules, TWIN_UID) && !twin_uses(rules, TWIN_CGROUP) && !twin_needs_traits(rules))
		*kept = (struct twin_kept){ *plain, under, *of };
}

/* The fields of the packets of which it is kept. */
TWIN_INLINE void twin_know_kept(const struct twin_kept *kept, struct twin_fields *fields)
{
	fields->known = fields->is_fragment = 0;
	twin_know(fields, TWIN_PACKET_MARK, 0, (u32)kept->under);
	twin_know_plain(&kept->plain, fields);
}

#endif
