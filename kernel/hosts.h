/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Hosts that share a class equally, as crates/core/src/qdisc/fbq/hosts.rs has them: an order of hosts in the class, and in each of
 * its flows. A part of fbq.h; called only where hosts share the classes.
 */
#ifndef TWIN_HOSTS_H
#define TWIN_HOSTS_H

/* Of the chassis: the key of the host of the packet that arrives, by fair_by. */
TWIN_GLOBAL u64 twin_know_host(u64 fair_by);

/* Removes a host from the order of its class, or from those that wait for their ceilings. */
TWIN_INLINE void twin_fbq_unlist_host(struct twin_fbq *fbq, struct twin_fbq_host *host, u32 number)
{
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, host->class);

	twin_order_remove(&fbq->orders, host->waits ? &class->waiting_hosts : &class->share, TWIN_HOSTS + number);
	host->waits = false;
}

/* The savings of a host that no longer waits for its ceiling are bounded as those of a host that begins to queue are. */
TWIN_INLINE void twin_fbq_restart_host(const struct twin_fbq_options *options, struct twin_fbq *fbq, struct twin_fbq_host *host)
{
	if (host->waits)
		host->start = fbq_starts_again(host->start, twin_fbq_class_of(fbq, host->class)->virtual_now,
					       twin_fbq_host_length(twin_fbq_params(options, host->class)->flow_burst));
}

/* When the ceiling of a host pays for bytes: at once without one, U64_MAX for never. */
TWIN_GLOBAL u64 twin_fbq_host_pays_at(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN, u32 number,
				      u64 bytes)
{
	struct twin_fbq_host *host = twin_fbq_host_of(fbq, number);
	option_units_instant time;

	if (twin_fbq_params(options, host->class)->host_most == 0)
		return 0;
	time = bucket_token_bucket_time_for(&host->ceiling, 0, bytes);
	return time.some ? time.value : U64_MAX;
}

/* The place of a host in the order of its class, by its next packet, or among those that wait for their ceilings. */
TWIN_GLOBAL u32 twin_fbq_key_host(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN,
				  struct twin_held *held TWIN_GIVEN, u32 number)
{
	struct twin_fbq_host *host = twin_fbq_host_of(fbq, number);
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, host->class);
	u64 size, pays;

	if (host->share == TWIN_NONE) {
		twin_fbq_unlist_host(fbq, host, number);
		return 0;
	}
	size = twin_packet_of(held, twin_queue_of(held, host->share)->head)->size;
	pays = twin_fbq_host_pays_at(options, fbq, number, size);
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
		twin_order_set(&fbq->orders, &class->share, TWIN_HOSTS + number, host->start + twin_fbq_host_length(size), host->tie);
	}
	return 0;
}

/* Moves hosts that no longer wait for their ceilings as of base into the order of the class, at most as many as the core does. */
TWIN_GLOBAL u32 twin_fbq_release_hosts(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN,
				       struct twin_held *held TWIN_GIVEN, u32 q, u64 base)
{
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, q);

	class->host_time = max_u64(class->host_time, base);
	TWIN_FOR(u32, i, 0, TWIN_FBQ_RELEASES) {
		u32 first = class->waiting_hosts;

		if (first == TWIN_NONE || twin_node_of(&fbq->orders, first)->key > base)
			break;
		twin_fbq_key_host(options, fbq, held, first - TWIN_HOSTS);
	}
	return 0;
}

/* The host of a flow that has joined it has the ceiling of its class. If it is new, that may have been the flow's in another class. */
TWIN_GLOBAL u32 twin_fbq_limit_host(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN, u32 flow)
{
	struct twin_fbq_host *host = twin_fbq_host_of(fbq, twin_fbq_flow_of(fbq, flow)->host);
	const struct twin_fbq_class_options *params = twin_fbq_params(options, host->class);
	bool has = !fbq->host_is_new;

	if (!has && fbq->carried_by == flow) {
		host->ceiling = fbq->carried;
		has = true;
	}
	fbq->carried_by = TWIN_NONE;
	if (params->host_most == 0)
		return 0;
	if (!has) {
		host->ceiling = bucket_token_bucket_full(params->host_most, params->host_most_burst, fbq->now);
	} else if (host->ceiling.rate != params->host_most ||
		   bucket_token_bucket_depth(&host->ceiling) != params->host_most_burst) {
		bucket_token_bucket_set_rate(&host->ceiling, fbq->now, params->host_most);
		bucket_token_bucket_set_depth(&host->ceiling, fbq->now, params->host_most_burst);
	}
	return 0;
}

/* A flow of a host has a queue now: what a host without one has saved is bounded as that of a flow is. */
TWIN_INLINE void twin_fbq_host_queues(const struct twin_fbq_options *options, struct twin_fbq *fbq, u32 number)
{
	struct twin_fbq_host *host = twin_fbq_host_of(fbq, number);
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, host->class);

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
	u32 number = twin_fbq_flow_of(fbq, flow)->host;

	twin_fbq_host_of(fbq, number)->bytes += size;
	if (twin_queue_of(held, flow)->backlog.packets == 1)
		twin_fbq_host_queues(options, fbq, number);
	return 0;
}

