// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/python/target_python.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>

#include "collect/bpf.h"

void target_python_begin(struct target_python *python, uint64_t memory)
{
	if (python->memory != memory)
		python_codes_release(&python->codes);
	live_pools_release(&python->checked.older);
	free(python->asked);
	*python = (struct target_python){ .memory = python->memory, .codes = python->codes };
}

void target_python_release(struct target_python *python)
{
	python_codes_release(&python->codes);
	target_python_begin(python, python->memory);
	python->memory = 0;
}

/* ---- the kernel side ---- */

void python_process_tell(struct process *account, const struct python_process *process, bool is_again)
{
	struct python_process unfinished = *process;

	unfinished.memory = 0;
	__atomic_store_n(&account->python.memory, 0, __ATOMIC_SEQ_CST);
	unfinished.code_nr = is_again ? account->python.code_nr : 0;
	unfinished.code_ended_nr = account->python.code_ended_nr + 1; /* what threads remember of code ends */
	account->python = unfinished;
	__atomic_store_n(&account->python.memory, process->memory, __ATOMIC_RELEASE);
}

uint64_t python_process_forget(struct process *account, uint64_t memory)
{
	if (account->python.memory != memory)
		return 0;
	__atomic_store_n(&account->python.memory, 0, __ATOMIC_SEQ_CST);
	return __atomic_load_n(&account->python.code_nr, __ATOMIC_RELAXED);
}

#define SWEPT_AT_ONCE 4096

struct code_sweep {
	struct python_code_key key[SWEPT_AT_ONCE];
	struct python_code_known known[SWEPT_AT_ONCE];
	uint64_t memory[PROCESSES_MAX]; /* of the processes that are known, sorted */
};

static int compare_memories(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

static void find_memories(struct code_sweep *sweep, const struct process processes[PROCESSES_MAX])
{
	for (uint32_t slot = 0; slot < PROCESSES_MAX; slot++)
		sweep->memory[slot] = processes[slot].python.memory;
	qsort(sweep->memory, PROCESSES_MAX, sizeof(*sweep->memory), compare_memories);
}

static bool is_forgotten(const struct code_sweep *sweep, const struct python_code_key *key)
{
	return !bsearch(&key->memory, sweep->memory, PROCESSES_MAX, sizeof(*sweep->memory), compare_memories);
}

static uint64_t sweep_batch(const struct code_sweep *sweep, int codes_fd, uint32_t nr)
{
	uint64_t gone = 0;

	for (uint32_t i = 0; i < nr; i++)
		if (is_forgotten(sweep, &sweep->key[i]))
			gone += !bpf_map_delete_elem(codes_fd, &sweep->key[i]);
	return gone;
}

int python_codes_sweep(const struct allocsnap_bpf *bpf, const struct process processes[PROCESSES_MAX])
{
	struct code_sweep *sweep = calloc(1, sizeof(*sweep));
	int err = sweep ? 0 : -ENOMEM, codes_fd = bpf_map__fd(bpf->maps.python_codes);
	uint32_t place, *from = NULL;

	if (sweep)
		find_memories(sweep, processes);
	while (!err) {
		uint32_t nr = SWEPT_AT_ONCE;

		err = bpf_map_lookup_batch(codes_fd, from, &place, sweep->key, sweep->known, &nr, NULL);
		if (err && err != -ENOENT) /* that is the end */
			break;
		__atomic_fetch_sub(&bpf->bss->python_codes_held, sweep_batch(sweep, codes_fd, nr), __ATOMIC_RELAXED);
		from = &place;
	}
	free(sweep);
	return err == -ENOENT ? 0 : err;
}
