/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_UNWIND_CACHE_H
#define ALLOCSNAP_COLLECT_UNWIND_CACHE_H

/*
 * Unwind tables on disk, so that the next recording need not build them again: files of root in
 * /var/cache/allocsnap/unwind (ALLOCSNAP_CACHE_DIR, if set, replaces the folder above; empty: no cache).
 *
 * The key of a table identifies the file that it was built from. A build-id does not suffice: anyone can write a
 * library with the C library's build-id, and would spoil the table of the real one for all processes. Hashing the
 * file takes as long as building most tables. So the key holds the device, the inode, the size and the times of
 * the last change, one of which only the kernel sets: no user can give these to another file on the same disk.
 * Some device numbers are valid only while the file system is mounted (overlays, FUSE, tmpfs), and the images of
 * loop devices state their own change times: for these the key also holds the mount and the boot. Without a
 * unique number for the mount (before kernel 6.8) such files are not cached. A file that has just changed may
 * change again within the same clock tick, so it is not cached yet.
 *
 * A cached table is used only if no other user can read or write the folder, and the file belongs to root, is
 * complete and passes its checks. A cache that fails is the same as no cache: nothing here reports an error.
 */

#include <stdbool.h>
#include <stdint.h>

#include "unwind/packed_table.h"

#define UNWIND_CACHE_BYTES_MAX (256ull << 20) /* of all files; beyond it the least recently used ones are removed */

struct unwind_cache; /* NULL: no cache */

struct unwind_cache_key {
	uint64_t word[PACKED_TABLE_KEY_WORDS];
};

/* bytes_max 0: UNWIND_CACHE_BYTES_MAX. NULL if there can be no cache. */
struct unwind_cache *unwind_cache__open(uint64_t bytes_max);
void unwind_cache__close(struct unwind_cache *cache);

/* Computes the key of a file; false: the file cannot be cached. */
bool unwind_cache__key(const struct unwind_cache *cache, int fd, struct unwind_cache_key *ret);

/* Loads a cached table; NULL: there is none. */
struct unwind_table *unwind_cache__load(const struct unwind_cache *cache,
				       const struct unwind_cache_key *key);

/* Stores the table of fd, unless the file has changed since it had this key. */
void unwind_cache__store(struct unwind_cache *cache, const struct unwind_cache_key *key, int fd,
			const struct unwind_table *table);

#endif
