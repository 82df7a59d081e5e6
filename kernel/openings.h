/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* When a class may send, and which one does, as crates/core/src/qdisc/fbq/openings.rs has it. A part of fbc.h. */
#ifndef TWIN_OPENINGS_H
#define TWIN_OPENINGS_H

#include "fbq.h"

/* When a class may send, and which; TWIN_NONE for none. */
struct twin_opening {
	u64 time;
	u32 class;
};

/* When the bucket of all classes pays for the candidate of a class. */
TWIN_INLINE option_units_instant twin_fbq_root_time(struct twin_fbq *fbq, u32 q, u64 from)
{
	return bucket_token_bucket_time_for(&fbq->root, from, twin_fbq_class_of(fbq, q)->size);
}

/* The class of an order that is due first; TWIN_NONE for none. */
TWIN_INLINE u32 twin_fbq_first_of(struct twin_fbq *fbq, const struct twin_fbq_turns *turns)
{
	u32 upcoming = turns->upcoming, entitled = turns->entitled, q = TWIN_NONE;

	if (upcoming != TWIN_NONE)
		q = upcoming - TWIN_UPCOMING;
	if (entitled != TWIN_NONE) {
		u32 other = entitled - TWIN_ENTITLED;
		u128 key = twin_node_of(&fbq->orders, entitled)->key;

		if (upcoming == TWIN_NONE || key < twin_node_of(&fbq->orders, upcoming)->key ||
		    (key == twin_node_of(&fbq->orders, upcoming)->key && other < q))
			q = other;
	}
	return q;
}

/* The class that is due first, and when; TWIN_NONE for none. */
TWIN_INLINE struct twin_opening twin_fbq_first(struct twin_fbq *fbq)
{
	struct twin_opening first = { .time = U64_MAX, .class = TWIN_NONE };
	u32 q = twin_fbq_first_of(fbq, &fbq->turns[0]);

	if (q != TWIN_NONE && twin_fbq_class_of(fbq, q)->due != U64_MAX)
		first = (struct twin_opening){ .time = twin_fbq_class_of(fbq, q)->due, .class = q };
	q = twin_fbq_first_of(fbq, &fbq->turns[1]);
	if (q != TWIN_NONE) {
		u64 time = twin_fbq_reaches(fbq, twin_fbq_class_of(fbq, q)->due);

		if (time < first.time)
			first = (struct twin_opening){ .time = time, .class = q };
	}
	return first;
}

/* When it may send by its own rate. */
TWIN_INLINE struct twin_opening twin_fbq_own(struct twin_fbq *fbq, struct twin_opening first)
{
	struct twin_opening own = { .class = TWIN_NONE };
	option_units_instant time;

	if (first.class == TWIN_NONE)
		return own;
	time = twin_fbq_root_time(fbq, first.class, first.time);
	if (time.some)
		own = (struct twin_opening){ .time = time.value, .class = first.class };
	return own;
}

/* When a class may send by the rate of others, which precedes the class that is due first. */
TWIN_INLINE struct twin_opening twin_fbq_borrower(struct twin_fbq *fbq, struct twin_held *held, struct twin_opening first)
{
	struct twin_opening borrower = { .class = TWIN_NONE };
	u32 q = fbq->borrowers - TWIN_BORROWERS;
	struct twin_fbq_class *class;
	struct twin_packet *head;
	option_units_instant time;

	if (fbq->borrowers == TWIN_NONE) {
		/* The one that no longer waits for a ceiling first. */
		if (fbq->ceilings == TWIN_NONE)
			return borrower;
		q = fbq->ceilings - TWIN_CEILINGS;
	}
	class = twin_fbq_class_of(fbq, q);
	head = twin_packet_of(held, twin_queue_of(held, class->candidate)->head);
	time = twin_fbq_root_time(fbq, q, max_u64(class->ready, head->at));
	/* A class that is entitled by then precedes a borrower. */
	if (time.some && (first.class == TWIN_NONE || time.value < first.time))
		borrower = (struct twin_opening){ .time = time.value, .class = q };
	return borrower;
}

/* Of the classes of an order that are due at a time, the one of the best priority. */
TWIN_GLOBAL u32 twin_fbq_best(struct twin_fbq *fbq TWIN_GIVEN, u32 order, u64 time)
{
	struct twin_fbq_turns *turns = &fbq->turns[twin_index(order, 2)];

	TWIN_FOR(u32, move, 0, TWIN_FBQ_CLASSES) {
		u32 first = turns->upcoming, q = first - TWIN_UPCOMING;
		struct twin_fbq_class *class = twin_fbq_class_of(fbq, q);
		u128 key = twin_node_of(&fbq->orders, first)->key;

		if (first == TWIN_NONE || class->due > time)
			break;
		twin_order_remove(&fbq->orders, &turns->upcoming, first);
		twin_order_set(&fbq->orders, &turns->entitled, TWIN_ENTITLED + q, key, q);
		twin_order_set(&fbq->orders, &turns->preferred, TWIN_PREFERRED + q, fbq_by_priority(key), q);
	}
	return turns->preferred == TWIN_NONE ? TWIN_NONE : turns->preferred - TWIN_PREFERRED;
}

/* Whether the bucket of all classes has credit for the candidate of a class by a time. */
TWIN_GLOBAL u32 twin_fbq_has_credit(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN, u32 q, u64 time)
{
	u64 due = twin_fbq_class_of(fbq, q)->due;
	option_units_instant affordable;

	if (twin_fbq_is_clocked(options, q))
		due = twin_fbq_reaches(fbq, due);
	affordable = twin_fbq_root_time(fbq, q, due);
	return affordable.some && affordable.value <= time;
}

/* The class of an order that sends at a time at which `first` is due, of that or of another order; TWIN_NONE for none. */
TWIN_INLINE u32 twin_fbq_able(const struct twin_fbq_options *options, struct twin_fbq *fbq, u32 order, u64 time, u64 shown, u32 first)
{
	u32 q = twin_fbq_first_of(fbq, &fbq->turns[twin_index(order, 2)]);

	if (q == TWIN_NONE || twin_fbq_class_of(fbq, q)->due > shown)
		return TWIN_NONE;
	/* The first that is due, unless a class may have a better priority. */
	if (twin_fbq_params(options, q)->priority != fbq->best_priority)
		q = twin_fbq_best(fbq, order, shown);
	return q == TWIN_NONE || q == first || twin_fbq_has_credit(options, fbq, q, time) ? q : TWIN_NONE;
}

/* The class of the best priority among those that are due at a time, of which `first` is one. */
TWIN_INLINE u32 twin_fbq_best_of_both(const struct twin_fbq_options *options, struct twin_fbq *fbq, u64 time, u32 first)
{
	u32 own = twin_fbq_able(options, fbq, 0, time, time, first), clocked = TWIN_NONE;
	u64 priority, other;

	if (fbq->lends)
		clocked = twin_fbq_able(options, fbq, 1, time, twin_fbq_shows(fbq, time), first);
	if (own == TWIN_NONE)
		return clocked == TWIN_NONE ? first : clocked;
	if (clocked == TWIN_NONE)
		return own;
	priority = twin_fbq_params(options, own)->priority;
	other = twin_fbq_params(options, clocked)->priority;
	return other < priority || (other == priority && clocked == first && own != first) ? clocked : own;
}

#endif
