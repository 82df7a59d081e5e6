/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Proofs about the generated code, which `kernel/prove` gives to CBMC one by one. Each proof takes any state that satisfies the
 * state's invariant and any arguments that satisfy the assumptions beside it, makes one call, and asserts that the invariant
 * holds again. Constructors establish it. By induction it holds after every sequence of calls. CBMC proves besides, of every
 * line that is reached, that no sum, difference or product overflows, no division is by zero, no shift is too far, no pointer or
 * index is out of bounds, and every loop ends.
 *
 * Products of two unknown numbers of 64 bits are beyond a solver. Where a proof calls a function that has one, `kernel/prove`
 * puts in its place a function `any_...` of the first section, of which only what is written there is known. One of these facts
 * is proved here as well; the others are held to Rust's 128 bits by the random tests of the translator.
 */
#pragma CPROVER check push
/* These wrap by design, or check by wrapping; their meaning is proved below where a solver can. */
#pragma CPROVER check disable "unsigned-overflow"
#include "integers.h"
#pragma CPROVER check pop

#define PROVE(what) __CPROVER_assert(what, #what)
#define ASSUME(what) __CPROVER_assume(what)
/* A variable of any value. Booleans of an any-valued structure are made booleans by its function below. */
#define ANY(type, name) type name; __CPROVER_havoc_object(&name)

#ifdef ONE_ROUND
/* A loop whose state is any state: one round of it from any number proves all. */
#undef TWIN_FOR
static u64 any_from(u64 from, u64 to)
{
	ANY(u64, i);

	ASSUME(i >= from && i < to);
	return i;
}
#define TWIN_FOR(type, i, from, to) for (type i = any_from(from, to), once = 1; once != 0 && i < (to); i++, once = 0)
#endif
/* In place of the one product that `kernel/prove` makes a call, in Point::between; see below. */
u64 any_rise(u64 length, u64 value);
#include "generated/deciders.h"

/* Nothing counts so far: 2^62 packets or bytes are centuries of a fast line. */
#define MANY (1ull << 62)
#define ONE (1ull << 32)
/* The deepest bucket, in bit ns/s. */
#define DEEPEST (1152921504ll * 8000000000ll)
#define IS_BOOL(x) ASSUME(*(const u8 *)&(x) <= 1)

/* --- in place of products ------------------------------------------------------------------------------------------------- */

u64 nondet_u64(void);
u64 __CPROVER_uninterpreted_quotient(u64 a, u64 b, u64 c);
u64 __CPROVER_uninterpreted_product(u64 a, u64 b);
s64 __CPROVER_uninterpreted_cost(u64 bytes);

/* mul_high_u64: a * b >> 64. */
u64 any_high(u64 a, u64 b)
{
	u64 high = nondet_u64();

	ASSUME(a == 0 || b == 0 ? high == 0 : high < a && high < b);
	return high;
}

/* mul_div_u64: a * b / c, or the largest number. */
u64 any_quotient(u64 a, u64 b, u64 c)
{
	u64 quotient = __CPROVER_uninterpreted_quotient(a, b, c);

	PROVE(c != 0);
	ASSUME(b > c || quotient <= a);
	ASSUME(a > c || quotient <= b);
	return quotient;
}

/* saturating_mul_u64. */
u64 any_product(u64 a, u64 b)
{
	u64 product = __CPROVER_uninterpreted_product(a, b);

	ASSUME(a == 0 || b == 0 ? product == 0 : product >= a && product >= b);
	return product;
}

/* sum_div_u64: any number. */
u64 any_ratio(u64 a, u64 b, u64 c, u64 d, u64 e)
{
	(void)a;
	(void)b;
	(void)c;
	(void)d;
	PROVE(e != 0);
	return nondet_u64();
}

/* wrapping_mul_u64: any number. */
u64 any_wrapped(u64 a, u64 b)
{
	(void)a;
	(void)b;
	return nondet_u64();
}

/* add_s64, sub_s64 and mul_s64: these wrap, and CBMC would not say that they do. */
s64 exact_sum(s64 a, s64 b) { return a + b; }
s64 exact_difference(s64 a, s64 b) { return a - b; }
s64 exact_signed_product(s64 a, s64 b) { return a * b; }

/* The bounds of prove_point: no length is above the one, nor is a value to be above the other. */
static u64 whole_run, whole_rise;
u64 __CPROVER_uninterpreted_rise(u64 length, u64 value);

/* A length times a value, which does not overflow by prove_rise, and grows with the length. */
u64 any_rise(u64 length, u64 value)
{
	u64 rise = __CPROVER_uninterpreted_rise(length, value);

	PROVE(length < 1ull << 47 && value <= 65535);
	ASSUME(length > whole_run || rise <= __CPROVER_uninterpreted_rise(whole_run, value));
	return rise;
}

/* div_ceil_u64 in prove_point: no more than a number whose product with b is at least a. */
u64 any_ceil(u64 a, u64 b)
{
	u64 quotient = nondet_u64();

	PROVE(b != 0);
	ASSUME(a > __CPROVER_uninterpreted_rise(b, whole_rise) || quotient <= whole_rise);
	return quotient;
}

