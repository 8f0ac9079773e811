// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Needs root, as recording does. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/reason.h"
#include "collect/process/mapping_events.h"

struct seen {
	pid_t pid;
	unsigned int execs, mappings, named, out_of_order;
	uint64_t skipped;
	uint64_t last_ns;
	char build_id[BUILD_ID_TEXT_MAX];
	char path[4096];
};

static int see(void *what, const struct mapping_event *event)
{
	struct seen *seen = what;

	seen->out_of_order += event->time_ns < seen->last_ns;
	seen->last_ns = event->time_ns;
	if (event->pid != seen->pid)
		return 0;
	seen->execs += event->is_exec;
	seen->mappings += !event->is_exec;
	if (!event->is_exec && *event->path == '/' && *event->build_id) {
		seen->named++;
		if (seen->named == 1)
			snprintf(seen->path, sizeof(seen->path), "%s", event->path);
	}
	return 0;
}

static pid_t run_true(void)
{
	pid_t pid = fork();

	if (!pid) {
		execl("/bin/true", "true", NULL);
		_exit(127);
	}
	waitpid(pid, NULL, 0);
	return pid;
}

static struct mapping_events *open_events(void)
{
	struct reason why = {};
	struct mapping_events *events = mapping_events__open(&why);

	cr_assert_not_null(events, "%s", why.text);
	return events;
}

Test(mapping_events, include_a_program_that_has_exited)
{
	struct mapping_events *events = open_events();
	struct seen seen = { .pid = run_true() };

	cr_assert_eq(mapping_events__collect(events), 0);
	cr_assert_eq(mapping_events__hand_out(events, UINT64_MAX, see, &seen), 0);
	cr_expect_eq(seen.execs, 1);
	cr_expect_geq(seen.named, 3, "itself, the loader, the C library: %u", seen.named);
	cr_expect_not_null(strstr(seen.path, "/true"), "the program comes first: %s", seen.path);
	cr_expect_eq(seen.out_of_order, 0);
	seen.execs = 0;
	cr_assert_eq(mapping_events__collect(events), 0);
	cr_assert_eq(mapping_events__hand_out(events, UINT64_MAX, see, &seen), 0);
	cr_expect_eq(seen.execs, 0, "each is handed out once");
	mapping_events__close(events);
}

static void count_exec(void *what, pid_t pid, uint64_t time_ns)
{
	struct seen *seen = what;

	seen->execs += pid == seen->pid;
	seen->last_ns = pid == seen->pid ? time_ns : seen->last_ns;
}

/* Execs are found before their events are collected, too; those events stay uncollected. */
Test(mapping_events, execs_are_found_before_they_are_handed_out)
{
	struct mapping_events *events = open_events();
	struct seen early = {}, late = {}, found = {};

	early.pid = run_true();
	cr_assert_eq(mapping_events__collect(events), 0);
	late.pid = run_true();
	for (int i = 0; i < 2; i++) {
		found = (struct seen){ .pid = i ? late.pid : early.pid };
		cr_assert_eq(mapping_events__find_execs(events, count_exec, &found), 0);
		cr_expect_eq(found.execs, 1);
	}
	cr_assert_eq(mapping_events__hand_out(events, UINT64_MAX, see, &late), 0);
	cr_expect_eq(late.execs, 0, "not collected");
	cr_assert_eq(mapping_events__collect(events), 0);
	late.last_ns = 0;
	cr_assert_eq(mapping_events__hand_out(events, UINT64_MAX, see, &late), 0);
	cr_expect_eq(late.execs, 1);
	cr_expect_eq(late.out_of_order, 0);
	found = (struct seen){ .pid = late.pid };
	cr_assert_eq(mapping_events__find_execs(events, count_exec, &found), 0);
	cr_expect_eq(found.execs, 0, "handed out");
	mapping_events__close(events);
}

Test(mapping_events, are_handed_out_up_to_a_time)
{
	struct mapping_events *events = open_events();
	struct seen first = { .pid = run_true() }, second = {};
	struct timespec between;

	clock_gettime(CLOCK_MONOTONIC, &between);
	second.pid = run_true();
	cr_assert_eq(mapping_events__collect(events), 0);
	mapping_events__hand_out(events, between.tv_sec * 1000000000ULL + between.tv_nsec, see,
				 &first);
	cr_expect_eq(first.execs, 1);
	mapping_events__hand_out(events, between.tv_sec * 1000000000ULL + between.tv_nsec, see,
				 &second);
	cr_expect_eq(second.execs, 0);
	mapping_events__hand_out(events, UINT64_MAX, see, &second);
	cr_expect_eq(second.execs, 1);
	mapping_events__close(events);
}

