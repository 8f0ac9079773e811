// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <bpf/bpf_helpers.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

/* The helpers that are not about maps. */

#define FIRST_PAGE 4096
#define USER_END (1ULL << 47)

bool fake_lacks_fields;
struct fake_kernel fake = { .now_ns = 1000, .boot_ns = 1000 };

struct task_struct *bpf_get_current_task_btf(void)
{
	return fake.current;
}

long bpf_task_pt_regs(struct task_struct *task)
{
	(void)task;
	return (long)&fake.user_regs;
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
	if (address < FIRST_PAGE || address >= USER_END)
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

/*
 * Hash maps, arrays and task storage. Keys and values have memory of their own that is freed with the
 * element, so that ASan sees a program that reads or writes past a value or after a delete.
 */

#define MAPS 32
#define BUCKETS 1024

struct element {
	struct element *next;
	void *key, *value;
};

struct map {
	struct fake_map_def def;
	__u32 capacity; /* 0: as declared */
	__u32 count;
	struct element *bucket[BUCKETS];
};

static struct map maps[MAPS];

void fake_barrier(void)
{
	if (fake.at_barrier)
		fake.at_barrier();
	asm volatile("" ::: "memory");
}

void fake_add(const void *to)
{
	if (fake.before_add)
		fake.before_add(to);
}

static struct map *map_of(const void *id)
{
	for (int i = 0; i < MAPS; i++) {
		if (!maps[i].def.map)
			maps[i].def.map = id;
		if (maps[i].def.map == id)
			return &maps[i];
	}
	abort();
}

static struct map *map_open(const struct fake_map_def *def, enum bpf_map_type type)
{
	struct map *map = map_of(def->map);

	if (def->type != type)
		abort();
	map->def = *def;
	if (fake.before_map)
		fake.before_map(def->map);
	return map;
}

static __u32 bucket_of(const void *key, __u32 bytes)
{
	const unsigned char *byte = key;
	__u32 hash = 2166136261u;

	for (__u32 i = 0; i < bytes; i++)
		hash = (hash ^ byte[i]) * 16777619u;
	return hash % BUCKETS;
}

/* Where the pointer to the element is, or would be. */
static struct element **element_at(struct map *map, const void *key)
{
	struct element **at = &map->bucket[bucket_of(key, map->def.key_bytes)];

	while (*at && memcmp((*at)->key, key, map->def.key_bytes) != 0)
		at = &(*at)->next;
	return at;
}

static void *copy_of(const void *bytes, __u32 nr)
{
	void *copy = calloc(1, nr);

	if (!copy)
		abort();
	if (bytes)
		memcpy(copy, bytes, nr);
	return copy;
}

static struct element *element_new(struct map *map, struct element **at, const void *key,
				   const void *value)
{
	struct element *element = copy_of(NULL, sizeof(*element));

	element->key = copy_of(key, map->def.key_bytes);
	element->value = copy_of(value, map->def.value_bytes);
	*at = element;
	map->count++;
	return element;
}

static void element_free(struct map *map, struct element **at)
{
	struct element *element = *at;

	*at = element->next;
	free(element->key);
	free(element->value);
	free(element);
	map->count--;
}

void *fake_map_lookup(struct fake_map_def def, const void *key)
{
	struct map *map = map_open(&def, def.type);
	struct element **at = element_at(map, key);

	if (*at || def.type == BPF_MAP_TYPE_HASH || def.type == BPF_MAP_TYPE_LRU_HASH)
		return *at ? (*at)->value : NULL;
	if (def.type != BPF_MAP_TYPE_ARRAY && def.type != BPF_MAP_TYPE_PERCPU_ARRAY &&
	    def.type != BPF_MAP_TYPE_ARRAY_OF_MAPS)
		abort();
	if (map->capacity)
		def.max_entries = map->capacity;
	return *(const __u32 *)key < def.max_entries ? element_new(map, at, key, NULL)->value : NULL;
}

/* In the kernel's order: flags, then capacity, then memory. */
static int map_update(struct fake_map_def def, const void *key, const void *value, __u64 flags)
{
	struct map *map = map_open(&def, def.type);
	struct element **at = element_at(map, key);
	__u32 capacity = map->capacity ? map->capacity : def.max_entries;

	if (flags > BPF_EXIST)
		return -EINVAL;
	if (*at && flags == BPF_NOEXIST)
		return -EEXIST;
	if (!*at && flags == BPF_EXIST)
		return -ENOENT;
	if (!*at && map->count >= capacity)
		return -E2BIG;
	if (fake.out_of_memory)
		return -ENOMEM;
	if (*at)
		memcpy((*at)->value, value, def.value_bytes);
	else
		element_new(map, at, key, value);
	return 0;
}

/* Before kernel 6.4 a map returns an int, which programs take for a long: the upper half is 0. */
long fake_map_update(struct fake_map_def def, const void *key, const void *value, __u64 flags)
{
	return (__u32)map_update(def, key, value, flags);
}

static int map_delete(struct fake_map_def def, const void *key)
{
	struct map *map = map_open(&def, def.type);
	struct element **at = element_at(map, key);

	if (!*at)
		return -ENOENT;
	element_free(map, at);
	return 0;
}

long fake_map_delete(struct fake_map_def def, const void *key)
{
	return (__u32)map_delete(def, key);
}

/* The storage of tasks is a map by task. */
void *fake_storage_get(struct fake_map_def def, struct task_struct *task, void *init, __u64 flags)
{
	struct element **at;
	struct map *map;

	def.key_bytes = sizeof(task);
	map = map_open(&def, BPF_MAP_TYPE_TASK_STORAGE);
	at = element_at(map, &task);
	if (*at)
		return (*at)->value;
	if (flags != BPF_LOCAL_STORAGE_GET_F_CREATE)
		return NULL;
	if (fake.storage_tries++ < fake.storage_busy || fake.out_of_memory)
		return NULL;
	return element_new(map, at, &task, init)->value;
}

void fake_task_free(struct task_struct *task)
{
	for (int i = 0; i < MAPS; i++) {
		struct element **at;

		if (maps[i].def.type != BPF_MAP_TYPE_TASK_STORAGE)
			continue;
		at = element_at(&maps[i], &task);
		if (*at)
			element_free(&maps[i], at);
	}
}

void fake_map_resize(const void *map, __u32 max_entries)
{
	map_of(map)->capacity = max_entries;
}

__u32 fake_map_capacity(const void *map)
{
	return map_of(map)->capacity;
}

__u32 fake_map_count(const void *map)
{
	return map_of(map)->count;
}

bool fake_map_walk(const void *id, struct fake_walk *walk)
{
	const struct element *element = walk->last;
	struct map *map = map_of(id);

	if (walk->seen == map->count)
		return false;
	element = element ? element->next : map->bucket[0];
	while (!element && ++walk->bucket < BUCKETS)
		element = map->bucket[walk->bucket];
	if (!element)
		return false;
	*walk = (struct fake_walk){ walk->bucket, walk->seen + 1, element, element->key, element->value };
	return true;
}
