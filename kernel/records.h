/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Records of flows and of pairs of hosts in bounded memory, as crates/core/src/structures/flow_table.rs has them: what ends first, and
 * what is kept. That of a flow and that of a pair are one struct.
 */
#ifndef TWIN_RECORDS_H
#define TWIN_RECORDS_H

#include "queues.h"

/* Records at most, a power of two: as many as packets, each of which may keep one. */
#define TWIN_RECORDS 65536

/* The segments, and that of a record that is free. Records end in this order. */
enum { TWIN_SEEN_ONCE, TWIN_SEEN_AGAIN, TWIN_PROTECTED, TWIN_GONE };
#define TWIN_SEGMENTS 3

_Static_assert(TWIN_RECORDS >= TWIN_SLOTS, "each packet may keep a record");

struct twin_record {
	u64 key;
	u64 touched;
	/* The neighbours in the segment; the next of those that are free. */
	u32 before, next;
	/* The next with the same hash of its key. */
	u32 chain;
	u32 pins;
	u32 segment;
	union {
		elephants_flow flow;
		elephants_pair pair;
	};
};

struct twin_table {
	u32 free, used, count, protected;
	struct twin_list segments[4];
	u32 chains[TWIN_RECORDS];
	struct twin_record records[TWIN_RECORDS];
};

/* What mered and ingress keep of flows. Other disciplines have no such memory. */
struct twin_tables {
	struct twin_table flows, pairs;
};

TWIN_INLINE struct twin_record *twin_record_of(struct twin_table *table, u32 number)
{
	return &table->records[twin_index(number, TWIN_RECORDS)];
}

TWIN_INLINE u64 twin_record_chain(u64 key)
{
	return twin_index(key_index_mix(key) >> 32, TWIN_RECORDS);
}

TWIN_INLINE void twin_table_begin(struct twin_table *table)
{
	struct twin_list none = { .head = TWIN_NONE, .tail = TWIN_NONE };

	table->free = TWIN_NONE;
	table->used = table->count = table->protected = 0;
	table->segments[0] = table->segments[1] = table->segments[2] = none;
	TWIN_FOR(u32, chain, 0, TWIN_RECORDS) {
		table->chains[twin_index(chain, TWIN_RECORDS)] = TWIN_NONE;
	}
}

/* A pinned record is in no segment. */
TWIN_INLINE void twin_record_link(struct twin_table *table, u32 number)
{
	struct twin_record *record = twin_record_of(table, number);
	struct twin_list *list = &table->segments[twin_index(record->segment, 4)];

	if (record->pins != 0)
		return;
	record->before = list->tail;
	record->next = TWIN_NONE;
	if (list->tail == TWIN_NONE)
		list->head = number;
	else
		twin_record_of(table, list->tail)->next = number;
	list->tail = number;
}

TWIN_INLINE void twin_record_unlink(struct twin_table *table, u32 number)
{
	struct twin_record *record = twin_record_of(table, number);
	struct twin_list *list = &table->segments[twin_index(record->segment, 4)];
	u32 before = record->before, next = record->next;

	if (record->pins != 0)
		return;
	if (before == TWIN_NONE)
		list->head = next;
	else
		twin_record_of(table, before)->next = next;
	if (next == TWIN_NONE)
		list->tail = before;
	else
		twin_record_of(table, next)->before = before;
}

TWIN_INLINE void twin_record_end(struct twin_table *table, u32 number)
{
	struct twin_record *gone = twin_record_of(table, number);
	u64 chain = twin_record_chain(gone->key);
	u32 at = table->chains[chain];

	twin_record_unlink(table, number);
	table->protected -= gone->segment == TWIN_PROTECTED;
	gone->segment = TWIN_GONE;
	if (at == number) {
		table->chains[chain] = gone->chain;
	} else {
		TWIN_FOR(u32, step, 0, TWIN_RECORDS) {
			struct twin_record *record = twin_record_of(table, at);

			if (at == TWIN_NONE)
				break;
			if (record->chain == number) {
				record->chain = gone->chain;
				break;
			}
			at = record->chain;
		}
	}
	gone->next = table->free;
	table->free = number;
	table->count--;
}

/* The record of a key, made if there is none; TWIN_NONE when every record is pinned. */
TWIN_GLOBAL u32 twin_touch(struct twin_table *table TWIN_GIVEN, u64 now, u64 key, u64 capacity, u64 idle)
{
	u64 chain = twin_record_chain(key);
	struct twin_record *record;
	u32 number;

	/* Up to two idle records of each segment end. */
	TWIN_FOR(u32, turn, 0, 2 * TWIN_SEGMENTS) {
		number = table->segments[twin_index(turn / 2, 4)].head;
		record = twin_record_of(table, number);
		if (number != TWIN_NONE && saturating_sub_u64(now, record->touched) >= idle)
			twin_record_end(table, number);
	}
	number = table->chains[chain];
	TWIN_FOR(u32, step, 0, TWIN_RECORDS) {
		record = twin_record_of(table, number);
		if (number == TWIN_NONE || record->key == key)
			break;
		number = record->chain;
	}
	record = twin_record_of(table, number);
	if (number != TWIN_NONE) {
		if (record->pins != 0 || saturating_sub_u64(now, record->touched) < idle) {
			twin_record_unlink(table, number);
			record->touched = now;
			record->segment = max_u32(record->segment, TWIN_SEEN_AGAIN);
			twin_record_link(table, number);
			return number;
		}
		twin_record_end(table, number);
	}
	if (table->count >= capacity) {
		number = table->segments[0].head;
		if (number == TWIN_NONE)
			number = table->segments[1].head;
		if (number == TWIN_NONE)
			number = table->segments[2].head;
		if (number == TWIN_NONE)
			return TWIN_NONE;
		twin_record_end(table, number);
	}
	number = table->free;
	if (number != TWIN_NONE)
		table->free = twin_record_of(table, number)->next;
	else if (table->used < TWIN_RECORDS)
		number = table->used++;
	else
		return TWIN_NONE;
	record = twin_record_of(table, number);
	*record = (struct twin_record){ .key = key, .touched = now, .chain = table->chains[chain] };
	table->chains[chain] = number;
	table->count++;
	twin_record_link(table, number);
	return number;
}

TWIN_INLINE void twin_pin(struct twin_table *table, u32 number)
{
	twin_record_unlink(table, number);
	twin_record_of(table, number)->pins++;
}

TWIN_INLINE void twin_unpin(struct twin_table *table, u64 now, u32 number)
{
	struct twin_record *record = twin_record_of(table, number);

	if (--record->pins == 0)
		record->touched = now;
	twin_record_link(table, number);
}

/* Makes a record one of those that end last, at most seven eighths of all. */
TWIN_INLINE void twin_protect(struct twin_table *table, u32 number, u64 capacity)
{
	struct twin_record *record = twin_record_of(table, number);
	u32 oldest;

	if (record->segment == TWIN_PROTECTED)
		return;
	twin_record_unlink(table, number);
	record->segment = TWIN_PROTECTED;
	table->protected++;
	twin_record_link(table, number);
	oldest = table->segments[TWIN_PROTECTED].head;
	if (table->protected <= capacity / 8 * 7 || oldest == TWIN_NONE)
		return;
	twin_record_unlink(table, oldest);
	twin_record_of(table, oldest)->segment = TWIN_SEEN_AGAIN;
	table->protected--;
	twin_record_link(table, oldest);
}

#endif
