// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"
#include "collect/census/census.h"
#include "collect/census/census_json.h"
#include "collect/census/census_reader.h"
#include "collect/process/maps_text.h"
#include "collect/process/proc.h"
#include "helper/channel.h"
#include "sandbox/seccomp.h"

#define MEMORY_BYTES (4ull << 30)
#define MOVED_LEAST (UINT64_C(1) << 20) /* reading maps some pages of files: so few bytes say nothing */
#define CPU_MARGIN_S 30 /* an honest reader has stopped before */

/* ---- the reader's process ---- */

static __attribute__((noreturn)) void be_census_reader(int socket, pid_t parent, const struct census_options *options)
{
	const struct rlimit cpu = {
		options->cpu_ns / 1000000000 + CPU_MARGIN_S, options->cpu_ns / 1000000000 + CPU_MARGIN_S,
	};

	prctl(PR_SET_NAME, "allocsnap-heap");
	child_show_as("allocsnap: reads the heap of a process, without privileges");
	if (setrlimit(RLIMIT_CPU, &cpu) || confine_drop_rights(socket) || confine_to_reading(MEMORY_BYTES, parent))
		_exit(127);
	census_read_and_answer(CONFINED_FD);
	_exit(0);
}

static int start_reader(const struct census_options *options, pid_t *ret_pid, int *ret_socket)
{
	pid_t parent = getpid();
	int end[2], err = channel__pair(end);

	if (err)
		return err;
	json_object_seed(0); /* the reader could not open the kernel's random numbers */
	*ret_pid = fork();
	if (!*ret_pid)
		be_census_reader(end[1], parent, options);
	err = *ret_pid < 0 ? -errno : 0;
	close(end[1]);
	if (err)
		close(end[0]);
	else
		*ret_socket = end[0];
	return err;
}

/* ---- what it is given ---- */

static int open_proc_file(pid_t pid, const char *name, struct reason *why)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	if (errno == ENOENT || errno == ESRCH)
		return reason_set(why, -ESRCH, "there is no such process");
	if (errno == EACCES || errno == EPERM)
		return reason_set(why, -EACCES, "its memory may not be read: that needs root, or CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH");
	return reason_set(why, -errno, "%s: %s", path, strerror(errno));
}

static bool has_base_name(const char *path, const char *begin)
{
	const char *slash = strrchr(path, '/');

	return slash && !strncmp(slash + 1, begin, strlen(begin));
}

/* The mapping of a file's begin whose name is that of a library of Python, or else of a program. */
static bool find_python(pid_t pid, struct maps_line *ret)
{
	FILE *maps = proc_open(pid, "maps");
	struct maps_line line;
	bool is_found = false;
	char *text = NULL;
	size_t alloc = 0;

	while (maps && getline(&text, &alloc, maps) > 0) {
		bool is_library;

		if (!maps_parse_line(text, &line) || line.offset)
			continue;
		is_library = has_base_name(line.path, "libpython");
		if (!is_library && (is_found || !has_base_name(line.path, "python")))
			continue;
		*ret = line;
		is_found = true;
		if (is_library)
			break;
	}
	free(text);
	if (maps)
		fclose(maps);
	ret->path = "";
	return is_found;
}

/* A file of Python, only if it has the name of one: others are not opened. -1: there is none. */
static int open_python(pid_t pid, uint64_t *ret_start)
{
	struct maps_line line;
	char path[96];

	if (!find_python(pid, &line))
		return -1;
	*ret_start = line.start;
	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, pid, line.start, line.end);
	return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

static int send_files(pid_t pid, const struct channel *channel, const struct census_options *options, struct reason *why)
{
	static const char *const names[CENSUS_FD_NR] = {
		[CENSUS_FD_MEMORY] = "mem", [CENSUS_FD_PAGES] = "pagemap", [CENSUS_FD_MAPS] = "maps",
	};
	struct census_order order = { .cpu_ns = options->cpu_ns };
	int err = 0;

	for (size_t i = 0; i < CENSUS_FD_NR && !err; i++) {
		int fd = names[i] ? open_proc_file(pid, names[i], why) : open_python(pid, &order.python_start);

		err = fd < 0 && names[i] ? fd : channel__send(channel, CENSUS_ORDER, &(struct iovec){ &order, sizeof(order) }, 1, fd);
		if (fd >= 0)
			close(fd);
		if (err && (fd >= 0 || !names[i]))
			reason_set(why, err, "the process that reads its memory has ended");
	}
	return err;
}

/* ---- what it answers ---- */

static int receive_census(const struct channel *channel, struct census *ret, struct reason *why)
{
	struct message head;
	char *text = NULL;
	int err = channel__head(channel, &head, NULL);

	if (!err && head.kind == CENSUS_ANSWER && !head.bytes)
		return reason_set(why, -ENOMEM, "out of memory while its memory was read");
	if (!err && (head.kind != CENSUS_ANSWER || head.bytes > CENSUS_JSON_MOST))
		err = -EPROTO;
	text = err ? NULL : malloc(head.bytes);
	if (!err && !text)
		return reason_set(why, -ENOMEM, "out of memory");
	err = err ?: channel__receive(channel, text, head.bytes);
	if (err)
		reason_set(why, -EIO, "the process that reads its memory has failed");
	else
		err = census_from_text(text, head.bytes, ret, why);
	free(text);
	return err;
}

/* ---- what only this process knows ---- */

static uint64_t resident_bytes_of(pid_t pid)
{
	char *statm = proc_text(pid, "statm");
	unsigned long long pages = 0;

	if (!statm || sscanf(statm, "%*u %llu", &pages) != 1)
		pages = 0;
	free(statm);
	return pages * sysconf(_SC_PAGESIZE);
}

static void read_census_identity(pid_t pid, uint64_t resident_before, struct census *census)
{
	char *comm = proc_text(pid, "comm");
	struct timespec now;
	uint64_t moved;

	clock_gettime(CLOCK_REALTIME, &now);
	census->pid = pid;
	census->time_ns = now.tv_sec * UINT64_C(1000000000) + now.tv_nsec;
	clean_text(census->name, sizeof(census->name), comm ?: "");
	census->resident_bytes = resident_bytes_of(pid);
	moved = census->resident_bytes > resident_before ? census->resident_bytes - resident_before :
							    resident_before - census->resident_bytes;
	if (moved >= MOVED_LEAST)
		census->loss[CENSUS_LOSS_RESIDENT_MOVED] += moved;
	free(comm);
}

int census_take(pid_t pid, const struct census_options *options, struct census *ret, struct reason *why)
{
	struct channel channel = { .fd = -1 };
	uint64_t resident_before = resident_bytes_of(pid);
	pid_t reader = 0;
	int err = start_reader(options, &reader, &channel.fd);

	*ret = (struct census){};
	if (err)
		return reason_set(why, err, "cannot start the process that reads its memory: %s", strerror(-err));
	err = send_files(pid, &channel, options, why) ?: receive_census(&channel, ret, why);
	close(channel.fd);
	kill(reader, SIGKILL);
	waitpid(reader, NULL, 0);
	if (!err)
		read_census_identity(pid, resident_before, ret);
	return err;
}
