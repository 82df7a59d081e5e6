/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Hosts that share a class equally, as crates/core/src/qdisc/fbq/hosts.rs has them: an order of hosts in the class, and in each of
 * its flows. The flows of a rule with a ceiling are a group of the same kind, and so is a flow that has a ceiling, alone. What
 * waits for a ceiling is as in ceiling.rs beside it. A part of fbq.h.
 */
#ifndef TWIN_HOSTS_H
#define TWIN_HOSTS_H

/* Of the chassis: the key of the host of the packet that arrives, by fair_by. */
TWIN_GLOBAL u64 twin_know_host(u64 fair_by);

/* A ceiling: a rate, 0 for none, and the burst above it. */
struct twin_ceiling {
	u64 rate, burst;
};

TWIN_INLINE struct twin_ceiling twin_fbq_group_ceiling(const struct twin_fbq_options *options, const struct twin_fbq_host *host)
{
	const struct twin_fbq_class_options *params = twin_fbq_params(options, host->class);
	const struct twin_fbq_profile *rule = &options->profile[twin_index(host->rule - 1, TWIN_FBQ_PROFILES)];

	if (host->rule != 0)
		return (struct twin_ceiling){ rule->most, rule->most_burst };
	return (struct twin_ceiling){ params->host_most, params->host_most_burst };
}

/* When the bucket of a ceiling pays for bytes: U64_MAX for never. */
TWIN_INLINE u64 twin_ceiling_pays_at(const bucket_token_bucket *ceiling, u64 bytes)
{
	option_units_instant time = bucket_token_bucket_time_for(ceiling, 0, bytes);

	return time.some ? time.value : U64_MAX;
}

/* Brings a bucket to a ceiling. One that there was keeps its level. */
TWIN_INLINE void twin_ceiling_set(bucket_token_bucket *bucket, bool was_there, u64 now, u64 rate, u64 burst)
{
	if (!was_there) {
		*bucket = bucket_token_bucket_full(rate, burst, now);
	} else if (bucket->rate != rate || bucket_token_bucket_depth(bucket) != burst) {
		bucket_token_bucket_set_rate(bucket, now, rate);
		bucket_token_bucket_set_depth(bucket, now, burst);
	}
}

/* The profile of the rule with a ceiling that a flow is under, plus 1; 0 for none. */
TWIN_INLINE u32 twin_fbq_capped_by(const struct twin_fbq_options *options, const struct twin_fbq_flow *flow)
{
	return flow->profile < options->profiles && options->profile[twin_index(flow->profile, TWIN_FBQ_PROFILES)].most != 0
		       ? flow->profile + 1
		       : 0;
}

/* Whether a flow is in a group in its class. */
TWIN_INLINE bool twin_fbq_is_grouped(const struct twin_fbq_options *options, const struct twin_fbq_flow *flow)
{
	return options->fair_by != 0 || twin_fbq_params(options, flow->class)->flow_most != 0 || twin_fbq_capped_by(options, flow) != 0;
}

/* The weight of a group in its class: hosts share it equally, other groups have the weights of their flows. */
TWIN_INLINE u64 twin_fbq_group_weight(const struct twin_fbq_options *options, const struct twin_fbq_host *host)
{
	return options->fair_by != 0 ? fbq_weight_one() : fbq_weight_of(host->queued_weight);
}

/* The virtual length of bytes of a group, as a host has it. */
TWIN_INLINE u128 twin_fbq_host_length(u64 bytes)
{
	return fbq_virtual_length(bytes, fbq_weight_one());
}

/* The flow of a group that is next, or will be, with a queue. */
TWIN_INLINE u32 twin_fbq_next_of_host(const struct twin_fbq_host *host)
{
	return host->share != TWIN_NONE ? host->share : host->held;
}

/* When the ceiling of a flow pays for bytes: at once without one, U64_MAX for never. */
TWIN_INLINE u64 twin_fbq_flow_pays_at(const struct twin_fbq_flow *flow, u64 bytes)
{
	return flow->has_ceiling ? twin_ceiling_pays_at(&flow->ceiling, bytes) : 0;
}

/* The savings of a flow that no longer waits for its ceiling are bounded as those of a flow that begins to queue are. */
TWIN_GLOBAL u32 twin_fbq_restart_flow(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN, u32 number)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);

	if (flow->held)
		flow->start = fbq_starts_again(flow->start, twin_fbq_host_of(fbq, flow->host)->virtual_now,
					       fbq_virtual_length(twin_fbq_params(options, flow->class)->flow_burst, flow->weight));
	return 0;
}

