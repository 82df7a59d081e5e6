/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * CAKE, as crates/core/src/qdisc/cake.rs has it: tins by code point, hosts and their flows in turn, COBALT on the queue of each flow,
 * and a line that goes into debt for each packet. Its queues are in the room of its discipline; here is what they have besides. A part
 * of disciplines.h and departures.h. kernel/build compiles a program of its own with TWIN_WITH_CAKE: the others have no memory for
 * it, and the kernel verifies them without it.
 */
#ifndef TWIN_CAKE_H
#define TWIN_CAKE_H

TWIN_INLINE codel_params twin_codel(const struct twin_options *options);

#ifdef TWIN_WITH_CAKE

/* The most queues, a power of two; those of a set; the most tins, a power of two. */
#define TWIN_CAKE_QUEUES 1024
#define TWIN_CAKE_WAYS 8
#define TWIN_CAKE_SETS (TWIN_CAKE_QUEUES / TWIN_CAKE_WAYS)
#define TWIN_CAKE_TINS 4

struct twin_cake_flow {
	cobalt_state cobalt;
	round_deficit deficit;
	u32 tin, host;
	/* Packets inside: acknowledgements of the flow that the queue is named by, and those of other flows. */
	u32 acks, foreign;
};

/* A host with busy flows in a tin. */
struct twin_cake_host {
	u64 key;
	/* Pays for all packets of its flows. */
	round_deficit deficit;
	/* Those that take turns. */
	struct twin_list flows;
	u32 tin;
	/* How many flows are busy, those that go before the others included. */
	u32 busy;
	/* The neighbours in the turns of the tin; the next of those that are free. */
	u32 before, next;
	/* The next with the same hash of its key. */
	u32 chain;
};

struct twin_cake_tin {
	/* Flows that just became busy, and hosts that take turns. */
	struct twin_list fresh, hosts;
	round_deficit deficit;
	u64 packets;
	/* The rest of the share within which it goes first, if it has one. */
	bucket_token_bucket first;
	bool has_first;
};

struct twin_cake {
	/* How often a packet arrived while none was queued, since which no flow is busy, no host is there and all tins are equal. */
	u64 period;
	/* Bytes of a turn: the most that a packet seen takes on the line, if that is more than what the options say. */
	s64 quantum;
	/* The tin whose turn it is, and the one that is served within a call, or TWIN_NONE. */
	u32 turn, serving;
	/* An acknowledgement that a later one replaces and that is to be dropped, or TWIN_NONE. */
	u32 filtered;
	/* Hosts that were ever used in this period, and those that are free. */
	u32 used, free;
	/* Whether packets leave ahead of the line. */
	bool always;
	struct twin_cake_tin tins[TWIN_CAKE_TINS];
	/* The flow that has a queue, or had it last. */
	u64 tags[TWIN_CAKE_QUEUES];
	/* The busy queues of each set, and in which period that is true. */
	u64 busy_in[TWIN_CAKE_SETS];
	u32 busy[TWIN_CAKE_SETS];
	/* The first host with each hash, and in which period. */
	u64 chained_in[TWIN_CAKE_QUEUES];
	u32 chains[TWIN_CAKE_QUEUES];
	struct twin_cake_flow flows[TWIN_CAKE_QUEUES];
	struct twin_cake_host hosts[TWIN_CAKE_QUEUES];
};

/* Of the only CAKE. Not static: see chassis.bpf.c. */
struct twin_cake twin_cake;

TWIN_INLINE bool twin_is_cake(const struct twin_options *options)
{
	return options->kind == TWIN_CAKE;
}

TWIN_INLINE struct twin_cake_flow *twin_cake_flow_at(u32 index)
{
	return &twin_cake.flows[twin_index(index, TWIN_CAKE_QUEUES)];
}

TWIN_INLINE struct twin_cake_host *twin_cake_host_at(u32 number)
{
	return &twin_cake.hosts[twin_index(number, TWIN_CAKE_QUEUES)];
}

TWIN_INLINE struct twin_cake_tin *twin_cake_tin_at(u32 number)
{
	return &twin_cake.tins[twin_index(number, TWIN_CAKE_TINS)];
}

