// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The helpers that are not about maps. */
#include "fake.h"
#include <bpf/bpf_helpers.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_PAGE 4096

bool fake_lacks_fields;
bool fake_lacks_fields;
struct fake_kernel fake = { .now_ns = 1000, .boot_ns = 1000 };

struct task_struct *bpf_get_current_task_btf(void)
{
	return fake.current;
}

__u64 bpf_get_current_pid_tgid(void)
{
	return (__u64)fake.current->tgid << 32 | (__u32)fake.current->pid;
}

__u64 bpf_ktime_get_ns(void)
{
	return fake.now_ns++;
}

/* Steele, Lea and Flood's SplitMix64, its upper half. */
__u32 bpf_get_prandom_u32(void)
{
	__u64 x = fake.random += 0x9e3779b97f4a7c15ULL;

	if (fake.random_is)
		return *fake.random_is;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return (x ^ x >> 31) >> 32;
}

__u64 bpf_get_attach_cookie(void *ctx)
{
	if (!ctx)
		abort();
	return fake.attach_cookie;
}

__u64 bpf_get_func_ip(void *ctx)
{
	(void)ctx;
	return fake.func_ip;
}

long bpf_get_current_comm(void *to, __u32 bytes)
{
	strncpy(to, fake.comm, bytes);
	return 0;
}

long fake_ring(const void *map, const void *data, __u64 bytes)
{
	if (!map || bytes != sizeof(__u32))
		abort();
	fake.rung_for = *(const __u32 *)data;
	fake.ring_cnt++;
	return 0;
}

void *fake_ring_reserve(const void *map, __u64 bytes)
{
	if (!map || bytes > sizeof(fake.record))
		abort();
	fake.record_bytes = bytes;
	memset(fake.record, 0xaa, bytes);
	return fake.ring_is_full ? NULL : fake.record;
}

void fake_ring_submit(void *record)
{
	if (record != fake.record)
		abort();
	fake.record_cnt++;
}

/* As in the kernel, all mapped memory can be read: what lies beside an object, too. */
__attribute__((no_sanitize("address"))) static void copy_mapped(char *to, const volatile char *from, __u32 bytes)
{
	for (__u32 i = 0; i < bytes; i++)
		to[i] = from[i];
}

long bpf_probe_read_user(void *to, __u32 bytes, const void *from)
{
	uintptr_t address = (uintptr_t)from;

	memset(to, 0, bytes);
	if (address < FIRST_PAGE)
		return -EFAULT;
	if (fake.fault_address && address + bytes > fake.fault_address &&
	    address <= fake.fault_address)
		return -EFAULT;
	copy_mapped(to, from, bytes);
	if (fake.on_read && bytes > 64)
		fake.on_read();
	return 0;
}

long bpf_seq_write(struct seq_file *seq, const void *data, __u32 bytes)
{
	if (seq || bytes > sizeof(fake.seq) - fake.seq_bytes)
		abort();
	memcpy(fake.seq + fake.seq_bytes, data, bytes);
	fake.seq_bytes += bytes;
	return 0;
}

#define BPF_MAX_LOOPS (8u << 20)

long bpf_loop(__u32 nr, long (*callback)(__u32, void *), void *data, __u64 flags)
{
	__u32 i = 0;

	if (flags)
		abort();
	if (nr > BPF_MAX_LOOPS)
		return -E2BIG;
	while (i < nr && !callback(i, data))
		i++;
	return i;
}

long bpf_find_vma(struct task_struct *task, __u64 address,
		  long (*callback)(struct task_struct *, struct vm_area_struct *, void *),
		  void *data, __u64 flags)
{
	if (flags || task != fake.current)
		abort();
	if (fake.vma_busy)
		return -EBUSY;
	for (__u32 i = 0; i < fake.vma_nr; i++) {
		struct vm_area_struct *vma = &fake.vma[i];

		if (address >= vma->vm_start && address < vma->vm_end) {
			callback(task, vma, data);
			return 0;
		}
	}
	return -ENOENT;
}

__u64 bpf_ktime_get_boot_ns(void)
{
	return fake.boot_ns++;
}

/* The kernel memory that programs read is memory of the test; NULL faults. */
long bpf_probe_read_kernel(void *to, __u32 bytes, const void *from)
{
	if (!from) {
		memset(to, 0, bytes);
		return -EFAULT;
	}
	memcpy(to, from, bytes);
	return 0;
}

/* With its NUL, cut to fit. */
long bpf_probe_read_kernel_str(void *to, __u32 bytes, const void *from)
{
	size_t len;

	if (!from)
		return -EFAULT;
	len = strnlen(from, bytes - 1);
	memcpy(to, from, len);
	((char *)to)[len] = '\0';
	return len + 1;
}