/* Removes a flow from the order of its group, or from those that wait for their ceilings. */
TWIN_INLINE void twin_fbq_unlist_flow(struct twin_fbq *fbq, u32 number)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	struct twin_fbq_host *host = twin_fbq_host_of(fbq, flow->host);

	twin_order_remove(&fbq->orders, flow->held ? &host->held : &host->share, number);
	flow->held = false;
}

/* The place of a flow with a queue in the order of its group, or among those that wait for their ceilings. */
TWIN_GLOBAL u32 twin_fbq_key_in_host(struct twin_fbq *fbq TWIN_GIVEN, struct twin_held *held TWIN_GIVEN, u32 number)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	struct twin_fbq_host *host = twin_fbq_host_of(fbq, flow->host);
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, flow->class);
	const struct twin_packet *head = twin_packet_of(held, twin_queue_of(held, number)->head);
	u64 pays = twin_fbq_flow_pays_at(flow, head->size);

	if (flow->held != (pays > class->host_time))
		twin_fbq_unlist_flow(fbq, number);
	flow->held = pays > class->host_time;
	if (flow->held)
		twin_order_set(&fbq->orders, &host->held, number, pays, number);
	else
		twin_order_set(&fbq->orders, &host->share, number,
			       flow->start + twin_fbq_length(&class->packet, head->size, flow->weight), number);
	return 0;
}

/* Removes a host from the order of its class, or from those that wait for their ceilings. */
TWIN_INLINE void twin_fbq_unlist_host(struct twin_fbq *fbq, struct twin_fbq_host *host, u32 number)
{
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, host->class);

	twin_order_remove(&fbq->orders, host->waits ? &class->waiting_hosts : &class->groups, TWIN_HOSTS + number);
	host->waits = false;
}

/* The savings of a host that no longer waits for its ceiling are bounded as those of a host that begins to queue are. */
TWIN_INLINE void twin_fbq_restart_host(const struct twin_fbq_options *options, struct twin_fbq *fbq, struct twin_fbq_host *host)
{
	if (host->waits)
		host->start = fbq_starts_again(host->start, twin_fbq_class_of(fbq, host->class)->virtual_now,
					       fbq_virtual_length(twin_fbq_params(options, host->class)->flow_burst,
								  twin_fbq_group_weight(options, host)));
}

/* When the ceiling of a host pays for bytes: at once without one, U64_MAX for never. */
TWIN_GLOBAL u64 twin_fbq_host_pays_at(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN, u32 number,
				      u64 bytes)
{
	struct twin_fbq_host *host = twin_fbq_host_of(fbq, number);

	return twin_fbq_group_ceiling(options, host).rate == 0 ? 0 : twin_ceiling_pays_at(&host->ceiling, bytes);
}

/* The place of a host in the order of its class, by its next packet, or among those that wait for a ceiling. */
TWIN_GLOBAL u32 twin_fbq_place_host(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN,
				  struct twin_held *held TWIN_GIVEN, u32 number)
{
	struct twin_fbq_host *host = twin_fbq_host_of(fbq, number);
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, host->class);
	u32 next = twin_fbq_next_of_host(host);
	u64 size, pays;

	if (next == TWIN_NONE) {
		twin_fbq_unlist_host(fbq, host, number);
		return 0;
	}
	size = twin_packet_of(held, twin_queue_of(held, next)->head)->size;
	pays = twin_fbq_host_pays_at(options, fbq, number, size);
	if (host->share == TWIN_NONE)
		pays = max_u64(pays, twin_node_of(&fbq->orders, next)->key);
	if (pays == U64_MAX) {
		twin_fbq_unlist_host(fbq, host, number);
	} else if (pays > class->host_time) {
		if (!host->waits)
			twin_fbq_unlist_host(fbq, host, number);
		host->waits = true;
		twin_order_set(&fbq->orders, &class->waiting_hosts, TWIN_HOSTS + number, pays, host->tie);
	} else {
		twin_fbq_restart_host(options, fbq, host);
		if (host->waits)
			twin_fbq_unlist_host(fbq, host, number);
		twin_order_set(&fbq->orders, &class->groups, TWIN_HOSTS + number,
			       host->start + fbq_virtual_length(size, twin_fbq_group_weight(options, host)), host->tie);
	}
	return 0;
}

/* Moves the flow of a group that waits for its ceiling no longer than the others into the order of the group, if its ceiling pays. */
TWIN_INLINE void twin_fbq_wake(const struct twin_fbq_options *options, struct twin_fbq *fbq, struct twin_held *held, u32 group)
{
	struct twin_fbq_host *host = twin_fbq_host_of(fbq, group);
	u32 first = host->held;

	if (first == TWIN_NONE || twin_node_of(&fbq->orders, first)->key > twin_fbq_class_of(fbq, host->class)->host_time)
		return;
	twin_fbq_restart_flow(options, fbq, first);
	twin_fbq_key_in_host(fbq, held, first);
}

