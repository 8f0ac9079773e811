// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/target/accounts.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "collect/bpf.h"
#include "collect/target/target.h"
#include "process/pagemap.h"

/* ---- totals of processes that have exited ---- */

void gone_add(struct gone *gone, const struct process *account)
{
	gone->allocations += account_allocations(account);
	gone->frees += account->counter[COUNTER_frees];
	for (int i = 0; i < LOSS_NR; i++)
		gone->loss[i] += account->loss[i];
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
	gone_add(gone, &target->now.account);
	for (int i = 0; i < LOSS_NR; i++)
		gone->loss[i] += target->losses.found.sum[i];
}

bool target_is_unprobed(const struct target *target)
{
	const struct process *account = &target->now.account;
	struct object *const *object = target->mappings.objects->object;
	bool is_unknown = !target->late.seen_nr;

	for (size_t i = 0; i < target->late.seen_nr; i++)
		is_unknown |= object[target->late.seen[i].object]->unreadable != NULL;
	return is_unknown && !account->is_forked && !account_allocations(account) && !account->counter[COUNTER_unknown_frees];
}

/* ---- accounting ---- */

#define ACCOUNT_BYTES (PROCESSES_MAX * sizeof(struct process))

int accounts_open(struct accounts *accounts, const struct allocsnap_bpf *bpf)
{
	void *memory = mmap(NULL, ACCOUNT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
			    bpf_map__fd(bpf->maps.processes), 0);

	if (memory == MAP_FAILED)
		return -errno;
	*accounts = (struct accounts){ .bpf = bpf, .process = memory };
	return 0;
}

void accounts_close(struct accounts *accounts)
{
	if (accounts->process)
		munmap(accounts->process, ACCOUNT_BYTES);
	*accounts = (struct accounts){};
}

static int slots_fd(const struct accounts *accounts)
{
	return bpf_map__fd(accounts->bpf->maps.process_slots);
}

/* The threshold is stored before the counter is read: an allocation after that read sees the threshold. */
bool accounts_ring_at(const struct accounts *accounts, uint32_t slot, uint64_t bytes)
{
	struct process *process = &accounts->process[slot];

	__atomic_store_n(&process->ring_at_bytes, bytes, __ATOMIC_SEQ_CST);
	return bytes && __atomic_load_n(&process->counter[COUNTER_current_bytes], __ATOMIC_SEQ_CST) >= bytes;
}

void accounts_sample_at(const struct accounts *accounts, uint32_t slot, uint32_t rate)
{
	__atomic_store_n(&accounts->process[slot].sample_rate, rate, __ATOMIC_RELAXED);
}

static void count_slot(const struct accounts *accounts, uint64_t user, int32_t n)
{
	__atomic_fetch_add(&accounts->bpf->bss->user_slots[user & (USERS_MAX - 1)], n, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&accounts->bpf->bss->slots_taken_nr, n, __ATOMIC_SEQ_CST);
}

bool accounts_user_has_share(const struct accounts *accounts, uint32_t user)
{
	uint32_t taken = __atomic_load_n(&accounts->bpf->bss->slots_taken_nr, __ATOMIC_RELAXED);

	return taken < PROCESSES_MAX &&
	       accounts->bpf->bss->user_slots[user & (USERS_MAX - 1)] < SHARE_OF_FREE * (PROCESSES_MAX - taken);
}

/* A fork takes a slot from the same array in the kernel, so the exchange is atomic. */
static bool take_slot(const struct accounts *accounts, uint64_t user, uint32_t *ret_slot)
{
	uint32_t *taken = accounts->bpf->bss->slot_taken;

	for (uint32_t i = 0; i < PROCESSES_MAX; i++) {
		uint32_t nobody = 0;

		if (!__atomic_compare_exchange_n(&taken[i], &nobody, 1, false, __ATOMIC_SEQ_CST,
						 __ATOMIC_SEQ_CST))
			continue;
		count_slot(accounts, user, 1);
		*ret_slot = i;
		return true;
	}
	return false;
}

static void give_slot(const struct accounts *accounts, uint32_t slot)
{
	count_slot(accounts, accounts->process[slot].user, -1);
	memset(&accounts->process[slot], 0, sizeof(accounts->process[slot]));
	__atomic_store_n(&accounts->bpf->bss->slot_taken[slot], 0, __ATOMIC_SEQ_CST);
}

