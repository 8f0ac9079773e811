// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "process/made_code.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "process/mappings.h"
#include "process/open_file.h"
#include "process/proc.h"
#include "sandbox/client.h"
#include "symbols/perf_map.h"

#define MADE_NAMES_MAX (1u << 18) /* addresses; a process may make code for ever */
#define FILE_TIME_NS 20000000	  /* file times lag behind the clock by up to a tick, of 10 ms at most */

/* ---- the file ---- */

static bool has_made_code(const struct mappings *mappings)
{
	return array_any(mappings->mapping_nr, i, mappings->mapping[i].object == OBJECT_NONE);
}

/* Whether the file was written to since the process began. Otherwise it is of a process that had this PID before. */
static bool is_of_this_process(const struct stat *st, pid_t pid)
{
	uint64_t ticks, written_ns = st->st_mtim.tv_sec * SECOND_NS + st->st_mtim.tv_nsec;
	uint64_t boot_ns = clock_now_ns(CLOCK_REALTIME) - clock_now_ns(CLOCK_BOOTTIME);

	return !proc_start_time(pid, &ticks) &&
	       written_ns + FILE_TIME_NS >= boot_ns + ticks * (SECOND_NS / sysconf(_SC_CLK_TCK));
}

/* Whether the file is of the process's user or root's. A copy is of the recorder's own user. */
static bool is_own_map(const struct opened_file *opened, pid_t pid)
{
	struct stat st;
	uint64_t user;

	return !opened->is_copy && !fstat(opened->fd, &st) && !proc_status(pid, "Uid", &user) &&
	       (st.st_uid == user || !st.st_uid) && is_of_this_process(&st, pid);
}

/* The jitdump that the process maps, as perf wants it, or NULL. */
static const struct object *mapped_dump(const struct mappings *mappings, pid_t own)
{
	char name[32];
	size_t len = snprintf(name, sizeof(name), "/jit-%d.dump", own);

	for (size_t i = 0; i < mappings->used_nr; i++) {
		const struct object *object = mappings_used(mappings, i);
		size_t path_len = strlen(object->path);

		if (object->fd >= 0 && path_len > len && !strcmp(object->path + path_len - len, name))
			return object;
	}
	return NULL;
}

static void open_map(struct file_opener *opener, pid_t pid, pid_t own, struct opened_file *ret)
{
	char root[32], map[32];

	snprintf(root, sizeof(root), "/proc/%d/root", pid);
	snprintf(map, sizeof(map), "/tmp/perf-%d.map", own);
	open_file(opener, open_below_without_links(opener, root, map), ret);
}

static bool is_removed(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && !st.st_nlink;
}

/* The names that another map gave stay. */
static void take_map(struct made_code *made, int fd, const struct object *dump)
{
	if (made->fd >= 0)
		close(made->fd);
	made->fd = fd;
	made->dump = dump ? dump->identity : (struct file_identity){};
	made->is_refused = made->is_told = false;
	made->read = (struct file_version){};
	made->old = (struct perf_map_part){};
	made->settled[0] = made->settled[1] = 0;
}

void made_code_open(struct made_code *made, const struct mappings *mappings, pid_t pid)
{
	struct opened_file opened = { .fd = -1 };
	const struct object *dump;
	pid_t own;

	if ((made->fd >= 0 && (made->dump.inode || !is_removed(made->fd))) || !has_made_code(mappings))
		return;
	own = proc_own_tid(pid, pid);
	if (!own)
		return;
	dump = mapped_dump(mappings, own);
	if (dump)
		opened = (struct opened_file){ .fd = fcntl(dump->fd, F_DUPFD_CLOEXEC, 0), .is_copy = dump->is_copy };
	else
		open_map(mappings->objects->opener, pid, own, &opened);
	if (opened.fd >= 0 && is_own_map(&opened, pid))
		take_map(made, opened.fd, dump);
	else if (opened.fd >= 0)
		close(opened.fd);
}

void made_code_begin(struct made_code *made)
{
	struct stat st;

	if (made->fd >= 0 && !fstat(made->fd, &st))
		made->settled[0] = made->settled[1] = st.st_size;
}

/* ---- the names ---- */

int made_code_add(struct made_code *made, uint64_t return_address)
{
	uint64_t address = return_address - 1;
	const struct made_name name = { .address = address };
	uint32_t id;

	if (made->name_nr >= MADE_NAMES_MAX)
		return 0;
	return idmap_intern(&made->ids, made, name, address, name, &id);
}