/* The place of a group, after as many of its flows as in the core no longer wait. In several functions, since the stack of the kernel is small. */
TWIN_GLOBAL u32 twin_fbq_key_host(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN,
				  struct twin_held *held TWIN_GIVEN, u32 number)
{
	twin_fbq_wake(options, fbq, held, number);
	twin_fbq_wake(options, fbq, held, number);
	return twin_fbq_place_host(options, fbq, held, number);
}

/* Moves the host that waits for a ceiling no longer than the others into the order of the class, if it waits no more as of base. */
TWIN_INLINE void twin_fbq_release_host(const struct twin_fbq_options *options, struct twin_fbq *fbq, struct twin_held *held, u32 q,
				       u64 base)
{
	u32 first = twin_fbq_class_of(fbq, q)->waiting_hosts;

	if (first != TWIN_NONE && twin_node_of(&fbq->orders, first)->key <= base)
		twin_fbq_key_host(options, fbq, held, first - TWIN_HOSTS);
}

/* The same for as many as in the core. */
TWIN_INLINE void twin_fbq_release_hosts(const struct twin_fbq_options *options, struct twin_fbq *fbq, struct twin_held *held, u32 q,
					u64 base)
{
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, q);

	class->host_time = max_u64(class->host_time, base);
	twin_fbq_release_host(options, fbq, held, q, base);
	twin_fbq_release_host(options, fbq, held, q, base);
}

/* The host of a flow that has joined it has the ceiling of its class. If it is new, that may have been the flow's in another class. */
TWIN_GLOBAL u32 twin_fbq_limit_host(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN, u32 flow)
{
	struct twin_fbq_host *host = twin_fbq_host_of(fbq, twin_fbq_flow_of(fbq, flow)->host);
	struct twin_ceiling ceiling = twin_fbq_group_ceiling(options, host);
	bool has = !fbq->host_is_new;

	if (!has && fbq->carried_by == flow && host->rule == 0) {
		host->ceiling = fbq->carried;
		has = true;
	}
	fbq->carried_by = TWIN_NONE;
	if (ceiling.rate != 0)
		twin_ceiling_set(&host->ceiling, has, fbq->now, ceiling.rate, ceiling.burst);
	return 0;
}

/* A flow that joins its class has the ceiling of flows of that. */
TWIN_GLOBAL u32 twin_fbq_limit_flow(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN, u32 number)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	const struct twin_fbq_class_options *params = twin_fbq_params(options, flow->class);

	if (params->flow_most != 0)
		twin_ceiling_set(&flow->ceiling, flow->has_ceiling, fbq->now, params->flow_most, params->flow_most_burst);
	flow->has_ceiling = params->flow_most != 0;
	return 0;
}

/* A flow of a host has a queue now: what a host without one has saved is bounded as that of a flow is. */
TWIN_INLINE void twin_fbq_host_queues(const struct twin_fbq_options *options, struct twin_fbq *fbq, const struct twin_fbq_flow *flow)
{
	struct twin_fbq_host *host = twin_fbq_host_of(fbq, flow->host);
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, host->class);

	host->queued_weight += flow->weight;
	if (++host->queued != 1)
		return;
	host->start = fbq_starts_again(host->start, class->virtual_now,
				       twin_fbq_host_length(twin_fbq_params(options, host->class)->flow_burst));
	class->hosts_queued++;
}

/* A packet of a flow was queued, which its queue contains already. */
TWIN_GLOBAL u32 twin_fbq_host_queued(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN,
				     struct twin_held *held TWIN_GIVEN, u32 flow, u64 size)
{
	struct twin_fbq_flow *of = twin_fbq_flow_of(fbq, flow);

	twin_fbq_host_of(fbq, of->host)->bytes += size;
	if (twin_queue_of(held, flow)->backlog.packets == 1)
		twin_fbq_host_queues(options, fbq, of);
	return 0;
}

/* A flow of a host has no queue any more, or leaves with it. */
TWIN_INLINE void twin_fbq_host_queues_no_more(struct twin_fbq *fbq, struct twin_fbq_host *host, const struct twin_fbq_flow *flow)
{
	host->queued_weight -= flow->weight;
	if (--host->queued == 0)
		twin_fbq_class_of(fbq, host->class)->hosts_queued--;
}

