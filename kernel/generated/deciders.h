/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Made from the Rust of the core by `cargo run -p tidegate-translator -- --write`. Changes belong there: `.ci/run` compares.
 * The includer has kernel/integers.h.
 */
#ifndef TWIN_DECIDERS_H
#define TWIN_DECIDERS_H

typedef u64 units_bytes;

typedef enum {
	RED_THRESHOLDS_PACKETS,
	RED_THRESHOLDS_BYTES,
} red_thresholds_kind;

typedef struct {
	red_thresholds_kind kind;
	u64 packets_min;
	u64 packets_max;
	units_bytes bytes_min;
	units_bytes bytes_max;
} red_thresholds;

typedef u64 probability_probability;

typedef struct {
	red_thresholds thresholds;
	probability_probability max_p;
} red_profile;

typedef enum {
	RED_ABOVE_MAX_CLIFF,
	RED_ABOVE_MAX_MARK,
	RED_ABOVE_MAX_GENTLE,
} red_above_max;

typedef enum {
	RED_SPACING_UNIFORM,
	RED_SPACING_GEOMETRIC,
} red_spacing;

typedef enum {
	RED_SIZING_PER_PACKET,
	RED_SIZING_PER_BYTE,
} red_sizing_kind;

typedef struct {
	red_sizing_kind kind;
	units_bytes per_byte_mean;
} red_sizing;

typedef enum {
	RED_SIGNAL_DROP,
	RED_SIGNAL_MARK,
} red_signal;

typedef u64 units_span;

typedef struct {
	probability_probability weight;
	red_above_max above_max;
	red_spacing spacing;
	red_sizing sizing;
	red_signal signal;
	units_span idle_packet;
} red_early_drop;

typedef struct {
	red_profile profile;
	red_early_drop early;
} red_params;

typedef u64 red_level;

typedef u64 units_instant;

typedef struct {
	bool some;
	units_instant value;
} option_units_instant;

typedef struct {
	probability_probability weight;
	units_span idle_packet;
	red_level level;
	option_units_instant idle_since;
	units_span rest;
	units_instant latest;
} red_average;

typedef struct {
	red_level min;
	red_level max;
	probability_probability max_p;
	red_above_max above_max;
	u64 slope;
	u64 gentle_slope;
} red_curve;

typedef struct {
	u64 high;
	u64 low;
	u64 step_high;
	u64 step_low;
} random_stream;

typedef struct {
	random_stream random;
	u64 since;
} red_spacer;

typedef struct {
	u64 admitted;
	u64 marked;
	u64 early;
	u64 forced;
} aqm_verdicts;

typedef struct {
	red_curve curve;
	red_spacer spacer;
	aqm_verdicts verdicts;
} red_dropper;

typedef struct {
	red_params params;
	red_average average;
	red_dropper dropper;
} red_red;

typedef struct {
	u64 raised;
	u64 lowered;
} ared_stats;

typedef struct {
	red_red red;
	units_span interval;
	red_level least;
	red_level most;
	units_instant adapted;
	units_instant latest;
	ared_stats stats;
} ared_ared;

typedef struct {
	u64 packets;
	units_bytes bytes;
} qdisc_backlog;

typedef enum {
	RED_ZONE_BELOW,
	RED_ZONE_CHANCE,
	RED_ZONE_GENTLE,
	RED_ZONE_BEYOND,
} red_zone_kind;

typedef struct {
	red_zone_kind kind;
	probability_probability chance;
	probability_probability gentle;
} red_zone;

typedef u64 units_rate;

typedef struct {
	units_rate rate;
	s64 depth;
	s64 level;
	units_instant updated;
} bucket_token_bucket;

typedef enum {
	CAKE_FRAMING_NONE,
	CAKE_FRAMING_ATM,
	CAKE_FRAMING_PTM,
} cake_framing;

typedef struct {
	s16 overhead;
	units_bytes least;
	cake_framing framing;
} cake_wire;

typedef struct {
	units_instant free;
	u64 rest;
} cbq_link_use;

typedef u32 packet_class_id;

typedef struct {
	bool some;
	units_rate value;
} option_units_rate;

typedef enum {
	CBQ_GENERAL_PACKET_ROUND_ROBIN,
	CBQ_GENERAL_WEIGHTED_ROUND_ROBIN,
} cbq_general;

typedef enum {
	CBQ_HEURISTIC_FLOYD1995,
	CBQ_HEURISTIC_ALTQ,
} cbq_heuristic;

typedef enum {
	CBQ_SHARING_FORMAL,
	CBQ_SHARING_ANCESTOR_ONLY,
	CBQ_SHARING_TOP_LEVEL,
} cbq_sharing_kind;

typedef struct {
	cbq_sharing_kind kind;
	cbq_heuristic top_level;
} cbq_sharing;

typedef enum {
	ESTIMATOR_DERIVATION_ALTQ,
	ESTIMATOR_DERIVATION_NS2,
} estimator_derivation;

typedef enum {
	ESTIMATOR_ACCOUNTING_IDLE_TIME,
	ESTIMATOR_ACCOUNTING_BYTES,
} estimator_accounting_kind;

typedef struct {
	estimator_accounting_kind kind;
	u8 idle_time_gain;
	estimator_derivation idle_time_derivation;
} estimator_accounting;

typedef enum {
	ESTIMATOR_FINISH_ACTUAL,
	ESTIMATOR_FINISH_EXPECTED,
} estimator_finish;

typedef enum {
	CBQ_REGULATION_RECHECK,
	CBQ_REGULATION_SLEEP,
} cbq_regulation;

typedef enum {
	CBQ_CONSERVING_STRICT,
	CBQ_CONSERVING_EFFICIENT,
	CBQ_CONSERVING_WHEN_LINK_IDLE,
} cbq_conserving;

typedef enum {
	CBQ_LINK_CLOCK_RESET,
	CBQ_LINK_CLOCK_CLAMP,
} cbq_link_clock_kind;

typedef struct {
	cbq_link_clock_kind kind;
	units_span reset;
	units_span clamp;
} cbq_link_clock;

typedef enum {
	CBQ_LEAD_UNBOUNDED,
	CBQ_LEAD_WITHIN,
} cbq_lead_kind;

typedef struct {
	cbq_lead_kind kind;
	units_span within;
} cbq_lead;

typedef struct {
	bool some;
	packet_class_id value;
} option_packet_class_id;

typedef struct {
	packet_class_id root;
	units_rate link;
	option_units_rate root_rate;
	units_bytes mtu;
	cbq_general general;
	cbq_sharing sharing;
	estimator_accounting accounting;
	estimator_finish finish;
	cbq_regulation regulation;
	cbq_conserving conserving;
	cbq_link_clock link_clock;
	cbq_lead lead;
	u32 root_burst;
	option_packet_class_id default_;
	units_span catch_up;
} cbq_params;

typedef struct {
	bool some;
	u8 value;
} option_u8;

typedef struct {
	u64 round;
	s64 left;
} cbq_turn;

typedef struct {
	u32 count;
	bool dropping;
	units_instant drop_next;
	u32 probability;
	units_instant blue_at;
	option_units_instant empty_since;
} cobalt_state;

typedef struct {
	u64 packets;
	units_bytes bytes;
} fifo_limit;

typedef struct {
	bool some;
	units_span value;
} option_units_span;

typedef struct {
	units_span target;
	units_span interval;
	units_bytes mtu;
	red_signal signal;
	fifo_limit limit;
	option_units_span longest;
} codel_params;

typedef struct {
	option_units_instant first_above;
	units_instant drop_next;
	u32 count;
	u32 last_count;
	bool dropping;
} codel_state;

typedef struct {
	u64 dropped;
	u64 marked;
	u64 episodes;
} codel_stats;

typedef enum {
	CODEL_PHASE_FIRST,
	CODEL_PHASE_EPISODE,
	CODEL_PHASE_LAST,
} codel_phase;

typedef struct {
	u32 drops;
	codel_phase phase;
} codel_call;

typedef enum {
	CODEL_ACTION_SEND,
	CODEL_ACTION_SIGNAL,
	CODEL_ACTION_DROP,
} codel_action;

typedef struct {
	u64 marks;
	u64 drops;
} decider_counts;

typedef struct {
	u64 base;
	u64 squared;
	units_span delay;
	units_instant next_update;
	decider_counts low;
	decider_counts sanctioned;
	u64 classic;
	u64 credit;
} decider_state;

typedef struct {
	units_span from;
	units_span full;
} step_step;

typedef enum {
	DUALPI2_SCHEDULER_TIME_SHIFTED,
	DUALPI2_SCHEDULER_WEIGHTED,
} dualpi2_scheduler_kind;

typedef struct {
	dualpi2_scheduler_kind kind;
	units_span time_shifted_shift;
	u32 weighted_parts;
} dualpi2_scheduler;

typedef enum {
	DUALPI2_NQB_LOW_LATENCY,
	DUALPI2_NQB_BY_ECN,
} dualpi2_nqb;

typedef struct {
	units_span critical;
	units_span score;
	units_bytes ageing;
} protection_params;

typedef struct {
	bool some;
	protection_params value;
} option_protection_params;

typedef struct {
	units_span target;
	units_span update;
	u32 alpha;
	u32 beta;
	u32 coupling;
	step_step step;
	dualpi2_scheduler scheduler;
	dualpi2_nqb nqb;
	option_protection_params protection;
	fifo_limit limit;
} dualpi2_params;

typedef struct {
	units_instant arrived;
	units_bytes size;
	bool sanctioned;
} decider_head;

typedef struct {
	bool some;
	decider_head value;
} option_decider_head;

typedef struct {
	units_bytes length;
	u32 queued_mice;
} elephants_flow;

typedef enum {
	ELEPHANTS_MEASURE_BYTES,
	ELEPHANTS_MEASURE_PACKETS,
} elephants_measure;

typedef struct {
	units_bytes longest_mouse;
	elephants_measure measure;
} elephants_border;

typedef struct {
	units_bytes threshold;
	units_rate rate;
} elephants_pair_rule;

typedef struct {
	bool some;
	bucket_token_bucket value;
} option_bucket_token_bucket;

typedef struct {
	option_bucket_token_bucket bucket;
} elephants_pair;

typedef struct {
	units_bytes length;
	u64 value;
} elephants_point;

typedef struct {
	units_rate rate;
	estimator_finish finish;
	estimator_accounting accounting;
	bool whole_link;
	s64 max_idle;
	s64 min_idle;
	units_span off_time;
	u128 depth;
	u128 resume;
} cbq_limits;

typedef struct {
	cbq_limits limits;
	units_instant under_time;
	s64 average;
	option_units_instant last;
	u128 used;
	units_instant at;
	units_span last_packet;
	bool regulated;
} estimator_estimator;

typedef struct {
	units_instant now;
	units_instant finish;
	units_bytes size;
	bool by_right;
} estimator_sent;

typedef enum {
	FBQ_BY_GUARANTEE,
	FBQ_BY_SHARE,
} fbq_by;

typedef struct {
	units_instant shown;
	units_instant at;
	u64 fast;
	u64 base;
} fbq_clock;

typedef struct {
	u32 held;
	u32 wanted;
	u32 here;
} fbq_slots;

typedef enum {
	FLOW_QUEUES_PLACE_OFF,
	FLOW_QUEUES_PLACE_NEW,
	FLOW_QUEUES_PLACE_OLD,
} flow_queues_place;

typedef struct {
	probability_probability share;
	s64 owed;
	s64 least;
} meredt_floor;

typedef u64 meredt_mean_value;

typedef struct {
	u64 probability;
	units_span delay;
	units_span delay_before;
	units_span burst;
	u64 gathered;
	units_instant next_update;
} pie_state;

typedef struct {
	units_span target;
	units_span update;
	units_span burst;
	u32 alpha;
	u32 beta;
	units_bytes mean;
	red_sizing sizing;
	red_signal signal;
	probability_probability most_marked;
	fifo_limit limit;
} pie_params;

typedef struct {
	u64 dropped;
	u64 marked;
	u64 updates;
} pie_stats;

typedef struct {
	u64 key;
	units_instant expires;
} protection_bucket;

typedef enum {
	RAS_CURVE_SINGLE,
	RAS_CURVE_TWO,
} ras_curve_kind;

typedef struct {
	ras_curve_kind kind;
	units_rate single_cir;
	units_rate single_mir;
	units_bytes single_cir_th;
	units_bytes single_mir_th;
	units_rate two_cir;
	units_rate two_pir;
	units_rate two_mir;
	units_bytes two_cir_th;
	units_bytes two_pir_th;
	units_bytes two_mir_th;
} ras_curve;

typedef struct {
	u64 bits;
	option_units_instant last;
} ras_ear;

typedef struct {
	ras_ear ear;
	units_rate rate;
	u128 debt;
	units_instant settled;
	units_instant paid_at;
	units_instant head_since;
} ras_schedule;

typedef struct {
	units_bytes at;
	units_rate rate;
} ras_corner;

typedef struct {
	units_instant at;
	bool by_green;
} ras_release;

typedef enum {
	QDISC_DROP_REASON_QUEUE_LIMIT,
	QDISC_DROP_REASON_FLOW_LIMIT,
	QDISC_DROP_REASON_CLASS_LIMIT,
	QDISC_DROP_REASON_LARGER_THAN_BURST,
	QDISC_DROP_REASON_EARLY,
	QDISC_DROP_REASON_FORCED,
	QDISC_DROP_REASON_TOO_OLD,
	QDISC_DROP_REASON_POLICED,
	QDISC_DROP_REASON_ACK_FILTERED,
	QDISC_DROP_REASON_NO_CLASS,
	QDISC_DROP_REASON_FLUSHED,
} qdisc_drop_reason;

typedef enum {
	AQM_VERDICT_ADMIT,
	AQM_VERDICT_MARK,
	AQM_VERDICT_DROP,
} aqm_verdict_kind;

typedef struct {
	aqm_verdict_kind kind;
	qdisc_drop_reason drop;
} aqm_verdict;

typedef struct {
	bucket_token_bucket committed;
	bucket_token_bucket second;
} two_bucket_buckets;

typedef enum {
	PACKET_COLOUR_GREEN,
	PACKET_COLOUR_YELLOW,
	PACKET_COLOUR_RED,
} packet_colour;

typedef s64 round_deficit;

typedef struct {
	bool in_turn;
	u64 quantum;
	u64 largest;
} round_turns;

typedef struct {
	u64 deficit;
	u64 weight;
	bool busy;
} round_allowance;

typedef struct {
	u64 seed;
	u32 queues;
	option_units_span perturb;
	u64 epoch;
	units_instant changed;
	u64 busy;
	u64 old;
} sfq_hash;

typedef struct {
	bool some;
	u32 value;
} option_u32;

typedef enum {
	METER_MODE_BLIND,
	METER_MODE_AWARE,
} meter_mode;

typedef struct {
	units_rate ctr;
	units_rate ptr;
	units_span window;
	meter_mode mode;
} tswtcm_params;

typedef struct {
	tswtcm_params params;
	u64 estimate;
	units_instant front;
	random_stream random;
} tswtcm_tsw_tcm;

typedef u8 packet_dscp;

/* Red::params of crates/core/src/aqm/red.rs */
TWIN_INLINE const red_params * red_red_params(const red_red *self)
{
	return &self->params;
}

/* Level::whole of crates/core/src/aqm/red/average.rs */
TWIN_INLINE red_level red_level_whole(u64 n)
{
	u64 t;
	if (n > ((u64)U32_MAX)) {
		t = ((u64)U32_MAX);
	} else {
		t = n;
	}
	return ((u64)(t << 32u));
}

/* Bytes::as_u64 of crates/units/src/quantity.rs */
TWIN_INLINE u64 units_bytes_as_u64(units_bytes self)
{
	return self;
}

/* Thresholds::min of crates/core/src/aqm/red/curve.rs */
TWIN_INLINE red_level red_thresholds_min(red_thresholds self)
{
	red_thresholds t = self;
	red_level t_2;
	if (t.kind == RED_THRESHOLDS_PACKETS) {
		u64 min = t.packets_min;
		red_level t_3 = red_level_whole(min);
		t_2 = t_3;
	} else {
		units_bytes min_2 = t.bytes_min;
		u64 t_4 = units_bytes_as_u64(min_2);
		red_level t_5 = red_level_whole(t_4);
		t_2 = t_5;
	}
	return t_2;
}

/* Level::whole_part of crates/core/src/aqm/red/average.rs */
TWIN_INLINE u64 red_level_whole_part(red_level self)
{
	return ((u64)(self >> 32u));
}

/* Thresholds::max of crates/core/src/aqm/red/curve.rs */
TWIN_INLINE red_level red_thresholds_max(red_thresholds self)
{
	red_thresholds t = self;
	red_level t_2;
	if (t.kind == RED_THRESHOLDS_PACKETS) {
		u64 max = t.packets_max;
		red_level t_3 = red_level_whole(max);
		t_2 = t_3;
	} else {
		units_bytes max_2 = t.bytes_max;
		u64 t_4 = units_bytes_as_u64(max_2);
		red_level t_5 = red_level_whole(t_4);
		t_2 = t_5;
	}
	return t_2;
}

/* Level::from_ratio of crates/core/src/aqm/red/average.rs */
TWIN_INLINE red_level red_level_from_ratio(u64 numerator, u64 denominator)
{
	return mul_div_u64(numerator, ((u64)(1ull << 32u)), denominator);
}

/* Instant::ZERO of crates/units/src/quantity.rs */
TWIN_INLINE units_instant units_instant_zero(void)
{
	return 0ull;
}

/* Ared::adapting of crates/core/src/aqm/ared.rs */
TWIN_INLINE ared_ared ared_ared_adapting(red_red red, units_span interval)
{
	const red_params * t = red_red_params(&red);
	red_level t_2 = red_thresholds_min(t->profile.thresholds);
	u64 t_3 = red_level_whole_part(t_2);
	u64 min = t_3;
	const red_params * t_4 = red_red_params(&red);
	red_level t_5 = red_thresholds_max(t_4->profile.thresholds);
	u64 t_6 = red_level_whole_part(t_5);
	u64 range = ((u64)(t_6 - min));
	red_level t_7 = red_level_from_ratio(((u64)(((u64)(min * 5ull)) + ((u64)(range * 2ull)))), 5ull);
	red_level t_8 = red_level_from_ratio(((u64)(((u64)(min * 5ull)) + ((u64)(range * 3ull)))), 5ull);
	return (ared_ared){ .least = t_7, .most = t_8, .red = red, .interval = interval, .adapted = units_instant_zero(), .latest = units_instant_zero(), .stats = (ared_stats){0} };
}

/* Instant::since of crates/units/src/quantity.rs */
TWIN_INLINE units_span units_instant_since(units_instant self, units_instant earlier)
{
	return saturating_sub_u64(self, earlier);
}

/* Span::as_nanos of crates/units/src/quantity.rs */
TWIN_INLINE u64 units_span_as_nanos(units_span self)
{
	return self;
}

/* Span::is_zero of crates/units/src/quantity.rs */
TWIN_INLINE bool units_span_is_zero(units_span self)
{
	return (self == 0ull);
}

/* Probability::ONE of crates/core/src/probability.rs */
TWIN_INLINE probability_probability probability_probability_one(void)
{
	return ((u64)(1ull << 32u));
}

/* Probability::bits of crates/core/src/probability.rs */
TWIN_INLINE u64 probability_probability_bits(probability_probability self)
{
	return self;
}

/* times_fraction of crates/core/src/aqm/red/average.rs */
TWIN_INLINE u64 red_times_fraction(u64 level, u64 factor)
{
	return ((u64)(((u64)(mul_high_u64(level, factor) << 1u)) | ((u64)(wrapping_mul_u64(level, factor) >> 63u))));
}

