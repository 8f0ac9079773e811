// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The memory of a process that says it is a Go program: from BASE on, and again from there changed in each walk if the first byte
 * says so. Whatever lies there, a reading ends, reads no page that is not there, and has no more frees than allocations.
 */
#include <errno.h>
#include <string.h>

#include "check.h"
#include "go/go_profile.h"

#define BASE 0x100000ull
#define CODE 0x400000ull
#define PAGE 4096

static const uint8_t *memory;
static size_t memory_bytes, reads;

static int read_memory(void *, uint64_t address, void *to, size_t bytes)
{
	memset(to, 0, bytes);
	MUST(address >= BASE && address % PAGE == 0 && bytes % PAGE == 0 && address - BASE < memory_bytes);
	for (size_t i = 0; i < bytes && address - BASE + i < memory_bytes; i++)
		((uint8_t *)to)[i] = memory[address - BASE + i];
	if (memory[0] & 1 && reads++ % 3 == 0)
		((uint8_t *)to)[reads % bytes] ^= memory[1];
	return 0;
}

static int read_entries(void *, uint64_t address, uint64_t *entry, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		entry[i] = address + i * PAGE - BASE < memory_bytes ? UINT64_C(1) << (i % 2 ? 63 : 62) : 0;
	return 0;
}

static void read_profile(const struct go_memory *process, const struct go_places *places, uint64_t mbuckets)
{
	struct go_profile profile = {};
	struct reason why = { "" };
	int err = go_profile_read(process, places, mbuckets, &profile, &why);

	MUST(!err || err == -EPROTO || err == -EAGAIN || err == -EFAULT);
	MUST(!err == !*why.text || err == -EFAULT);
	for (size_t i = 0; i < profile.bucket_nr; i++) {
		const struct go_bucket *bucket = &profile.bucket[i];

		MUST(bucket->first + bucket->nframe <= profile.pc_nr && bucket->size);
		MUST(bucket->now.frees <= bucket->now.allocations && bucket->active.frees <= bucket->active.allocations);
		MUST(!i || bucket->address > bucket[-1].address);
	}
	go_profile_release(&profile);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct go_memory process = { read_memory, read_entries, NULL };
	const struct go_places places = { CODE, CODE + 0x1000, { { BASE, BASE + 64 }, { BASE + 64, BASE + 0x2000 } } };
	uint64_t mbuckets;

	if (size < 8)
		return 0;
	memory = data;
	memory_bytes = size;
	reads = 0;
	if (!go_profile_find(&process, &places, &mbuckets))
		MUST(mbuckets >= BASE && mbuckets < BASE + 0x2000);
	read_profile(&process, &places, BASE + 8);
	return 0;
}
