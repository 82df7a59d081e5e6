/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What the user has changed, options, classes and rules, is put in force here; packets that wait are queued anew where the
 * structure is another. A part of chassis.bpf.c, whose variables it uses. */
#ifndef TWIN_CHANGE_H
#define TWIN_CHANGE_H

/* Copies options of classes, by words. */
static __always_inline void copy_classes(struct twin_fbq_options *to, const struct twin_fbq_options *from)
{
	TWIN_FOR(u32, word, 0, sizeof(*to) / 8) {
		if (word >= sizeof(*to) / 8)
			break;
		((u64 *)to)[word] = ((const u64 *)from)[word];
	}
}

/* Copies options, of which there are too many for an assignment. */
static __always_inline void copy_options(struct twin_options *to, const struct twin_options *from)
{
	TWIN_FOR(u32, word, 0, sizeof(*to) / 8) {
		if (word >= sizeof(*to) / 8)
			break;
		((u64 *)to)[word] = ((const u64 *)from)[word];
	}
}

/* Takes over what the user has written. Returns whether it is whole: otherwise the next call tries again. */
static __always_inline bool take_options(struct twin_options *written)
{
	/* Also a barrier, as that below. */
	u64 changes = __sync_fetch_and_add(&written->changes, 0);

	if (changes % 2 != 0)
		return false;
	copy_options(&fresh, written);
	if (has_classes(&fresh)) {
		u32 key = 0;
		struct twin_fbq_options *from = bpf_map_lookup_elem(&twin_classes, &key);

		if (!from)
			return false;
		copy_classes(&fresh_classes, from);
		if (HAS_TREE && !twin_take_tree())
			return false;
		return __sync_fetch_and_add(&written->changes, 0) == changes &&
		       (HAS_TREE ? twin_tree_fits() : twin_fbq_supports(&fresh_classes));
	}
	/* All is one class with a discipline. */
	fresh_classes.classes = 1;
	fresh_classes.default_class = 0;
	fresh_classes.class[0].account = fresh.account;
	copy_options(&fresh_classes.inside[0], &fresh);
	return __sync_fetch_and_add(&written->changes, 0) == changes && twin_supports(&fresh) &&
	       (!twin_measures(&fresh) || has_twin_tables);
}

/* Queues a packet again in the discipline of its class. */
__noinline int twin_requeue_in(u32 slot)
{
	u32 q = twin_packet_of(&state.held, slot)->class;

	/* It was classified last. */
	u64 pair = twin_has_pairs(options_of(q)) ? twin_know_pair() : 0;

	CAKE(if (twin_is_cake(options_of(q))) {
		pair = twin_know_sharer(options_of(q)->hosts);
		twin_packet_of(&state.held, slot)->segments = line_segments;
		twin_packet_of(&state.held, slot)->is_ack = twin_know_ack();
	})
	twin_put_again(options_of(q), discipline_of(q), &state.held, tables_of(options_of(q)), pair, slot);
	return 0;
}

/* Queues a packet anew, which has a class. The first of a class with a discipline goes into the flow of the class. */
static __always_inline void queue_again(u32 slot)
{
	u32 q = twin_packet_of(&state.held, slot)->class;

	if (twin_fbq_has_inside(&classes, q) && twin_fbq_class_of(&fbq, q)->staged) {
		twin_requeue_in(slot);
		return;
	}
	twin_fbq_note_again(&classes, &fbq, &state.held, slot);
	twin_fbq_requeue(&classes, &fbq, &state.held, twin_fbq_arrive_again(&classes, &fbq, &state.held), slot);
}

