/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a chassis holds: numbers of packets in queues, queues in lists, queues by their length, and queues by the keys of
 * their flows. All of it is in arrays of one struct, since BPF has no memory but that of maps, and the same code runs in
 * host.c. Numbers are masked where they are used: the kernel's verifier does not know that they are in range.
 *
 * The first queues are those of the flows of classes. The last TWIN_SPACE are for disciplines, each of which has a room among them.
 */
#ifndef TWIN_QUEUES_H
#define TWIN_QUEUES_H

#include "integers.h"
#include "deciders.h"

/* Packets, and queues of flows of classes, at most. Powers of two. */
#define TWIN_SLOTS 65536
/* The queues of the program that tells many flows apart: kernel/build compiles it with this number in place of the usual one. */
#define TWIN_MANY_QUEUES 65536
#ifdef TWIN_MANY
#define TWIN_QUEUES TWIN_MANY_QUEUES
#else
#define TWIN_QUEUES 4096
#endif
/* The queues of all disciplines together, and all queues, with a gap between those of flows and those of disciplines. Powers of two. */
#define TWIN_SPACE 8192
#define TWIN_ALL_QUEUES (TWIN_QUEUES > TWIN_SPACE ? 2 * TWIN_QUEUES : 2 * TWIN_SPACE)
/* The first queue of a discipline. */
#define TWIN_FIRST (TWIN_ALL_QUEUES - TWIN_SPACE)
/* Size classes of queues: eight to each power of two. */
#define TWIN_CLASSES 512

/* No packet, no queue. */
#define TWIN_NONE U32_MAX

struct twin_packet {
	u64 size;
	/* When it arrived, and when it was queued in its flow. */
	u64 came, at;
	/* How many arrived before it. */
	u64 number;
	/* That of its flow. */
	u64 key;
	/* The next of its queue, or of those that are free. */
	u32 next;
	/* Its code point and, where it can be marked, its bits of congestion. */
	u32 service;
	union {
		/* mered: the record of its flow. */
		u32 record;
		/* cake: the packets that it is on the line, and whether it is an acknowledgement without data. */
		struct {
			u16 segments;
			u16 is_ack;
		};
	};
	/* fbq: those that it arrived with. */
	u16 class, profile;
};

struct twin_list {
	u32 head, tail;
};

struct twin_queue {
	qdisc_backlog backlog;
	u32 head, tail;
	/* The neighbours in a list of queues; the next of those that are free. */
	u32 before, next;
	/* The next with the same hash of its key. */
	u32 chain;
	u64 key;
};

/* Packets of one of the queues of dualpi2, for those who ask. */
struct twin_counts {
	u64 enqueued, sent, waited, marked, dropped;
};

/* What a queue of a discipline has besides. */
struct twin_control {
	/* The size class, and the neighbours in it. */
	u32 class, class_before, class_next;
	round_allowance allowance;
	/* When it became busy: sfq by changes of the hash, fq_codel and fq_pie by the busy periods of all queues together. */
	u64 since;
	round_deficit deficit;
	flow_queues_place place;
	union {
		codel_state codel;
		pie_state pie;
		struct twin_counts counts;
	};
};

/* The queues of a discipline by their length. */
struct twin_lengths {
	u64 bits[TWIN_CLASSES / 64];
	u32 heads[TWIN_CLASSES];
};

/* Queues that belong together: the first and their number; where flows have one each, how many were ever used, and those that are free. */
struct twin_room {
	u32 first, count, used, free;
};

struct twin_held {
	/* Of all packets. */
	qdisc_backlog backlog;
	/* The latest time of any call: time never runs back. */
	u64 latest;
	/* Packets that are free, and how many were ever used. */
	u32 free, used;
	/* The queues of flows of classes. */
	struct twin_room flows;
	u32 chains[TWIN_ALL_QUEUES];
	struct twin_packet packets[TWIN_SLOTS];
	struct twin_queue queues[TWIN_ALL_QUEUES];
	struct twin_control controls[TWIN_SPACE];
};

TWIN_INLINE struct twin_packet *twin_packet_of(struct twin_held *held, u32 slot)
{
	return &held->packets[twin_index(slot, TWIN_SLOTS)];
}

TWIN_INLINE struct twin_queue *twin_queue_of(struct twin_held *held, u32 number)
{
	return &held->queues[twin_index(number, TWIN_ALL_QUEUES)];
}

/* Of a queue of a discipline. */
TWIN_INLINE struct twin_control *twin_control_of(struct twin_held *held, u32 number)
{
	return &held->controls[twin_index(number, TWIN_SPACE)];
}

TWIN_INLINE u64 twin_now(struct twin_held *held, u64 now)
{
	held->latest = max_u64(held->latest, now);
	return held->latest;
}

