/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * From a packet to its class, its profile and the key of its flow: what crates/capture dissects, crates/core/src/classify looks
 * up and crates/core/src/classify/flow.rs hashes. The rules are numbers in one array, made by crates/core/src/classify/image.rs.
 *
 * The includer defines before:
 *	twin_bytes: a type for the bytes of a packet,
 *	bool twin_read(const twin_bytes *bytes, u32 at, u8 *to, u32 count): copies bytes of a packet; false if it has fewer.
 * Every position in the rules is taken modulo their room: rules that are being written give a wrong class and no wrong access.
 */
#ifndef TWIN_CLASSIFY_H
#define TWIN_CLASSIFY_H

#include "integers.h"

/* Numbers that rules may have; a power of two. */
#define TWIN_RULES 65536
/* Fields that they may use, a mark under each mask being one, and steps through their tables. The core has up to 24 of the former. */
#define TWIN_AXES 32
#define TWIN_RULE_STEPS 256
#define TWIN_NO_RULE ((1u << 30) - 1)
#define TWIN_UNKNOWN_PROTOCOL 256
/* Tags of a VLAN, and extension headers, that are followed. */
#define TWIN_TAGS 8
#define TWIN_EXTENSIONS 12
/* Tunnels, one in the other, that are looked into. */
#define TWIN_TUNNELS 2

/* Written by the user: those in force, as the options say, and the others. No number beyond both is written: those of promises,
 * which are behind the rules of a half, are taken modulo the same room. */
struct twin_rules {
	u64 numbers[3 * TWIN_RULES];
};

/* The head of rules, as image.rs writes it. */
enum { TWIN_AXIS_COUNT, TWIN_STEP_COUNT, TWIN_AXES_AT, TWIN_STEPS_AT, TWIN_RESULTS_AT, TWIN_CATCH_ALL, TWIN_FLOW_BY, TWIN_KEY,
       TWIN_USED = TWIN_KEY + 4, TWIN_GROUPS, TWIN_SECOND };

enum twin_flow_by {
	TWIN_FIVE_TUPLE,
	TWIN_HOST_PAIR,
	TWIN_BY_SOURCE,
	TWIN_BY_DESTINATION,
	TWIN_SOCKET,
	TWIN_BY_UID,
	TWIN_BY_CGROUP,
	TWIN_BY_DSCP,
	TWIN_BY_MARK
};

enum twin_field {
	TWIN_SOURCE,
	TWIN_DESTINATION,
	TWIN_SOURCE_PORT,
	TWIN_DESTINATION_PORT,
	TWIN_UID,
	TWIN_CGROUP,
	/* 257 for IPv6, and the protocol. */
	TWIN_IP_KIND,
	TWIN_DSCP,
	TWIN_PACKET_MARK,
	/* From the network header on; of fragments neither this nor the two below are known. */
	TWIN_LENGTH,
	/* 256 for an acknowledgement without data, and the flags of TCP. */
	TWIN_SEGMENT,
	/* 256 for ICMPv6, and the type of the message. */
	TWIN_MESSAGE,
	/* A power of two. */
	TWIN_FIELDS = 16
};

/* The fields in which packets of one flow differ. */
#define TWIN_TRAITS (1 << TWIN_LENGTH | 1 << TWIN_SEGMENT | 1 << TWIN_MESSAGE)

/* What rules can be about. */
struct twin_fields {
	/* The upper and the lower half of each, and a bit for each that is known. */
	u64 high[TWIN_FIELDS], low[TWIN_FIELDS];
	u64 known;
	u64 is_v6;
	/* Of a fragment: its number, its place in bytes, and whether more follow; is_fragment is 0 for a whole datagram. */
	u64 is_fragment, fragment_id, fragment_at, more;
	/* Where a packet begins that this one carries in a tunnel, 0 for none, up to where this one can be read, and where it ends. */
	u64 carried_at, carried_end, carried_whole;
	/* For the look-up: what the interval of each field leads to. */
	u32 found[TWIN_AXES];
};

/* What a packet is classified as. */
struct twin_class_of {
	u32 class;
	u32 profile;
	u64 flow;
};

TWIN_INLINE void twin_know(struct twin_fields *fields, enum twin_field field, u64 high, u64 low)
{
	fields->high[field] = high;
	fields->low[field] = low;
	fields->known |= 1u << field;
}

