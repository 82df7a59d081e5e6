/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * RAS: one queue in the order of arrival, whose head is released at a rate that follows arrivals and occupancy, and before that if the
 * meter behind it would colour it green. A part of disciplines.h and departures.h.
 */
#ifndef TWIN_RAS_H
#define TWIN_RAS_H

/* Whether the meter is that of RAS itself, and not that of a marker before it. */
TWIN_INLINE bool twin_has_conditioner(const struct twin_options *options)
{
	return options->meter != TWIN_NO_METER && options->meter_exit == 2;
}

/* F, the minimum rate by the occupancy. */
TWIN_INLINE ras_curve twin_curve(const struct twin_options *options)
{
	const u64 *rates = options->shaping_rates, *bytes = options->shaping_bytes;

	if (rates[1] == 0)
		return (ras_curve){
			.kind = RAS_CURVE_SINGLE,
			.single_cir = rates[0],
			.single_mir = rates[2],
			.single_cir_th = bytes[0],
			.single_mir_th = bytes[2],
		};
	return (ras_curve){
		.kind = RAS_CURVE_TWO,
		.two_cir = rates[0],
		.two_pir = rates[1],
		.two_mir = rates[2],
		.two_cir_th = bytes[0],
		.two_pir_th = bytes[1],
		.two_mir_th = bytes[2],
	};
}

TWIN_GLOBAL u32 twin_begin_ras(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN)
{
	ras_curve curve = twin_curve(options);

	discipline->ras = ras_schedule_new(&curve);
	return 0;
}

/* The rate follows what is queued. */
TWIN_GLOBAL u32 twin_renew_ras(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN)
{
	ras_curve curve = twin_curve(options);

	ras_schedule_renew_rate(&discipline->ras, &curve, discipline->backlog.bytes);
	return 0;
}

/* Whether the packet that arrives is queued. */
TWIN_GLOBAL u32 twin_admits_ras(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN, u64 now)
{
	u64 size = discipline->arrives.size;

	ras_schedule_on_arrival(&discipline->ras, now, size, options->interval);
	if (saturating_add_u64(discipline->backlog.bytes, size) <= options->limit_bytes)
		return true;
	twin_renew_ras(options, discipline);
	return false;
}

/* A packet has been queued. */
TWIN_INLINE void twin_queued_ras(const struct twin_options *options, struct twin_discipline *discipline, u64 now)
{
	if (discipline->backlog.packets == 1)
		discipline->ras.head_since = now;
	twin_renew_ras(options, discipline);
}

/* When the meter would colour the head green, from when on it is the head; U64_MAX for never. */
TWIN_GLOBAL u64 twin_green_at(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN, u64 size,
			      u32 colour)
{
	const two_bucket_buckets *buckets = &discipline->meter.buckets;
	u64 since = discipline->ras.head_since;
	option_units_instant at;

	if (options->green != 1 || !twin_has_conditioner(options) || options->meter == TWIN_TSWTCM ||
	    (options->meter_aware == 1 && colour != PACKET_COLOUR_GREEN))
		return U64_MAX;
	if (options->meter == TWIN_TRTCM)
		at = trtcm_time_of_green(buckets, since, size);
	else
		at = bucket_token_bucket_time_of(&buckets->committed, since, size);
	return at.some ? at.value : U64_MAX;
}

/* When the head is released; there is one. */
TWIN_GLOBAL u64 twin_release_of_ras(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN,
				    struct twin_held *held TWIN_GIVEN)
{
	const struct twin_packet *head = twin_packet_of(held, twin_queue_of(held, discipline->room.first)->head);
	u64 green = twin_green_at(options, discipline, head->size, head->service >> TWIN_COLOUR & 3);

	return ras_schedule_release(&discipline->ras, (option_units_instant){ .some = green != U64_MAX, .value = green }).at;
}

/* The head leaves, which was to be released at `due`, and is out of the queue. */
TWIN_GLOBAL u32 twin_released_ras(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN, u64 now,
				  u64 due, u64 size)
{
	ras_schedule_on_release(&discipline->ras, now, due, size, options->slack);
	twin_renew_ras(options, discipline);
	ras_schedule_settle(&discipline->ras, now);
	return 0;
}

#endif
