// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "process/mappings.h"
#include "process/proc.h"
#include "elf/allocators.h"
#include "sandbox_fixture.h"

Test(allocators, are_recognized_by_file_name)
{
	static const struct {
		char path[64];
		char name[16];
		uint32_t domain;
	} row[] = {
		{ "/usr/lib/x86_64-linux-gnu/libc.so.6", "glibc", 0 },
		{ "/lib/ld-musl-x86_64.so.1", "musl", 0 },
		{ "/usr/lib/x86_64-linux-musl/libc.so", "musl", 0 },
		{ "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2", "jemalloc", 2 },
		{ "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4", "tcmalloc", 3 },
		{ "/opt/libmimalloc.so.2.0", "mimalloc", 4 },
		{ "/usr/bin/busybox", "program", 0 },
		{ "", "program", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		const struct allocator *found = allocator_of(row[i].path);

		cr_expect_str_eq(found->name, row[i].name, "%s", row[i].path);
		cr_expect_eq(found->domain, row[i].domain, "%s", row[i].path);
	}
}

Test(proc, reads_our_own_process)
{
	uint64_t tgid = 0, ticks = 0;
	char *comm = proc_text(getpid(), "comm"), *exe = proc_link(getpid(), "exe");

	cr_expect_eq(proc_status(getpid(), "Tgid", &tgid), 0);
	cr_expect_eq(tgid, (uint64_t)getpid());
	cr_expect_eq(proc_status(getpid(), "Tgi", &tgid), -ENOENT, "a prefix is no field");
	cr_expect_eq(proc_start_time(getpid(), &ticks), 0);
	cr_expect_gt(ticks, 0);
	cr_expect_eq(proc_live_thread(getpid()), getpid());
	cr_expect_neq(*comm, '\0');
	cr_expect_eq(*exe, '/');
	free(comm);
	free(exe);
}

Test(proc, returns_nothing_for_a_missing_process)
{
	char *line = proc_text(0x3fffffff, "comm");
	uint64_t value;

	cr_expect_str_eq(line, "");
	cr_expect_null(proc_read(0x3fffffff, "maps", NULL));
	cr_expect_eq(proc_status(0x3fffffff, "Tgid", &value), -ENOENT);
	cr_expect_eq(proc_live_thread(0x3fffffff), 0);
	free(line);
}

/* The command line of `cat - TEXT TEXT…`, which waits for its input. */
static char *cmdline_of(const char *text, size_t nr)
{
	char **argv = calloc(nr + 3, sizeof(*argv)), *line, byte;
	int in[2], out[2];
	pid_t pid;

	argv[0] = "cat";
	argv[1] = "-";
	for (size_t i = 0; i < nr; i++)
		argv[2 + i] = (char *)text;
	cr_assert(!pipe(in) && !pipe(out));
	pid = fork();
	if (!pid) {
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		execvp(argv[0], argv);
		_exit(127);
	}
	close(out[1]);
	cr_assert_eq(write(in[1], "x", 1), 1);
	cr_assert_eq(read(out[0], &byte, 1), 1, "it runs");
	line = proc_cmdline(pid);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(in[0]);
	close(in[1]);
	close(out[0]);
	free(argv);
	return line;
}

static bool ends_with(const char *text, const char *end)
{
	size_t len = strlen(text), tail = strlen(end);

	return len >= tail && !strcmp(text + len - tail, end);
}

Test(proc, returns_short_command_lines_completely)
{
	char *line = cmdline_of("eleven byte", 300); /* 6 + 300 * 12 */

	cr_expect_eq(strlen(line), 5 + 300 * 12);
	cr_expect_not(ends_with(line, PROC_CMDLINE_CUT));
	free(line);
}

Test(proc, cuts_long_command_lines_after_an_argument)
{
	char *line = cmdline_of("eleven byte", 400);

	cr_expect_eq(strlen(line), 5 + (PROC_CMDLINE_MAX - 6) / 12 * 12 + strlen(PROC_CMDLINE_CUT));
	cr_expect(ends_with(line, "eleven byte" PROC_CMDLINE_CUT), "%s", line);
	free(line);
}

Test(proc, cuts_command_lines_of_one_long_argument)
{
	char text[100000], *line;

	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	line = cmdline_of(text, 1);
	cr_expect_leq(strlen(line), PROC_CMDLINE_MAX + strlen(PROC_CMDLINE_CUT));
	cr_expect(ends_with(line, PROC_CMDLINE_CUT));
	free(line);
}

static void code_to_find(void)
{
}

/* Needs CAP_CHECKPOINT_RESTORE or root for /proc/PID/map_files, as recording does. */
Test(mappings, find_our_own_code)
{
	struct objects objects = { .sandbox = parser_with(NULL, 0) };
	struct mappings mappings = { .objects = &objects };
	struct reason why = {};
	const struct mapping *mapping;

	cr_assert_eq(mappings_refresh(&mappings, getpid(), &why), 0, "%s", why.text);
	mapping = mappings_find(&mappings, (uintptr_t)code_to_find);
	cr_assert_not_null(mapping);
	cr_assert_neq(mapping->object, OBJECT_NONE);
	cr_expect_not_null(strstr(objects.object[mapping->object]->path, "unit"));
	cr_expect_null(mappings_find(&mappings, 8));
	cr_expect_null(mappings_find(&mappings, UINT64_MAX));
	mappings_release(&mappings);
	sandbox__close(objects.sandbox);
	objects_release(&objects);
}

static struct mapping own_code(struct objects *objects)
{
	struct mappings mappings = { .objects = objects };
	struct reason why = {};
	struct mapping found;

	cr_assert_eq(mappings_refresh(&mappings, getpid(), &why), 0, "%s", why.text);
	found = *mappings_find(&mappings, (uintptr_t)code_to_find);
	mappings_release(&mappings);
	return found;
}

/* Only the inode identifies the program: its first process had ended before the file was opened. */
Test(mappings, read_a_file_again_that_was_opened_too_late)
{
	struct objects objects = { .sandbox = parser_with(NULL, 0) }, late = { .sandbox = objects.sandbox };
	uint32_t own = own_code(&objects).object;
	const struct object *known = objects.object[own];
	const struct mapped_file file = {
		.pid = 0x3fffffff, .start = 4096, .end = 8192, .dev = known->identity.device, .inode = known->identity.inode,
		.path = known->path, .root = "/",
	};
	uint32_t first, again, read;

	cr_assert_eq(objects_get(&late, &file, &first), 0);
	cr_assert_eq(objects_get(&late, &file, &again), 0);
	cr_assert(first == again && late.object_nr == 1, "one object, however often it is too late");
	cr_expect_not_null(late.object[first]->unreadable);
	read = own_code(&late).object;
	cr_expect_neq(read, first);
	cr_expect_null(late.object[read]->unreadable);
	cr_assert_eq(objects_get(&late, &file, &again), 0);
	cr_expect_eq(again, read, "and it is known from now on");
	sandbox__close(objects.sandbox);
	objects_release(&objects);
	objects_release(&late);
}

Test(mappings, keep_their_objects_when_they_are_read_again)
{
	struct objects objects = { .sandbox = parser_with(NULL, 0) };
	struct mappings mappings = { .objects = &objects };
	size_t object_nr;

	cr_assert_eq(mappings_refresh(&mappings, getpid(), NULL), 0);
	object_nr = objects.object_nr;
	cr_assert_eq(mappings_refresh(&mappings, getpid(), NULL), 0);
	cr_expect_eq(objects.object_nr, object_nr);
	cr_expect_eq(mappings_refresh(&mappings, 0x3fffffff, NULL), -ENOENT);
	cr_expect_neq(mappings.mapping_nr, 0, "what was known stays");
	mappings_release(&mappings);
	sandbox__close(objects.sandbox);
	objects_release(&objects);
}

/* ---- maps line ---- */

/* The mapping of an address, in this process. */

static char in_data[8192] = "data";

static bool find(const void *address, struct maps_line *ret)
{
	return maps_find_line(getpid(), (uintptr_t)address, ret);
}

Test(maps_line, is_that_of_the_address)
{
	struct maps_line code, data;

	cr_assert(find((const void *)(uintptr_t)find, &code));
	cr_assert(find(in_data, &data));
	cr_assert(code.perms[2] == 'x' && !strncmp(data.perms, "rw-p", 4), "%s %s", code.perms, data.perms);
	cr_assert(code.inode && code.inode == data.inode && code.dev == data.dev);
	cr_assert(data.start <= (uintptr_t)in_data && data.end > (uintptr_t)in_data);
	cr_assert_str_eq(data.path, "");
}

Test(maps_line, ends_where_the_mapping_ends)
{
	char *pages = mmap(NULL, 3 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct maps_line first, hole = { .inode = 99 }, last;

	cr_assert(pages != MAP_FAILED && !munmap(pages + 4096, 4096));
	cr_assert(find(pages + 4095, &first) && find(pages + 8192, &last));
	cr_assert(!find(pages + 4096, &hole) && !find(pages + 8191, &hole) && hole.inode == 99);
	cr_assert(first.end == (uintptr_t)pages + 4096 && last.start == (uintptr_t)pages + 8192 && !first.inode);
}

Test(maps_line, is_none_where_nothing_is_mapped)
{
	struct maps_line line;

	cr_assert(!find(NULL, &line));
	cr_assert(!find((const void *)UINTPTR_MAX, &line));
	cr_assert(!maps_find_line(-1, (uintptr_t)in_data, &line));
}

/* ---- proc asleep ---- */

/* Whether the threads of a process are asleep. */

static void *run_on(void *unused)
{
	for (volatile unsigned long i = 0;; i++)
		;
	return unused;
}

static pid_t start_child(bool runs)
{
	pid_t child = fork();
	pthread_t thread;

	if (child)
		return child;
	if (runs)
		pthread_create(&thread, NULL, run_on, NULL);
	for (;;)
		pause();
}

static void end_child(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

Test(proc_asleep, are_all_threads)
{
	pid_t child = start_child(false);

	cr_expect_not(proc_is_asleep(getpid()), "this thread runs");
	while (!proc_is_asleep(child))
		usleep(1000);
	kill(child, SIGSTOP);
	while (proc_is_asleep(child))
		usleep(1000);
	end_child(child);
	cr_expect_not(proc_is_asleep(child), "it is gone");
}

Test(proc_asleep, is_no_process_with_a_thread_that_runs)
{
	pid_t child = start_child(true);

	while (proc_is_asleep(child)) /* until it has its thread */
		usleep(1000);
	for (int i = 0; i < 20; i++)
		cr_expect_not(proc_is_asleep(child));
	end_child(child);
}