TWIN_INLINE bool twin_knows(const struct twin_fields *fields, enum twin_field field)
{
	return fields->known >> field & 1;
}

TWIN_INLINE u32 twin_be16(const u8 *bytes)
{
	return (u32)bytes[0] << 8 | bytes[1];
}

TWIN_INLINE u64 twin_be32(const u8 *bytes)
{
	return (u64)twin_be16(bytes) << 16 | twin_be16(bytes + 2);
}

TWIN_INLINE u64 twin_be64(const u8 *bytes)
{
	return twin_be32(bytes) << 32 | twin_be32(bytes + 4);
}

enum {
	TWIN_HOP_BY_HOP = 0,
	TWIN_ICMP = 1,
	TWIN_IPV4_IN_IP = 4,
	TWIN_TCP = 6,
	TWIN_UDP = 17,
	TWIN_DCCP = 33,
	TWIN_IPV6_IN_IP = 41,
	TWIN_ROUTING = 43,
	TWIN_FRAGMENT = 44,
	TWIN_GRE = 47,
	TWIN_AUTHENTICATION = 51,
	TWIN_ICMPV6 = 58,
	TWIN_DESTINATION_OPTIONS = 60,
	TWIN_SCTP = 132,
	TWIN_MOBILITY = 135,
	TWIN_UDP_LITE = 136,
	TWIN_HIP = 139,
	TWIN_SHIM6 = 140
};

TWIN_INLINE bool twin_is_extension(bool is_v6, u32 protocol)
{
	if (protocol == TWIN_AUTHENTICATION)
		return true;
	return is_v6 && (protocol == TWIN_HOP_BY_HOP || protocol == TWIN_ROUTING || protocol == TWIN_FRAGMENT ||
			 protocol == TWIN_DESTINATION_OPTIONS || protocol == TWIN_MOBILITY || protocol == TWIN_HIP ||
			 protocol == TWIN_SHIM6);
}

TWIN_INLINE void twin_know_protocol(struct twin_fields *fields, u32 protocol)
{
	twin_know(fields, TWIN_IP_KIND, 0, (fields->is_v6 ? 257 : 0) + protocol);
}

/* Notes the packet that this one carries, if it is that of a tunnel that can be looked into. */
TWIN_INLINE void twin_note_carried(const twin_bytes *bytes, u32 at, u32 end, u32 whole, u32 protocol, struct twin_fields *fields)
{
	u8 header[4];
	u32 type;

	if (fields->is_fragment)
		return;
	if (protocol == TWIN_GRE) {
		if (at + 4 > end || !twin_read(bytes, at, header, 4))
			return;
		type = twin_be16(header + 2);
		/* Flags other than those of checksum, key and sequence number, and versions other than 0, are not known. */
		if ((header[0] & 0x4c) != 0 || (header[1] & 7) != 0 || (type != 0x0800 && type != 0x86dd))
			return;
		at += 4 + 4 * ((header[0] >> 7) + (header[0] >> 5 & 1) + (header[0] >> 4 & 1));
	} else if (protocol != TWIN_IPV4_IN_IP && protocol != TWIN_IPV6_IN_IP) {
		return;
	}
	fields->carried_at = at;
	fields->carried_end = end;
	fields->carried_whole = whole;
}

/* The flags of a TCP segment, and whether it is an acknowledgement without data. The packet ends at `whole`. */
TWIN_INLINE void twin_segment(const twin_bytes *bytes, u32 at, u32 end, u32 whole, struct twin_fields *fields)
{
	u8 rest[2];
	bool is_pure;

	if (fields->is_fragment || at + 14 > end || !twin_read(bytes, at + 12, rest, 2))
		return;
	/* ACK, perhaps with PSH, and nothing behind the header. */
	is_pure = (rest[1] & ~8) == 16 && rest[0] >> 4 >= 5 && at + (rest[0] >> 4) * 4u == whole;
	twin_know(fields, TWIN_SEGMENT, 0, (is_pure ? 256 : 0) + rest[1]);
}

