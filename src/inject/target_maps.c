// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "inject/target_maps.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"

/* ---- the kernel ---- */

/* Linux moves pages of files with MREMAP_DONTUNMAP since 5.13. */
static bool is_old(const char *release)
{
	unsigned int major = 0, minor = 0;

	return sscanf(release, "%u.%u", &major, &minor) != 2 || major < 5 || (major == 5 && minor < 13);
}

static bool is_hardened(const char *release)
{
	return strstr(release, "hardened") || strstr(release, "grsec");
}

int judge_kernel(const struct kernel_texts *kernel, struct reason *why)
{
	if (is_old(kernel->release))
		return reason_set(why, -ENOTSUP, "injection needs Linux 5.13, this is %.60s", kernel->release);
	if (is_hardened(kernel->release))
		return reason_set(why, -ENOTSUP, "this is a hardened kernel (%.60s), with which injection is not tested",
				  kernel->release);
	if (strstr(kernel->lockdown, "[confidentiality]"))
		return reason_set(why, -ENOTSUP, "the kernel is locked down (confidentiality), with which injection is not tested");
	if (kernel->selinux[0] == '1')
		return reason_set(why, -ENOTSUP, "SELinux enforces its policy, with which injection is not tested");
	if (atoi(kernel->ptrace_scope) >= 3)
		return reason_set(why, -ENOTSUP, "no process may be traced here (kernel.yama.ptrace_scope is 3)");
	return 0;
}

/* ---- the process ---- */

/* The text of a line of /proc/PID/status, up to its end; "" if the text has no such line. */
static void status_text(const char *status, const char *field, char *ret, size_t room)
{
	size_t len = strlen(field);
	const char *at = status;

	*ret = '\0';
	while (at && (strncmp(at, field, len) || at[len] != ':')) {
		at = strchr(at, '\n');
		at += at ? 1 : 0;
	}
	if (!at)
		return;
	at += len + 1;
	at += strspn(at, " \t");
	snprintf(ret, room, "%.*s", (int)strcspn(at, "\n"), at);
}

int judge_target(pid_t pid, const char *status, struct reason *why)
{
	char text[256];
	bool is_held; /* by this process, until the threads are handed over (inject_wait) */

	status_text(status, "TracerPid", text, sizeof(text));
	is_held = atoi(text) == getpid();
	status_text(status, "State", text, sizeof(text));
	if (*text == 'Z' || *text == 'X')
		return reason_set(why, -ESRCH, "process %d has ended", pid);
	if (*text == 'T' || (*text == 't' && !is_held))
		return reason_set(why, -EAGAIN, "process %d is stopped", pid);
	status_text(status, "VmSize", text, sizeof(text));
	if (!*text)
		return reason_set(why, -ENOTSUP, "process %d is a thread of the kernel", pid);
	status_text(status, "Tgid", text, sizeof(text));
	if (atoi(text) != pid)
		return reason_set(why, -ENOTSUP, "%d is a thread of process %.20s", pid, text);
	status_text(status, "TracerPid", text, sizeof(text));
	if (strcmp(text, "0") && !is_held)
		return reason_set(why, -EAGAIN, "process %.20s traces it (a debugger, or strace)", text);
	status_text(status, "x86_Thread_features", text, sizeof(text));
	if (strstr(text, "shstk"))
		return reason_set(why, -ENOTSUP, "it has a shadow stack (CET), with which injection is not tested");
	return 0;
}

/* ---- its room ---- */

/* Counts as the kernel does (may_expand_vm()): a stack that grows is no data. */
static void count_mapped(const struct target_maps *maps, struct mappings_needed *ret)
{
	*ret = (struct mappings_needed){ .nr = maps->line_nr };
	for (size_t i = 0; i < maps->line_nr; i++) {
		const struct maps_line *line = &maps->line[i];

		if (!strcmp(line->path, "[vsyscall]")) /* it belongs to no process */
			continue;
		ret->bytes += line->end - line->start;
		if (line->perms[1] == 'w' && line->perms[3] == 'p' && strcmp(line->path, "[stack]"))
			ret->data_bytes += line->end - line->start;
	}
}

/* The soft limit in a line of the text of /proc/PID/limits; UINT64_MAX: unlimited. False: it is not there. */
static bool limit_of_text(const char *limits, const char *name, uint64_t *ret)
{
	const char *at = strstr(limits, name);

	if (at && sscanf(at + strlen(name), "%" SCNu64, ret) == 1)
		return true;
	*ret = UINT64_MAX;
	return at && !strncmp(at + strlen(name) + strspn(at + strlen(name), " "), "unlimited", strlen("unlimited"));
}

