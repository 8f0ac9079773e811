// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/process/proc.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"

/* The kernel's own texts are far shorter. Text that a process controls (environ) has no other bound. */
#define PROC_FILE_MAX (8u << 20)

static void proc_path(char path[PATH_MAX], pid_t pid, const char *name)
{
	if (pid)
		snprintf(path, PATH_MAX, "/proc/%d/%s", pid, name);
	else
		snprintf(path, PATH_MAX, "/proc/%s", name);
}

struct text {
	char *byte;
	size_t byte_nr, byte_alloc;
};

/* Appends what fd returns to text, until the end of the file or the limit. */
static int read_most(int fd, struct text *text, size_t most)
{
	ssize_t got;
	int err;

	do {
		size_t room = most - text->byte_nr;

		if (room > 4096)
			room = 4096;
		err = array_reserve(&text->byte, &text->byte_alloc, text->byte_nr + room + 1);
		if (err)
			return err;
		got = read(fd, text->byte + text->byte_nr, room);
		if (got < 0 && errno != EINTR)
			return -errno;
		text->byte_nr += got > 0 ? got : 0;
	} while (got && text->byte_nr < most);
	text->byte[text->byte_nr] = '\0';
	return 0;
}

FILE *proc_open(pid_t pid, const char *name)
{
	char path[PATH_MAX];

	proc_path(path, pid, name);
	return fopen(path, "re");
}

/* proc_read() with another limit. */
static char *proc_read_most(pid_t pid, const char *name, size_t most, size_t *ret_len)
{
	struct text text = {};
	char path[PATH_MAX];
	int fd, err;

	proc_path(path, pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	err = read_most(fd, &text, most);
	close(fd);
	if (err) {
		free(text.byte);
		errno = -err;
		return NULL;
	}
	if (ret_len)
		*ret_len = text.byte_nr;
	return text.byte;
}

char *proc_read(pid_t pid, const char *name, size_t *ret_len)
{
	return proc_read_most(pid, name, PROC_FILE_MAX, ret_len);
}

char *proc_text(pid_t pid, const char *name)
{
	size_t len;
	char *text = proc_read(pid, name, &len);

	if (!text)
		return strdup("");
	if (len && text[len - 1] == '\n')
		text[len - 1] = '\0';
	return text;
}

char *proc_cgroup(pid_t pid)
{
	char *text = proc_text(pid, "cgroup"), *rest = text, *line, *path = NULL;

	if (!text)
		return NULL;
	while (!path && (line = strsep(&rest, "\n")))
		if (!strncmp(line, "0::", 3))
			path = strdup(line + 3);
	free(text);
	return path ?: strdup("");
}

char *proc_link(pid_t pid, const char *name)
{
	char path[PATH_MAX], target[PATH_MAX];
	ssize_t len;

	proc_path(path, pid, name);
	len = readlink(path, target, sizeof(target) - 1);
	target[len > 0 ? len : 0] = '\0';
	return strdup(target);
}

char *proc_join_args(const char *args, size_t len)
{
	char *text;

	while (len && !args[len - 1])
		len--;
	text = malloc(len + 1);
	if (!text)
		return NULL;
	for (size_t i = 0; i < len; i++)
		text[i] = args[i] ?: ' ';
	text[len] = '\0';
	return text;
}

/* How many of the bytes are whole arguments; all of them if not even the first argument fits. */
static size_t whole_args(const char *args, size_t len)
{
	size_t end = len;

	while (end && args[end - 1])
		end--;
	return end ?: len;
}

char *proc_cmdline(pid_t pid)
{
	size_t len, kept;
	char *args = proc_read_most(pid, "cmdline", PROC_CMDLINE_MAX + 1, &len), *text, *cut;

	if (!args)
		return strdup("");
	kept = len > PROC_CMDLINE_MAX ? whole_args(args, PROC_CMDLINE_MAX) : len;
	text = proc_join_args(args, kept);
	free(args);
	if (!text || kept == len)
		return text;
	cut = asprintf(&cut, "%s" PROC_CMDLINE_CUT, text) < 0 ? NULL : cut;
	free(text);
	return cut;
}

static int status_number(pid_t pid, const char *field, int base, uint64_t *ret_value)
{
	char *text = proc_read(pid, "status", NULL);
	size_t field_len = strlen(field);
	int err = -ENOENT;

	for (char *line = text; line && err; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, field, field_len) || line[field_len] != ':')
			continue;
		*ret_value = strtoull(line + field_len + 1, NULL, base);
		err = 0;
	}
	free(text);
	return err;
}

