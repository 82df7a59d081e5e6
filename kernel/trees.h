/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * CBQ in the kernel: its tree as the user writes it, and what an arrival, a departure and a change have to do with it. A part of
 * chassis.bpf.c, whose variables it uses. kernel/build compiles a program with TWIN_TREES, which has CBQ alone, and one without: the
 * kernel's verifier would follow the ways through both together.
 */
#ifndef TWIN_TREES_H
#define TWIN_TREES_H

#ifdef TWIN_TREES

/* Written together with the options and the classes, of which it is about those that are leaves. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct twin_cbq_options);
} twin_tree SEC(".maps");

static __always_inline void copy_tree(struct twin_cbq_options *to, const struct twin_cbq_options *from)
{
	TWIN_FOR(u32, word, 0, sizeof(*to) / 8) {
		if (word >= sizeof(*to) / 8)
			break;
		((u64 *)to)[word] = ((const u64 *)from)[word];
	}
}

/* Takes over the tree that the user has written. Returns whether there is one, which may still be half written. */
__noinline u32 twin_take_tree(void)
{
	u32 key = 0;
	struct twin_cbq_options *from = bpf_map_lookup_elem(&twin_tree, &key);

	if (!from)
		return false;
	copy_tree(&fresh_tree, from);
	return true;
}

/* Whether the classes and the tree that were taken over fit each other and the program. */
__noinline u32 twin_tree_fits(void)
{
	return fresh.kind == TWIN_CBQ && twin_fbq_supports_insides(&fresh_classes) && twin_cbq_supports(&fresh_tree) &&
	       fresh_classes.classes == fresh_tree.leaves;
}

/* The leaf for which a packet of a class arrives, or TWIN_NONE. */
__noinline u32 twin_tree_arrives(u64 now, u32 class)
{
	twin_cbq_arrives(&cbq, twin_now(&state.held, now), state.held.backlog.packets);
	return twin_cbq_leaf_for(&tree, class);
}

/* When the queue of a leaf releases its next packet. */
__noinline u64 twin_leaf_due(u32 leaf)
{
	return twin_deadline(options_of(leaf), discipline_of(leaf), &state.held, state.held.latest);
}

/* Tells the tree what became of the queue of a leaf, which had as many packets before one arrived. */
static __always_inline void tree_arrived(u32 leaf, u64 before)
{
	if (leaf != TWIN_NONE)
		twin_cbq_arrived(&cbq, leaf, before, discipline_of(leaf)->backlog.packets, twin_leaf_due(leaf));
}

/* The slot of the packet that leaves the tree; TWIN_NONE for none. always: one does if there is any. */
static __always_inline u32 release_from_tree(struct Qdisc *sch, bool always)
{
	u32 number = TWIN_NONE;

	twin_cbq_advance(&cbq, state.held.latest);
	/* Queues may lose packets and send none. */
	TWIN_FOR(u32, i, 0, TWIN_SLOTS) {
		u32 leaf = twin_cbq_pick(&cbq, always);

		if (leaf == TWIN_NONE)
			break;
		number = release(sch, leaf, always, false);
		if (number != TWIN_NONE) {
			twin_cbq_serve(&cbq, leaf, twin_packet_of(&state.held, number)->size, discipline_of(leaf)->backlog.packets,
				       twin_leaf_due(leaf));
			break;
		}
		twin_cbq_refresh(&cbq, leaf, twin_leaf_due(leaf));
	}
	return number;
}

/* The packets of leaves have been queued anew. */
__noinline int twin_refresh_tree(void)
{
	TWIN_FOR(u32, leaf, 0, TWIN_CBQ_LEAVES) {
		if (leaf < cbq.leaf_count)
			twin_cbq_refresh(&cbq, leaf, twin_leaf_due(leaf));
	}
	return 0;
}

/* Uses the tree that was taken over from its next beginning on. */
__noinline int twin_use_tree(void)
{
	copy_tree(&tree, &fresh_tree);
	return 0;
}

/* The tree begins, at the time of the last call. */
__noinline int twin_restart_tree(void)
{
	cbq.now = state.held.latest;
	twin_cbq_begin(&tree, &cbq);
	return 0;
}

