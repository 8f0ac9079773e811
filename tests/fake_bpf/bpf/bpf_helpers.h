/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef FAKE_BPF_HELPERS_H
#define FAKE_BPF_HELPERS_H

/*
 * libbpf's bpf_helpers.h for the native build: the same names, but the helpers are functions of fake.c and
 * fake.c. As in libbpf, a map is a variable whose members' types describe it, and weak definitions in both
 * objects become one.
 */
#include "vmlinux.h"

#define SEC(name)
#define __uint(name, val) int(*name)[val]
#define __type(name, val) typeof(val) *name
#define __untyped(name, val) __type(name, val)
#define __array(name, val) typeof(val) *name[]

#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define __weak __attribute__((weak))

/* Where the order of what a program reads and writes matters, others look. */
#define barrier() fake_barrier()
#define barrier_var(var) asm volatile("" : "+r"(var))
#define __sync_fetch_and_add(to, n) (fake_add(to), __sync_fetch_and_add((to), (n)))
#define __sync_lock_test_and_set(to, value) (fake_add(to), __sync_lock_test_and_set((to), (value)))

/* A map, the sizes of its keys and values, and its capacity unless fake_map_resize() set it. */
struct fake_map_def {
	const void *map;
	__u32 type, key_bytes, value_bytes, max_entries;
};

#define FAKE_UINT(map, member) (sizeof(*(map)->member) / sizeof(int))
#define FAKE_HASH(map) \
	(struct fake_map_def) { (map), FAKE_UINT(map, type), sizeof(*(map)->key), \
				sizeof(*(map)->value), FAKE_UINT(map, max_entries) }
#define FAKE_STORAGE(map) \
	(struct fake_map_def) { (map), FAKE_UINT(map, type), sizeof(*(map)->key), \
				sizeof(*(map)->value), 0 }
/* Gives the pointer; the compiler warns if it does not have the type of the map's member. */
#define FAKE_TYPED(pointer, member) (1 ? (pointer) : (member))

#define bpf_map_lookup_elem(map, k) \
	((typeof((map)->value))fake_map_lookup(FAKE_HASH(map), FAKE_TYPED(k, (map)->key)))
#define bpf_map_update_elem(map, k, v, flags) \
	fake_map_update(FAKE_HASH(map), FAKE_TYPED(k, (map)->key), FAKE_TYPED(v, (map)->value), \
			(flags))
#define bpf_map_delete_elem(map, k) \
	fake_map_delete(FAKE_HASH(map), FAKE_TYPED(k, (map)->key))
#define bpf_task_storage_get(map, task, init, flags) \
	((typeof((map)->value))fake_storage_get(FAKE_STORAGE(map), (task), (init), (flags)))

/* A ring buffer: the test counts the rings and ignores the contents. */
#define bpf_ringbuf_output(map, data, bytes, flags) fake_ring((map), (data), (bytes))

/* Another one: the test looks at the record that was submitted last. */
#define bpf_ringbuf_reserve(map, bytes, flags) fake_ring_reserve((map), (bytes))
#define bpf_ringbuf_submit(record, flags) fake_ring_submit(record)

/*
 * Elements of arrays exist from their first use on, and are zero. A map in a map is known by the address of its place
 * in the outer map, and its value has any type there.
 */
void fake_barrier(void);
void fake_add(const void *to);
void *fake_map_lookup(struct fake_map_def def, const void *key);
long fake_map_update(struct fake_map_def def, const void *key, const void *value, __u64 flags);
long fake_map_delete(struct fake_map_def def, const void *key);
void *fake_storage_get(struct fake_map_def def, struct task_struct *task, void *init, __u64 flags);

struct task_struct *bpf_get_current_task_btf(void);
long bpf_task_pt_regs(struct task_struct *task); /* fake.user_regs */
__u64 bpf_get_current_pid_tgid(void);
__u64 bpf_ktime_get_ns(void);
__u64 bpf_ktime_get_boot_ns(void);
__u32 bpf_get_prandom_u32(void);
__u64 bpf_get_attach_cookie(void *ctx);
__u64 bpf_get_func_ip(void *ctx);
long bpf_get_current_comm(void *to, __u32 bytes);
long fake_ring(const void *map, const void *data, __u64 bytes);
void *fake_ring_reserve(const void *map, __u64 bytes);
void fake_ring_submit(void *record);
long bpf_seq_write(struct seq_file *seq, const void *data, __u32 bytes);
long bpf_probe_read_user(void *to, __u32 bytes, const void *from);
long bpf_probe_read_kernel(void *to, __u32 bytes, const void *from);
long bpf_probe_read_kernel_str(void *to, __u32 bytes, const void *from);
long bpf_loop(__u32 nr, long (*callback)(__u32, void *), void *data, __u64 flags);
#define bpf_tail_call(ctx, map, index) ((void)(ctx)) /* no program does it */
long bpf_find_vma(struct task_struct *task, __u64 address,
		  long (*callback)(struct task_struct *, struct vm_area_struct *, void *),
		  void *data, __u64 flags);

#endif
