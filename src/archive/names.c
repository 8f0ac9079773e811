// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "archive/names.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/moment.h"
#include "base/units.h"

#define COMM_MOST 15
#define PID_MOST (1 << 22)

bool archive_is_host_name(const char *name)
{
	return *name && *name != '.' && !name[strspn(name, FILE_NAME_BYTES)];
}

/* Parses a PID as the kernel writes it: without a leading zero. */
static bool parse_pid_text(const char *text, pid_t *ret_pid)
{
	uint64_t pid;

	if (*text == '0' || parse_count(text, 1, PID_MOST, &pid))
		return false;
	*ret_pid = pid;
	return true;
}

bool archive_is_folder_name(const char *name)
{
	const char *dot = strrchr(name, '.');
	pid_t pid;

	return archive_is_host_name(name) && dot && dot > name && dot - name <= COMM_MOST &&
	       parse_pid_text(dot + 1, &pid);
}

/* Whether a draft may become a file of this name: without ".snap", or with it if it replaces a file. */
static bool is_atomic_file_of(const char *name)
{
	char file[MOMENT_NAME_MAX + 8];
	struct moment moment;

	if (moment_parse(name, &moment))
		return true;
	snprintf(file, sizeof(file), "%s.snap", name);
	return moment_parse(file, &moment) && moment.nr == 1;
}

/* "PID" or "PID-N" */
static bool parse_writer(const char *text, pid_t *ret_writer)
{
	char pid[8] = "", again[16];
	unsigned int nr = 1;

	if (sscanf(text, "%7[0-9]-%3u", pid, &nr) < 1 || !parse_pid_text(pid, ret_writer))
		return false;
	snprintf(again, sizeof(again), nr > 1 ? "%s-%u" : "%s", pid, nr);
	return !strcmp(again, text);
}

/* Parses a dot, the name, ".tmp." and the writer. */
bool atomic_file_name_parse(const char *name, pid_t *ret_writer)
{
	const char *tmp = strstr(name, ".tmp.");
	char of[MOMENT_NAME_MAX];
	pid_t writer;

	if (*name != '.' || !tmp || tmp == name || tmp - name > (ptrdiff_t)sizeof(of))
		return false;
	snprintf(of, sizeof(of), "%.*s", (int)(tmp - name - 1), name + 1);
	if (!is_atomic_file_of(of) || !parse_writer(tmp + strlen(".tmp."), &writer))
		return false;
	*ret_writer = writer;
	return true;
}

bool trial_name_parse(const char *name, pid_t *ret_writer)
{
	static const char begin[] = ".allocsnap.";
	size_t len = sizeof(begin) - 1;

	return !strncmp(name, begin, len) && parse_pid_text(name + len, ret_writer);
}