/* The header of the transport, from `at` on: bytes up to `end` can be read, of a packet that ends at `whole`. */
TWIN_INLINE void twin_transport(const twin_bytes *bytes, u32 at, u32 end, u32 whole, u32 protocol, struct twin_fields *fields)
{
	u8 ports[4];

	twin_note_carried(bytes, at, end, whole, protocol, fields);
	if (protocol == TWIN_ICMP || protocol == TWIN_ICMPV6) {
		if (!fields->is_fragment && at < end && twin_read(bytes, at, ports, 1))
			twin_know(fields, TWIN_MESSAGE, 0, (protocol == TWIN_ICMPV6 ? 256 : 0) + ports[0]);
		return;
	}
	if (protocol != TWIN_TCP && protocol != TWIN_UDP && protocol != TWIN_DCCP && protocol != TWIN_SCTP &&
	    protocol != TWIN_UDP_LITE)
		return;
	if (at + 4 > end || !twin_read(bytes, at, ports, 4))
		return;
	twin_know(fields, TWIN_SOURCE_PORT, 0, twin_be16(ports));
	twin_know(fields, TWIN_DESTINATION_PORT, 0, twin_be16(ports + 2));
	if (protocol == TWIN_TCP)
		twin_segment(bytes, at, end, whole, fields);
}

TWIN_INLINE void twin_know_fragment(struct twin_fields *fields, u64 id, u32 at, bool more)
{
	fields->is_fragment = 1;
	fields->fragment_id = id;
	fields->fragment_at = at;
	fields->more = more;
}

/* Follows the headers from `at` on, the first of which is `next`, while they are extensions. */
TWIN_INLINE void twin_extensions(const twin_bytes *bytes, u32 at, u32 end, u32 whole, u32 next, struct twin_fields *fields)
{
	bool is_v6 = fields->is_v6, later = false;

	TWIN_FOR(u32, i, 0, TWIN_EXTENSIONS) {
		u8 header[8];
		u32 size, place;

		if (!twin_is_extension(is_v6, next) || at + 2 > end || !twin_read(bytes, at, header, 2))
			break;
		size = next == TWIN_FRAGMENT	    ? 8
		       : next == TWIN_AUTHENTICATION ? (header[1] + 2u) * 4
						     : (header[1] + 1u) * 8;
		if (at + size > end || (next == TWIN_AUTHENTICATION && size < 12))
			break;
		if (next == TWIN_FRAGMENT) {
			if (!twin_read(bytes, at, header, 8))
				break;
			place = twin_be16(header + 2);
			/* One that is the whole datagram is none (RFC 6946); of fragments in fragments the outer one counts. */
			if (!fields->is_fragment && ((place & ~7u) != 0 || (place & 1)))
				twin_know_fragment(fields, twin_be32(header + 4), place & ~7u, place & 1);
			later = (place & ~7u) != 0;
		}
		at += size;
		next = header[0];
		if (later)
			break;
	}
	if (later) {
		twin_know_protocol(fields, next);
		return;
	}
	if (twin_is_extension(is_v6, next))
		return;
	twin_know_protocol(fields, next);
	twin_transport(bytes, at, end, whole, next, fields);
}

/* The length of a packet that states it, which offloading leaves at zero. */
TWIN_INLINE u32 twin_total(u32 stated, u32 length)
{
	return stated == 0 || stated > length ? length : stated;
}

/* The length of a packet, whose other headers are known by now. */
TWIN_INLINE void twin_know_length(struct twin_fields *fields, u32 total)
{
	if (!fields->is_fragment)
		twin_know(fields, TWIN_LENGTH, 0, min_u32(total, 65535));
}

TWIN_INLINE void twin_know_ip(struct twin_fields *fields, u32 service)
{
	/* The protocol shows later, if at all. */
	twin_know_protocol(fields, TWIN_UNKNOWN_PROTOCOL);
	twin_know(fields, TWIN_DSCP, 0, service >> 2);
}

TWIN_INLINE void twin_v4(const twin_bytes *bytes, u32 at, u32 length, u32 captured, const u8 *fixed, struct twin_fields *fields)
{
	u32 header = (fixed[0] & 15) * 4, stated = twin_be16(fixed + 2), place = twin_be16(fixed + 6);
	u32 total = twin_total(stated, length), end = at + min_u32(total, captured), whole = at + total;

	if (header < 20 || (stated != 0 && stated < header))
		return;
	fields->is_v6 = 0;
	twin_know(fields, TWIN_SOURCE, 0, twin_be32(fixed + 12));
	twin_know(fields, TWIN_DESTINATION, 0, twin_be32(fixed + 16));
	twin_know_ip(fields, fixed[1]);
	at += header;
	if ((place & 0x3fff) == 0) {
		twin_extensions(bytes, at, end, whole, fixed[9], fields);
		twin_know_length(fields, total);
		return;
	}
	twin_know_fragment(fields, twin_be16(fixed + 4), (place & 0x1fff) * 8, (place & 0x2000) != 0);
	/* Later fragments show no other header, and all must have the same protocol. */
	twin_know_protocol(fields, fixed[9]);
	if ((place & 0x1fff) == 0)
		twin_transport(bytes, at, end, whole, fixed[9], fields);
}

