/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The ingress filter: mice pass, and elephants as a virtual queue has it that drains below the rate of the line. A part of disciplines.h.
 */
#ifndef TWIN_INGRESS_H
#define TWIN_INGRESS_H

/* Whether the packet that arrives, of a measured flow, passes. */
TWIN_GLOBAL u32 twin_admits_virtually(const struct twin_options *options TWIN_GIVEN, struct twin_discipline *discipline TWIN_GIVEN,
				      struct twin_held *held TWIN_GIVEN)
{
	fifo_limit limit = { .packets = options->limit_packets, .bytes = options->limit_bytes };
	bucket_token_bucket *bucket = &discipline->bucket;
	struct twin_arrival *arrives = &discipline->arrives;
	red_red *red = &discipline->ared.red;
	u64 size = arrives->size, bytes = bucket_token_bucket_used(bucket, held->latest);
	qdisc_backlog queue = { .packets = div_ceil_u64(bytes, options->mtu), .bytes = bytes };
	aqm_verdict verdict = {0};
	red_zone zone;

	if (bytes == 0 && !discipline->is_unused) {
		/* It ran empty before now, at the instant at which the bucket was full again. */
		option_units_instant at = bucket_token_bucket_time_of(bucket, 0, bucket_token_bucket_depth(bucket));

		discipline->is_unused = true;
		ared_ared_on_empty(&discipline->ared, at.some ? at.value : held->latest);
	}
	zone = ared_ared_observe(&discipline->ared, held->latest, queue);
	if (discipline->is_mouse) {
		verdict.kind = AQM_VERDICT_ADMIT;
		meredt_floor_mouse(&discipline->floor, size);
		meredt_floor_cap(&discipline->floor, max_u64(options->floor_credit, discipline->largest));
	} else {
		discipline->largest = max_u64(discipline->largest, size);
		zone = meredt_mean_value_scale(&discipline->mean, zone, discipline->value, options->fairness);
		verdict = red_dropper_judge(&red->dropper, &red->params.early, zone, size, arrives->capable);
		discipline->refusal = QDISC_DROP_REASON_POLICED;
		if (verdict.kind == AQM_VERDICT_DROP)
			discipline->refusal = verdict.drop;
		else if (saturating_add_u64(bytes, size) > options->burst)
			verdict.kind = AQM_VERDICT_DROP;
		if (verdict.kind == AQM_VERDICT_DROP) {
			if (!meredt_floor_due(&discipline->floor, size))
				return false;
			verdict.kind = AQM_VERDICT_ADMIT;
		}
		meredt_floor_elephant(&discipline->floor, size);
	}
	bucket_token_bucket_charge(bucket, held->latest, size);
	discipline->is_unused = false;
	ared_ared_on_busy(&discipline->ared);
	arrives->marked = verdict.kind == AQM_VERDICT_MARK;
	discipline->refusal = QDISC_DROP_REASON_QUEUE_LIMIT;
	return fifo_limit_admits(&limit, discipline->backlog, size);
}

#endif