/* bucket_cost. Proved by prove_cost. */
s64 any_cost(units_bytes bytes)
{
	s64 cost = __CPROVER_uninterpreted_cost(bytes);

	ASSUME(bytes == 0 ? cost == 0 : cost >= 8000000000);
	ASSUME(bytes > 1152921504ull ? cost == S64_MAX : cost <= DEEPEST);
	return cost;
}

/* probability_probability_of and probability_probability_of_ceil: a product of 64 and 33 bits, shifted. */
u64 any_part(probability_probability p, u64 value)
{
	u64 part = nondet_u64();

	PROVE(p <= ONE);
	ASSUME(part <= value);
	return part;
}

/* red_times_fraction: level * factor >> 63. */
u64 any_fraction(u64 level, u64 factor)
{
	u64 part = nondet_u64();

	PROVE(factor <= 1ull << 63);
	ASSUME(part <= level);
	return part;
}

/* red_decay. Proved by prove_decay. */
u64 any_decay(u64 level, probability_probability weight, u64 times)
{
	u64 left = nondet_u64();

	(void)times;
	PROVE(weight <= ONE);
	ASSUME(left <= level);
	return left;
}

/* random_stream_below. Proved by prove_below. */
u64 any_below(random_stream *stream, u64 bound)
{
	u64 draw = nondet_u64();

	(void)stream;
	ASSUME(bound == 0 ? draw == 0 : draw < bound);
	return draw;
}

/* One round of its loop, as all are. Compiled with ONE_ROUND. */
void prove_below(void)
{
	ANY(random_stream, stream);
	ANY(u64, bound);

	PROVE(bound == 0 || random_stream_below(&stream, bound) < bound);
}

/* One round of its loop, as all are: it takes a fraction of the level. Compiled with ONE_ROUND. */
void prove_decay(void)
{
	ANY(u64, level);
	ANY(u64, weight);
	ANY(u64, times);

	ASSUME(weight <= ONE);
	PROVE(red_decay(level, weight, times) <= level);
}

void prove_cost(void)
{
	ANY(u64, bytes);
	s64 cost = bucket_cost(bytes);

	PROVE(bytes == 0 ? cost == 0 : cost >= 8000000000);
	PROVE(bytes > 1152921504ull ? cost == S64_MAX : cost <= DEEPEST);
}

/* --- the arithmetic of integers.h, held to 128 bits --------------------------------------------------------------------- */

void prove_saturating_arithmetic(void)
{
	ANY(u64, a);
	ANY(u64, b);
	ANY(s64, c);
	ANY(s64, d);
	u128 sum = (u128)a + b;
	__int128 difference = (__int128)c - d, total = (__int128)c + d;
	const __int128 most = S64_MAX, least = -(__int128)S64_MAX - 1;

	PROVE(units_span_add_span(a, b) == saturating_add_u64(a, b));
	PROVE(saturating_add_u64(a, b) == (sum > U64_MAX ? U64_MAX : (u64)sum));
	PROVE(saturating_sub_u64(a, b) == (a > b ? a - b : 0));
	PROVE(saturating_sub_s64(c, d) == (difference > most ? most : difference < least ? least : difference));
	PROVE(saturating_add_s64(c, d) == (total > most ? most : total < least ? least : total));
	PROVE(below_u64(a, b) == (a < b ? U64_MAX : 0));
	PROVE(abs_diff_u64(a, b) == (a > b ? a - b : b - a));
	PROVE(unsigned_abs_s64(c) == (u64)(c < 0 ? -(__int128)c : c));
}

void prove_saturating_sums_of_32_bits(void)
{
	ANY(u32, a);
	ANY(u32, b);
	u64 sum = (u64)a + b;

	PROVE(saturating_add_u32(a, b) == (sum > U32_MAX ? U32_MAX : sum));
	PROVE(saturating_sub_u32(a, b) == (a > b ? a - b : 0));
}

void prove_leading_zeros(void)
{
	ANY(u64, x);
	u32 zeros = leading_zeros_u64(x);

	PROVE(zeros <= 64);
	PROVE(zeros == 64 ? x == 0 : x << zeros >> 63 == 1 && (zeros == 0 || x >> (64 - zeros) == 0));
}

/* --- token buckets -------------------------------------------------------------------------------------------------------- */

static bool bucket_holds(const bucket_token_bucket *bucket)
{
	return bucket->depth >= 0 && bucket->depth <= DEEPEST && bucket->level <= bucket->depth;
}

static bucket_token_bucket any_bucket(void)
{
	ANY(bucket_token_bucket, bucket);

	ASSUME(bucket_holds(&bucket));
	return bucket;
}

void prove_bucket_is_made(void)
{
	ANY(u64, rate);
	ANY(u64, depth);
	ANY(u64, now);
	bucket_token_bucket bucket = bucket_token_bucket_full(rate, depth, now);

	PROVE(bucket_holds(&bucket));
	PROVE(bucket.level == bucket.depth);
}

/* Credit never exceeds the depth, is never lost by waiting, and time never runs back. */
void prove_bucket_fills(void)
{
	bucket_token_bucket bucket = any_bucket(), before = bucket;
	ANY(u64, now);
	bool owes = bucket_token_bucket_is_in_debt(&bucket, now);

	bucket_token_bucket_update(&bucket, now);
	PROVE(owes == (bucket.level < 0));
	PROVE(bucket_holds(&bucket));
	PROVE(bucket.level >= before.level);
	PROVE(bucket.updated >= before.updated && bucket.updated >= now);
}

