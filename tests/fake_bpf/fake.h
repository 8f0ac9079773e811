/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef FAKE_H
#define FAKE_H

/*
 * The kernel that the programs see, as far as a test steers it. One test is one process of
 * Criterion's, so everything starts empty.
 */
#include "vmlinux.h"
#include <stddef.h>

#define FAKE_FRAMES 600
#define FAKE_VMAS 16

struct fake_kernel {
	__u64 now_ns; /* moves on by 1 with each look at the clock */
	__u64 boot_ns; /* likewise; of durations only */
	__u64 random; /* the seed of random numbers */
	const __u32 *random_is; /* the next one, if not NULL */
	__u64 attach_cookie;
	__u64 func_ip;
	struct task_struct *current;
	struct pt_regs user_regs; /* of its user code */
	char comm[16]; /* of the current one */

	__u32 rung_for; /* the TGID that the loader was woken for last */
	__u32 ring_cnt;
	_Alignas(__u64) char record[80 << 10]; /* what was reserved last in a ring buffer */
	__u64 record_bytes;
	__u32 record_cnt; /* records that were submitted */
	bool ring_is_full;

	/* User memory is real memory; below the first page, above user space and here it faults. 0: nowhere. */
	__u64 fault_address;
	void (*on_read)(void); /* called after a read of a whole window: another thread can run */

	/* The return addresses on the stack, the most recent call first. */
	__u64 frame[FAKE_FRAMES];
	__u32 frame_nr;

	struct vm_area_struct vma[FAKE_VMAS];
	__u32 vma_nr;
	bool vma_busy; /* another thread holds the mmap lock */

	_Alignas(__u64) char seq[256]; /* what iterators have written */
	__u64 seq_bytes;

	void (*at_barrier)(void); /* a program's writes are seen in the order that they are made */
	void (*before_add)(const void *to); /* a program is about to add to it, or to exchange it */
	void (*before_map)(const void *map); /* a program is about to look at it, or to change it */

	bool out_of_memory; /* for new elements of maps and for the storage of new tasks */
	__u64 storage_busy; /* so many tries to make the storage of a task fail */
	__u64 storage_tries; /* how many there were */
};
extern struct fake_kernel fake;

/* Capacity set by the loader; without it a map has the size of its declaration. */
void fake_map_resize(const void *map, __u32 max_entries);
__u32 fake_map_count(const void *map);
__u32 fake_map_capacity(const void *map); /* 0: it was not resized */

/* Walks a map: false at the end. Start with a zeroed walk; do not change the map meanwhile. */
struct fake_walk {
	__u32 bucket, seen;
	const void *last;
	const void *key;
	void *value;
};
bool fake_map_walk(const void *map, struct fake_walk *walk);

/* Ends a task: removes its storage from every map. */
void fake_task_free(struct task_struct *task);

#endif