/* The key of the flow that a packet has by the rules in force; class_of has the rest. */
__noinline u64 twin_flow_by_rules(u32 number)
{
	struct twin_slot *slot = slot_of(number);
	struct sk_buff *skb = slot ? bpf_kptr_xchg(&slot->skb, NULL) : NULL;

	class_of.flow = twin_packet_of(&state.held, number)->key;
	is_classified = false;
	if (skb) {
		classify(skb, in_force.rules);
		CAKE(note_packet(skb);)
		skb = bpf_kptr_xchg(&slot->skb, skb);
		if (skb)
			bpf_kfree_skb(skb);
	}
	return class_of.flow;
}

/* Finds the key of the flow of a packet, which another discipline may not have needed. */
__noinline int twin_find_flow(u32 number)
{
	twin_packet_of(&state.held, number)->key = twin_flow_by_rules(number);
	return 0;
}

/*
 * What is to be done after twin_follow, and not by it, since the stack of the kernel is small: what waits is queued anew under another
 * structure; other rates are put in force; what waits may be of other classes by the rules in force.
 */
static bool structure_is_other, rates_are_other, rules_are_other;

static __always_inline void count_moved(struct twin_counters *from, struct twin_counters *to, u64 size)
{
	from->moved_out_packets++;
	from->moved_out_bytes += size;
	to->moved_in_packets++;
	to->moved_in_bytes += size;
}

/* Gives a packet the class of the same account, or the default class, which counts it from then on. */
__noinline int twin_move(u32 slot)
{
	struct twin_packet *packet = twin_packet_of(&state.held, slot);
	u32 class = moved[twin_index(packet->class, TWIN_FBQ_CLASSES)];
	struct twin_counters *before, *counters;

	before = counters_at(twin_index(accounts[twin_index(packet->class, TWIN_FBQ_CLASSES)], TWIN_FBQ_CLASSES));
	packet->class = class != TWIN_NONE ? class : classes.default_class;
	counters = counters_of(packet->class);
	if (counters)
		count_queued(counters, packet->size);
	if (before && counters && class == TWIN_NONE)
		count_moved(before, counters, packet->size);
	return 0;
}

__noinline int twin_restart_aqm(u32 q)
{
	twin_begin_aqm(options_of(q), discipline_of(q), tables_of(options_of(q)));
	return 0;
}

__noinline int twin_restart_adapting(u32 q)
{
	twin_begin_adapting(options_of(q), discipline_of(q));
	return 0;
}

__noinline int twin_restart_lanes(u32 q)
{
	twin_begin_lanes(options_of(q), discipline_of(q));
	return 0;
}

/* The queues of a discipline, of which the first is given. Returns the first of the next. */
__noinline u32 twin_restart_queues(u32 q, u32 first)
{
	twin_begin_queues(options_of(q), discipline_of(q), &state.held, first);
	return first + twin_queues(options_of(q));
}

__noinline int twin_restart_held(void)
{
	twin_empty_queues(&state.held);
	return 0;
}

__noinline int twin_restart_classes(void)
{
	twin_fbq_begin(&classes, &fbq);
	fbq.now = state.held.latest;
	twin_fbq_hold_promises(&classes, &fbq);
	return 0;
}

static __always_inline void restart(void)
{
	u32 first = TWIN_FIRST;

	twin_restart_held();
	TWIN_FOR(u32, of, 0, TWIN_DISCIPLINES) {
		if (has_classes(&in_force) ? !twin_fbq_has_inside(&classes, of) : of != 0)
			continue;
		twin_restart_aqm(of);
		twin_restart_adapting(of);
		twin_restart_lanes(of);
		first = twin_restart_queues(of, first);
	}
	if (is_fbq(&in_force))
		twin_restart_classes();
	if (HAS_TREE)
		twin_restart_tree();
	TWIN_FOR(u32, q, 0, TWIN_FBQ_CLASSES) {
		struct twin_counters *counters = counters_at(q);

		if (counters)
			counters->queued_packets = counters->queued_bytes = 0;
	}
}