/* A packet that is let through is paid for in full; another costs nothing. */
void prove_bucket_pays(void)
{
	bucket_token_bucket bucket = any_bucket(), filled = bucket;
	ANY(u64, now);
	ANY(u64, bytes);
	bool pays;

	bucket_token_bucket_update(&filled, now);
	pays = bucket_token_bucket_take(&bucket, now, bytes);
	PROVE(bucket_holds(&bucket));
	PROVE(!pays || bucket.level >= 0);
	PROVE(pays == (bucket_cost(bytes) <= filled.level));
	PROVE((__int128)filled.level - bucket.level == (pays ? bucket_cost(bytes) : 0));
}

/* A debt is no smaller than the packet, unless it is the largest that there is. */
void prove_bucket_is_charged(void)
{
	bucket_token_bucket bucket = any_bucket(), filled = bucket;
	ANY(u64, now);
	ANY(u64, bytes);

	ASSUME(bytes <= 1152921504ull);
	bucket_token_bucket_update(&filled, now);
	bucket_token_bucket_charge(&bucket, now, bytes);
	PROVE(bucket_holds(&bucket));
	PROVE(bucket.level == -S64_MAX || (__int128)filled.level - bucket.level == bucket_cost(bytes));
}

void prove_bucket_is_changed(void)
{
	bucket_token_bucket bucket = any_bucket();
	ANY(u64, now);
	ANY(u64, rate);
	ANY(u64, depth);

	bucket_token_bucket_set_depth(&bucket, now, depth);
	PROVE(bucket_holds(&bucket));
	bucket_token_bucket_set_rate(&bucket, now, rate);
	PROVE(bucket_holds(&bucket));
	bucket_token_bucket_forgive(&bucket, now);
	PROVE(bucket_holds(&bucket) && bucket.level >= 0);
}

/* A deadline is never in the past, and there is one unless the rate is zero or the packet larger than the bucket. */
void prove_bucket_deadline(void)
{
	bucket_token_bucket bucket = any_bucket();
	ANY(u64, now);
	ANY(u64, bytes);
	option_units_instant for_some = bucket_token_bucket_time_for(&bucket, now, bytes);
	option_units_instant of_all = bucket_token_bucket_time_of(&bucket, now, bytes);

	PROVE(!for_some.some || for_some.value >= now);
	PROVE(!of_all.some || of_all.value >= now);
	PROVE(for_some.some || bucket.rate == 0);
	PROVE(of_all.some || bucket.rate == 0 || bucket_cost(bytes) > bucket.depth);
	bucket_token_bucket_bytes(&bucket, now);
	bucket_token_bucket_depth(&bucket);
	bucket_token_bucket_used(&bucket, now);
}

/* --- RED, ARED ------------------------------------------------------------------------------------------------------------ */

static bool thresholds_hold(const red_thresholds *t)
{
	return t->kind == RED_THRESHOLDS_PACKETS ? t->packets_min < t->packets_max
	                                         : t->kind == RED_THRESHOLDS_BYTES && t->bytes_min < t->bytes_max;
}

static bool curve_holds(const red_curve *curve)
{
	return curve->min <= curve->max && curve->max <= (u64)U32_MAX << 32 && curve->max_p <= ONE;
}

static red_params any_red_params(void)
{
	ANY(red_params, params);

	ASSUME(thresholds_hold(&params.profile.thresholds));
	ASSUME(params.profile.max_p >= 1 && params.profile.max_p <= ONE && params.early.weight <= ONE);
	ASSUME(params.early.sizing.kind <= RED_SIZING_PER_BYTE && params.early.sizing.per_byte_mean != 0);
	return params;
}

static red_red any_red(void)
{
	ANY(red_red, red);

	red.params = any_red_params();
	ASSUME(curve_holds(&red.dropper.curve));
	ASSUME(red.average.weight <= ONE);
	IS_BOOL(red.average.idle_since.some);
	return red;
}

void prove_red_is_made(void)
{
	red_params params = any_red_params();
	ANY(random_stream, random);
	ANY(u64, interval);
	red_red red = red_red_drawing(params, random);
	ared_ared ared = ared_ared_adapting(red, interval);

	PROVE(curve_holds(&red.dropper.curve));
	PROVE(red.average.weight <= ONE);
	PROVE(ared.red.params.profile.max_p <= ONE);
}

/* The average stays between what it was and the queue, and falls while there is none. */
void prove_red_averages(void)
{
	red_average average = any_red().average;
	ANY(u64, now);
	ANY(u64, queue);
	u64 before = average.level, latest = average.latest;

	red_average_on_arrival(&average, now, queue);
	PROVE(average.latest >= latest && average.latest >= now);
	PROVE(average.level <= max_u64(before, queue));
	PROVE(queue == 0 || average.level >= min_u64(before, queue));
	PROVE(average.weight <= ONE);
	red_average_on_busy(&average);
	red_average_on_empty(&average, now);
	PROVE(average.idle_since.some && average.rest == 0);
}

void prove_red_chances(void)
{
	red_red red = any_red();
	ANY(qdisc_backlog, queue);
	red_zone zone = red_red_zone_at(&red, queue);

	PROVE(zone.kind != RED_ZONE_CHANCE || zone.chance <= ONE);
	PROVE(zone.kind != RED_ZONE_GENTLE || zone.gentle <= ONE);
	/* A queue of one packet is never hit. */
	PROVE(queue.packets >= 2 || zone.kind == RED_ZONE_BELOW);
}