/* decay of crates/core/src/aqm/red/average.rs */
TWIN_INLINE u64 red_decay(u64 level, probability_probability weight, u64 times)
{
	u64 t = probability_probability_bits(probability_probability_one());
	u64 t_2 = probability_probability_bits(weight);
	u64 factor = ((u64)(((u64)(t - t_2)) << 31u));
	u64 level_2 = level;
	u64 times_2 = times;
	u32 t_3 = 0u;
	u32 t_4 = 64u;
	TWIN_FOR(u32, i, t_3, t_4) {
		if ((times_2 == 0ull) || (level_2 == 0ull)) {
			break;
		}
		if (((u64)(times_2 & 1ull)) == 1ull) {
			u64 t_7 = red_times_fraction(level_2, factor);
			level_2 = t_7;
		}
		u64 t_8 = red_times_fraction(factor, factor);
		factor = t_8;
		times_2 = ((u64)(times_2 >> 1u));
	}
	return level_2;
}

/* Span::saturating_mul of crates/units/src/quantity.rs */
TWIN_INLINE units_span units_span_saturating_mul(units_span self, u64 n)
{
	return saturating_mul_u64(self, n);
}

/* Instant::add of crates/units/src/quantity.rs */
TWIN_INLINE units_instant units_instant_add_span(units_instant self, units_span span)
{
	return saturating_add_u64(self, span);
}

/* Probability::of of crates/core/src/probability.rs */
TWIN_INLINE u64 probability_probability_of(probability_probability self, u64 value)
{
	return ((u64)(((u64)(((u64)(value >> 32u)) * self)) + ((u64)(((u64)(((u64)(value & 4294967295ull)) * self)) >> 32u))));
}

/* Probability::of_ceil of crates/core/src/probability.rs */
TWIN_INLINE u64 probability_probability_of_ceil(probability_probability self, u64 value)
{
	u64 t = probability_probability_of(self, value);
	return ((u64)(t + ((u64)(((u64)(((u64)(((u64)(value & 4294967295ull)) * self)) & 4294967295ull)) != 0ull))));
}

/* Average::on_arrival of crates/core/src/aqm/red/average.rs */
TWIN_INLINE red_level red_average_on_arrival(red_average *self, units_instant now, red_level queue)
{
	self->latest = max_u64(self->latest, now);
	if (queue == 0ull) {
		option_units_instant t_3 = self->idle_since;
		if (t_3.some) {
			units_instant since = t_3.value;
			units_span t_4 = units_instant_since(self->latest, since);
			u64 t_5 = units_span_as_nanos(t_4);
			u64 idle = t_5;
			bool t_7 = units_span_is_zero(self->idle_packet);
			u64 t_6;
			if (t_7) {
				t_6 = 1ull;
			} else {
				u64 t_8 = units_span_as_nanos(self->idle_packet);
				t_6 = ((u64)(idle / t_8));
			}
			u64 packets = t_6;
			u64 t_9 = red_decay(self->level, self->weight, packets);
			self->level = t_9;
			units_span t_10 = units_span_saturating_mul(self->idle_packet, packets);
			units_instant t_11 = units_instant_add_span(since, t_10);
			self->idle_since = (option_units_instant){ .some = true, .value = t_11 };
		}
	} else {
		if (queue >= self->level) {
			u64 t_14 = self->level;
			u64 t_13 = probability_probability_of(self->weight, ((u64)(queue - self->level)));
			self->level = ((u64)(t_14 + t_13));
		} else {
			u64 t_16 = self->level;
			u64 t_15 = probability_probability_of_ceil(self->weight, ((u64)(self->level - queue)));
			self->level = ((u64)(t_16 - t_15));
		}
	}
	return self->level;
}

/* Thresholds::measure of crates/core/src/aqm/red/curve.rs */
TWIN_INLINE red_level red_thresholds_measure(red_thresholds self, qdisc_backlog queue)
{
	red_thresholds t = self;
	red_level t_2;
	if (t.kind == RED_THRESHOLDS_PACKETS) {
		red_level t_3 = red_level_whole(queue.packets);
		t_2 = t_3;
	} else {
		u64 t_4 = units_bytes_as_u64(queue.bytes);
		red_level t_5 = red_level_whole(t_4);
		t_2 = t_5;
	}
	return t_2;
}

/* LEAST_QUEUE of crates/core/src/aqm/red/dropper.rs */
TWIN_INLINE u64 red_least_queue(void)
{
	return 2ull;
}

/* Probability::saturating_from_bits of crates/core/src/probability.rs */
TWIN_INLINE probability_probability probability_probability_saturating_from_bits(u64 bits)
{
	probability_probability t;
	if (bits > probability_probability_one()) {
		t = probability_probability_one();
	} else {
		t = bits;
	}
	return t;
}

/* Curve::zone of crates/core/src/aqm/red/curve.rs */
TWIN_INLINE red_zone red_curve_zone(const red_curve *self, red_level average)
{
	if (average < self->min) {
		return (red_zone){ .kind = RED_ZONE_BELOW };
	}
	if (average < self->max) {
		u64 over = ((u64)(average - self->min));
		u64 t_3;
		if (self->slope == 0ull) {
			t_3 = over;
		} else {
			t_3 = mul_high_u64(over, self->slope);
		}
		u64 p = t_3;
		probability_probability t_4 = probability_probability_saturating_from_bits(p);
		return (red_zone){ .kind = RED_ZONE_CHANCE, .chance = t_4 };
	}
	u64 over_2 = ((u64)(average - self->max));
	if ((self->above_max != RED_ABOVE_MAX_GENTLE) || (over_2 >= self->max)) {
		return (red_zone){ .kind = RED_ZONE_BEYOND };
	}
	u64 t_6 = probability_probability_bits(self->max_p);
	u64 p_2 = ((u64)(t_6 + mul_high_u64(over_2, self->gentle_slope)));
	probability_probability t_7 = probability_probability_saturating_from_bits(p_2);
	return (red_zone){ .kind = RED_ZONE_GENTLE, .gentle = t_7 };
}

/* Dropper::zone_at of crates/core/src/aqm/red/dropper.rs */
TWIN_INLINE red_zone red_dropper_zone_at(const red_dropper *self, red_level average, qdisc_backlog queue)
{
	red_zone t;
	if (queue.packets < red_least_queue()) {
		t = (red_zone){ .kind = RED_ZONE_BELOW };
	} else {
		red_zone t_2 = red_curve_zone(&self->curve, average);
		t = t_2;
	}
	return t;
}

/* Average::level of crates/core/src/aqm/red/average.rs */
TWIN_INLINE red_level red_average_level(const red_average *self)
{
	return self->level;
}

/* Red::zone_at of crates/core/src/aqm/red.rs */
TWIN_INLINE red_zone red_red_zone_at(const red_red *self, qdisc_backlog queue)
{
	red_level t = red_average_level(&self->average);
	red_zone t_2 = red_dropper_zone_at(&self->dropper, t, queue);
	return t_2;
}

/* Red::observe of crates/core/src/aqm/red.rs */
TWIN_INLINE red_zone red_red_observe(red_red *self, units_instant now, qdisc_backlog queue)
{
	red_level t = red_thresholds_measure(self->params.profile.thresholds, queue);
	red_level t_2 = red_average_on_arrival(&self->average, now, t);
	(void)t_2;
	red_zone t_3 = red_red_zone_at(self, queue);
	return t_3;
}

/* Red::average of crates/core/src/aqm/red.rs */
TWIN_INLINE red_level red_red_average(const red_red *self)
{
	red_level t = red_average_level(&self->average);
	return t;
}

/* MOST of crates/core/src/aqm/ared.rs */
TWIN_INLINE u64 ared_most(void)
{
	u64 t = probability_probability_bits(probability_probability_one());
	return ((u64)(t / 2ull));
}

/* LEAST of crates/core/src/aqm/ared.rs */
TWIN_INLINE u64 ared_least(void)
{
	u64 t = probability_probability_bits(probability_probability_one());
	return ((u64)(t / 100ull));
}

/* Curve::set_max_p of crates/core/src/aqm/red/curve.rs */
TWIN_INLINE void red_curve_set_max_p(red_curve *self, probability_probability max_p)
{
	self->max_p = max_p;
	u64 range = max_u64(((u64)(((u64)(self->max - self->min)) >> 32u)), 1ull);
	bool is_whole = ((max_p == probability_probability_one()) && (range == 1ull));
	u64 t;
	if (is_whole) {
		t = 0ull;
	} else {
		u64 t_2 = probability_probability_bits(max_p);
		t = mul_div_u64(t_2, ((u64)(1ull << 32u)), range);
	}
	self->slope = t;
	u64 t_3 = probability_probability_bits(probability_probability_one());
	u64 t_4 = probability_probability_bits(max_p);
	u64 rest = ((u64)(t_3 - t_4));
	self->gentle_slope = mul_div_u64(rest, ((u64)(1ull << 32u)), max_u64(((u64)(self->max >> 32u)), 1ull));
}

/* Dropper::set_max_p of crates/core/src/aqm/red/dropper.rs */
TWIN_INLINE void red_dropper_set_max_p(red_dropper *self, probability_probability max_p)
{
	red_curve_set_max_p(&self->curve, max_p);
}

/* Red::set_max_p of crates/core/src/aqm/red.rs */
TWIN_INLINE void red_red_set_max_p(red_red *self, probability_probability max_p)
{
	probability_probability t = probability_probability_saturating_from_bits(1ull);
	probability_probability max_p_2 = max_u64(max_p, t);
	self->params.profile.max_p = max_p_2;
	red_dropper_set_max_p(&self->dropper, max_p_2);
}

/* Ared::observe of crates/core/src/aqm/ared.rs */
TWIN_INLINE red_zone ared_ared_observe(ared_ared *self, units_instant now, qdisc_backlog queue)
{
	self->latest = max_u64(self->latest, now);
	red_zone t = red_red_observe(&self->red, self->latest, queue);
	(void)t;
	units_span t_3 = units_instant_since(self->latest, self->adapted);
	if (t_3 >= self->interval) {
		self->adapted = self->latest;
		red_level t_4 = red_red_average(&self->red);
		red_level average = t_4;
		const red_params * t_5 = red_red_params(&self->red);
		u64 t_6 = probability_probability_bits(t_5->profile.max_p);
		u64 max_p = t_6;
		if ((average > self->most) && (max_p <= ared_most())) {
			u64 step = max_u64(min_u64(ared_least(), ((u64)(max_p / 4ull))), 1ull);
			probability_probability t_8 = probability_probability_saturating_from_bits(((u64)(max_p + step)));
			red_red_set_max_p(&self->red, t_8);
			self->stats.raised = ((u64)(self->stats.raised + 1ull));
		} else {
			if ((average < self->least) && (max_p >= ared_least())) {
				probability_probability t_10 = probability_probability_saturating_from_bits(((u64)(((u64)(max_p / 10ull)) * 9ull)));
				red_red_set_max_p(&self->red, t_10);
				self->stats.lowered = ((u64)(self->stats.lowered + 1ull));
			}
		}
	}
	red_zone t_11 = red_red_zone_at(&self->red, queue);
	return t_11;
}

/* Average::on_busy of crates/core/src/aqm/red/average.rs */
TWIN_INLINE void red_average_on_busy(red_average *self)
{
	option_units_instant t_2 = self->idle_since;
	if (t_2.some) {
		units_instant since = t_2.value;
		self->idle_since = (option_units_instant){0};
		units_span t_3 = units_instant_since(self->latest, since);
		self->rest = t_3;
	}
}

/* Red::on_busy of crates/core/src/aqm/red.rs */
TWIN_INLINE void red_red_on_busy(red_red *self)
{
	red_average_on_busy(&self->average);
}

/* Ared::on_busy of crates/core/src/aqm/ared.rs */
TWIN_INLINE void ared_ared_on_busy(ared_ared *self)
{
	red_red_on_busy(&self->red);
}

/* Instant::saturating_sub of crates/units/src/quantity.rs */
TWIN_INLINE units_instant units_instant_saturating_sub(units_instant self, units_span span)
{
	return saturating_sub_u64(self, span);
}

/* Span::ZERO of crates/units/src/quantity.rs */
TWIN_INLINE units_span units_span_zero(void)
{
	return 0ull;
}

/* Average::on_empty of crates/core/src/aqm/red/average.rs */
TWIN_INLINE void red_average_on_empty(red_average *self, units_instant now)
{
	self->latest = max_u64(self->latest, now);
	units_instant t = units_instant_saturating_sub(self->latest, self->rest);
	self->idle_since = (option_units_instant){ .some = true, .value = t };
	self->rest = units_span_zero();
}

/* Red::on_empty of crates/core/src/aqm/red.rs */
TWIN_INLINE void red_red_on_empty(red_red *self, units_instant now)
{
	red_average_on_empty(&self->average, now);
}

/* Ared::on_empty of crates/core/src/aqm/ared.rs */
TWIN_INLINE void ared_ared_on_empty(ared_ared *self, units_instant now)
{
	self->latest = max_u64(self->latest, now);
	red_red_on_empty(&self->red, self->latest);
}

/* Bytes::new of crates/units/src/quantity.rs */
TWIN_INLINE units_bytes units_bytes_new(u64 n)
{
	return n;
}

/* MAX_DEPTH of crates/core/src/structures/bucket.rs */
TWIN_INLINE units_bytes bucket_max_depth(void)
{
	units_bytes t = units_bytes_new(1152921504ull);
	return t;
}

/* PER_BYTE of crates/core/src/structures/credit.rs */
TWIN_INLINE u64 credit_per_byte(void)
{
	return 8000000000ull;
}

/* cost of crates/core/src/structures/bucket.rs */
TWIN_INLINE s64 bucket_cost(units_bytes bytes)
{
	s64 t;
	if (bytes <= bucket_max_depth()) {
		u64 t_2 = units_bytes_as_u64(bytes);
		t = ((s64)((u64)(t_2 * credit_per_byte())));
	} else {
		t = S64_MAX;
	}
	return t;
}

/* filled of crates/core/src/structures/bucket.rs */
TWIN_INLINE s64 bucket_filled(s64 level, s64 depth, u64 earned)
{
	u64 room = wrapping_sub_u64(((u64)depth), ((u64)level));
	s64 t;
	if (earned >= room) {
		t = depth;
	} else {
		t = ((s64)wrapping_add_u64(((u64)level), earned));
	}
	return t;
}

/* Rate::as_bps of crates/units/src/quantity.rs */
TWIN_INLINE u64 units_rate_as_bps(units_rate self)
{
	return self;
}

/* TokenBucket::earned of crates/core/src/structures/bucket.rs */
TWIN_INLINE u64 bucket_token_bucket_earned(const bucket_token_bucket *self, units_instant now)
{
	u64 t = units_rate_as_bps(self->rate);
	units_span t_2 = units_instant_since(now, self->updated);
	u64 t_3 = units_span_as_nanos(t_2);
	return saturating_mul_u64(t, t_3);
}

/* TokenBucket::bytes of crates/core/src/structures/bucket.rs */
TWIN_INLINE units_bytes bucket_token_bucket_bytes(const bucket_token_bucket *self, units_instant now)
{
	s64 t_2 = self->level;
	s64 t_3 = self->depth;
	u64 t = bucket_token_bucket_earned(self, now);
	s64 t_4 = bucket_filled(t_2, t_3, t);
	units_bytes t_5 = units_bytes_new(((u64)(((u64)max_s64(t_4, 0ll)) / credit_per_byte())));
	return t_5;
}

/* TokenBucket::update of crates/core/src/structures/bucket.rs */
TWIN_INLINE void bucket_token_bucket_update(bucket_token_bucket *self, units_instant now)
{
	s64 t_2 = self->level;
	s64 t_3 = self->depth;
	u64 t = bucket_token_bucket_earned(self, now);
	s64 t_4 = bucket_filled(t_2, t_3, t);
	self->level = t_4;
	self->updated = max_u64(self->updated, now);
}

/* TokenBucket::charge of crates/core/src/structures/bucket.rs */
TWIN_INLINE void bucket_token_bucket_charge(bucket_token_bucket *self, units_instant now, units_bytes bytes)
{
	bucket_token_bucket_update(self, now);
	u64 t_2 = ((u64)self->level);
	s64 t = bucket_cost(bytes);
	s64 level = ((s64)wrapping_sub_u64(t_2, ((u64)t)));
	s64 t_3;
	if (level <= self->level) {
		t_3 = level;
	} else {
		t_3 = sub_s64(0ll, S64_MAX);
	}
	self->level = t_3;
}

/* TokenBucket::depth of crates/core/src/structures/bucket.rs */
TWIN_INLINE units_bytes bucket_token_bucket_depth(const bucket_token_bucket *self)
{
	units_bytes t = units_bytes_new(((u64)(((u64)self->depth) / credit_per_byte())));
	return t;
}

/* TokenBucket::forgive of crates/core/src/structures/bucket.rs */
TWIN_INLINE void bucket_token_bucket_forgive(bucket_token_bucket *self, units_instant now)
{
	bucket_token_bucket_update(self, now);
	self->level = max_s64(self->level, 0ll);
}

/* capped of crates/core/src/structures/bucket.rs */
TWIN_INLINE s64 bucket_capped(units_bytes depth)
{
	units_bytes t;
	if (depth <= bucket_max_depth()) {
		t = depth;
	} else {
		t = bucket_max_depth();
	}
	s64 t_2 = bucket_cost(t);
	return t_2;
}

/* TokenBucket::full of crates/core/src/structures/bucket.rs */
TWIN_INLINE bucket_token_bucket bucket_token_bucket_full(units_rate rate, units_bytes depth, units_instant now)
{
	s64 t = bucket_capped(depth);
	s64 depth_2 = t;
	return (bucket_token_bucket){ .rate = rate, .depth = depth_2, .level = depth_2, .updated = now };
}

/* TokenBucket::is_in_debt of crates/core/src/structures/bucket.rs */
TWIN_INLINE bool bucket_token_bucket_is_in_debt(const bucket_token_bucket *self, units_instant now)
{
	s64 t_2 = self->level;
	s64 t_3 = self->depth;
	u64 t = bucket_token_bucket_earned(self, now);
	s64 t_4 = bucket_filled(t_2, t_3, t);
	return (t_4 < 0ll);
}

/* TokenBucket::set_depth of crates/core/src/structures/bucket.rs */
TWIN_INLINE void bucket_token_bucket_set_depth(bucket_token_bucket *self, units_instant now, units_bytes depth)
{
	bucket_token_bucket_update(self, now);
	s64 t = bucket_capped(depth);
	self->depth = t;
	self->level = min_s64(self->level, self->depth);
}

/* TokenBucket::set_rate of crates/core/src/structures/bucket.rs */
TWIN_INLINE void bucket_token_bucket_set_rate(bucket_token_bucket *self, units_instant now, units_rate rate)
{
	bucket_token_bucket_update(self, now);
	self->rate = rate;
}

/* TokenBucket::spend_if of crates/core/src/structures/bucket.rs */
TWIN_INLINE bool bucket_token_bucket_spend_if(bucket_token_bucket *self, bool wanted, units_bytes bytes)
{
	s64 t = bucket_cost(bytes);
	s64 cost = t;
	bool pays = (wanted & (self->level >= cost));
	self->level = sub_s64(self->level, (pays ? cost : 0ll));
	return pays;
}

/* TokenBucket::spend of crates/core/src/structures/bucket.rs */
TWIN_INLINE bool bucket_token_bucket_spend(bucket_token_bucket *self, units_bytes bytes)
{
	bool t = bucket_token_bucket_spend_if(self, true, bytes);
	return t;
}

/* TokenBucket::take of crates/core/src/structures/bucket.rs */
TWIN_INLINE bool bucket_token_bucket_take(bucket_token_bucket *self, units_instant now, units_bytes bytes)
{
	bucket_token_bucket_update(self, now);
	bool t = bucket_token_bucket_spend(self, bytes);
	return t;
}

/* Rate::is_zero of crates/units/src/quantity.rs */
TWIN_INLINE bool units_rate_is_zero(units_rate self)
{
	return (self == 0ull);
}

/* Span::from_nanos of crates/units/src/quantity.rs */
TWIN_INLINE units_span units_span_from_nanos(u64 n)
{
	return n;
}

