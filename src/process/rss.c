// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "process/rss.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "process/proc.h"

#define CLOSE_MAX_BYTES (1ull << 30)
#define CLOSE_MAX_NS 100000000ull
#define THREADS_MAX 1024 /* at most so many threads are asked for their stack pointers */

uint64_t rss_total(const struct rss *rss)
{
	uint64_t total = 0;

	for (int i = 0; i < RSS_CLASS_NR; i++)
		total += rss->bytes[i];
	return total;
}

/* ---- the three numbers of /proc/PID/status ---- */

static int read_from_afar(pid_t pid, struct rss *rss)
{
	static const struct {
		const char *field;
		enum rss_class class;
	} rows[] = {
		{ "RssAnon", RSS_ANONYMOUS }, { "RssFile", RSS_FILES }, { "RssShmem", RSS_SHARED },
	};
	uint64_t kib;

	memset(rss->bytes, 0, sizeof(rss->bytes));
	rss->huge_bytes = 0;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (proc_status(pid, rows[i].field, &kib))
			return -ESRCH;
		rss->bytes[rows[i].class] = kib * 1024;
	}
	rss->swap_bytes = proc_status(pid, "VmSwap", &kib) ? 0 : kib * 1024;
	return 0;
}

/* ---- the stack pointers of the threads ---- */

struct stack_pointers {
	uint64_t *sp;
	size_t sp_nr, sp_alloc;
};

/*
 * The line is "NR A B C D E F SP PC" or "-1 SP PC". For a thread on a processor it is "running", and its stack
 * pointer is unknown.
 */
static int add_stack_pointer(struct stack_pointers *stacks, pid_t pid, pid_t tid)
{
	char name[32], *text;
	uint64_t sp = 0;
	int err = 0;

	snprintf(name, sizeof(name), "task/%d/syscall", tid);
	text = proc_text(pid, name);
	if (text && strrchr(text, ' ')) {
		*strrchr(text, ' ') = '\0';
		sp = strrchr(text, ' ') ? strtoull(strrchr(text, ' '), NULL, 16) : 0;
	}
	free(text);
	if (sp)
		err = array_push(stacks, sp, sp);
	return err;
}

static int find_stack_pointers(pid_t pid, struct stack_pointers *stacks)
{
	DIR *dir = proc_open_threads(pid);
	int err = 0;
	pid_t tid;

	while (!err && stacks->sp_nr < THREADS_MAX && (tid = proc_next_thread(dir)))
		err = add_stack_pointer(stacks, pid, tid);
	if (dir)
		closedir(dir);
	if (stacks->sp_nr)
		qsort(stacks->sp, stacks->sp_nr, sizeof(*stacks->sp), array_by_number);
	return err;
}

/* ---- /proc/PID/smaps, mapping by mapping ---- */

struct area {
	uint64_t start, end;
	char perms[5];
	enum rss_class class;
	bool is_data; /* data of a file, or its .bss */
};

struct walk {
	const struct stack_pointers *stacks;
	struct rss *rss;
	struct area area, below; /* the mapping that the lines being read belong to, and the one below it */
	struct rss without; /* the sums without `area` */
};

static bool holds_stack_pointer(const struct stack_pointers *stacks, const struct area *area)
{
	return array_any(stacks->sp_nr, i, stacks->sp[i] >= area->start && stacks->sp[i] < area->end);
}

#define ARENA_BYTES (64ull << 20) /* the alignment of glibc's arenas */

/*
 * A thread stack holds a thread's stack pointer and has a guard below it. Arenas are excluded: one may hold a
 * coroutine's stack.
 */
static bool is_thread_stack(const struct walk *walk, const struct area *area,
			    const struct area *below)
{
	return below->end == area->start && !strncmp(below->perms, "---", 3) &&
	       area->start % ARENA_BYTES && holds_stack_pointer(walk->stacks, area);
}

static enum rss_class class_of_unnamed(const struct walk *walk, struct area *area,
				       const struct area *below)
{
	area->is_data = below->is_data && below->end == area->start && !strcmp(area->perms, "rw-p");
	if (area->perms[2] == 'x')
		return RSS_OTHER;
	if (is_thread_stack(walk, area, below))
		return RSS_STACKS;
	return area->is_data ? RSS_FILES : RSS_HEAP;
}

/*
 * Classifies a mapping by the start of its name. All other names count as files, also those in "[…]" that the
 * kernel gives.
 */