/* Finds the class that each has in the options that were read last. */
__noinline int twin_find_moved(void)
{
	TWIN_FOR(u32, pair, 0, TWIN_FBQ_CLASSES * TWIN_FBQ_CLASSES) {
		u32 from = pair / TWIN_FBQ_CLASSES, to = pair % TWIN_FBQ_CLASSES;
		u64 before = twin_fbq_params(&classes, from)->account, after = twin_fbq_params(&fresh_classes, to)->account;
		bool is_known = to < fresh_classes.classes;

		if (to == 0) {
			moved[twin_index(from, TWIN_FBQ_CLASSES)] = TWIN_NONE;
			accounts[twin_index(from, TWIN_FBQ_CLASSES)] = before;
		}
		if (is_known && before == after)
			moved[twin_index(from, TWIN_FBQ_CLASSES)] = to;
	}
	return 0;
}

/* Puts the rate of a class in force, or with TWIN_NONE the total. */
__noinline int twin_follow_rate(u64 now, u32 q)
{
	u64 rate = q == TWIN_NONE ? fresh_classes.rate : twin_fbq_params(&fresh_classes, q)->rate;

	twin_fbq_set_rate(&classes, &fbq, &state.held, now, q, rate);
	RECORD(call = (struct twin_call){ .first = rate, .second = q == TWIN_NONE ? 0 : q + 1 };
	       twin_record(SET_RATE, now);)
	return 0;
}

/* Puts rates in force, those that fall first, so that the classes always fit into the total; then holds rate for promises. */
__noinline int twin_follow_rates(u64 now)
{
	if (fresh_classes.rate > fbq.root.rate)
		twin_follow_rate(now, TWIN_NONE);
	TWIN_FOR(u32, step, 0, 2 * TWIN_FBQ_CLASSES) {
		u32 q = twin_index(step, TWIN_FBQ_CLASSES);
		u64 rate = twin_fbq_params(&fresh_classes, q)->rate, before = twin_fbq_class_of(&fbq, q)->bucket.rate;

		if (q < classes.classes && (step < TWIN_FBQ_CLASSES ? rate < before : rate > before))
			twin_follow_rate(now, q);
	}
	if (fresh_classes.rate < fbq.root.rate)
		twin_follow_rate(now, TWIN_NONE);
	return twin_fbq_hold_promises(&classes, &fbq);
}

/* Takes all packets out of a queue, whose flow stays. Returns the slot of the first; the others are next to it. */
__noinline u32 twin_take_queue(u32 number)
{
	struct twin_queue *queue = twin_queue_of(&state.held, number);
	struct twin_fbq_flow *flow = twin_fbq_flow_of(&fbq, number);
	u32 first = queue->head;

	twin_fbq_part(&classes, &fbq, &state.held, number);
	state.held.backlog.packets -= queue->backlog.packets;
	state.held.backlog.bytes -= queue->backlog.bytes;
	queue->backlog = (qdisc_backlog){0};
	queue->head = queue->tail = TWIN_NONE;
	flow->idle_since = fbq.now;
	twin_list_append(&state.held, &fbq.idle, number);
	if (twin_fbq_has_inside(&classes, flow->home))
		twin_fbq_class_of(&fbq, flow->home)->staged = false;
	twin_fbq_join(&classes, &fbq, &state.held, number, flow->class);
	return first;
}

/* Gives a packet the class that it has by the rules in force. */
__noinline u32 twin_follow_rules_of(u32 slot)
{
	struct twin_packet *packet = twin_packet_of(&state.held, slot);
	struct twin_counters *before = counters_of(packet->class), *counters;
	u64 key = twin_flow_by_rules(slot);

	if (key != packet->key && class_of.class < classes.classes) {
		packet->key = key;
		packet->class = class_of.class;
		packet->profile = class_of.profile;
		counters = counters_of(packet->class);
		if (before && counters && before != counters) {
			count_moved(before, counters, packet->size);
			before->queued_packets--;
			before->queued_bytes -= packet->size;
			count_queued(counters, packet->size);
		}
	}
	return 0;
}

