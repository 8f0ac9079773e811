// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "archive/names.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/moment.h"
#include "base/units.h"

#define MS_NS 1000000ULL
#define NR_MOST ((1u << 20) - 1)
#define PID_MOST (1 << 22)

/* ---- snapshots ------------------------------------------------------------------------------- */

bool has_snapshot_suffix(const char *path)
{
	size_t len = strlen(path), suffix = strlen(SNAPSHOT_SUFFIX);

	return len >= suffix && !strcmp(path + len - suffix, SNAPSHOT_SUFFIX);
}

bool is_snapshot_name(const char *name)
{
	return *name != '.' && has_snapshot_suffix(name);
}

const char *name_in_path(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

char *folder_of_path(const char *path)
{
	const char *name = name_in_path(path);

	return name == path ? strdup(".") : name == path + 1 ? strdup("/") : strndup(path, name - path - 1);
}

bool is_snapshot_path(const char *path)
{
	return has_snapshot_suffix(path) && strcmp(name_in_path(path), SNAPSHOT_SUFFIX);
}

const char *moment_name(char text[MOMENT_NAME_MAX], const struct moment *moment)
{
	time_t seconds = moment->wall_ns / SECOND_NS;
	struct tm utc;
	int len;

	gmtime_r(&seconds, &utc);
	len = snprintf(text, MOMENT_NAME_MAX, "%04d%02d%02dT%02d%02d%02d.%03dZ", utc.tm_year + 1900, utc.tm_mon + 1,
		       utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, (int)(moment->wall_ns / MS_NS % 1000));
	if (moment->boot)
		len += snprintf(text + len, MOMENT_NAME_MAX - len, ".%08" PRIx32 ".%" PRIu64, moment->boot,
				(uint64_t)(moment->monotonic_ns / MS_NS));
	if (moment->nr > 1)
		len += snprintf(text + len, MOMENT_NAME_MAX - len, "-%" PRIu32, moment->nr);
	snprintf(text + len, MOMENT_NAME_MAX - len, SNAPSHOT_SUFFIX);
	return text;
}

/* These take a part of a name from *text. Folders have 100,000 names: sscanf() would take most of the time. */

static bool take_name_text(const char **text, const char *want)
{
	size_t len = strlen(want);

	if (strncmp(*text, want, len))
		return false;
	*text += len;
	return true;
}

static bool take_name_digits(const char **text, int digits, int *ret)
{
	int number = 0;

	for (int i = 0; i < digits; i++, (*text)++) {
		if (**text < '0' || **text > '9')
			return false;
		number = number * 10 + (**text - '0');
	}
	*ret = number;
	return true;
}

/* As it is printed: without a leading zero. */
static bool take_name_number(const char **text, uint64_t most, uint64_t *ret)
{
	uint64_t number = 0;

	if (**text == '0' && (*text)[1] >= '0' && (*text)[1] <= '9')
		return false;
	if (**text < '0' || **text > '9')
		return false;
	for (; **text >= '0' && **text <= '9'; (*text)++) {
		number = number * 10 + (**text - '0');
		if (number > most)
			return false;
	}
	*ret = number;
	return true;
}

/* timegm() accepts a 31st of February, and makes a third of March of it. */
static bool take_wall_time(const char **text, uint64_t *ret_ns)
{
	struct tm given = {}, utc;
	time_t seconds;
	int ms;

	if (!take_name_digits(text, 4, &given.tm_year) || !take_name_digits(text, 2, &given.tm_mon) ||
	    !take_name_digits(text, 2, &given.tm_mday) || !take_name_text(text, "T") ||
	    !take_name_digits(text, 2, &given.tm_hour) || !take_name_digits(text, 2, &given.tm_min) ||
	    !take_name_digits(text, 2, &given.tm_sec) || !take_name_text(text, ".") ||
	    !take_name_digits(text, 3, &ms) || !take_name_text(text, "Z"))
		return false;
	given.tm_year -= 1900;
	given.tm_mon -= 1;
	utc = given;
	seconds = timegm(&utc);
	if (utc.tm_mon != given.tm_mon || utc.tm_mday != given.tm_mday || utc.tm_hour != given.tm_hour ||
	    utc.tm_min != given.tm_min || utc.tm_sec != given.tm_sec)
		return false;
	if (seconds < 0 || (uint64_t)seconds >= UINT64_MAX / SECOND_NS)
		return false;
	*ret_ns = seconds * SECOND_NS + ms * MS_NS;
	return true;
}

/* "-N" of the second and later ones of several names. */
static bool take_copy_nr(const char **text, uint64_t most, uint64_t *ret)
{
	*ret = 1;
	return !take_name_text(text, "-") || (take_name_number(text, most, ret) && *ret > 1);
}

static bool take_name_pid(const char **text, pid_t *ret)
{
	uint64_t pid;

	if (!take_name_number(text, PID_MOST, &pid) || !pid)
		return false;
	*ret = pid;
	return true;
}

/* The name of a snapshot without its suffix. */
static bool take_moment(const char **text, struct moment *ret)
{
	uint64_t ms = 0, nr;

	if (!take_wall_time(text, &ret->wall_ns))
		return false;
	ret->boot = **text == '.' ? boot_parse(*text + 1) : 0;
	if (ret->boot) {
		*text += strlen(".6f3c21aa");
		if (!take_name_text(text, ".") || !take_name_number(text, UINT64_MAX / MS_NS / 10, &ms))
			return false;
	}
	ret->monotonic_ns = ms * MS_NS;
	if (!take_copy_nr(text, NR_MOST, &nr))
		return false;
	ret->nr = nr;
	return true;
}

bool moment_parse(const char *name, struct moment *ret)
{
	struct moment moment;

	if (!take_moment(&name, &moment) || strcmp(name, SNAPSHOT_SUFFIX))
		return false;
	*ret = moment;
	return true;
}

/* ---- folders, drafts ------------------------------------------------------------------------- */

bool archive_is_host_name(const char *name)
{
	return *name && *name != '.' && !name[strspn(name, FILE_NAME_BYTES)];
}

bool archive_is_folder_name(const char *name)
{
	const char *dot = strrchr(name, '.'), *text = dot ? dot + 1 : "";
	pid_t pid;

	return archive_is_host_name(name) && dot && dot - name <= COMM_MOST && take_name_pid(&text, &pid) && !*text;
}

/* A draft becomes the first file of its moment that is free, unless it replaces a file, of which it has the whole name. */
bool atomic_file_name_parse(const char *name, pid_t *ret_writer)
{
	struct moment moment;
	uint64_t nr;
	pid_t writer;

	if (!take_name_text(&name, ".") || !take_moment(&name, &moment))
		return false;
	if (!take_name_text(&name, SNAPSHOT_SUFFIX) && moment.nr > 1)
		return false;
	if (!take_name_text(&name, ".tmp.") || !take_name_pid(&name, &writer) || !take_copy_nr(&name, 999, &nr) || *name)
		return false;
	*ret_writer = writer;
	return true;
}

bool trial_name_parse(const char *name, pid_t *ret_writer)
{
	return take_name_text(&name, ".allocsnap.") && take_name_pid(&name, ret_writer) && !*name;
}