void prove_ared_adapts(void)
{
	ANY(ared_ared, ared);
	ANY(u64, now);
	ANY(qdisc_backlog, queue);

	ared.red = any_red();
	ASSUME(ared.stats.raised < MANY && ared.stats.lowered < MANY);
	ared_ared_observe(&ared, now, queue);
	PROVE(curve_holds(&ared.red.dropper.curve));
	PROVE(ared.red.params.profile.max_p >= 1 && ared.red.params.profile.max_p <= ONE);
	ared_ared_on_busy(&ared);
	ared_ared_on_empty(&ared, now);
}

/* What cannot be marked is never marked, and a drop has one of RED's two reasons. */
void prove_red_judges(void)
{
	red_red red = any_red();
	ANY(red_zone, zone);
	ANY(u64, size);
	ANY(bool, is_capable);
	aqm_verdict verdict;

	IS_BOOL(is_capable);
	ASSUME(zone.kind <= RED_ZONE_BEYOND && zone.chance <= ONE && zone.gentle <= ONE);
	verdict = red_dropper_judge(&red.dropper, &red.params.early, zone, size, is_capable);
	PROVE(verdict.kind != AQM_VERDICT_MARK || (is_capable && red.params.early.signal == RED_SIGNAL_MARK));
	PROVE(verdict.kind != AQM_VERDICT_DROP || verdict.drop == QDISC_DROP_REASON_EARLY || verdict.drop == QDISC_DROP_REASON_FORCED);
	PROVE(zone.kind != RED_ZONE_BELOW || verdict.kind == AQM_VERDICT_ADMIT);
}

/* --- CoDel ---------------------------------------------------------------------------------------------------------------- */

static codel_params any_codel_params(void)
{
	ANY(codel_params, params);

	ASSUME(params.interval != 0 && params.interval <= 4000000000ull && params.target < params.interval);
	IS_BOOL(params.longest.some);
	return params;
}

static codel_state any_codel(void)
{
	ANY(codel_state, state);

	IS_BOOL(state.first_above.some);
	IS_BOOL(state.dropping);
	return state;
}

/* A call of the discipline drops 32 packets and one at most: each but the last is counted. */
void prove_codel_decides(void)
{
	codel_params params = any_codel_params();
	codel_state state = any_codel();
	ANY(codel_stats, stats);
	ANY(codel_call, call);
	ANY(u64, now);
	ANY(u64, waited);
	ANY(u64, left);
	u32 drops;
	codel_action action;

	ASSUME(call.phase <= CODEL_PHASE_LAST && call.drops <= 32 && stats.episodes < MANY);
	drops = call.drops;
	action = codel_state_decide(&state, &params, &stats, &call, now, waited, left);
	PROVE(call.drops <= 32);
	PROVE(action == CODEL_ACTION_SEND || call.phase == CODEL_PHASE_LAST || call.drops == drops + 1);
	/* The last packets of a queue are never hit by the control law. */
	PROVE(action != CODEL_ACTION_SIGNAL || (left > params.mtu && waited >= params.target));
	codel_state_marked(&state, &params, &call);
	codel_state_ran_empty(&state, &call);
	PROVE(!state.first_above.some);
}

/* The root is the largest number whose square is at most the argument; of numbers below 2^24, beyond which a solver is slow. */
void prove_root(void)
{
	ANY(u64, x);
	u64 root;

	ASSUME(x < 1ull << 24);
	root = isqrt_u64(x);
	PROVE(root * root <= x && (root + 1) * (root + 1) > x);
}

/* --- PIE ------------------------------------------------------------------------------------------------------------------ */

static pie_params any_pie_params(void)
{
	ANY(pie_params, params);

	ASSUME(params.target != 0 && params.update != 0 && params.alpha <= 1600 && params.beta <= 1600);
	ASSUME(params.sizing.kind <= RED_SIZING_PER_BYTE && params.sizing.per_byte_mean != 0);
	return params;
}

static pie_state any_pie(void)
{
	ANY(pie_state, state);

	ASSUME(state.probability <= pie_one());
	return state;
}

void prove_pie_updates(void)
{
	pie_params params = any_pie_params();
	pie_state state = any_pie(), new = pie_state_new(&params);

	pie_state_update(&state, &params);
	PROVE(state.probability <= pie_one());
	PROVE(pie_state_probability(&state) <= ONE);
	PROVE(new.probability <= pie_one());
}

/* After the updates that were due the next one is in the future, if the clock has a future. Compiled with ONE_ROUND. */
void prove_pie_catches_up(void)
{
	pie_params params = any_pie_params();
	pie_state state = any_pie();
	ANY(pie_stats, stats);
	ANY(u64, now);

	ASSUME(stats.updates < MANY);
	/* The numbers of updates missed are small enough to be counted. */
	ASSUME(params.update > 1);
	pie_state_update_if_due(&state, &params, &stats, now);
	PROVE(state.probability <= pie_one());
	/* So often it is called at most before the rest is skipped: the loop in disciplines.h ends. */
	PROVE(pie_most_updates() > 0 && pie_most_updates() <= 1024);
	pie_state_skip_missed(&state, &params, now);
	PROVE(state.probability <= pie_one());
}