static int set_made_name(struct made_code *made, struct made_name *name, const char *text)
{
	uint32_t id;
	int err = strpool_add(&made->text, text, strlen(text), &id);

	if (!err && name->text && name->text != id)
		err = strpool_add(&made->text, PERF_MAP_SEVERAL, strlen(PERF_MAP_SEVERAL), &id);
	if (!err)
		name->text = id;
	return err;
}

static bool is_several(const struct made_code *made, const struct made_name *name)
{
	return name->text && !strcmp(strpool_get(&made->text, name->text), PERF_MAP_SEVERAL);
}

/* Asks for the addresses of one question, sorted. -EIO and others: the map cannot be read. */
static int ask_made_names(struct made_code *made, struct sandbox *sandbox, const struct perf_map_part *part,
			  const uint64_t *address, size_t nr, struct perf_map_part *next)
{
	struct perf_map_names names;
	int err = sandbox__made_code(sandbox, made->fd, part, address, nr, &names, &made->why);

	if (err)
		return err;
	if (names.end < next->from)
		*next = (struct perf_map_part){ .from = names.end, .hash = names.hash };
	for (size_t i = 0; i < nr && !err; i++) {
		uint32_t id = idmap_find_key(&made->ids, &address[i], sizeof(*address), made->name, sizeof(*made->name));

		if (names.name[i] && !is_several(made, &made->name[id]))
			err = set_made_name(made, &made->name[id], names.text + names.name[i] - 1);
	}
	free(names.name);
	free(names.text);
	return err;
}

/* The names of rows from first to end. *next: where the earliest of the readings ended. */
static int read_made_names(struct made_code *made, struct sandbox *sandbox, const struct perf_map_part *part, size_t first,
			   size_t end, struct perf_map_part *next)
{
	size_t nr = end - first, some;
	uint64_t *address = calloc(nr + 1, sizeof(*address));
	int err = address ? 0 : -ENOMEM;

	for (size_t i = 0; i < nr && !err; i++)
		address[i] = made->name[first + i].address;
	if (!err)
		qsort(address, nr, sizeof(*address), array_by_number);
	for (size_t at = 0; at < nr && !err; at += some) {
		some = nr - at < PERF_MAP_ADDRESSES_MAX ? nr - at : PERF_MAP_ADDRESSES_MAX;
		err = ask_made_names(made, sandbox, part, address + at, some, next);
	}
	free(address);
	return err;
}

/* Addresses that were asked for before need only what was written since; new ones need the whole map. */
static int read_news(struct made_code *made, struct sandbox *sandbox)
{
	const struct perf_map_part all = { .settled = made->settled[0] };
	struct perf_map_part next = { .from = UINT64_MAX };
	int err = read_made_names(made, sandbox, &made->old, 0, made->read_nr, &next) ?:
		  read_made_names(made, sandbox, &all, made->read_nr, made->name_nr, &next);

	made->old = next;
	made->read_nr = made->name_nr;
	return err;
}

int made_code_look_up(struct made_code *made, struct sandbox *sandbox, uint64_t pass_ns)
{
	struct stat st;
	int err = 0;

	if (made->fd < 0 || made->is_refused || fstat(made->fd, &st))
		return 0;
	if (made->name_nr && (made->read_nr < made->name_nr || !file_version_fits(&made->read, &st))) {
		made->read = file_version_of(&st);
		err = read_news(made, sandbox);
		made->is_refused = err != 0;
	}
	if (made->pass_ns != pass_ns) {
		made->pass_ns = pass_ns;
		made->settled[0] = made->settled[1];
		made->settled[1] = st.st_size;
	}
	return err == -ENOMEM ? err : 0;
}

const char *made_code_name(const struct made_code *made, uint64_t return_address)
{
	uint64_t address = return_address - 1;
	uint32_t id = idmap_find_key(&made->ids, &address, sizeof(address), made->name, sizeof(*made->name));

	return id == IDMAP_NONE || !made->name[id].text ? NULL : strpool_get(&made->text, made->name[id].text);
}

bool made_code_next_refusal(struct made_code *made, struct reason *why)
{
	bool is_news = made->is_refused && !made->is_told;

	if (is_news)
		*why = made->why;
	made->is_told |= is_news;
	return is_news;
}

bool made_code_is_too_large(const struct made_code *made)
{
	struct stat st;

	return made->fd >= 0 && !made->dump.inode && !fstat(made->fd, &st) && st.st_size > PERF_MAP_BYTES_MAX;
}

void made_code_forget(struct made_code *made)
{
	if (made->fd >= 0)
		close(made->fd);
	free(made->name);
	idmap_release(&made->ids);
	strpool_release(&made->text);
	*made = (struct made_code){ .fd = -1 };
}