/* Whether a packet from this one on is of another flow by the rules in force. */
__noinline u32 twin_is_of_another(u32 slot)
{
	TWIN_FOR(u32, i, 0, TWIN_SLOTS) {
		if (slot == TWIN_NONE)
			break;
		if (twin_flow_by_rules(slot) != twin_packet_of(&state.held, slot)->key)
			return true;
		slot = twin_packet_of(&state.held, slot)->next;
	}
	return false;
}

/* Queues a packet anew as the kind of discipline does it. */
static __always_inline void queue_in_class(u32 slot)
{
	if (HAS_TREE)
		twin_requeue_in(slot);
	else
		queue_again(slot);
}

/* Queues packets anew from this one on, by the rules in force. A part of its callers: the calls would be too deep. */
static __always_inline void queue_by_rules(u32 slot)
{
	TWIN_FOR(u32, i, 0, TWIN_SLOTS) {
		u32 next;

		if (slot == TWIN_NONE)
			break;
		next = twin_packet_of(&state.held, slot)->next;
		twin_follow_rules_of(slot);
		queue_in_class(slot);
		slot = next;
		/* Each may end another flow. */
		if (!HAS_TREE)
			twin_fbq_settle(&classes, &fbq);
	}
}

/* Whether a packet in a discipline is of another flow by the rules in force, or none is in the flow of its class and none waits for it. */
__noinline u32 twin_is_to_go(u32 q)
{
	u32 first = discipline_of(q)->room.first, count = discipline_of(q)->room.count;

	if (!HAS_TREE && !twin_fbq_class_of(&fbq, q)->staged && (fbq.waiting >> twin_index(q, TWIN_FBQ_CLASSES) & 1) == 0)
		return true;
	TWIN_FOR(u32, i, 0, TWIN_SPACE) {
		if (i >= count)
			break;
		if (twin_is_of_another(twin_queue_of(&state.held, first + i)->head))
			return true;
	}
	return false;
}

/* Takes all packets out of a discipline, which begins anew. Returns the slot of the first; the others are next to it. */
__noinline u32 twin_take_inside(u32 q)
{
	struct twin_discipline *discipline = discipline_of(q);
	u32 first = discipline->room.first, count = discipline->room.count;
	struct twin_train train = { TWIN_NONE, TWIN_NONE };

	state.held.backlog.packets -= discipline->backlog.packets;
	state.held.backlog.bytes -= discipline->backlog.bytes;
	TWIN_FOR(u32, i, 0, TWIN_SPACE) {
		if (i >= count)
			break;
		if (options_of(q)->kind == TWIN_DRR && twin_queue_of(&state.held, first + i)->head != TWIN_NONE)
			twin_forget(&state.held, &discipline->room, first + i);
		twin_couple(&state.held, &train, first + i);
		twin_empty_queue(&state.held, first + i);
		twin_reset_control(&state.held, first + i);
	}
	return train.first;
}

/*
 * What waits is of the classes and flows that it has by the rules in force, of each queue in its order: packets that arrive are
 * behind it.
 */
__noinline int twin_follow_rules(void)
{
	rules_are_other = false;
	if (!HAS_TREE)
		fbq.now = state.held.latest;
	TWIN_FOR(u32, number, 0, TWIN_QUEUES) {
		if (HAS_TREE || number >= state.held.flows.used)
			break;
		if (twin_queue_of(&state.held, number)->backlog.packets != 0 &&
		    twin_is_of_another(twin_queue_of(&state.held, number)->head))
			queue_by_rules(twin_take_queue(number));
	}
	TWIN_FOR(u32, q, 0, TWIN_FBQ_CLASSES) {
		u32 first;

		if (!twin_fbq_has_inside(&classes, q) || discipline_of(q)->backlog.packets == 0 || !twin_is_to_go(q))
			continue;
		first = twin_take_inside(q);
		twin_restart_aqm(q);
		twin_restart_adapting(q);
		twin_restart_lanes(q);
		twin_restart_queues(q, discipline_of(q)->room.first);
		queue_by_rules(first);
	}
	return twin_refresh_tree();
}