/* --- meters ----------------------------------------------------------------------------------------------------------------- */

static two_bucket_buckets any_buckets(void)
{
	two_bucket_buckets buckets = { .committed = any_bucket(), .second = any_bucket() };

	return buckets;
}
static packet_colour any_colour(void)
{
	ANY(packet_colour, colour);

	ASSUME(colour <= PACKET_COLOUR_RED);
	return colour;
}

/* The buckets stay in their ranges, and a packet gets no better colour than it came with. */
void prove_srtcm(void)
{
	two_bucket_buckets buckets = any_buckets();
	ANY(u64, now);
	ANY(u64, size);
	packet_colour incoming = any_colour();

	PROVE(srtcm_colour(&buckets, now, size, incoming) >= incoming);
	PROVE(bucket_holds(&buckets.committed) && bucket_holds(&buckets.second));
}

void prove_trtcm(void)
{
	two_bucket_buckets buckets = any_buckets();
	ANY(u64, now);
	ANY(u64, size);
	packet_colour incoming = any_colour();

	PROVE(trtcm_colour(&buckets, now, size, incoming) >= incoming);
	PROVE(bucket_holds(&buckets.committed) && bucket_holds(&buckets.second));
}

void prove_rfc4115(void)
{
	two_bucket_buckets buckets = any_buckets();
	ANY(u64, now);
	ANY(u64, size);
	packet_colour incoming = any_colour();

	PROVE(rfc4115_colour(&buckets, now, size, incoming) >= incoming);
	PROVE(bucket_holds(&buckets.committed) && bucket_holds(&buckets.second));
}

/* At or below the committed rate all is green. */
void prove_window(void)
{
	ANY(tswtcm_params, params);
	ANY(random_stream, random);
	ANY(tswtcm_tsw_tcm, meter);
	ANY(u64, now);
	ANY(u64, size);
	ANY(packet_colour, incoming);
	packet_colour colour;

	ASSUME(params.ptr <= tswtcm_most() && params.ctr <= params.ptr && params.window >= 1 && params.window <= 60000000000);
	ASSUME(params.mode <= METER_MODE_AWARE && incoming <= PACKET_COLOUR_RED);
	PROVE(tswtcm_tsw_tcm_drawing(params, now, random).estimate == params.ctr << 16);
	meter.params = params;
	colour = tswtcm_tsw_tcm_colour(&meter, now, size, incoming);
	PROVE(meter.estimate <= tswtcm_most() << 17);
	PROVE(params.mode != METER_MODE_AWARE || colour >= incoming);
	PROVE(params.mode == METER_MODE_AWARE || meter.estimate > params.ctr << 16 || colour == PACKET_COLOUR_GREEN);
}

/* --- DualPI2 ---------------------------------------------------------------------------------------------------------------- */

static dualpi2_params any_coupled_params(void)
{
	ANY(dualpi2_params, params);

	IS_BOOL(params.protection.some);
	ASSUME(params.alpha <= 100000 && params.beta <= 100000 && params.coupling >= 1 && params.coupling <= 16);
	ASSUME(params.scheduler.kind <= DUALPI2_SCHEDULER_WEIGHTED);
	ASSUME(params.scheduler.weighted_parts >= 2 && params.scheduler.weighted_parts <= 1000);
	/* The numbers of updates missed are small enough to be counted. */
	ASSUME(params.update > 1 && params.step.full > 0 && params.step.from <= params.step.full);
	return params;
}

/* Below one, which a signal takes off. */
static bool counts_hold(const decider_state *state)
{
	return state->low.marks < step_one() && state->low.drops < step_one() && state->sanctioned.marks < step_one() &&
	       state->sanctioned.drops < step_one() && state->classic < step_one();
}

/* The base probability is at most one after each update, and after those that are made up for. */
void prove_coupled_updates(void)
{
	dualpi2_params params = any_coupled_params();
	ANY(decider_state, state);
	ANY(option_units_instant, oldest);
	ANY(u64, now);
	decider_state new = decider_state_new(&params);

	PROVE(new.base == 0 && counts_hold(&new));
	IS_BOOL(oldest.some);
	ASSUME(state.base <= step_one());
	decider_state_update_if_due(&state, &params, now, oldest);
	PROVE(state.base <= step_one());
	decider_state_skip_missed(&state, &params, now, oldest);
	PROVE(state.base <= step_one() && decider_state_coupled(&state, &params) <= step_one());
}

/* Nothing is dropped by a probability without overload, and what has accumulated stays below one. */
void prove_coupled_decides(void)
{
	dualpi2_params params = any_coupled_params();
	ANY(decider_state, state);
	ANY(u64, native);
	ANY(bool, scalable);
	bool overloaded;

	IS_BOOL(scalable);
	/* That the square of what is at most one is so, too, a solver cannot follow. */
	ASSUME(state.base <= step_one() && state.squared <= step_one() && counts_hold(&state) && native <= step_one());
	overloaded = decider_state_is_overloaded(&state, &params);
	PROVE(decider_state_low_latency(&state, &params, native, scalable) != CODEL_ACTION_DROP || overloaded);
	PROVE(decider_state_classic(&state, &params) != CODEL_ACTION_DROP || overloaded);
	PROVE(decider_state_returning(&state, &params, native, scalable) != CODEL_ACTION_DROP || overloaded);
	PROVE(decider_state_sanctioned(&state, &params, scalable) != CODEL_ACTION_DROP || overloaded);
	PROVE(counts_hold(&state));
}