int accounts_begin(struct accounts *accounts, pid_t pid, const struct process *process, uint32_t *ret_slot)
{
	uint32_t tgid = pid, slot;
	int err;

	if (!take_slot(accounts, process->user, &slot))
		return -E2BIG;
	accounts->process[slot] = *process;
	accounts->process[slot].tgid = tgid;
	accounts->process[slot].slot = slot;
	accounts->process[slot].owner = ACCOUNT_OF_LOADER;
	err = bpf_map_update_elem(slots_fd(accounts), &tgid, &slot, BPF_NOEXIST);
	if (err)
		give_slot(accounts, slot);
	else
		*ret_slot = slot;
	return err;
}

void accounts_admit_blocks(struct accounts *accounts, uint32_t slot, bool by_ret)
{
	struct process *process = &accounts->process[slot];

	memset(process->counter, 0, sizeof(process->counter));
	memset(process->loss, 0, sizeof(process->loss));
	process->loss[LOSS_execs_unprobed] = process->exec_cnt; /* of programs that began while it was closed */
	process->by_ret = by_ret;
	__atomic_store_n(&process->is_open, 1, __ATOMIC_SEQ_CST);
}

void accounts_mark(const struct accounts *accounts, uint32_t slot)
{
	struct process *process = &accounts->process[slot];

	if (!__atomic_load_n(&process->exit_ns, __ATOMIC_ACQUIRE))
		__atomic_fetch_or(&process->is_open, ACCOUNT_CLEARING, __ATOMIC_SEQ_CST);
}

void accounts_unmark(const struct accounts *accounts, uint32_t slot)
{
	__atomic_fetch_and(&accounts->process[slot].is_open, ~(uint64_t)ACCOUNT_CLEARING, __ATOMIC_SEQ_CST);
}

uint64_t accounts_image(const struct accounts *accounts, uint32_t slot)
{
	if (!__atomic_load_n(&accounts->bpf->bss->slot_taken[slot], __ATOMIC_ACQUIRE))
		return 0;
	return __atomic_load_n(&accounts->process[slot].image, __ATOMIC_ACQUIRE);
}

bool accounts_claim(struct accounts *accounts, uint32_t slot)
{
	__u64 owner = ACCOUNT_OF_KERNEL;

	return accounts_image(accounts, slot) &&
	       __atomic_compare_exchange_n(&accounts->process[slot].owner, &owner, ACCOUNT_OF_LOADER, false,
					   __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

/* Leaves the entry when another process has the PID, and so another slot, by now. */
static void forget_pid(struct accounts *accounts, uint32_t slot)
{
	uint32_t tgid = accounts->process[slot].tgid, found;

	if (!bpf_map_lookup_elem(slots_fd(accounts), &tgid, &found) && found == slot)
		bpf_map_delete_elem(slots_fd(accounts), &tgid);
}

void accounts_end_unseen(struct accounts *accounts, uint32_t slot, uint64_t now_ns)
{
	struct process *process = &accounts->process[slot];
	__u64 is_ending = 0;

	if (!__atomic_compare_exchange_n(&process->is_ending, &is_ending, 1, false, __ATOMIC_SEQ_CST,
					 __ATOMIC_SEQ_CST))
		return;
	__atomic_fetch_add(&process->loss[LOSS_ends_missed], 1, __ATOMIC_RELAXED);
	__atomic_store_n(&process->exit_ns, now_ns, __ATOMIC_RELEASE);
	forget_pid(accounts, slot);
}

uint64_t account_allocations(const struct process *account)
{
	return account->counter[COUNTER_allocations] ?: account->pages_bytes / PAGE_BYTES;
}

uint64_t account_most_bytes(const struct process *account)
{
	return account->counter[COUNTER_peak_bytes] ?: account->counter[COUNTER_allocated_bytes] ?: account->pages_bytes;
}

void accounts_end(struct accounts *accounts, uint32_t slot)
{
	if (slot == ACCOUNT_NONE || !accounts->process)
		return;
	forget_pid(accounts, slot);
	give_slot(accounts, slot);
}
