/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Orders by keys of 128 bits, of which the first is known: leftist heaps over one array of places. Equal keys are in the
 * order of their ties. A change takes at most as many steps as two paths to the right are long: O(log n).
 */
#ifndef TWIN_ORDERS_H
#define TWIN_ORDERS_H

#include "queues.h"

/* A place in an order, by key and then by tie, which is different for those with one key. */
struct twin_node {
	u128 key;
	u32 left, right, up;
	u16 tie;
	/* The length of its path to the right; 0 outside any order. */
	u16 rank;
};

/* A power of two; fbq.h has the places. */
#define TWIN_NODES (TWIN_QUEUES > 16384 ? 4 * TWIN_QUEUES : 65536)

struct twin_orders {
	struct twin_node nodes[TWIN_NODES];
};

TWIN_INLINE struct twin_node *twin_node_of(struct twin_orders *orders, u32 number)
{
	return &orders->nodes[twin_index(number, TWIN_NODES)];
}

/* Steps of a path to the right of two orders together: it has at most 17 nodes in each. */
#define TWIN_PATH 64

TWIN_INLINE u32 twin_rank(struct twin_orders *orders, u32 number)
{
	return number == TWIN_NONE ? 0 : twin_node_of(orders, number)->rank;
}

/* Puts the child with the longer path to the right on the left. */
TWIN_INLINE void twin_lean(struct twin_orders *orders, u32 number)
{
	struct twin_node *node = twin_node_of(orders, number);
	u32 left = node->left, right = node->right;

	if (twin_rank(orders, left) < twin_rank(orders, right)) {
		node->left = right;
		node->right = left;
		right = left;
	}
	node->rank = twin_rank(orders, right) + 1;
}

/* Two orders as one. */
TWIN_GLOBAL u32 twin_meld(struct twin_orders *orders TWIN_GIVEN, u32 a, u32 b)
{
	u32 root = TWIN_NONE, at = TWIN_NONE;

	TWIN_FOR(u32, down, 0, TWIN_PATH) {
		struct twin_node *first = twin_node_of(orders, a), *second = twin_node_of(orders, b);
		u32 least = a;

		if (a == TWIN_NONE || b == TWIN_NONE)
			break;
		if (second->key < first->key || (second->key == first->key && second->tie < first->tie)) {
			least = b;
			b = a;
		}
		a = twin_node_of(orders, least)->right;
		twin_node_of(orders, least)->up = at;
		if (at == TWIN_NONE)
			root = least;
		else
			twin_node_of(orders, at)->right = least;
		at = least;
	}
	if (a == TWIN_NONE)
		a = b;
	if (a != TWIN_NONE)
		twin_node_of(orders, a)->up = at;
	if (at == TWIN_NONE)
		return a;
	twin_node_of(orders, at)->right = a;
	TWIN_FOR(u32, back, 0, TWIN_PATH) {
		if (at == TWIN_NONE)
			break;
		twin_lean(orders, at);
		at = twin_node_of(orders, at)->up;
	}
	return root;
}

/* Takes a place out of an order in which there are others. */
TWIN_GLOBAL u32 twin_order_take(struct twin_orders *orders TWIN_GIVEN, u32 *root TWIN_GIVEN, u32 number)
{
	struct twin_node *node = twin_node_of(orders, number);
	u32 up = node->up, child;

	node->rank = 0;
	/* There is no right one without a left one. */
	child = node->right == TWIN_NONE ? node->left : twin_meld(orders, node->left, node->right);
	if (child != TWIN_NONE)
		twin_node_of(orders, child)->up = up;
	if (up == TWIN_NONE) {
		*root = child;
		return 0;
	}
	if (twin_node_of(orders, up)->left == number)
		twin_node_of(orders, up)->left = child;
	else
		twin_node_of(orders, up)->right = child;
	TWIN_FOR(u32, above, 0, TWIN_PATH) {
		u32 before = twin_rank(orders, up);

		if (up == TWIN_NONE)
			break;
		twin_lean(orders, up);
		if (twin_rank(orders, up) == before)
			break;
		up = twin_node_of(orders, up)->up;
	}
	return 0;
}

TWIN_INLINE void twin_order_remove(struct twin_orders *orders, u32 *root, u32 number)
{
	struct twin_node *node = twin_node_of(orders, number);

	if (node->rank == 0)
		return;
	if (node->up == TWIN_NONE && node->left == TWIN_NONE) {
		node->rank = 0;
		*root = TWIN_NONE;
		return;
	}
	twin_order_take(orders, root, number);
}

TWIN_INLINE void twin_order_set(struct twin_orders *orders, u32 *root, u32 number, u128 key, u32 tie)
{
	struct twin_node *node = twin_node_of(orders, number);

	if (node->rank != 0 && node->key == key)
		return;
	twin_order_remove(orders, root, number);
	node->key = key;
	node->tie = tie;
	node->left = node->right = node->up = TWIN_NONE;
	node->rank = 1;
	*root = *root == TWIN_NONE ? number : twin_meld(orders, *root, number);
}

#endif