/* The weight of a flow was `before`. */
TWIN_GLOBAL u32 twin_fbq_host_weighed(struct twin_fbq *fbq TWIN_GIVEN, struct twin_held *held TWIN_GIVEN, u32 number, u64 before)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);

	if (flow->host != TWIN_NONE && twin_queue_of(held, number)->backlog.packets != 0)
		twin_fbq_host_of(fbq, flow->host)->queued_weight += flow->weight - before;
	return 0;
}

/* A packet of a flow leaves, which its queue contains no more. */
TWIN_INLINE void twin_fbq_host_sent(struct twin_fbq *fbq, struct twin_held *held, u32 flow, u64 size)
{
	struct twin_fbq_flow *of = twin_fbq_flow_of(fbq, flow);
	struct twin_fbq_host *host = twin_fbq_host_of(fbq, of->host);

	host->bytes -= size;
	if (twin_queue_of(held, flow)->backlog.packets == 0)
		twin_fbq_host_queues_no_more(fbq, host, of);
}

TWIN_INLINE u64 twin_host_chain(u64 key, u32 rule, u32 q)
{
	return twin_index((key_index_mix(key) >> 32) + q + rule * TWIN_FBQ_CLASSES, TWIN_QUEUES);
}

/* Takes a host out of the chain of its key. */
TWIN_GLOBAL u32 twin_fbq_unchain_host(struct twin_fbq *fbq TWIN_GIVEN, u32 number)
{
	struct twin_fbq_host *host = twin_fbq_host_of(fbq, number);
	u64 chain = twin_host_chain(host->key, host->rule, host->class);
	u32 at = fbq->host_chains[chain];

	if (at == number) {
		fbq->host_chains[chain] = host->chain;
		return 0;
	}
	TWIN_FOR(u32, step, 0, TWIN_QUEUES) {
		struct twin_fbq_host *other = twin_fbq_host_of(fbq, at);

		if (at == TWIN_NONE)
			break;
		if (other->chain == number) {
			other->chain = host->chain;
			break;
		}
		at = other->chain;
	}
	return 0;
}

/* The record of a rule without flows, which is free then: the ceiling of the rule begins with its burst when it has flows again. */
TWIN_GLOBAL u32 twin_fbq_end_rule(struct twin_fbq *fbq TWIN_GIVEN)
{
	TWIN_FOR(u32, number, 0, TWIN_QUEUES) {
		struct twin_fbq_host *host = twin_fbq_host_of(fbq, number);

		if (host->rule == 0 || host->flows != 0)
			continue;
		twin_fbq_unchain_host(fbq, number);
		return number;
	}
	return TWIN_NONE;
}

/* A record for a host of a class: one that a host of it had, a new one, or one that a host of another class or a rule had. */
TWIN_INLINE u32 twin_fbq_take_host(struct twin_fbq *fbq, u32 q)
{
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, q);
	u32 number = class->free_host;

	if (number != TWIN_NONE) {
		class->free_host = twin_fbq_host_of(fbq, number)->chain;
		return number;
	}
	if (fbq->used_hosts < TWIN_QUEUES) {
		number = fbq->used_hosts++;
	} else {
		/* There are as many as flows, so that one is free, or that of a rule without flows. */
		number = TWIN_NONE;
		TWIN_FOR(u32, other, 0, TWIN_FBQ_CLASSES) {
			struct twin_fbq_class *of = twin_fbq_class_of(fbq, other);

			number = of->free_host;
			if (number != TWIN_NONE) {
				of->free_host = twin_fbq_host_of(fbq, number)->chain;
				break;
			}
		}
	}
	if (number == TWIN_NONE)
		number = twin_fbq_end_rule(fbq);
	twin_fbq_host_of(fbq, number)->tie = class->hosts++;
	return number;
}

