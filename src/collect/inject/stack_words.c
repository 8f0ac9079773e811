// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/inject/stack_words.h"

#include <unistd.h>

#include "base/array.h"
#include "collect/inject/stopped_threads.h"
#include "collect/inject/target_maps.h"

#define STACK_MAX (8u << 20)
#define STACK_SEARCH_MAX (1u << 20) /* in memory that is more than a stack */

/* Words behind rip in struct sigcontext, as the kernel writes them: the flags, of which one is always set, and cs and ss. */
static bool is_in_signal_frame(int mem_fd, uint64_t rip_at)
{
	uint64_t word[2];

	return pread(mem_fd, word, sizeof(word), rip_at + 8) == sizeof(word) && word[0] >> 32 == 0 && word[0] & 2 &&
	       (word[1] & 0xffff) == 0x33 && word[1] >> 48 == 0x2b;
}

static bool find_in_range(int mem_fd, uint64_t at, uint64_t end, const struct stack_search *search)
{
	uint64_t word[512];

	while (at < end) {
		uint64_t left = end - at;
		ssize_t bytes = pread(mem_fd, word, left < sizeof(word) ? left : sizeof(word), at);

		if (bytes < (ssize_t)sizeof(*word))
			return false;
		for (size_t i = 0; i < bytes / sizeof(*word); i++)
			if (search->is_wanted(word[i], search->context) &&
			    (!search->in_frames || is_in_signal_frame(mem_fd, at + i * sizeof(*word))))
				return true;
		at += bytes / sizeof(*word) * sizeof(*word);
	}
	return false;
}

bool find_on_stacks(const struct stopped_threads *threads, const struct target_maps *maps, int mem_fd,
		    const struct stack_search *search, pid_t *ret_tid)
{
	for (size_t i = 0; i < threads->thread_nr; i++) {
		uint64_t rsp = threads->thread[i].registers.rsp, at = rsp & ~UINT64_C(7), end;
		const struct maps_line *line = target_maps_find(maps, rsp);

		if (!line)
			continue;
		end = line->end - at <= STACK_MAX ? line->end : at + STACK_SEARCH_MAX;
		if (!find_in_range(mem_fd, at, end, search))
			continue;
		*ret_tid = threads->thread[i].tid;
		return true;
	}
	return false;
}
