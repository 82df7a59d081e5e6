/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The nominal shares of a class, as crates/core/src/qdisc/fbq/shares.rs has them, and virtual time in a strict class. A part of
 * fbq.h.
 *
 * A filling is a rate shared by weight in which no flow gets less than its minimum. Which flows are at their minimum follows from
 * the flows and the rate alone, in whatever order these came: so it is found when it is asked for, and costs classes nothing
 * that never ask. Rates are below 2^47 bit/s here. What is computed in steps is kept in `struct twin_fbq` between them, since the
 * stack of the kernel is small.
 */
#ifndef TWIN_SHARES_H
#define TWIN_SHARES_H

/* fbq->wide by a number that is not zero; the rest in fbq->rest. */
TWIN_GLOBAL u32 twin_divide(struct twin_fbq *fbq TWIN_GIVEN, u64 by)
{
	u64 high = fbq->wide >> 64, low = fbq->wide, rest = 0;

	if (by == 0)
		by = 1;
	if (high == 0) {
		fbq->wide = low / by;
		fbq->rest = low % by;
		return 0;
	}
	rest = high % by;
	high /= by;
	low = twin_divide_halves(&rest, low, by);
	fbq->wide = (u128)high << 64 | low;
	fbq->rest = rest;
	return 0;
}

/* fbq->wide times a number, at most the largest of 128 bits. Returns whether it is more than that. */
TWIN_GLOBAL u32 twin_multiply(struct twin_fbq *fbq TWIN_GIVEN, u64 by)
{
	u64 high = fbq->wide >> 64, low = fbq->wide;
	u128 product = wide_mul_u64(low, by), upper = wide_mul_u64(high, by);
	bool over = (upper >> 64) != 0;

	upper <<= 64;
	product += upper;
	over = over || product < upper;
	fbq->wide = over ? ~(u128)0 : product;
	return over;
}

/* Whether a * b is more than c * d. */
TWIN_GLOBAL u32 twin_is_more(u64 a, u64 b, u64 c, u64 d)
{
	return wide_mul_u64(a, b) > wide_mul_u64(c, d);
}

/* rate / weight in fbq->wide, as a number that orders ratios, of which two are never equal: weights are at most 2^40. */
TWIN_GLOBAL u32 twin_ratio(struct twin_fbq *fbq TWIN_GIVEN, u64 rate, u64 weight)
{
	u64 whole, rest, first, second, third;

	if (weight == 0)
		weight = 1;
	rate = min_u64(rate, ((u64)1 << 48) - 1);
	whole = rate / weight;
	rest = (rate % weight) << 24;
	first = rest / weight;
	rest = (rest % weight) << 24;
	second = rest / weight;
	rest = (rest % weight) << 24;
	third = rest / weight;
	rest = (rest % weight) << 8;
	fbq->wide = (u128)whole << 80 | (u128)first << 56 | (u128)second << 32 | third << 8 | rest / weight;
	return 0;
}

/* The weight of a flow in a filling. */
TWIN_INLINE u64 twin_filled_weight(struct twin_fbq *fbq, u32 number, u32 k)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);

	return k == TWIN_NOW_SHARED || flow->special == 0 ? flow->weight : twin_fbq_special_of(fbq, number)->plain;
}

TWIN_INLINE void twin_sum_add(struct twin_sum *sum, u64 minimum, u64 weight, bool preferred)
{
	sum->flows++;
	sum->minimum += minimum;
	sum->weight += weight;
	if (preferred) {
		sum->preferred_minimum += minimum;
		sum->preferred_weight += weight;
	}
}

TWIN_INLINE void twin_sum_remove(struct twin_sum *sum, u64 minimum, u64 weight, bool preferred)
{
	sum->flows--;
	sum->minimum -= minimum;
	sum->weight -= weight;
	if (preferred) {
		sum->preferred_minimum -= minimum;
		sum->preferred_weight -= weight;
	}
}

TWIN_INLINE u32 twin_filled_place(u32 k, u32 special)
{
	return TWIN_FILLED + k * TWIN_FBQ_SPECIALS + special;
}

