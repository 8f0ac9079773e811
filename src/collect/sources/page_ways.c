// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/sources/page_ways.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "collect/probe/late_programs.h"
#include "collect/sources/page_events.h"
#include "process/pagemap.h"

/* The first one sees most, the last one costs other processes least. */
static const struct page_way ways[] = {
	{ "rmap", "functions", { LATE_PAGE_ADDED, LATE_PAGES_MOVED }, 2 },
	{ "faults", "tracepoints", { LATE_FAULT_IN_USER, LATE_FAULT_IN_KERNEL, LATE_PAGE_ROOM }, 3 },
	{ "faults", "events", { LATE_PAGE_ROOM }, 1, .has_events = true },
};

static bool may_be(const struct page_way *way)
{
	const char *only = getenv("ALLOCSNAP_PAGES_BY");

	return !only || !strcmp(only, way->by);
}

void page_hearing_end(struct page_hearing *hearing)
{
	for (size_t i = 0; i < ARRAY_SIZE(hearing->link); i++)
		bpf_link__destroy(hearing->link[i]);
	*hearing = (struct page_hearing){};
}

static int begin_way(struct page_hearing *hearing, const struct page_way *way, struct late_programs *late,
		     const struct allocsnap_bpf *bpf)
{
	const struct bpf_program *program;
	int err = way->has_events ? trial_page_events() : 0;

	for (uint32_t i = 0; i < way->program_nr && !err; i++) {
		err = late_programs_find(late, bpf, way->program[i], &program);
		if (!err) {
			hearing->link[i] = bpf_program__attach(program);
			hearing->fd[i] = bpf_program__fd(program);
			err = hearing->link[i] ? 0 : -errno;
		}
	}
	if (err)
		page_hearing_end(hearing);
	else
		hearing->way = way;
	return err;
}

int page_hearing_begin(struct page_hearing *hearing, struct late_programs *late, const struct allocsnap_bpf *bpf,
		       bool spares_others)
{
	int err = -EOPNOTSUPP;

	for (size_t i = 0; i < ARRAY_SIZE(ways) && !hearing->way; i++) {
		const struct page_way *way = &ways[spares_others ? ARRAY_SIZE(ways) - 1 - i : i];

		if (may_be(way))
			err = begin_way(hearing, way, late, bpf);
	}
	return hearing->way ? 0 : err;
}

uint64_t page_hearing_missed(const struct page_hearing *hearing)
{
	uint64_t missed = 0;

	for (uint32_t i = 0; hearing->way && i < hearing->way->program_nr; i++) {
		struct bpf_prog_info info = {};
		uint32_t bytes = sizeof(info);

		if (hearing->way->program[i] == LATE_FAULT_IN_KERNEL)
			continue; /* it is passed over where it reads user memory that is not there */
		missed += bpf_obj_get_info_by_fd(hearing->fd[i], &info, &bytes) ? 0 : info.recursion_misses;
	}
	return missed;
}

static int trial_page_way(const struct page_way *way)
{
	struct page_runs runs = {};
	int err = pages_are_known() ? page_runs_read(getpid(), &runs) : -ENOTSUP;

	page_runs_release(&runs);
	if (!err && way->has_events)
		err = trial_page_events();
	for (uint32_t i = 0; i < way->program_nr && !err; i++)
		err = trial_late_program(way->program[i]);
	return err;
}

const struct page_way *trial_page_ways(int *ret_err)
{
	*ret_err = 0;
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		int err = may_be(&ways[i]) ? trial_page_way(&ways[i]) : -EOPNOTSUPP;

		if (!err)
			return &ways[i];
		*ret_err = *ret_err ?: err;
	}
	return NULL;
}
