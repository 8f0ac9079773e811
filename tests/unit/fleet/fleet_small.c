// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet_small.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fleet/catalogue_private.h"
#include "fleet/index.h"
#include "snapshot.h"

#define SITES 50

static char directory[] = "/tmp/fleet_walk.XXXXXX";
struct catalogue *small_catalogue;
struct fleet_facts small_facts;
struct cohort small_everything;

struct small_contents small_contents[HOSTS][PROCESSES][TIMES];

static uint32_t below(uint64_t *random, uint32_t end)
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	return (*random >> 33) % end;
}

/* Some hosts sample. The weights are thirds: the sum of their squares depends on the order of addition. */
static void fill(uint64_t *random, struct small_contents *to, bool is_sampled)
{
	to->is_sampled = is_sampled;
	to->nr = below(random, BLOCKS);
	for (size_t i = 0; i < to->nr; i++)
		to->block[i] = (struct small_block){
			.site = below(random, SITES),
			.domain = below(random, 2),
			.size = below(random, 100000),
			.weight = is_sampled ? 1 + below(random, 9) / 3.0 : 1,
		};
}

static void add_block(struct snapshot_builder *builder, const struct small_block *block)
{
	struct snap_trace trace = { .size = block->size, .domain = block->domain,
				    .weight = block->weight };
	struct snap_frame frame = { .lineno = block->site + 1 };
	uint32_t id;

	cr_assert(!snapshot_builder__string(builder, "site.c", &frame.filename) &&
		  !snapshot_builder__frame(builder, &frame, &id) &&
		  !snapshot_builder__traceback(builder, &id, 1, 1, 0, &trace.traceback) &&
		  !snapshot_builder__trace(builder, &trace));
}

struct snapshot *small_build(const struct small_contents *from, size_t nr, bool is_sampled,
			     const char *const *metadata)
{
	struct snapshot_builder *builder =
		snapshot_builder__new(SNAP_WITH_DOMAIN | (is_sampled ? SNAP_WITH_WEIGHT : 0));
	struct snapshot *snapshot;

	for (size_t i = 0; i < nr; i++)
		for (size_t k = 0; k < from[i].nr; k++)
			add_block(builder, &from[i].block[k]);
	for (; metadata && *metadata; metadata += 2)
		cr_assert_eq(snapshot_builder__metadata(builder, metadata[0], metadata[1]), 0);
	cr_assert_eq(snapshot_builder__finish(builder, &snapshot), 0);
	return snapshot;
}

/* Files are named so that the last ones come first in the order of paths, which numbers the origins. */
void small_save(int host, int process, int time, const struct small_contents *from)
{
	char name[16], pid[16], wall_ns[32], most[16], path[64];
	const char *const metadata[] = {
		"host", name, "pid", pid, "boot_id", name, "start_time_ticks", "1", "comm", "prog",
		"wall_ns", wall_ns, "sample_bytes_most", most, NULL,
	};
	struct snapshot *snapshot;

	snprintf(name, sizeof(name), "host%d", host);
	snprintf(pid, sizeof(pid), "%d", 100 + process);
	snprintf(most, sizeof(most), "%d", SMALL_RATE * (1 + process));
	snprintf(wall_ns, sizeof(wall_ns), "%llu",
		 1795262400000000000ull + time * 60000000000ull + process * 1000 + host);
	snprintf(path, sizeof(path), "d/%d-%d-%d.snap", HOSTS - host, process, TIMES - time);
	snapshot = small_build(from, 1, from->is_sampled, metadata);
	cr_assert_eq(snapshot__save(snapshot, path, NULL, NULL), 0);
	snapshot__close(snapshot);
}

static void refuse(void *what, enum index_problem problem, const char *path, const char *line)
{
	(void)what;
	cr_assert_fail("%s: problem %d: %s", path, problem, line);
}

static void read_facts(void)
{
	struct reason why = { "" };

	cohort_release(&small_everything);
	fleet_facts_release(&small_facts);
	cr_assert_eq(catalogue__facts(small_catalogue, &small_facts, &why), 0, "%s", why.text);
	cr_assert_eq(cohort_choose(&small_facts, NULL, 0, COHORT_ALL, &small_everything), 0);
}

void small_sql(const char *sql)
{
	struct reason why = { "" };

	cr_assert_eq(sql_run(small_catalogue, sql, &why), 0, "%s", why.text);
	read_facts();
}

void small_index(uint64_t new_ones)
{
	const struct index_events events = { .problem = refuse };
	const char *dir = "d";
	struct index_sum sum;
	struct reason why = { "" };

	cr_assert_eq(fleet_index(small_catalogue, &dir, 1, &events, &sum, &why), 0, "%s", why.text);
	cr_assert_eq(sum.snapshots, new_ones);
	read_facts();
}

void small_make(void)
{
	uint64_t random = 88172645463325252ull;
	struct reason why = { "" };

	cr_assert(mkdtemp(directory) && !chdir(directory) && !mkdir("d", 0700));
	for (int i = 0; i < SNAPSHOTS; i++) {
		int host = i / PROCESSES / TIMES, process = i / TIMES % PROCESSES, time = i % TIMES;

		fill(&random, &small_contents[host][process][time], host % 2);
		small_save(host, process, time, &small_contents[host][process][time]);
	}
	cr_assert_eq(catalogue__open("fleet.db", CATALOGUE_WRITE, &small_catalogue, &why), 0, "%s",
		     why.text);
	small_index(SNAPSHOTS);
}

void small_remove(void)
{
	char command[64];

	cohort_release(&small_everything);
	fleet_facts_release(&small_facts);
	catalogue__close(small_catalogue);
	snprintf(command, sizeof(command), "rm -rf %s", directory);
	if (chdir("/") || system(command))
		abort();
}

struct cohort small_cohort(const char *text, enum cohort_times times)
{
	struct fleet_selection selection;
	const struct fleet_selection *const only[] = { &selection };
	struct cohort cohort;

	cr_assert_eq(fleet_selection_parse(text, 0, &selection, NULL), 0);
	cr_assert_eq(cohort_choose(&small_facts, only, 1, times, &cohort), 0);
	fleet_selection_release(&selection);
	return cohort;
}

void small_use_one_processor(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	cr_assert_eq(sched_setaffinity(0, sizeof(set), &set), 0);
}
