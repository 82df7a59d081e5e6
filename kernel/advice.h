/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Rates in SCONE packets of passing QUIC flows: the network tells an endpoint what it may send. A part of marks.h.
 *
 * Which rate a flow is told is decided in user space, by the code that decides it for packets that are queued there
 * (crates/engine/src/advice.rs), each time that it reads the flows. Here it is written into each SCONE packet that has a higher one, as
 * crates/capture/src/scone.rs does. See draft-ietf-scone-protocol and RFC 8999, section 5.
 */
#ifndef TWIN_ADVICE_H
#define TWIN_ADVICE_H

#define SCONE_VERSION 0x6f7dc0fd
/* The longest connection id of QUIC, RFC 9000, section 17.2. */
#define LONGEST_ID 20
/* A SCONE packet and the ids of the packet behind it, with room for the largest index that the verifier has to assume. */
#define SCONE_BYTES 128
/* The datagrams of a superpacket, at most: UDP_MAX_SEGMENTS. */
#define MOST_DATAGRAMS 128
#define UDP_HEADER 8
#define BPF_F_MARK_MANGLED_0 (1 << 5)
/* SKB_GSO_UDP_L4 and SKB_GSO_FRAGLIST of the kernel. */
#define GSO_UDP (1 << 17)
#define GSO_FRAGMENT_LIST (1 << 18)

/* Mapped by the user. */
struct twin_advice {
	/*
	 * For each account: 0 where its class advises nothing; else 1, and above it, from bits 8 and 16 on, the signal plus 1 for a flow of
	 * IPv4 and of IPv6 that is not among these.
	 */
	u64 classes[MARKED_ACCOUNTS];
	/* For the flow in each queue: its key, with the signal plus 1 in place of the lowest 8 bits; 0 there where it is told nothing. */
	u64 flows[TWIN_QUEUES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct twin_advice);
} twin_advice SEC(".maps");

/* The beginning of the datagram that a processor looks at. */
struct twin_datagram {
	u8 bytes[SCONE_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct twin_datagram);
} twin_datagram SEC(".maps");

static __always_inline u32 scone_byte(const struct twin_datagram *from, u32 at)
{
	return from->bytes[at & (SCONE_BYTES - 1)];
}

/* Whether a packet that begins there is a SCONE packet. */
static __noinline bool is_scone(const struct twin_datagram *from, u32 at)
{
	u32 version = scone_byte(from, at + 1) << 24 | scone_byte(from, at + 2) << 16 | scone_byte(from, at + 3) << 8 |
		      scone_byte(from, at + 4);

	return scone_byte(from, at) >> 7 && (version & 0x7fffffff) == SCONE_VERSION;
}

/* Whether two ids of a length are the same. */
static __noinline bool are_same_ids(const struct twin_datagram *from, u32 one, u32 other, u32 length)
{
	TWIN_FOR(u32, i, 0, LONGEST_ID) {
		if (i >= length)
			break;
		if (scone_byte(from, one + i) != scone_byte(from, other + i))
			return false;
	}
	return true;
}

/* Whether a packet of the same connection follows the SCONE packet at the beginning; `count` bytes of the datagram are there. */
static __noinline bool is_followed(const struct twin_datagram *from, u32 count)
{
	u32 to = scone_byte(from, 5), back, next;

	if (to > LONGEST_ID)
		return false;
	back = scone_byte(from, 6 + to);
	next = 7 + to + back;
	if (back > LONGEST_ID || next >= count)
		return false;
	if (scone_byte(from, next) >> 7 == 0)
		return next + 1 + to <= count && are_same_ids(from, 6, next + 1, to);
	return next + 7 + to + back <= count && !is_scone(from, next) && scone_byte(from, next + 5) == to &&
	       scone_byte(from, next + 6 + to) == back && are_same_ids(from, 6, next + 6, to) &&
	       are_same_ids(from, 7 + to, next + 7 + to, back);
}

/*
 * Writes a signal into the datagram at a place, with up to `length` bytes, if it has a place for it. Returns whether it had. Not
 * static, so that it is verified once, and not for each datagram of a superpacket.
 */