TWIN_INLINE u64 *twin_cake_tag_at(u32 index)
{
	return &twin_cake.tags[twin_index(index, TWIN_CAKE_QUEUES)];
}

/* The bytes that a packet takes on the line. */
TWIN_GLOBAL u64 twin_cake_bytes(const struct twin_options *options TWIN_GIVEN, u64 size, u32 segments)
{
	cake_wire wire = { .overhead = (s16)options->overhead, .least = options->least, .framing = options->framing };

	return cake_wire_bytes(&wire, size, segments);
}

/* No flow is busy any more, as none has a packet: those that were are new again. */
TWIN_INLINE void twin_cake_rest_all(void)
{
	struct twin_list none = { .head = TWIN_NONE, .tail = TWIN_NONE };

	twin_cake.period++;
	twin_cake.used = twin_cake.turn = 0;
	twin_cake.free = TWIN_NONE;
	for (u32 i = 0; i < TWIN_CAKE_TINS; i++) {
		twin_cake.tins[i].fresh = twin_cake.tins[i].hosts = none;
		twin_cake.tins[i].deficit = (round_deficit){0};
	}
}

/* Without packets, at the beginning. */
TWIN_GLOBAL u32 twin_begin_cake(const struct twin_options *options TWIN_GIVEN)
{
	twin_cake.period = 0;
	twin_cake.quantum = twin_cake_bytes(options, options->quantum, 1);
	twin_cake.serving = twin_cake.filtered = TWIN_NONE;
	twin_cake.always = false;
	TWIN_FOR(u32, number, 0, TWIN_CAKE_TINS) {
		struct twin_cake_tin *tin = twin_cake_tin_at(number);
		u32 share = options->tin[twin_index(number, TWIN_CAKE_TINS)] >> 32;

		tin->packets = 0;
		tin->has_first = options->rate != 0 && share != 0;
		tin->first = cake_first_share(options->rate, share);
	}
	TWIN_FOR(u32, i, 0, TWIN_CAKE_QUEUES) {
		*twin_cake_flow_at(i) = (struct twin_cake_flow){0};
		*twin_cake_tag_at(i) = 0;
		twin_cake.chained_in[twin_index(i, TWIN_CAKE_QUEUES)] = 0;
		twin_cake.busy_in[twin_index(i / TWIN_CAKE_WAYS, TWIN_CAKE_SETS)] = 0;
	}
	twin_cake_rest_all();
	return 0;
}

/* The busy queues of the set of a queue, as bits. */
TWIN_INLINE u32 twin_cake_busy_of(u32 index)
{
	u64 set = twin_index(index / TWIN_CAKE_WAYS, TWIN_CAKE_SETS);

	return twin_cake.busy_in[set] == twin_cake.period ? twin_cake.busy[set] : 0;
}

TWIN_INLINE bool twin_cake_is_busy(u32 index)
{
	return twin_cake_busy_of(index) >> (index % TWIN_CAKE_WAYS) & 1;
}

TWIN_INLINE void twin_cake_set_busy(u32 index, u32 busy)
{
	u64 set = twin_index(index / TWIN_CAKE_WAYS, TWIN_CAKE_SETS);
	u32 way = index % TWIN_CAKE_WAYS;

	twin_cake.busy[set] = (twin_cake_busy_of(index) & ~(1u << way)) | busy << way;
	twin_cake.busy_in[set] = twin_cake.period;
}

/* The queues of the set of a queue that are named by a flow, as bits; without branches, of which the verifier would follow 256 ways. */
TWIN_INLINE u32 twin_cake_named(u32 index, u64 key)
{
	u32 ways = 0;

	for (u32 way = 0; way < TWIN_CAKE_WAYS; way++) {
		u64 differs = *twin_cake_tag_at(index / TWIN_CAKE_WAYS * TWIN_CAKE_WAYS + way) ^ key;

		differs = (differs | ((u64)0 - differs)) >> 63;
		__asm__("" : "+r"(differs));
		ways |= (u32)(1 - differs) << way;
	}
	return ways;
}

