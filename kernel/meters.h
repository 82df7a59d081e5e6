/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Meters, which colour packets before they are queued or when they leave, and what is done about a colour: a packet passes, is dropped,
 * or gets a code point. A part of disciplines.h.
 */
#ifndef TWIN_METERS_H
#define TWIN_METERS_H

enum { TWIN_NO_METER, TWIN_SRTCM, TWIN_TRTCM, TWIN_RFC4115, TWIN_TSWTCM, TWIN_METERS };

/* The colour of a packet in its service, above its code point and bits of congestion; and whether it has got its code point here. */
#define TWIN_COLOUR 8
#define TWIN_REMARKED 10

/* The colour of a code point: its drop precedence where it is of assured forwarding, else green. */
TWIN_INLINE u32 twin_colour_of(u32 service)
{
	u32 class = service >> 5 & 7, precedence = service >> 2 & 7;

	if (class < 1 || class > 4)
		return PACKET_COLOUR_GREEN;
	return precedence == 4 ? PACKET_COLOUR_YELLOW : precedence == 6 ? PACKET_COLOUR_RED : PACKET_COLOUR_GREEN;
}

/* The service with its colour replaced. */
TWIN_INLINE u32 twin_with_colour(u32 service, u32 colour)
{
	return (service & ~(3u << TWIN_COLOUR)) | colour << TWIN_COLOUR;
}

/* Begins the meter. */
TWIN_GLOBAL u32 twin_begin_meter(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN, u64 now)
{
	struct twin_meter *meter = &discipline->meter;
	tswtcm_params params = {
		.ctr = options->meter_rates[0],
		.ptr = options->meter_rates[1],
		.window = options->meter_window,
		.mode = options->meter_aware == 1 ? METER_MODE_AWARE : METER_MODE_BLIND,
	};

	meter->buckets.committed = bucket_token_bucket_full(options->meter_rates[0], options->meter_bursts[0], now);
	/* With srTCM the second earns what the first cannot hold. */
	meter->buckets.second = bucket_token_bucket_full(options->meter == TWIN_SRTCM ? 0 : options->meter_rates[1], options->meter_bursts[1], now);
	meter->window = tswtcm_tsw_tcm_drawing(params, now,
					       random_stream_from_parts(options->meter_random[0], options->meter_random[1],
									options->meter_random[2], options->meter_random[3]));
	return 0;
}

/* The colour of a packet that passes the meter, of which it takes the tokens. */
TWIN_GLOBAL u32 twin_meter(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN, u64 now, u64 size,
			   u32 incoming)
{
	struct twin_meter *meter = &discipline->meter;
	packet_colour from = options->meter_aware == 1 ? incoming : PACKET_COLOUR_GREEN;

	if (options->meter == TWIN_SRTCM)
		return srtcm_colour(&meter->buckets, now, size, from);
	if (options->meter == TWIN_TRTCM)
		return trtcm_colour(&meter->buckets, now, size, from);
	if (options->meter == TWIN_RFC4115)
		return rfc4115_colour(&meter->buckets, now, size, from);
	return tswtcm_tsw_tcm_colour(&meter->window, now, size, from);
}

/* The service of a packet that has passed the meter, or TWIN_NONE where it is dropped. */
TWIN_INLINE u32 twin_condition(const struct twin_options *options, struct twin_discipline *discipline, u64 now, u64 size, u32 service)
{
	u32 colour = twin_meter(options, discipline, now, size, service >> TWIN_COLOUR & 3);
	u64 action = options->actions[colour == PACKET_COLOUR_GREEN ? 0 : colour == PACKET_COLOUR_YELLOW ? 1 : 2];

	if (action == 1)
		return TWIN_NONE;
	service = twin_with_colour(service, colour);
	return action == 0 ? service : (service & ~0xfcu) | ((u32)(action - 2) & 0x3f) << 2 | 1u << TWIN_REMARKED;
}

#endif