/* Adds a flow to a filling of its class. */
TWIN_GLOBAL u32 twin_filling_join(struct twin_fbq *fbq TWIN_GIVEN, u32 number, u32 k)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	struct twin_filling *filling = twin_filling_of(twin_fbq_class_of(fbq, flow->class), k);
	u64 minimum = flow->granted ? flow->minimum : 0, weight = twin_filled_weight(fbq, number, k);
	bool preferred = flow->special != 0 && twin_fbq_special_of(fbq, number)->part != 0;

	filling->is_balanced = false;
	twin_sum_add(&filling->all, minimum, weight, preferred);
	if (minimum != 0) {
		twin_fbq_special_of(fbq, number)->held &= ~(1u << (k & 3));
		twin_ratio(fbq, minimum, weight);
		twin_order_set(&fbq->orders, &filling->above, twin_filled_place(k, flow->special - 1), ~fbq->wide, number);
	}
	return 0;
}

/* Removes a flow from a filling. */
TWIN_GLOBAL u32 twin_filling_leave(struct twin_fbq *fbq TWIN_GIVEN, u32 number, u32 k)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	struct twin_filling *filling = twin_filling_of(twin_fbq_class_of(fbq, flow->class), k);
	u64 minimum = flow->granted ? flow->minimum : 0, weight = twin_filled_weight(fbq, number, k);
	bool preferred = flow->special != 0 && twin_fbq_special_of(fbq, number)->part != 0;

	filling->is_balanced = false;
	twin_sum_remove(&filling->all, minimum, weight, preferred);
	if (minimum == 0)
		return 0;
	if (twin_fbq_special_of(fbq, number)->held >> (k & 3) & 1) {
		twin_sum_remove(&filling->held, minimum, weight, preferred);
		twin_order_remove(&fbq->orders, &filling->at_minimum, twin_filled_place(k, flow->special - 1));
	} else {
		twin_order_remove(&fbq->orders, &filling->above, twin_filled_place(k, flow->special - 1));
	}
	return 0;
}

/* Whether a flow with a place in a filling is at its minimum at a rate, with `more` weight of flows that are not there. */
TWIN_GLOBAL u32 twin_is_at_minimum(struct twin_fbq *fbq TWIN_GIVEN, u32 q, u32 place, u64 rate, u64 more)
{
	u32 k = (place - TWIN_FILLED) / TWIN_FBQ_SPECIALS;
	struct twin_filling *filling = twin_filling_of(twin_fbq_class_of(fbq, q), k);
	u32 number = twin_fbq_special_at(fbq, place - TWIN_FILLED)->flow;

	/* Below zero as long as not all are at their minimum. */
	if (rate < filling->held.minimum)
		return true;
	return twin_is_more(twin_fbq_flow_of(fbq, number)->minimum, filling->all.weight - filling->held.weight + more,
			    rate - filling->held.minimum, twin_filled_weight(fbq, number, k));
}

/* Moves a flow with a place in a filling to those that are at their minimum, or from them. */
TWIN_GLOBAL u32 twin_filling_move(struct twin_fbq *fbq TWIN_GIVEN, u32 q, u32 place)
{
	u32 k = (place - TWIN_FILLED) / TWIN_FBQ_SPECIALS;
	struct twin_filling *filling = twin_filling_of(twin_fbq_class_of(fbq, q), k);
	struct twin_fbq_special *special = twin_fbq_special_at(fbq, place - TWIN_FILLED);
	u64 minimum = twin_fbq_flow_of(fbq, special->flow)->minimum, own = twin_filled_weight(fbq, special->flow, k);

	twin_ratio(fbq, minimum, own);
	special->held ^= 1u << (k & 3);
	if (special->held >> (k & 3) & 1) {
		twin_sum_add(&filling->held, minimum, own, special->part != 0);
		twin_order_remove(&fbq->orders, &filling->above, place);
		twin_order_set(&fbq->orders, &filling->at_minimum, place, fbq->wide, special->flow);
	} else {
		twin_sum_remove(&filling->held, minimum, own, special->part != 0);
		twin_order_remove(&fbq->orders, &filling->at_minimum, place);
		twin_order_set(&fbq->orders, &filling->above, place, ~fbq->wide, special->flow);
	}
	return 0;
}