/* Whether a class is other than the user has it: as far as it changes in place. */
__noinline u32 twin_class_is_other(u32 node)
{
	const struct twin_cbq_class_options *before = twin_cbq_class(&tree, node), *after = twin_cbq_class(&fresh_tree, node);

	return before->borrows != after->borrows || before->priority != after->priority || before->rate != after->rate ||
	       before->whole_link != after->whole_link || before->max_idle != after->max_idle || before->min_idle != after->min_idle ||
	       before->off_time != after->off_time || before->depth != after->depth || before->depth_high != after->depth_high ||
	       before->resume != after->resume || before->resume_high != after->resume_high;
}

/* Puts a class in force as the user has it. */
__noinline int twin_follow_class(u64 now, u32 node)
{
	tree.class[twin_index(node, TWIN_CBQ_NODES)] = *twin_cbq_class(&fresh_tree, node);
	twin_cbq_change(&tree, &cbq, now, node);
	RECORD(call = (struct twin_call){ .first = twin_cbq_class(&tree, node)->rate,
					  .flow = twin_cbq_class(&tree, node)->priority, .pair = twin_cbq_class(&tree, node)->borrows,
					  .second = node < TWIN_CBQ_LEAVES ? node + 1 : node - TWIN_CBQ_LEAVES + tree.leaves + 1 };
	       twin_record(SET_RATE, now);)
	return 0;
}

/* Whether a leaf is to have another class than it has: a reservation was made or has ended. */
__noinline u32 twin_leaf_is_other(u32 leaf)
{
	const struct twin_cbq_class_options *before = twin_cbq_class(&tree, leaf), *after = twin_cbq_class(&fresh_tree, leaf);

	return before->parent != after->parent || before->position != after->position;
}

/* Has leaves of reservations that were made or have ended take part in rounds, or no more. Returns whether there are any. */
__noinline u32 twin_follow_leaves(u64 now)
{
	u32 found = false;

	TWIN_FOR(u32, leaf, 0, TWIN_CBQ_LEAVES) {
		if (leaf >= tree.leaves || !twin_leaf_is_other(leaf))
			continue;
		tree.class[twin_index(leaf, TWIN_CBQ_LEAVES)] = *twin_cbq_class(&fresh_tree, leaf);
		twin_cbq_replace(&tree, &cbq, now, leaf);
		found = true;
	}
	return found;
}

/*
 * Puts rates in force, and what else changes in place: first rates that fall, of children before their parents, then the others, of
 * parents before their children. So the rates of children always fit into those of their parents.
 */
__noinline int twin_follow_tree(u64 now)
{
	TWIN_FOR(u32, step, 0, 2 * TWIN_CBQ_LEVELS * TWIN_CBQ_NODES) {
		u32 node = twin_index(step, TWIN_CBQ_NODES), level = twin_index(step / TWIN_CBQ_NODES, TWIN_CBQ_LEVELS);
		bool falls = step < TWIN_CBQ_LEVELS * TWIN_CBQ_NODES;

		if (!falls)
			level = TWIN_CBQ_LEVELS - 1 - level;
		if (node < TWIN_CBQ_LEAVES ? node >= tree.leaves : node - TWIN_CBQ_LEAVES >= tree.inner)
			continue;
		if (twin_cbq_class(&tree, node)->level != level || !twin_class_is_other(node))
			continue;
		if (!falls || twin_cbq_class(&fresh_tree, node)->rate < twin_cbq_class(&tree, node)->rate)
			twin_follow_class(now, node);
	}
	return 0;
}

#else

static __always_inline u32 twin_take_tree(void)
{
	return false;
}

static __always_inline u32 twin_tree_fits(void)
{
	return false;
}

static __always_inline u32 twin_tree_arrives(u64 now, u32 class)
{
	return class;
}

static __always_inline void tree_arrived(u32 leaf, u64 before)
{
}

static __always_inline u32 release_from_tree(struct Qdisc *sch, bool always)
{
	return TWIN_NONE;
}

static __always_inline int twin_refresh_tree(void)
{
	return 0;
}

static __always_inline int twin_use_tree(void)
{
	return 0;
}

static __always_inline int twin_restart_tree(void)
{
	return 0;
}

static __always_inline u32 twin_follow_leaves(u64 now)
{
	return false;
}

static __always_inline int twin_follow_tree(u64 now)
{
	return 0;
}

#endif

#endif
