// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "symbolize/naming.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "elf/probe_info.h"
#include "elf/runtime_detect.h"
#include "sandbox/client.h"
#include "snapshot.h"
#include "symbolize/frames.h"
#include "symbols/debug_file.h"
#include "symbols/symbols.h"

/* ---- ordinary files -------------------------------------------------------------------------- */

/* linux/magic.h lacks these. */
#define CONFIGFS_MAGIC 0x62656570
#define MQUEUE_MAGIC 0x19800202
#define RPC_PIPEFS_MAGIC 0x67596969
#define NFSD_MAGIC 0x6e667364
#define FUSE_CONTROL_MAGIC 0x65735543

static const uint32_t made_up[] = {
	PROC_SUPER_MAGIC, SYSFS_MAGIC, TRACEFS_MAGIC, DEBUGFS_MAGIC, SECURITYFS_MAGIC,
	CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, BPF_FS_MAGIC, CONFIGFS_MAGIC, EFIVARFS_MAGIC,
	BINFMTFS_MAGIC, PSTOREFS_MAGIC, SELINUX_MAGIC, SMACK_MAGIC, AAFS_MAGIC, NSFS_MAGIC,
	XENFS_SUPER_MAGIC, OPENPROM_SUPER_MAGIC, USBDEVICE_SUPER_MAGIC, DEVPTS_SUPER_MAGIC,
	MQUEUE_MAGIC, RPC_PIPEFS_MAGIC, NFSD_MAGIC, RDTGROUP_SUPER_MAGIC, PIPEFS_MAGIC,
	SOCKFS_MAGIC, FUSE_SUPER_MAGIC, FUSE_CONTROL_MAGIC,
};

static bool is_made_up(uint32_t type)
{
	for (size_t i = 0; i < ARRAY_SIZE(made_up); i++)
		if (made_up[i] == type)
			return true;
	return false;
}

/* Checks the file system first: if a process serves it, even fstat() may wait for that process. */
static int check_is_regular(int path_fd)
{
	struct statfs fs;
	struct stat st;

	if (fstatfs(path_fd, &fs))
		return -errno;
	if (is_made_up(fs.f_type))
		return -EXDEV;
	if (fstat(path_fd, &st))
		return -errno;
	return S_ISREG(st.st_mode) ? 0 : -EINVAL;
}

/*
 * Opens the file of an O_PATH descriptor for reading, if it is a regular file on a
 * disk or in memory. Opening a device can have effects. So can opening some files that the kernel
 * makes up and calls regular (/proc/kmsg, free_buffer of tracefs). A file that a user's process
 * serves (FUSE) may never answer. Returns a descriptor; -EINVAL: it is no regular file, -EXDEV: it
 * is in such a file system; another negative errno.
 */