int judge_room(const struct target_maps *maps, const struct mappings_needed *needed, const char *max_map_count,
	       const char *limits, struct reason *why)
{
	struct mappings_needed mapped, most;

	if (sscanf(max_map_count, "%" SCNu64, &most.nr) != 1 || !limit_of_text(limits, "Max address space", &most.bytes) ||
	    !limit_of_text(limits, "Max data size", &most.data_bytes))
		return reason_set(why, -EIO, "the kernel does not say how much it may map");
	count_mapped(maps, &mapped);
	if (mapped.nr + needed->nr > most.nr)
		return reason_set(why, -EAGAIN, "it has %" PRIu64 " mappings, and %" PRIu64 " more would be too many (vm.max_map_count)",
				  mapped.nr, needed->nr);
	if (mapped.bytes + needed->bytes > most.bytes)
		return reason_set(why, -EAGAIN, "%" PRIu64 " KiB more would be more than its limit on addresses (ulimit -v)",
				  needed->bytes >> 10);
	if (needed->data_bytes && mapped.data_bytes + needed->data_bytes > most.data_bytes)
		return reason_set(why, -EAGAIN, "%" PRIu64 " KiB more would be more than its limit on data (ulimit -d)",
				  needed->data_bytes >> 10);
	return 0;
}

/* ---- target maps ---- */

#define REACH (UINT64_C(1900) << 20)
#define SPACING (UINT64_C(64) << 10) /* from other mappings */
#define BREAK_ROOM (UINT64_C(64) << 30)
#define STACK_ROOM (UINT64_C(1) << 30) /* or its limit, if that is more */
#define ADDRESS_MIN (UINT64_C(1) << 20)
#define ADDRESS_MAX ((UINT64_C(1) << 47) - 4096)

/* ---- reading ---- */

static int read_maps_text(pid_t pid, char **ret)
{
	FILE *file = proc_open(pid, "maps");
	size_t bytes = 0, room = 65536, got;
	char *text = NULL, *more;
	int err = 0;

	if (!file)
		return errno == ENOENT ? -ESRCH : -errno;
	do {
		room *= 2;
		more = room > MAPS_TEXT_MAX ? NULL : realloc(text, room);
		if (!more) {
			err = room > MAPS_TEXT_MAX ? -E2BIG : -ENOMEM;
			break;
		}
		text = more;
		got = fread(text + bytes, 1, room - bytes - 1, file);
		bytes += got;
		text[bytes] = '\0';
	} while (bytes == room - 1);
	fclose(file);
	if (!err && !bytes)
		err = -ESRCH;
	if (err)
		free(text);
	else
		*ret = text;
	return err;
}

int target_maps_read(pid_t pid, struct target_maps *ret)
{
	char *next, *at;
	int err;

	*ret = (struct target_maps){};
	err = read_maps_text(pid, &ret->text);
	for (at = ret->text; !err && at && *at; at = next) {
		struct maps_line line;

		next = strchrnul(at, '\n');
		if (*next)
			*next++ = '\0';
		err = maps_parse_line(at, &line) ? array_push(ret, line, line) : -EIO;
	}
	if (err)
		target_maps_release(ret);
	return err;
}

void target_maps_release(struct target_maps *maps)
{
	free(maps->line);
	free(maps->text);
	*maps = (struct target_maps){};
}

/* ---- finding ---- */

/* The first line that ends above an address. */
static size_t first_line_above(const struct target_maps *maps, uint64_t address)
{
	return array_first(maps->line_nr, i, maps->line[i].end > address);
}

const struct maps_line *target_maps_find(const struct target_maps *maps, uint64_t address)
{
	size_t at = first_line_above(maps, address);

	return at < maps->line_nr && address >= maps->line[at].start ? &maps->line[at] : NULL;
}

bool target_maps_are_free(const struct target_maps *maps, uint64_t start, uint64_t end)
{
	size_t at = first_line_above(maps, start);

	return at == maps->line_nr || maps->line[at].start >= end;
}

static bool are_of_one_file(const struct maps_line *a, const struct maps_line *b)
{
	return a->inode == b->inode && a->dev == b->dev;
}

static int by_line(const void *a_, const void *b_)
{
	const struct maps_line *const *a = a_, *const *b = b_;

	return (*a > *b) - (*a < *b);
}

static int by_file(const void *a_, const void *b_)
{
	const struct maps_line *a = *(const struct maps_line *const *)a_, *b = *(const struct maps_line *const *)b_;
	int inode = (a->inode > b->inode) - (a->inode < b->inode), dev = (a->dev > b->dev) - (a->dev < b->dev);

	return dev ?: inode ?: by_line(a_, b_);
}

int target_maps_code_files(const struct target_maps *maps, const struct maps_line ***ret, size_t *ret_nr)
{
	const struct maps_line **line = calloc(maps->line_nr ?: 1, sizeof(*line));
	size_t code_nr = 0, nr = 0;

	if (!line)
		return -ENOMEM;
	for (size_t i = 0; i < maps->line_nr; i++)
		if (maps->line[i].perms[2] == 'x' && maps->line[i].inode)
			line[code_nr++] = &maps->line[i];
	qsort(line, code_nr, sizeof(*line), by_file);
	for (size_t i = 0; i < code_nr; i++)
		if (!nr || !are_of_one_file(line[nr - 1], line[i]))
			line[nr++] = line[i];
	qsort(line, nr, sizeof(*line), by_line);
	*ret = line;
	*ret_nr = nr;
	return 0;
}

