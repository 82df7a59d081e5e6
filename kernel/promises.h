/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Promises: a minimum for each flow that the conditions of a promise match, in whatever class, and rate that is held in one class
 * for such flows to come. crates/engine/src/registry does the same for the discipline in user space; a flow that is there
 * already is looked at with its next packet.
 */
#ifndef TWIN_PROMISES_H
#define TWIN_PROMISES_H

#include "moves.h"

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

/* What a flow asks for, by its profile and its promise: the minimum here, and below the displacement. */
TWIN_INLINE u64 twin_fbq_asked(const struct twin_fbq_options *options, const struct twin_fbq_flow *flow)
{
	u64 minimum = 0;

	if (flow->profile < options->profiles)
		minimum = options->profile[twin_index(flow->profile, TWIN_FBQ_PROFILES)].minimum;
	if (flow->promise != 0)
		minimum = max_u64(minimum, twin_fbq_promise_of(options, flow->promise - 1)->minimum);
	return minimum;
}

/* Whether a flow asks for more than a weight. */
TWIN_INLINE bool twin_fbq_asks(const struct twin_fbq_options *options, const struct twin_fbq_flow *flow)
{
	const struct twin_fbq_profile *profile = &options->profile[twin_index(flow->profile, TWIN_FBQ_PROFILES)];

	return flow->promise != 0 || (flow->profile < options->profiles && (profile->minimum != 0 || profile->to != 0));
}

/* Takes over where a flow goes below which rate, and its steps of preference. */
TWIN_INLINE void twin_fbq_follow_terms(const struct twin_fbq_options *options, struct twin_fbq *fbq, u32 number)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	struct twin_fbq_special *special = twin_fbq_special_of(fbq, number);
	const struct twin_fbq_profile *profile = &options->profile[twin_index(flow->profile, TWIN_FBQ_PROFILES)];
	const struct twin_fbq_promise *promise = twin_fbq_promise_of(options, flow->promise - 1);

	special->to = special->steps = 0;
	if (flow->profile < options->profiles) {
		special->to = profile->to;
		special->below = profile->below;
	}
	if (flow->promise == 0)
		return;
	special->steps = promise->steps;
	if (promise->to != 0 && promise->to <= options->classes) {
		special->to = promise->to;
		special->below = promise->below;
	}
}

/* The same for a flow in its class. */
TWIN_GLOBAL u32 twin_fbq_follow_displacement(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN,
					     u32 number)
{
	twin_fbq_forget_threshold(fbq, number);
	twin_fbq_follow_terms(options, fbq, number);
	twin_fbq_note_threshold(fbq, number);
	return 0;
}

/* Whether a flow that is in a class has what it takes to ask for more than a weight. */
TWIN_GLOBAL u32 twin_fbq_may_ask(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN, u32 number)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);

	if (flow->special != 0 || !twin_fbq_asks(options, flow))
		return flow->special != 0;
	twin_fbq_take_special(fbq, number);
	if (flow->special == 0)
		return false;
	twin_fbq_special_of(fbq, number)->guarantee =
		bucket_token_bucket_full(0, twin_fbq_params(options, flow->class)->flow_burst,
					 twin_fbq_time_of(options, fbq, flow->class, fbq->now));
	return true;
}

/* How a flow is to be granted what it asks for: first its steps of preference, if they were others; then its minimum, if it is another. */
TWIN_GLOBAL u32 twin_fbq_next_terms(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN, u32 number,
				    u32 is_minimum)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);

	if (!is_minimum) {
		fbq->asked = flow->minimum;
		if (twin_fbq_special_of(fbq, number)->steps == fbq->steps)
			return TWIN_AS_IT_IS;
		return flow->granted ? TWIN_GRANTED : TWIN_WAITS;
	}
	fbq->asked = twin_fbq_asked(options, flow);
	if (fbq->asked == flow->minimum)
		return TWIN_AS_IT_IS;
	twin_fbq_wait_no_more(fbq, twin_fbq_class_of(fbq, flow->class), number);
	return TWIN_IF_FREE;
}

/* Asks again for what a flow is to have by its profile and its promise. */
TWIN_GLOBAL u32 twin_fbq_ask_again(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN,
				   struct twin_held *held TWIN_GIVEN, u32 number)
{
	if (!twin_fbq_may_ask(options, fbq, number))
		return 0;
	fbq->steps = twin_fbq_special_of(fbq, number)->steps;
	twin_fbq_follow_displacement(options, fbq, number);
	TWIN_FOR(u32, is_minimum, 0, 2) {
		u32 granted = twin_fbq_next_terms(options, fbq, number, is_minimum);

		if (granted == TWIN_AS_IT_IS)
			continue;
		twin_fbq_grant_in_place(options, fbq, held, number, granted);
		twin_fbq_choose(options, fbq, held, twin_fbq_flow_of(fbq, number)->class, fbq->now);
	}
	return 0;
}

