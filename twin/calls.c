/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * usage: calls PIN
 * Writes the calls that the chassis recorded, from its pinned map twin_calls, to standard output.
 */
#include <linux/bpf.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int call(int command, union bpf_attr *attributes)
{
	return syscall(SYS_bpf, command, attributes, sizeof(*attributes));
}

int main(int count, char **arguments)
{
	union bpf_attr attributes;
	uint64_t record[12];
	int map;

	if (count != 2) {
		fprintf(stderr, "usage: calls PIN\n");
		return 2;
	}
	memset(&attributes, 0, sizeof(attributes));
	attributes.pathname = (uintptr_t)arguments[1];
	map = call(BPF_OBJ_GET, &attributes);
	if (map < 0) {
		perror(arguments[1]);
		return 1;
	}
	for (uint32_t key = 0;; key++) {
		memset(&attributes, 0, sizeof(attributes));
		attributes.map_fd = map;
		attributes.key = (uintptr_t)&key;
		attributes.value = (uintptr_t)record;
		/* The map ends, or its entries do. */
		if (call(BPF_MAP_LOOKUP_ELEM, &attributes) != 0 || record[0] == 0)
			break;
		if (fwrite(record, sizeof(record), 1, stdout) != 1)
			return 1;
	}
	return fflush(stdout) != 0;
}
