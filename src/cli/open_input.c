// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/open_input.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/reason.h"
#include "base/units.h"
#include "cli/cmd.h"
#include "formats/import.h"
#include "render.h"
#include "render/facts.h"
#include "snapshot.h"

#define CHUNK_BYTES (1 << 20)
#define HEAD_BYTES 4096 /* enough to detect the kind of a file */

/* ---- kinds of files ----------------------------------------------------------------------- */

enum kind {
	KIND_NONE = 0, /* no byte could be read */
	KIND_OTHER,
	KIND_SNAPSHOT,
	KIND_JSON,
	KIND_PICKLE, /* written by tracemalloc.Snapshot.dump() */
	KIND_PROFILE, /* a heap profile of another tool */
	KIND_UTF16,   /* text in UTF-16, as PowerShell writes it */
};

static enum kind kind_of_bytes(const char *bytes, size_t len)
{
	size_t magic_len = strlen(SNAP_MAGIC);

	if (!len)
		return KIND_NONE;
	if (len >= magic_len && !memcmp(bytes, SNAP_MAGIC, magic_len))
		return KIND_SNAPSHOT;
	if (len > 1 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5) /* PROTO */
		return KIND_PICKLE;
	if (len > 1 && (!memcmp(bytes, "\xff\xfe", 2) || !memcmp(bytes, "\xfe\xff", 2)))
		return KIND_UTF16;
	if (import_knows(bytes, len))
		return KIND_PROFILE;
	bytes = text_behind_mark(bytes, &len);
	for (; len && strchr(" \t\r\n", *bytes) && *bytes; len--)
		bytes++;
	return len && *bytes == '{' ? KIND_JSON : KIND_OTHER;
}

static enum kind kind_of_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char head[HEAD_BYTES];
	struct stat st;
	ssize_t len = 0;

	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode))
		len = pread(fd, head, sizeof(head), 0);
	if (fd >= 0)
		close(fd);
	return kind_of_bytes(head, len > 0 ? len : 0);
}

static const char *const hints[] = {
	[KIND_JSON] = "not a snapshot; 'allocsnap convert' reads JSON",
	[KIND_PICKLE] = "a Python pickle; 'tracemalloc-to-json FILE | allocsnap convert - -o SNAP' reads a pickle "
			"of tracemalloc",
	[KIND_UTF16] = "text in UTF-16; 'iconv -f UTF-16 -t UTF-8 <IN >OUT' makes UTF-8 of it",
	[KIND_PROFILE] = "a heap profile of another tool; 'allocsnap convert IN -o OUT.snap' makes a snapshot of it",
};

static const char *kind_hint(enum kind kind)
{
	return kind < ARRAY_SIZE(hints) ? hints[kind] : NULL;
}

/* ---- snapshot files ----------------------------------------------------------------------- */

/* One line for each, with the last part of the name: `show` explains the losses. */
static void report_missing_data(const struct snapshot *snapshot, const char *name)
{
	const char *filters = snapshot__metadata(snapshot, "filters");

	name = path_name(name);
	log_losses_line(snapshot, name);
	if (filters)
		log_cut("%s: filtered, not the whole: %s", name, filters);
}

struct snapshot *open_snapshot(const char *path)
{
	struct reason why = { "out of memory" };
	struct snapshot *snapshot = snapshot__open(path, &why);
	const char *otherwise;

	if (snapshot) {
		report_missing_data(snapshot, path);
		return snapshot;
	}
	otherwise = errno == EBADMSG ? kind_hint(kind_of_file(path)) : NULL;
	if (otherwise)
		log_info("%s: %s", path, otherwise);
	else
		log_info("%s", why.text);
	return NULL;
}

/* ---- any file ----------------------------------------------------------------------------- */

static bool is_stream(const char *path)
{
	struct stat st;

	if (!strcmp(path, "-"))
		return true;
	return !stat(path, &st) && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) ||
				    S_ISCHR(st.st_mode));
}

/* Returns 1 if there may be more, 0 at the end of the stream, or a negative errno. */
static int read_chunk(struct input *input, size_t *alloc, int fd)
{
	ssize_t got;
	int err = array_reserve(&input->bytes, alloc, input->len + CHUNK_BYTES);

	if (err)
		return err;
	got = read(fd, input->bytes + input->len, *alloc - input->len);
	if (got < 0)
		return errno == EINTR ? 1 : -errno;
	input->len += got;
	return got > 0;
}