uint64_t target_maps_code(const struct target_maps *maps, uint64_t dev, uint64_t inode, uint64_t offset, size_t *ret_nr)
{
	uint64_t found = 0;

	*ret_nr = 0;
	for (size_t i = 0; i < maps->line_nr; i++) {
		const struct maps_line *line = &maps->line[i];

		if (line->dev != dev || line->inode != inode || line->perms[2] != 'x' || offset < line->offset ||
		    offset - line->offset >= line->end - line->start)
			continue;
		found = found ?: line->start + (offset - line->offset);
		++*ret_nr;
	}
	return found;
}

/* Where the break began; 0: not known. */
static uint64_t read_break_start(pid_t pid)
{
	char *text = proc_read(pid, "stat", NULL), *at = text ? strrchr(text, ')') : NULL;
	uint64_t start = 0;

	for (int field = 2; at && field < 47; field++) /* start_brk is the 47th, see proc(5) */
		at = strchr(at + 1, ' ');
	if (at)
		start = strtoull(at, NULL, 10);
	free(text);
	return start;
}

static uint64_t read_stack_room(pid_t pid)
{
	char *limits = proc_read(pid, "limits", NULL);
	uint64_t limit;

	limit_of_text(limits ?: "", "Max stack size", &limit);
	free(limits);
	return limit > STACK_ROOM ? limit : STACK_ROOM;
}

static uint64_t distance_of(uint64_t at, uint64_t bytes, uint64_t low, uint64_t high)
{
	return at < low ? high - at : at + bytes - low;
}

struct gap {
	uint64_t begin, end;
};

/* Both take addresses later. */
struct growth {
	uint64_t break_start, stack_room;
};

/* The free addresses between line i - 1 and line i, as far as they may be used, on the side of the break that `low` is. */
static struct gap gap_before(const struct target_maps *maps, size_t i, const struct growth *growth, uint64_t low)
{
	uint64_t break_start = growth->break_start;
	struct gap gap = { i ? maps->line[i - 1].end : ADDRESS_MIN, maps->line[i].start };

	if (!strncmp(maps->line[i].path, "[stack", 6))
		gap.end = gap.end > growth->stack_room ? gap.end - growth->stack_room : 0;
	if (i && !strcmp(maps->line[i - 1].path, "[heap]"))
		gap.begin += BREAK_ROOM;
	if (break_start && gap.begin < break_start + BREAK_ROOM && gap.end > break_start)
		gap = low < break_start ? (struct gap){ gap.begin, break_start } :
					  (struct gap){ break_start + BREAK_ROOM, gap.end };
	gap.begin += SPACING;
	gap.end = gap.end > SPACING ? gap.end - SPACING : 0;
	gap.end = gap.end < ADDRESS_MAX ? gap.end : ADDRESS_MAX; /* [vsyscall] is far above */
	return gap;
}

/* The nearest one, within reach. */
static uint64_t find_gap(const struct target_maps *maps, pid_t pid, uint64_t low, uint64_t high, uint64_t bytes, uint64_t reach)
{
	const struct growth growth = { read_break_start(pid), read_stack_room(pid) };
	uint64_t best = 0, best_distance = reach;

	for (size_t i = 0; i < maps->line_nr; i++) {
		struct gap gap = gap_before(maps, i, &growth, low);
		uint64_t at, distance;

		if (gap.end < gap.begin || gap.end - gap.begin < bytes)
			continue;
		at = (gap.end <= low ? gap.end - bytes : gap.begin + 4095) & ~UINT64_C(4095);
		distance = distance_of(at, bytes, low, high);
		if (at < gap.begin || at + bytes > gap.end || distance >= best_distance)
			continue;
		best = at;
		best_distance = distance;
	}
	return best;
}

uint64_t target_maps_gap(const struct target_maps *maps, pid_t pid, uint64_t low, uint64_t high, uint64_t bytes)
{
	return find_gap(maps, pid, low, high, bytes, REACH);
}

uint64_t target_maps_room(const struct target_maps *maps, pid_t pid, uint64_t near, uint64_t bytes)
{
	return find_gap(maps, pid, near, near, bytes, UINT64_MAX);
}

int target_maps_reserve(struct target_maps *maps, uint64_t start, uint64_t bytes)
{
	struct maps_line line = { .start = start, .end = start + bytes, .perms = "---p", .path = "" };
	int err = array_push(maps, line, line);

	for (size_t i = maps->line_nr - 1; !err && i && maps->line[i - 1].start > start; i--) {
		maps->line[i] = maps->line[i - 1];
		maps->line[i - 1] = line;
	}
	return err;
}
