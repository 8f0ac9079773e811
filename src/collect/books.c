// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/books.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/array.h"
#include "collect/bpf.h"

#define BOOKS_BYTES (PROCESSES_MAX * sizeof(struct process))

int books_open(struct books *books, const struct allocsnap_bpf *bpf)
{
	void *memory = mmap(NULL, BOOKS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
			    bpf_map__fd(bpf->maps.processes), 0);

	if (memory == MAP_FAILED)
		return -errno;
	*books = (struct books){ .bpf = bpf, .process = memory };
	return 0;
}

void books_close(struct books *books)
{
	if (books->process)
		munmap(books->process, BOOKS_BYTES);
	map_copy_release(&books->slots);
	*books = (struct books){};
}

static int slots_fd(const struct books *books)
{
	return bpf_map__fd(books->bpf->maps.process_slots);
}

static bool find_slot(const struct books *books, pid_t pid, uint32_t *ret_slot)
{
	uint32_t tgid = pid;

	return !bpf_map_lookup_elem(slots_fd(books), &tgid, ret_slot) && *ret_slot < PROCESSES_MAX;
}

bool books_read(const struct books *books, pid_t pid, struct process *ret)
{
	uint32_t slot;

	if (!find_slot(books, pid, &slot))
		return false;
	*ret = books->process[slot];
	return true;
}

/* Set before it is looked whether it was too late: who allocates after that look sees it. */
bool books_ring_at(const struct books *books, pid_t pid, uint64_t bytes)
{
	struct process *process;
	uint32_t slot;

	if (!find_slot(books, pid, &slot))
		return false;
	process = &books->process[slot];
	__atomic_store_n(&process->ring_at_bytes, bytes, __ATOMIC_SEQ_CST);
	return bytes && __atomic_load_n(&process->counter[COUNTER_current_bytes], __ATOMIC_SEQ_CST) >= bytes;
}

/* A fork takes from the same. */
static bool take_slot(const struct books *books, uint32_t *ret_slot)
{
	uint32_t *taken = books->bpf->bss->slot_taken;

	for (uint32_t i = 0; i < PROCESSES_MAX; i++) {
		uint32_t nobody = 0;

		if (!__atomic_compare_exchange_n(&taken[i], &nobody, 1, false, __ATOMIC_SEQ_CST,
						 __ATOMIC_SEQ_CST))
			continue;
		*ret_slot = i;
		return true;
	}
	return false;
}

static void give_slot(const struct books *books, uint32_t slot)
{
	memset(&books->process[slot], 0, sizeof(books->process[slot]));
	__atomic_store_n(&books->bpf->bss->slot_taken[slot], 0, __ATOMIC_SEQ_CST);
}

int books_write(struct books *books, pid_t pid, const struct process *process)
{
	uint32_t tgid = pid, slot;
	int err;

	if (find_slot(books, pid, &slot)) {
		books->process[slot] = *process;
		return 0;
	}
	if (!take_slot(books, &slot))
		return -E2BIG;
	books->process[slot] = *process;
	err = bpf_map_update_elem(slots_fd(books), &tgid, &slot, BPF_ANY);
	if (err)
		give_slot(books, slot);
	return err;
}

void books_remove(struct books *books, pid_t pid)
{
	uint32_t tgid = pid, slot;
	bool has = books->process && find_slot(books, pid, &slot);

	if (!has)
		return;
	bpf_map_delete_elem(slots_fd(books), &tgid);
	give_slot(books, slot);
}

static int copy_books(const struct books *books, struct map_copy *to)
{
	const struct map_copy *slots = &books->slots;
	int err = array_reserve_bytes(&to->key, &to->key_alloc, slots->nr + 1, sizeof(uint32_t));

	if (!err)
		err = array_reserve_bytes(&to->value, &to->value_alloc, slots->nr + 1,
					  sizeof(struct process));
	if (err)
		return err;
	to->key_bytes = sizeof(uint32_t);
	to->value_bytes = sizeof(struct process);
	to->nr = slots->nr;
	memcpy(to->key, slots->key, slots->nr * sizeof(uint32_t));
	for (size_t i = 0; i < slots->nr; i++) {
		uint32_t slot = ((const uint32_t *)slots->value)[i] % PROCESSES_MAX;

		((struct process *)to->value)[i] = books->process[slot];
	}
	return 0;
}

int books_read_all(struct books *books, struct map_copy *ret)
{
	int err = map_copy_read(&books->slots, slots_fd(books), sizeof(uint32_t),
				sizeof(uint32_t));

	return err ?: copy_books(books, ret);
}