/* A flow joins its class: its host is made if it is new; twin_fbq_limit_host is to be called next. It has a burst to use only while nothing is queued in the class. */
TWIN_GLOBAL u32 twin_fbq_join_host(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN,
				   struct twin_held *held TWIN_GIVEN, u32 flow)
{
	struct twin_fbq_flow *of = twin_fbq_flow_of(fbq, flow);
	u32 q = of->class, number, rule = twin_fbq_capped_by(options, of);
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, q);
	u64 key = rule != 0 ? 0 : of->host_key, chain = twin_host_chain(key, rule, q), credit;
	qdisc_backlog backlog = twin_queue_of(held, flow)->backlog;
	struct twin_fbq_host *host;

	class->host_time = max_u64(class->host_time, fbq->now);
	number = fbq->host_chains[chain];
	TWIN_FOR(u32, step, 0, TWIN_QUEUES) {
		host = twin_fbq_host_of(fbq, number);
		if (number == TWIN_NONE || (host->key == key && host->rule == rule && host->class == q))
			break;
		number = host->chain;
	}
	fbq->host_is_new = number == TWIN_NONE;
	if (number == TWIN_NONE) {
		number = twin_fbq_take_host(fbq, q);
		host = twin_fbq_host_of(fbq, number);
		credit = class->backlog.packets == 0 ? twin_fbq_params(options, q)->flow_burst : 0;
		host->key = key;
		host->rule = rule;
		host->start = fbq_starts_with(class->virtual_now, twin_fbq_host_length(credit));
		host->virtual_now = fbq_virtual_start();
		host->bytes = host->queued_weight = 0;
		host->flows = host->queued = 0;
		host->share = host->held = TWIN_NONE;
		host->waits = false;
		host->class = q;
		host->chain = fbq->host_chains[chain];
		fbq->host_chains[chain] = number;
	}
	of->host = number;
	host = twin_fbq_host_of(fbq, number);
	host->flows++;
	if (backlog.packets != 0) {
		host->bytes += backlog.bytes;
		twin_fbq_host_queues(options, fbq, of);
	}
	return 0;
}

/* A flow leaves, with its queue if it has one; it is in no order any more. */
TWIN_GLOBAL u32 twin_fbq_leave_host(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN,
				    struct twin_held *held TWIN_GIVEN, u32 flow)
{
	struct twin_fbq_flow *of = twin_fbq_flow_of(fbq, flow);
	u32 number = of->host;
	struct twin_fbq_host *host = twin_fbq_host_of(fbq, number);
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, host->class);
	qdisc_backlog backlog = twin_queue_of(held, flow)->backlog;

	of->host = TWIN_NONE;
	if (backlog.packets != 0) {
		host->bytes -= backlog.bytes;
		twin_fbq_host_queues_no_more(fbq, host, of);
	}
	/* A rule stays. */
	if (--host->flows != 0 || host->rule != 0)
		return 0;
	if (twin_fbq_params(options, host->class)->host_most != 0) {
		fbq->carried = host->ceiling;
		fbq->carried_by = flow;
	}
	twin_fbq_unchain_host(fbq, number);
	host->chain = class->free_host;
	class->free_host = number;
	return 0;
}

/* Charges a host for a packet of it that left as of a time; by: the bucket by which the flow was selected. */
TWIN_INLINE void twin_fbq_charge_host(const struct twin_fbq_options *options, struct twin_fbq *fbq, u32 number, u64 then, u64 size,
				      u128 length)
{
	struct twin_fbq_flow *flow = twin_fbq_flow_of(fbq, number);
	struct twin_fbq_host *host = twin_fbq_host_of(fbq, flow->host);
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, flow->class);
	u32 by = class->by;

	class->host_time = max_u64(class->host_time, then);
	if (twin_fbq_group_ceiling(options, host).rate != 0)
		bucket_token_bucket_charge(&host->ceiling, then, size);
	/* What leaves at the moment at which its ceiling pays was not in the order yet. */
	twin_fbq_restart_host(options, fbq, host);
	if (flow->held)
		twin_fbq_restart_flow(options, fbq, number);
	if (flow->has_ceiling)
		bucket_token_bucket_charge(&flow->ceiling, then, size);
	flow->start = fbq_charged(flow->start, host->virtual_now, by, length);
	host->start = fbq_charged(host->start, class->virtual_now, by,
				  fbq_virtual_length(size, twin_fbq_group_weight(options, host)));
	if (by == FBQ_BY_SHARE) {
		host->virtual_now = max_u128(host->virtual_now, flow->start);
		class->virtual_now = max_u128(class->virtual_now, host->start);
	}
}

/* One of `queued` equal parts of a space, with a quarter of a part to spare. */
TWIN_INLINE u64 twin_fbq_equal_part(u64 space, u64 queued)
{
	return space / (queued * fbq_threshold_factor() + 1) * fbq_threshold_factor();
}

/* Whether the host of a flow may queue size more: it has no queue, or there is room in its part of a space. */
TWIN_INLINE bool twin_fbq_host_may(struct twin_fbq *fbq, const struct twin_fbq_flow *flow, u64 space, u64 size)
{
	struct twin_fbq_host *host = twin_fbq_host_of(fbq, flow->host);
	u64 queued = twin_fbq_class_of(fbq, flow->class)->hosts_queued;

	return host->queued == 0 || saturating_add_u64(host->bytes, size) <= twin_fbq_equal_part(space, max_u64(queued, 1));
}

#endif