TWIN_INLINE void twin_v6(const twin_bytes *bytes, u32 at, u32 length, u32 captured, const u8 *fixed, struct twin_fields *fields)
{
	u32 payload = twin_be16(fixed + 4), total = twin_total(payload == 0 ? 0 : payload + 40, length);

	fields->is_v6 = 1;
	twin_know(fields, TWIN_SOURCE, twin_be64(fixed + 8), twin_be64(fixed + 16));
	twin_know(fields, TWIN_DESTINATION, twin_be64(fixed + 24), twin_be64(fixed + 32));
	twin_know_ip(fields, (fixed[0] & 15) << 4 | fixed[1] >> 4);
	twin_extensions(bytes, at + 40, at + min_u32(total, captured), at + total, fixed[6], fields);
	twin_know_length(fields, total);
}

/* Dissects a packet of IP that begins at `at` and has `length` bytes, of which `captured` can be read. */
TWIN_INLINE void twin_ip(const twin_bytes *bytes, u32 at, u32 length, u32 captured, struct twin_fields *fields)
{
	u8 fixed[40];

	if (captured < 20 || !twin_read(bytes, at, fixed, 20))
		return;
	if (fixed[0] >> 4 == 4)
		twin_v4(bytes, at, length, captured, fixed, fields);
	else if (fixed[0] >> 4 == 6 && captured >= 40 && twin_read(bytes, at + 20, fixed + 20, 20))
		twin_v6(bytes, at, length, captured, fixed, fields);
}

/*
 * Dissects a packet and those that it carries in tunnels: the fields are those of the innermost one, but for the code point and the
 * length, which are those of the packet itself. Of a fragment inside no length is known.
 */
TWIN_INLINE void twin_layers(const twin_bytes *bytes, u32 at, u32 length, u32 captured, struct twin_fields *fields)
{
	u64 service = 0, whole = 0;

	TWIN_FOR(u32, i, 0, TWIN_TUNNELS + 1) {
		fields->carried_at = 0;
		twin_ip(bytes, at, length, captured, fields);
		if (i == 0) {
			service = fields->low[TWIN_DSCP];
			whole = fields->low[TWIN_LENGTH];
		} else {
			fields->low[TWIN_DSCP] = service;
			fields->low[TWIN_LENGTH] = whole;
			if (fields->is_fragment)
				fields->known &= ~(1u << TWIN_LENGTH);
		}
		if (fields->carried_at == 0 || fields->carried_at >= fields->carried_end)
			break;
		at = fields->carried_at;
		length = fields->carried_whole - at;
		captured = fields->carried_end - at;
	}
}

/*
 * Dissects a packet whose type, as Ethernet has it, is `type` and whose next byte is at `at`. It has `length` bytes, of which
 * `captured` can be read, both counted from the beginning. What the headers do not show stays as it is.
 */
TWIN_INLINE void twin_dissect(const twin_bytes *bytes, u32 at, u32 type, u32 length, u32 captured, struct twin_fields *fields)
{
	bool is_tagged = true, is_ip;
	u8 fixed[2];

	TWIN_FOR(u32, i, 0, TWIN_TAGS + 1) {
		is_tagged = type == 0x8100 || type == 0x88a8 || type == 0x9100;
		if (!is_tagged || !twin_read(bytes, at + 2, fixed, 2))
			break;
		type = twin_be16(fixed);
		at += 4;
	}
	is_ip = !is_tagged && (type == 0x0800 || type == 0x86dd);
	/* A session of PPPoE: six bytes, then the protocol. */
	if (!is_tagged && type == 0x8864 && twin_read(bytes, at + 6, fixed, 2)) {
		type = twin_be16(fixed);
		is_ip = type == 0x0021 || type == 0x0057;
		at += 8;
	}
	if (is_ip && at < captured)
		twin_layers(bytes, at, length - at, captured - at, fields);
}

