/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Made from the Rust of the core by `cargo run -p tidegate-checks -- twin --write`. Changes belong there: `.ci/run` compares.
 * The includer has twin/integers.h.
 */
#ifndef TWIN_DECIDERS_H
#define TWIN_DECIDERS_H

typedef u64 units_bytes;

typedef struct {
	u64 packets;
	units_bytes bytes;
} fifo_limit;

typedef struct {
	u64 packets;
	units_bytes bytes;
} qdisc_backlog;

typedef u64 units_rate;

typedef u64 units_instant;

typedef struct {
	units_rate rate;
	s64 depth;
	s64 level;
	units_instant updated;
} bucket_token_bucket;

typedef u64 units_span;

typedef struct {
	bool some;
	units_instant value;
} option_units_instant;

typedef struct {
	option_units_instant first_above;
	units_instant drop_next;
	u32 count;
	u32 last_count;
	bool dropping;
} codel_state;

typedef enum {
	RED_SIGNAL_DROP,
	RED_SIGNAL_MARK,
} red_signal;

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

/* Bytes::add of crates/units/src/quantity.rs */
TWIN_INLINE units_bytes units_bytes_add_bytes(units_bytes self, units_bytes other)
{
	return saturating_add_u64(self, other);
}

/* Limit::admits of crates/core/src/fifo.rs */
TWIN_INLINE bool fifo_limit_admits(const fifo_limit *self, qdisc_backlog backlog, units_bytes size)
{
	bool t_2 = (backlog.packets < self->packets);
	if (t_2) {
		units_bytes t = units_bytes_add_bytes(backlog.bytes, size);
		t_2 = (t <= self->bytes);
	}
	return t_2;
}