/* The first bytes show the kind. A stream of another kind is not read to its end: it may be endless. */
static bool is_other_stream(const struct input *input)
{
	enum kind kind = kind_of_bytes(input->bytes, input->len);

	return input->len >= HEAD_BYTES && (kind == KIND_OTHER || kind == KIND_PICKLE || kind == KIND_UTF16);
}

/* 0: not known. */
static uint64_t length_of(int fd)
{
	struct stat st;

	return fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) ? st.st_size : 0;
}

static int read_stream(struct input *input, const char *path)
{
	bool is_stdin = !strcmp(path, "-");
	int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct progress progress = progress_begin("reading", NULL, length_of(fd));
	size_t alloc = 0;
	int more = fd < 0 ? -errno : 1;

	while (more > 0 && !is_other_stream(input)) {
		more = read_chunk(input, &alloc, fd);
		progress_show(&progress, input->len);
	}
	progress_end(&progress);
	if (fd >= 0 && !is_stdin)
		close(fd);
	return more < 0 ? more : 0;
}

static int refuse_input_kind(const char *name)
{
	return log_failure("%s: neither a snapshot, nor JSON with a list of traces, nor a heap profile of pprof, jemalloc "
			   "or tcmalloc", name);
}

/* The text in `why` has the name of the file after import_json(), but not after open_memory(). */
static int parse_input(struct input *input, const char *name)
{
	struct reason why = { "out of memory" };
	enum kind kind = kind_of_bytes(input->bytes, input->len);
	size_t len = input->len;
	const char *text = text_behind_mark(input->bytes, &len);

	switch (kind) {
	case KIND_JSON:
		input->snapshot = snapshot__import_json(text, len, name, &why);
		return input->snapshot ? EXIT_DONE : log_failure("%s", why.text);
	case KIND_PROFILE:
		input->snapshot = import_profile(input->bytes, input->len, name, &why);
		return input->snapshot ? EXIT_DONE : log_failure("%s", why.text);
	case KIND_SNAPSHOT:
		input->snapshot = snapshot__open_memory(input->bytes, input->len, &why);
		return input->snapshot ? EXIT_DONE : log_failure("%s: %s", name, why.text);
	case KIND_PICKLE:
	case KIND_UTF16:
		return log_failure("%s: %s", name, kind_hint(kind));
	case KIND_OTHER:
		return refuse_input_kind(name);
	case KIND_NONE:
		break;
	}
	return log_failure("%s: nothing to read", name);
}

int input_read(struct input *input, const char *path)
{
	const char *name = strcmp(path, "-") ? path : "standard input";
	bool by_bytes = is_stream(path);
	enum kind kind = by_bytes ? KIND_NONE : kind_of_file(path);
	int status, err;

	*input = (struct input){};
	if (kind == KIND_OTHER)
		return refuse_input_kind(name);
	if (!by_bytes && kind != KIND_JSON && kind != KIND_PROFILE) {
		input->snapshot = open_snapshot(path);
		return input->snapshot ? EXIT_DONE : EXIT_FAILED;
	}
	err = read_stream(input, path);
	if (err)
		return log_failure("%s: %s", name, strerror(-err));
	status = parse_input(input, name);
	if (!status)
		report_missing_data(input->snapshot, name);
	return status;
}

void input_release(struct input *input)
{
	snapshot__close(input->snapshot);
	free(input->bytes);
	*input = (struct input){};
}

/* ---- losses ------------------------------------------------------------------------------- */

int log_losses(const struct report_loss *loss, size_t nr)
{
	struct report_loss *unknown = calloc(nr + 1, sizeof(*unknown));
	size_t unknown_nr = 0;
	char *line;
	int err;

	if (!unknown)
		return -ENOMEM;
	for (size_t i = 0; i < nr; i++) {
		const char *meaning = counter_meaning(loss[i].name);

		if (!meaning)
			unknown[unknown_nr++] = loss[i];
		else if (loss[i].value)
			log_info("loss: %s %" PRIu64 ": %s", loss[i].name, loss[i].value, meaning);
	}
	line = loss_list_line(unknown, unknown_nr);
	if (line)
		log_info("%s", line);
	err = line ? 0 : -errno;
	free(line);
	free(unknown);
	return err;
}

int log_snapshot_losses(const struct snapshot *snapshot)
{
	struct report_loss *loss;
	size_t nr;
	int err = snapshot_losses(snapshot, &loss, &nr) ?: log_losses(loss, nr);

	free(loss);
	return err;
}

int check_source_folder(const char *folder)
{
	int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return log_failure("--source %s: %s", folder, strerror(errno));
	close(fd);
	return EXIT_DONE;
}