/* SipHash-1-3 of whole words. */
struct twin_hash {
	u64 a, b, c, d;
};

TWIN_INLINE void twin_hash_round(struct twin_hash *hash)
{
	hash->a += hash->b;
	hash->c += hash->d;
	hash->b = rotate_left_u64(hash->b, 13) ^ hash->a;
	hash->d = rotate_left_u64(hash->d, 16) ^ hash->c;
	hash->a = rotate_left_u64(hash->a, 32) + hash->d;
	hash->c += hash->b;
	hash->d = rotate_left_u64(hash->d, 21) ^ hash->a;
	hash->b = rotate_left_u64(hash->b, 17) ^ hash->c;
	hash->c = rotate_left_u64(hash->c, 32);
}

TWIN_INLINE void twin_hash_word(struct twin_hash *hash, u64 word)
{
	hash->d ^= word;
	twin_hash_round(hash);
	hash->a ^= word;
}

TWIN_INLINE u64 twin_hash_end(struct twin_hash *hash, u64 words)
{
	twin_hash_word(hash, words << 59);
	hash->c ^= 0xff;
	twin_hash_round(hash);
	twin_hash_round(hash);
	twin_hash_round(hash);
	return hash->a ^ hash->b ^ hash->c ^ hash->d;
}

/* The rules in force, for the functions below. */
TWIN_INLINE const u64 *twin_rules_in_force(const struct twin_rules *rules, u64 which)
{
	return rules->numbers + (which & 1) * TWIN_RULES;
}

TWIN_INLINE u64 twin_number(const u64 *rules, u32 at)
{
	return rules[at & (TWIN_RULES - 1)];
}

TWIN_INLINE struct twin_hash twin_hash_begin(const u64 *rules)
{
	return (struct twin_hash){ twin_number(rules, TWIN_KEY), twin_number(rules, TWIN_KEY + 1),
				   twin_number(rules, TWIN_KEY + 2), twin_number(rules, TWIN_KEY + 3) };
}

TWIN_INLINE u64 twin_hash_two(const u64 *rules, u64 first, u64 second)
{
	struct twin_hash hash = twin_hash_begin(rules);

	twin_hash_word(&hash, first);
	twin_hash_word(&hash, second);
	return twin_hash_end(&hash, 2);
}

/* The key of an address: of the source or the destination. */
TWIN_FUNCTION u64 twin_host_key(const u64 *rules, const struct twin_fields *fields, u32 field)
{
	struct twin_hash hash = twin_hash_begin(rules);

	if (!twin_knows(fields, TWIN_SOURCE))
		return 0;
	field = field == TWIN_SOURCE ? TWIN_SOURCE : TWIN_DESTINATION;
	if (!fields->is_v6) {
		twin_hash_word(&hash, 10ull << 56 | fields->low[field]);
		return twin_hash_end(&hash, 1);
	}
	twin_hash_word(&hash, 11ull << 56);
	twin_hash_word(&hash, fields->high[field]);
	twin_hash_word(&hash, fields->low[field]);
	return twin_hash_end(&hash, 3);
}

TWIN_INLINE u64 twin_port(const struct twin_fields *fields, enum twin_field field)
{
	return twin_knows(fields, field) ? 1 << 16 | fields->low[field] : 0;
}

/* 9 bits of protocol and 17 for each port, so that what is not known differs from zero. */
TWIN_INLINE u64 twin_protocol_and_ports(const struct twin_fields *fields, bool destination)
{
	u64 kind = fields->low[TWIN_IP_KIND] - (fields->is_v6 ? 257 : 0), protocol = 0;

	if (twin_knows(fields, TWIN_IP_KIND) && kind != TWIN_UNKNOWN_PROTOCOL)
		protocol = 1 << 8 | kind;
	return protocol << 34 | twin_port(fields, TWIN_SOURCE_PORT) << 17 |
	       (destination ? twin_port(fields, TWIN_DESTINATION_PORT) : 0);
}