/* TokenBucket::time_for of crates/core/src/structures/bucket.rs */
TWIN_INLINE option_units_instant bucket_token_bucket_time_for(const bucket_token_bucket *self, units_instant now, units_bytes bytes)
{
	s64 t = bucket_cost(bytes);
	s64 cost = min_s64(t, self->depth);
	u64 missing = wrapping_sub_u64(((u64)cost), ((u64)self->level));
	bool t_4 = (self->level >= cost);
	if (!t_4) {
		u64 t_3 = bucket_token_bucket_earned(self, now);
		t_4 = (t_3 >= missing);
	}
	if (t_4) {
		return (option_units_instant){ .some = true, .value = max_u64(self->updated, now) };
	}
	bool t_6 = units_rate_is_zero(self->rate);
	if (t_6) {
		return (option_units_instant){0};
	}
	u64 t_7 = units_rate_as_bps(self->rate);
	units_span t_8 = units_span_from_nanos(div_ceil_u64(missing, t_7));
	units_span wait = t_8;
	units_instant t_9 = units_instant_add_span(self->updated, wait);
	return (option_units_instant){ .some = true, .value = max_u64(t_9, now) };
}

/* TokenBucket::time_of of crates/core/src/structures/bucket.rs */
TWIN_INLINE option_units_instant bucket_token_bucket_time_of(const bucket_token_bucket *self, units_instant now, units_bytes bytes)
{
	s64 t = bucket_cost(bytes);
	s64 cost = t;
	if (cost > self->depth) {
		return (option_units_instant){0};
	}
	if (self->level >= cost) {
		return (option_units_instant){ .some = true, .value = max_u64(self->updated, now) };
	}
	bool t_5 = units_rate_is_zero(self->rate);
	if (t_5) {
		return (option_units_instant){0};
	}
	u64 missing = wrapping_sub_u64(((u64)cost), ((u64)self->level));
	u64 t_6 = units_rate_as_bps(self->rate);
	units_span t_7 = units_span_from_nanos(div_ceil_u64(missing, t_6));
	units_span wait = t_7;
	units_instant t_8 = units_instant_add_span(self->updated, wait);
	return (option_units_instant){ .some = true, .value = max_u64(t_8, now) };
}

/* TokenBucket::used of crates/core/src/structures/bucket.rs */
TWIN_INLINE units_bytes bucket_token_bucket_used(const bucket_token_bucket *self, units_instant now)
{
	s64 t_2 = self->level;
	s64 t_3 = self->depth;
	u64 t = bucket_token_bucket_earned(self, now);
	s64 t_4 = bucket_filled(t_2, t_3, t);
	s64 level = t_4;
	units_bytes t_5 = units_bytes_new(div_ceil_u64(wrapping_sub_u64(((u64)self->depth), ((u64)level)), credit_per_byte()));
	return t_5;
}

/* Rate::from_bps of crates/units/src/quantity.rs */
TWIN_INLINE units_rate units_rate_from_bps(u64 n)
{
	return n;
}

/* FIRST_DEPTH of crates/core/src/qdisc/cake/tins.rs */
TWIN_INLINE u64 cake_first_depth(void)
{
	return ((u64)(8ull * 50ull));
}

/* first_share of crates/core/src/qdisc/cake/tins.rs */
TWIN_INLINE bucket_token_bucket cake_first_share(units_rate rate, u32 sixteenths)
{
	u64 t = units_rate_as_bps(rate);
	units_rate t_2 = units_rate_from_bps(saturating_mul_u64(((u64)(t / 16ull)), ((u64)sixteenths)));
	units_rate rate_2 = t_2;
	u64 t_3 = units_rate_as_bps(rate_2);
	u64 depth = max_u64(((u64)(t_3 / cake_first_depth())), 3000ull);
	units_bytes t_4 = units_bytes_new(depth);
	bucket_token_bucket t_5 = bucket_token_bucket_full(rate_2, t_4, units_instant_zero());
	return t_5;
}

/* Wire::one of crates/core/src/qdisc/cake/wire.rs */
TWIN_INLINE u64 cake_wire_one(const cake_wire *self, u64 size)
{
	u64 overhead = unsigned_abs_s64(((s64)self->overhead));
	u64 t;
	if (self->overhead < 0) {
		t = saturating_sub_u64(size, overhead);
	} else {
		t = saturating_add_u64(size, overhead);
	}
	u64 whole = t;
	u64 t_2 = units_bytes_as_u64(self->least);
	u64 size_2 = max_u64(whole, t_2);
	cake_framing t_3 = self->framing;
	u64 t_4;
	if (t_3 == CAKE_FRAMING_NONE) {
		t_4 = size_2;
	} else if (t_3 == CAKE_FRAMING_ATM) {
		t_4 = ((u64)(div_ceil_u64(size_2, 48ull) * 53ull));
	} else {
		t_4 = ((u64)(size_2 + div_ceil_u64(size_2, 64ull)));
	}
	return t_4;
}

/* Wire::bytes of crates/core/src/qdisc/cake/wire.rs */
TWIN_INLINE units_bytes cake_wire_bytes(const cake_wire *self, units_bytes size, u32 segments)
{
	if (segments <= 1u) {
		u64 t_2 = units_bytes_as_u64(size);
		u64 t_3 = cake_wire_one(self, t_2);
		units_bytes t_4 = units_bytes_new(t_3);
		return t_4;
	}
	u64 before = ((u64)(((u64)segments) - 1ull));
	u64 t_5 = units_bytes_as_u64(size);
	u64 full = div_ceil_u64(t_5, ((u64)segments));
	u64 t_6 = units_bytes_as_u64(size);
	u64 last = saturating_sub_u64(t_6, ((u64)(full * before)));
	u64 t_7 = cake_wire_one(self, full);
	u64 t_8 = cake_wire_one(self, last);
	units_bytes t_9 = units_bytes_new(((u64)(((u64)(t_7 * before)) + t_8)));
	return t_9;
}

/* PART of crates/core/src/qdisc/cbq/turn.rs */
TWIN_INLINE u64 cbq_part(void)
{
	return ((u64)(1ull << 16u));
}

/* work of crates/core/src/structures/credit.rs */
TWIN_INLINE u128 credit_work(u64 a, u64 b)
{
	return ((u128)(((u128)(((u128)mul_high_u64(a, b)) << 64u)) | ((u128)wrapping_mul_u64(a, b))));
}

/* MOST of crates/core/src/qdisc/cbq/turn.rs */
TWIN_INLINE u64 cbq_most(void)
{
	return ((u64)((s64)(S64_MAX >> 2u)));
}

/* allotment of crates/core/src/qdisc/cbq/turn.rs */
TWIN_INLINE s64 cbq_allotment(units_bytes mtu, u64 leaves, u64 rates, units_rate rate)
{
	u64 t = units_bytes_as_u64(mtu);
	u64 round = saturating_mul_u64(saturating_mul_u64(t, leaves), cbq_part());
	u64 t_2 = units_rate_as_bps(rate);
	u128 t_3 = credit_work(round, t_2);
	u128 share = t_3;
	u64 part = halves_div_ceil_u64(((u64)((u128)(share >> 64u))), ((u64)share), max_u64(rates, 1ull));
	return ((s64)clamp_u64(part, 1ull, cbq_most()));
}

/* LinkUse::earliest_release of crates/core/src/qdisc/cbq/link.rs */
TWIN_INLINE units_instant cbq_link_use_earliest_release(const cbq_link_use *self, const cbq_params *params)
{
	cbq_lead t = params->lead;
	units_instant t_2;
	if (t.kind == CBQ_LEAD_UNBOUNDED) {
		t_2 = units_instant_zero();
	} else {
		units_span lead = t.within;
		units_instant t_3 = units_instant_saturating_sub(self->free, lead);
		t_2 = t_3;
	}
	return t_2;
}

/* LinkUse::idle_until of crates/core/src/qdisc/cbq/link.rs */
TWIN_INLINE void cbq_link_use_idle_until(cbq_link_use *self, units_instant until)
{
	if (until > self->free) {
		self->free = until;
		self->rest = 0ull;
	}
}

/* LinkUse::rescue_from of crates/core/src/qdisc/cbq/link.rs */
TWIN_INLINE option_units_instant cbq_link_use_rescue_from(const cbq_link_use *self, const cbq_params *params, units_instant now)
{
	cbq_conserving t = params->conserving;
	option_units_instant t_2;
	if (t == CBQ_CONSERVING_STRICT) {
		t_2 = (option_units_instant){0};
	} else if (t == CBQ_CONSERVING_EFFICIENT) {
		t_2 = (option_units_instant){ .some = true, .value = now };
	} else {
		t_2 = (option_units_instant){ .some = true, .value = self->free };
	}
	return t_2;
}

/* time_of of crates/core/src/structures/credit.rs */
TWIN_INLINE units_span credit_time_of(u128 credit, units_rate rate)
{
	u64 t = units_rate_as_bps(rate);
	units_span t_2 = units_span_from_nanos(halves_div_ceil_u64(((u64)((u128)(credit >> 64u))), ((u64)credit), t));
	return t_2;
}

/* Span::add of crates/units/src/quantity.rs */
TWIN_INLINE units_span units_span_add_span(units_span self, units_span other)
{
	return saturating_add_u64(self, other);
}

/* LinkUse::tick of crates/core/src/qdisc/cbq/link.rs */
TWIN_INLINE units_instant cbq_link_use_tick(cbq_link_use *self, const cbq_params *params, units_instant now, units_bytes size)
{
	units_instant t = units_instant_saturating_sub(now, params->catch_up);
	cbq_link_use_idle_until(self, t);
	u64 t_2 = units_bytes_as_u64(size);
	u128 t_3 = credit_work(t_2, credit_per_byte());
	u128 cost = t_3;
	u128 rest = ((u128)self->rest);
	units_span t_4 = credit_time_of(saturating_sub_u128(cost, rest), params->link);
	units_span on_link = t_4;
	units_instant t_5 = units_instant_add_span(self->free, on_link);
	units_instant finish = t_5;
	cbq_lead t_6 = params->lead;
	units_span t_7;
	if (t_6.kind == CBQ_LEAD_WITHIN) {
		units_span lead = t_6.within;
		t_7 = lead;
	} else {
		t_7 = units_span_zero();
	}
	units_span lead_2 = t_7;
	cbq_link_clock t_8 = params->link_clock;
	units_instant t_9;
	if (t_8.kind == CBQ_LINK_CLOCK_RESET) {
		units_span most = t_8.reset;
		units_instant t_11 = units_instant_add_span(now, most);
		units_instant t_10;
		if (finish > t_11) {
			t_10 = now;
		} else {
			t_10 = finish;
		}
		t_9 = t_10;
	} else {
		units_span most_2 = t_8.clamp;
		units_span t_12 = units_span_add_span(lead_2, on_link);
		units_instant t_13 = units_instant_add_span(now, max_u64(most_2, t_12));
		t_9 = min_u64(finish, t_13);
	}
	self->free = t_9;
	estimator_accounting t_14 = params->accounting;
	bool t_15;
	if (t_14.kind == ESTIMATOR_ACCOUNTING_BYTES) {
		t_15 = true;
	} else {
		t_15 = false;
	}
	bool in_bytes = t_15;
	u64 t_16 = units_rate_as_bps(params->link);
	u64 t_17 = units_span_as_nanos(on_link);
	u128 t_18 = credit_work(t_16, t_17);
	u128 sendable = ((u128)(t_18 + rest));
	u64 t_19;
	if (in_bytes && (self->free == finish)) {
		t_19 = ((u64)saturating_sub_u128(sendable, cost));
	} else {
		t_19 = 0ull;
	}
	self->rest = t_19;
	return self->free;
}

/* HIGHEST of crates/core/src/qdisc/cbq/params.rs */
TWIN_INLINE u8 cbq_highest(void)
{
	return 31;
}

/* Sharing::highest of crates/core/src/qdisc/cbq/params.rs */
TWIN_INLINE u8 cbq_sharing_highest(cbq_sharing self, u8 level, u8 lowest)
{
	cbq_sharing t = self;
	u8 t_2;
	if (t.kind == CBQ_SHARING_FORMAL) {
		t_2 = lowest;
	} else if (t.kind == CBQ_SHARING_ANCESTOR_ONLY) {
		t_2 = cbq_highest();
	} else {
		t_2 = level;
	}
	return t_2;
}

/* Sharing::level_on_arrival of crates/core/src/qdisc/cbq/params.rs */
TWIN_INLINE u8 cbq_sharing_level_on_arrival(cbq_sharing self, u8 level, option_u8 lender)
{
	cbq_sharing t = self;
	u8 t_2;
	if (t.kind == CBQ_SHARING_TOP_LEVEL) {
		option_u8 t_3 = lender;
		u8 t_4;
		if (t_3.some) {
			u8 lender_2 = t_3.value;
			u8 t_5;
			if (lender_2 < level) {
				t_5 = lender_2;
			} else {
				t_5 = level;
			}
			t_4 = t_5;
		} else {
			t_4 = level;
		}
		t_2 = t_4;
	} else if (t.kind == CBQ_SHARING_FORMAL) {
		t_2 = level;
	} else {
		t_2 = level;
	}
	return t_2;
}

/* Sharing::level_once_sent of crates/core/src/qdisc/cbq/params.rs */
TWIN_INLINE u8 cbq_sharing_level_once_sent(cbq_sharing self, u8 level, bool ready, option_u8 lender)
{
	cbq_sharing t = self;
	u8 t_2;
	if (t.kind == CBQ_SHARING_TOP_LEVEL) {
		cbq_heuristic heuristic = t.top_level;
		cbq_heuristic t_3 = heuristic;
		u8 t_4;
		if (t_3 == CBQ_HEURISTIC_FLOYD1995) {
			option_u8 t_5 = lender;
			u8 t_6;
			if (t_5.some) {
				u8 lender_2 = t_5.value;
				u8 t_7;
				if (ready && (lender_2 <= level)) {
					t_7 = level;
				} else {
					t_7 = cbq_highest();
				}
				t_6 = t_7;
			} else {
				t_6 = cbq_highest();
			}
			t_4 = t_6;
		} else {
			t_4 = level;
		}
		t_2 = t_4;
	} else if (t.kind == CBQ_SHARING_FORMAL) {
		t_2 = level;
	} else {
		t_2 = level;
	}
	return t_2;
}

/* Sharing::level_to_send of crates/core/src/qdisc/cbq/params.rs */
TWIN_INLINE u8 cbq_sharing_level_to_send(cbq_sharing self, u8 level, u8 lowest)
{
	cbq_sharing t = self;
	u8 t_2;
	if (t.kind == CBQ_SHARING_TOP_LEVEL) {
		cbq_heuristic heuristic = t.top_level;
		u8 t_3;
		if (lowest <= level) {
			t_3 = level;
		} else {
			cbq_heuristic t_4 = heuristic;
			u8 t_5;
			if (t_4 == CBQ_HEURISTIC_FLOYD1995) {
				t_5 = cbq_highest();
			} else {
				t_5 = lowest;
			}
			t_3 = t_5;
		}
		t_2 = t_3;
	} else if (t.kind == CBQ_SHARING_FORMAL) {
		t_2 = level;
	} else {
		t_2 = level;
	}
	return t_2;
}

/* Turn::catch_up of crates/core/src/qdisc/cbq/turn.rs */
TWIN_INLINE void cbq_turn_catch_up(cbq_turn *self, u64 current, s64 allotment)
{
	if ((self->round < current) || (self->left <= 0ll)) {
		self->left = allotment;
		self->round = max_u64(self->round, current);
	}
}

/* Turn::set of crates/core/src/qdisc/cbq/turn.rs */
TWIN_INLINE void cbq_turn_set(cbq_turn *self, cbq_general general, u64 current, s64 allotment, s64 turns)
{
	u64 t;
	if (turns < 0ll) {
		t = unsigned_abs_s64(turns);
	} else {
		t = 0ull;
	}
	u64 owed = t;
	u64 one = ((u64)allotment);
	self->left = allotment;
	self->round = saturating_add_u64(current, owed);
	cbq_general t_2 = general;
	if (t_2 == CBQ_GENERAL_PACKET_ROUND_ROBIN) {
	} else {
		if (turns > 0ll) {
			self->left = min_s64(turns, allotment);
			self->round = current;
		} else {
			self->left = ((s64)((u64)(one - ((u64)(owed % one)))));
			self->round = saturating_add_u64(current, ((u64)(((u64)(owed / one)) + 1ull)));
		}
	}
}

/* Turn::take of crates/core/src/qdisc/cbq/turn.rs */
TWIN_INLINE void cbq_turn_take(cbq_turn *self, cbq_general general, s64 allotment, units_bytes size)
{
	cbq_general t = general;
	if (t == CBQ_GENERAL_PACKET_ROUND_ROBIN) {
		self->round = ((u64)(self->round + 1ull));
	} else {
		u64 t_3 = units_bytes_as_u64(size);
		u64 sent = min_u64(saturating_mul_u64(t_3, cbq_part()), ((u64)S64_MAX));
		self->left = saturating_sub_s64(self->left, ((s64)sent));
		if (self->left <= 0ll) {
			u64 rounds = ((u64)(((u64)(unsigned_abs_s64(self->left) / ((u64)allotment))) + 1ull));
			self->left = add_s64(self->left, mul_s64(((s64)rounds), allotment));
			self->round = ((u64)(self->round + rounds));
		}
	}
}

/* Turn::turns of crates/core/src/qdisc/cbq/turn.rs */
TWIN_INLINE s64 cbq_turn_turns(const cbq_turn *self, cbq_general general, u64 current, s64 allotment)
{
	if ((self->round < current) || (self->left <= 0ll)) {
		return allotment;
	}
	u64 ahead = ((u64)(self->round - current));
	cbq_general t_2 = general;
	s64 t_3;
	if (t_2 == CBQ_GENERAL_PACKET_ROUND_ROBIN) {
		t_3 = sub_s64(0ll, ((s64)min_u64(ahead, cbq_most())));
	} else {
		t_3 = saturating_sub_s64(self->left, ((s64)min_u64(saturating_mul_u64(ahead, ((u64)allotment)), ((u64)S64_MAX))));
	}
	return t_3;
}

/* FACTOR_LOW of crates/core/src/random.rs */
TWIN_INLINE u64 random_factor_low(void)
{
	return 4865540595714422341ull;
}

/* FACTOR_HIGH of crates/core/src/random.rs */
TWIN_INLINE u64 random_factor_high(void)
{
	return 2549297995355413924ull;
}

/* Stream::advance of crates/core/src/random.rs */
TWIN_INLINE void random_stream_advance(random_stream *self)
{
	u64 product = wrapping_mul_u64(self->low, random_factor_low());
	u64 cross = wrapping_add_u64(wrapping_mul_u64(self->high, random_factor_low()), wrapping_mul_u64(self->low, random_factor_high()));
	u64 high = wrapping_add_u64(mul_high_u64(self->low, random_factor_low()), cross);
	self->low = wrapping_add_u64(product, self->step_low);
	self->high = wrapping_add_u64(wrapping_add_u64(high, self->step_high), ((u64)(self->low < product)));
}

/* Stream::next_u64 of crates/core/src/random.rs */
TWIN_INLINE u64 random_stream_next_u64(random_stream *self)
{
	random_stream_advance(self);
	return rotate_right_u64(((u64)(self->high ^ self->low)), ((u32)((u64)(self->high >> 58u))));
}

/* Stream::chance of crates/core/src/random.rs */
TWIN_INLINE bool random_stream_chance(random_stream *self, u64 numerator)
{
	u64 t = random_stream_next_u64(self);
	return (((u64)(t >> 32u)) < numerator);
}

/* State::is_unlucky of crates/core/src/qdisc/cake/cobalt.rs */
TWIN_INLINE bool cobalt_state_is_unlucky(const cobalt_state *self, random_stream *random, bool last)
{
	bool t_2 = ((self->probability > 0u) && !last);
	if (t_2) {
		bool t = random_stream_chance(random, ((u64)self->probability));
		t_2 = t;
	}
	return t_2;
}

