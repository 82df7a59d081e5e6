/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a chassis holds: numbers of packets in queues, queues in lists, queues by their length, and queues by the keys of
 * their flows. All of it is in arrays of one struct, since BPF has no memory but that of maps, and the same code runs in
 * host.c. Numbers are masked where they are used: the kernel's verifier does not know that they are in range.
 */
#ifndef TWIN_QUEUES_H
#define TWIN_QUEUES_H

#include "integers.h"
#include "deciders.h"

/* Packets and queues at most. Powers of two. */
#define TWIN_SLOTS 65536
/* The queues of the program that tells many flows apart: kernel/build compiles it with this number in place of the usual one. */
#define TWIN_MANY_QUEUES 65536
#ifdef TWIN_MANY
#define TWIN_QUEUES TWIN_MANY_QUEUES
#else
#define TWIN_QUEUES 4096
#endif
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
	/* Whether it can be marked. */
	u32 capable;
	/* mered: the record of its flow. */
	u32 record;
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
	/* The size class, and the neighbours in it. */
	u32 class, class_before, class_next;
	/* The next with the same hash of its key. */
	u32 chain;
	u64 key;
	round_allowance allowance;
	/* When it became busy: sfq by changes of the hash, fq_codel by the busy periods of all queues together. */
	u64 since;
	round_deficit deficit;
	flow_queues_place place;
	codel_state codel;
};

struct twin_held {
	qdisc_backlog backlog;
	/* Packets and queues that are free, and how many were ever used. */
	u32 free, used, free_queue, used_queues;
	u64 class_bits[TWIN_CLASSES / 64];
	u32 class_heads[TWIN_CLASSES];
	u32 chains[TWIN_QUEUES];
	struct twin_packet packets[TWIN_SLOTS];
	struct twin_queue queues[TWIN_QUEUES];
};

/* In 64 bits and behind a barrier, so that the compiler adds what the verifier sees masked. */
TWIN_INLINE u64 twin_index(u32 i, u32 count)
{
	u64 index = i & (count - 1);

	__asm__("" : "+r"(index));
	return index;
}

TWIN_INLINE struct twin_packet *twin_packet_of(struct twin_held *held, u32 slot)
{
	return &held->packets[twin_index(slot, TWIN_SLOTS)];
}

TWIN_INLINE struct twin_queue *twin_queue_of(struct twin_held *held, u32 number)
{
	return &held->queues[twin_index(number, TWIN_QUEUES)];
}

