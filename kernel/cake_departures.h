/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which packet of CAKE leaves, and when; see cake.h. A part of departures.h. */
#ifndef TWIN_CAKE_DEPARTURES_H
#define TWIN_CAKE_DEPARTURES_H

#ifdef TWIN_WITH_CAKE

/* Whether a tin may go before lower ones now. */
TWIN_INLINE bool twin_cake_goes_first(const struct twin_cake_tin *tin, u64 now)
{
	return tin->has_first && !bucket_token_bucket_is_in_debt(&tin->first, now);
}

/* The tin whose turn it is; TWIN_NONE when nothing waits. */
TWIN_GLOBAL u32 twin_cake_next_tin(const struct twin_options *options TWIN_GIVEN, u64 now)
{
	TWIN_FOR(u32, below, 0, TWIN_CAKE_TINS) {
		u32 number = TWIN_CAKE_TINS - 1 - below;

		if (number < options->tins && twin_cake_tin_at(number)->packets != 0 && twin_cake_goes_first(twin_cake_tin_at(number), now))
			return number;
	}
	TWIN_FOR(u32, i, 0, 2 * TWIN_CAKE_TINS + 1) {
		struct twin_cake_tin *tin = twin_cake_tin_at(twin_cake.turn);

		if (i > 2 * options->tins)
			break;
		if (tin->packets == 0)
			tin->deficit = (round_deficit){0};
		else if (round_deficit_is_positive(tin->deficit))
			return twin_cake.turn;
		twin_cake.turn = twin_cake.turn + 1 < options->tins ? twin_cake.turn + 1 : 0;
		tin = twin_cake_tin_at(twin_cake.turn);
		if (tin->packets != 0)
			round_deficit_renew(&tin->deficit, twin_cake.quantum * (s64)(u32)options->tin[twin_index(twin_cake.turn, TWIN_CAKE_TINS)]);
	}
	return TWIN_NONE;
}

/* A packet leaves, for which its flow, its host, its tin and the line pay. */
TWIN_GLOBAL u32 twin_cake_pay(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN,
			      struct twin_held *held TWIN_GIVEN, u32 number, u32 slot)
{
	struct twin_packet *packet = twin_packet_of(held, slot);
	struct twin_cake_flow *flow = twin_cake_flow_at(number - discipline->room.first);
	struct twin_cake_tin *tin = twin_cake_tin_at(flow->tin);
	u64 wire = twin_cake_bytes(options, packet->size, packet->segments);

	round_deficit_spend(&flow->deficit, wire);
	round_deficit_spend(&twin_cake_host_at(flow->host)->deficit, wire);
	/* The share goes into debt by what was sent first; what was sent in turn is not counted against it. */
	if (twin_cake_goes_first(tin, held->latest))
		bucket_token_bucket_charge(&tin->first, held->latest, wire);
	else
		round_deficit_spend(&tin->deficit, wire);
	if (options->rate != 0)
		bucket_token_bucket_charge(&discipline->bucket, held->latest, wire);
	twin_cake.serving = TWIN_NONE;
	return 0;
}

/* The first packet of a queue leaves or is dropped. */
TWIN_GLOBAL u64 twin_cake_take(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN,
			       struct twin_held *held TWIN_GIVEN, u32 number)
{
	struct twin_cake_flow *flow = twin_cake_flow_at(number - discipline->room.first);
	struct twin_queue *queue = twin_queue_of(held, number);
	codel_params params = twin_codel(options);
	bool marked = false, drops = false;
	struct twin_packet *packet;
	u32 slot;

	if (queue->backlog.packets == 0)
		return twin_step(TWIN_EMPTY, TWIN_NONE);
	slot = twin_pop_of(discipline, held, number);
	packet = twin_packet_of(held, slot);
	if (cobalt_state_signals(&flow->cobalt, &params, packet->at, queue->backlog.bytes + packet->size > options->mtu, held->latest)) {
		marked = options->marks == 1 && twin_is_capable(packet->service);
		drops = !marked;
	}
	if (cobalt_state_is_unlucky(&flow->cobalt, &discipline->random, queue->backlog.packets == 0))
		drops = true;
	twin_cake_gone(discipline, held, number, packet);
	if (drops && discipline->call.drops < codel_most_drops_a_call()) {
		discipline->call.drops++;
		return twin_step(marked ? TWIN_MARK_DROP : TWIN_DROP, slot);
	}
	twin_cake_pay(options, discipline, held, number, slot);
	marked = marked || twin_is_stepped(options, held, number, slot);
	return twin_step(marked ? TWIN_MARK : TWIN_SEND, slot);
}

/* The flow of a queue, which is in no list, takes turns among those of its host. */
TWIN_INLINE void twin_cake_take_turns(struct twin_held *held, const struct twin_cake_flow *flow, u32 number)
{
	struct twin_list *flows = &twin_cake_host_at(flow->host)->flows;

	if (flows->head == TWIN_NONE)
		twin_cake_append_host(twin_cake_tin_at(flow->tin), flow->host);
	twin_list_append(held, flows, number);
}