/* A queue that has packets is chosen. */
void prove_coupled_turns(void)
{
	dualpi2_params params = any_coupled_params();
	ANY(decider_state, state);
	ANY(option_decider_head, low);
	ANY(option_decider_head, classic);
	ANY(bool, other_waits);
	bool from_low;

	IS_BOOL(low.some);
	IS_BOOL(classic.some);
	IS_BOOL(classic.value.sanctioned);
	IS_BOOL(other_waits);
	ASSUME(low.value.size < 1ull << 53 && classic.value.size < 1ull << 53);
	from_low = decider_state_chooses_low(&state, &params, low, classic);
	PROVE(!(low.some && !classic.some) || from_low);
	PROVE(low.some || !from_low);
	decider_state_took(&state, &params, from_low, low.value.size, other_waits);
	PROVE(other_waits || state.credit == 0 || params.scheduler.kind != DUALPI2_SCHEDULER_WEIGHTED);
}

/* A score is at most five seconds. */
void prove_protection(void)
{
	ANY(protection_params, params);
	ANY(protection_bucket, bucket);
	ANY(step_step, step);
	ANY(u64, now);
	ANY(u64, size);
	ANY(u64, delay);
	ANY(u64, native);
	ANY(u64, behind);

	/* Their products are replaced as well. */
	ASSUME(protection_most_score() == 5000000000 && protection_most_delay() == 1000000000);
	ASSUME(params.critical >= 1 && params.critical <= 1000000000 && params.score <= 5000000000);
	ASSUME(params.ageing >= 1 && params.ageing <= 1000000000 && now < MANY && native <= step_one());
	protection_bucket_exceeds(&bucket, &params, now, size, delay, native);
	PROVE(bucket.expires <= now + 5000000000);
	PROVE(!protection_bucket_has_aged(&bucket, now) || bucket.expires <= now);
	ASSUME(step.from <= step.full);
	step_step_likelihood(&step, delay, behind);
}

void prove_pie_draws(void)
{
	pie_params params = any_pie_params();
	pie_state state = any_pie();
	ANY(random_stream, random);
	ANY(u64, size);
	ANY(qdisc_backlog, backlog);
	ANY(u64, delay);
	ANY(bool, is_empty);
	bool hit;

	IS_BOOL(is_empty);
	hit = pie_state_unlucky(&state, &params, &random, size, backlog);
	PROVE(!hit || state.gathered == 0);
	PROVE(state.probability <= pie_one());
	PROVE(pie_state_signal(&state, &params) == params.signal || pie_state_signal(&state, &params) == RED_SIGNAL_DROP);
	pie_state_departed(&state, delay, is_empty);
	PROVE(state.delay == (is_empty ? 0 : delay));
}

/* --- mice and elephants ----------------------------------------------------------------------------------------------------- */

void prove_elephants(void)
{
	ANY(elephants_flow, flow);
	ANY(elephants_border, border);
	ANY(elephants_pair_rule, rule);
	ANY(elephants_pair, pair);
	ANY(u64, now);
	ANY(u64, size);
	u64 before = flow.length;
	bool mouse;

	IS_BOOL(pair.bucket.some);
	ASSUME(!pair.bucket.some || bucket_holds(&pair.bucket.value));
	mouse = elephants_flow_arrive(&flow, &border, size);
	PROVE(flow.length >= before);
	PROVE(mouse == (flow.length <= border.longest_mouse));
	elephants_flow_exceed(&flow, &rule);
	elephants_pair_take(&pair, &rule, now, size);
	PROVE(pair.bucket.some && bucket_holds(&pair.bucket.value));
}

/* A length times a value does not overflow. */
void prove_rise(void)
{
	ANY(u64, length);
	ANY(u64, value);

	ASSUME(length < 1ull << 47 && value <= 65535);
	PROVE(length * value < 1ull << 63);
}

/* The value of an elephant between two points of a table is between theirs. */
void prove_point(void)
{
	ANY(elephants_point, before);
	ANY(elephants_point, after);
	ANY(u64, length);
	u64 value;

	ASSUME(before.length < after.length && after.length < 1ull << 47);
	ASSUME(before.value <= after.value && after.value <= 65535);
	ASSUME(before.length <= length && length < after.length);
	whole_run = after.length - before.length;
	whole_rise = after.value - before.value;
	value = elephants_point_between(&before, &after, length);
	PROVE(value >= before.value && value <= after.value);
}

/* The running mean of values stays in their range, and what it makes of a probability is one. */
void prove_mean_value(void)
{
	ANY(meredt_mean_value, mean);
	ANY(red_zone, zone);
	ANY(u32, value);
	ANY(u64, fairness);

	ASSUME(mean <= 65535ull << 16 && value <= 65535 && fairness <= ONE);
	ASSUME(zone.kind <= RED_ZONE_BEYOND && zone.chance <= ONE && zone.gentle <= ONE);
	zone = meredt_mean_value_scale(&mean, zone, value, fairness);
	PROVE(mean <= 65535ull << 16);
	PROVE(zone.kind != RED_ZONE_CHANCE || zone.chance <= ONE);
	PROVE(zone.kind != RED_ZONE_GENTLE || zone.gentle <= ONE);
}