static enum rss_class class_of_named(const char *name)
{
	static const struct {
		const char *begin, *has;
		enum rss_class class;
	} rows[] = {
		{ "[heap]", "", RSS_HEAP },
		{ "[stack", "", RSS_STACKS },
		{ "[anon:", "stack", RSS_STACKS },
		{ "[anon:", "malloc", RSS_HEAP },
		{ "[anon:", "scudo", RSS_HEAP },
		{ "[anon:", "", RSS_OTHER },
		{ "[anon_shmem:", "", RSS_SHARED },
		{ "/dev/shm/", "", RSS_SHARED },
		{ "/dev/zero", "", RSS_SHARED },
		{ "/memfd:", "", RSS_SHARED },
		{ "/SYSV", "", RSS_SHARED },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (!strncmp(name, rows[i].begin, strlen(rows[i].begin)) && strstr(name, rows[i].has))
			return rows[i].class;
	return RSS_FILES;
}

/* The kernel reports a mapping again if it grew between two reads: then only the second report counts. */
static void begin_area(struct walk *walk, const struct area *area)
{
	if (area->start < walk->area.end) {
		*walk->rss = walk->without;
		return;
	}
	walk->below = walk->area;
	walk->without = *walk->rss;
}

/* "7f00-7f10 rw-p 00000000 00:00 0    [heap]" */
static bool take_area(struct walk *walk, const char *line)
{
	struct area area = {};
	int name_at = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*s %*s %*s %n", &area.start, &area.end,
		   area.perms, &name_at) < 3 || !name_at)
		return false;
	begin_area(walk, &area);
	if (line[name_at] && line[name_at] != '\n') {
		area.class = class_of_named(line + name_at);
		area.is_data = area.class == RSS_FILES && !strcmp(area.perms, "rw-p");
	} else {
		area.class = class_of_unnamed(walk, &area, &walk->below);
	}
	walk->area = area;
	return true;
}

/* "Rss:     12 kB" */
static void take_field(struct walk *walk, const char *line)
{
	struct rss *rss = walk->rss;
	const struct {
		const char *name;
		uint64_t *to;
	} rows[] = {
		{ "Rss:", &rss->bytes[walk->area.class] },
		{ "AnonHugePages:", &rss->huge_bytes },
		{ "ShmemPmdMapped:", &rss->huge_bytes },
		{ "FilePmdMapped:", &rss->huge_bytes },
		{ "Swap:", &rss->swap_bytes },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (!strncmp(line, rows[i].name, strlen(rows[i].name)))
			*rows[i].to += strtoull(line + strlen(rows[i].name), NULL, 10) * 1024;
}

/* -ETIME: it took too long. */
static int walk_lines(FILE *smaps, struct walk *walk)
{
	uint64_t until = monotonic_now_ns() + CLOSE_MAX_NS;
	char *line = NULL;
	size_t room = 0;
	int err = 0;

	while (!err && getline(&line, &room, smaps) > 0) {
		if (line[0] >= 'A' && line[0] <= 'Z')
			take_field(walk, line);
		else if (take_area(walk, line) && monotonic_now_ns() > until)
			err = -ETIME;
	}
	free(line);
	return err ?: ferror(smaps) ? -ESRCH : 0;
}

static int read_closely(pid_t pid, struct rss *rss)
{
	struct stack_pointers stacks = {};
	struct walk walk = { .stacks = &stacks, .rss = rss };
	char path[64];
	FILE *smaps;
	int err;

	memset(rss->bytes, 0, sizeof(rss->bytes));
	rss->huge_bytes = rss->swap_bytes = 0;
	snprintf(path, sizeof(path), "/proc/%d/smaps", pid);
	smaps = fopen(path, "re");
	if (!smaps)
		return -ESRCH;
	setvbuf(smaps, NULL, _IOFBF, 1 << 16);
	err = find_stack_pointers(pid, &stacks) ?: walk_lines(smaps, &walk);
	fclose(smaps);
	free(stacks.sp);
	return err ?: rss_total(rss) ? 0 : -ESRCH;
}

int rss_read(pid_t pid, struct rss *ret)
{
	struct rss rss = { .time_ns = monotonic_now_ns(), .gave_up = ret->gave_up };
	struct rss closely = { .time_ns = rss.time_ns, .is_close = true };
	int err = read_from_afar(pid, &rss);

	if (err)
		return err;
	if (rss_total(&rss) >= CLOSE_MAX_BYTES || rss.gave_up)
		err = -ETIME;
	else
		err = read_closely(pid, &closely);
	if (err == -ENOMEM)
		return err;
	rss.gave_up |= err == -ETIME && rss_total(&rss) < CLOSE_MAX_BYTES;
	*ret = err ? rss : closely;
	return 0;
}
