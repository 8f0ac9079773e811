// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "archive/names.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/moment.h"
#include "base/reason.h"
#include "base/units.h"
#include "snapshot.h"

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

char *folder_of_path(const char *path)
{
	const char *name = path_name(path);

	return name == path ? strdup(".") : name == path + 1 ? strdup("/") : strndup(path, name - path - 1);
}

bool is_snapshot_path(const char *path)
{
	return has_snapshot_suffix(path) && strcmp(path_name(path), SNAPSHOT_SUFFIX);
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

/* ---- making folders ---- */

/* Gives away a folder that was just made. One that another process put into its place meanwhile is not ours. */
static int give_new_folder(int fd, const struct snapshot_file_owner *owner)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (st.st_uid != geteuid() || !S_ISDIR(st.st_mode) || st.st_nlink > 2)
		return -EPERM;
	return fchownat(fd, "", owner->uid, owner->gid, AT_EMPTY_PATH) ? -errno : 0;
}

/*
 * Whether a folder that is made in this one may be given away: this one is the user's, or the current folder. A link
 * could have led anywhere else.
 */
static bool may_give_in(int parent_fd, const struct snapshot_file_owner *owner)
{
	struct stat parent, current;

	if (!owner || !owner->is_set || fstat(parent_fd, &parent))
		return false;
	if (parent.st_uid == owner->uid)
		return true;
	return !stat(".", &current) && parent.st_dev == current.st_dev && parent.st_ino == current.st_ino;
}

/* Returns a descriptor (O_PATH) of a folder that exists or is made, or a negative errno. */
static int open_or_make_folder(int parent_fd, const char *name, bool may_be_link,
			       const struct snapshot_file_owner *owner)
{
	bool is_new = !mkdirat(parent_fd, name, 0700);
	int follow = may_be_link && !is_new ? 0 : O_NOFOLLOW, fd, err = 0;

	if (!is_new && errno != EEXIST)
		return -errno;
	fd = openat(parent_fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC | follow);
	if (fd < 0)
		return -errno;
	if (is_new && may_give_in(parent_fd, owner))
		err = give_new_folder(fd, owner);
	if (!err)
		return fd;
	close(fd);
	return err;
}

/* Like mkdir -p below fd, which it takes over: a descriptor (O_PATH) of the last folder, or a negative errno. */
static int open_or_make_path(int fd, const char *path, bool may_be_link, const struct snapshot_file_owner *owner)
{
	char *copy = strdup(path), *rest = copy, *name;

	if (!copy) {
		close(fd);
		return -ENOMEM;
	}
	while (fd >= 0 && (name = strsep(&rest, "/"))) {
		int parent_fd = fd;

		if (!*name)
			continue;
		fd = open_or_make_folder(parent_fd, name, may_be_link, owner);
		close(parent_fd);
	}
	free(copy);
	return fd;
}

static int report_unmade(const char *path, int err, struct reason *why)
{
	return reason_set(why, err, "cannot make the directory %s: %s", path, strerror(-err));
}

static int open_or_make_dir(const char *path, const struct snapshot_file_owner *owner, struct reason *why)
{
	int fd;

	if (!*path)
		return report_unmade(path, -EINVAL, why);
	fd = open(*path == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	fd = fd < 0 ? -errno : open_or_make_path(fd, path, true, owner);
	return fd < 0 ? report_unmade(path, fd, why) : fd;
}

int archive_check_folder(const char *path, const struct snapshot_file_owner *owner, struct reason *why)
{
	int dir_fd = open_or_make_dir(path, owner, why), fd, err = 0;
	char trial[64];

	if (dir_fd < 0)
		return dir_fd;
	snprintf(trial, sizeof(trial), ".allocsnap.%d", getpid());
	fd = openat(dir_fd, trial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		err = reason_set(why, -errno, "cannot write into %s: %s", path, strerror(errno));
	else
		close(fd);
	if (fd >= 0 && unlinkat(dir_fd, trial, 0))
		err = reason_set(why, -errno, "%s in %s cannot be removed: %s", trial, path, strerror(errno));
	close(dir_fd);
	return err;
}

#define NAME_ROOM (NAME_MAX + 2) /* longer ones are too long for the file system, too */

static void format_folder_name(char name[NAME_ROOM], const char *text)
{
	snprintf(name, NAME_ROOM, "%s", *text ? text : "_");
	clean_file_name(name);
}

char *archive_make_folder(const char *dir, const char *host, const char *comm, pid_t pid,
			  const struct snapshot_file_owner *owner, int *ret_fd, struct reason *why)
{
	char host_name[NAME_ROOM], comm_name[NAME_ROOM], *path;
	int fd;

	format_folder_name(host_name, host);
	format_folder_name(comm_name, comm);
	if (asprintf(&path, "%s/%s/%s.%d", dir, host_name, comm_name, pid) < 0)
		return errno = ENOMEM, NULL;
	fd = open_or_make_dir(dir, owner, why);
	if (fd >= 0) {
		fd = open_or_make_path(fd, path + strlen(dir), false, owner);
		if (fd < 0)
			report_unmade(path, fd, why);
	}
	if (fd >= 0) {
		*ret_fd = fd;
		return path;
	}
	free(path);
	errno = -fd;
	return NULL;
}
