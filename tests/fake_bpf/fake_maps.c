// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Hash maps, arrays and task storage. Keys and values have memory of their own that is freed with the
 * element, so that ASan sees a program that reads or writes past a value or after a delete.
 */
#include "fake.h"
#include <bpf/bpf_helpers.h>
#include <stdlib.h>
#include <string.h>

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
	if (flags != BPF_LOCAL_STORAGE_GET_F_CREATE || fake.out_of_memory)
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
