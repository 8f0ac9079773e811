// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "render/source_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"

#define FILE_NR 64			/* files kept */
#define KEPT_BYTES_MAX (64 << 20)	/* limit of all kept files together, and of each file */
#define MARK_LINES 64			/* a mark each 64 lines, to find a line by its number */

/* A file that was asked for; text is NULL if there is no such file. */
struct source_file {
	char *name;
	char *text;
	size_t len;
	struct timespec changed;
	uint32_t *mark; /* line 1 + i * MARK_LINES begins at text[mark[i]] */
	size_t mark_nr, mark_alloc;
};

struct source_tree {
	int dir_fd;
	struct source_file file[FILE_NR]; /* a ring */
	unsigned int next;
	size_t kept_bytes;
};

struct source_tree *source_tree__open(const char *dir)
{
	struct source_tree *tree = dir ? calloc(1, sizeof(*tree)) : NULL;

	if (!tree)
		return NULL;
	tree->dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (tree->dir_fd >= 0)
		return tree;
	free(tree);
	return NULL;
}

static void drop_source_file(struct source_tree *tree, struct source_file *file)
{
	tree->kept_bytes -= file->len;
	free(file->name);
	free(file->text);
	free(file->mark);
	*file = (struct source_file){};
}

void source_tree__close(struct source_tree *tree)
{
	if (!tree)
		return;
	for (size_t i = 0; i < FILE_NR; i++)
		drop_source_file(tree, &tree->file[i]);
	close(tree->dir_fd);
	free(tree);
}

/* ---- finding a file ----------------------------------------------------------------------- */

/* Returns a descriptor or -1. Never blocks, never leaves the directory. */
static int open_source_below(int dir_fd, const char *path)
{
	struct open_how how = {
		.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
	};

	return syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));
}

static size_t component_len(const char *path)
{
	return strcspn(path, "/");
}

/* Skips slashes and "." components. */
static const char *skip_nothing(const char *path)
{
	while (*path == '/' || (*path == '.' && component_len(path) == 1))
		path++;
	return path;
}

/* Returns the path below its last "..": ".." is never followed. */
static const char *below_parents(const char *path)
{
	const char *below = path;

	for (; *path; path += component_len(path), path += *path == '/')
		if (component_len(path) == 2 && !strncmp(path, "..", 2))
			below = path + 2;
	return skip_nothing(below);
}

/* Opens the regular file that has the longest end of the path below the directory; -1: no file has. */
static int find_source_file(int dir_fd, const char *filename, struct stat *st)
{
	const char *path = below_parents(filename), *end = path + strlen(path);

	for (; *path; path = skip_nothing(path + component_len(path))) {
		int fd = end - path < PATH_MAX ? open_source_below(dir_fd, path) : -1;

		if (fd >= 0 && !fstat(fd, st) && S_ISREG(st->st_mode))
			return fd;
		if (fd >= 0)
			close(fd);
	}
	return -1;
}

/* ---- reading a file ----------------------------------------------------------------------- */

/* Universal newlines: \n, \r\n and \r. Returns where the line ends. */
static const char *line_end(const char *at, const char *end)
{
	while (at < end && *at != '\n' && *at != '\r')
		at++;
	return at;
}

static const char *next_line(const char *at, const char *end)
{
	at = line_end(at, end);
	if (end - at > 1 && at[0] == '\r' && at[1] == '\n')
		return at + 2;
	return at < end ? at + 1 : end;
}

static char *read_source_text(int fd, size_t room, size_t *ret_len)
{
	char *text = malloc(room ?: 1);
	size_t len = 0;

	while (text && len < room) {
		ssize_t got = read(fd, text + len, room - len);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		len += got;
	}
	*ret_len = text ? len : 0;
	return text;
}

/* Returns where the text begins: after a byte order mark, if there is one. */
static size_t text_start(const struct source_file *file)
{
	return file->len >= 3 && !memcmp(file->text, "\xef\xbb\xbf", 3) ? 3 : 0;
}

static int mark_lines(struct source_file *file)
{
	const char *at = file->text + text_start(file), *end = file->text + file->len;
	int err = 0;

	for (size_t line = 0; at < end && !err; line++, at = next_line(at, end))
		if (line % MARK_LINES == 0)
			err = array_push(file, mark, at - file->text);
	return err;
}