int proc_status(pid_t pid, const char *field, uint64_t *ret_value)
{
	return status_number(pid, field, 10, ret_value);
}

int proc_status_mask(pid_t pid, const char *field, uint64_t *ret_mask)
{
	return status_number(pid, field, 16, ret_mask);
}

/* Fields of stat count from 1. The second one, in parentheses, may contain any text, even ") ". */
#define STAT_STATE 3
#define STAT_PARENT 4
#define STAT_START_TIME 22

static const char *stat_field(const char *text, int field)
{
	const char *at = strrchr(text, ')');

	for (int i = 2; at && i < field; i++) {
		at = strchr(at, ' ');
		at = at ? at + 1 : NULL;
	}
	return at;
}

int proc_start_time(pid_t pid, uint64_t *ret_ticks)
{
	char *text = proc_read(pid, "stat", NULL);
	const char *field = text ? stat_field(text, STAT_START_TIME) : NULL;
	int err = field ? 0 : text ? -EINVAL : -errno;

	if (field)
		*ret_ticks = strtoull(field, NULL, 10);
	free(text);
	return err;
}

pid_t proc_parent(pid_t pid)
{
	char *text = proc_read(pid, "stat", NULL);
	const char *state = text ? stat_field(text, STAT_STATE) : NULL;
	const char *field = state && *state != 'Z' && *state != 'X' ? stat_field(text, STAT_PARENT) : NULL;
	pid_t parent = field ? atoi(field) : 0;

	free(text);
	return parent;
}

uint64_t proc_auxv(pid_t pid, uint64_t type)
{
	size_t len;
	char *text = proc_read(pid, "auxv", &len);
	uint64_t value = 0;

	for (size_t at = 0; text && at + sizeof(Elf64_auxv_t) <= len; at += sizeof(Elf64_auxv_t)) {
		Elf64_auxv_t entry;

		memcpy(&entry, text + at, sizeof(entry));
		if (entry.a_type == type)
			value = entry.a_un.a_val;
	}
	free(text);
	return value;
}

/* A letter as in ps; 0: the thread is gone. */
static char thread_letter(pid_t pid, pid_t tid)
{
	char name[32], state;
	const char *field;
	char *text;

	snprintf(name, sizeof(name), "task/%d/stat", tid);
	text = proc_read(pid, name, NULL);
	field = text ? stat_field(text, STAT_STATE) : NULL;
	state = field ? *field : 0;
	free(text);
	return state == 'Z' || state == 'X' ? 0 : state;
}

DIR *proc_open_threads(pid_t pid)
{
	char path[PATH_MAX];

	proc_path(path, pid, "task");
	return opendir(path);
}

pid_t proc_next_thread(DIR *threads)
{
	struct dirent *entry;

	while (threads && (entry = readdir(threads)))
		if (entry->d_name[0] != '.')
			return atoi(entry->d_name);
	return 0;
}

pid_t proc_live_thread(pid_t pid)
{
	DIR *dir = proc_open_threads(pid);
	pid_t tid;

	while ((tid = proc_next_thread(dir)) && !thread_letter(pid, tid))
		;
	if (dir)
		closedir(dir);
	return tid;
}

bool proc_is_asleep(pid_t pid)
{
	DIR *dir = proc_open_threads(pid);
	bool is = true;
	pid_t tid;

	while (is && (tid = proc_next_thread(dir))) {
		char state = thread_letter(pid, tid);

		is = !state || state == 'S';
	}
	if (dir)
		closedir(dir);
	return dir && is;
}
