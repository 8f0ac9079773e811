/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_GO_GO_PROFILE_H
#define ALLOCSNAP_GO_GO_PROFILE_H

/*
 * The heap profile that Go's runtime keeps of its own program, read from outside: nothing runs in the process, stops it, or is
 * written to it. The runtime takes a sample of its heap once in runtime.MemProfileRate bytes, and enters it in the bucket of
 * its size and its stack. Buckets are never freed. A variable of the runtime, mbuckets, leads to the newest:
 *
 *	mbuckets ──► bucket ──allnext──► bucket ──► …
 *
 *	bucket: next, allnext, type, hash, size, number of frames │ return addresses │ active, future[3]
 *
 * A sample counts in one of three futures, and in `active` once a garbage collection has ended since. So what `active` calls
 * live has been through a collection. The sum of all four is what there is now.
 *
 * The process runs on, and may be hostile. Each address is checked, lists end, and what is read has limits. Pages that were
 * never touched are not read: the kernel would give them memory.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/reason.h"

/* The memory of a process. */
struct go_memory {
	int (*read)(void *process, uint64_t address, void *to, size_t bytes); /* all of it: 0, or a negative errno */
	int (*pages)(void *process, uint64_t address, uint64_t *entry, size_t nr); /* entries of /proc/PID/pagemap; the same */
	void *process;
};

/* Where the process has its code, and variables that began with zeros. */
struct go_places {
	uint64_t code, code_end;
	struct {
		uint64_t start, end;
	} zeroed[2];
};

struct go_counts {
	uint64_t allocations, frees; /* samples; there are as many frees at most */
};

struct go_bucket {
	uint64_t address, size; /* of the bucket; of each of its blocks */
	size_t first;		/* its return addresses begin at pc[first], most recent call first */
	uint32_t nframe; /* 0: Go has found no stack */
	struct go_counts active, now; /* in collected cycles; in all */
};

#define GO_BUCKETS_MAX (1u << 20)
#define GO_FRAMES_MAX 1024 /* of a bucket; Go's own limits are 32 and 128 */

/* Zeroed: empty. By address, so that the buckets of an earlier reading are found again: none goes, and new ones come. */
struct go_profile {
	struct go_bucket *bucket;
	size_t bucket_nr, bucket_alloc;
	uint64_t *pc;
	size_t pc_nr, pc_alloc;
	uint32_t walk_nr; /* how often the list was walked */
};

/*
 * Finds mbuckets: the one word that leads to a bucket. 0; -ENOENT: it leads nowhere, as no sample was taken so far; -E2BIG: more
 * was read than a program has; -ENOMEM, or -EFAULT: the process has ended.
 */
int go_profile_find(const struct go_memory *memory, const struct go_places *places, uint64_t *ret_mbuckets);

/*
 * Reads the profile, once more until two walks agree about `active`. Replaces what *profile had. 0, or nothing has changed:
 * -ENOMEM; -EFAULT; with a line in *why: -EAGAIN: it never agreed; -EPROTO: it makes no sense, or no layout fits.
 */
int go_profile_read(const struct go_memory *memory, const struct go_places *places, uint64_t mbuckets, struct go_profile *profile,
		    struct reason *why);

void go_profile_release(struct go_profile *profile);

#endif