/* State::on_arrival of crates/core/src/qdisc/cake/cobalt.rs */
TWIN_INLINE void cobalt_state_on_arrival(cobalt_state *self, const codel_params *params, units_instant now)
{
	option_units_instant t = self->empty_since;
	if (!t.some) {
		return;
	}
	units_instant since = t.value;
	self->empty_since = (option_units_instant){0};
	units_instant t_2 = units_instant_add_span(self->blue_at, params->target);
	units_instant first = max_u64(since, t_2);
	if ((self->probability == 0u) || (now < first)) {
		return;
	}
	units_span t_4 = units_instant_since(now, first);
	u64 t_5 = units_span_as_nanos(t_4);
	u64 t_6 = units_span_as_nanos(params->target);
	u64 steps = ((u64)(1ull + ((u64)(t_5 / max_u64(t_6, 1ull)))));
	units_span t_7 = units_span_saturating_mul(params->target, ((u64)(steps - 1ull)));
	units_instant t_8 = units_instant_add_span(first, t_7);
	self->blue_at = t_8;
	u64 fall = min_u64(saturating_mul_u64(steps, ((u64)(1ull << 20u))), ((u64)U32_MAX));
	self->probability = saturating_sub_u32(self->probability, ((u32)fall));
}

/* State::on_empty of crates/core/src/qdisc/cake/cobalt.rs */
TWIN_INLINE void cobalt_state_on_empty(cobalt_state *self, units_instant now)
{
	self->empty_since = (option_units_instant){ .some = true, .value = now };
	self->dropping = false;
}

/* State::on_overflow of crates/core/src/qdisc/cake/cobalt.rs */
TWIN_INLINE void cobalt_state_on_overflow(cobalt_state *self, const codel_params *params, units_instant now)
{
	units_span t_2 = units_instant_since(now, self->blue_at);
	if (t_2 >= params->target) {
		self->blue_at = now;
		self->probability = saturating_add_u32(self->probability, ((u32)(1u << 24u)));
	}
}

/* MOST_DROPS_A_CALL of crates/core/src/aqm/codel.rs */
TWIN_INLINE u32 codel_most_drops_a_call(void)
{
	return 32u;
}

/* Params::spacing of crates/core/src/aqm/codel.rs */
TWIN_INLINE units_span codel_params_spacing(const codel_params *self, u32 count)
{
	u64 t = units_span_as_nanos(self->interval);
	u64 interval = t;
	units_span t_2 = units_span_from_nanos(isqrt_u64(((u64)(((u64)(interval * interval)) / ((u64)max_u32(count, 1u))))));
	return t_2;
}

/* Instant::add_assign of crates/units/src/quantity.rs */
TWIN_INLINE void units_instant_add_assign_span(units_instant *self, units_span span)
{
	units_instant t = units_instant_add_span((*self), span);
	(*self) = t;
}

/* State::count_down of crates/core/src/qdisc/cake/cobalt.rs */
TWIN_INLINE void cobalt_state_count_down(cobalt_state *self, const codel_params *params, units_instant now)
{
	u32 t = 0u;
	u32 t_2 = codel_most_drops_a_call();
	TWIN_FOR(u32, i, t, t_2) {
		if ((self->count == 0u) || (now < self->drop_next)) {
			return;
		}
		self->count = ((u32)(self->count - 1u));
		units_span t_4 = codel_params_spacing(params, self->count);
		units_instant_add_assign_span(&self->drop_next, t_4);
	}
	if (now < self->drop_next) {
		return;
	}
	units_span t_6 = units_instant_since(now, self->drop_next);
	u64 t_7 = units_span_as_nanos(t_6);
	u64 t_8 = units_span_as_nanos(params->interval);
	u64 fallen = mul_div_u64(t_7, ((u64)(1ull << 15u)), t_8);
	u64 root = saturating_sub_u64(isqrt_u64(((u64)(((u64)self->count) << 32u))), fallen);
	self->count = ((u32)div_ceil_u64(((u64)(root * root)), ((u64)(1ull << 32u))));
	units_span t_9 = codel_params_spacing(params, self->count);
	units_instant t_10 = units_instant_add_span(now, t_9);
	self->drop_next = t_10;
}

/* State::signals of crates/core/src/qdisc/cake/cobalt.rs */
TWIN_INLINE bool cobalt_state_signals(cobalt_state *self, const codel_params *params, units_instant at, bool more, units_instant now)
{
	units_span t = units_instant_since(now, at);
	bool above = ((t >= params->target) && more);
	if (!(above && self->dropping)) {
		cobalt_state_count_down(self, params, now);
	}
	if (!above) {
		self->dropping = false;
		return false;
	}
	if (!self->dropping) {
		self->dropping = true;
		self->count = max_u32(self->count, 1u);
		units_span t_5 = codel_params_spacing(params, self->count);
		units_instant t_6 = units_instant_add_span(now, t_5);
		self->drop_next = t_6;
	}
	if (now < self->drop_next) {
		return false;
	}
	self->count = saturating_add_u32(self->count, 1u);
	units_span t_8 = codel_params_spacing(params, self->count);
	units_instant_add_assign_span(&self->drop_next, t_8);
	return true;
}

/* State::observe of crates/core/src/aqm/codel.rs */
TWIN_INLINE bool codel_state_observe(codel_state *self, const codel_params *params, units_instant now, units_span waited, units_bytes left)
{
	if ((waited < params->target) || (left <= params->mtu)) {
		self->first_above = (option_units_instant){0};
		return false;
	}
	option_units_instant t_2 = self->first_above;
	bool t_3;
	if (!t_2.some) {
		units_instant t_4 = units_instant_add_span(now, params->interval);
		self->first_above = (option_units_instant){ .some = true, .value = t_4 };
		t_3 = false;
	} else {
		units_instant at = t_2.value;
		t_3 = (now >= at);
	}
	return t_3;
}

/* State::is_overdue of crates/core/src/aqm/codel.rs */
TWIN_INLINE bool codel_state_is_overdue(const codel_state *self, const codel_params *params, units_instant now, units_span waited)
{
	option_units_span t = params->longest;
	if (!t.some) {
		return false;
	}
	units_span longest = t.value;
	option_units_instant t_2 = self->first_above;
	if (!t_2.some) {
		return false;
	}
	units_instant above = t_2.value;
	bool t_4 = (waited > longest);
	if (t_4) {
		units_instant t_3 = units_instant_add_span(above, params->interval);
		t_4 = (now >= t_3);
	}
	return t_4;
}

/* State::enter of crates/core/src/aqm/codel.rs */
TWIN_INLINE void codel_state_enter(codel_state *self, const codel_params *params, units_instant now)
{
	self->dropping = true;
	u32 delta = saturating_sub_u32(self->count, self->last_count);
	units_span t = units_instant_since(now, self->drop_next);
	units_span t_2 = units_span_saturating_mul(params->interval, 16ull);
	bool recent = (t < t_2);
	u32 t_3;
	if ((delta > 1u) && recent) {
		t_3 = delta;
	} else {
		t_3 = 1u;
	}
	self->count = t_3;
	self->last_count = self->count;
	units_span t_4 = codel_params_spacing(params, self->count);
	units_instant t_5 = units_instant_add_span(now, t_4);
	self->drop_next = t_5;
}

/* State::decide of crates/core/src/aqm/codel.rs */
TWIN_INLINE codel_action codel_state_decide(codel_state *self, const codel_params *params, codel_stats *stats, codel_call *call, units_instant now, units_span waited, units_bytes left)
{
	bool t = codel_state_observe(self, params, now, waited, left);
	bool may_drop = t;
	codel_phase t_2 = call->phase;
	if (t_2 == CODEL_PHASE_FIRST) {
		bool t_6 = (call->drops < ((u32)(codel_most_drops_a_call() / 2u)));
		if (t_6) {
			bool t_5 = codel_state_is_overdue(self, params, now, waited);
			t_6 = t_5;
		}
		if (t_6) {
			call->drops = ((u32)(call->drops + 1u));
			return CODEL_ACTION_DROP;
		}
		if (!self->dropping) {
			if (!may_drop) {
				return CODEL_ACTION_SEND;
			}
			codel_state_enter(self, params, now);
			stats->episodes = ((u64)(stats->episodes + 1ull));
			call->phase = CODEL_PHASE_LAST;
			return CODEL_ACTION_SIGNAL;
		}
		call->phase = CODEL_PHASE_EPISODE;
	} else if (t_2 == CODEL_PHASE_EPISODE) {
		if (may_drop) {
			units_span t_10 = codel_params_spacing(params, self->count);
			units_instant_add_assign_span(&self->drop_next, t_10);
		}
	} else {
		return CODEL_ACTION_SEND;
	}
	self->dropping = may_drop;
	if ((!may_drop || (now < self->drop_next)) || (call->drops >= codel_most_drops_a_call())) {
		return CODEL_ACTION_SEND;
	}
	call->drops = ((u32)(call->drops + 1u));
	self->count = saturating_add_u32(self->count, 1u);
	return CODEL_ACTION_SIGNAL;
}

/* State::marked of crates/core/src/aqm/codel.rs */
TWIN_INLINE void codel_state_marked(codel_state *self, const codel_params *params, const codel_call *call)
{
	if (call->phase == CODEL_PHASE_EPISODE) {
		units_span t_2 = codel_params_spacing(params, self->count);
		units_instant_add_assign_span(&self->drop_next, t_2);
	}
}

/* State::ran_empty of crates/core/src/aqm/codel.rs */
TWIN_INLINE void codel_state_ran_empty(codel_state *self, const codel_call *call)
{
	self->first_above = (option_units_instant){0};
	if (call->phase != CODEL_PHASE_LAST) {
		self->dropping = false;
	}
}

/* State::chooses_low of crates/core/src/qdisc/dualpi2/decider.rs */
TWIN_INLINE bool decider_state_chooses_low(const decider_state *self, const dualpi2_params *params, option_decider_head low, option_decider_head classic)
{
	option_decider_head t = low;
	if (!t.some) {
		return false;
	}
	decider_head low_2 = t.value;
	option_decider_head t_2 = classic;
	if (!t_2.some) {
		return true;
	}
	decider_head classic_2 = t_2.value;
	if (classic_2.sanctioned && (low_2.arrived <= classic_2.arrived)) {
		return true;
	}
	dualpi2_scheduler t_4 = params->scheduler;
	bool t_5;
	if (t_4.kind == DUALPI2_SCHEDULER_TIME_SHIFTED) {
		units_span shift = t_4.time_shifted_shift;
		units_instant t_6 = units_instant_add_span(classic_2.arrived, shift);
		t_5 = (low_2.arrived <= t_6);
	} else {
		u32 parts = t_4.weighted_parts;
		u64 t_8 = self->credit;
		u64 t_7 = units_bytes_as_u64(classic_2.size);
		t_5 = (t_8 < ((u64)(((u64)((u32)(parts - 1u))) * t_7)));
	}
	return t_5;
}

/* State::squared of crates/core/src/qdisc/dualpi2/decider.rs */
TWIN_INLINE u64 decider_state_squared(const decider_state *self)
{
	return self->squared;
}

/* ONE of crates/core/src/aqm/step.rs */
TWIN_INLINE u64 step_one(void)
{
	return 1000000000000ull;
}

/* recur of crates/core/src/qdisc/dualpi2/decider.rs */
TWIN_INLINE bool decider_recur(u64 *count, u64 likelihood)
{
	(*count) = ((u64)((*count) + likelihood));
	bool due = ((*count) >= step_one());
	if (due) {
		(*count) = ((u64)((*count) - step_one()));
	}
	return due;
}

/* State::coupled of crates/core/src/qdisc/dualpi2/decider.rs */
TWIN_INLINE u64 decider_state_coupled(const decider_state *self, const dualpi2_params *params)
{
	return min_u64(((u64)(self->base * ((u64)params->coupling))), step_one());
}

/* State::is_overloaded of crates/core/src/qdisc/dualpi2/decider.rs */
TWIN_INLINE bool decider_state_is_overloaded(const decider_state *self, const dualpi2_params *params)
{
	u64 t = decider_state_coupled(self, params);
	return (t == step_one());
}

/* State::classic of crates/core/src/qdisc/dualpi2/decider.rs */
TWIN_INLINE codel_action decider_state_classic(decider_state *self, const dualpi2_params *params)
{
	u64 t = decider_state_squared(self);
	u64 squared = t;
	bool t_3 = decider_recur(&self->classic, squared);
	codel_action t_2;
	if (!t_3) {
		t_2 = CODEL_ACTION_SEND;
	} else {
		bool t_5 = decider_state_is_overloaded(self, params);
		codel_action t_4;
		if (t_5) {
			t_4 = CODEL_ACTION_DROP;
		} else {
			t_4 = CODEL_ACTION_SIGNAL;
		}
		t_2 = t_4;
	}
	return t_2;
}

/* Counts::decide of crates/core/src/qdisc/dualpi2/decider.rs */
TWIN_INLINE codel_action decider_counts_decide(decider_counts *self, u64 mark, u64 drop, bool overloaded, bool scalable)
{
	bool t_3 = overloaded;
	if (t_3) {
		bool t_2 = decider_recur(&self->drops, drop);
		t_3 = t_2;
	}
	codel_action t;
	if (t_3) {
		t = CODEL_ACTION_DROP;
	} else {
		bool t_7 = scalable;
		if (t_7) {
			bool t_6 = overloaded;
			if (!t_6) {
				bool t_5 = decider_recur(&self->marks, mark);
				t_6 = t_5;
			}
			t_7 = t_6;
		}
		codel_action t_4;
		if (t_7) {
			t_4 = CODEL_ACTION_SIGNAL;
		} else {
			t_4 = CODEL_ACTION_SEND;
		}
		t = t_4;
	}
	return t;
}

/* State::low_latency of crates/core/src/qdisc/dualpi2/decider.rs */
TWIN_INLINE codel_action decider_state_low_latency(decider_state *self, const dualpi2_params *params, u64 native, bool scalable)
{
	u64 t = decider_state_coupled(self, params);
	u64 mark = max_u64(native, t);
	u64 t_3 = self->squared;
	bool t_2 = decider_state_is_overloaded(self, params);
	codel_action t_4 = decider_counts_decide(&self->low, mark, t_3, t_2, scalable);
	return t_4;
}

/* State::new of crates/core/src/qdisc/dualpi2/decider.rs */
TWIN_INLINE decider_state decider_state_new(const dualpi2_params *params)
{
	units_instant t = units_instant_add_span(units_instant_zero(), params->update);
	return (decider_state){ .base = 0ull, .squared = 0ull, .delay = units_span_zero(), .next_update = t, .low = (decider_counts){0}, .sanctioned = (decider_counts){0}, .classic = 0ull, .credit = 0ull };
}

/* State::returning of crates/core/src/qdisc/dualpi2/decider.rs */
TWIN_INLINE codel_action decider_state_returning(decider_state *self, const dualpi2_params *params, u64 native, bool scalable)
{
	u64 t = decider_state_coupled(self, params);
	u64 mark = max_u64(native, t);
	u64 t_3 = self->squared;
	bool t_2 = decider_state_is_overloaded(self, params);
	codel_action t_4 = decider_counts_decide(&self->sanctioned, mark, t_3, t_2, scalable);
	return t_4;
}

/* State::sanctioned of crates/core/src/qdisc/dualpi2/decider.rs */
TWIN_INLINE codel_action decider_state_sanctioned(decider_state *self, const dualpi2_params *params, bool scalable)
{
	if (!scalable) {
		codel_action t_2 = decider_state_classic(self, params);
		return t_2;
	}
	u64 t_3 = decider_state_coupled(self, params);
	u64 t_5 = self->squared;
	bool t_4 = decider_state_is_overloaded(self, params);
	codel_action t_6 = decider_counts_decide(&self->sanctioned, t_3, t_5, t_4, true);
	return t_6;
}

/* MOST of crates/core/src/qdisc/dualpi2/decider.rs */
TWIN_INLINE u64 decider_most(void)
{
	return ((u64)(1ull << 44u));
}

/* mul_div_up of crates/core/src/aqm/step.rs */
TWIN_INLINE u64 step_mul_div_up(u64 a, u64 b, u64 c)
{
	u64 down = mul_div_u64(a, b, c);
	return saturating_add_u64(down, ((u64)(wrapping_mul_u64(down, c) != wrapping_mul_u64(a, b))));
}

/* State::set_base of crates/core/src/qdisc/dualpi2/decider.rs */
TWIN_INLINE void decider_state_set_base(decider_state *self, u64 base)
{
	if (base != self->base) {
		self->base = base;
		u64 t_2 = step_mul_div_up(base, base, step_one());
		self->squared = t_2;
	}
}

/* delay_at of crates/core/src/qdisc/dualpi2/decider.rs */
TWIN_INLINE units_span decider_delay_at(units_instant instant, option_units_instant oldest)
{
	option_units_instant t = oldest;
	units_span t_2;
	if (t.some) {
		units_instant arrived = t.value;
		units_span t_3 = units_instant_since(instant, arrived);
		t_2 = t_3;
	} else {
		t_2 = units_span_zero();
	}
	return t_2;
}

/* State::skip_missed of crates/core/src/qdisc/dualpi2/decider.rs */
TWIN_INLINE void decider_state_skip_missed(decider_state *self, const dualpi2_params *params, units_instant now, option_units_instant oldest)
{
	if (self->next_update > now) {
		return;
	}
	units_span t_2 = units_instant_since(now, self->next_update);
	u64 t_3 = units_span_as_nanos(t_2);
	u64 t_4 = units_span_as_nanos(params->update);
	u64 missed = ((u64)(((u64)(t_3 / t_4)) + 1ull));
	if (!oldest.some) {
		u64 t_7 = ((u64)params->alpha);
		u64 t_6 = units_span_as_nanos(params->target);
		u64 error = ((u64)(t_7 * min_u64(t_6, decider_most())));
		decider_state_set_base(self, saturating_sub_u64(self->base, saturating_mul_u64(error, missed)));
	}
	units_instant t_9 = self->next_update;
	units_span t_8 = units_span_saturating_mul(params->update, ((u64)(missed - 1ull)));
	units_instant t_10 = units_instant_add_span(t_9, t_8);
	units_span t_11 = decider_delay_at(t_10, oldest);
	self->delay = t_11;
	units_span t_12 = units_span_saturating_mul(params->update, missed);
	units_instant_add_assign_span(&self->next_update, t_12);
}

/* State::took of crates/core/src/qdisc/dualpi2/decider.rs */
TWIN_INLINE void decider_state_took(decider_state *self, const dualpi2_params *params, bool from_low, units_bytes size, bool other_waits)
{
	dualpi2_scheduler t = params->scheduler;
	if (t.kind == DUALPI2_SCHEDULER_TIME_SHIFTED) {
	} else {
		u32 parts = t.weighted_parts;
		u64 t_3 = units_bytes_as_u64(size);
		u64 bytes = t_3;
		u64 t_4;
		if (!other_waits) {
			t_4 = 0ull;
		} else {
			u64 t_5;
			if (from_low) {
				t_5 = saturating_add_u64(self->credit, bytes);
			} else {
				t_5 = saturating_sub_u64(self->credit, ((u64)(((u64)((u32)(parts - 1u))) * bytes)));
			}
			t_4 = t_5;
		}
		self->credit = t_4;
	}
}

/* Span::saturating_sub of crates/units/src/quantity.rs */
TWIN_INLINE units_span units_span_saturating_sub(units_span self, units_span other)
{
	return saturating_sub_u64(self, other);
}

/* difference of crates/core/src/qdisc/dualpi2/decider.rs */
TWIN_INLINE s64 decider_difference(units_span a, units_span b)
{
	s64 t;
	if (a >= b) {
		units_span t_2 = units_span_saturating_sub(a, b);
		u64 t_3 = units_span_as_nanos(t_2);
		t = ((s64)min_u64(t_3, decider_most()));
	} else {
		units_span t_4 = units_span_saturating_sub(b, a);
		u64 t_5 = units_span_as_nanos(t_4);
		t = sub_s64(0ll, ((s64)min_u64(t_5, decider_most())));
	}
	return t;
}