/* The debt to elephants stays above its floor. */
void prove_meredt(void)
{
	ANY(meredt_floor, floor);
	ANY(u64, share);
	ANY(u64, credit);
	ANY(u64, size);
	meredt_floor new;

	ASSUME(share <= ONE);
	new = meredt_floor_new(share, credit);
	PROVE(new.owed >= new.least && new.least <= 0);
	ASSUME(floor.share <= ONE && floor.least <= 0 && floor.owed >= floor.least);
	PROVE(meredt_floor_cost(&floor, size) >= 0);
	PROVE(!meredt_floor_due(&floor, size) || floor.share > 0);
	meredt_floor_elephant(&floor, size);
	PROVE(floor.owed >= floor.least);
	meredt_floor_mouse(&floor, size);
	PROVE(floor.owed >= floor.least);
	meredt_floor_cap(&floor, size);
	PROVE(floor.owed >= floor.least);
	meredt_floor_none_queued(&floor);
	PROVE(floor.owed >= floor.least && floor.owed <= 0);
}

/* --- FBC/FBQ ---------------------------------------------------------------------------------------------------------------- */

/* A packet's virtual length is positive, and its fraction does not overflow. */
void prove_virtual_length(void)
{
	ANY(u64, bytes);
	ANY(u64, weight);
	ANY(u64, rate);
	u128 length;

	weight = fbq_weight_of(weight);
	PROVE(weight >= 1 && weight <= 1ull << 40);
	length = fbq_virtual_length(bytes, weight);
	PROVE(length < (u128)1 << 88);
	PROVE(bytes == 0 || length > 0);
	PROVE(fbq_borrow_length(bytes, rate) < (u128)1 << 88);
}

/* Virtual time has room for 2^38 of the longest packets of the lightest flow. */
void prove_virtual_time(void)
{
	ANY(u128, start);
	ANY(u128, now);
	ANY(u128, length);
	ANY(fbq_by, by);
	u128 charged;

	ASSUME(start < (u128)1 << 126 && now < (u128)1 << 126 && length < (u128)1 << 88);
	charged = fbq_charged(start, now, by, length);
	PROVE(charged <= start + length);
	PROVE(by != FBQ_BY_SHARE || charged == start + length);
	PROVE(fbq_starts_again(start, now, length) >= start);
	PROVE(fbq_starts_with(now, length) <= now);
	PROVE(fbq_virtual_start() < (u128)1 << 126);
}

void prove_order_of_guarantees(void)
{
	ANY(u64, due);
	ANY(u64, later);
	ANY(u32, priority);
	ANY(u32, other);
	u128 key = fbq_by_due(due, priority);

	PROVE(due >= later || key < fbq_by_due(later, other));
	PROVE(priority >= other || fbq_by_priority(key) < fbq_by_priority(fbq_by_due(later, other)));
}

void prove_guarantee(void)
{
	bucket_token_bucket guarantee = any_bucket();
	ANY(u64, then);
	ANY(u64, size);
	option_units_instant covered = fbq_covered_at(&guarantee, size, then);

	PROVE(!covered.some || covered.value >= then);
	fbq_charge_minimum(&guarantee, then, size);
	PROVE(bucket_holds(&guarantee));
}

/* A promise's part of a limit is no more than the limit, and what is kept free no more than an eighth. */
void prove_parts_of_a_limit(void)
{
	ANY(u64, limit);
	ANY(u64, minimum);
	ANY(u64, rate);
	ANY(u64, unpromised);
	ANY(u64, bytes);
	ANY(u64, queued);
	u64 part;

	ASSUME(queued < MANY / 4);
	part = fbq_promised_part(limit, minimum, rate);
	PROVE(minimum > rate || part <= limit);
	PROVE(fbq_kept(limit, unpromised, rate) <= limit / 8);
	PROVE(unpromised < rate || fbq_kept(limit, unpromised, rate) == 0);
	fbq_is_within_part(bytes, limit, queued);
}

void prove_slots(void)
{
	ANY(fbq_slots, slots);
	fbq_slots before = slots;

	/* No more flows than there are numbers, and a flow ends that began. */
	ASSUME(slots.held < 1u << 31 && slots.here < (1u << 31) - 1);
	if (fbq_slots_begin(&slots))
		PROVE(slots.held + slots.here == before.held + before.here);
	PROVE(slots.here == before.here + 1);
	fbq_slots_end(&slots);
	PROVE(slots.here == before.here);
}

/* The clock of strict classes that borrow never runs back. */
void prove_clock(void)
{
	ANY(fbq_clock, clock);
	ANY(u64, time);
	ANY(u64, rate);
	ANY(u64, spare);
	fbq_clock fresh = fbq_clock_new(time, time), before = clock;

	PROVE(fresh.base != 0 && fresh.fast >= fresh.base);
	ASSUME(clock.base != 0 && clock.fast >= clock.base);
	PROVE(fbq_clock_shows(&clock, time) >= clock.shown);
	PROVE(fbq_clock_reaches(&clock, time) >= clock.at);
	fbq_clock_lend(&clock, time, rate, spare);
	PROVE(clock.base != 0 && clock.fast >= clock.base);
	PROVE(clock.shown >= before.shown && clock.at >= before.at);
}

/* --- queues, rounds, hashes ------------------------------------------------------------------------------------------------- */

