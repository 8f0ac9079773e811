/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_UNWIND_CACHE_H
#define ALLOCSNAP_COLLECT_UNWIND_CACHE_H

/*
 * Unwind tables on disk, so that the next recording need not make them again: files of root's in
 * /var/cache/allocsnap/unwind (ALLOCSNAP_CACHE_DIR, where it is set, stands for the folder above;
 * empty: no cache).
 *
 * A table's key is which file it was made of, not the file's build-id: anybody can write a library
 * with the C library's build-id, and would spoil the table of the real one for everybody. To hash what
 * the file holds takes as long as to make most tables. Device, inode, size and the times of the last
 * change, of which one is the kernel's to set, nobody can give another file on the same disk. Where a
 * device number means something only while it is mounted (overlays, FUSE, tmpfs; loop devices, whose
 * images say themselves when files were changed), the mount and the boot belong to it; without a
 * number for the mount (before kernel 6.8) such files are not kept.
 * A file that has changed just now may change again within the same tick, so it is not kept yet.
 *
 * What is found there is used if the folder is nobody else's to read or write, the file is root's,
 * whole and sound. A cache that fails is as good as none: nothing here reports an error.
 */

#include <stdbool.h>
#include <stdint.h>

#include "unwind/packed_table.h"

#define UNWIND_CACHE_BYTES_MAX (256ull << 20) /* all files; then those unused longest go */

struct unwind_cache; /* NULL: there is none */

struct unwind_cache_key {
	uint64_t word[PACKED_TABLE_KEY_WORDS];
};

/* bytes_max 0: UNWIND_CACHE_BYTES_MAX. NULL where there can be none. */
struct unwind_cache *unwind_cache__open(uint64_t bytes_max);
void unwind_cache__close(struct unwind_cache *cache);

/* What file it is; false: not one that is kept. */
bool unwind_cache__key(const struct unwind_cache *cache, int fd, struct unwind_cache_key *ret);

/* A table that was kept; NULL: there is none. */
struct unwind_table *unwind_cache__load(const struct unwind_cache *cache,
				       const struct unwind_cache_key *key);

/* Keeps the table of fd, if it is still what it was when it had this key. */
void unwind_cache__store(struct unwind_cache *cache, const struct unwind_cache_key *key, int fd,
			const struct unwind_table *table);

#endif
