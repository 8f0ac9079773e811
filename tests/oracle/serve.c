// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The whole program as a server, for tests that ask thousands of questions: each request is
 * answered by a forked child, without a new process image.
 *
 * A request on stdin is a length (4 bytes, the machine's order) and as many bytes: words, each
 * followed by a NUL. An answer on stdout is four numbers of 4 bytes (exit status, or 256 + the
 * signal; length of stdout; length of stderr; 0), then both texts. The words are
 *
 *	allocsnap WORD…				a command line, as the program gets it
 *	format SNAP SOURCE LIMIT ORDER		traceback_format() of each trace, each followed by a
 *						NUL; SOURCE "" is none, LIMIT "None" is none, ORDER
 *						is oldest-first or most-recent-first
 *	blocks SNAP NUMBER…			gives each trace an address and a birth, and the
 *						snapshot a process; other columns are lost but the
 *						domain and the weight
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine.h"
#include "render.h"
#include "snapshot.h"

#define WORDS_MAX 4096

/* src/main.c, under another name */
int allocsnap_main(int argc, char **argv);

static void die(const char *what)
{
	fprintf(stderr, "serve: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* ---- traceback_format() ------------------------------------------------------------------- */

static int format_traceback(const struct snapshot *snapshot, uint32_t traceback,
			    const struct traceback_format_options *options)
{
	struct frame_view *frame = NULL;
	uint32_t nframe, total_nframe;
	char *text;

	if (traceback_read(snapshot, traceback, &frame, &nframe, &total_nframe))
		return 1;
	text = traceback_format(frame, nframe, options);
	free(frame);
	if (!text)
		return 1;
	fputs(text, stdout);
	putchar('\0');
	free(text);
	return 0;
}

static int format_main(char **word)
{
	struct traceback_format_options options = {
		.source_dir = *word[2] ? word[2] : NULL,
		.has_limit = strcmp(word[3], "None") != 0,
		.limit = strtoll(word[3], NULL, 10),
		.most_recent_first = !strcmp(word[4], "most-recent-first"),
	};
	struct reason why = {};
	struct snapshot *snapshot = snapshot__open(word[1], &why);
	int status = 0;

	if (!snapshot) {
		fprintf(stderr, "%s\n", why.text);
		return 1;
	}
	for (uint64_t i = 0; i < snapshot__tables(snapshot)->trace_nr && !status; i++)
		status = format_traceback(snapshot, snapshot__trace(snapshot, i).traceback,
					  &options);
	snapshot__close(snapshot);
	return status;
}

/* ---- blocks that have an identity ---------------------------------------------------------- */

static int copy_traceback(struct snapshot_builder *builder, const struct snapshot *from, uint32_t id,
			  uint32_t *ret_id)
{
	const struct snapshot_tables *tables = snapshot__tables(from);
	const struct snap_traceback *row = &tables->traceback[id];
	uint32_t *frame = calloc(row->nframe + 1, sizeof(*frame));
	int err = frame ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < row->nframe && !err; i++) {
		struct snap_frame copy = tables->frame[tables->traceback_frame[row->first + i]];

		err = snapshot_builder__string(builder, snapshot__string(from, copy.filename),
					       &copy.filename) ?:
		      snapshot_builder__frame(builder, &copy, &frame[i]);
	}
	err = err ?: snapshot_builder__traceback(builder, frame, row->nframe, row->total_nframe, 0, ret_id);
	free(frame);
	return err;
}

static int copy_blocks(struct snapshot_builder *builder, const struct snapshot *from, char **number)
{
	static const char *const keys[] = { "pid", "boot_id", "start_time_ticks" };
	const char *limit = snapshot__metadata(from, "traceback_limit");
	int err = snapshot_builder__metadata(builder, "traceback_limit", limit) ?:
		  snapshot_builder__metadata(builder, "source", snapshot__metadata(from, "source"));

	for (int i = 0; i < 3 && !err; i++)
		err = snapshot_builder__metadata(builder, keys[i], "1");
	for (uint64_t i = 0; i < snapshot__tables(from)->trace_nr && !err; i++) {
		struct snap_trace trace = snapshot__trace(from, i);

		trace.address = trace.birth_ns = strtoull(number[i], NULL, 10);
		err = copy_traceback(builder, from, trace.traceback, &trace.traceback) ?:
		      snapshot_builder__trace(builder, &trace);
	}
	return err;
}

static int blocks_main(int argc, char **word)
{
	struct snapshot_builder *builder = snapshot_builder__new(SNAP_WITH_ALL | SNAP_WITH_WEIGHT);
	struct snapshot *from = snapshot__open(word[1], NULL), *to = NULL;

	if (!from || snapshot__tables(from)->trace_nr != (uint64_t)argc - 2 ||
	    copy_blocks(builder, from, word + 2) || snapshot_builder__finish(builder, &to))
		return 1;
	return snapshot__save(to, word[1], NULL, NULL) ? 1 : 0;
}

/* ---- the server --------------------------------------------------------------------------- */

/* Where the children write. */
struct output {
	int out, err;
};

static int run_words(int argc, char **word)
{
	if (!strcmp(word[0], "allocsnap"))
		return allocsnap_main(argc, word);
	if (!strcmp(word[0], "format") && argc == 5)
		return format_main(word);
	if (!strcmp(word[0], "blocks") && argc >= 2)
		return blocks_main(argc, word);
	return 125;
}

static void run_child(const struct output *output, int argc, char **word)
{
	int null = open("/dev/null", O_RDONLY);

	if (dup2(null, 0) < 0 || dup2(output->out, 1) < 0 || dup2(output->err, 2) < 0)
		_exit(125);
	exit(run_words(argc, word));
}

static uint32_t empty_file(int fd)
{
	if (ftruncate(fd, 0) || lseek(fd, 0, SEEK_SET))
		die("emptying");
	return 0;
}

static uint32_t wait_child(pid_t pid)
{
	int status;

	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		die("a child");
	return WIFSIGNALED(status) ? 256 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void put_file(int fd, size_t size)
{
	char *text = size ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;

	if (text == MAP_FAILED || (size && fwrite(text, 1, size, stdout) != size))
		die("answering");
	if (size)
		munmap(text, size);
}

static void answer(const struct output *output, int argc, char **word)
{
	uint32_t head[4] = { 0, empty_file(output->out), empty_file(output->err) };
	pid_t pid = fork();

	if (!pid)
		run_child(output, argc, word);
	head[0] = wait_child(pid);
	head[1] = lseek(output->out, 0, SEEK_END);
	head[2] = lseek(output->err, 0, SEEK_END);
	if (fwrite(head, sizeof(head), 1, stdout) != 1)
		die("answering");
	put_file(output->out, head[1]);
	put_file(output->err, head[2]);
	if (fflush(stdout))
		die("answering");
}

static int split(char *text, size_t len, char **word)
{
	int nr = 0;

	for (char *end = text + len; text < end && nr < WORDS_MAX; text += strlen(text) + 1)
		word[nr++] = text;
	word[nr] = NULL;
	return nr;
}

static bool serve_one(const struct output *output)
{
	static char *word[WORDS_MAX + 1];
	uint32_t len;
	char *text;

	if (read(0, &len, sizeof(len)) != sizeof(len))
		return false;
	text = calloc(1, len + 1ull);
	for (uint32_t got = 0; got < len;) {
		ssize_t nr = text ? read(0, text + got, len - got) : 0;

		if (nr <= 0)
			die("a request");
		got += nr;
	}
	answer(output, split(text, len, word), word);
	free(text);
	return true;
}

int main(void)
{
	struct output output = {
		.out = memfd_create("out", MFD_CLOEXEC),
		.err = memfd_create("err", MFD_CLOEXEC),
	};

	if (output.out < 0 || output.err < 0)
		die("memfd_create");
	while (serve_one(&output))
		;
	return 0;
}