static void load_source_file(struct source_tree *tree, struct source_file *file)
{
	struct stat st;
	int fd = find_source_file(tree->dir_fd, file->name, &st);
	size_t room;

	if (fd < 0)
		return;
	file->changed = st.st_mtim;
	room = st.st_size < KEPT_BYTES_MAX ? st.st_size : KEPT_BYTES_MAX;
	file->text = read_source_text(fd, room, &file->len);
	close(fd);
	if (!file->text || !mark_lines(file))
		return;
	free(file->text);
	file->text = NULL;
	file->len = 0;
}

static struct source_file *find_kept_source(struct source_tree *tree, const char *filename)
{
	for (size_t i = 0; i < FILE_NR; i++)
		if (tree->file[i].name && !strcmp(tree->file[i].name, filename))
			return &tree->file[i];
	return NULL;
}

/* Loads a file into the oldest place, and drops the oldest files while all are too large together. NULL: no memory. */
static struct source_file *keep_source_file(struct source_tree *tree, const char *filename)
{
	struct source_file *file = &tree->file[tree->next];

	drop_source_file(tree, file);
	file->name = strdup(filename);
	if (!file->name)
		return NULL;
	load_source_file(tree, file);
	tree->kept_bytes += file->len;
	for (unsigned int i = 1; i < FILE_NR && tree->kept_bytes > KEPT_BYTES_MAX; i++)
		drop_source_file(tree, &tree->file[(tree->next + i) % FILE_NR]);
	tree->next = (tree->next + 1) % FILE_NR;
	return file;
}

/* ---- one line ------------------------------------------------------------------------- */

/* The same characters as in Python's str.isspace(). */
static bool is_ascii_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f);
}

static const char *const wide_spaces[] = {
	"\xc2\x85", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005",
	"\u2006", "\u2007", "\u2008", "\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f",
	"\u3000",
};

/* Returns the bytes of one white space character at the beginning or end of text; 0: no white space is there. */
static size_t space_len(const char *text, size_t len, bool at_end)
{
	if (len && is_ascii_space(text[at_end ? len - 1 : 0]))
		return 1;
	for (size_t i = 0; i < ARRAY_SIZE(wide_spaces); i++) {
		size_t space = strlen(wide_spaces[i]);

		if (space <= len &&
		    !memcmp(text + (at_end ? len - space : 0), wide_spaces[i], space))
			return space;
	}
	return 0;
}

/* Like str.strip(). Returns NULL if nothing is left, or if the line has a NUL: then it is no text. */
static char *copy_stripped(const char *line, size_t len, bool keeps_indent)
{
	size_t space;

	while (!keeps_indent && (space = space_len(line, len, false))) {
		line += space;
		len -= space;
	}
	while ((space = space_len(line, len, true)))
		len -= space;
	return len && !memchr(line, '\0', len) ? strndup(line, len) : NULL;
}

static char *copy_line(const struct source_file *file, uint32_t lineno, bool keeps_indent)
{
	size_t mark = (lineno - 1) / MARK_LINES;
	const char *at, *end = file->text + file->len;

	if (mark >= file->mark_nr)
		return NULL;
	at = file->text + file->mark[mark];
	for (uint32_t left = (lineno - 1) % MARK_LINES; left; left--)
		at = next_line(at, end);
	return copy_stripped(at, line_end(at, end) - at, keeps_indent);
}

/* "<string>", "<unknown>": Python's linecache does not take these for files either. */
static bool is_no_file(const char *filename)
{
	size_t len = strlen(filename);

	return !len || (filename[0] == '<' && filename[len - 1] == '>');
}

/* NULL: there is no such file, or no memory. */
static const struct source_file *find_source(struct source_tree *tree, const char *filename)
{
	const struct source_file *file;

	if (!tree || is_no_file(filename))
		return NULL;
	file = find_kept_source(tree, filename) ?: keep_source_file(tree, filename);
	return file && file->text ? file : NULL;
}

char *source_tree__line(struct source_tree *tree, const char *filename, uint32_t lineno)
{
	const struct source_file *file = lineno ? find_source(tree, filename) : NULL;

	return file ? copy_line(file, lineno, false) : NULL;
}

char *source_tree__indented_line(struct source_tree *tree, const char *filename, uint32_t lineno)
{
	const struct source_file *file = lineno ? find_source(tree, filename) : NULL;

	return file ? copy_line(file, lineno, true) : NULL;
}

bool source_tree__is_newer(struct source_tree *tree, const char *filename, uint64_t since_ns)
{
	const struct source_file *file = find_source(tree, filename);

	return file && file->changed.tv_sec >= 0 &&
	       file->changed.tv_sec * 1000000000ull + file->changed.tv_nsec > since_ns;
}
