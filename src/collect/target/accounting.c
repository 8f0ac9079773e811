// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/target/accounting.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "collect/bpf.h"
#include "collect/target/target.h"

/* ---- exited totals ---- */

void gone_add(struct gone *gone, const struct process *books)
{
	gone->allocations += books->counter[COUNTER_allocations];
	gone->frees += books->counter[COUNTER_frees];
	for (int i = 0; i < LOSS_NR; i++)
		gone->loss[i] += books->loss[i];
}

void found_losses_add(struct found_losses *found, uint64_t exec_cnt, const uint64_t loss[LOSS_NR])
{
	if (found->exec_cnt != exec_cnt)
		memset(found->last, 0, sizeof(found->last));
	found->exec_cnt = exec_cnt;
	for (int i = 0; i < LOSS_NR; i++) {
		if (loss[i] > found->last[i])
			found->sum[i] += loss[i] - found->last[i];
		found->last[i] = loss[i];
	}
}

void gone_add_target(struct gone *gone, const struct target *target)
{
	gone_add(gone, &target->now.books);
	for (int i = 0; i < LOSS_NR; i++)
		gone->loss[i] += target->losses.found.sum[i];
}

bool target_is_unprobed(const struct target *target)
{
	const uint64_t *counter = target->now.books.counter;
	struct object *const *object = target->mappings.objects->object;
	bool is_unknown = !target->late.seen_nr;

	for (size_t i = 0; i < target->late.seen_nr; i++)
		is_unknown |= object[target->late.seen[i].object]->unreadable != NULL;
	return is_unknown && !target->now.books.is_forked && !counter[COUNTER_allocations] &&
	       !counter[COUNTER_unknown_frees];
}

/* ---- accounting ---- */

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
	*books = (struct books){};
}

static int slots_fd(const struct books *books)
{
	return bpf_map__fd(books->bpf->maps.process_slots);
}

/* The threshold is stored before the counter is read: an allocation after that read sees the threshold. */
bool books_ring_at(const struct books *books, uint32_t slot, uint64_t bytes)
{
	struct process *process = &books->process[slot];

	__atomic_store_n(&process->ring_at_bytes, bytes, __ATOMIC_SEQ_CST);
	return bytes && __atomic_load_n(&process->counter[COUNTER_current_bytes], __ATOMIC_SEQ_CST) >= bytes;
}

void books_sample_at(const struct books *books, uint32_t slot, uint32_t rate)
{
	__atomic_store_n(&books->process[slot].sample_rate, rate, __ATOMIC_RELAXED);
}

static void count_slot(const struct books *books, uint64_t user, int32_t n)
{
	__atomic_fetch_add(&books->bpf->bss->user_slots[user & (USERS_MAX - 1)], n, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&books->bpf->bss->slots_taken_nr, n, __ATOMIC_SEQ_CST);
}

bool books_user_has_share(const struct books *books, uint32_t user)
{
	uint32_t taken = __atomic_load_n(&books->bpf->bss->slots_taken_nr, __ATOMIC_RELAXED);

	return taken < PROCESSES_MAX &&
	       books->bpf->bss->user_slots[user & (USERS_MAX - 1)] < SHARE_OF_FREE * (PROCESSES_MAX - taken);
}

/* A fork takes a slot from the same array in the kernel, so the exchange is atomic. */
static bool take_slot(const struct books *books, uint64_t user, uint32_t *ret_slot)
{
	uint32_t *taken = books->bpf->bss->slot_taken;

	for (uint32_t i = 0; i < PROCESSES_MAX; i++) {
		uint32_t nobody = 0;

		if (!__atomic_compare_exchange_n(&taken[i], &nobody, 1, false, __ATOMIC_SEQ_CST,
						 __ATOMIC_SEQ_CST))
			continue;
		count_slot(books, user, 1);
		*ret_slot = i;
		return true;
	}
	return false;
}

static void give_slot(const struct books *books, uint32_t slot)
{
	count_slot(books, books->process[slot].user, -1);
	memset(&books->process[slot], 0, sizeof(books->process[slot]));
	__atomic_store_n(&books->bpf->bss->slot_taken[slot], 0, __ATOMIC_SEQ_CST);
}

int books_begin(struct books *books, pid_t pid, const struct process *process, uint32_t *ret_slot)
{
	uint32_t tgid = pid, slot;
	int err;

	if (!take_slot(books, process->user, &slot))
		return -E2BIG;
	books->process[slot] = *process;
	books->process[slot].tgid = tgid;
	books->process[slot].slot = slot;
	books->process[slot].owner = BOOKS_OF_LOADER;
	err = bpf_map_update_elem(slots_fd(books), &tgid, &slot, BPF_NOEXIST);
	if (err)
		give_slot(books, slot);
	else
		*ret_slot = slot;
	return err;
}

void books_admit_blocks(struct books *books, uint32_t slot, bool by_ret)
{
	struct process *process = &books->process[slot];

	memset(process->counter, 0, sizeof(process->counter));
	memset(process->loss, 0, sizeof(process->loss));
	process->by_ret = by_ret;
	__atomic_store_n(&process->is_open, 1, __ATOMIC_SEQ_CST);
}

void books_mark(const struct books *books, uint32_t slot)
{
	struct process *process = &books->process[slot];

	if (!__atomic_load_n(&process->exit_ns, __ATOMIC_ACQUIRE))
		__atomic_fetch_or(&process->is_open, BOOKS_CLEARING, __ATOMIC_SEQ_CST);
}

void books_unmark(const struct books *books, uint32_t slot)
{
	__atomic_fetch_and(&books->process[slot].is_open, ~(uint64_t)BOOKS_CLEARING, __ATOMIC_SEQ_CST);
}

uint64_t books_image(const struct books *books, uint32_t slot)
{
	if (!__atomic_load_n(&books->bpf->bss->slot_taken[slot], __ATOMIC_ACQUIRE))
		return 0;
	return __atomic_load_n(&books->process[slot].image, __ATOMIC_ACQUIRE);
}

bool books_claim(struct books *books, uint32_t slot)
{
	__u64 owner = BOOKS_OF_KERNEL;

	return books_image(books, slot) &&
	       __atomic_compare_exchange_n(&books->process[slot].owner, &owner, BOOKS_OF_LOADER, false,
					   __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

/* Leaves the entry when another process has the PID, and so another slot, by now. */
static void forget_pid(struct books *books, uint32_t slot)
{
	uint32_t tgid = books->process[slot].tgid, found;

	if (!bpf_map_lookup_elem(slots_fd(books), &tgid, &found) && found == slot)
		bpf_map_delete_elem(slots_fd(books), &tgid);
}

void books_end_unseen(struct books *books, uint32_t slot, uint64_t now_ns)
{
	struct process *process = &books->process[slot];
	__u64 is_ending = 0;

	if (!__atomic_compare_exchange_n(&process->is_ending, &is_ending, 1, false, __ATOMIC_SEQ_CST,
					 __ATOMIC_SEQ_CST))
		return;
	__atomic_fetch_add(&process->loss[LOSS_ends_missed], 1, __ATOMIC_RELAXED);
	__atomic_store_n(&process->exit_ns, now_ns, __ATOMIC_RELEASE);
	forget_pid(books, slot);
}

void books_end(struct books *books, uint32_t slot)
{
	if (slot == BOOKS_NONE || !books->process)
		return;
	forget_pid(books, slot);
	give_slot(books, slot);
}