/* State::update of crates/core/src/qdisc/dualpi2/decider.rs */
TWIN_INLINE void decider_state_update(decider_state *self, const dualpi2_params *params, units_span delay)
{
	s64 t_2 = ((s64)params->alpha);
	s64 t = decider_difference(delay, params->target);
	s64 t_4 = ((s64)params->beta);
	s64 t_3 = decider_difference(delay, self->delay);
	s64 error = add_s64(mul_s64(t_2, t), mul_s64(t_4, t_3));
	u64 change = unsigned_abs_s64(error);
	u64 t_5;
	if (error > 0ll) {
		t_5 = min_u64(saturating_add_u64(self->base, change), step_one());
	} else {
		t_5 = saturating_sub_u64(self->base, change);
	}
	decider_state_set_base(self, t_5);
	self->delay = delay;
}

/* State::update_if_due of crates/core/src/qdisc/dualpi2/decider.rs */
TWIN_INLINE bool decider_state_update_if_due(decider_state *self, const dualpi2_params *params, units_instant now, option_units_instant oldest)
{
	if (self->next_update > now) {
		return false;
	}
	units_span before = self->delay;
	units_span t_2 = decider_delay_at(self->next_update, oldest);
	decider_state_update(self, params, t_2);
	units_instant_add_assign_span(&self->next_update, params->update);
	bool t_4 = (self->base == 0ull);
	if (t_4) {
		bool t_3 = units_span_is_zero(self->delay);
		t_4 = t_3;
	}
	bool t_6 = t_4;
	if (t_6) {
		bool t_5 = units_span_is_zero(before);
		t_6 = t_5;
	}
	bool at_rest = t_6;
	return !(at_rest || (((self->base == step_one()) && (self->delay > params->target)) && (self->delay >= before)));
}

/* Measure::of of crates/core/src/aqm/elephants.rs */
TWIN_INLINE units_bytes elephants_measure_of(elephants_measure self, units_bytes size)
{
	elephants_measure t = self;
	units_bytes t_2;
	if (t == ELEPHANTS_MEASURE_BYTES) {
		t_2 = size;
	} else {
		units_bytes t_3 = units_bytes_new(1ull);
		t_2 = t_3;
	}
	return t_2;
}

/* Bytes::add of crates/units/src/quantity.rs */
TWIN_INLINE units_bytes units_bytes_add_bytes(units_bytes self, units_bytes other)
{
	return saturating_add_u64(self, other);
}

/* Bytes::add_assign of crates/units/src/quantity.rs */
TWIN_INLINE void units_bytes_add_assign_bytes(units_bytes *self, units_bytes other)
{
	units_bytes t = units_bytes_add_bytes((*self), other);
	(*self) = t;
}

/* Flow::is_mouse of crates/core/src/aqm/elephants.rs */
TWIN_INLINE bool elephants_flow_is_mouse(const elephants_flow *self, const elephants_border *border)
{
	return (self->length <= border->longest_mouse);
}

/* Flow::arrive of crates/core/src/aqm/elephants.rs */
TWIN_INLINE bool elephants_flow_arrive(elephants_flow *self, const elephants_border *border, units_bytes size)
{
	units_bytes t = elephants_measure_of(border->measure, size);
	units_bytes_add_assign_bytes(&self->length, t);
	bool t_2 = elephants_flow_is_mouse(self, border);
	return t_2;
}

/* Flow::exceed of crates/core/src/aqm/elephants.rs */
TWIN_INLINE void elephants_flow_exceed(elephants_flow *self, const elephants_pair_rule *rule)
{
	units_bytes_add_assign_bytes(&self->length, rule->threshold);
}

/* Pair::take of crates/core/src/aqm/elephants.rs */
TWIN_INLINE bool elephants_pair_take(elephants_pair *self, const elephants_pair_rule *rule, units_instant now, units_bytes size)
{
	option_bucket_token_bucket t = self->bucket;
	bucket_token_bucket t_2;
	if (t.some) {
		bucket_token_bucket bucket = t.value;
		t_2 = bucket;
	} else {
		bucket_token_bucket t_3 = bucket_token_bucket_full(rule->rate, rule->threshold, now);
		t_2 = t_3;
	}
	bucket_token_bucket bucket_2 = t_2;
	bool t_4 = bucket_token_bucket_take(&bucket_2, now, size);
	bool pays = t_4;
	self->bucket = (option_bucket_token_bucket){ .some = true, .value = bucket_2 };
	return pays;
}

/* Point::between of crates/core/src/aqm/elephants.rs */
TWIN_INLINE u64 elephants_point_between(const elephants_point *self, const elephants_point *next, units_bytes length)
{
	u64 t = units_bytes_as_u64(next->length);
	u64 t_2 = units_bytes_as_u64(self->length);
	u64 run = ((u64)(t - t_2));
	u64 t_3 = units_bytes_as_u64(length);
	u64 t_4 = units_bytes_as_u64(self->length);
	u64 part = ((u64)(((u64)(t_3 - t_4)) * ((u64)(next->value - self->value))));
	return ((u64)(self->value + div_ceil_u64(part, run)));
}

/* FOREVER of crates/core/src/qdisc/cbq/estimator.rs */
TWIN_INLINE u64 estimator_forever(void)
{
	return ((u64)((s64)(S64_MAX >> 16u)));
}

/* nanos of crates/core/src/qdisc/cbq/estimator.rs */
TWIN_INLINE s64 estimator_nanos(units_rate rate, units_bytes bytes)
{
	u64 t = units_bytes_as_u64(bytes);
	u128 t_2 = credit_work(t, credit_per_byte());
	units_span t_3 = credit_time_of(t_2, rate);
	u64 t_4 = units_span_as_nanos(t_3);
	return ((s64)min_u64(t_4, estimator_forever()));
}

/* signed of crates/core/src/qdisc/cbq/estimator.rs */
TWIN_INLINE s64 estimator_signed(units_span span)
{
	u64 t = units_span_as_nanos(span);
	return ((s64)min_u64(t, ((u64)S64_MAX)));
}

/* Estimator::charge_idle_time of crates/core/src/qdisc/cbq/estimator.rs */
TWIN_INLINE void estimator_estimator_charge_idle_time(estimator_estimator *self, estimator_sent sent, u32 gain)
{
	s64 t = estimator_nanos(self->limits.rate, sent.size);
	s64 own = t;
	units_span t_2 = units_span_from_nanos(((u64)own));
	self->last_packet = t_2;
	option_units_instant t_4 = self->last;
	if (t_4.some) {
		units_instant last = t_4.value;
		s64 t_5;
		if (sent.finish >= last) {
			units_span t_6 = units_instant_since(sent.finish, last);
			s64 t_7 = estimator_signed(t_6);
			t_5 = t_7;
		} else {
			units_span t_8 = units_instant_since(last, sent.finish);
			s64 t_9 = estimator_signed(t_8);
			t_5 = sub_s64(0ll, t_9);
		}
		s64 gap = t_5;
		s64 idle = saturating_sub_s64(gap, own);
		s64 next = saturating_sub_s64(saturating_add_s64(self->average, idle), ((s64)(self->average >> (gain & 63u))));
		self->average = clamp_s64(next, self->limits.min_idle, self->limits.max_idle);
	}
	self->last = (option_units_instant){ .some = true, .value = sent.finish };
	if ((self->average > 0ll) || ((self->average == 0ll) && self->limits.whole_link)) {
		self->under_time = units_instant_zero();
		return;
	}
	estimator_finish t_11 = self->limits.finish;
	units_instant t_12;
	if (t_11 == ESTIMATOR_FINISH_ACTUAL) {
		t_12 = sent.now;
	} else {
		t_12 = sent.finish;
	}
	units_instant base = t_12;
	u64 debt = unsigned_abs_s64(self->average);
	units_instant t_13 = units_instant_add_span(base, self->last_packet);
	units_span t_14 = units_span_from_nanos(((u64)(debt - ((u64)(debt >> (gain & 63u))))));
	units_instant t_15 = units_instant_add_span(t_13, t_14);
	self->under_time = t_15;
}

/* Estimator::used_at of crates/core/src/qdisc/cbq/estimator.rs */
TWIN_INLINE u128 estimator_estimator_used_at(const estimator_estimator *self, units_instant now)
{
	u128 t_5 = self->used;
	u64 t = units_rate_as_bps(self->limits.rate);
	units_span t_2 = units_instant_since(now, self->at);
	u64 t_3 = units_span_as_nanos(t_2);
	u128 t_4 = credit_work(t, t_3);
	return saturating_sub_u128(t_5, t_4);
}

/* Estimator::wait_for_credit of crates/core/src/qdisc/cbq/estimator.rs */
TWIN_INLINE void estimator_estimator_wait_for_credit(estimator_estimator *self)
{
	u128 depth = self->limits.depth;
	units_instant t;
	if (self->used > depth) {
		units_instant t_3 = self->at;
		units_span t_2 = credit_time_of(((u128)(self->used - depth)), self->limits.rate);
		units_instant t_4 = units_instant_add_span(t_3, t_2);
		t = t_4;
	} else {
		t = units_instant_zero();
	}
	self->under_time = t;
}

/* Estimator::charge_bytes of crates/core/src/qdisc/cbq/estimator.rs */
TWIN_INLINE void estimator_estimator_charge_bytes(estimator_estimator *self, estimator_sent sent)
{
	u128 depth = self->limits.depth;
	u64 t = units_bytes_as_u64(sent.size);
	u128 t_2 = credit_work(t, credit_per_byte());
	u128 cost = t_2;
	u128 t_3 = estimator_estimator_used_at(self, sent.now);
	u128 before = t_3;
	u128 t_4;
	if (sent.by_right) {
		t_4 = ((u128)(before + cost));
	} else {
		t_4 = min_u128(((u128)(before + cost)), max_u128(before, ((u128)(depth + cost))));
	}
	self->used = t_4;
	self->at = sent.now;
	estimator_estimator_wait_for_credit(self);
}

/* Estimator::charge of crates/core/src/qdisc/cbq/estimator.rs */
TWIN_INLINE void estimator_estimator_charge(estimator_estimator *self, estimator_sent sent)
{
	self->regulated = false;
	estimator_accounting t = self->limits.accounting;
	if (t.kind == ESTIMATOR_ACCOUNTING_IDLE_TIME) {
		u8 gain = t.idle_time_gain;
		estimator_estimator_charge_idle_time(self, sent, ((u32)gain));
	} else {
		estimator_estimator_charge_bytes(self, sent);
	}
}

/* Estimator::begin of crates/core/src/qdisc/cbq/estimator.rs */
TWIN_INLINE void estimator_estimator_begin(estimator_estimator *self, units_instant now)
{
	self->average = self->limits.max_idle;
	self->last = (option_units_instant){0};
	self->used = ((u128)0ull);
	self->at = now;
	estimator_accounting t = self->limits.accounting;
	if (t.kind == ESTIMATOR_ACCOUNTING_IDLE_TIME) {
		estimator_derivation derivation = t.idle_time_derivation;
		estimator_derivation t_3 = derivation;
		if (t_3 == ESTIMATOR_DERIVATION_ALTQ) {
		} else {
			self->average = 0ll;
			self->last = (option_units_instant){ .some = true, .value = now };
		}
	}
}

/* Estimator::new of crates/core/src/qdisc/cbq/estimator.rs */
TWIN_INLINE estimator_estimator estimator_estimator_new(cbq_limits limits, units_instant now)
{
	estimator_estimator made = (estimator_estimator){ .limits = limits, .under_time = units_instant_zero(), .average = 0ll, .last = (option_units_instant){0}, .used = ((u128)0ull), .at = now, .last_packet = units_span_zero(), .regulated = false };
	estimator_estimator_begin(&made, now);
	return made;
}

/* Estimator::regulate of crates/core/src/qdisc/cbq/estimator.rs */
TWIN_INLINE bool estimator_estimator_regulate(estimator_estimator *self)
{
	if (self->regulated) {
		return false;
	}
	self->regulated = true;
	estimator_accounting t_2 = self->limits.accounting;
	if (t_2.kind == ESTIMATOR_ACCOUNTING_IDLE_TIME) {
		units_span t_4 = units_span_saturating_sub(self->limits.off_time, self->last_packet);
		units_instant_add_assign_span(&self->under_time, t_4);
	} else {
		u128 most = ((u128)(self->limits.depth - self->limits.resume));
		units_instant t_6 = self->at;
		units_span t_5 = credit_time_of(saturating_sub_u128(self->used, most), self->limits.rate);
		units_instant t_7 = units_instant_add_span(t_6, t_5);
		self->under_time = t_7;
	}
	return true;
}

/* Estimator::set_limits of crates/core/src/qdisc/cbq/estimator.rs */
TWIN_INLINE void estimator_estimator_set_limits(estimator_estimator *self, cbq_limits limits, units_instant now)
{
	u128 t = estimator_estimator_used_at(self, now);
	u128 used = t;
	cbq_limits before = self->limits;
	self->limits = limits;
	estimator_accounting t_2 = limits.accounting;
	if (t_2.kind == ESTIMATOR_ACCOUNTING_IDLE_TIME) {
		estimator_accounting t_4 = before.accounting;
		if (t_4.kind == ESTIMATOR_ACCOUNTING_IDLE_TIME) {
			self->average = clamp_s64(self->average, limits.min_idle, limits.max_idle);
		} else {
			estimator_estimator_begin(self, now);
		}
		u64 longest = saturating_mul_u64(min_u64(unsigned_abs_s64(limits.min_idle), ((u64)(1ull << 60u))), 2ull);
		units_instant t_9 = self->under_time;
		units_span t_6 = units_span_from_nanos(longest);
		units_span t_7 = units_span_add_span(t_6, limits.off_time);
		units_instant t_8 = units_instant_add_span(now, t_7);
		self->under_time = min_u64(t_9, t_8);
	} else {
		estimator_accounting t_10 = before.accounting;
		if (t_10.kind == ESTIMATOR_ACCOUNTING_IDLE_TIME) {
			estimator_estimator_begin(self, now);
		} else {
			self->used = saturating_sub_u128(((u128)(used + limits.depth)), before.depth);
		}
		self->at = now;
		estimator_estimator_wait_for_credit(self);
		self->regulated = false;
	}
}

/* PLACES of crates/core/src/qdisc/fbq/deciders.rs */
TWIN_INLINE u32 fbq_places(void)
{
	return 24u;
}

/* virtual_length of crates/core/src/qdisc/fbq/deciders.rs */
TWIN_INLINE u128 fbq_virtual_length(units_bytes bytes, u64 weight)
{
	s64 t = bucket_capped(bytes);
	u64 credit = ((u64)t);
	u64 whole = ((u64)(credit / weight));
	u64 rest = ((u64)(credit % weight));
	return ((u128)(((u128)(((u128)whole) << (fbq_places() & 127u))) + ((u128)div_ceil_u64(((u64)(rest << (fbq_places() & 63u))), weight))));
}

/* WEIGHT_MAX of crates/core/src/qdisc/fbq/shares.rs */
TWIN_INLINE u64 fbq_weight_max(void)
{
	return ((u64)(1ull << 40u));
}

/* borrow_length of crates/core/src/qdisc/fbq/deciders.rs */
TWIN_INLINE u128 fbq_borrow_length(units_bytes bytes, units_rate rate)
{
	u64 t = units_rate_as_bps(rate);
	u128 t_2 = fbq_virtual_length(bytes, clamp_u64(t, 1000ull, fbq_weight_max()));
	return t_2;
}

/* Instant::as_nanos of crates/units/src/quantity.rs */
TWIN_INLINE u64 units_instant_as_nanos(units_instant self)
{
	return self;
}

/* by_due of crates/core/src/qdisc/fbq/deciders.rs */
TWIN_INLINE u128 fbq_by_due(units_instant due, u32 priority)
{
	u64 t = units_instant_as_nanos(due);
	return ((u128)(((u128)(((u128)t) << 32u)) | ((u128)priority)));
}

/* by_priority of crates/core/src/qdisc/fbq/deciders.rs */
TWIN_INLINE u128 fbq_by_priority(u128 key)
{
	return ((u128)(((u128)(((u128)((u32)key)) << 64u)) | ((u128)(key >> 32u))));
}

/* charge_minimum of crates/core/src/qdisc/fbq/deciders.rs */
TWIN_INLINE void fbq_charge_minimum(bucket_token_bucket *guarantee, units_instant then, units_bytes size)
{
	bucket_token_bucket_forgive(guarantee, then);
	bucket_token_bucket_charge(guarantee, then, size);
}

/* charged of crates/core/src/qdisc/fbq/deciders.rs */
TWIN_INLINE u128 fbq_charged(u128 start, u128 now, fbq_by by, u128 length)
{
	fbq_by t = by;
	u128 t_2;
	if (t == FBQ_BY_SHARE) {
		t_2 = ((u128)(start + length));
	} else {
		t_2 = ((u128)(min_u128(start, now) + length));
	}
	return t_2;
}

/* covered_at of crates/core/src/qdisc/fbq/deciders.rs */
TWIN_INLINE option_units_instant fbq_covered_at(const bucket_token_bucket *guarantee, units_bytes size, units_instant arrived)
{
	option_units_instant t = bucket_token_bucket_time_for(guarantee, units_instant_zero(), size);
	option_units_instant t_2 = t;
	if (!t_2.some)
		return (option_units_instant){0};
	units_instant time = t_2.value;
	return (option_units_instant){ .some = true, .value = max_u64(time, arrived) };
}

/* THRESHOLD_FACTOR of crates/core/src/qdisc/fbq/deciders.rs */
TWIN_INLINE u64 fbq_threshold_factor(void)
{
	return 4ull;
}

/* is_within_part of crates/core/src/qdisc/fbq/deciders.rs */
TWIN_INLINE bool fbq_is_within_part(units_bytes bytes, units_bytes space, u64 queued)
{
	u64 shares = ((u64)(((u64)(queued * fbq_threshold_factor())) + 1ull));
	u64 t = units_bytes_as_u64(bytes);
	u64 quarters = div_ceil_u64(t, fbq_threshold_factor());
	bool t_3 = (mul_high_u64(quarters, shares) == 0ull);
	if (t_3) {
		u64 t_2 = units_bytes_as_u64(space);
		t_3 = (wrapping_mul_u64(quarters, shares) <= t_2);
	}
	return t_3;
}

/* KEPT_PART of crates/core/src/qdisc/fbq/deciders.rs */
TWIN_INLINE u64 fbq_kept_part(void)
{
	return 8ull;
}

/* Bytes::ZERO of crates/units/src/quantity.rs */
TWIN_INLINE units_bytes units_bytes_zero(void)
{
	return 0ull;
}

/* kept of crates/core/src/qdisc/fbq/deciders.rs */
TWIN_INLINE units_bytes fbq_kept(units_bytes limit, units_rate unpromised, units_rate rate)
{
	units_bytes t;
	if (unpromised < rate) {
		u64 t_2 = units_bytes_as_u64(limit);
		units_bytes t_3 = units_bytes_new(((u64)(t_2 / fbq_kept_part())));
		t = t_3;
	} else {
		t = units_bytes_zero();
	}
	return t;
}

/* promised_part of crates/core/src/qdisc/fbq/deciders.rs */
TWIN_INLINE units_bytes fbq_promised_part(units_bytes limit, units_rate minimum, units_rate rate)
{
	bool t_2 = units_rate_is_zero(minimum);
	if (t_2) {
		return units_bytes_zero();
	}
	u64 t_3 = units_bytes_as_u64(limit);
	u64 t_4 = units_rate_as_bps(minimum);
	u64 t_5 = units_rate_as_bps(rate);
	units_bytes t_6 = units_bytes_new(mul_div_u64(t_3, t_4, max_u64(t_5, 1ull)));
	return t_6;
}

/* starts_with of crates/core/src/qdisc/fbq/deciders.rs */
TWIN_INLINE u128 fbq_starts_with(u128 now, u128 length)
{
	return saturating_sub_u128(now, length);
}

/* starts_again of crates/core/src/qdisc/fbq/deciders.rs */
TWIN_INLINE u128 fbq_starts_again(u128 start, u128 now, u128 length)
{
	u128 t = fbq_starts_with(now, length);
	return max_u128(start, t);
}

/* weight_of of crates/core/src/qdisc/fbq/deciders.rs */
TWIN_INLINE u64 fbq_weight_of(u64 weight)
{
	return clamp_u64(weight, 1ull, fbq_weight_max());
}

