// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/python/target_python.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>

#include "collect/bpf.h"

void target_python_begin(struct target_python *python)
{
	python_codes_release(&python->codes);
	live_pools_release(&python->checked.older);
	free(python->asked);
	*python = (struct target_python){ .memory = python->memory };
}

void target_python_release(struct target_python *python)
{
	python->memory = 0;
	target_python_begin(python);
}

/* ---- the kernel side ---- */

uint64_t python_memory_forget(const struct allocsnap_bpf *bpf, uint64_t memory)
{
	int fd = bpf_map__fd(bpf->maps.python_processes);
	struct python_process process;

	if (bpf_map_lookup_elem(fd, &memory, &process))
		return 0;
	bpf_map_delete_elem(fd, &memory);
	return process.code_nr;
}

#define SWEPT_AT_ONCE 4096

struct code_sweep {
	struct python_code_key key[SWEPT_AT_ONCE];
	struct python_code_known known[SWEPT_AT_ONCE];
	uint64_t memory; /* of the process that was looked for last */
	bool is_there;
};

static bool is_forgotten(struct code_sweep *sweep, int processes_fd, uint64_t memory)
{
	struct python_process process;

	if (sweep->memory != memory)
		sweep->is_there = !bpf_map_lookup_elem(processes_fd, &memory, &process);
	sweep->memory = memory;
	return !sweep->is_there;
}

static uint64_t sweep_batch(struct code_sweep *sweep, const struct allocsnap_bpf *bpf, uint32_t nr)
{
	int codes_fd = bpf_map__fd(bpf->maps.python_codes);
	uint64_t gone = 0;

	for (uint32_t i = 0; i < nr; i++)
		if (is_forgotten(sweep, bpf_map__fd(bpf->maps.python_processes), sweep->key[i].memory))
			gone += !bpf_map_delete_elem(codes_fd, &sweep->key[i]);
	return gone;
}

int python_codes_sweep(const struct allocsnap_bpf *bpf)
{
	struct code_sweep *sweep = calloc(1, sizeof(*sweep));
	uint32_t place, *from = NULL;
	int err = sweep ? 0 : -ENOMEM;

	while (!err) {
		uint32_t nr = SWEPT_AT_ONCE;

		err = bpf_map_lookup_batch(bpf_map__fd(bpf->maps.python_codes), from, &place, sweep->key, sweep->known, &nr,
					   NULL);
		if (err && err != -ENOENT) /* that is the end */
			break;
		__atomic_fetch_sub(&bpf->bss->python_codes_held, sweep_batch(sweep, bpf, nr), __ATOMIC_RELAXED);
		from = &place;
	}
	free(sweep);
	return err == -ENOENT ? 0 : err;
}