TWIN_INLINE void twin_empty_queue(struct twin_held *held, u32 number)
{
	*twin_queue_of(held, number) = (struct twin_queue){ .head = TWIN_NONE, .tail = TWIN_NONE };
}

TWIN_INLINE void twin_reset_control(struct twin_held *held, u32 number)
{
	struct twin_control *control = twin_control_of(held, number);

	*control = (struct twin_control){0};
	control->allowance.weight = 1;
}

/* Empties all queues. Slots stay as they are. */
TWIN_INLINE void twin_empty_queues(struct twin_held *held)
{
	held->backlog = (qdisc_backlog){0};
	held->flows = (struct twin_room){ .count = TWIN_QUEUES, .free = TWIN_NONE };
	TWIN_FOR(u32, number, 0, TWIN_ALL_QUEUES) {
		twin_empty_queue(held, number);
		held->chains[twin_index(number, TWIN_ALL_QUEUES)] = TWIN_NONE;
	}
	TWIN_FOR(u32, place, 0, TWIN_SPACE) {
		twin_reset_control(held, place);
	}
}

TWIN_INLINE void twin_list_append(struct twin_held *held, struct twin_list *list, u32 number)
{
	struct twin_queue *queue = twin_queue_of(held, number);

	queue->before = list->tail;
	queue->next = TWIN_NONE;
	if (list->tail == TWIN_NONE)
		list->head = number;
	else
		twin_queue_of(held, list->tail)->next = number;
	list->tail = number;
}

TWIN_INLINE void twin_list_remove(struct twin_held *held, struct twin_list *list, u32 number)
{
	struct twin_queue *queue = twin_queue_of(held, number);
	u32 before = queue->before, next = queue->next;

	if (before == TWIN_NONE)
		list->head = next;
	else
		twin_queue_of(held, before)->next = next;
	if (next == TWIN_NONE)
		list->tail = before;
	else
		twin_queue_of(held, next)->before = before;
}

TWIN_INLINE void twin_no_lengths(struct twin_lengths *lengths)
{
	TWIN_FOR(u32, word, 0, TWIN_CLASSES / 64) {
		lengths->bits[twin_index(word, TWIN_CLASSES / 64)] = 0;
	}
	TWIN_FOR(u32, class, 0, TWIN_CLASSES) {
		lengths->heads[twin_index(class, TWIN_CLASSES)] = TWIN_NONE;
	}
}

/* Puts a queue into the class of its length, of those that hold anything. */
TWIN_INLINE void twin_classify(struct twin_held *held, struct twin_lengths *lengths, u32 number)
{
	struct twin_queue *queue = twin_queue_of(held, number);
	struct twin_control *control = twin_control_of(held, number);
	u32 class = queue->backlog.packets == 0 ? 0 : queues_class(max_u64(queue->backlog.bytes, 1)), next = TWIN_NONE;
	u64 bit = 1;

	if (control->class == class)
		return;
	if (control->class != 0) {
		u64 old = twin_index(control->class, TWIN_CLASSES);

		if (control->class_before == TWIN_NONE) {
			lengths->heads[old] = control->class_next;
			if (control->class_next == TWIN_NONE)
				lengths->bits[old / 64] &= ~(bit << (old % 64));
		} else {
			twin_control_of(held, control->class_before)->class_next = control->class_next;
		}
		if (control->class_next != TWIN_NONE)
			twin_control_of(held, control->class_next)->class_before = control->class_before;
	}
	if (class != 0) {
		u64 new = twin_index(class, TWIN_CLASSES);

		next = lengths->heads[new];
		lengths->heads[new] = number;
		lengths->bits[new / 64] |= bit << (new % 64);
		if (next != TWIN_NONE)
			twin_control_of(held, next)->class_before = number;
	}
	control->class = class;
	control->class_before = TWIN_NONE;
	control->class_next = next;
}

/* A queue of more than 8/9 of the bytes of the longest. */
TWIN_INLINE u32 twin_longest(const struct twin_lengths *lengths)
{
	for (u32 word = TWIN_CLASSES / 64; word-- != 0;) {
		u64 bits = lengths->bits[word];

		if (bits != 0)
			return lengths->heads[twin_index(word * 64 + 63 - leading_zeros_u64(bits), TWIN_CLASSES)];
	}
	return TWIN_NONE;
}

/* A slot for a packet; TWIN_NONE when all are taken. */
TWIN_INLINE u32 twin_take_slot(struct twin_held *held)
{
	u32 slot = held->free;

	if (slot != TWIN_NONE)
		held->free = twin_packet_of(held, slot)->next;
	else if (held->used < TWIN_SLOTS)
		slot = held->used++;
	return slot;
}

/* Its slot is free once it has been emptied. */
TWIN_INLINE void twin_free_slot(struct twin_held *held, u32 slot)
{
	twin_packet_of(held, slot)->next = held->free;
	held->free = slot;
}