/* Clock::shows of crates/core/src/qdisc/fbq/deciders.rs */
TWIN_INLINE units_instant fbq_clock_shows(const fbq_clock *self, units_instant t)
{
	units_instant t_5 = self->shown;
	units_span t_2 = units_instant_since(t, self->at);
	u64 t_3 = units_span_as_nanos(t_2);
	units_span t_4 = units_span_from_nanos(mul_div_u64(t_3, self->fast, self->base));
	units_instant t_6 = units_instant_add_span(t_5, t_4);
	return t_6;
}

/* Clock::lend of crates/core/src/qdisc/fbq/deciders.rs */
TWIN_INLINE void fbq_clock_lend(fbq_clock *self, units_instant now, units_rate borrowing, units_rate spare)
{
	units_instant t = fbq_clock_shows(self, now);
	self->shown = t;
	self->at = max_u64(self->at, now);
	u64 t_2 = units_rate_as_bps(borrowing);
	u64 base = t_2;
	self->base = max_u64(base, 1ull);
	u64 t_3;
	if (base == 0ull) {
		t_3 = 1ull;
	} else {
		u64 t_4 = units_rate_as_bps(spare);
		t_3 = saturating_add_u64(base, t_4);
	}
	self->fast = t_3;
}

/* Clock::new of crates/core/src/qdisc/fbq/deciders.rs */
TWIN_INLINE fbq_clock fbq_clock_new(units_instant shown, units_instant at)
{
	return (fbq_clock){ .shown = shown, .at = at, .fast = 1ull, .base = 1ull };
}

/* Instant::MAX of crates/units/src/quantity.rs */
TWIN_INLINE units_instant units_instant_max(void)
{
	return U64_MAX;
}

/* Clock::reaches of crates/core/src/qdisc/fbq/deciders.rs */
TWIN_INLINE units_instant fbq_clock_reaches(const fbq_clock *self, units_instant wanted)
{
	units_span t = units_instant_since(wanted, self->shown);
	u64 t_2 = units_span_as_nanos(t);
	u64 missing = t_2;
	u64 whole = mul_div_u64(missing, self->base, self->fast);
	bool rest = (wrapping_mul_u64(missing, self->base) != wrapping_mul_u64(whole, self->fast));
	if (wanted == units_instant_max()) {
		return wanted;
	}
	units_instant t_5 = self->at;
	units_span t_4 = units_span_from_nanos(saturating_add_u64(whole, ((u64)rest)));
	units_instant t_6 = units_instant_add_span(t_5, t_4);
	return t_6;
}

/* Slots::begin of crates/core/src/qdisc/fbq/deciders.rs */
TWIN_INLINE bool fbq_slots_begin(fbq_slots *self)
{
	self->here = ((u32)(self->here + 1u));
	if (self->held == 0u) {
		return false;
	}
	self->held = ((u32)(self->held - 1u));
	return true;
}

/* Slots::end of crates/core/src/qdisc/fbq/deciders.rs */
TWIN_INLINE bool fbq_slots_end(fbq_slots *self)
{
	self->here = ((u32)(self->here - 1u));
	return (((u32)(self->held + self->here)) < self->wanted);
}

/* Limit::admits of crates/core/src/qdisc/fifo.rs */
TWIN_INLINE bool fifo_limit_admits(const fifo_limit *self, qdisc_backlog backlog, units_bytes size)
{
	bool t_2 = (backlog.packets < self->packets);
	if (t_2) {
		units_bytes t = units_bytes_add_bytes(backlog.bytes, size);
		t_2 = (t <= self->bytes);
	}
	return t_2;
}

/* Place::once_empty of crates/core/src/qdisc/flow_queues.rs */
TWIN_INLINE flow_queues_place flow_queues_place_once_empty(flow_queues_place self, bool has_old)
{
	flow_queues_place t;
	if ((self == FLOW_QUEUES_PLACE_NEW) && has_old) {
		t = FLOW_QUEUES_PLACE_OLD;
	} else {
		t = FLOW_QUEUES_PLACE_OFF;
	}
	return t;
}

/* mix of crates/core/src/structures/key_index.rs */
TWIN_INLINE u64 key_index_mix(u64 key)
{
	u64 mixed = wrapping_mul_u64(((u64)(key ^ ((u64)(key >> 30u)))), 13787848793156543929ull);
	return wrapping_mul_u64(((u64)(mixed ^ ((u64)(mixed >> 27u)))), 10723151780598845931ull);
}

/* MOST of crates/core/src/aqm/meredt.rs */
TWIN_INLINE u64 meredt_most(void)
{
	return ((u64)(1ull << 30u));
}

/* part of crates/core/src/aqm/meredt.rs */
TWIN_INLINE s64 meredt_part(units_bytes size, u64 share)
{
	u64 t = units_bytes_as_u64(size);
	return ((s64)((u64)(min_u64(t, meredt_most()) * share)));
}

/* Floor::cap of crates/core/src/aqm/meredt.rs */
TWIN_INLINE void meredt_floor_cap(meredt_floor *self, units_bytes bytes)
{
	s64 t_3 = self->owed;
	u64 t = probability_probability_bits(probability_probability_one());
	s64 t_2 = meredt_part(bytes, t);
	self->owed = min_s64(t_3, t_2);
}

/* Floor::cost of crates/core/src/aqm/meredt.rs */
TWIN_INLINE s64 meredt_floor_cost(const meredt_floor *self, units_bytes size)
{
	u64 t = probability_probability_bits(probability_probability_one());
	u64 t_2 = probability_probability_bits(self->share);
	s64 t_3 = meredt_part(size, ((u64)(t - t_2)));
	return t_3;
}

/* Probability::ZERO of crates/core/src/probability.rs */
TWIN_INLINE probability_probability probability_probability_zero(void)
{
	return 0ull;
}

/* Floor::due of crates/core/src/aqm/meredt.rs */
TWIN_INLINE bool meredt_floor_due(const meredt_floor *self, units_bytes size)
{
	bool t_3 = (self->share > probability_probability_zero());
	if (t_3) {
		s64 t_2 = self->owed;
		s64 t = meredt_floor_cost(self, size);
		t_3 = (t_2 >= t);
	}
	return t_3;
}

/* Floor::elephant of crates/core/src/aqm/meredt.rs */
TWIN_INLINE void meredt_floor_elephant(meredt_floor *self, units_bytes size)
{
	s64 t = meredt_floor_cost(self, size);
	s64 cost = t;
	self->owed = max_s64(saturating_sub_s64(self->owed, cost), self->least);
}

/* Floor::mouse of crates/core/src/aqm/meredt.rs */
TWIN_INLINE void meredt_floor_mouse(meredt_floor *self, units_bytes size)
{
	s64 t_3 = self->owed;
	u64 t = probability_probability_bits(self->share);
	s64 t_2 = meredt_part(size, t);
	self->owed = saturating_add_s64(t_3, t_2);
}

/* Floor::new of crates/core/src/aqm/meredt.rs */
TWIN_INLINE meredt_floor meredt_floor_new(probability_probability share, units_bytes credit)
{
	u64 t = probability_probability_bits(probability_probability_one());
	s64 t_2 = meredt_part(credit, t);
	s64 credit_2 = t_2;
	return (meredt_floor){ .share = share, .owed = 0ll, .least = sub_s64(0ll, credit_2) };
}

/* Floor::none_queued of crates/core/src/aqm/meredt.rs */
TWIN_INLINE void meredt_floor_none_queued(meredt_floor *self)
{
	self->owed = min_s64(self->owed, 0ll);
}

/* weighed of crates/core/src/aqm/meredt.rs */
TWIN_INLINE probability_probability meredt_weighed(probability_probability p, u64 weight)
{
	u64 t = probability_probability_bits(p);
	probability_probability t_2 = probability_probability_saturating_from_bits(mul_div_u64(t, weight, ((u64)(1ull << 32u))));
	return t_2;
}

/* MeanValue::scale of crates/core/src/aqm/meredt.rs */
TWIN_INLINE red_zone meredt_mean_value_scale(meredt_mean_value *self, red_zone zone, u32 value, probability_probability fairness)
{
	u64 value_2 = ((u64)(((u64)value) * 65536ull));
	u64 t;
	if ((*self) == 0ull) {
		t = value_2;
	} else {
		t = ((u64)(((u64)((*self) - ((u64)((*self) / 64ull)))) + ((u64)(value_2 / 64ull))));
	}
	(*self) = t;
	u64 mean = max_u64((*self), 1ull);
	u64 t_2 = probability_probability_bits(probability_probability_one());
	u64 t_3 = probability_probability_bits(fairness);
	u64 t_5 = ((u64)(((u64)(t_2 - t_3)) * (*self)));
	u64 t_4 = probability_probability_bits(fairness);
	u64 weight = ((u64)(((u64)(t_5 + ((u64)(t_4 * value_2)))) / mean));
	red_zone t_6 = zone;
	red_zone t_7;
	if (t_6.kind == RED_ZONE_CHANCE) {
		probability_probability p = t_6.chance;
		probability_probability t_8 = meredt_weighed(p, weight);
		t_7 = (red_zone){ .kind = RED_ZONE_CHANCE, .chance = t_8 };
	} else if (t_6.kind == RED_ZONE_GENTLE) {
		probability_probability p_2 = t_6.gentle;
		probability_probability t_9 = meredt_weighed(p_2, weight);
		t_7 = (red_zone){ .kind = RED_ZONE_GENTLE, .gentle = t_9 };
	} else if (t_6.kind == RED_ZONE_BELOW) {
		t_7 = (red_zone){ .kind = RED_ZONE_BELOW };
	} else {
		t_7 = (red_zone){ .kind = RED_ZONE_BEYOND };
	}
	return t_7;
}

/* State::departed of crates/core/src/aqm/pie.rs */
TWIN_INLINE void pie_state_departed(pie_state *self, units_span delay, bool is_empty)
{
	units_span t;
	if (is_empty) {
		t = units_span_zero();
	} else {
		t = delay;
	}
	self->delay = t;
}

/* State::new of crates/core/src/aqm/pie.rs */
TWIN_INLINE pie_state pie_state_new(const pie_params *params)
{
	units_span t_2 = params->burst;
	units_instant t = units_instant_add_span(units_instant_zero(), params->update);
	return (pie_state){ .probability = 0ull, .delay = units_span_zero(), .delay_before = units_span_zero(), .burst = t_2, .gathered = 0ull, .next_update = t };
}

/* State::probability of crates/core/src/aqm/pie.rs */
TWIN_INLINE probability_probability pie_state_probability(const pie_state *self)
{
	probability_probability t = probability_probability_saturating_from_bits(((u64)(self->probability >> 28u)));
	return t;
}

/* State::signal of crates/core/src/aqm/pie.rs */
TWIN_INLINE red_signal pie_state_signal(const pie_state *self, const pie_params *params)
{
	probability_probability t_2 = pie_state_probability(self);
	red_signal t;
	if (t_2 < params->most_marked) {
		t = params->signal;
	} else {
		t = RED_SIGNAL_DROP;
	}
	return t;
}

/* State::skip_missed of crates/core/src/aqm/pie.rs */
TWIN_INLINE void pie_state_skip_missed(pie_state *self, const pie_params *params, units_instant now)
{
	units_span t = units_instant_since(now, self->next_update);
	u64 t_2 = units_span_as_nanos(t);
	u64 t_3 = units_span_as_nanos(params->update);
	u64 missed = ((u64)(t_2 / t_3));
	if (self->next_update <= now) {
		units_span t_5 = units_span_saturating_mul(params->update, ((u64)(missed + 1ull)));
		units_instant_add_assign_span(&self->next_update, t_5);
	}
}

/* ONE of crates/core/src/aqm/pie.rs */
TWIN_INLINE u64 pie_one(void)
{
	return ((u64)(1ull << 60u));
}

/* Bytes::saturating_mul of crates/units/src/quantity.rs */
TWIN_INLINE units_bytes units_bytes_saturating_mul(units_bytes self, u64 n)
{
	return saturating_mul_u64(self, n);
}

/* State::unlucky of crates/core/src/aqm/pie.rs */
TWIN_INLINE bool pie_state_unlucky(pie_state *self, const pie_params *params, random_stream *random, units_bytes size, qdisc_backlog backlog)
{
	bool t_2 = units_span_is_zero(self->burst);
	if (!t_2) {
		return false;
	}
	u64 t_3 = units_span_as_nanos(self->delay_before);
	u64 t_4 = units_span_as_nanos(params->target);
	bool calm = ((t_3 < ((u64)(t_4 / 2ull))) && (self->probability < ((u64)(pie_one() / 5ull))));
	bool t_7 = calm;
	if (!t_7) {
		units_bytes t_6 = units_bytes_saturating_mul(params->mean, 2ull);
		t_7 = (backlog.bytes <= t_6);
	}
	if (t_7) {
		return false;
	}
	red_sizing t_8 = params->sizing;
	u64 t_9;
	if (t_8.kind == RED_SIZING_PER_PACKET) {
		t_9 = self->probability;
	} else {
		units_bytes mean = t_8.per_byte_mean;
		u64 t_12 = self->probability;
		u64 t_10 = units_bytes_as_u64(size);
		u64 t_11 = units_bytes_as_u64(mean);
		t_9 = mul_div_u64(t_12, t_10, t_11);
	}
	u64 p = t_9;
	if (self->probability == 0ull) {
		self->gathered = 0ull;
	}
	self->gathered = saturating_add_u64(self->gathered, p);
	bool t_14;
	if (self->gathered < ((u64)(((u64)(pie_one() / 100ull)) * 85ull))) {
		t_14 = false;
	} else {
		bool t_16 = (self->gathered >= ((u64)(((u64)(pie_one() / 10ull)) * 85ull)));
		if (!t_16) {
			u64 t_15 = random_stream_next_u64(random);
			t_16 = (((u64)(t_15 >> 4u)) < p);
		}
		t_14 = t_16;
	}
	bool hit = t_14;
	if (hit) {
		self->gathered = 0ull;
	}
	return hit;
}

/* MOST of crates/core/src/aqm/pie.rs */
TWIN_INLINE u64 pie_most(void)
{
	return ((u64)(1ull << 51u));
}

/* difference of crates/core/src/aqm/pie.rs */
TWIN_INLINE s64 pie_difference(units_span a, units_span b)
{
	s64 t;
	if (a >= b) {
		units_span t_2 = units_span_saturating_sub(a, b);
		u64 t_3 = units_span_as_nanos(t_2);
		t = ((s64)min_u64(t_3, pie_most()));
	} else {
		units_span t_4 = units_span_saturating_sub(b, a);
		u64 t_5 = units_span_as_nanos(t_4);
		t = sub_s64(0ll, ((s64)min_u64(t_5, pie_most())));
	}
	return t;
}

/* divisor of crates/core/src/aqm/pie.rs */
TWIN_INLINE u64 pie_divisor(u64 p)
{
	u64 t;
	if (p < ((u64)(pie_one() / 1000000ull))) {
		t = 2048ull;
	} else {
		u64 t_2;
		if (p < ((u64)(pie_one() / 100000ull))) {
			t_2 = 512ull;
		} else {
			u64 t_3;
			if (p < ((u64)(pie_one() / 10000ull))) {
				t_3 = 128ull;
			} else {
				u64 t_4;
				if (p < ((u64)(pie_one() / 1000ull))) {
					t_4 = 32ull;
				} else {
					u64 t_5;
					if (p < ((u64)(pie_one() / 100ull))) {
						t_5 = 8ull;
					} else {
						u64 t_6;
						if (p < ((u64)(pie_one() / 10ull))) {
							t_6 = 2ull;
						} else {
							t_6 = 1ull;
						}
						t_5 = t_6;
					}
					t_4 = t_5;
				}
				t_3 = t_4;
			}
			t_2 = t_3;
		}
		t = t_2;
	}
	return t;
}

/* State::update of crates/core/src/aqm/pie.rs */
TWIN_INLINE bool pie_state_update(pie_state *self, const pie_params *params)
{
	u64 p = self->probability;
	units_span burst = self->burst;
	units_span delay = self->delay_before;
	s64 t_2 = ((s64)params->alpha);
	s64 t = pie_difference(self->delay, params->target);
	s64 t_4 = ((s64)params->beta);
	s64 t_3 = pie_difference(self->delay, self->delay_before);
	s64 error = add_s64(mul_s64(t_2, t), mul_s64(t_4, t_3));
	u64 t_5 = pie_divisor(p);
	u64 step = mul_div_u64(unsigned_abs_s64(error), ((u64)(pie_one() / 16ull)), ((u64)(1000000000ull * t_5)));
	u64 next = saturating_sub_u64(p, step);
	if (error > 0ll) {
		u64 t_7;
		if (p >= ((u64)(pie_one() / 10ull))) {
			t_7 = min_u64(step, ((u64)(pie_one() / 50ull)));
		} else {
			t_7 = step;
		}
		u64 step_2 = t_7;
		next = min_u64(saturating_add_u64(p, step_2), pie_one());
	}
	bool t_9 = units_span_is_zero(self->delay);
	bool t_11 = t_9;
	if (t_11) {
		bool t_10 = units_span_is_zero(self->delay_before);
		t_11 = t_10;
	}
	if (t_11) {
		next = ((u64)(((u64)(next / 50ull)) * 49ull));
	}
	self->probability = next;
	units_span t_12 = units_span_saturating_sub(self->burst, params->update);
	self->burst = t_12;
	u64 t_13 = units_span_as_nanos(params->target);
	u64 half = ((u64)(t_13 / 2ull));
	bool t_16 = (self->probability == 0ull);
	if (t_16) {
		u64 t_15 = units_span_as_nanos(self->delay);
		t_16 = (t_15 < half);
	}
	bool t_18 = t_16;
	if (t_18) {
		u64 t_17 = units_span_as_nanos(self->delay_before);
		t_18 = (t_17 < half);
	}
	if (t_18) {
		self->burst = params->burst;
	}
	self->delay_before = self->delay;
	return (((self->probability != p) || (self->burst != burst)) || (self->delay_before != delay));
}

/* State::update_if_due of crates/core/src/aqm/pie.rs */
TWIN_INLINE bool pie_state_update_if_due(pie_state *self, const pie_params *params, pie_stats *stats, units_instant now)
{
	if (self->next_update > now) {
		return false;
	}
	stats->updates = ((u64)(stats->updates + 1ull));
	units_instant_add_assign_span(&self->next_update, params->update);
	bool t_2 = pie_state_update(self, params);
	return t_2;
}

/* NANOS_PER_SEC of crates/units/src/quantity.rs */
TWIN_INLINE u64 units_nanos_per_sec(void)
{
	return 1000000000ull;
}

/* Span::from_secs of crates/units/src/quantity.rs */
TWIN_INLINE units_span units_span_from_secs(u64 n)
{
	return saturating_mul_u64(n, units_nanos_per_sec());
}

/* MOST_SCORE of crates/core/src/qdisc/dualpi2/protection.rs */
TWIN_INLINE units_span protection_most_score(void)
{
	units_span t = units_span_from_secs(5ull);
	return t;
}

/* MOST_DELAY of crates/core/src/qdisc/dualpi2/protection.rs */
TWIN_INLINE units_span protection_most_delay(void)
{
	units_span t = units_span_from_secs(1ull);
	return t;
}

/* Bucket::exceeds of crates/core/src/qdisc/dualpi2/protection.rs */
TWIN_INLINE bool protection_bucket_exceeds(protection_bucket *self, const protection_params *params, units_instant now, units_bytes size, units_span delay, u64 native)
{
	u64 t = units_bytes_as_u64(size);
	u64 t_2 = units_bytes_as_u64(params->ageing);
	u64 t_3 = step_mul_div_up(native, t, ((u64)(t_2 * ((u64)(step_one() / 1000000000ull)))));
	u64 added = t_3;
	units_instant t_5 = max_u64(self->expires, now);
	units_span t_4 = units_span_from_nanos(added);
	units_instant t_6 = units_instant_add_span(t_5, t_4);
	units_instant t_7 = units_instant_add_span(now, protection_most_score());
	self->expires = min_u64(t_6, t_7);
	units_span t_8 = units_instant_since(self->expires, now);
	u64 t_9 = units_span_as_nanos(t_8);
	u64 score = t_9;
	u64 t_10 = units_span_as_nanos(min_u64(delay, protection_most_delay()));
	u64 delay_2 = t_10;
	u64 t_11 = units_span_as_nanos(params->critical);
	bool t_14 = (delay_2 > t_11);
	if (t_14) {
		u64 t_12 = units_span_as_nanos(params->critical);
		u64 t_13 = units_span_as_nanos(params->score);
		t_14 = (((u64)(delay_2 * score)) > ((u64)(t_12 * t_13)));
	}
	return t_14;
}