/* The first of these queues of the set of a queue; there is one. */
TWIN_INLINE u32 twin_cake_first_of(u32 index, u32 ways)
{
	u32 lowest = ways & ((u32)0 - ways), way = 0;

	for (u32 i = 1; i < TWIN_CAKE_WAYS; i++)
		way += i * (lowest >> i & 1);
	return index / TWIN_CAKE_WAYS * TWIN_CAKE_WAYS + way;
}

/* The queue of a flow: its own, a free one of its set, or as long as a packet of it may wait there a shared one. */
TWIN_GLOBAL u32 twin_cake_take_queue(const struct twin_options *options TWIN_GIVEN, u64 key)
{
	u32 home = round_spread(key, options->queues), busy = twin_cake_busy_of(home), named = twin_cake_named(home, key), own;
	u32 is_free = ~busy & ((1 << TWIN_CAKE_WAYS) - 1);

	if (named & busy)
		return twin_cake_first_of(home, named & busy);
	if (is_free == 0 || twin_cake_flow_at(home)->foreign != 0)
		return home;
	if (named & is_free)
		return twin_cake_first_of(home, named & is_free);
	own = twin_cake_first_of(home, is_free);
	*twin_cake_tag_at(own) = key;
	/* COBALT knew the flow that had this queue before. */
	twin_cake_flow_at(own)->cobalt = (cobalt_state){0};
	return own;
}

/* The queue that has the packets of a flow, as far as another processor may look it up: that which is named by it, or a shared one. */
TWIN_INLINE u32 twin_cake_queue_of(const struct twin_options *options, u64 key)
{
	u32 home = round_spread(key, options->queues), named = twin_cake_named(home, key);

	return named != 0 ? twin_cake_first_of(home, named) : home;
}

TWIN_INLINE u64 twin_cake_chain_of(u64 key, u32 tin)
{
	return twin_index(key_index_mix(key ^ (u64)tin << 61) >> 32, TWIN_CAKE_QUEUES);
}

/* The record of a host, made where there is none, for a flow that becomes busy. */
TWIN_GLOBAL u32 twin_cake_enter_host(u64 key, u32 tin)
{
	u64 chain = twin_cake_chain_of(key, tin);
	u32 first = twin_cake.chained_in[chain] == twin_cake.period ? twin_cake.chains[chain] : TWIN_NONE, number = first;
	struct twin_cake_host *host;

	TWIN_FOR(u32, step, 0, TWIN_CAKE_QUEUES) {
		host = twin_cake_host_at(number);
		if (number == TWIN_NONE || (host->key == key && host->tin == tin))
			break;
		number = host->chain;
	}
	if (number == TWIN_NONE) {
		number = twin_cake.free;
		if (number == TWIN_NONE)
			number = twin_cake.used++;
		else
			twin_cake.free = twin_cake_host_at(number)->next;
		host = twin_cake_host_at(number);
		*host = (struct twin_cake_host){ .key = key, .tin = tin, .flows = { TWIN_NONE, TWIN_NONE }, .chain = first };
		host->deficit = round_deficit_starting_with(twin_cake.quantum);
		twin_cake.chains[chain] = number;
		twin_cake.chained_in[chain] = twin_cake.period;
	}
	twin_cake_host_at(number)->busy++;
	return number;
}

/* A flow, which is in no list, is not busy any more. The record of its host ends with the last one. */
TWIN_GLOBAL u32 twin_cake_rest(u32 index)
{
	u32 number = twin_cake_flow_at(index)->host, at;
	struct twin_cake_host *gone = twin_cake_host_at(number);
	u64 chain = twin_cake_chain_of(gone->key, gone->tin);

	twin_cake_set_busy(index, 0);
	if (--gone->busy != 0)
		return 0;
	at = twin_cake.chains[chain];
	if (at == number) {
		twin_cake.chains[chain] = gone->chain;
	} else {
		TWIN_FOR(u32, step, 0, TWIN_CAKE_QUEUES) {
			struct twin_cake_host *host = twin_cake_host_at(at);

			if (at == TWIN_NONE)
				break;
			if (host->chain == number) {
				host->chain = gone->chain;
				break;
			}
			at = host->chain;
		}
	}
	gone->next = twin_cake.free;
	twin_cake.free = number;
	return 0;
}