/* A step of a tin: the flow that became busy before the others. */
TWIN_GLOBAL u64 twin_cake_serve_fresh(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN,
				      struct twin_held *held TWIN_GIVEN, u32 number)
{
	u32 index = number - discipline->room.first;
	struct twin_cake_flow *flow = twin_cake_flow_at(index);
	struct twin_cake_tin *tin = twin_cake_tin_at(flow->tin);
	s64 quantum = twin_cake.quantum;

	if (round_deficit_is_positive(flow->deficit) &&
	    !round_deficit_owes(twin_cake_host_at(flow->host)->deficit, cake_most_debt() * quantum)) {
		u64 step = twin_cake_take(options, discipline, held, number);

		if (twin_action(step) != TWIN_EMPTY)
			return step;
	}
	twin_list_remove(held, &tin->fresh, number);
	/*
	 * A flow that ran empty gets a turn among the others, or it would be new for ever. One whose host owes too much has packets yet.
	 */
	if (round_deficit_renew(&flow->deficit, quantum) || twin_queue_of(held, number)->backlog.packets != 0 ||
	    tin->hosts.head != TWIN_NONE)
		twin_cake_take_turns(held, flow, number);
	else
		twin_cake_rest(index);
	return twin_step(TWIN_AGAIN, TWIN_NONE);
}

/* A step of a tin: the host whose turn it is, and its flow. */
TWIN_GLOBAL u64 twin_cake_serve_turn(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN,
				     struct twin_held *held TWIN_GIVEN, u32 of)
{
	struct twin_cake_tin *tin = twin_cake_tin_at(twin_cake.serving);
	struct twin_cake_host *host = twin_cake_host_at(of);
	u32 number = host->flows.head;
	struct twin_cake_flow *flow = twin_cake_flow_at(number - discipline->room.first);
	u64 step;

	if (round_deficit_renew(&host->deficit, twin_cake.quantum)) {
		twin_cake_remove_host(tin, of);
		twin_cake_append_host(tin, of);
		return twin_step(TWIN_AGAIN, TWIN_NONE);
	}
	if (round_deficit_renew(&flow->deficit, twin_cake.quantum)) {
		twin_list_remove(held, &host->flows, number);
		twin_list_append(held, &host->flows, number);
		return twin_step(TWIN_AGAIN, TWIN_NONE);
	}
	step = twin_cake_take(options, discipline, held, number);
	if (twin_action(step) != TWIN_EMPTY)
		return step;
	twin_list_remove(held, &host->flows, number);
	if (host->flows.head == TWIN_NONE)
		twin_cake_remove_host(tin, of);
	twin_cake_rest(number - discipline->room.first);
	return twin_step(TWIN_AGAIN, TWIN_NONE);
}

/* A step of CAKE. A tin, once it is its turn, is served until a packet leaves or it has none. */
TWIN_GLOBAL u64 twin_step_cake(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN,
			       struct twin_held *held TWIN_GIVEN)
{
	struct twin_cake_tin *tin;

	if (discipline->backlog.packets == 0) {
		twin_cake.serving = TWIN_NONE;
		return twin_step(TWIN_EMPTY, TWIN_NONE);
	}
	if (twin_cake.serving == TWIN_NONE) {
		if (options->rate != 0 && !twin_cake.always && bucket_token_bucket_is_in_debt(&discipline->bucket, held->latest))
			return twin_step(TWIN_WAIT, TWIN_NONE);
		twin_cake.serving = twin_cake_next_tin(options, held->latest);
		if (twin_cake.serving == TWIN_NONE)
			return twin_step(TWIN_EMPTY, TWIN_NONE);
	}
	tin = twin_cake_tin_at(twin_cake.serving);
	if (tin->fresh.head != TWIN_NONE)
		return twin_cake_serve_fresh(options, discipline, held, tin->fresh.head);
	if (tin->hosts.head != TWIN_NONE)
		return twin_cake_serve_turn(options, discipline, held, tin->hosts.head);
	twin_cake.serving = TWIN_NONE;
	return twin_step(TWIN_AGAIN, TWIN_NONE);
}

/* When the line has paid for what was sent, at `now` at the earliest. */
TWIN_INLINE u64 twin_deadline_cake(const struct twin_options *options, struct twin_discipline *discipline, u64 now)
{
	option_units_instant at = bucket_token_bucket_time_of(&discipline->bucket, now, 0);

	return options->rate != 0 && at.some && at.value > now ? at.value : TWIN_NOW;
}

#else

TWIN_INLINE u64 twin_step_cake(const struct twin_options *options, struct twin_discipline *discipline, struct twin_held *held)
{
	(void)options;
	(void)discipline;
	(void)held;
	return twin_step(TWIN_EMPTY, TWIN_NONE);
}

TWIN_INLINE u64 twin_deadline_cake(const struct twin_options *options, struct twin_discipline *discipline, u64 now)
{
	(void)options;
	(void)discipline;
	(void)now;
	return TWIN_NOW;
}

#endif

#endif