static int open_ordinary(int path_fd)
{
	char path[64];
	int fd, err = check_is_regular(path_fd);

	if (err)
		return err;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

/* The text for a negative errno from open_ordinary(). */
static const char *why_not_ordinary(int err)
{
	if (err == -EINVAL)
		return "it is no regular file";
	if (err == -EXDEV)
		return "its file system is the kernel's own, or a process serves it";
	return strerror(-err);
}

/* ---- candidates ------------------------------------------------------------------------------ */

/* The target of a symbolic link is below the root, too. */
static int open_at_path(const struct naming *naming, const char *path)
{
	const struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	int path_fd, fd;

	if (path[0] != '/')
		return -ENOENT;
	path_fd = syscall(SYS_openat2, naming->options.root_fd, path, &how, sizeof(how));
	if (path_fd < 0)
		return -errno;
	fd = open_ordinary(path_fd);
	close(path_fd);
	return fd;
}

/* -1: no server has it. */
static int fetch_object(const struct debug_fetcher *fetcher, const char *build_id)
{
	uint8_t bytes[BUILD_ID_MAX];
	size_t len = strlen(build_id) / 2;

	if (!fetcher || len > sizeof(bytes))
		return -1;
	for (size_t i = 0; i < len; i++)
		if (sscanf(build_id + 2 * i, "%2hhx", &bytes[i]) != 1)
			return -1;
	return fetcher->fetch(fetcher->self, FETCHED_OBJECT, bytes, len);
}

/*
 * Candidate 0 is at the path, the next ones are in the directories of debug files, the last one comes from a server. A
 * descriptor or -errno.
 */
static int open_object_candidate(const struct naming *naming, const struct object_file *file, size_t nr)
{
	int fd;

	if (!nr)
		return open_at_path(naming, file->path);
	if (nr <= naming->options.debug_dir_nr)
		fd = debug_file__object(naming->options.debug_dir_fd[nr - 1], file->build_id);
	else
		fd = fetch_object(naming->options.fetcher, file->build_id);
	return fd < 0 ? -ENOENT : fd;
}

/* Whether the file is the recorded one, or may be, for want of a build-id. If not, the reason is in *why. */
static bool is_right(const struct naming *naming, const struct object_file *file, int fd,
		     struct reason *why)
{
	struct probe_info probe_info;
	bool is_same;

	if (sandbox__probe_info(naming->sandbox, fd, NULL, &probe_info, why))
		return false;
	is_same = !*file->build_id || !strcmp(probe_info.build_id, file->build_id);
	if (!is_same && *probe_info.build_id)
		reason_set(why, 0, "it has the build-id %s now", probe_info.build_id);
	else if (!is_same)
		reason_set(why, 0, "it has no build-id now");
	probe_info_release(&probe_info);
	return is_same;
}

/*
 * Finds the names of the same file under another path, or from an earlier snapshot: it need not be
 * read again.
 */
static uint32_t names_of_same(const struct naming *naming, const char *build_id,
			      const struct stat *st)
{
	for (size_t i = 0; i < naming->file_nr; i++) {
		const struct object_file *file = &naming->file[i];

		if (file->names != NAMES_NONE && file_version_fits(&file->stamp, st) &&
		    !strcmp(file->build_id, build_id))
			return file->names;
	}
	return NAMES_NONE;
}

/* Takes ownership of the descriptor. */
static int keep_object_file(struct naming *naming, struct object_file *file, int fd, const struct stat *st)
{
	uint32_t names = names_of_same(naming, file->build_id, st);
	int err = 0;

	if (names == NAMES_NONE)
		err = symbols__object(naming->symbols, file->path, file->build_id, fd, &names);
	err = err ?: array_fill(naming, fd, names + 1ull, at, -1);
	if (err || naming->fd[names] >= 0) {
		close(fd);
	} else {
		naming->fd[names] = fd;
		symbols__set_file(naming->symbols, names, fd);
	}
	if (err)
		return err;
	file->names = names;
	file->stamp = file_version_of(st);
	return 0;
}

/* 1: the candidate is the file. 0: it is not; the reason is in *why. Or -ENOMEM. */
static int try(struct naming *naming, struct object_file *file, size_t nr, struct reason *why)
{
	int fd = open_object_candidate(naming, file, nr);
	struct stat st;

	if (fd < 0) {
		reason_set(why, 0, "%s", why_not_ordinary(fd));
		return 0;
	}
	if (!fstat(fd, &st) && (names_of_same(naming, file->build_id, &st) != NAMES_NONE ||
				is_right(naming, file, fd, why)))
		return keep_object_file(naming, file, fd, &st) ?: 1;
	close(fd);
	return 0;
}

/* If no candidate is the file, file->why is the reason for the candidate at the path. */
static int find_object_file(struct naming *naming, struct object_file *file)
{
	size_t candidate_nr = *file->build_id ? 2 + naming->options.debug_dir_nr : 1;
	int found = 0;

	file->snapshot = naming->snapshot;
	if (!*file->build_id && !naming->options.by_path) {
		reason_set(&file->why, 0, "without a build-id nothing says which file it was");
		return 0;
	}
	for (size_t i = 0; i < candidate_nr && !found; i++) {
		struct reason why = {};

		found = try(naming, file, i, &why);
		if (!i)
			file->why = why;
	}
	if (found <= 0)
		file->names = NAMES_NONE;
	return found < 0 ? found : 0;
}

/* ---- which are known ------------------------------------------------------------------------- */

static struct object_file *find_known_file(const struct naming *naming, const char *path, const char *build_id)
{
	for (size_t i = 0; i < naming->file_nr; i++)
		if (!strcmp(naming->file[i].path, path) && !strcmp(naming->file[i].build_id, build_id))
			return &naming->file[i];
	return NULL;
}

static void object_file_release(struct object_file *file)
{
	free(file->path);
	free(file->build_id);
}

static int object_file_add(struct naming *naming, const char *path, const char *build_id, struct object_file **ret)
{
	struct object_file file = { .path = strdup(path), .build_id = strdup(build_id), .names = NAMES_NONE };
	int err = file.path && file.build_id ? array_push(naming, file, file) : -ENOMEM;

	if (err)
		object_file_release(&file);
	else
		*ret = &naming->file[naming->file_nr - 1];
	return err;
}

/*
 * Stores the object's index for symbols__lookup(), or NAMES_NONE if there is no such file. 0 or
 * -ENOMEM.
 */
static int naming_find_object(struct naming *naming, const char *path, const char *build_id, uint32_t *ret_names)
{
	struct object_file *file = find_known_file(naming, path, build_id);
	int err = file ? 0 : object_file_add(naming, path, build_id, &file);

	if (!err && file->snapshot != naming->snapshot)
		err = find_object_file(naming, file);
	if (!err)
		*ret_names = file->names;
	return err;
}

/*
 * Call this, while the file is open, for an object that had no line for any frame and no name for
 * some. The object is reported later if it is stripped and has no debug file.
 */
static void naming_doubt_object(struct naming *naming, const char *path, const char *build_id)
{
	struct object_file *file = find_known_file(naming, path, build_id);
	struct runtime_traits traits;

	if (!file || file->names == NAMES_NONE || file->is_doubted)
		return;
	file->is_doubted = true;
	file->is_stripped = !sandbox__traits(naming->sandbox, naming->fd[file->names], &traits, NULL) &&
			    !(traits.bits & TRAITS_OF_NAMES);
}

/* Closes the files found for one snapshot, but keeps the facts about them for the next one. */
static void naming_close_objects(struct naming *naming)
{
	for (size_t i = 0; i < naming->fd_nr; i++) {
		if (naming->fd[i] < 0)
			continue;
		symbols__set_file(naming->symbols, i, -1);
		close(naming->fd[i]);
		naming->fd[i] = -1;
	}
}

/* ---- the handle ------------------------------------------------------------------------------ */

struct naming *naming__new(const struct naming_options *options, struct reason *why)
{
	const struct sandbox_options sandbox_options = {
		.debug_dir_fd = options->debug_dir_fd,
		.debug_dir_nr = options->debug_dir_nr,
		.fetcher = options->fetcher,
	};
	struct naming *naming = calloc(1, sizeof(*naming));

	if (!naming) {
		reason_set(why, 0, "out of memory");
		return NULL;
	}
	naming->options = *options;
	naming->sandbox = sandbox__open(&sandbox_options, why);
	if (naming->sandbox) {
		naming->symbols = symbols__new(sandbox__source(naming->sandbox));
		if (naming->symbols)
			return naming;
		reason_set(why, 0, "out of memory");
	}
	naming__free(naming);
	return NULL;
}

void naming__free(struct naming *naming)
{
	if (!naming)
		return;
	symbols__free(naming->symbols);
	sandbox__close(naming->sandbox);
	for (size_t i = 0; i < naming->fd_nr; i++)
		if (naming->fd[i] >= 0)
			close(naming->fd[i]);
	free(naming->fd);
	for (size_t i = 0; i < naming->file_nr; i++)
		object_file_release(&naming->file[i]);
	free(naming->file);
	free(naming);
}

/* NULL: the file was found and read completely. */
static const char *why_nameless(const struct naming *naming, const struct object_file *file)
{
	if (file->names == NAMES_NONE)
		return file->why.text;
	return symbols__unreadable(naming->symbols, file->names);
}

#define STRIPPED_TOLD_MAX 20

/* On some machines most files are stripped, so only STRIPPED_TOLD_MAX are reported. */
static const char *why_few_names(const struct naming *naming, const struct object_file *file)
{
	if (!file->is_stripped || naming->stripped_nr >= STRIPPED_TOLD_MAX)
		return NULL;
	if (naming->stripped_nr + 1 == STRIPPED_TOLD_MAX)
		return "stripped, and no debug file of it was found; further such files are not named";
	return naming->options.fetcher ? "stripped, and no debug file of it was found here or on a debuginfod server" :
					 "stripped, and no debug file of it is here";
}

bool naming__next_nameless(struct naming *naming, struct nameless *ret)
{
	for (size_t i = 0; i < naming->file_nr; i++) {
		struct object_file *file = &naming->file[i];
		const char *why = why_nameless(naming, file), *few = why ? NULL : why_few_names(naming, file);

		if ((!why && !few) || file->is_told)
			continue;
		file->is_told = true;
		naming->stripped_nr += few != NULL;
		*ret = (struct nameless){ file->path, file->build_id, why ?: few, few };
		return true;
	}
	return false;
}

/* Chooses the frames of a snapshot to look up, and counts the results. */

/* Indexed by the ids of the snapshot. */
struct plan {
	struct naming *naming;
	const struct snapshot *from;
	const struct snapshot_tables *t;
	bool *is_asked, *is_renamed; /* of each frame */
	uint32_t *names; /* of each object: index for symbols__lookup() */
	bool *is_left, *has_lines; /* of each object: a frame has no name; a frame has a line */
};

/* ---- choosing frames ---- */

static bool is_unnamed(const struct snap_frame *frame)
{
	return !frame->lineno && !frame->function && !(frame->flags & SNAP_FRAME_SKIPPED);
}

static bool may_be_named(const struct snap_frame *frame)
{
	return frame->object && !frame->lineno &&
	       !(frame->flags & (SNAP_FRAME_SKIPPED | SNAP_FRAME_INLINE));
}

/* Skips the last frame of a chain of inlined calls: it has its name, even if its line is not known. */
static void leave_chains(const struct plan *plan)
{
	const struct snapshot_tables *t = plan->t;

	for (uint32_t i = 0; i < t->traceback_nr; i++) {
		const uint32_t *frame = &t->traceback_frame[t->traceback[i].first];

		for (uint32_t k = 1; k < t->traceback[i].nframe; k++)
			if (t->frame[frame[k - 1]].flags & SNAP_FRAME_INLINE)
				plan->is_asked[frame[k]] = false;
	}
}

static int find_objects(const struct plan *plan, struct naming_counts *counts)
{
	const struct snapshot_tables *t = plan->t;
	bool *is_found = calloc(t->object_nr + 1, sizeof(*is_found));
	int err = is_found ? 0 : -ENOMEM;
	size_t nr = 0;

	for (uint32_t i = 1; i < t->frame_nr && !err; i++) {
		uint32_t at = t->frame[i].object;

		if (!plan->is_asked[i] || is_found[at])
			continue;
		is_found[at] = true;
		if (nr++ >= NAMING_OBJECTS_MAX) {
			counts->left_out++;
			continue;
		}
		err = naming_find_object(plan->naming,
					 snapshot__string(plan->from, t->object[at].path),
					 snapshot__string(plan->from, t->object[at].build_id),
					 &plan->names[at]);
	}
	free(is_found);
	return err;
}

static int choose_frames(const struct plan *plan, struct naming_counts *counts)
{
	for (uint32_t i = 1; i < plan->t->frame_nr; i++)
		plan->is_asked[i] = may_be_named(&plan->t->frame[i]);
	leave_chains(plan);
	for (uint32_t i = 0; i < plan->t->object_nr; i++)
		plan->names[i] = NAMES_NONE;
	return find_objects(plan, counts);
}

/* ---- results ---- */

static bool ask_of_frame(const void *plan_, size_t i, uint32_t *ret_names, uint64_t *ret_offset)
{
	const struct plan *plan = plan_;
	const struct snap_frame *frame = &plan->t->frame[i];

	*ret_names = plan->names[frame->object];
	*ret_offset = frame_return_offset(frame->offset, frame->flags & SNAP_FRAME_EXACT);
	return plan->is_asked[i] && *ret_names != NAMES_NONE;
}

/*
 * A function that has several names keeps the recorded one, which may be an exported alias: otherwise the same place
 * would be another function in the copy. Its symbol is the outermost one, unless the chain was cut off.
 */
static int look_up_frame(const void *plan_, uint32_t at, struct symbol ret_symbol[SYMBOL_INLINE_MAX])
{
	const struct plan *plan = plan_;
	const struct snap_frame *frame = &plan->t->frame[at];
	const struct frame_place place = {
		.names = plan->names[frame->object],
		.offset = frame->offset,
		.flags = frame->flags,
	};
	int nr = frame_place_names(&place, plan->naming->symbols, ret_symbol);

	if (nr > 0 && nr < SYMBOL_INLINE_MAX && frame->function)
		ret_symbol[nr - 1].function = snapshot__string(plan->from, frame->function);
	return nr;
}

/* 1: the files say more about a frame than the snapshot, 0, or -ENOMEM. */
static int has_news(const struct plan *plan, uint32_t at)
{
	const struct snap_frame *frame = &plan->t->frame[at];
	struct symbol symbol[SYMBOL_INLINE_MAX];
	int nr = look_up_frame(plan, at, symbol);

	if (nr < 0)
		return nr;
	plan->has_lines[frame->object] |= nr > 1 || symbol[0].lineno;
	plan->is_left[frame->object] |= !symbol[0].function && !symbol[0].lineno && !frame->function;
	return nr > 1 || symbol[0].lineno || (symbol[0].function && !frame->function);
}

static int count_news(const struct plan *plan, struct naming_counts *counts)
{
	int news;

	for (uint32_t i = 1; i < plan->t->frame_nr; i++) {
		const struct snap_frame *frame = &plan->t->frame[i];

		counts->unnamed += is_unnamed(frame);
		news = plan->is_asked[i] ? has_news(plan, i) : 0;
		if (news < 0)
			return news;
		plan->is_renamed[i] = news;
		if (is_unnamed(frame))
			counts->named += news;
		else
			counts->lined += news;
		counts->by_path += news && !plan->t->object[frame->object].build_id;
	}
	return 0;
}

/* Finds out why an object has few names, if possible. */
static void doubt_objects(const struct plan *plan)
{
	for (uint32_t i = 1; i < plan->t->object_nr; i++)
		if (plan->is_left[i] && !plan->has_lines[i])
			naming_doubt_object(plan->naming, snapshot__string(plan->from, plan->t->object[i].path),
					    snapshot__string(plan->from, plan->t->object[i].build_id));
}

static int rename_all(const struct plan *plan, struct naming_counts *counts, struct snapshot **ret)
{
	struct renaming renaming = {
		.from = plan->from,
		.names_of = look_up_frame,
		.who = plan,
		.is_renamed = plan->is_renamed,
		.rows_max = plan->naming->options.rows_max ?: NAMING_ROWS_MAX,
	};
	int err = choose_frames(plan, counts) ?:
		  frames_look_ahead(plan->naming->symbols, plan->t->frame_nr, ask_of_frame, plan) ?:
		  count_news(plan, counts);

	if (!err)
		doubt_objects(plan);
	if (err || !(counts->named + counts->lined))
		return err;
	renaming.by_path_nr = counts->by_path;
	return rename_frames(&renaming, ret);
}

int naming__snapshot(struct naming *naming, const struct snapshot *snapshot,
		     struct naming_counts *ret_counts, struct snapshot **ret)
{
	struct plan plan = {
		.naming = naming,
		.from = snapshot,
		.t = snapshot__tables(snapshot),
	};
	int err = -ENOMEM;

	*ret = NULL;
	*ret_counts = (struct naming_counts){};
	plan.is_asked = calloc(plan.t->frame_nr + 1, sizeof(*plan.is_asked));
	plan.is_renamed = calloc(plan.t->frame_nr + 1, sizeof(*plan.is_renamed));
	plan.names = calloc(plan.t->object_nr + 1, sizeof(*plan.names));
	naming->snapshot++;
	plan.is_left = calloc(plan.t->object_nr + 1, sizeof(*plan.is_left));
	plan.has_lines = calloc(plan.t->object_nr + 1, sizeof(*plan.has_lines));
	if (plan.is_asked && plan.is_renamed && plan.names && plan.is_left && plan.has_lines)
		err = rename_all(&plan, ret_counts, ret);
	naming_close_objects(naming);
	free(plan.is_asked);
	free(plan.is_renamed);
	free(plan.names);
	free(plan.is_left);
	free(plan.has_lines);
	return err;
}
