/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Promises: a minimum for each flow that the conditions of a promise match, in whatever class, and rate that is held in one class
 * for such flows to come. crates/engine/src/registry does the same for the discipline in user space; a flow that is there
 * already is looked at with its next packet.
 */
#ifndef TWIN_PROMISES_H
#define TWIN_PROMISES_H

#include "fbq.h"

/*
 * Of the chassis: notes whose packets the flow of the packet that arrives has. Returns the place of the promise whose conditions
 * it meets, plus 1; 0 for none.
 */
TWIN_GLOBAL u32 twin_know_flow(u32 number);

TWIN_INLINE const struct twin_fbq_promise *twin_fbq_promise_of(const struct twin_fbq_options *options, u32 place)
{
	return &options->promise[twin_index(place, TWIN_FBQ_PROMISES)];
}

TWIN_INLINE fbq_slots *twin_fbq_slots_of(struct twin_fbq *fbq, u32 place)
{
	return &fbq->slots[twin_index(place, TWIN_FBQ_PROMISES)];
}

/* The class in which a promise holds rate. */
TWIN_INLINE struct twin_fbq_class *twin_fbq_holder(const struct twin_fbq_options *options, struct twin_fbq *fbq, u32 place)
{
	return twin_fbq_class_of(fbq, twin_fbq_promise_of(options, place)->class);
}

/* A flow comes under a promise. */
TWIN_INLINE void twin_fbq_promised(const struct twin_fbq_options *options, struct twin_fbq *fbq, u32 place)
{
	if (fbq_slots_begin(twin_fbq_slots_of(fbq, place)))
		twin_fbq_release(twin_fbq_holder(options, fbq, place), twin_fbq_promise_of(options, place)->minimum);
}

/* A flow is under a promise no more. */
TWIN_INLINE void twin_fbq_promised_no_more(const struct twin_fbq_options *options, struct twin_fbq *fbq, u32 place)
{
	fbq_slots *slots = twin_fbq_slots_of(fbq, place);
	struct twin_fbq_class *class = twin_fbq_holder(options, fbq, place);
	u64 minimum = twin_fbq_promise_of(options, place)->minimum;

	if (fbq_slots_end(slots) && minimum <= twin_fbq_unpromised(class)) {
		slots->held++;
		class->held += minimum;
	}
}

/* Of the flows that ended in a call, after it. */
TWIN_GLOBAL u32 twin_fbq_settle_ended(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN)
{
	TWIN_FOR(u32, i, 0, TWIN_FBQ_ENDED) {
		if (i < fbq->ended_count)
			twin_fbq_promised_no_more(options, fbq, fbq->ended[twin_index(i, TWIN_FBQ_ENDED)] - 1);
	}
	fbq->ended_count = 0;
	return 0;
}

TWIN_INLINE void twin_fbq_settle(const struct twin_fbq_options *options, struct twin_fbq *fbq)
{
	if (fbq->ended_count != 0)
		twin_fbq_settle_ended(options, fbq);
}

/* The minimum that a flow asks for. */
TWIN_INLINE u64 twin_fbq_asked(const struct twin_fbq_options *options, const struct twin_fbq_flow *flow)
{
	u64 minimum = 0;

	if (flow->profile < options->profiles)
		minimum = options->profile[twin_index(flow->profile, TWIN_FBQ_PROFILES)].minimum;
	if (flow->promise != 0)
		minimum = max_u64(minimum, twin_fbq_promise_of(options, flow->promise - 1)->minimum);
	return minimum;
}

/* Asks for another minimum of a flow, if it is another. */
TWIN_GLOBAL u32 twin_fbq_ask_again(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN,
				   struct twin_held *held TWIN_GIVEN, u32 number)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, flow->class);
	u64 minimum = twin_fbq_asked(options, flow);

	if (minimum == flow->minimum)
		return 0;
	twin_fbq_wait_no_more(fbq, class, number);
	twin_fbq_regrant(fbq, held, number, minimum, TWIN_IF_FREE);
	if (minimum != 0 && !flow->granted)
		twin_fbq_wait(fbq, class, number);
	if (twin_queue_of(held, number)->backlog.packets != 0)
		twin_fbq_key(fbq, held, number);
	twin_fbq_choose(options, fbq, held, flow->class, fbq->now);
	return 0;
}

/* Finds the promise of a flow that the packet which arrives is of. */
TWIN_INLINE void twin_fbq_look_again(const struct twin_fbq_options *options, struct twin_fbq *fbq, u32 number)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	u32 promise = twin_know_flow(number);

	flow->conditions = options->conditions;
	if (promise != 0 && twin_fbq_promise_of(options, promise - 1)->number == 0)
		promise = 0;
	if (promise != 0 && promise != flow->promise)
		twin_fbq_promised(options, fbq, promise - 1);
	flow->promise = promise;
}