/* The place of a flow that is to be moved in a filling at a rate, with `more` weight of flows that are not there; or TWIN_NONE. */
TWIN_GLOBAL u32 twin_filling_next(struct twin_fbq *fbq TWIN_GIVEN, u32 q, u32 k, u64 rate, u64 more)
{
	struct twin_filling *filling = twin_filling_of(twin_fbq_class_of(fbq, q), k);

	if (filling->above != TWIN_NONE && twin_is_at_minimum(fbq, q, filling->above, rate, more))
		return filling->above;
	if (filling->at_minimum != TWIN_NONE && !twin_is_at_minimum(fbq, q, filling->at_minimum, rate, more))
		return filling->at_minimum;
	return TWIN_NONE;
}

/* Finds the flows that are at their minimum. */
TWIN_GLOBAL u32 twin_filling_fill(struct twin_fbq *fbq TWIN_GIVEN, u32 q, u32 k, u64 rate, u64 more)
{
	twin_filling_of(twin_fbq_class_of(fbq, q), k)->is_balanced = false;
	TWIN_FOR(u32, step, 0, 2 * TWIN_FBQ_SPECIALS) {
		u32 place = twin_filling_next(fbq, q, k, rate, more);

		if (place == TWIN_NONE)
			break;
		twin_filling_move(fbq, q, place);
	}
	return 0;
}

/* The same at the rate of the class. */
TWIN_INLINE void twin_filling_balance(struct twin_fbq *fbq, u32 q, u32 k)
{
	struct twin_filling *filling = twin_filling_of(twin_fbq_class_of(fbq, q), k);

	if (filling->is_balanced)
		return;
	if (filling->at_minimum != TWIN_NONE || filling->above != TWIN_NONE)
		twin_filling_fill(fbq, q, k, twin_fbq_class_of(fbq, q)->bucket.rate, 0);
	filling->is_balanced = true;
}

/* What is left to the flows above their minimum, and their weights. */
struct twin_common {
	u64 rate, weight;
};

TWIN_INLINE struct twin_common twin_common_at(const struct twin_filling *filling, u64 rate)
{
	return (struct twin_common){ saturating_sub_u64(rate, filling->held.minimum), filling->all.weight - filling->held.weight };
}

/* The common rate of a class. */
TWIN_INLINE struct twin_common twin_common(struct twin_fbq *fbq, u32 q)
{
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, q);

	twin_filling_balance(fbq, q, TWIN_NOW_SHARED);
	return twin_common_at(twin_filling_of(class, TWIN_NOW_SHARED), class->bucket.rate);
}

/*
 * The effect of preference: of all requests above minimums, as much as is free. With `more` weight of flows that are not there;
 * fbq->left is the rate that it leaves to flows without preference.
 */
TWIN_GLOBAL u32 twin_raise(struct twin_fbq *fbq TWIN_GIVEN, u32 q, u64 more)
{
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, q);
	struct twin_filling *plain = twin_filling_of(class, TWIN_PLAIN);
	u64 rate = class->bucket.rate, shared = saturating_sub_u64(rate, plain->held.minimum);
	u64 weights = saturating_add_u64(plain->all.weight - plain->held.weight, more);
	u64 shares = mul_div_u64(shared, plain->all.preferred_weight - plain->held.preferred_weight, max_u64(weights, 1));
	u64 minimums = plain->all.preferred_minimum - plain->held.preferred_minimum;

	fbq->wanted = saturating_add_u64(saturating_sub_u64(shares, minimums), wide_mul_u64(rate, class->parts) >> 32);
	fbq->free = saturating_sub_u64(rate, plain->all.minimum);
	fbq->left = saturating_sub_u64(saturating_sub_u64(rate, plain->all.preferred_minimum), min_u64(fbq->wanted, fbq->free));
	return 0;
}

/* The rate that a new flow without minimum and preference would get, of fillings with its weight. */
TWIN_GLOBAL u64 twin_prospect_of(struct twin_fbq *fbq TWIN_GIVEN, u32 q, u64 weight)
{
	struct twin_filling *rest = twin_filling_of(twin_fbq_class_of(fbq, q), TWIN_REST);

	return mul_div_u64(saturating_sub_u64(fbq->left, rest->held.minimum), weight,
			   saturating_add_u64(rest->all.weight - rest->held.weight, weight));
}

