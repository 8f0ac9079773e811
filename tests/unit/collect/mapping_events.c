// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Needs root, as recording does. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/reason.h"
#include "process/mapping_events.h"

TestSuite(mapping_events, .timeout = 600);

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

/*
 * How many events the kernel has dropped by now. It reports them with the next event of the same processor, and only if
 * the ring has room then. So each ring is emptied, and a program runs on its processor.
 */
static uint64_t count_missed(struct mapping_events *events)
{
	cpu_set_t all, one;

	cr_assert_eq(sched_getaffinity(0, sizeof(all), &all), 0);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &all))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		cr_assert_eq(sched_setaffinity(0, sizeof(one), &one), 0);
		cr_assert_eq(mapping_events__collect(events), 0);
		run_true();
	}
	cr_assert_eq(sched_setaffinity(0, sizeof(all), &all), 0);
	cr_assert_eq(mapping_events__collect(events), 0);
	return mapping_events__missed(events);
}

/*
 * Steps of a test, and what they have seen. Other programs may map so much that the kernel drops events of anybody. Then
 * the steps are taken again.
 */
#define SEEN_NR 4
#define TRIES 20

typedef void steps_fn(struct mapping_events *events, struct seen seen[SEEN_NR]);

static void take_steps(steps_fn *steps, struct seen seen[SEEN_NR])
{
	for (int i = 0; i < TRIES; i++) {
		struct mapping_events *events = open_events();
		uint64_t missed;

		memset(seen, 0, SEEN_NR * sizeof(*seen));
		steps(events, seen);
		missed = count_missed(events);
		mapping_events__close(events);
		if (!missed)
			return;
	}
	cr_assert_fail("the kernel has dropped events each time");
}

static void hand_out(struct mapping_events *events, uint64_t until_ns, struct seen *seen)
{
	cr_assert_eq(mapping_events__hand_out(events, until_ns, see, seen), 0);
}

static void see_true_twice(struct mapping_events *events, struct seen seen[SEEN_NR])
{
	seen[0].pid = seen[1].pid = run_true();
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(mapping_events__collect(events), 0);
		hand_out(events, UINT64_MAX, &seen[i]);
	}
}

Test(mapping_events, include_a_program_that_has_exited)
{
	static struct seen seen[SEEN_NR];

	take_steps(see_true_twice, seen);
	cr_expect_eq(seen[0].execs, 1);
	cr_expect_geq(seen[0].named, 3, "itself, the loader, the C library: %u", seen[0].named);
	cr_expect_not_null(strstr(seen[0].path, "/true"), "the program comes first: %s", seen[0].path);
	cr_expect_eq(seen[0].out_of_order, 0);
	cr_expect_eq(seen[1].execs, 0, "each is handed out once");
}

static void count_exec(void *what, pid_t pid, uint64_t time_ns)
{
	struct seen *seen = what;

	seen->execs += pid == seen->pid;
	seen->last_ns = pid == seen->pid ? time_ns : seen->last_ns;
}

static void find_execs(struct mapping_events *events, pid_t pid, struct seen *found)
{
	found->pid = pid;
	cr_assert_eq(mapping_events__find_execs(events, count_exec, found), 0);
}

/* seen[0]: of the program whose events were collected; the others are of the later one. */
static void find_before_handing_out(struct mapping_events *events, struct seen seen[SEEN_NR])
{
	pid_t early = run_true(), late;

	cr_assert_eq(mapping_events__collect(events), 0);
	late = run_true();
	find_execs(events, early, &seen[0]);
	find_execs(events, late, &seen[1]);
	seen[2].pid = late;
	hand_out(events, UINT64_MAX, &seen[2]);
	cr_expect_eq(seen[2].execs, 0, "not collected");
	seen[2].last_ns = 0;
	cr_assert_eq(mapping_events__collect(events), 0);
	hand_out(events, UINT64_MAX, &seen[2]);
	find_execs(events, late, &seen[3]);
}

