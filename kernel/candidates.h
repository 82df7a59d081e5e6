/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The candidate of a class, which is the flow whose packet leaves next, and the places of classes in their orders: by when they are
 * due, by what they have borrowed, and by when a ceiling allows them to borrow again. A part of fbq.h.
 */
#ifndef TWIN_CANDIDATES_H
#define TWIN_CANDIDATES_H

/* The candidate of a class adds this to what the class has borrowed. */
TWIN_INLINE u128 twin_fbq_borrows(struct twin_fbq_class *class)
{
	struct twin_fbq_length *last = &class->borrowed;

	if (last->bytes != class->size || last->by != class->bucket.rate)
		*last = (struct twin_fbq_length){ fbq_borrow_length(class->size, class->bucket.rate), class->size, class->bucket.rate };
	return last->length;
}

/* A class begins to borrow at the present virtual time of borrowing: what a ceiling held back is lost. */
TWIN_INLINE void twin_fbq_start_borrowing(struct twin_fbq *fbq, u32 q)
{
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, q);

	class->borrowed_until = max_u128(class->borrowed_until, fbq->borrow_now);
}

TWIN_INLINE void twin_fbq_set_borrower(struct twin_fbq *fbq, u32 q)
{
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, q);

	twin_order_set(&fbq->orders, &fbq->borrowers, TWIN_BORROWERS + q, class->borrowed_until + twin_fbq_borrows(class), q);
}

/* Whether a class may borrow once its ceiling allows it, which it does not as of base. */
TWIN_INLINE bool twin_fbq_waits(const struct twin_fbq_options *options, const struct twin_fbq_class *class, u32 q, u64 base)
{
	return class->has_candidate && class->ready > base && twin_fbq_params(options, q)->borrows == 1 &&
	       !twin_fbq_is_clocked(options, q);
}

/*
 * The place of a class among those that wait for a ceiling as of base; and lets classes borrow again whose ceilings allow it, at
 * most as many as the core does with a call.
 */
TWIN_GLOBAL u32 twin_fbq_hold(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN, u32 q, u64 base)
{
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, q);

	if (twin_fbq_waits(options, class, q, base) && class->ready != U64_MAX)
		twin_order_set(&fbq->orders, &fbq->ceilings, TWIN_CEILINGS + q, class->ready, q);
	else
		twin_order_remove(&fbq->orders, &fbq->ceilings, TWIN_CEILINGS + q);
	TWIN_FOR(u32, i, 0, TWIN_FBQ_RELEASES) {
		q = fbq->ceilings - TWIN_CEILINGS;
		if (fbq->ceilings == TWIN_NONE || twin_fbq_class_of(fbq, q)->ready > base)
			break;
		twin_fbq_start_borrowing(fbq, q);
		twin_order_remove(&fbq->orders, &fbq->ceilings, TWIN_CEILINGS + q);
		twin_fbq_set_borrower(fbq, q);
	}
	return 0;
}

/* Whether the candidate of a class is the one that fbq->chosen has. */
TWIN_INLINE bool twin_fbq_is_chosen(struct twin_fbq *fbq, const struct twin_fbq_class *class)
{
	if (class->has_candidate != fbq->chosen.is_any)
		return false;
	return !class->has_candidate || (class->candidate == fbq->chosen.candidate && class->by == fbq->chosen.by &&
					 class->since == fbq->chosen.since && class->ready == fbq->chosen.ready &&
					 class->due == fbq->chosen.due && class->size == fbq->chosen.size);
}

/*
 * The place of a class in the orders of classes, after another candidate was selected as of base. Where that is the one before, the class
 * keeps its place, and others go on to wait for their ceilings, unless fbq->chosen.always. Returns whether twin_fbq_hold is to be called
 * next.
 */
TWIN_GLOBAL u32 twin_fbq_place(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN, u32 q, u64 base)
{
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, q);
	const struct twin_fbq_class_options *params = twin_fbq_params(options, q);
	struct twin_fbq_turns *turns = twin_fbq_turns_of(options, fbq, q);

	if (!fbq->chosen.always && twin_fbq_is_chosen(fbq, class))
		return false;
	twin_order_remove(&fbq->orders, &turns->entitled, TWIN_ENTITLED + q);
	twin_order_remove(&fbq->orders, &turns->preferred, TWIN_PREFERRED + q);
	if (class->has_candidate)
		twin_order_set(&fbq->orders, &turns->upcoming, TWIN_UPCOMING + q, fbq_by_due(class->due, params->priority), q);
	else
		twin_order_remove(&fbq->orders, &turns->upcoming, TWIN_UPCOMING + q);
	if (twin_fbq_is_clocked(options, q))
		return fbq->ceilings != TWIN_NONE;
	if (class->has_candidate && params->borrows == 1 && class->ready <= base) {
		if (twin_node_of(&fbq->orders, TWIN_CEILINGS + q)->rank != 0)
			twin_fbq_start_borrowing(fbq, q);
		twin_fbq_set_borrower(fbq, q);
	} else {
		twin_order_remove(&fbq->orders, &fbq->borrowers, TWIN_BORROWERS + q);
	}
	return fbq->ceilings != TWIN_NONE || twin_fbq_waits(options, class, q, base);
}

