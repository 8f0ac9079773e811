// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/python/target_python.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdlib.h>

#include "collect/bpf.h"

void target_python_begin(struct target_python *python)
{
	python_codes_release(&python->codes);
	live_pools_release(&python->checked.older);
	free(python->asked);
	*python = (struct target_python){ .memory = python->memory };
}

/* Keys are deleted in the order of the map, one behind. */
static void forget_codes(int codes_fd, uint64_t memory)
{
	struct python_code_key key, next;
	bool has_key = false;

	while (!bpf_map_get_next_key(codes_fd, has_key ? &key : NULL, &next)) {
		if (has_key && key.memory == memory)
			bpf_map_delete_elem(codes_fd, &key);
		key = next;
		has_key = true;
	}
	if (has_key && key.memory == memory)
		bpf_map_delete_elem(codes_fd, &key);
}

void target_python_release(struct target_python *python, const struct allocsnap_bpf *bpf)
{
	if (bpf && python->memory) {
		bpf_map_delete_elem(bpf_map__fd(bpf->maps.python_processes), &python->memory);
		forget_codes(bpf_map__fd(bpf->maps.python_codes), python->memory);
	}
	python->memory = 0;
	target_python_begin(python);
}