/* A packet of a flow leaves, which its queue contains no more. */
TWIN_INLINE void twin_fbq_host_sent(struct twin_fbq *fbq, struct twin_held *held, u32 flow, u64 size)
{
	struct twin_fbq_host *host = twin_fbq_host_of(fbq, twin_fbq_flow_of(fbq, flow)->host);

	host->bytes -= size;
	if (twin_queue_of(held, flow)->backlog.packets == 0 && --host->queued == 0)
		twin_fbq_class_of(fbq, host->class)->hosts_queued--;
}

TWIN_INLINE u64 twin_host_chain(u64 key, u32 q)
{
	return twin_index((key_index_mix(key) >> 32) + q, TWIN_QUEUES);
}

/* A record for a host of a class: one that a host of it had, a new one, or one that a host of another class had. */
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
		/* There are as many as flows, so that one is free. */
		TWIN_FOR(u32, other, 0, TWIN_FBQ_CLASSES) {
			struct twin_fbq_class *of = twin_fbq_class_of(fbq, other);

			number = of->free_host;
			if (number != TWIN_NONE) {
				of->free_host = twin_fbq_host_of(fbq, number)->chain;
				break;
			}
		}
	}
	twin_fbq_host_of(fbq, number)->tie = class->hosts++;
	return number;
}

/* A flow joins its class: its host is made if it is new; twin_fbq_limit_host is to be called next. It has a burst to use only while nothing is queued in the class. */
TWIN_GLOBAL u32 twin_fbq_join_host(const struct twin_fbq_options *options TWIN_GIVEN, struct twin_fbq *fbq TWIN_GIVEN,
				   struct twin_held *held TWIN_GIVEN, u32 flow)
{
	struct twin_fbq_flow *of = twin_fbq_flow_of(fbq, flow);
	u32 q = of->class, number;
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, q);
	u64 chain = twin_host_chain(of->host_key, q), credit;
	qdisc_backlog backlog = twin_queue_of(held, flow)->backlog;
	struct twin_fbq_host *host;

	class->host_time = max_u64(class->host_time, fbq->now);
	number = fbq->host_chains[chain];
	TWIN_FOR(u32, step, 0, TWIN_QUEUES) {
		host = twin_fbq_host_of(fbq, number);
		if (number == TWIN_NONE || (host->key == of->host_key && host->class == q))
			break;
		number = host->chain;
	}
	fbq->host_is_new = number == TWIN_NONE;
	if (number == TWIN_NONE) {
		number = twin_fbq_take_host(fbq, q);
		host = twin_fbq_host_of(fbq, number);
		credit = class->backlog.packets == 0 ? twin_fbq_params(options, q)->flow_burst : 0;
		host->key = of->host_key;
		host->start = fbq_starts_with(class->virtual_now, twin_fbq_host_length(credit));
		host->virtual_now = fbq_virtual_start();
		host->bytes = 0;
		host->flows = host->queued = 0;
		host->share = TWIN_NONE;
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
		twin_fbq_host_queues(options, fbq, number);
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
	u64 chain = twin_host_chain(host->key, host->class);
	u32 at = fbq->host_chains[chain];

	of->host = TWIN_NONE;
	if (backlog.packets != 0) {
		host->bytes -= backlog.bytes;
		if (--host->queued == 0)
			class->hosts_queued--;
	}
	if (--host->flows != 0)
		return 0;
	if (twin_fbq_params(options, host->class)->host_most != 0) {
		fbq->carried = host->ceiling;
		fbq->carried_by = flow;
	}
	if (at == number) {
		fbq->host_chains[chain] = host->chain;
	} else {
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
	}
	host->chain = class->free_host;
	class->free_host = number;
	return 0;
}

/* Charges a host for a packet of it that left as of a time; by: the bucket by which the flow was selected. */
TWIN_INLINE void twin_fbq_charge_host(const struct twin_fbq_options *options, struct twin_fbq *fbq, struct twin_fbq_flow *flow,
				      u64 then, u64 size, u128 length)
{
	struct twin_fbq_host *host = twin_fbq_host_of(fbq, flow->host);
	struct twin_fbq_class *class = twin_fbq_class_of(fbq, flow->class);
	u32 by = class->by;

	class->host_time = max_u64(class->host_time, then);
	if (twin_fbq_params(options, flow->class)->host_most != 0) {
		bucket_token_bucket_charge(&host->ceiling, then, size);
		/* One that leaves at the moment at which its ceiling pays was not in the order yet. */
		twin_fbq_restart_host(options, fbq, host);
	}
	flow->start = fbq_charged(flow->start, host->virtual_now, by, length);
	host->start = fbq_charged(host->start, class->virtual_now, by, twin_fbq_host_length(size));
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
