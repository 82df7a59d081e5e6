/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * How packets leave their slots in the kernel: they are dropped, or a discipline releases them, to the interface or into the flow of the
 * class that it is in. A part of chassis.bpf.c, whose variables it uses.
 */
#ifndef TWIN_RELEASE_H
#define TWIN_RELEASE_H

static __always_inline void count_drop(struct twin_counters *counters, u64 number, u64 size, qdisc_drop_reason why)
{
	u32 at = 2 * (u32)why;

	RECORD(call.drops += 2; call.which += number + 1;)
	if (at < DROPS - 1) {
		counters->dropped[at]++;
		counters->dropped[at + 1] += size;
	}
}

static __always_inline void count_left(struct Qdisc *sch, struct twin_counters *counters, u64 size)
{
	counters->queued_packets--;
	counters->queued_bytes -= size;
	sch->q.qlen--;
	sch->qstats.backlog -= size;
}

/* Takes a packet that has left its queue out of its slot, which is free then. */
static __always_inline struct sk_buff *take_out(struct Qdisc *sch, u32 number)
{
	struct twin_packet *packet = twin_packet_of(&state.held, number);
	struct twin_counters *counters = counters_of(packet->class);
	struct twin_slot *slot = slot_of(number);

	if (counters)
		count_left(sch, counters, packet->size);
	twin_free_slot(&state.held, number);
	return slot ? bpf_kptr_xchg(&slot->skb, NULL) : NULL;
}

/* Drops a packet that has left its queue. Not a part of its callers, for the stack. */
static __noinline int drop(struct Qdisc *sch, u32 number, qdisc_drop_reason why)
{
	struct twin_packet *packet = twin_packet_of(&state.held, number);
	struct twin_counters *counters = counters_of(packet->class);
	struct sk_buff *skb = take_out(sch, number);

	if (counters)
		count_drop(counters, packet->number, packet->size, why);
	sch->qstats.drops++;
	if (!skb)
		return 0;
	drop_on_line(skb);
	bpf_kfree_skb(skb);
	return 0;
}

/*
 * Puts a packet that the discipline of its class has released into the flow of the class. Returns whether there was room. Then
 * twin_finish_classified is to be called, and not by it: the calls would be too deep.
 */
__noinline u32 twin_put_inside(u32 slot)
{
	u32 number;

	if (twin_fbq_stage(&classes, &fbq, &state.held, slot))
		return true;
	number = twin_fbq_arrive(&classes, &fbq, &state.held, classes.flows);
	if (number == TWIN_NONE)
		return false;
	twin_fbq_requeue(&classes, &fbq, &state.held, number, slot);
	return true;
}

/*
 * The slot of the packet that a discipline releases; TWIN_NONE for none. is_inside: the packet goes into the flow of the class of the
 * discipline; where there is no room for it, another does.
 */
static __always_inline u32 release(struct Qdisc *sch, u32 q, bool always, bool is_inside)
{
	bool first = true, is_there;

	TWIN_FOR(u32, i, 0, TWIN_MOST_STEPS) {
		u64 step = twin_decide(q, first, always);
		u32 action = twin_action(step);

		first = false;
		if (action == TWIN_AGAIN)
			continue;
		if (action != TWIN_SEND && action != TWIN_DROP && action != TWIN_DROP_END)
			break;
		if (action == TWIN_SEND) {
			if (!is_inside)
				return step;
			is_there = twin_put_inside(step);
			twin_finish_classified();
			if (is_there)
				return step;
			first = true;
		}
		/* That of this call, which was queued and is released at once. */
		RECORD(if (call.first != 0 && action != TWIN_SEND && twin_packet_of(&state.held, step)->number + 1 == state.arrived) call.result = 0;)
		drop(sch, step, action != TWIN_SEND ? discipline_of(q)->loss : QDISC_DROP_REASON_FLOW_LIMIT);
		if (action == TWIN_DROP_END)
			break;
	}
	return TWIN_NONE;
}

/* Notes until when the discipline of a class waits that has just been asked for a packet. */
__noinline int twin_note_wait(u32 q)
{
	twin_fbq_note_wait(&fbq, q, twin_deadline(options_of(q), discipline_of(q), &state.held, state.held.latest));
	twin_fbq_settle(&classes, &fbq);
	return 0;
}

/* Puts what the discipline of a class releases into the flow of the class, if no packet is there. */
static __always_inline void stage(struct Qdisc *sch, u32 q, bool always)
{
	if (!twin_fbq_class_of(&fbq, q)->staged && fbq.alone == 0)
		release(sch, q, always, true);
	if (twin_is_ras(options_of(q)))
		twin_note_wait(q);
	else
		twin_fbq_settle(&classes, &fbq);
}

/*
 * Asks the disciplines in classes that have waited until now, each for one packet; all that wait where packets are to leave always. One
 * that has waited until now and releases none is asked again by the next call. There is no loop in this one, whose rounds the verifier
 * would follow for each of its own.
 */
static __always_inline void stage_waiting(struct Qdisc *sch, u64 now, bool always)
{
	fbq.asked_class = TWIN_NONE;
	TWIN_FOR(u32, i, 0, 2 * TWIN_FBQ_CLASSES) {
		u64 until = twin_fbq_waits_until(&fbq), step;
		u32 q = twin_fbq_first_waiting(&fbq);
		bool is_there = false;

		if (q == TWIN_NONE || (until > now && !always) || (q == fbq.asked_class && until == fbq.asked_at))
			break;
		fbq.asked_class = q;
		fbq.asked_at = until;
		twin_begin_classified(now);
		step = twin_fbq_class_of(&fbq, q)->staged ? twin_step(TWIN_WAIT, TWIN_NONE) : twin_decide(q, true, always);
		if (twin_action(step) == TWIN_SEND) {
			is_there = twin_put_inside(step);
			twin_finish_classified();
		}
		if ((twin_action(step) == TWIN_SEND && !is_there) || twin_action(step) == TWIN_DROP_END)
			drop(sch, step, twin_action(step) == TWIN_SEND ? QDISC_DROP_REASON_FLOW_LIMIT : discipline_of(fbq.asked_class)->loss);
		twin_note_wait(fbq.asked_class);
	}
}

#endif