/* Bucket::has_aged of crates/core/src/qdisc/dualpi2/protection.rs */
TWIN_INLINE bool protection_bucket_has_aged(const protection_bucket *self, units_instant now)
{
	return (self->expires <= now);
}

/* Backlog::add of crates/core/src/qdisc.rs */
TWIN_INLINE void qdisc_backlog_add(qdisc_backlog *self, units_bytes size)
{
	self->packets = ((u64)(self->packets + 1ull));
	units_bytes_add_assign_bytes(&self->bytes, size);
}

/* Bytes::sub of crates/units/src/quantity.rs */
TWIN_INLINE units_bytes units_bytes_sub_bytes(units_bytes self, units_bytes other)
{
	return saturating_sub_u64(self, other);
}

/* Bytes::sub_assign of crates/units/src/quantity.rs */
TWIN_INLINE void units_bytes_sub_assign_bytes(units_bytes *self, units_bytes other)
{
	units_bytes t = units_bytes_sub_bytes((*self), other);
	(*self) = t;
}

/* Backlog::remove of crates/core/src/qdisc.rs */
TWIN_INLINE void qdisc_backlog_remove(qdisc_backlog *self, units_bytes size)
{
	self->packets = ((u64)(self->packets - 1ull));
	units_bytes_sub_assign_bytes(&self->bytes, size);
}

/* class of crates/core/src/structures/queues.rs */
TWIN_INLINE u16 queues_class(u64 bytes)
{
	if (bytes < 8ull) {
		return ((u16)bytes);
	}
	u32 octave = ((u32)(63u - leading_zeros_u64(bytes)));
	return ((u16)((u32)(((u32)(((u32)(octave - 2u)) * 8u)) + ((u32)((u64)(((u64)(bytes >> (((u32)(octave - 3u)) & 63u))) & 7ull))))));
}

/* MOST_DRAWS of crates/core/src/random.rs */
TWIN_INLINE u32 random_most_draws(void)
{
	return 256u;
}

/* Stream::below of crates/core/src/random.rs */
TWIN_INLINE u64 random_stream_below(random_stream *self, u64 bound)
{
	if (bound == 0ull) {
		return 0ull;
	}
	u32 t_2 = 0u;
	u32 t_3 = random_most_draws();
	TWIN_FOR(u32, i, t_2, t_3) {
		u64 t_4 = random_stream_next_u64(self);
		u64 draw = t_4;
		u64 low = wrapping_mul_u64(draw, bound);
		if ((low >= bound) || (low >= ((u64)(wrapping_sub_u64(0ull, bound) % bound)))) {
			return mul_high_u64(draw, bound);
		}
	}
	u64 t_6 = random_stream_next_u64(self);
	return mul_high_u64(t_6, bound);
}

/* Stream::from_parts of crates/core/src/random.rs */
TWIN_INLINE random_stream random_stream_from_parts(u64 high, u64 low, u64 step_high, u64 step_low)
{
	return (random_stream){ .high = high, .low = low, .step_high = step_high, .step_low = step_low };
}

/* Rate::sub of crates/units/src/quantity.rs */
TWIN_INLINE units_rate units_rate_sub_rate(units_rate self, units_rate other)
{
	return saturating_sub_u64(self, other);
}

/* Rate::add of crates/units/src/quantity.rs */
TWIN_INLINE units_rate units_rate_add_rate(units_rate self, units_rate other)
{
	return saturating_add_u64(self, other);
}

/* between of crates/core/src/qdisc/ras/curve.rs */
TWIN_INLINE units_rate ras_between(units_bytes x, ras_corner first, ras_corner second)
{
	if (x >= second.at) {
		return second.rate;
	}
	units_rate t_2 = units_rate_sub_rate(second.rate, first.rate);
	units_rate rise = t_2;
	units_bytes t_3 = units_bytes_sub_bytes(second.at, first.at);
	units_bytes run = t_3;
	u64 t_4 = units_rate_as_bps(rise);
	units_bytes t_5 = units_bytes_sub_bytes(x, first.at);
	u64 t_6 = units_bytes_as_u64(t_5);
	u64 t_7 = units_bytes_as_u64(run);
	units_rate t_8 = units_rate_from_bps(mul_div_u64(t_4, t_6, t_7));
	units_rate t_9 = units_rate_add_rate(first.rate, t_8);
	return t_9;
}

/* Curve::rate of crates/core/src/qdisc/ras/curve.rs */
TWIN_INLINE units_rate ras_curve_rate(const ras_curve *self, units_bytes occupancy)
{
	ras_curve t = (*self);
	units_rate t_2;
	if (t.kind == RAS_CURVE_SINGLE) {
		units_rate cir = t.single_cir;
		units_rate mir = t.single_mir;
		units_bytes cir_th = t.single_cir_th;
		units_bytes mir_th = t.single_mir_th;
		units_rate t_3;
		if (occupancy < cir_th) {
			t_3 = cir;
		} else {
			units_rate t_4 = ras_between(occupancy, (ras_corner){ .at = cir_th, .rate = cir }, (ras_corner){ .at = mir_th, .rate = mir });
			t_3 = t_4;
		}
		t_2 = t_3;
	} else {
		units_rate cir_2 = t.two_cir;
		units_rate pir = t.two_pir;
		units_rate mir_2 = t.two_mir;
		units_bytes cir_th_2 = t.two_cir_th;
		units_bytes pir_th = t.two_pir_th;
		units_bytes mir_th_2 = t.two_mir_th;
		units_rate t_5;
		if (occupancy < cir_th_2) {
			t_5 = cir_2;
		} else {
			units_rate t_6;
			if (occupancy < pir_th) {
				units_rate t_7 = ras_between(occupancy, (ras_corner){ .at = cir_th_2, .rate = cir_2 }, (ras_corner){ .at = pir_th, .rate = pir });
				t_6 = t_7;
			} else {
				units_rate t_8 = ras_between(occupancy, (ras_corner){ .at = pir_th, .rate = pir }, (ras_corner){ .at = mir_th_2, .rate = mir_2 });
				t_6 = t_8;
			}
			t_5 = t_6;
		}
		t_2 = t_5;
	}
	return t_2;
}

/* Schedule::new of crates/core/src/qdisc/ras/schedule.rs */
TWIN_INLINE ras_schedule ras_schedule_new(const ras_curve *curve)
{
	units_rate t = ras_curve_rate(curve, units_bytes_zero());
	return (ras_schedule){ .ear = (ras_ear){0}, .rate = t, .debt = ((u128)0ull), .settled = units_instant_zero(), .paid_at = units_instant_zero(), .head_since = units_instant_zero() };
}

/* Schedule::rate_schedule of crates/core/src/qdisc/ras/schedule.rs */
TWIN_INLINE units_instant ras_schedule_rate_schedule(const ras_schedule *self)
{
	units_instant t;
	if (self->debt > ((u128)0ull)) {
		units_instant t_3 = self->settled;
		units_span t_2 = credit_time_of(self->debt, self->rate);
		units_instant t_4 = units_instant_add_span(t_3, t_2);
		t = t_4;
	} else {
		t = self->paid_at;
	}
	return t;
}

/* Schedule::settle of crates/core/src/qdisc/ras/schedule.rs */
TWIN_INLINE void ras_schedule_settle(ras_schedule *self, units_instant now)
{
	if (self->debt > ((u128)0ull)) {
		u64 t_2 = units_rate_as_bps(self->rate);
		units_span t_3 = units_instant_since(now, self->settled);
		u64 t_4 = units_span_as_nanos(t_3);
		u128 t_5 = credit_work(t_2, t_4);
		u128 earned = t_5;
		if (earned >= self->debt) {
			units_instant t_7 = ras_schedule_rate_schedule(self);
			self->paid_at = t_7;
			self->debt = ((u128)0ull);
		} else {
			self->debt = ((u128)(self->debt - earned));
		}
	}
	self->settled = max_u64(self->settled, now);
}

/* Span::MAX of crates/units/src/quantity.rs */
TWIN_INLINE units_span units_span_max(void)
{
	return U64_MAX;
}

/* Ear::FRACTION of crates/core/src/qdisc/ras/ear.rs */
TWIN_INLINE u32 ras_ear_fraction(void)
{
	return 16u;
}

/* MOST of crates/core/src/qdisc/ras/ear.rs */
TWIN_INLINE u64 ras_most(void)
{
	return ((u64)(1ull << 63u));
}

/* FRACTION of crates/core/src/decay.rs */
TWIN_INLINE u32 decay_fraction(void)
{
	return 62u;
}

/* mul of crates/core/src/decay.rs */
TWIN_INLINE u64 decay_mul(u64 a, u64 b)
{
	return ((u64)(((u64)(mul_high_u64(a, b) << (((u32)(64u - decay_fraction())) & 63u))) | ((u64)(wrapping_mul_u64(a, b) >> (decay_fraction() & 63u)))));
}

/* ONE of crates/core/src/decay.rs */
TWIN_INLINE u64 decay_one(void)
{
	return ((u64)(1ull << (decay_fraction() & 63u)));
}

/* PARTS of crates/core/src/decay.rs */
static const u64 decay_parts[64] = {
	4611686018427387904ull, 4540188453729421605ull, 4469799356029710115ull, 4400501540140318564ull,
	4332278087304955805ull, 4265112341068334641ull, 4198987903209571687ull, 4133888629738634021ull,
	4069798626954855183ull, 4006702247566558211ull, 3944584086870838351ull, 3883428978992572748ull,
	3823221993181738881ull, 3763948430168137758ull, 3705593818572631895ull, 3648143911374021882ull,
	3591584682430698961ull, 3535902323056224374ull, 3481083238647999443ull, 3427114045368203260ull,
	3373981566876187687ull, 3321672831111531860ull, 3270175067126970821ull, 3219475701970425034ull,
	3169562357615369557ull, 3120422847938793425ull, 3072045175746011435ull, 3024417529841601942ull,
	2977528282145755564ull, 2931365984855330749ull, 2885919367648923101ull, 2841177334935266083ull,
	2797128963144291325ull, 2753763498060187135ull, 2711070352195804117ull, 2669039102207766849ull,
	2627659486351660544ull, 2586921401976671383ull, 2546814903059068855ull, 2507330197773927898ull,
	2468457646104498006ull, 2430187757488635638ull, 2392511188501725296ull, 2355418740575523594ull,
	2318901357752369368ull, 2282950124474211531ull, 2247556263405914872ull, 2212711133292312373ull,
	2178406226848480851ull, 2144633168682724842ull, 2111383713251761637ull, 2078649742847608236ull,
	2046423265615678724ull, 2014696413603608203ull, 1983461440840326902ull, 1952710721444915486ull,
	1922436747764779840ull, 1892632128542690785ull, 1863289587112241203ull, 1834401959621280010ull,
	1805962193282889230ull, 1777963344653477157ull, 1750398577937567208ull, 1723261163318868591ull,
};

/* WHOLES of crates/core/src/decay.rs */
static const u64 decay_wholes[64] = {
	4611686018427387904ull, 1696544475317221319ull, 624123833502197200ull, 229602327090566617ull,
	84465975781740359ull, 31073295968587224ull, 11431226756278700ull, 4205313311003847ull,
	1547048310802923ull, 569127268043403ull, 209370221323237ull, 77023000018334ull,
	28335178204093ull, 10423929523215ull, 3834749367811ull, 1410725454463ull,
	518976891834ull, 190920928949ull, 70235884650ull, 25838337995ull,
	9505393342ull, 3496838791ull, 1286415100ull, 473245668ull,
	174097352ull, 64046837ull, 23561514ull, 8667797ull,
	3188704ull, 1173059ull, 431544ull, 158756ull,
	58403ull, 21485ull, 7904ull, 2908ull,
	1070ull, 394ull, 145ull, 53ull,
	20ull, 7ull, 3ull, 0ull,
	0ull, 0ull, 0ull, 0ull,
	0ull, 0ull, 0ull, 0ull,
	0ull, 0ull, 0ull, 0ull,
	0ull, 0ull, 0ull, 0ull,
	0ull, 0ull, 0ull, 0ull,
};

/* exp_neg of crates/core/src/decay.rs */
TWIN_INLINE u64 decay_exp_neg(u64 x)
{
	u64 whole = ((u64)((u64)(x >> 32u)));
	if (whole >= 64ull) {
		return 0ull;
	}
	u64 part = ((u64)((u64)(((u64)(x >> 26u)) & 63ull)));
	u64 r = ((u64)(((u64)(x & ((u64)(((u64)(1ull << 26u)) - 1ull)))) << (((u32)(decay_fraction() - 32u)) & 63u)));
	u64 sum = ((u64)(decay_one() - ((u64)(r / 7ull))));
	u64 t_2 = 0ull;
	u64 t_3 = 6ull;
	TWIN_FOR(u64, term, t_2, t_3) {
		u64 t_4 = decay_mul(r, sum);
		sum = ((u64)(decay_one() - ((u64)(t_4 / ((u64)(6ull - term))))));
	}
	u64 t_5 = decay_mul(sum, decay_parts[twin_index(part, 64)]);
	u64 t_6 = decay_mul(t_5, decay_wholes[twin_index(whole, 64)]);
	return t_6;
}

/* mean_decay of crates/core/src/decay.rs */
TWIN_INLINE u64 decay_mean_decay(u64 x)
{
	if (x < ((u64)(1ull << 26u))) {
		u64 r = ((u64)(x << (((u32)(decay_fraction() - 32u)) & 63u)));
		u64 sum = ((u64)(decay_one() - ((u64)(r / 8ull))));
		u64 t_2 = 0ull;
		u64 t_3 = 6ull;
		TWIN_FOR(u64, term, t_2, t_3) {
			u64 t_4 = decay_mul(r, sum);
			sum = ((u64)(decay_one() - ((u64)(t_4 / ((u64)(7ull - term))))));
		}
		return sum;
	}
	u64 t_5 = decay_exp_neg(x);
	return mul_div_u64(((u64)(decay_one() - t_5)), ((u64)(1ull << 32u)), x);
}

/* Ear::on_arrival of crates/core/src/qdisc/ras/ear.rs */
TWIN_INLINE void ras_ear_on_arrival(ras_ear *self, units_instant now, units_bytes size, units_span averaging)
{
	option_units_instant t = self->last;
	units_span t_2;
	if (t.some) {
		units_instant last = t.value;
		units_span t_3 = units_instant_since(now, last);
		t_2 = t_3;
	} else {
		t_2 = units_span_max();
	}
	units_span gap = t_2;
	option_units_instant t_4 = self->last;
	option_units_instant t_5;
	if (t_4.some) {
		units_instant last_2 = t_4.value;
		t_5 = (option_units_instant){ .some = true, .value = max_u64(last_2, now) };
	} else {
		t_5 = (option_units_instant){ .some = true, .value = now };
	}
	self->last = t_5;
	u64 t_6 = units_span_as_nanos(averaging);
	u64 constant = max_u64(t_6, 1ull);
	u64 t_7 = units_span_as_nanos(gap);
	u64 x = mul_div_u64(t_7, ((u64)(1ull << 32u)), constant);
	u64 t_8 = units_bytes_as_u64(size);
	u64 over_constant = min_u64(mul_div_u64(t_8, ((u64)(credit_per_byte() << (ras_ear_fraction() & 63u))), constant), ras_most());
	u64 t_9 = decay_mean_decay(x);
	u64 t_10 = decay_mul(t_9, over_constant);
	u64 fresh = t_10;
	u64 t_11 = decay_exp_neg(x);
	u64 t_12 = decay_mul(t_11, self->bits);
	u64 kept = t_12;
	self->bits = min_u64(saturating_add_u64(fresh, kept), ras_most());
}

/* Schedule::on_arrival of crates/core/src/qdisc/ras/schedule.rs */
TWIN_INLINE void ras_schedule_on_arrival(ras_schedule *self, units_instant now, units_bytes size, units_span averaging)
{
	ras_schedule_settle(self, now);
	ras_ear_on_arrival(&self->ear, now, size, averaging);
}

/* Schedule::on_release of crates/core/src/qdisc/ras/schedule.rs */
TWIN_INLINE void ras_schedule_on_release(ras_schedule *self, units_instant now, units_instant due, units_bytes size, units_span slack)
{
	self->head_since = now;
	u64 t = units_bytes_as_u64(size);
	u128 t_2 = credit_work(t, credit_per_byte());
	self->debt = t_2;
	units_instant t_3 = units_instant_saturating_sub(now, slack);
	self->settled = max_u64(due, t_3);
}

/* Schedule::release of crates/core/src/qdisc/ras/schedule.rs */
TWIN_INLINE ras_release ras_schedule_release(const ras_schedule *self, option_units_instant green)
{
	units_instant t = ras_schedule_rate_schedule(self);
	units_instant by_rate = max_u64(t, self->head_since);
	option_units_instant t_2 = green;
	if (!t_2.some) {
		return (ras_release){ .at = by_rate, .by_green = false };
	}
	units_instant green_2 = t_2.value;
	return (ras_release){ .at = min_u64(green_2, by_rate), .by_green = (green_2 < by_rate) };
}

/* Ear::rate of crates/core/src/qdisc/ras/ear.rs */
TWIN_INLINE units_rate ras_ear_rate(const ras_ear *self)
{
	units_rate t = units_rate_from_bps(((u64)(self->bits >> (ras_ear_fraction() & 63u))));
	return t;
}

/* Curve::mir of crates/core/src/qdisc/ras/curve.rs */
TWIN_INLINE units_rate ras_curve_mir(const ras_curve *self)
{
	ras_curve t = (*self);
	units_rate t_2;
	if (t.kind == RAS_CURVE_SINGLE) {
		units_rate mir = t.single_mir;
		t_2 = mir;
	} else {
		units_rate mir_2 = t.two_mir;
		t_2 = mir_2;
	}
	return t_2;
}

/* Schedule::renew_rate of crates/core/src/qdisc/ras/schedule.rs */
TWIN_INLINE void ras_schedule_renew_rate(ras_schedule *self, const ras_curve *curve, units_bytes occupancy)
{
	units_rate t = ras_curve_rate(curve, occupancy);
	units_rate least = t;
	units_rate t_2 = ras_ear_rate(&self->ear);
	units_rate t_3 = ras_curve_mir(curve);
	self->rate = min_u64(max_u64(t_2, least), t_3);
}

/* Average::new of crates/core/src/aqm/red/average.rs */
TWIN_INLINE red_average red_average_new(probability_probability weight, units_span idle_packet)
{
	units_instant latest = units_instant_zero();
	return (red_average){ .weight = weight, .idle_packet = idle_packet, .level = 0ull, .idle_since = (option_units_instant){ .some = true, .value = latest }, .rest = units_span_zero(), .latest = latest };
}

/* Spacer::restart of crates/core/src/aqm/red/dropper.rs */
TWIN_INLINE void red_spacer_restart(red_spacer *self)
{
	self->since = 0ull;
}

/* Probability::scaled of crates/core/src/probability.rs */
TWIN_INLINE probability_probability probability_probability_scaled(probability_probability self, u64 numerator, u64 denominator)
{
	probability_probability t = probability_probability_saturating_from_bits(mul_div_u64(self, numerator, denominator));
	return t;
}