/* When the ceiling of a class pays for bytes: at once without one, U64_MAX for never. */
TWIN_INLINE u64 twin_fbq_pays_at(const struct twin_fbq_options *options, struct twin_fbq *fbq, u32 q, u64 bytes)
{
	return twin_fbq_params(options, q)->most == 0 ? 0 : twin_ceiling_pays_at(&twin_fbq_class_of(fbq, q)->ceiling, bytes);
}

/* The flow of a class that is covered by its share first, alone or in its group; TWIN_NONE where all wait for a ceiling. */
TWIN_INLINE u32 twin_fbq_sharer(struct twin_fbq *fbq, const struct twin_fbq_class *class)
{
	u32 flow = class->share, group = class->groups, first;
	u128 tag, of_group;

	if (group == TWIN_NONE)
		return flow;
	first = twin_fbq_host_of(fbq, group - TWIN_HOSTS)->share;
	if (flow == TWIN_NONE)
		return first;
	tag = twin_node_of(&fbq->orders, flow)->key;
	of_group = twin_node_of(&fbq->orders, group)->key;
	return tag < of_group || (tag == of_group && flow < first) ? flow : first;
}

/*
 * Selects the candidate of a class as of base: a flow whose minimum covers its first packet precedes those whose share does. In a
 * strict class, and where all wait for ceilings of flows or groups, one may be selected for a later time.
 */
TWIN_INLINE void twin_fbq_select(const struct twin_fbq_options *options, struct twin_fbq *fbq, struct twin_held *held, u32 q,
				 u64 base)
{
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, q);
	u32 number = twin_fbq_sharer(fbq, class), guarantee = class->guarantee, by = FBQ_BY_SHARE;
	u64 since = base, covered = U64_MAX;
	const struct twin_packet *head;
	option_units_instant due;

	if (number == TWIN_NONE && class->waiting_hosts != TWIN_NONE) {
		number = twin_fbq_next_of_host(twin_fbq_host_of(fbq, class->waiting_hosts - TWIN_HOSTS));
		guarantee = TWIN_NONE;
		since = max_u64(twin_node_of(&fbq->orders, class->waiting_hosts)->key, base);
	}
	class->has_candidate = number != TWIN_NONE;
	if (number == TWIN_NONE)
		return;
	if (guarantee != TWIN_NONE)
		covered = twin_node_of(&fbq->orders, guarantee)->key;
	if (guarantee == TWIN_NONE || covered > base) {
		if (twin_fbq_params(options, q)->strict == 1) {
			since = max_u64(twin_instant_of(fbq, q), base);
			if (guarantee != TWIN_NONE && covered <= since) {
				since = covered;
				by = FBQ_BY_GUARANTEE;
			}
		}
	} else {
		by = FBQ_BY_GUARANTEE;
	}
	if (by == FBQ_BY_GUARANTEE)
		number = twin_fbq_special_at(fbq, guarantee - TWIN_GUARANTEES)->flow;
	head = twin_packet_of(held, twin_queue_of(held, number)->head);
	class->candidate = number;
	class->by = by;
	class->since = since;
	class->ready = max_u64(since, twin_fbq_pays_at(options, fbq, q, head->size));
	due = bucket_token_bucket_time_for(&class->bucket, max_u64(class->ready, head->at), head->size);
	if (!due.some)
		due.value = U64_MAX;
	class->due = due.value;
	class->size = head->size;
}

/* Selects a candidate, and notes the one before. */
TWIN_GLOBAL u32 twin_fbq_choose_anew(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN,
				     struct twin_held *held TWIN_GIVEN, u32 q, u64 base)
{
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, q);

	fbq->chosen.is_any = class->has_candidate;
	fbq->chosen.candidate = class->candidate;
	fbq->chosen.by = class->by;
	fbq->chosen.since = class->since;
	fbq->chosen.ready = class->ready;
	fbq->chosen.due = class->due;
	fbq->chosen.size = class->size;
	twin_fbq_select(options, fbq, held, q, base);
	return 0;
}

TWIN_INLINE void twin_fbq_rechoose(const struct twin_fbq_options *options, struct twin_fbq *fbq, struct twin_held *held, u32 q,
				   u64 base, bool always)
{
	bool is_clocked = twin_fbq_is_clocked(options, q);

	base = twin_fbq_time_of(options, fbq, q, base);
	if (twin_fbq_params(options, q)->strict == 1)
		twin_filling_balance(fbq, q, TWIN_NOW_SHARED);
	twin_fbq_release_hosts(options, fbq, held, q, base);
	fbq->chosen.always = always;
	/* In several functions, since the stack of the kernel is small. */
	twin_fbq_choose_anew(options, fbq, held, q, base);
	/* By the clock no ceiling pays. */
	if (twin_fbq_place(options, fbq, q, base))
		twin_fbq_hold(options, fbq, q, is_clocked ? fbq->now : base);
}

/* Selects a candidate unless there is one that was selected by then. */
TWIN_INLINE void twin_fbq_choose(const struct twin_fbq_options *options, struct twin_fbq *fbq, struct twin_held *held, u32 q,
				 u64 base)
{
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, q);

	if (!class->has_candidate || class->since > twin_fbq_time_of(options, fbq, q, base))
		twin_fbq_rechoose(options, fbq, held, q, base, false);
}

#endif