/* Bytes::add_assign of crates/units/src/quantity.rs */
TWIN_INLINE void units_bytes_add_assign_bytes(units_bytes *self, units_bytes other)
{
	units_bytes t = units_bytes_add_bytes((*self), other);
	(*self) = t;
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

/* Bytes::new of crates/units/src/quantity.rs */
TWIN_INLINE units_bytes units_bytes_new(u64 n)
{
	return n;
}

/* MAX_DEPTH of crates/core/src/bucket.rs */
TWIN_INLINE units_bytes bucket_max_depth(void)
{
	units_bytes t = units_bytes_new(1152921504ull);
	return t;
}

/* Bytes::as_u64 of crates/units/src/quantity.rs */
TWIN_INLINE u64 units_bytes_as_u64(units_bytes self)
{
	return self;
}

/* PER_BYTE of crates/core/src/bucket.rs */
TWIN_INLINE u64 bucket_per_byte(void)
{
	return 8000000000ull;
}

/* cost of crates/core/src/bucket.rs */
TWIN_INLINE s64 bucket_cost(units_bytes bytes)
{
	s64 t;
	if ((bytes <= bucket_max_depth())) {
		u64 t_2 = units_bytes_as_u64(bytes);
		t = ((s64)((u64)(t_2 * bucket_per_byte())));
	} else {
		t = S64_MAX;
	}
	return t;
}

/* capped of crates/core/src/bucket.rs */
TWIN_INLINE s64 bucket_capped(units_bytes depth)
{
	units_bytes t;
	if ((depth <= bucket_max_depth())) {
		t = depth;
	} else {
		t = bucket_max_depth();
	}
	s64 t_2 = bucket_cost(t);
	return t_2;
}

/* TokenBucket::full of crates/core/src/bucket.rs */
TWIN_INLINE bucket_token_bucket bucket_token_bucket_full(units_rate rate, units_bytes depth, units_instant now)
{
	s64 t = bucket_capped(depth);
	s64 depth_2 = t;
	return (bucket_token_bucket){ .rate = rate, .depth = depth_2, .level = depth_2, .updated = now };
}

/* TokenBucket::depth of crates/core/src/bucket.rs */
TWIN_INLINE units_bytes bucket_token_bucket_depth(const bucket_token_bucket *self)
{
	units_bytes t = units_bytes_new(((u64)(((u64)self->depth) / bucket_per_byte())));
	return t;
}

/* filled of crates/core/src/bucket.rs */
TWIN_INLINE s64 bucket_filled(s64 level, s64 depth, u64 earned)
{
	u64 room = wrapping_sub_u64(((u64)depth), ((u64)level));
	s64 t;
	if ((earned >= room)) {
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

/* TokenBucket::earned of crates/core/src/bucket.rs */
TWIN_INLINE u64 bucket_token_bucket_earned(const bucket_token_bucket *self, units_instant now)
{
	u64 t = units_rate_as_bps(self->rate);
	units_span t_2 = units_instant_since(now, self->updated);
	u64 t_3 = units_span_as_nanos(t_2);
	return saturating_mul_u64(t, t_3);
}

/* TokenBucket::update of crates/core/src/bucket.rs */
TWIN_INLINE void bucket_token_bucket_update(bucket_token_bucket *self, units_instant now)
{
	s64 t_2 = self->level;
	s64 t_3 = self->depth;
	u64 t = bucket_token_bucket_earned(self, now);
	s64 t_4 = bucket_filled(t_2, t_3, t);
	self->level = t_4;
	self->updated = max_u64(self->updated, now);
}

/* TokenBucket::spend_if of crates/core/src/bucket.rs */
TWIN_INLINE bool bucket_token_bucket_spend_if(bucket_token_bucket *self, bool wanted, units_bytes bytes)
{
	s64 t = bucket_cost(bytes);
	s64 cost = t;
	bool pays = (wanted & (self->level >= cost));
	self->level = ((s64)((u64)self->level - (u64)(pays ? cost : 0ll)));
	return pays;
}

/* TokenBucket::spend of crates/core/src/bucket.rs */
TWIN_INLINE bool bucket_token_bucket_spend(bucket_token_bucket *self, units_bytes bytes)
{
	bool t = bucket_token_bucket_spend_if(self, true, bytes);
	return t;
}

/* TokenBucket::take of crates/core/src/bucket.rs */
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

/* Instant::add of crates/units/src/quantity.rs */
TWIN_INLINE units_instant units_instant_add_span(units_instant self, units_span span)
{
	return saturating_add_u64(self, span);
}

/* TokenBucket::time_of of crates/core/src/bucket.rs */
TWIN_INLINE option_units_instant bucket_token_bucket_time_of(const bucket_token_bucket *self, units_instant now, units_bytes bytes)
{
	s64 t = bucket_cost(bytes);
	s64 cost = t;
	if ((cost > self->depth)) {
		return (option_units_instant){0};
	}
	if ((self->level >= cost)) {
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

/* TokenBucket::set_rate of crates/core/src/bucket.rs */
TWIN_INLINE void bucket_token_bucket_set_rate(bucket_token_bucket *self, units_instant now, units_rate rate)
{
	bucket_token_bucket_update(self, now);
	self->rate = rate;
}

/* TokenBucket::set_depth of crates/core/src/bucket.rs */
TWIN_INLINE void bucket_token_bucket_set_depth(bucket_token_bucket *self, units_instant now, units_bytes depth)
{
	bucket_token_bucket_update(self, now);
	s64 t = bucket_capped(depth);
	self->depth = t;
	self->level = min_s64(self->level, self->depth);
}

/* State::observe of crates/core/src/codel.rs */
TWIN_INLINE bool codel_state_observe(codel_state *self, const codel_params *params, units_instant now, units_span waited, units_bytes left)
{
	if (((waited < params->target) || (left <= params->mtu))) {
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

/* MOST_DROPS_A_CALL of crates/core/src/codel.rs */
TWIN_INLINE u32 codel_most_drops_a_call(void)
{
	return 32u;
}

/* State::is_overdue of crates/core/src/codel.rs */
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

/* Span::saturating_mul of crates/units/src/quantity.rs */
TWIN_INLINE units_span units_span_saturating_mul(units_span self, u64 n)
{
	return saturating_mul_u64(self, n);
}

/* Params::spacing of crates/core/src/codel.rs */
TWIN_INLINE units_span codel_params_spacing(const codel_params *self, u32 count)
{
	u64 t = units_span_as_nanos(self->interval);
	u64 interval = t;
	units_span t_2 = units_span_from_nanos(isqrt_u64(((u64)(((u64)(interval * interval)) / ((u64)max_u32(count, 1u))))));
	return t_2;
}

/* State::enter of crates/core/src/codel.rs */
TWIN_INLINE void codel_state_enter(codel_state *self, const codel_params *params, units_instant now)
{
	self->dropping = true;
	u32 delta = saturating_sub_u32(self->count, self->last_count);
	units_span t = units_instant_since(now, self->drop_next);
	units_span t_2 = units_span_saturating_mul(params->interval, 16ull);
	bool recent = (t < t_2);
	u32 t_3;
	if (((delta > 1u) && recent)) {
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

/* Instant::add_assign of crates/units/src/quantity.rs */
TWIN_INLINE void units_instant_add_assign_span(units_instant *self, units_span span)
{
	units_instant t = units_instant_add_span((*self), span);
	(*self) = t;
}

/* State::decide of crates/core/src/codel.rs */
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
	if (((!may_drop || (now < self->drop_next)) || (call->drops >= codel_most_drops_a_call()))) {
		return CODEL_ACTION_SEND;
	}
	call->drops = ((u32)(call->drops + 1u));
	self->count = saturating_add_u32(self->count, 1u);
	return CODEL_ACTION_SIGNAL;
}

/* State::marked of crates/core/src/codel.rs */
TWIN_INLINE void codel_state_marked(codel_state *self, const codel_params *params, const codel_call *call)
{
	if ((call->phase == CODEL_PHASE_EPISODE)) {
		units_span t_2 = codel_params_spacing(params, self->count);
		units_instant_add_assign_span(&self->drop_next, t_2);
	}
}

/* State::ran_empty of crates/core/src/codel.rs */
TWIN_INLINE void codel_state_ran_empty(codel_state *self, const codel_call *call)
{
	self->first_above = (option_units_instant){0};
	if ((call->phase != CODEL_PHASE_LAST)) {
		self->dropping = false;
	}
}

#endif