TWIN_INLINE u64 twin_five_tuple(const u64 *rules, const struct twin_fields *fields)
{
	u64 rest = twin_protocol_and_ports(fields, true);
	struct twin_hash hash = twin_hash_begin(rules);

	if (!twin_knows(fields, TWIN_SOURCE)) {
		twin_hash_word(&hash, 7ull << 56 | rest);
		return twin_hash_end(&hash, 1);
	}
	if (!fields->is_v6) {
		twin_hash_word(&hash, 8ull << 56 | rest);
		twin_hash_word(&hash, fields->low[TWIN_SOURCE] << 32 | fields->low[TWIN_DESTINATION]);
		return twin_hash_end(&hash, 2);
	}
	twin_hash_word(&hash, 9ull << 56 | rest);
	twin_hash_word(&hash, fields->high[TWIN_SOURCE]);
	twin_hash_word(&hash, fields->low[TWIN_SOURCE]);
	twin_hash_word(&hash, fields->high[TWIN_DESTINATION]);
	twin_hash_word(&hash, fields->low[TWIN_DESTINATION]);
	return twin_hash_end(&hash, 5);
}

/* The first word says what kind of number it is. */
TWIN_INLINE u64 twin_key_of(const u64 *rules, const struct twin_fields *fields, u64 kind, enum twin_field field)
{
	bool known = twin_knows(fields, field);

	return twin_hash_two(rules, kind << 56 | known, known ? fields->low[field] : 0);
}

/* The key of a flow, without its class. */
TWIN_FUNCTION u64 twin_flow_key(const u64 *rules, const struct twin_fields *fields)
{
	struct twin_hash hash;

	switch (twin_number(rules, TWIN_FLOW_BY)) {
	case TWIN_HOST_PAIR:
		hash = twin_hash_begin(rules);
		twin_hash_word(&hash, 2ull << 56);
		twin_hash_word(&hash, twin_host_key(rules, fields, TWIN_SOURCE));
		twin_hash_word(&hash, twin_host_key(rules, fields, TWIN_DESTINATION));
		return twin_hash_end(&hash, 3);
	case TWIN_BY_SOURCE:
		return twin_host_key(rules, fields, TWIN_SOURCE);
	case TWIN_BY_DESTINATION:
		return twin_host_key(rules, fields, TWIN_DESTINATION);
	case TWIN_SOCKET:
		return twin_hash_two(rules, 13ull << 56 | twin_protocol_and_ports(fields, false),
				     twin_host_key(rules, fields, TWIN_SOURCE));
	case TWIN_BY_UID:
		return twin_key_of(rules, fields, 3, TWIN_UID);
	case TWIN_BY_CGROUP:
		return twin_key_of(rules, fields, 4, TWIN_CGROUP);
	case TWIN_BY_DSCP:
		return twin_key_of(rules, fields, 5, TWIN_DSCP);
	case TWIN_BY_MARK:
		return twin_key_of(rules, fields, 6, TWIN_PACKET_MARK);
	default:
		return twin_five_tuple(rules, fields);
	}
}

/* The number of a value's interval: the last of `count` that begins at or before it, the first of which is at `at`. */
TWIN_FUNCTION u64 twin_interval(const u64 *rules, u32 at, u32 count, u64 high, u64 low)
{
	TWIN_FOR(u32, i, 0, 16) {
		u32 half = count / 2, middle = at + half * 3;
		u64 start;

		if (half == 0)
			break;
		start = twin_number(rules, middle);
		if (start < high || (start == high && twin_number(rules, middle + 1) <= low)) {
			at = middle;
			count -= half;
		} else {
			count = half;
		}
	}
	return twin_number(rules, at + 2);
}

/* Finds what the value of each field leads to. Returns the first rule that matches by one field alone. */
TWIN_FUNCTION u32 twin_look_up(const u64 *rules, struct twin_fields *fields)
{
	u32 best = twin_number(rules, TWIN_CATCH_ALL);

	TWIN_FOR(u32, i, 0, TWIN_AXES) {
		u32 at = (u32)twin_number(rules, TWIN_AXES_AT) + i * 4, field;
		u64 list, found;

		if (i >= (u32)twin_number(rules, TWIN_AXIS_COUNT))
			break;
		field = (u32)twin_number(rules, at) & (TWIN_FIELDS - 1);
		if (!(fields->known >> field & 1)) {
			fields->found[i & (TWIN_AXES - 1)] = 0;
			continue;
		}
		list = twin_number(rules, at + 2 + (fields->is_v6 && field <= TWIN_DESTINATION));
		found = twin_interval(rules, list, list >> 32, fields->high[field], fields->low[field] & twin_number(rules, at + 1));
		best = min_u32(best, found);
		fields->found[i & (TWIN_AXES - 1)] = found >> 32;
	}
	return best;
}