__noinline u32 twin_gather(void)
{
	return twin_take_all(&state.held);
}

/*
 * Queues a packet anew after a beginning. RAS gets all of them, and is asked for the first by the next call.
 */
static __always_inline void requeue(u32 slot)
{
	u32 q = twin_packet_of(&state.held, slot)->class;

	if (!is_fbq(&in_force)) {
		twin_requeue_in(slot);
	} else if (twin_fbq_has_inside(&classes, q) && twin_is_ras(options_of(q))) {
		twin_requeue_in(slot);
		twin_note_wait(q);
	} else {
		queue_again(slot);
	}
}

/* Begins anew, and queues what waits: of a class with a discipline first what is in the flow of the class. */
__noinline int twin_follow_structure(void)
{
	u32 first = twin_gather(), next;

	/* The core has no such call. */
	RECORD(recording = false;)
	structure_is_other = rules_are_other = false;
	restart();
	TWIN_FOR(u32, i, 0, TWIN_SLOTS) {
		if (first == TWIN_NONE)
			break;
		if (has_classes(&in_force) || twin_has_flows(&in_force))
			twin_find_flow(first);
		next = twin_packet_of(&state.held, first)->next;
		twin_move(first);
		requeue(first);
		first = next;
	}
	return twin_refresh_tree();
}

/* Puts in force what the user has changed, but for what is to be done after it. */
__noinline int twin_follow(u64 now)
{
	struct twin_options *written = written_options();
	bucket_token_bucket *bucket;
	bool continues;

	if (!written || !take_options(written))
		return 0;
	rules_are_other = has_classes(&fresh) && fresh.rules >> 1 != in_force.rules >> 1;
	twin_now(&state.held, now);
	continues = has_classes(&fresh)
			    ? has_classes(&in_force) && fresh_classes.structure == classes.structure
			    : twin_continues(&fresh, &in_force);
	if (!HAS_TREE)
		twin_fbq_queue_alone(&classes, &fbq, &state.held);
	if (!continues) {
		twin_find_moved();
		twin_use_tree();
	} else if (is_fbq(&fresh)) {
		twin_fbq_follow_promises(&classes, &fresh_classes, &fbq, &state.held, now);
	}
	copy_options(&in_force, &fresh);
	memory.rules++;
	copy_classes(&classes, &fresh_classes);
	rates_are_other = continues && has_classes(&in_force);
	structure_is_other = !continues;
	if (rates_are_other || structure_is_other)
		return 0;
	if (!twin_has_bucket(&in_force))
		return 0;
	bucket = &discipline_of(0)->bucket;
	if (in_force.burst != bucket_token_bucket_depth(bucket))
		bucket_token_bucket_set_depth(bucket, state.held.latest, in_force.burst);
	if (in_force.rate != bucket->rate) {
		twin_set_rate(&in_force, discipline_of(0), state.held.latest, in_force.rate);
		RECORD(call = (struct twin_call){ .first = in_force.rate }; twin_record(SET_RATE, now);)
	}
	return 0;
}

static __always_inline void follow(u64 now)
{
	struct twin_options *written = written_options();

	if (written && written->changes != in_force.changes) {
		twin_follow(now);
		if (structure_is_other)
			twin_follow_structure();
		if (rates_are_other) {
			rates_are_other = false;
			if (HAS_TREE) {
				/* What waits in such leaves goes to the classes of the rules. */
				rules_are_other |= twin_follow_leaves(now);
				twin_follow_tree(now);
			} else {
				twin_follow_rates(now);
			}
		}
		if (rules_are_other)
			twin_follow_rules();
	}
}

#endif