TWIN_INLINE u64 twin_shares_prospect(struct twin_fbq *fbq, u32 q, u64 weight)
{
	twin_filling_fill(fbq, q, TWIN_PLAIN, twin_fbq_class_of(fbq, q)->bucket.rate, weight);
	twin_raise(fbq, q, weight);
	twin_filling_fill(fbq, q, TWIN_REST, fbq->left, weight);
	return twin_prospect_of(fbq, q, weight);
}

/* The weight for scheduling of a flow that is preferred, of fillings as they are. */
TWIN_GLOBAL u64 twin_weight_of(struct twin_fbq *fbq TWIN_GIVEN, u32 number)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, flow->class);
	struct twin_fbq_special *special = twin_fbq_special_of(fbq, number);
	struct twin_filling *rest = twin_filling_of(class, TWIN_REST);
	u64 whole = class->bucket.rate, minimum = flow->granted ? flow->minimum : 0, wanted;
	struct twin_common common = twin_common_at(twin_filling_of(class, TWIN_PLAIN), whole);

	wanted = saturating_sub_u64(mul_div_u64(common.rate, special->plain, max_u64(common.weight, 1)), minimum) +
		 (u64)(wide_mul_u64(whole, special->part) >> 32);
	if (fbq->wanted > fbq->free)
		wanted = mul_div_u64(wanted, fbq->free, fbq->wanted);
	/* In units of the others' rate per weight; if there are no others, of the rate of all flows alike. */
	if (rest->all.flows != 0)
		common = twin_common_at(rest, fbq->left);
	/* If nothing is left to the others, they get what the largest weight leaves. */
	if (twin_is_more(whole, common.weight, common.rate, fbq_weight_max()))
		common = (struct twin_common){ whole, fbq_weight_max() };
	return clamp_u64(mul_div_u64(minimum + wanted, common.weight, max_u64(common.rate, 1)), 1, fbq_weight_max());
}

/* The same of a flow that is in the fillings without preference. */
TWIN_INLINE u64 twin_shares_weight(struct twin_fbq *fbq, u32 number)
{
	u32 q = twin_fbq_flow_of(fbq, number)->class;

	twin_filling_balance(fbq, q, TWIN_PLAIN);
	twin_raise(fbq, q, 0);
	twin_filling_fill(fbq, q, TWIN_REST, fbq->left, 0);
	return twin_weight_of(fbq, number);
}

/* Adds a flow to the shares of its class, and finds its weight. */
TWIN_INLINE void twin_shares_join(struct twin_fbq *fbq, u32 number)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	u64 part = 0;

	if (flow->special != 0) {
		part = twin_fbq_special_of(fbq, number)->part;
		flow->weight = twin_fbq_special_of(fbq, number)->plain;
	}
	twin_fbq_class_of(fbq, flow->class)->parts += part;
	twin_filling_join(fbq, number, TWIN_PLAIN);
	if (part == 0)
		twin_filling_join(fbq, number, TWIN_REST);
	else
		flow->weight = twin_shares_weight(fbq, number);
	twin_filling_join(fbq, number, TWIN_NOW_SHARED);
}

TWIN_INLINE void twin_shares_leave(struct twin_fbq *fbq, u32 number)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	u64 part = flow->special != 0 ? twin_fbq_special_of(fbq, number)->part : 0;

	twin_fbq_class_of(fbq, flow->class)->parts -= part;
	twin_filling_leave(fbq, number, TWIN_PLAIN);
	if (part == 0)
		twin_filling_leave(fbq, number, TWIN_REST);
	twin_filling_leave(fbq, number, TWIN_NOW_SHARED);
}

/* Of a strict class: by how much its virtual time has grown by then, in fbq->wide, and the rest of the division. */
TWIN_GLOBAL u32 twin_gain_of(struct twin_fbq *fbq TWIN_GIVEN, u32 q, u64 then)
{
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, q);
	struct twin_common common = twin_common_at(twin_filling_of(class, TWIN_NOW_SHARED), class->bucket.rate);

	fbq->wide = 0;
	fbq->rest = 0;
	if (common.weight == 0)
		return 0;
	fbq->wide = (wide_mul_u64(common.rate, saturating_sub_u64(then, class->virtual_at)) << 24) + class->virtual_rest;
	return twin_divide(fbq, common.weight);
}