/* Empties all queues. Slots stay as they are. */
TWIN_INLINE void twin_empty_queues(struct twin_held *held)
{
	held->backlog = (qdisc_backlog){0};
	held->free_queue = TWIN_NONE;
	held->used_queues = 0;
	TWIN_FOR(u32, word, 0, TWIN_CLASSES / 64) {
		held->class_bits[twin_index(word, TWIN_CLASSES / 64)] = 0;
	}
	TWIN_FOR(u32, class, 0, TWIN_CLASSES) {
		held->class_heads[twin_index(class, TWIN_CLASSES)] = TWIN_NONE;
	}
	TWIN_FOR(u32, number, 0, TWIN_QUEUES) {
		struct twin_queue *queue = twin_queue_of(held, number);

		*queue = (struct twin_queue){ .head = TWIN_NONE, .tail = TWIN_NONE };
		queue->allowance.weight = 1;
		held->chains[twin_index(number, TWIN_QUEUES)] = TWIN_NONE;
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

/* Puts a queue into the class of its length, of those that hold anything. */
TWIN_INLINE void twin_classify(struct twin_held *held, u32 number)
{
	struct twin_queue *queue = twin_queue_of(held, number);
	u32 class = queue->backlog.packets == 0 ? 0 : queues_class(max_u64(queue->backlog.bytes, 1)), next = TWIN_NONE;
	u64 bit = 1;

	if (queue->class == class)
		return;
	if (queue->class != 0) {
		u64 old = twin_index(queue->class, TWIN_CLASSES);

		if (queue->class_before == TWIN_NONE) {
			held->class_heads[old] = queue->class_next;
			if (queue->class_next == TWIN_NONE)
				held->class_bits[old / 64] &= ~(bit << (old % 64));
		} else {
			twin_queue_of(held, queue->class_before)->class_next = queue->class_next;
		}
		if (queue->class_next != TWIN_NONE)
			twin_queue_of(held, queue->class_next)->class_before = queue->class_before;
	}
	if (class != 0) {
		u64 new = twin_index(class, TWIN_CLASSES);

		next = held->class_heads[new];
		held->class_heads[new] = number;
		held->class_bits[new / 64] |= bit << (new % 64);
		if (next != TWIN_NONE)
			twin_queue_of(held, next)->class_before = number;
	}
	queue->class = class;
	queue->class_before = TWIN_NONE;
	queue->class_next = next;
}

/* A queue of more than 8/9 of the bytes of the longest. */
TWIN_INLINE u32 twin_longest(struct twin_held *held)
{
	for (u32 word = TWIN_CLASSES / 64; word-- != 0;) {
		u64 bits = held->class_bits[word];

		if (bits != 0)
			return held->class_heads[twin_index(word * 64 + 63 - leading_zeros_u64(bits), TWIN_CLASSES)];
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

/* Takes the first packet of a queue, which is not empty. */
TWIN_INLINE u32 twin_pop(struct twin_held *held, u32 number)
{
	struct twin_queue *queue = twin_queue_of(held, number);
	u32 slot = queue->head;
	struct twin_packet *packet = twin_packet_of(held, slot);

	queue->head = packet->next;
	if (queue->head == TWIN_NONE)
		queue->tail = TWIN_NONE;
	twin_free_slot(held, slot);
	qdisc_backlog_remove(&queue->backlog, packet->size);
	qdisc_backlog_remove(&held->backlog, packet->size);
	return slot;
}

/* Takes all packets out of their queues, of each in their order. Returns the slot of the first; the others are next to it. */
TWIN_INLINE u32 twin_take_all(struct twin_held *held)
{
	u32 first = TWIN_NONE, last = TWIN_NONE;

	TWIN_FOR(u32, number, 0, TWIN_QUEUES) {
		struct twin_queue *queue = twin_queue_of(held, number);

		TWIN_FOR(u32, i, 0, TWIN_SLOTS) {
			u32 slot = queue->head;

			if (slot == TWIN_NONE)
				break;
			queue->head = twin_packet_of(held, slot)->next;
			if (first == TWIN_NONE)
				first = slot;
			else
				twin_packet_of(held, last)->next = slot;
			last = slot;
		}
	}
	if (last != TWIN_NONE)
		twin_packet_of(held, last)->next = TWIN_NONE;
	return first;
}

TWIN_INLINE u64 twin_chain_of(u64 key)
{
	return twin_index(key_index_mix(key) >> 32, TWIN_QUEUES);
}

/* The queue of a flow, or TWIN_NONE. */
TWIN_INLINE u32 twin_find(struct twin_held *held, u64 key)
{
	u32 number = held->chains[twin_chain_of(key)];

	/* Mostly the first: a loop costs more. */
	if (number == TWIN_NONE || twin_queue_of(held, number)->key == key)
		return number;
	TWIN_FOR(u32, step, 0, TWIN_QUEUES) {
		struct twin_queue *queue = twin_queue_of(held, number);

		if (number == TWIN_NONE || queue->key == key)
			break;
		number = queue->chain;
	}
	return number;
}

/* The queue of a flow, made if there is none; TWIN_NONE when all are taken. */
TWIN_INLINE u32 twin_flow(struct twin_held *held, u64 key)
{
	u64 chain = twin_chain_of(key);
	u32 number = twin_find(held, key);
	struct twin_queue *queue;

	if (number != TWIN_NONE)
		return number;
	number = held->free_queue;
	if (number != TWIN_NONE)
		held->free_queue = twin_queue_of(held, number)->next;
	else if (held->used_queues < TWIN_QUEUES)
		number = held->used_queues++;
	else
		return TWIN_NONE;
	queue = twin_queue_of(held, number);
	queue->key = key;
	queue->chain = held->chains[chain];
	held->chains[chain] = number;
	return number;
}

/* Forgets the flow of a queue, which is in no list. */
TWIN_INLINE void twin_forget(struct twin_held *held, u32 number)
{
	struct twin_queue *gone = twin_queue_of(held, number);
	u64 chain = twin_chain_of(gone->key);
	u32 at = held->chains[chain];

	if (at == number) {
		held->chains[chain] = gone->chain;
	} else {
		TWIN_FOR(u32, step, 0, TWIN_QUEUES) {
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
	gone->next = held->free_queue;
	held->free_queue = number;
}

#endif