/* A host takes turns, after the others. */
TWIN_INLINE void twin_cake_append_host(struct twin_cake_tin *tin, u32 number)
{
	struct twin_cake_host *host = twin_cake_host_at(number);

	host->before = tin->hosts.tail;
	host->next = TWIN_NONE;
	if (tin->hosts.tail == TWIN_NONE)
		tin->hosts.head = number;
	else
		twin_cake_host_at(tin->hosts.tail)->next = number;
	tin->hosts.tail = number;
}

TWIN_INLINE void twin_cake_remove_host(struct twin_cake_tin *tin, u32 number)
{
	struct twin_cake_host *host = twin_cake_host_at(number);
	u32 before = host->before, next = host->next;

	if (before == TWIN_NONE)
		tin->hosts.head = next;
	else
		twin_cake_host_at(before)->next = next;
	if (next == TWIN_NONE)
		tin->hosts.tail = before;
	else
		twin_cake_host_at(next)->before = before;
}

/* Counts a packet that has left its queue, in whatever way. */
TWIN_INLINE void twin_cake_gone(struct twin_discipline *discipline, struct twin_held *held, u32 number, const struct twin_packet *packet)
{
	u32 index = number - discipline->room.first;
	struct twin_cake_flow *flow = twin_cake_flow_at(index);
	bool foreign = packet->key != *twin_cake_tag_at(index);

	flow->acks -= packet->is_ack && !foreign;
	flow->foreign -= foreign;
	if (twin_queue_of(held, number)->backlog.packets == 0)
		cobalt_state_on_empty(&flow->cobalt, held->latest);
	twin_cake_tin_at(flow->tin)->packets--;
	twin_classify(held, &discipline->lengths, number);
}

/* Takes the oldest acknowledgement of a flow out of its queue, which is to be dropped; only the first are looked at, and not the last. */
TWIN_GLOBAL u32 twin_cake_filter(struct twin_discipline *discipline TWIN_GIVEN, struct twin_held *held TWIN_GIVEN, u32 number, u64 key)
{
	struct twin_queue *queue = twin_queue_of(held, number);
	u32 before = TWIN_NONE, slot = queue->head;
	struct twin_packet *packet;

	TWIN_FOR(u32, i, 0, cake_acks_looked_at()) {
		packet = twin_packet_of(held, slot);
		if (slot == TWIN_NONE || slot == queue->tail)
			break;
		if (packet->is_ack && packet->key == key) {
			if (before == TWIN_NONE)
				queue->head = packet->next;
			else
				twin_packet_of(held, before)->next = packet->next;
			qdisc_backlog_remove(&queue->backlog, packet->size);
			qdisc_backlog_remove(&held->backlog, packet->size);
			qdisc_backlog_remove(&discipline->backlog, packet->size);
			twin_cake_gone(discipline, held, number, packet);
			twin_cake.filtered = slot;
			break;
		}
		before = slot;
		slot = packet->next;
	}
	return 0;
}

/* A flow becomes busy, and goes before the others of its tin once. */
TWIN_INLINE void twin_cake_enter(const struct twin_options *options, struct twin_discipline *discipline, struct twin_held *held,
				 u32 number, u32 point)
{
	u32 index = number - discipline->room.first, tin = options->tin_of[point / 32 & 1] >> (point % 32 * 2) & 3;
	struct twin_cake_flow *flow = twin_cake_flow_at(index);

	twin_cake_set_busy(index, 1);
	flow->tin = tin;
	flow->host = twin_cake_enter_host(options->hosts != 0 ? discipline->arrives.pair : 0, tin);
	flow->deficit = round_deficit_starting_with(twin_cake.quantum);
	twin_list_append(held, &twin_cake_tin_at(tin)->fresh, number);
}

/* Puts the packet of a slot into its queue; its host is the one that has just arrived. */
TWIN_GLOBAL u32 twin_put_cake(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN,
			      struct twin_held *held TWIN_GIVEN, u32 slot)
{
	struct twin_packet *packet = twin_packet_of(held, slot);
	codel_params params = twin_codel(options);
	u64 key = packet->key;
	struct twin_cake_flow *flow;
	u32 index, number;
	bool foreign;