/* Execs are found before their events are collected, too; those events stay uncollected. */
Test(mapping_events, execs_are_found_before_they_are_handed_out)
{
	static struct seen seen[SEEN_NR];

	take_steps(find_before_handing_out, seen);
	cr_expect_eq(seen[0].execs, 1);
	cr_expect_eq(seen[1].execs, 1);
	cr_expect_eq(seen[2].execs, 1);
	cr_expect_eq(seen[2].out_of_order, 0);
	cr_expect_eq(seen[3].execs, 0, "handed out");
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static void see_until_a_time(struct mapping_events *events, struct seen seen[SEEN_NR])
{
	uint64_t between;

	seen[0].pid = run_true();
	between = now_ns();
	seen[1].pid = seen[2].pid = run_true();
	cr_assert_eq(mapping_events__collect(events), 0);
	hand_out(events, between, &seen[0]);
	hand_out(events, between, &seen[1]);
	hand_out(events, UINT64_MAX, &seen[2]);
}

Test(mapping_events, are_handed_out_up_to_a_time)
{
	static struct seen seen[SEEN_NR];

	take_steps(see_until_a_time, seen);
	cr_expect_eq(seen[0].execs, 1);
	cr_expect_eq(seen[1].execs, 0);
	cr_expect_eq(seen[2].execs, 1);
}

static pid_t newest_thread(void)
{
	DIR *threads = opendir("/proc/self/task");
	const struct dirent *thread;
	pid_t newest = 0;

	cr_assert(threads);
	while ((thread = readdir(threads)))
		newest = atoi(thread->d_name) ?: newest; /* in the order of their birth */
	closedir(threads);
	return newest;
}

/* Whether it is blocked in poll(), and not for another reason. */
static bool is_polling(pid_t thread)
{
	char path[64];
	long call = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", thread);
	file = fopen(path, "r");
	cr_assert(file);
	if (fscanf(file, "%ld", &call) != 1) /* "running" */
		call = -1;
	fclose(file);
	return call == SYS_poll;
}

/* The kernel wakes the thread that reads a ring when the ring is half full. Waits until that thread has emptied it. */
static void let_thread_read(void)
{
	pid_t reader = newest_thread();

	while (!is_polling(reader))
		usleep(100);
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
			let_thread_read();
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
	unsigned long long missed = count_missed(events);

	cr_assert_eq(mapping_events__hand_out(events, UINT64_MAX, note_skipped, &seen), 0);
	cr_expect_geq(seen.mappings + seen.skipped + missed, MORE_THAN_FITS, "%u seen, %llu missed", seen.mappings, missed);
	cr_expect_gt(seen.mappings + missed, MORE_THAN_FITS / 2, "%u seen", seen.mappings);
}

Test(mapping_events, are_kept_until_they_are_collected)
{
	struct mapping_events *events = open_events();

	map_ourselves(MORE_THAN_FITS);
	expect_most(events);
	mapping_events__close(events);
}

/* seen[0], seen[1]: a process that maps all the time; seen[2]: another one beside it. */
static void map_beside_others(struct mapping_events *events, struct seen seen[SEEN_NR])
{
	seen[0].pid = seen[1].pid = getpid();
	map_ourselves(MORE_THAN_FITS);
	run_true();
	cr_assert_eq(mapping_events__collect(events), 0);
	map_ourselves(10);
	cr_assert_eq(mapping_events__hand_out(events, UINT64_MAX, note_skipped, &seen[0]), 0);
	map_ourselves(MAPPING_EVENTS_EACH / 2);
	cr_assert_eq(mapping_events__collect(events), 0);
	cr_assert_eq(mapping_events__hand_out(events, UINT64_MAX, note_skipped, &seen[1]), 0);
	map_ourselves(MORE_THAN_FITS);
	seen[2].pid = run_true();
	cr_assert_eq(mapping_events__collect(events), 0);
	hand_out(events, UINT64_MAX, &seen[2]);
}

/* A process that maps all the time does not fill the room of all others. */
Test(mapping_events, of_one_process_are_limited)
{
	static struct seen seen[SEEN_NR];

	take_steps(map_beside_others, seen);
	cr_expect_leq(seen[0].mappings, MAPPING_EVENTS_EACH);
	cr_expect_geq(seen[0].mappings + seen[0].skipped, MORE_THAN_FITS);
	cr_expect_gt(seen[0].skipped, 0);
	cr_expect_gt(seen[1].mappings, 0, "it is told of again");
	cr_expect_geq(seen[1].mappings + seen[1].skipped, MAPPING_EVENTS_EACH / 2);
	cr_expect_eq(seen[2].execs, 1);
	cr_expect_geq(seen[2].named, 3, "what others map is told of");
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

/* ---- pace ---- */

/* How much of the recorder's time one process can take by mapping code. */

#define SECOND 1000000000ULL

static unsigned int taken(struct pace *pace, uint64_t look, uint64_t cost_ns, unsigned int offered)
{
	unsigned int nr = 0;

	for (unsigned int i = 0; i < offered; i++) {
		if (pace_takes_event(pace, look, cost_ns))
			nr++;
		else
			pace_passes_over(pace, look);
	}
	return nr;
}

Test(pace, limits_the_events_of_each_round)
{
	unsigned int most = (PACE_LOOK_NS + PACE_EVENT_NS - 1) / PACE_EVENT_NS;
	struct pace pace = {};

	cr_expect_eq(taken(&pace, 0, PACE_EVENT_NS, 100000), most);
	cr_expect_eq(taken(&pace, 0, PACE_EVENT_NS, 1), 0);
	cr_expect_eq(taken(&pace, 1, PACE_EVENT_NS, 100000), most);
}

/* An event that costs more than a whole look is taken all the same, or it would wait forever. */
Test(pace, accepts_one_event_whatever_it_costs)
{
	struct pace pace = {};

	cr_expect_eq(taken(&pace, 1, 10 * PACE_LOOK_NS, 5), 1);
	cr_expect_eq(taken(&pace, 2, 10 * PACE_LOOK_NS, 5), 1);
}

/* A later mapping may lie in the place of the skipped one, so taking the later one would change the order. */
Test(pace, accepts_no_event_after_a_skipped_one)
{
	struct pace pace = {};

	cr_expect(pace_passes_over(&pace, 3));
	cr_expect_not(pace_passes_over(&pace, 3));
	cr_expect_eq(taken(&pace, 3, 1, 5), 0);
	cr_expect_eq(taken(&pace, 4, 1, 5), 5);
	cr_expect(pace_passes_over(&pace, 4));
}

Test(pace, reads_small_maps_at_any_time)
{
	struct pace pace = {};

	cr_expect(pace_reads(&pace, SECOND, false));
	pace_has_read(&pace, SECOND, PACE_READING_SMALL_NS / PACE_LINE_NS);
	cr_expect(pace_reads(&pace, SECOND, false), "the next library may come at once");
}

Test(pace, limits_the_time_for_reading_large_maps)
{
	uint64_t now = SECOND, reading_ns = 65530ULL * PACE_LINE_NS;
	struct pace pace = {};

	pace_has_read(&pace, now, 65530);
	cr_expect_not(pace_reads(&pace, now + 1, true));
	cr_expect_not(pace_reads(&pace, now + PACE_READING_LONGEST_NS, false));
	cr_expect(pace_reads(&pace, now + PACE_READING_LONGEST_NS, true), "for a pass");
	cr_expect_not(pace_reads(&pace, now + PACE_READING_SHARE * reading_ns - 1, false));
	cr_expect(pace_reads(&pace, now + PACE_READING_SHARE * reading_ns, false));
}