TWIN_INLINE void twin_push(struct twin_held *held, u32 number, u32 slot)
{
	struct twin_packet *packet = twin_packet_of(held, slot);
	struct twin_queue *queue = twin_queue_of(held, number);

	packet->next = TWIN_NONE;
	if (queue->tail == TWIN_NONE)
		queue->head = slot;
	else
		twin_packet_of(held, queue->tail)->next = slot;
	queue->tail = slot;
	qdisc_backlog_add(&queue->backlog, packet->size);
	qdisc_backlog_add(&held->backlog, packet->size);
}

/* Takes the first packet of a queue, which is not empty, out of it; its slot stays taken. */
TWIN_INLINE u32 twin_pop(struct twin_held *held, u32 number)
{
	struct twin_queue *queue = twin_queue_of(held, number);
	u32 slot = queue->head;
	struct twin_packet *packet = twin_packet_of(held, slot);

	queue->head = packet->next;
	if (queue->head == TWIN_NONE)
		queue->tail = TWIN_NONE;
	qdisc_backlog_remove(&queue->backlog, packet->size);
	qdisc_backlog_remove(&held->backlog, packet->size);
	return slot;
}

/* Packets one behind the other, by their slots. */
struct twin_train {
	u32 first, last;
};

/* Takes all packets out of a queue, to the end of a train. What counts them stays as it is. */
TWIN_INLINE void twin_couple(struct twin_held *held, struct twin_train *train, u32 number)
{
	struct twin_queue *queue = twin_queue_of(held, number);

	if (queue->head == TWIN_NONE)
		return;
	if (train->first == TWIN_NONE)
		train->first = queue->head;
	else
		twin_packet_of(held, train->last)->next = queue->head;
	train->last = queue->tail;
	queue->head = queue->tail = TWIN_NONE;
}

/* Takes all packets out of their queues, of each in their order. Returns the slot of the first; the others are next to it. */
TWIN_INLINE u32 twin_take_all(struct twin_held *held)
{
	struct twin_train train = { TWIN_NONE, TWIN_NONE };

	TWIN_FOR(u32, number, 0, TWIN_ALL_QUEUES) {
		twin_couple(held, &train, number);
	}
	return train.first;
}

TWIN_INLINE u64 twin_chain_of(const struct twin_room *room, u64 key)
{
	return twin_index((key_index_mix(key) >> 32) + room->first, TWIN_ALL_QUEUES);
}

/* Whether a queue is that of a flow, among those of a room. */
TWIN_INLINE bool twin_is_of(struct twin_held *held, const struct twin_room *room, u32 number, u64 key)
{
	return number - room->first < room->count && twin_queue_of(held, number)->key == key;
}

/* The queue of a flow, or TWIN_NONE. */
TWIN_INLINE u32 twin_find(struct twin_held *held, const struct twin_room *room, u64 key)
{
	u32 number = held->chains[twin_chain_of(room, key)];

	/* Mostly the first: a loop costs more. */
	if (number == TWIN_NONE || twin_is_of(held, room, number, key))
		return number;
	TWIN_FOR(u32, step, 0, TWIN_ALL_QUEUES) {
		if (number == TWIN_NONE || twin_is_of(held, room, number, key))
			break;
		number = twin_queue_of(held, number)->chain;
	}
	return number;
}

/* The queue of a flow, made if there is none; TWIN_NONE when all are taken. */
TWIN_INLINE u32 twin_flow(struct twin_held *held, struct twin_room *room, u64 key)
{
	u64 chain = twin_chain_of(room, key);
	u32 number = twin_find(held, room, key);
	struct twin_queue *queue;

	if (number != TWIN_NONE)
		return number;
	number = room->free;
	if (number != TWIN_NONE)
		room->free = twin_queue_of(held, number)->next;
	else if (room->used < room->count)
		number = room->first + room->used++;
	else
		return TWIN_NONE;
	queue = twin_queue_of(held, number);
	queue->key = key;
	queue->chain = held->chains[chain];
	held->chains[chain] = number;
	return number;
}

/* Forgets the flow of a queue, which is in no list. */
TWIN_INLINE void twin_forget(struct twin_held *held, struct twin_room *room, u32 number)
{
	struct twin_queue *gone = twin_queue_of(held, number);
	u64 chain = twin_chain_of(room, gone->key);
	u32 at = held->chains[chain];

	if (at == number) {
		held->chains[chain] = gone->chain;
	} else {
		TWIN_FOR(u32, step, 0, TWIN_ALL_QUEUES) {
			struct twin_queue *queue = twin_queue_of(held, at);

			if (at == TWIN_NONE)
				break;
			if (queue->chain == number) {
				queue->chain = gone->chain;
				break;
			}
			at = queue->chain;
		}
	}
	gone->next = room->free;
	room->free = number;
}

#endif