TWIN_INLINE void twin_fbq_virtual_gain(struct twin_fbq *fbq, u32 q, u64 then)
{
	twin_filling_balance(fbq, q, TWIN_NOW_SHARED);
	twin_gain_of(fbq, q, then);
}

/* Of a strict class, whose filling is balanced: when the first packet of the order of shares is covered. U64_MAX for never. */
TWIN_GLOBAL u64 twin_instant_of(struct twin_fbq *fbq TWIN_GIVEN, u32 q)
{
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, q);
	u128 tag = twin_node_of(&fbq->orders, class->share)->key;
	struct twin_common common = twin_common_at(twin_filling_of(class, TWIN_NOW_SHARED), class->bucket.rate);
	bool more;

	if (tag <= class->virtual_now)
		return class->virtual_at;
	fbq->wide = tag - class->virtual_now;
	if (twin_multiply(fbq, common.weight) != 0 || common.rate == 0)
		return U64_MAX;
	fbq->wide = saturating_sub_u128(fbq->wide, class->virtual_rest);
	/* Rounded up, in two steps. */
	more = (fbq->wide & ((1 << 24) - 1)) != 0;
	fbq->wide = (fbq->wide >> 24) + more;
	twin_divide(fbq, common.rate);
	fbq->wide += fbq->rest != 0;
	return (fbq->wide >> 64) != 0 ? U64_MAX : saturating_add_u64(class->virtual_at, fbq->wide);
}

/* The virtual time of a class at some time. */
TWIN_INLINE u128 twin_fbq_virtual_time(const struct twin_fbq_options *options, struct twin_fbq *fbq, u32 q, u64 then)
{
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, q);

	if (twin_fbq_params(options, q)->strict != 1)
		return class->virtual_now;
	twin_fbq_virtual_gain(fbq, q, then);
	return class->virtual_now + fbq->wide;
}

/* The virtual time of a strict class, whose filling is balanced, is that of some time. */
TWIN_GLOBAL u32 twin_advance_to(struct twin_fbq *fbq TWIN_GIVEN, u32 q, u64 then)
{
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, q);

	twin_gain_of(fbq, q, then);
	class->virtual_now += fbq->wide;
	class->virtual_rest = fbq->rest;
	class->virtual_at = then;
	return 0;
}

/* To be called before the shares of a class change: its virtual time is that of the call. */
TWIN_INLINE void twin_fbq_advance(const struct twin_fbq_options *options, struct twin_fbq *fbq, u32 q)
{
	u64 now;

	if (twin_fbq_params(options, q)->strict != 1)
		return;
	now = twin_fbq_time_of(options, fbq, q, fbq->now);
	if (now <= twin_fbq_class_of(fbq, q)->virtual_at)
		return;
	twin_filling_balance(fbq, q, TWIN_NOW_SHARED);
	twin_advance_to(fbq, q, now);
}

/* The virtual time in which a flow is served, in fbq->served: that of its host or other group, or of its class, whose filling is balanced. */
TWIN_GLOBAL u32 twin_served_in(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN, u32 number)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, flow->class);

	fbq->served = flow->host != TWIN_NONE ? twin_fbq_host_of(fbq, flow->host)->virtual_now : class->virtual_now;
	if (twin_fbq_params(options, flow->class)->strict == 1) {
		twin_gain_of(fbq, flow->class, twin_fbq_time_of(options, fbq, flow->class, fbq->now));
		fbq->served += fbq->wide;
	}
	return 0;
}

TWIN_INLINE void twin_fbq_find_served(const struct twin_fbq_options *options, struct twin_fbq *fbq, u32 number)
{
	u32 q = twin_fbq_flow_of(fbq, number)->class;

	/* Not a part of the other, since the stack of the kernel is small. */
	if (twin_fbq_params(options, q)->strict == 1)
		twin_filling_balance(fbq, q, TWIN_NOW_SHARED);
	twin_served_in(options, fbq, number);
}

#endif