	if (discipline->backlog.packets == 0)
		twin_cake_rest_all();
	twin_cake.quantum = max_s64(twin_cake.quantum, twin_cake_bytes(options, packet->size, packet->segments));
	index = twin_cake_take_queue(options, key);
	number = discipline->room.first + index;
	flow = twin_cake_flow_at(index);
	if (!twin_cake_is_busy(index))
		twin_cake_enter(options, discipline, held, number, packet->service >> 2 & 63);
	cobalt_state_on_arrival(&flow->cobalt, &params, held->latest);
	foreign = *twin_cake_tag_at(index) != key;
	flow->foreign += foreign;
	flow->acks += packet->is_ack && !foreign;
	twin_cake_tin_at(flow->tin)->packets++;
	twin_push(held, number, slot);
	qdisc_backlog_add(&discipline->backlog, packet->size);
	twin_classify(held, &discipline->lengths, number);
	/* What is queued again is not dropped. */
	if (packet->is_ack && !foreign && options->ack_filter == 1 && flow->acks > cake_acks_left() && !discipline->arrives.always)
		twin_cake_filter(discipline, held, number, key);
	return 0;
}

/* What a packet is told apart by that has arrived. */
TWIN_INLINE void twin_note_cake(const struct twin_arrival *arrives, struct twin_packet *packet)
{
	packet->segments = arrives->segments;
	packet->is_ack = arrives->is_ack;
}

/* Whether a packet is to be dropped after an arrival. */
TWIN_INLINE bool twin_has_filtered(const struct twin_options *options)
{
	return twin_is_cake(options) && twin_cake.filtered != TWIN_NONE;
}

/* The slot of that, or of the first packet of a queue that is about the longest. */
TWIN_GLOBAL u32 twin_overflow_cake(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN,
				   struct twin_held *held TWIN_GIVEN)
{
	codel_params params = twin_codel(options);
	u32 slot = twin_cake.filtered, number;

	if (slot != TWIN_NONE) {
		twin_cake.filtered = TWIN_NONE;
		discipline->refusal = QDISC_DROP_REASON_ACK_FILTERED;
		return slot;
	}
	number = twin_longest(&discipline->lengths);
	if (number == TWIN_NONE)
		return TWIN_NONE;
	cobalt_state_on_overflow(&twin_cake_flow_at(number - discipline->room.first)->cobalt, &params, held->latest);
	slot = twin_pop(held, number);
	qdisc_backlog_remove(&discipline->backlog, twin_packet_of(held, slot)->size);
	twin_cake_gone(discipline, held, number, twin_packet_of(held, slot));
	return slot;
}

/* Whether there is room for it. */
TWIN_INLINE bool twin_supports_cake(const struct twin_options *options)
{
	return options->queues % TWIN_CAKE_WAYS == 0 && options->queues <= TWIN_CAKE_QUEUES && options->tins > 0 &&
	       options->tins <= TWIN_CAKE_TINS;
}

#else

TWIN_INLINE bool twin_is_cake(const struct twin_options *options)
{
	(void)options;
	return false;
}

TWIN_INLINE u32 twin_begin_cake(const struct twin_options *options)
{
	(void)options;
	return 0;
}

TWIN_INLINE u32 twin_cake_queue_of(const struct twin_options *options, u64 key)
{
	(void)options;
	(void)key;
	return 0;
}

TWIN_INLINE u32 twin_put_cake(const struct twin_options *options, struct twin_discipline *discipline, struct twin_held *held, u32 slot)
{
	(void)options;
	(void)discipline;
	(void)held;
	(void)slot;
	return 0;
}

TWIN_INLINE void twin_note_cake(const struct twin_arrival *arrives, struct twin_packet *packet)
{
	(void)arrives;
	(void)packet;
}

TWIN_INLINE bool twin_has_filtered(const struct twin_options *options)
{
	(void)options;
	return false;
}

TWIN_INLINE u32 twin_overflow_cake(const struct twin_options *options, struct twin_discipline *discipline, struct twin_held *held)
{
	(void)options;
	(void)discipline;
	(void)held;
	return TWIN_NONE;
}

TWIN_INLINE bool twin_supports_cake(const struct twin_options *options)
{
	(void)options;
	return false;
}

#endif

#endif