/* The rings are smaller than this: the thread has emptied them. */
#define MORE_THAN_FITS 8000 /* of them MAPPING_EVENTS_EACH are kept */

static void map_ourselves(unsigned int nr)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	for (unsigned int i = 0; i < nr; i++) {
		void *page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

		cr_assert_neq(page, MAP_FAILED);
		munmap(page, 4096);
		if (i % 100 == 0)
			usleep(100); /* the thread that reads the ring has its turn */
	}
	close(fd);
}

static int note_skipped(void *what, const struct mapping_event *event)
{
	struct seen *seen = what;

	if (event->pid == seen->pid)
		seen->skipped += event->skipped_nr;
	if (event->skipped_nr)
		return 0;
	return see(what, event);
}

static void expect_most(struct mapping_events *events)
{
	struct seen seen = { .pid = getpid() };

	cr_assert_eq(mapping_events__collect(events), 0);
	cr_assert_eq(mapping_events__hand_out(events, UINT64_MAX, note_skipped, &seen), 0);
	cr_expect_geq(seen.mappings + seen.skipped + mapping_events__missed(events), MORE_THAN_FITS,
		      "%u seen, %llu missed", seen.mappings,
		      (unsigned long long)mapping_events__missed(events));
	cr_expect_gt(seen.mappings + mapping_events__missed(events), MORE_THAN_FITS / 2, "%u seen", seen.mappings);
}

Test(mapping_events, are_kept_until_they_are_collected)
{
	struct mapping_events *events = open_events();

	map_ourselves(MORE_THAN_FITS);
	expect_most(events);
	mapping_events__close(events);
}

#define TRIES 20

/* A process that maps all the time, and another one beside it. */
struct crowded {
	struct seen first, next, other;
	bool is_lossy; /* the thread that reads the ring came too late: the kernel has dropped events of anybody */
};

static struct crowded map_beside_others(void)
{
	struct crowded crowded = { .first.pid = getpid(), .next.pid = getpid() };
	struct mapping_events *events = open_events();

	map_ourselves(MORE_THAN_FITS);
	run_true();
	cr_assert_eq(mapping_events__collect(events), 0);
	map_ourselves(10);
	cr_assert_eq(mapping_events__hand_out(events, UINT64_MAX, note_skipped, &crowded.first), 0);
	map_ourselves(MAPPING_EVENTS_EACH / 2);
	cr_assert_eq(mapping_events__collect(events), 0);
	cr_assert_eq(mapping_events__hand_out(events, UINT64_MAX, note_skipped, &crowded.next), 0);
	map_ourselves(MORE_THAN_FITS);
	crowded.other.pid = run_true();
	cr_assert_eq(mapping_events__collect(events), 0);
	cr_assert_eq(mapping_events__hand_out(events, UINT64_MAX, see, &crowded.other), 0);
	crowded.is_lossy = mapping_events__missed(events);
	mapping_events__close(events);
	return crowded;
}

/* A process that maps all the time does not fill the room of all others. */
Test(mapping_events, of_one_process_are_limited)
{
	struct crowded crowded = map_beside_others();

	for (int i = 1; i < TRIES && crowded.is_lossy; i++)
		crowded = map_beside_others();
	cr_assert_not(crowded.is_lossy, "the kernel has dropped events each time");
	cr_expect_leq(crowded.first.mappings, MAPPING_EVENTS_EACH);
	cr_expect_geq(crowded.first.mappings + crowded.first.skipped, MORE_THAN_FITS);
	cr_expect_gt(crowded.first.skipped, 0);
	cr_expect_gt(crowded.next.mappings, 0, "it is told of again");
	cr_expect_geq(crowded.next.mappings + crowded.next.skipped, MAPPING_EVENTS_EACH / 2);
	cr_expect_eq(crowded.other.execs, 1);
	cr_expect_geq(crowded.other.named, 3, "what others map is told of");
}

static int be_slow(void *what, const struct mapping_event *event)
{
	bool *is_done = what;

	(void)event;
	if (!*is_done)
		map_ourselves(MORE_THAN_FITS);
	*is_done = true;
	return 0;
}

/* The handler of one event may open and read a large file, so other events must be kept meanwhile. */
Test(mapping_events, are_kept_while_one_is_handed_out)
{
	struct mapping_events *events = open_events();
	bool is_done = false;

	run_true();
	cr_assert_eq(mapping_events__collect(events), 0);
	cr_assert_eq(mapping_events__hand_out(events, UINT64_MAX, be_slow, &is_done), 0);
	cr_expect(is_done);
	expect_most(events);
	mapping_events__close(events);
}
