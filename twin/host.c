/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A chassis for tests: reads operations, writes decisions. A record is six numbers of 64 bits: what, the time, and four
 * arguments; .ci/checks/src/twin/reference.rs describes both. A record of zeros writes what was decided so far.
 */
#include <stdio.h>
#include <stdlib.h>

#include "disciplines.h"

enum { FLUSH, ENQUEUE, DEQUEUE, SET_RATE, BEGIN };

/* Result, drops and marks, which were dropped, deadline, packets, bytes. */
struct decision {
	u64 result, drops, which, deadline, packets, bytes;
};

static struct twin_options options;
static struct twin_state state;

static void dropped(struct decision *decision, u64 number)
{
	decision->drops += 2;
	decision->which += number + 1;
}

static void enqueue(const u64 *record, struct decision *decision)
{
	u64 arrived = state.arrived;
	bool mark;
	u32 slot = twin_accept(&options, &state, record[1], record[2], record[4], record[5], record[3] & 1, false, &mark);

	if (slot == TWIN_NONE) {
		dropped(decision, arrived);
		return;
	}
	decision->result = 1;
	decision->drops = mark;
	while ((slot = twin_overflow(&options, &state)) != TWIN_NONE)
		dropped(decision, twin_packet_of(&state.held, slot)->number);
}

static void dequeue(u64 now, struct decision *decision)
{
	if (twin_rests(&options, &state)) {
		twin_now(&state, now);
		return;
	}
	twin_prepare(&options, &state, now);
	for (u32 i = 0; i < TWIN_MOST_STEPS; i++) {
		struct twin_step step = twin_next(&options, &state);
		u64 number = twin_packet_of(&state.held, step.slot)->number;

		switch (step.action) {
		case TWIN_AGAIN:
			continue;
		case TWIN_DROP:
			dropped(decision, number);
			continue;
		case TWIN_SEND:
		case TWIN_MARK:
			decision->result = number + 1;
			decision->drops += step.action == TWIN_MARK;
		}
		return;
	}
	fprintf(stderr, "a call does not end\n");
	exit(1);
}

int main(void)
{
	u64 record[6];

	while (fread(record, sizeof(record), 1, stdin) == 1) {
		struct decision decision = {0};

		switch (record[0]) {
		case FLUSH:
			fflush(stdout);
			continue;
		case BEGIN:
			if (fread(&options, sizeof(options), 1, stdin) != 1 || !twin_supports(&options))
				return 1;
			twin_begin(&state, &options);
			continue;
		case ENQUEUE:
			enqueue(record, &decision);
			break;
		case DEQUEUE:
			dequeue(record[1], &decision);
			break;
		case SET_RATE:
			twin_set_rate(&options, &state, record[1], record[2]);
			break;
		default:
			return 1;
		}
		decision.deadline = twin_deadline(&options, &state, record[1]);
		decision.packets = state.held.backlog.packets;
		decision.bytes = state.held.backlog.bytes;
		fwrite(&decision, sizeof(decision), 1, stdout);
	}
	return 0;
}