/* Spacer::draw of crates/core/src/aqm/red/dropper.rs */
TWIN_INLINE bool red_spacer_draw(red_spacer *self, red_spacing spacing, probability_probability p)
{
	u64 count = self->since;
	self->since = saturating_add_u64(self->since, 1ull);
	if (p == probability_probability_zero()) {
		return false;
	}
	u64 t_2 = random_stream_next_u64(&self->random);
	u64 draw = ((u64)(t_2 >> 32u));
	red_spacing t_3 = spacing;
	bool t_4;
	if (t_3 == RED_SPACING_GEOMETRIC) {
		u64 t_5 = probability_probability_bits(p);
		t_4 = (draw < t_5);
	} else {
		u64 t_6 = probability_probability_bits(p);
		u64 spent = saturating_mul_u64(count, t_6);
		u64 t_7 = probability_probability_bits(probability_probability_one());
		u64 left = saturating_sub_u64(t_7, spent);
		bool t_9 = ((left == 0ull) || (p == probability_probability_one()));
		if (!t_9) {
			u64 t_8 = probability_probability_bits(p);
			t_9 = (((u64)(draw * left)) < ((u64)(t_8 << 32u)));
		}
		t_4 = t_9;
	}
	bool hit = t_4;
	if (hit) {
		self->since = 0ull;
	}
	return hit;
}

/* Dropper::judge of crates/core/src/aqm/red/dropper.rs */
TWIN_INLINE aqm_verdict red_dropper_judge(red_dropper *self, const red_early_drop *early, red_zone zone, units_bytes size, bool is_capable)
{
	red_zone t = zone;
	probability_probability t_2;
	if (t.kind == RED_ZONE_BELOW) {
		red_spacer_restart(&self->spacer);
		return (aqm_verdict){ .kind = AQM_VERDICT_ADMIT };
	} else if (t.kind == RED_ZONE_BEYOND) {
		red_spacer_restart(&self->spacer);
		if (((early->above_max == RED_ABOVE_MAX_MARK) && (early->signal == RED_SIGNAL_MARK)) && is_capable) {
			return (aqm_verdict){ .kind = AQM_VERDICT_MARK };
		}
		return (aqm_verdict){ .kind = AQM_VERDICT_DROP, .drop = QDISC_DROP_REASON_FORCED };
	} else if (t.kind == RED_ZONE_CHANCE) {
		probability_probability p = t.chance;
		t_2 = p;
	} else {
		probability_probability p_2 = t.gentle;
		t_2 = p_2;
	}
	probability_probability base = t_2;
	red_sizing t_4 = early->sizing;
	probability_probability t_5;
	if (t_4.kind == RED_SIZING_PER_PACKET) {
		t_5 = base;
	} else {
		units_bytes mean = t_4.per_byte_mean;
		u64 t_6 = units_bytes_as_u64(size);
		u64 t_7 = units_bytes_as_u64(mean);
		probability_probability t_8 = probability_probability_scaled(base, t_6, t_7);
		t_5 = t_8;
	}
	probability_probability p_3 = t_5;
	bool t_10 = red_spacer_draw(&self->spacer, early->spacing, p_3);
	if (!t_10) {
		return (aqm_verdict){ .kind = AQM_VERDICT_ADMIT };
	}
	red_zone t_11 = zone;
	bool t_12;
	if (t_11.kind == RED_ZONE_CHANCE) {
		t_12 = (early->signal == RED_SIGNAL_MARK);
	} else {
		t_12 = false;
	}
	bool may_mark = t_12;
	aqm_verdict t_13;
	if (may_mark && is_capable) {
		t_13 = (aqm_verdict){ .kind = AQM_VERDICT_MARK };
	} else {
		t_13 = (aqm_verdict){ .kind = AQM_VERDICT_DROP, .drop = QDISC_DROP_REASON_EARLY };
	}
	return t_13;
}

/* Curve::new of crates/core/src/aqm/red/curve.rs */
TWIN_INLINE red_curve red_curve_new(red_profile profile, red_above_max above_max)
{
	red_level t = red_thresholds_min(profile.thresholds);
	red_level min = t;
	red_level t_2 = red_thresholds_max(profile.thresholds);
	red_level max = t_2;
	probability_probability max_p = profile.max_p;
	red_curve curve = (red_curve){ .min = min, .max = max, .max_p = max_p, .above_max = above_max, .slope = 0ull, .gentle_slope = 0ull };
	red_curve_set_max_p(&curve, max_p);
	return curve;
}

/* Spacer::new of crates/core/src/aqm/red/dropper.rs */
TWIN_INLINE red_spacer red_spacer_new(random_stream random)
{
	return (red_spacer){ .random = random, .since = 0ull };
}

/* Dropper::new of crates/core/src/aqm/red/dropper.rs */
TWIN_INLINE red_dropper red_dropper_new(red_profile profile, red_above_max above_max, random_stream random)
{
	red_curve t = red_curve_new(profile, above_max);
	red_spacer t_2 = red_spacer_new(random);
	return (red_dropper){ .curve = t, .spacer = t_2, .verdicts = (aqm_verdicts){0} };
}

/* Red::drawing of crates/core/src/aqm/red.rs */
TWIN_INLINE red_red red_red_drawing(red_params params, random_stream random)
{
	red_average t = red_average_new(params.early.weight, params.early.idle_packet);
	red_dropper t_2 = red_dropper_new(params.profile, params.early.above_max, random);
	return (red_red){ .params = params, .average = t, .dropper = t_2 };
}

/* Buckets::update of crates/core/src/meter/two_bucket.rs */
TWIN_INLINE void two_bucket_buckets_update(two_bucket_buckets *self, units_instant now)
{
	bucket_token_bucket_update(&self->committed, now);
	bucket_token_bucket_update(&self->second, now);
}

/* graded of crates/core/src/meter/two_bucket.rs */
TWIN_INLINE packet_colour two_bucket_graded(bool green, bool yellow)
{
	packet_colour t;
	if (green) {
		t = PACKET_COLOUR_GREEN;
	} else {
		packet_colour t_2;
		if (yellow) {
			t_2 = PACKET_COLOUR_YELLOW;
		} else {
			t_2 = PACKET_COLOUR_RED;
		}
		t = t_2;
	}
	return t;
}

/* colour of crates/core/src/meter/rfc4115.rs */
TWIN_INLINE packet_colour rfc4115_colour(two_bucket_buckets *buckets, units_instant now, units_bytes size, packet_colour incoming)
{
	two_bucket_buckets_update(buckets, now);
	bool t = bucket_token_bucket_spend_if(&buckets->committed, (incoming == PACKET_COLOUR_GREEN), size);
	bool green = t;
	bool t_2 = bucket_token_bucket_spend_if(&buckets->second, (!green & (incoming != PACKET_COLOUR_RED)), size);
	bool yellow = t_2;
	packet_colour t_3 = two_bucket_graded(green, yellow);
	return t_3;
}

/* spread of crates/core/src/structures/round.rs */
TWIN_INLINE u32 round_spread(u64 key, u32 n)
{
	u64 t = key_index_mix(key);
	return ((u32)mul_high_u64(t, ((u64)n)));
}

/* Deficit::is_positive of crates/core/src/structures/round.rs */
TWIN_INLINE bool round_deficit_is_positive(round_deficit self)
{
	return (self > 0ll);
}

/* Deficit::owes of crates/core/src/structures/round.rs */
TWIN_INLINE bool round_deficit_owes(round_deficit self, s64 bytes)
{
	return (saturating_add_s64(self, bytes) <= 0ll);
}

/* Deficit::renew of crates/core/src/structures/round.rs */
TWIN_INLINE bool round_deficit_renew(round_deficit *self, s64 quantum)
{
	bool ended = ((*self) <= 0ll);
	if (ended) {
		(*self) = add_s64((*self), quantum);
	}
	return ended;
}

/* Deficit::spend of crates/core/src/structures/round.rs */
TWIN_INLINE void round_deficit_spend(round_deficit *self, s64 bytes)
{
	(*self) = sub_s64((*self), bytes);
}

/* Deficit::starting_with of crates/core/src/structures/round.rs */
TWIN_INLINE round_deficit round_deficit_starting_with(s64 quantum)
{
	return quantum;
}

/* Turns::left of crates/core/src/structures/round.rs */
TWIN_INLINE void round_turns_left(round_turns *self, round_allowance *allowance, bool is_first)
{
	allowance->busy = false;
	if (is_first) {
		self->in_turn = false;
	}
}

/* Turns::of of crates/core/src/structures/round.rs */
TWIN_INLINE round_turns round_turns_of(units_bytes quantum)
{
	u64 t = units_bytes_as_u64(quantum);
	return (round_turns){ .in_turn = false, .quantum = t, .largest = 0ull };
}

/* Turns::pays of crates/core/src/structures/round.rs */
TWIN_INLINE bool round_turns_pays(round_turns *self, round_allowance *allowance, units_bytes size)
{
	if (!self->in_turn) {
		self->in_turn = true;
		allowance->deficit = ((u64)(allowance->deficit + ((u64)(max_u64(self->quantum, self->largest) * allowance->weight))));
	}
	u64 t_3 = units_bytes_as_u64(size);
	if (t_3 <= allowance->deficit) {
		u64 t_4 = units_bytes_as_u64(size);
		allowance->deficit = ((u64)(allowance->deficit - t_4));
		return true;
	}
	self->in_turn = false;
	return false;
}

/* Turns::queued of crates/core/src/structures/round.rs */
TWIN_INLINE bool round_turns_queued(round_turns *self, round_allowance *allowance, units_bytes size)
{
	u64 t_2 = self->largest;
	u64 t = units_bytes_as_u64(size);
	self->largest = max_u64(t_2, t);
	if (allowance->busy) {
		return false;
	}
	allowance->busy = true;
	allowance->deficit = 0ull;
	return true;
}

/* Hash::change of crates/core/src/qdisc/sfq.rs */
TWIN_INLINE bool sfq_hash_change(sfq_hash *self, units_instant now)
{
	option_units_span t = self->perturb;
	if (!t.some) {
		return false;
	}
	units_span every = t.value;
	bool t_4 = (self->old > 0ull);
	if (!t_4) {
		units_span t_3 = units_instant_since(now, self->changed);
		t_4 = (t_3 < every);
	}
	if (t_4) {
		return false;
	}
	self->changed = now;
	self->epoch = ((u64)(self->epoch + 1ull));
	self->old = self->busy;
	return true;
}

/* Hash::emptied of crates/core/src/qdisc/sfq.rs */
TWIN_INLINE void sfq_hash_emptied(sfq_hash *self, u64 since)
{
	self->busy = ((u64)(self->busy - 1ull));
	if (since < self->epoch) {
		self->old = ((u64)(self->old - 1ull));
	}
}

/* Hash::entered of crates/core/src/qdisc/sfq.rs */
TWIN_INLINE u64 sfq_hash_entered(sfq_hash *self)
{
	self->busy = ((u64)(self->busy + 1ull));
	return self->epoch;
}

/* Hash::keeps of crates/core/src/qdisc/sfq.rs */
TWIN_INLINE bool sfq_hash_keeps(const sfq_hash *self, u64 since)
{
	return (since < self->epoch);
}

/* Hash::new of crates/core/src/qdisc/sfq.rs */
TWIN_INLINE sfq_hash sfq_hash_new(u64 seed, u32 queues, option_units_span perturb)
{
	return (sfq_hash){ .seed = seed, .queues = queues, .perturb = perturb, .epoch = 0ull, .changed = units_instant_zero(), .busy = 0ull, .old = 0ull };
}

/* Hash::queue of crates/core/src/qdisc/sfq.rs */
TWIN_INLINE u32 sfq_hash_queue(const sfq_hash *self, u64 key, u64 epoch)
{
	u64 salt = rotate_left_u64(wrapping_mul_u64(((u64)(self->seed ^ epoch)), 13787848793156543929ull), 31u);
	u32 t = round_spread(((u64)(key ^ salt)), self->queues);
	return t;
}

/* Hash::queue_before of crates/core/src/qdisc/sfq.rs */
TWIN_INLINE option_u32 sfq_hash_queue_before(const sfq_hash *self, u64 key)
{
	if (self->epoch == 0ull) {
		return (option_u32){0};
	}
	u32 t_2 = sfq_hash_queue(self, key, ((u64)(self->epoch - 1ull)));
	return (option_u32){ .some = true, .value = t_2 };
}

/* TokenBucket::update_into of crates/core/src/structures/bucket.rs */
TWIN_INLINE void bucket_token_bucket_update_into(bucket_token_bucket *self, units_instant now, bucket_token_bucket *other)
{
	u64 t = bucket_token_bucket_earned(self, now);
	u64 earned = t;
	u64 room = wrapping_sub_u64(((u64)self->depth), ((u64)self->level));
	s64 t_2 = bucket_filled(other->level, other->depth, saturating_sub_u64(earned, room));
	other->level = t_2;
	s64 t_3 = bucket_filled(self->level, self->depth, earned);
	self->level = t_3;
	self->updated = max_u64(self->updated, now);
}

/* colour of crates/core/src/meter/srtcm.rs */
TWIN_INLINE packet_colour srtcm_colour(two_bucket_buckets *buckets, units_instant now, units_bytes size, packet_colour incoming)
{
	bucket_token_bucket_update_into(&buckets->committed, now, &buckets->second);
	bool t = bucket_token_bucket_spend_if(&buckets->committed, (incoming == PACKET_COLOUR_GREEN), size);
	bool green = t;
	bool t_2 = bucket_token_bucket_spend_if(&buckets->second, (!green & (incoming != PACKET_COLOUR_RED)), size);
	bool yellow = t_2;
	packet_colour t_3 = two_bucket_graded(green, yellow);
	return t_3;
}

/* LEAST_BEHIND of crates/core/src/aqm/step.rs */
TWIN_INLINE u64 step_least_behind(void)
{
	return 2ull;
}

/* Step::likelihood of crates/core/src/aqm/step.rs */
TWIN_INLINE u64 step_step_likelihood(const step_step *self, units_span waited, u64 behind)
{
	if ((behind < step_least_behind()) || (waited < self->from)) {
		return 0ull;
	}
	if (waited >= self->full) {
		return step_one();
	}
	units_span t_3 = units_span_saturating_sub(self->full, self->from);
	u64 t_4 = units_span_as_nanos(t_3);
	u64 ramp = t_4;
	units_span t_5 = units_span_saturating_sub(waited, self->from);
	u64 t_6 = units_span_as_nanos(t_5);
	u64 t_7 = step_mul_div_up(t_6, step_one(), ramp);
	return t_7;
}

/* colour of crates/core/src/meter/trtcm.rs */
TWIN_INLINE packet_colour trtcm_colour(two_bucket_buckets *buckets, units_instant now, units_bytes size, packet_colour incoming)
{
	two_bucket_buckets_update(buckets, now);
	bool t = bucket_token_bucket_spend_if(&buckets->second, (incoming != PACKET_COLOUR_RED), size);
	bool within_peak = t;
	bool t_2 = bucket_token_bucket_spend_if(&buckets->committed, (within_peak & (incoming == PACKET_COLOUR_GREEN)), size);
	bool green = t_2;
	packet_colour t_3 = two_bucket_graded(green, within_peak);
	return t_3;
}

/* time_of_green of crates/core/src/meter/trtcm.rs */
TWIN_INLINE option_units_instant trtcm_time_of_green(const two_bucket_buckets *buckets, units_instant now, units_bytes size)
{
	option_units_instant t = bucket_token_bucket_time_of(&buckets->committed, now, size);
	option_units_instant t_2 = t;
	if (!t_2.some)
		return (option_units_instant){0};
	units_instant committed = t_2.value;
	option_units_instant t_3 = bucket_token_bucket_time_of(&buckets->second, now, size);
	option_units_instant t_4 = t_3;
	if (!t_4.some)
		return (option_units_instant){0};
	return (option_units_instant){ .some = true, .value = max_u64(committed, t_4.value) };
}

/* FRACTION of crates/core/src/meter/tswtcm.rs */
TWIN_INLINE u32 tswtcm_fraction(void)
{
	return 16u;
}

/* MOST of crates/core/src/meter/tswtcm.rs */
TWIN_INLINE u64 tswtcm_most(void)
{
	return ((u64)(1ull << 40u));
}

/* TswTcm::colour of crates/core/src/meter/tswtcm.rs */
TWIN_INLINE packet_colour tswtcm_tsw_tcm_colour(tswtcm_tsw_tcm *self, units_instant now, units_bytes size, packet_colour incoming)
{
	u64 t = units_span_as_nanos(self->params.window);
	u64 window = t;
	units_span t_2 = units_instant_since(now, self->front);
	u64 t_3 = units_span_as_nanos(t_2);
	u64 span = saturating_add_u64(window, t_3);
	self->front = max_u64(self->front, now);
	u64 t_5 = self->estimate;
	u64 t_4 = units_bytes_as_u64(size);
	u64 estimate = sum_div_u64(t_5, window, t_4, ((u64)(credit_per_byte() << (tswtcm_fraction() & 63u))), span);
	self->estimate = min_u64(estimate, ((u64)(tswtcm_most() << (((u32)(tswtcm_fraction() + 1u)) & 63u))));
	u64 t_6 = units_rate_as_bps(self->params.ctr);
	u64 committed = ((u64)(t_6 << (tswtcm_fraction() & 63u)));
	packet_colour t_7;
	if (self->estimate <= committed) {
		t_7 = PACKET_COLOUR_GREEN;
	} else {
		u64 t_8 = random_stream_below(&self->random, self->estimate);
		u64 draw = t_8;
		u64 t_9 = units_rate_as_bps(self->params.ptr);
		bool beyond_peak = (draw >= ((u64)(t_9 << (tswtcm_fraction() & 63u))));
		packet_colour beyond = (beyond_peak ? PACKET_COLOUR_RED : PACKET_COLOUR_YELLOW);
		t_7 = ((draw < committed) ? PACKET_COLOUR_GREEN : beyond);
	}
	packet_colour drawn = t_7;
	packet_colour t_10;
	if ((self->params.mode == METER_MODE_AWARE) && (incoming > drawn)) {
		t_10 = incoming;
	} else {
		t_10 = drawn;
	}
	return t_10;
}

/* TswTcm::drawing of crates/core/src/meter/tswtcm.rs */
TWIN_INLINE tswtcm_tsw_tcm tswtcm_tsw_tcm_drawing(tswtcm_params params, units_instant now, random_stream random)
{
	u64 t = units_rate_as_bps(params.ctr);
	u64 estimate = ((u64)(t << (tswtcm_fraction() & 63u)));
	return (tswtcm_tsw_tcm){ .params = params, .estimate = estimate, .front = now, .random = random };
}

/* ACKS_LEFT of crates/core/src/qdisc/cake.rs */
TWIN_INLINE u32 cake_acks_left(void)
{
	return 3u;
}

/* ACKS_LOOKED_AT of crates/core/src/qdisc/cake.rs */
TWIN_INLINE u32 cake_acks_looked_at(void)
{
	return 16u;
}

/* MOST_DEBT of crates/core/src/qdisc/cake.rs */
TWIN_INLINE s64 cake_most_debt(void)
{
	return 16ll;
}

/* MOST_UPDATES of crates/core/src/qdisc/dualpi2/decider.rs */
TWIN_INLINE u32 decider_most_updates(void)
{
	return 1024u;
}

/* VIRTUAL_START of crates/core/src/qdisc/fbq/deciders.rs */
TWIN_INLINE u128 fbq_virtual_start(void)
{
	return ((u128)(((u128)1ull) << 100u));
}

/* WEIGHT_ONE of crates/core/src/qdisc/fbq/shares.rs */
TWIN_INLINE u64 fbq_weight_one(void)
{
	return ((u64)(1ull << 16u));
}

/* WHOLE of crates/core/src/qdisc/fbq/shares.rs */
TWIN_INLINE u64 fbq_whole(void)
{
	return ((u64)(1ull << 32u));
}

/* Dscp::NQB of crates/core/src/packet.rs */
TWIN_INLINE packet_dscp packet_dscp_nqb(void)
{
	return 45;
}

/* MOST_UPDATES of crates/core/src/aqm/pie.rs */
TWIN_INLINE u32 pie_most_updates(void)
{
	return 1024u;
}

/* ATTEMPTS of crates/core/src/qdisc/dualpi2/protection.rs */
TWIN_INLINE u32 protection_attempts(void)
{
	return 2u;
}

/* BITS of crates/core/src/qdisc/dualpi2/protection.rs */
TWIN_INLINE u32 protection_bits(void)
{
	return 5u;
}

#endif