void prove_limit(void)
{
	ANY(fifo_limit, limit);
	ANY(qdisc_backlog, backlog);
	ANY(u64, size);
	qdisc_backlog before = backlog;

	ASSUME(backlog.packets < MANY && backlog.bytes < MANY && size < MANY);
	if (fifo_limit_admits(&limit, backlog, size)) {
		qdisc_backlog_add(&backlog, size);
		PROVE(backlog.packets <= limit.packets && backlog.bytes <= limit.bytes);
		qdisc_backlog_remove(&backlog, size);
		PROVE(backlog.packets == before.packets && backlog.bytes == before.bytes);
	}
}

/* The index into the array of lists, which has 496 entries; larger queues have no smaller index. */
void prove_class_of_a_queue(void)
{
	ANY(u64, bytes);
	ANY(u64, more);

	ASSUME(bytes <= more);
	PROVE(queues_class(more) < 496);
	PROVE(queues_class(bytes) <= queues_class(more));
}

void prove_deficits(void)
{
	ANY(s64, deficit);
	ANY(s64, quantum);
	ANY(s64, bytes);
	s64 before = deficit;

	ASSUME(quantum > 0 && quantum <= S64_MAX >> 2 && bytes >= 0 && bytes <= S64_MAX >> 2);
	ASSUME(deficit <= S64_MAX >> 2 && deficit >= -(S64_MAX >> 2));
	if (round_deficit_renew(&deficit, quantum))
		PROVE(before <= 0 && deficit > before);
	round_deficit_spend(&deficit, bytes);
	PROVE((__int128)deficit >= (__int128)before - bytes);
	PROVE(round_deficit_is_positive(deficit) == (deficit > 0) && round_deficit_owes(deficit, bytes) == (deficit <= -bytes));
	PROVE(round_deficit_starting_with(quantum) == quantum);
}

/* A queue never sends more than its deficit, and an empty one keeps none. */
void prove_turns(void)
{
	ANY(round_turns, turns);
	ANY(round_allowance, allowance);
	ANY(u64, quantum);
	ANY(u64, size);
	ANY(bool, is_first);
	bool continues;
	u64 before;

	IS_BOOL(turns.in_turn);
	IS_BOOL(allowance.busy);
	IS_BOOL(is_first);
	ASSUME(turns.quantum < 1u << 24 && turns.largest < 1u << 24 && size < 1u << 24 && allowance.weight <= 65535);
	ASSUME(allowance.deficit < MANY);
	PROVE(!round_turns_of(quantum).in_turn);
	before = allowance.deficit;
	continues = turns.in_turn;
	if (round_turns_pays(&turns, &allowance, size))
		PROVE(turns.in_turn && (!continues || allowance.deficit == before - size));
	else
		PROVE(!turns.in_turn && allowance.deficit < size);
	round_turns_left(&turns, &allowance, is_first);
	PROVE(round_turns_queued(&turns, &allowance, size) && allowance.busy && allowance.deficit == 0);
	PROVE(!round_turns_queued(&turns, &allowance, size) && turns.largest >= size);
}

void prove_hash(void)
{
	ANY(u64, seed);
	ANY(u32, queues);
	ANY(option_units_span, perturb);
	ANY(sfq_hash, hash);
	ANY(u64, key);
	ANY(u64, now);
	ANY(u64, since);
	option_u32 previous;

	IS_BOOL(hash.perturb.some);
	IS_BOOL(perturb.some);
	ASSUME(queues > 0 && hash.queues > 0 && hash.epoch < MANY && hash.busy < MANY && hash.old <= hash.busy);
	PROVE(sfq_hash_new(seed, queues, perturb).epoch == 0);
	PROVE(sfq_hash_queue(&hash, key, since) < hash.queues);
	previous = sfq_hash_queue_before(&hash, key);
	PROVE(!previous.some || previous.value < hash.queues);
	sfq_hash_change(&hash, now);
	PROVE(hash.old <= hash.busy);
	PROVE(sfq_hash_entered(&hash) == hash.epoch && hash.old < hash.busy);
	/* A queue that is emptied was entered, and one of an earlier epoch is among the old. */
	ASSUME(since <= hash.epoch && (!sfq_hash_keeps(&hash, since) || hash.old > 0));
	sfq_hash_emptied(&hash, since);
	PROVE(hash.old <= hash.busy);
}

void prove_places(void)
{
	ANY(flow_queues_place, place);
	ANY(bool, has_old);
	flow_queues_place next;

	IS_BOOL(has_old);
	ASSUME(place <= FLOW_QUEUES_PLACE_OLD);
	next = flow_queues_place_once_empty(place, has_old);
	PROVE(next == FLOW_QUEUES_PLACE_OFF || (next == FLOW_QUEUES_PLACE_OLD && has_old));
}

/* Draws are any number; there is nothing in them that could fail. */
void prove_random(void)
{
	ANY(u64, high);
	ANY(u64, low);
	ANY(u64, step_high);
	ANY(u64, step_low);
	random_stream stream = random_stream_from_parts(high, low, step_high, step_low);

	random_stream_next_u64(&stream);
	PROVE(!random_stream_chance(&stream, 0) && random_stream_chance(&stream, 1ull << 32));
	PROVE(stream.step_high == step_high && stream.step_low == step_low);
	PROVE(fbq_weight_one() <= fbq_weight_max() && fbq_whole() == ONE);
}
