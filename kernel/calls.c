/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * usage: calls PIN [COUNT]
 * Writes the calls that the chassis recorded, from its pinned map twin_calls, to standard output. With COUNT writes nothing:
 * the exit code is 0 when there are as many, and 1 when there are fewer.
 */
#include <linux/bpf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int call(int command, union bpf_attr *attributes)
{
	return syscall(SYS_bpf, command, attributes, sizeof(*attributes));
}

static int map;

/* Whether there is a call of this number. */
static int has(uint32_t key, uint64_t *record)
{
	union bpf_attr attributes = { .map_fd = map, .key = (uintptr_t)&key, .value = (uintptr_t)record };

	/* The map ends, or its entries do. */
	return call(BPF_MAP_LOOKUP_ELEM, &attributes) == 0 && record[0] != 0;
}

int main(int count, char **arguments)
{
	union bpf_attr attributes;
	uint64_t record[12];

	if (count != 2 && count != 3) {
		fprintf(stderr, "usage: calls PIN [COUNT]\n");
		return 2;
	}
	memset(&attributes, 0, sizeof(attributes));
	attributes.pathname = (uintptr_t)arguments[1];
	map = call(BPF_OBJ_GET, &attributes);
	if (map < 0) {
		perror(arguments[1]);
		return 2;
	}
	if (count == 3) {
		/* What an earlier discipline left may be behind the end. */
		for (uint32_t key = 0; key < atol(arguments[2]); key++)
			if (!has(key, record))
				return 1;
		return 0;
	}
	for (uint32_t key = 0; has(key, record); key++)
		if (fwrite(record, sizeof(record), 1, stdout) != 1)
			return 1;
	return fflush(stdout) != 0;
}
