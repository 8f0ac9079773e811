// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/inject/stack_words.h"

#include <unistd.h>

#include "base/array.h"
#include "collect/inject/stopped_threads.h"
#include "collect/inject/target_maps.h"

#define STACK_SEARCH_MAX (1u << 20)

static bool find_in_range(int mem_fd, uint64_t at, uint64_t end, bool (*is_wanted)(uint64_t address, const void *context),
			  const void *context)
{
	uint64_t word[512];

	while (at < end) {
		uint64_t left = end - at;
		ssize_t bytes = pread(mem_fd, word, left < sizeof(word) ? left : sizeof(word), at);

		if (bytes < (ssize_t)sizeof(*word))
			return false;
		for (size_t i = 0; i < bytes / sizeof(*word); i++)
			if (is_wanted(word[i], context))
				return true;
		at += bytes / sizeof(*word) * sizeof(*word);
	}
	return false;
}

bool find_on_stacks(const struct stopped_threads *threads, const struct target_maps *maps, int mem_fd,
		    bool (*is_wanted)(uint64_t address, const void *context), const void *context, pid_t *ret_tid)
{
	for (size_t i = 0; i < threads->thread_nr; i++) {
		uint64_t rsp = threads->thread[i].registers.rsp, at = rsp & ~UINT64_C(7), end;
		const struct maps_line *line = target_maps_find(maps, rsp);

		if (!line)
			continue;
		end = line->end - at < STACK_SEARCH_MAX ? line->end : at + STACK_SEARCH_MAX;
		if (!find_in_range(mem_fd, at, end, is_wanted, context))
			continue;
		*ret_tid = threads->thread[i].tid;
		return true;
	}
	return false;
}
