/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * WRED and RIO: RED with a curve for each colour, and one average or one for each. A part of disciplines.h.
 */
#ifndef TWIN_COLOURED_H
#define TWIN_COLOURED_H

/* Green, yellow and red. */
#define TWIN_COLOURS 3

TWIN_INLINE struct twin_lane *twin_lane_of(struct twin_discipline *discipline, u32 colour)
{
	return &discipline->lanes[twin_index(colour, TWIN_LANES)];
}

/* The curve of a colour. */
TWIN_INLINE red_profile twin_profile_of(const struct twin_options *options, u32 colour)
{
	red_profile profile = twin_red(options).profile;

	if (colour == 0)
		return profile;
	profile.thresholds.packets_min = profile.thresholds.bytes_min = colour == 1 ? options->yellow_min : options->red_min;
	profile.thresholds.packets_max = profile.thresholds.bytes_max = colour == 1 ? options->yellow_max : options->red_max;
	profile.max_p = colour == 1 ? options->yellow_max_p : options->red_max_p;
	return profile;
}

/* Begins what one colour has. */
TWIN_GLOBAL u32 twin_begin_lane(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN, u32 colour)
{
	u32 from = colour == 2 ? 4 : 0;
	random_stream random = discipline->random;
	struct twin_lane *lane = twin_lane_of(discipline, colour);
	red_params params = twin_red(options);

	if (colour != 0)
		random = random_stream_from_parts(options->more_random[from], options->more_random[from + 1], options->more_random[from + 2],
						  options->more_random[from + 3]);
	lane->average = red_average_new(params.early.weight, params.early.idle_packet);
	lane->dropper = red_dropper_new(twin_profile_of(options, colour), params.early.above_max, random);
	lane->queue = (qdisc_backlog){0};
	return 0;
}

/* The packets that the average of a colour counts: with RIO its own, and where it is coupled those of better colours. */
TWIN_INLINE qdisc_backlog twin_counted(const struct twin_options *options, struct twin_discipline *discipline, u32 colour)
{
	qdisc_backlog counted = {0};

	for (u32 i = 0; i < TWIN_COLOURS; i++) {
		qdisc_backlog queue = twin_lane_of(discipline, i)->queue;

		if (i == colour || (options->coupled == 1 && i < colour)) {
			counted.packets += queue.packets;
			counted.bytes += queue.bytes;
		}
	}
	return counted;
}

/* Whether the average of a colour counts packets of another. */
TWIN_INLINE bool twin_counts(const struct twin_options *options, u32 average, u32 colour)
{
	if (options->kind == TWIN_WRED)
		return average == 0;
	return average == colour || (options->coupled == 1 && average > colour);
}

/* The average of RIO moves by the arrival of a packet that it counts. */
TWIN_GLOBAL u32 twin_average_lane(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN, u64 now,
				  u32 colour)
{
	red_profile profile = twin_profile_of(options, colour);

	red_average_on_arrival(&twin_lane_of(discipline, colour)->average, now,
			       red_thresholds_measure(profile.thresholds, twin_counted(options, discipline, colour)));
	return 0;
}

/* Whether the packet that arrives is queued. */
TWIN_GLOBAL u32 twin_admits_coloured(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN, u64 now)
{
	fifo_limit limit = { .packets = options->limit_packets, .bytes = options->limit_bytes };
	struct twin_arrival *arrives = &discipline->arrives;
	u32 colour = arrives->service >> TWIN_COLOUR & 3;
	red_dropper *dropper = &twin_lane_of(discipline, colour)->dropper;
	red_early_drop early = twin_red(options).early;
	qdisc_backlog queue = discipline->backlog;
	red_average *average = &twin_lane_of(discipline, 0)->average;
	aqm_verdict verdict;

	if (options->kind == TWIN_WRED) {
		red_average_on_arrival(average, now, red_thresholds_measure(twin_profile_of(options, colour).thresholds, queue));
	} else {
		for (u32 i = 0; i < TWIN_COLOURS; i++) {
			if (twin_counts(options, i, colour))
				twin_average_lane(options, discipline, now, i);
		}
		queue = twin_counted(options, discipline, colour);
		average = &twin_lane_of(discipline, colour)->average;
	}
	verdict = red_dropper_judge(dropper, &early, red_dropper_zone_at(dropper, red_average_level(average), queue), arrives->size,
				    arrives->capable);
	if (verdict.kind == AQM_VERDICT_DROP)
		discipline->refusal = verdict.drop;
	if (verdict.kind == AQM_VERDICT_DROP || !fifo_limit_admits(&limit, discipline->backlog, arrives->size))
		return false;
	arrives->marked = verdict.kind == AQM_VERDICT_MARK;
	return true;
}

/* A packet has been queued. */
TWIN_INLINE void twin_queued_coloured(const struct twin_options *options, struct twin_discipline *discipline,
				      const struct twin_packet *packet)
{
	u32 colour = packet->service >> TWIN_COLOUR & 3;

	qdisc_backlog_add(&twin_lane_of(discipline, colour)->queue, packet->size);
	for (u32 i = 0; i < TWIN_COLOURS; i++) {
		if (twin_counts(options, i, colour))
			red_average_on_busy(&twin_lane_of(discipline, i)->average);
	}
}

/* A packet has left. */
TWIN_INLINE void twin_left_coloured(const struct twin_options *options, struct twin_discipline *discipline,
				    const struct twin_packet *packet, u64 now)
{
	u32 colour = packet->service >> TWIN_COLOUR & 3;

	qdisc_backlog_remove(&twin_lane_of(discipline, colour)->queue, packet->size);
	for (u32 i = 0; i < TWIN_COLOURS; i++) {
		qdisc_backlog counted = options->kind == TWIN_WRED ? discipline->backlog : twin_counted(options, discipline, i);

		if (twin_counts(options, i, colour) && counted.packets == 0)
			red_average_on_empty(&twin_lane_of(discipline, i)->average, now);
	}
}

#endif
