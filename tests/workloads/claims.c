// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * claims KIND: a program with a sampler of its own that claims to be allocsnap's (struct sampler_info), and to take a
 * million samples a second. KIND:
 *
 *	good        it is as it should be
 *	anonymous   the struct lies in other memory that was mapped over the file's
 *	shared      the same, shared
 *	readonly    its page may not be written
 *	magic, version, bytes   this member is wrong
 *	unchosen    interval_chosen is 0
 *
 *	info        {"done": {"interval", "most", "changes"}}
 *	quit
 */
#include <pthread.h>
#include <sys/mman.h>

#include "../../src/sampler/sampler_info.h"
#include "own_sampler.h"
#include "workload.h"

#define PAGE 4096
#define INTERVAL 65536

/* The counter that grows is beside it, so that the page may be read-only. */
union page {
	struct sampler_info info;
	char byte[PAGE];
};

__attribute__((visibility("default"), aligned(PAGE))) union page allocsnap_sampler = { .info = {
	.magic = SAMPLER_INFO_MAGIC,
	.version = SAMPLER_INFO_VERSION,
	.bytes = sizeof(struct sampler_info),
	.interval = INTERVAL,
	.interval_most = INTERVAL,
	.interval_chosen = INTERVAL,
} };

static void map_over(int flags)
{
	static union page copy;

	copy = allocsnap_sampler;
	if (mmap(&allocsnap_sampler, PAGE, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_ANONYMOUS | flags, -1, 0) !=
	    &allocsnap_sampler)
		exit(1);
	allocsnap_sampler = copy;
}

static void *count_samples(void *)
{
	for (;;) {
		__atomic_fetch_add(&allocsnap_sampler.info.samples, 10000, __ATOMIC_RELAXED);
		usleep(10000);
	}
	return NULL;
}

static void become(const char *kind)
{
	struct sampler_info *info = &allocsnap_sampler.info;

	if (!strcmp(kind, "magic"))
		info->magic[0] = 'b';
	else if (!strcmp(kind, "version"))
		info->version = 0;
	else if (!strcmp(kind, "bytes"))
		info->bytes = 64;
	else if (!strcmp(kind, "unchosen"))
		info->interval_chosen = 0;
	else if (!strcmp(kind, "anonymous"))
		map_over(MAP_PRIVATE);
	else if (!strcmp(kind, "shared"))
		map_over(MAP_SHARED);
	else if (!strcmp(kind, "readonly"))
		info->samples = UINT64_C(1) << 60, mprotect(info, PAGE, PROT_READ);
	else if (strcmp(kind, "good"))
		exit(2);
}

int main(int argc, char **argv)
{
	const struct sampler_info *info = &allocsnap_sampler.info;
	pthread_t thread;

	become(argc == 2 ? argv[1] : "");
	if (strcmp(argv[1], "readonly") && pthread_create(&thread, NULL, count_samples, NULL))
		return 1;
	ready();
	while (strcmp(next_command(), "quit")) {
		own_free(own_malloc(100));
		answer("{\"done\": {\"interval\": %llu, \"most\": %llu, \"changes\": %llu}}",
		       (unsigned long long)info->interval, (unsigned long long)info->interval_most,
		       (unsigned long long)info->interval_changes);
	}
	return 0;
}
