// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "record/retention/retention_names.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/units.h"

#define MS_MOST ((1ULL << (64 - STAMP_SHIFT)) - 1) /* in the year 2527 */
#define NR_MOST ((1u << STAMP_SHIFT) - 1)
#define COMM_MOST 15
#define PID_MOST (1 << 22)

static int time_text(char *text, size_t room, uint64_t ms)
{
	time_t seconds = ms / 1000;
	struct tm utc;

	gmtime_r(&seconds, &utc);
	return snprintf(text, room, "%04d%02d%02dT%02d%02d%02d.%03dZ", utc.tm_year + 1900,
			utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
			(int)(ms % 1000));
}

const char *stamp_text(char text[STAMP_TEXT_MAX], uint64_t stamp)
{
	unsigned int nr = stamp & NR_MOST;
	int len = time_text(text, STAMP_TEXT_MAX, stamp_ms(stamp));

	if (nr > 1)
		len += snprintf(text + len, STAMP_TEXT_MAX - len, "-%u", nr);
	snprintf(text + len, STAMP_TEXT_MAX - len, ".snap");
	return text;
}

/* Parses the beginning of a name, loosely: the caller compares the name with the text of the time. */
static bool parse_stamp_time(const char *text, uint64_t *ret_ms, int *ret_len)
{
	struct tm utc = {};
	int ms, len = 0;
	time_t seconds;

	if (sscanf(text, "%4d%2d%2dT%2d%2d%2d.%3dZ%n", &utc.tm_year, &utc.tm_mon, &utc.tm_mday,
		   &utc.tm_hour, &utc.tm_min, &utc.tm_sec, &ms, &len) != 7 || !len)
		return false;
	utc.tm_year -= 1900;
	utc.tm_mon -= 1;
	seconds = timegm(&utc);
	if (seconds < 0 || ms < 0 || (uint64_t)seconds >= MS_MOST / 1000)
		return false;
	*ret_ms = seconds * 1000ULL + ms;
	*ret_len = len;
	return true;
}

bool stamp_parse(const char *name, uint64_t *ret_stamp)
{
	char text[STAMP_TEXT_MAX];
	unsigned int nr = 1;
	uint64_t ms, stamp;
	int len;

	if (!parse_stamp_time(name, &ms, &len))
		return false;
	if (name[len] == '-' && (sscanf(name + len + 1, "%7u", &nr) != 1 || nr < 2 || nr > NR_MOST))
		return false;
	stamp = ms << STAMP_SHIFT | nr;
	if (strcmp(stamp_text(text, stamp), name))
		return false;
	*ret_stamp = stamp;
	return true;
}

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

/* Whether a draft may become a file of this name: TIME, or TIME[-N].snap if it replaces a file. */
static bool is_atomic_file_of(const char *name)
{
	char text[STAMP_TEXT_MAX];
	uint64_t ms;
	int len;

	if (stamp_parse(name, &ms))
		return true;
	if (!parse_stamp_time(name, &ms, &len))
		return false;
	time_text(text, sizeof(text), ms);
	return !strcmp(text, name);
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
	char of[STAMP_TEXT_MAX];
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
