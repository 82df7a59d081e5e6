/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A chassis for tests: reads operations, writes decisions. A record is four numbers of 64 bits: what, the time, and two
 * arguments; .ci/checks/src/twin/reference.rs describes both. A record of zeros writes what was decided so far.
 */
#include <stdio.h>
#include <stdlib.h>

#include "disciplines.h"

enum { FLUSH, ENQUEUE, DEQUEUE, SET_RATE, BEGIN };

#define SLOTS 4096

static struct {
	u64 id, size, at, capable;
} slots[SLOTS];
static u64 head, tail;
static struct twin_options options;
static struct twin_state state;

static void enqueue(u64 now, u64 size, u64 capable, u64 *decision)
{
	now = twin_now(&state, now);
	if (!twin_admits(&options, &state, size)) {
		decision[1] = 2;
		return;
	}
	slots[tail % SLOTS].id = tail;
	slots[tail % SLOTS].size = size;
	slots[tail % SLOTS].at = now;
	slots[tail % SLOTS].capable = capable;
	tail++;
	qdisc_backlog_add(&state.backlog, size);
	decision[0] = 1;
}

static void dequeue(u64 now, u64 *decision)
{
	codel_call call = {0};

	now = twin_now(&state, now);
	for (int i = 0; i < TWIN_MOST_ACTIONS; i++) {
		u64 at = head % SLOTS;
		enum twin_action action;
		bool marked;

		if (head == tail) {
			twin_ran_empty(&options, &state, &call);
			return;
		}
		action = twin_first(&options, &state, &call, now, slots[at].size, slots[at].at);
		if (action == TWIN_WAIT)
			return;
		qdisc_backlog_remove(&state.backlog, slots[at].size);
		head++;
		marked = action == TWIN_SIGNAL && options.marks == 1 && slots[at].capable == 1;
		if (marked)
			twin_marked(&options, &state, &call);
		if (marked || action == TWIN_SEND) {
			decision[0] = slots[at].id + 1;
			decision[1] += marked;
			return;
		}
		decision[1] += 2;
	}
	fprintf(stderr, "a call does not end\n");
	exit(1);
}

int main(void)
{
	u64 record[4];

	while (fread(record, sizeof(record), 1, stdin) == 1) {
		u64 decision[5] = {0};

		switch (record[0]) {
		case FLUSH:
			fflush(stdout);
			continue;
		case BEGIN:
			if (fread(&options, sizeof(options), 1, stdin) != 1 || options.limit_packets > SLOTS)
				return 1;
			twin_begin(&state, &options);
			head = tail = 0;
			continue;
		case ENQUEUE:
			enqueue(record[1], record[2], record[3], decision);
			break;
		case DEQUEUE:
			dequeue(record[1], decision);
			break;
		case SET_RATE:
			twin_set_rate(&options, &state, record[1], record[2]);
			break;
		default:
			return 1;
		}
		decision[2] = twin_deadline(&options, &state, record[1], slots[head % SLOTS].size);
		decision[3] = state.backlog.packets;
		decision[4] = state.backlog.bytes;
		fwrite(decision, sizeof(decision), 1, stdout);
	}
	return 0;
}