__noinline u32 tell_datagram(struct __sk_buff *context, u32 at, u32 length, u32 udp, u32 signal)
{
	u32 key = 0, found, count = length;
	struct twin_datagram *from = bpf_map_lookup_elem(&twin_datagram, &key);
	u16 before, after;
	u8 new[2];

	if (!from || length < 5 || bpf_skb_load_bytes(context, at, from->bytes, 5) || !is_scone(from, 0))
		return false;
	if (count > SCONE_BYTES - 1)
		count = SCONE_BYTES - 1;
	/* Bytes of an earlier datagram are not looked at: whatever is read is below `count`. */
	if (bpf_skb_load_bytes(context, at, from->bytes, count & (SCONE_BYTES - 1)) || !is_followed(from, count))
		return false;
	found = (scone_byte(from, 0) & 0x3f) << 1 | scone_byte(from, 1) >> 7;
	if (found <= signal)
		return false;
	new[0] = (scone_byte(from, 0) & 0xc0) | signal >> 1;
	new[1] = (scone_byte(from, 1) & 0x7f) | (signal & 1) << 7;
	before = bpf_htons(scone_byte(from, 0) << 8 | scone_byte(from, 1));
	after = bpf_htons((u32)new[0] << 8 | new[1]);
	/* A checksum that a device has yet to complete stays, and so does one of zero. */
	if (bpf_skb_store_bytes(context, at, new, 2, 0))
		return false;
	return bpf_l4_csum_replace(context, udp + 6, before, after, BPF_F_MARK_MANGLED_0 | 2) == 0;
}

/* The signal that the flow of a packet is told, plus 1; 0 for nothing. */
static __noinline u32 signal_of(const struct twin_class_of *of, bool is_v6)
{
	u32 account = twin_index(twin_fbq_params(&classes, of->class)->account, MARKED_ACCOUNTS), key = 0, number;
	struct twin_advice *advice = bpf_map_lookup_elem(&twin_advice, &key);
	u64 told;

	if (!advice || !is_fbq(&in_force))
		return 0;
	told = advice->classes[account];
	if (told == 0)
		return 0;
	number = twin_find(&state.held, &state.held.flows, of->flow);
	if (number != TWIN_NONE) {
		u64 flow = advice->flows[twin_index(number, TWIN_QUEUES)];

		if (flow >> 8 == of->flow >> 8)
			return flow & 0xff;
	}
	return told >> (is_v6 ? 16 : 8) & 0xff;
}

/* Tells the datagrams of a packet the rate of its flow. */
static __noinline int advise(struct __sk_buff *context, struct sk_buff *skb, const struct twin_class_of *of)
{
	bool is_v6 = skb->protocol == bpf_htons(ETH_P_IPV6);
	u32 at = header_at(skb), account = twin_index(twin_fbq_params(&classes, of->class)->account, MARKED_ACCOUNTS), udp, end, step;
	u32 signal = signal_of(of, is_v6), told = 0;
	struct twin_counters *counters;
	struct skb_shared_info *info;
	u8 header[20];

	if (signal == 0 || bpf_skb_load_bytes(context, at, header, sizeof(header)))
		return 0;
	if (is_v6 ? header[0] >> 4 != 6 || header[6] != TWIN_UDP
		  : header[0] >> 4 != 4 || header[9] != TWIN_UDP || (header[6] & 0x3f) != 0 || header[7] != 0)
		return 0;
	udp = at + (is_v6 ? 40 : (header[0] & 15) * 4);
	end = skb->len;
	if (udp + UDP_HEADER >= end)
		return 0;
	info = bpf_rdonly_cast(skb->head + skb->end, bpf_core_type_id_kernel(struct skb_shared_info));
	step = info->gso_size;
	/* Other superpackets are of a tunnel, or have a header for each datagram. */
	if (step != 0 && (info->gso_type & (GSO_UDP | GSO_FRAGMENT_LIST)) != GSO_UDP)
		return 0;
	TWIN_FOR(u32, i, 0, MOST_DATAGRAMS) {
		u32 from = udp + UDP_HEADER + i * step, left = end - from;

		if (from >= end || (i != 0 && step == 0))
			break;
		told += tell_datagram(context, from, step != 0 && step < left ? step : left, udp, signal - 1);
	}
	counters = bpf_map_lookup_elem(&twin_counters, &account);
	if (counters && told != 0)
		__sync_fetch_and_add(&counters->advised_packets, told);
	return 0;
}

#endif