/* The same for a flow that is in a class. */
TWIN_GLOBAL u32 twin_fbq_review(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN,
				struct twin_held *held TWIN_GIVEN, u32 number)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	u32 before = flow->promise;

	twin_fbq_look_again(options, fbq, number);
	if (flow->promise == before)
		return 0;
	twin_fbq_ask_again(options, fbq, held, number);
	if (before != 0)
		twin_fbq_promised_no_more(options, fbq, before - 1);
	return 0;
}

TWIN_INLINE bool twin_fbq_is_kept(const struct twin_fbq_options *options, const struct twin_fbq_options *next, u32 place)
{
	return twin_fbq_promise_of(options, place)->number == twin_fbq_promise_of(next, place)->number;
}

/* Ends the promises that are not among the next ones: what they hold is free. Returns how many. */
TWIN_GLOBAL u32 twin_fbq_end_promises(const struct twin_fbq_options *options TWIN_GIVEN,
				      const struct twin_fbq_options *next TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN)
{
	u32 ended = 0;

	TWIN_FOR(u32, place, 0, TWIN_FBQ_PROMISES) {
		const struct twin_fbq_promise *promise = twin_fbq_promise_of(options, place);
		fbq_slots *slots = twin_fbq_slots_of(fbq, place);

		if (promise->number == 0 || twin_fbq_is_kept(options, next, place))
			continue;
		if (slots->held != 0)
			twin_fbq_release(twin_fbq_holder(options, fbq, place), slots->held * promise->minimum);
		*slots = (fbq_slots){0};
		ended++;
	}
	return ended;
}

/* And of their flows. */
TWIN_GLOBAL u32 twin_fbq_end_promises_of_flows(const struct twin_fbq_options *options TWIN_GIVEN,
					       const struct twin_fbq_options *next TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN,
					       struct twin_held *held TWIN_GIVEN)
{
	TWIN_FOR(u32, number, 0, TWIN_QUEUES) {
		struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);

		if (flow->promise == 0 || twin_fbq_is_kept(options, next, flow->promise - 1))
			continue;
		flow->promise = 0;
		twin_fbq_ask_again(options, fbq, held, number);
	}
	return 0;
}

/* Holds rate for the promises that are new, as far as it is free. */
TWIN_GLOBAL u32 twin_fbq_hold_promises(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN)
{
	TWIN_FOR(u32, place, 0, TWIN_FBQ_PROMISES) {
		const struct twin_fbq_promise *promise = twin_fbq_promise_of(options, place);
		struct twin_fbq_class *class = twin_fbq_holder(options, fbq, place);
		fbq_slots *slots = twin_fbq_slots_of(fbq, place);

		if (promise->number == 0 || slots->wanted != 0)
			continue;
		slots->wanted = promise->flows;
		if (promise->minimum != 0 && promise->class < options->classes)
			slots->held = min_u64(promise->flows, twin_fbq_unpromised(class) / promise->minimum);
		class->held += slots->held * promise->minimum;
	}
	return 0;
}

TWIN_INLINE void twin_fbq_set_profile(const struct twin_fbq_options *options, struct twin_fbq_flow *flow, u32 profile)
{
	const struct twin_fbq_profile *wanted = &options->profile[twin_index(profile, TWIN_FBQ_PROFILES)];

	flow->profile = profile;
	flow->weight = fbq_weight_of(profile < options->profiles ? wanted->weight : fbq_weight_one());
	flow->minimum = twin_fbq_asked(options, flow);
}

/* The flow of a packet that arrives, begun if it is new; TWIN_NONE when there are too many, of up to `most`. */
TWIN_INLINE u32 twin_fbq_flow(const struct twin_fbq_options *options, struct twin_fbq *fbq, struct twin_held *held,
			      u64 key, u32 q, u32 profile, u64 most)
{
	u32 number = twin_find(held, key);
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);

	if (number != TWIN_NONE) {
		if (flow->conditions != options->conditions)
			twin_fbq_review(options, fbq, held, number);
		if (flow->class != q) {
			twin_fbq_part(options, fbq, held, number);
			twin_fbq_join(options, fbq, held, number, q);
		}
		if (flow->profile != profile) {
			twin_fbq_part(options, fbq, held, number);
			twin_fbq_set_profile(options, flow, profile);
			twin_fbq_join(options, fbq, held, number, q);
		}
		return number;
	}
	if (fbq->flow_count >= most) {
		if (fbq->idle.head == TWIN_NONE)
			return TWIN_NONE;
		twin_fbq_forget(options, fbq, held, fbq->idle.head);
	}
	number = twin_flow(held, key);
	if (number == TWIN_NONE)
		return TWIN_NONE;
	flow = twin_fbq_flow_of(fbq, number);
	*flow = (struct twin_fbq_flow){ .idle_since = fbq->now, .present = true };
	fbq->flow_count++;
	twin_list_append(held, &fbq->idle, number);
	twin_fbq_look_again(options, fbq, number);
	twin_fbq_set_profile(options, flow, profile);
	twin_fbq_join(options, fbq, held, number, q);
	return number;
}

#endif