/* The state after `state` where the next field is of class `class`. */
TWIN_INLINE u32 twin_next_state(const u64 *rules, u64 tables, u32 state, u32 class)
{
	u32 row = (u32)tables + state * 2;
	u64 first = twin_number(rules, row), second = twin_number(rules, row + 1);
	u32 low = first >> 32, span = second, next = second >> 32;

	if (low != U32_MAX)
		return class - low <= span ? next : (u32)first;
	for (u32 i = 0; i < 2; i++) {
		u64 hash = class * (i == 0 ? 0x9e3779b97f4a7c15ull : 0xd6e8feb86659fd93ull) >> 32;
		u64 slot = twin_number(rules, (u32)(tables >> 32) + next + (u32)(hash * span >> 32));

		if ((u32)slot == class)
			return slot >> 32;
	}
	return first;
}

/* Follows the tables of rules with several conditions. Returns the first rule that matches, of these and `best`. */
TWIN_FUNCTION u32 twin_combine(const u64 *rules, const struct twin_fields *fields, u32 best)
{
	u32 state = U32_MAX;

	TWIN_FOR(u32, i, 0, TWIN_RULE_STEPS) {
		u32 at = (u32)twin_number(rules, TWIN_STEPS_AT) + i * 2, axis, rows, number;
		u64 step;

		if (i >= (u32)twin_number(rules, TWIN_STEP_COUNT))
			break;
		step = twin_number(rules, at);
		axis = (u32)step & (TWIN_AXES - 1);
		number = fields->found[axis];
		rows = twin_number(rules, (u32)twin_number(rules, TWIN_AXES_AT) + axis * 4) >> 32;
		if (rows)
			number = twin_number(rules, rows + number + ((u32)(step >> 32) & ~(1u << 31)));
		if (step >> 63) {
			best = min_u32(best, state);
			state = number;
		} else {
			state = twin_next_state(rules, twin_number(rules, at + 1), state, number);
		}
	}
	return min_u32(best, state);
}

/* Whether rules or keys of flows need a field. */
TWIN_INLINE bool twin_uses(const u64 *rules, enum twin_field field)
{
	return twin_number(rules, TWIN_USED) >> field & 1;
}

/* What a forwarded packet, which has no control group, has in its place: from this number on, the index of the interface by which it came in. */
#define TWIN_INTERFACES (1ull << 63)

/*
 * Goes on from a control group to the one that has it: of all of them the group counts that a rule names first. `first` is the
 * place of that in the order of the rules so far, and U32_MAX at the beginning.
 */
TWIN_INLINE void twin_know_group(const u64 *rules, u64 group, u32 *first, struct twin_fields *fields)
{
	u64 list = twin_number(rules, TWIN_GROUPS);
	u32 place = twin_interval(rules, list, list >> 32, 0, group);

	if (place >= *first)
		return;
	*first = place;
	twin_know(fields, TWIN_CGROUP, 0, group);
}

/* Where the result is of the first rule that matches these fields. */
TWIN_INLINE u32 twin_find_result(const u64 *rules, struct twin_fields *fields)
{
	u32 best = twin_combine(rules, fields, twin_look_up(rules, fields)), at = (u32)twin_number(rules, TWIN_RESULTS_AT);

	return best < TWIN_NO_RULE ? at + (best + 1) * 2 : at;
}

/* The class, the profile and the flow of a packet with these fields. */
TWIN_INLINE void twin_find_class(const u64 *rules, struct twin_fields *fields, struct twin_class_of *of)
{
	u32 at = twin_find_result(rules, fields);

	of->class = twin_number(rules, at);
	of->profile = twin_number(rules, at) >> 32;
	of->flow = twin_flow_key(rules, fields) ^ twin_number(rules, at + 1);
}

/* The place, plus 1, of the promise whose conditions these fields meet; 0 for none. Its rules are behind those of classes. */
TWIN_INLINE u32 twin_find_promise(const u64 *rules, struct twin_fields *fields)
{
	u64 second = twin_number(rules, TWIN_SECOND) & (TWIN_RULES - 1);

	return second == 0 ? 0 : twin_number(rules + second, twin_find_result(rules + second, fields));
}

#endif