/* Finds the promise of a flow that the packet which arrives is of. */
TWIN_INLINE void twin_fbq_look_again(const struct twin_fbq_options *options, struct twin_fbq *fbq, u32 number)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	u32 promise = twin_fbq_has_inside(options, fbq->packet.class) ? 0 : twin_know_flow(number);

	flow->conditions = options->conditions;
	if (promise != 0 && twin_fbq_promise_of(options, promise - 1)->number == 0)
		promise = 0;
	if (promise != 0 && promise != flow->promise)
		twin_fbq_promised(options, fbq, promise - 1);
	flow->promise = promise;
}

/* The same for a flow that is in a class. */
TWIN_INLINE u32 twin_fbq_review(const struct twin_fbq_options *options, struct twin_fbq *fbq, struct twin_held *held, u32 number)
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

TWIN_INLINE void twin_fbq_set_profile(const struct twin_fbq_options *options, struct twin_fbq *fbq, u32 number, u32 profile)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	const struct twin_fbq_profile *wanted = &options->profile[twin_index(profile, TWIN_FBQ_PROFILES)];

	flow->profile = profile;
	flow->weight = fbq_weight_of(profile < options->profiles ? wanted->weight : fbq_weight_one());
	flow->minimum = 0;
	if (twin_fbq_asks(options, flow))
		twin_fbq_take_special(fbq, number);
	if (flow->special == 0)
		return;
	twin_fbq_special_of(fbq, number)->plain = flow->weight;
	twin_fbq_follow_terms(options, fbq, number);
	flow->minimum = twin_fbq_asked(options, flow);
}

/* Makes the record of the flow of a packet that arrives. */
TWIN_GLOBAL u32 twin_fbq_make_flow(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN,
				   struct twin_held *held TWIN_GIVEN)
{
	u32 number, q = fbq->packet.class;
	struct twin_fbq_flow *flow;

	number = twin_flow(held, &held->flows, fbq->packet.flow);
	if (number == TWIN_NONE)
		return TWIN_NONE;
	flow = twin_fbq_flow_of(fbq, number);
	*flow = (struct twin_fbq_flow){ .idle_since = fbq->now, .present = true, .class = q, .home = q, .host = TWIN_NONE };
	flow->host_key = fbq->packet.flow;
	if (options->fair_by != 0 && !twin_fbq_has_inside(options, q))
		flow->host_key = twin_know_host(options->fair_by);
	fbq->flow_count++;
	twin_list_append(held, &fbq->idle, number);
	twin_fbq_look_again(options, fbq, number);
	twin_fbq_set_profile(options, fbq, number, fbq->packet.flow_profile);
	return number;
}

/* reviews: the promise of a flow that is there is found again if conditions have changed. */
TWIN_INLINE u32 twin_fbq_flow(const struct twin_fbq_options *options, struct twin_fbq *fbq, struct twin_held *held, u64 most,
			      bool reviews)
{
	u32 number = twin_find(held, &held->flows, fbq->packet.flow);
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);

	if (number == TWIN_NONE) {
		if (fbq->flow_count >= most) {
			if (fbq->idle.head == TWIN_NONE)
				return TWIN_NONE;
			twin_fbq_forget_oldest(options, fbq, held);
		}
		number = twin_fbq_make_flow(options, fbq, held);
		if (number != TWIN_NONE)
			twin_fbq_join(options, fbq, held, number, fbq->packet.class);
		return number;
	}
	if (reviews && flow->conditions != options->conditions)
		twin_fbq_review(options, fbq, held, number);
	if (flow->home != fbq->packet.class) {
		flow->home = fbq->packet.class;
		twin_fbq_transfer(options, fbq, held, number, flow->home);
	}
	if (flow->profile != fbq->packet.flow_profile) {
		u32 q = flow->class;

		twin_fbq_part(options, fbq, held, number);
		twin_fbq_set_profile(options, fbq, number, fbq->packet.flow_profile);
		twin_fbq_join(options, fbq, held, number, q);
	}
	return number;
}

/*
 * The flow of the packet that arrives, which is fbq->packet: begun if it is new; TWIN_NONE when there are too many, of up to `most`.
 * To be called before twin_fbq_enqueue, for which the stack of the kernel would not suffice as well.
 */
TWIN_GLOBAL u32 twin_fbq_arrive(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN,
				struct twin_held *held TWIN_GIVEN, u64 most)
{
	return twin_fbq_flow(options, fbq, held, most, true);
}

/* The same after a beginning, since which no conditions have changed. */
TWIN_GLOBAL u32 twin_fbq_arrive_again(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN,
				      struct twin_held *held TWIN_GIVEN)
{
	return twin_fbq_flow(options, fbq, held, TWIN_QUEUES, false);
}

#endif
