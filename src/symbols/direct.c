// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "symbols/direct.h"

#include <errno.h>
#include <gelf.h>
#include <libiberty/demangle.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/idmap.h"
#include "symbols/symbol_object.h"
#include "symbols/symbols.h"

#define READABLE_MAX (1 << 16) /* a longer readable name stays mangled */
#define D_NAME_MAX 4096
#define D_REFERENCES_MAX 32

static const char *const clone_word[] = {
	"cold", "constprop", "isra", "llvm", "localalias", "lto_priv", "part",
};

/* ---- demangling ---- */

/*
 * Names refer back to parts of themselves, so that 300 bytes can stand for terabytes of text. The
 * demangler passes its text on piece by piece; if the text gets too long, append_text() jumps out.
 * (At that time the demangler has nothing on the heap, except one decoded identifier in Rust.)
 * libiberty's own limit on recursion stays enabled.
 */
struct readable {
	char *text; /* READABLE_MAX + 1 bytes */
	size_t len;
	jmp_buf too_long;
};

static void append_text(const char *text, size_t len, void *data)
{
	struct readable *readable = data;

	if (len > READABLE_MAX - readable->len)
		longjmp(readable->too_long, 1);
	memcpy(readable->text + readable->len, text, len);
	readable->len += len;
	readable->text[readable->len] = '\0';
}

typedef int (*demangle_fn)(const char *, int, demangle_callbackref, void *);

static bool demangle(struct readable *readable, demangle_fn demangle, const char *name)
{
	readable->len = 0;
	if (setjmp(readable->too_long))
		return false;
	return demangle(name, DMGL_PARAMS | DMGL_ANSI, append_text, readable) && readable->len;
}

/* Tries Rust before C++: a legacy Rust name is a valid C++ name, too, except for its hash. */
static char *demangle_rust_or_cxx(const char *name)
{
	struct readable readable = { .text = malloc(READABLE_MAX + 1) };
	char *text;

	if (!readable.text)
		return NULL;
	if (demangle(&readable, rust_demangle_callback, name) ||
	    demangle(&readable, cplus_demangle_v3_callback, name))
		text = strdup(readable.text);
	else
		text = strdup(name);
	free(readable.text);
	return text;
}

/* The demangler of D has no callback and no limits, so its names get a limit here; Q refers back. */
static char *demangle_d(const char *name)
{
	size_t references = 0, len = 0;
	char *text = NULL;

	for (; name[len] && len <= D_NAME_MAX; len++)
		references += name[len] == 'Q';
	if (len <= D_NAME_MAX && references <= D_REFERENCES_MAX)
		text = dlang_demangle(name, DMGL_PARAMS | DMGL_ANSI);
	return text ? text : strdup(name);
}

char *symbol_demangle(const char *name)
{
	if (name[0] != '_' || !name[1])
		return strdup(name);
	return name[1] == 'D' ? demangle_d(name) : demangle_rust_or_cxx(name);
}

/* ---- functions ---- */

/* The length of ".word" at the start of text, or 0. */
static size_t clone_word_len(const char *text)
{
	size_t len = strcspn(text + 1, ".");

	for (size_t i = 0; i < sizeof(clone_word) / sizeof(*clone_word); i++)
		if (len == strlen(clone_word[i]) && !strncmp(text + 1, clone_word[i], len))
			return len + 1;
	return 0;
}

static size_t number_len(const char *text)
{
	size_t len = *text == '.' ? 1 + strspn(text + 1, "0123456789") : 0;

	return len > 1 ? len : 0;
}

/* Whether the text consists only of ".word" and ".word.number", one after another. */
static bool is_clone_suffix(const char *text)
{
	while (*text == '.') {
		size_t len = clone_word_len(text);

		if (!len)
			return false;
		text += len;
		text += number_len(text);
	}
	return !*text;
}

static size_t source_part_len(const char *raw)
{
	const char *dot;

	for (dot = strchr(raw, '.'); dot; dot = strchr(dot + 1, '.'))
		if (dot != raw && is_clone_suffix(dot))
			return dot - raw;
	return strlen(raw);
}

char *function_name(const char *raw)
{
	const char *version = *raw ? strchr(raw + 1, '@') : NULL;
	char *name = version ? strndup(raw, version - raw) : strdup(raw), *readable;

	if (!name)
		return NULL;
	name[source_part_len(name)] = '\0';
	readable = symbol_demangle(name);
	free(name);
	return readable;
}

/* ---- sources ---- */

/* Appends path to end without "./" and doubled slashes; returns the new end. */
static char *append_path(char *end, const char *path)
{
	while (*path) {
		size_t len = strcspn(path, "/");

		if (len && !(len == 1 && *path == '.')) {
			end = mempcpy(end, path, len);
			if (path[len])
				*end++ = '/';
		}
		path += len + (path[len] == '/');
	}
	return end;
}

/*
 * Whether the name needs the directory before it. A relative directory (a build with
 * -ffile-prefix-map=…=.) may be there already: libdw prepends the directory from its file table,
 * and the directory of index 0 is this one.
 */
static bool is_below(const char *directory, const char *raw)
{
	size_t len = strlen(directory);

	return raw[0] != '/' && !(!strncmp(raw, directory, len) && raw[len] == '/');
}

char *source_name(const char *directory, const char *raw)
{
	char *name, *end;

	if (!directory || !is_below(directory, raw))
		directory = "";
	name = malloc(strlen(directory) + strlen(raw) + 2);
	if (!name)
		return NULL;
	end = name;
	if (*directory == '/' || (!*directory && *raw == '/'))
		*end++ = '/';
	end = append_path(end, directory);
	if (end != name && end[-1] != '/')
		*end++ = '/';
	*append_path(end, raw) = '\0';
	return name;
}

enum name_kind {
	NAME_OF_SOURCE,
	NAME_OF_FUNCTION,
	NAME_AS_WRITTEN, /* of a function whose name is readable as it is: Go's "main.part" is no part of another one */
};

/* A name and its readable form. Each name is converted once: for C++ that halves the time of a look-up. */
struct name {
	const char *directory; /* of a source file, a string in the DWARF; NULL for a function */
	char *raw, *readable;
	enum name_kind kind;
};

struct direct {
	const struct debug_opener *opener;
	struct object **object; /* NULL: not opened */
	size_t object_nr, object_alloc;
	struct name *name;
	size_t name_nr, name_alloc;
	struct idmap name_ids;
};

struct direct *direct__new(const struct debug_opener *opener)
{
	struct direct *direct = calloc(1, sizeof(*direct));

	elf_version(EV_CURRENT);
	if (direct)
		direct->opener = opener;
	return direct;
}

void direct__free(struct direct *direct)
{
	if (!direct)
		return;
	for (size_t i = 0; i < direct->object_nr; i++)
		object__close(direct->object[i]);
	for (size_t i = 0; i < direct->name_nr; i++) {
		free(direct->name[i].raw);
		free(direct->name[i].readable);
	}
	idmap_release(&direct->name_ids);
	free(direct->object);
	free(direct->name);
	free(direct);
}

/* ---- names ---- */

static bool same_raw_name(uint32_t id, const void *key, const void *table)
{
	const struct name *name = &((const struct direct *)table)->name[id], *want = key;

	return name->kind == want->kind && name->directory == want->directory &&
	       !strcmp(name->raw, want->raw);
}

static char *readable_form(const struct name *name)
{
	switch (name->kind) {
	case NAME_OF_FUNCTION:
		return function_name(name->raw);
	case NAME_AS_WRITTEN:
		return strdup(name->raw);
	default:
		return source_name(name->directory, name->raw);
	}
}

static int add_name(struct direct *direct, const struct name *key, uint64_t hash)
{
	struct name name = *key;
	int err = -ENOMEM;

	name.raw = strdup(key->raw);
	name.readable = readable_form(key);
	if (name.raw && name.readable)
		err = array_reserve(&direct->name, &direct->name_alloc, direct->name_nr + 1);
	if (!err)
		err = idmap_add(&direct->name_ids, hash, direct->name_nr);
	if (err) {
		free(name.raw);
		free(name.readable);
		return err;
	}
	direct->name[direct->name_nr++] = name;
	return 0;
}

/* Stores the readable form in *ret, or NULL if there is no name. 0 or -ENOMEM. */
static int read_name(struct direct *direct, const struct name *key, const char **ret)
{
	uint64_t hash;
	uint32_t id;
	int err;

	*ret = NULL;
	if (!key->raw || !*key->raw)
		return 0;
	hash = hash_bytes(key->raw, strlen(key->raw), key->kind);
	id = idmap_find(&direct->name_ids, hash, same_raw_name, key, direct);
	if (id == IDMAP_NONE) {
		id = direct->name_nr;
		err = add_name(direct, key, hash);
		if (err)
			return err;
	}
	*ret = direct->name[id].readable;
	return 0;
}

static int make_symbol(struct direct *direct, const struct place *place, struct symbol *ret)
{
	struct name function = {
		.raw = (char *)(place->linkage_name ? place->linkage_name : place->name),
		.kind = place->is_as_written ? NAME_AS_WRITTEN : NAME_OF_FUNCTION,
	};
	struct name source = { .raw = (char *)place->filename, .directory = place->directory };
	struct name declared = {
		.raw = (char *)place->decl_filename, .directory = place->decl_directory,
	};
	const char *declared_in;
	int err = read_name(direct, &function, &ret->function);

	if (err)
		return err;
	ret->lineno = place->lineno;
	err = read_name(direct, &source, &ret->filename) ?:
	      read_name(direct, &declared, &declared_in);
	if (err)
		return err;
	ret->first_line = ret->filename && declared_in && !strcmp(ret->filename, declared_in) ?
			  place->decl_line : 0;
	return 0;
}

/* ---- objects ---- */

struct job {
	struct direct *direct;
	const struct source_object *object;
	uint64_t return_offset;
	struct symbol frame[SYMBOL_INLINE_MAX];
	int frame_nr; /* or -ENOMEM */
	struct reason *why;
};

static int open_object(struct direct *direct, const struct source_object *object,
		       struct reason *why)
{
	struct object *opened;
	int err = array_fill(direct, object, object->id + 1ull, at, NULL);

	if (err || direct->object[object->id])
		return err;
	opened = object__open(object->fd, object->path, direct->opener, why);
	direct->object[object->id] = opened;
	return opened ? 0 : -errno;
}

static void run(void *data)
{
	struct job *job = data;
	struct place place[SYMBOL_INLINE_MAX];
	int nr = open_object(job->direct, job->object, job->why), err = 0;

	if (!nr)
		nr = object__lookup(job->direct->object[job->object->id], job->return_offset, place);
	for (int i = 0; i < nr && !err; i++)
		err = make_symbol(job->direct, &place[i], &job->frame[i]);
	job->frame_nr = err ?: nr;
}

/* ---- files that are cut short ---- */

static __thread sigjmp_buf *landing;

static void on_sigbus(int number)
{
	if (landing)
		siglongjmp(*landing, 1);
	signal(number, SIG_DFL);
	raise(number);
}

/*
 * libdw maps the files that it reads. If another process truncates such a file meanwhile (`cp
 * new.so old.so`), the next access causes SIGBUS. That must cost names, not the recording.
 *
 * Runs work(job). Returns false if SIGBUS interrupted it: then the data that it was changing are in
 * an unknown state, and its memory is leaked. SIGBUS is caught only during the call, but for the
 * whole process: do not use this in a program whose other threads expect SIGBUS.
 */
static bool guard_run(void (*work)(void *job), void *job)
{
	const struct sigaction catch = { .sa_handler = on_sigbus };
	struct sigaction before;
	volatile bool is_done = false;
	sigjmp_buf here;

	sigaction(SIGBUS, &catch, &before);
	if (!sigsetjmp(here, 1)) {
		landing = &here;
		work(job);
		is_done = true;
	}
	landing = NULL;
	sigaction(SIGBUS, &before, NULL);
	return is_done;
}

int direct__look_up(void *self, const struct source_object *object, const uint64_t *return_offset,
		    size_t nr, take_frames_fn take, void *taker, struct reason *why)
{
	struct job job = { .direct = self, .object = object, .why = why };
	int err = 0;

	for (size_t i = 0; i < nr && !err; i++) {
		job.return_offset = return_offset[i];
		if (!guard_run(run, &job)) {
			/* libdw's state for the object is lost, too. */
			job.direct->object[object->id] = NULL;
			return reason_set(why, -EIO, "it was cut short while it was being read");
		}
		err = job.frame_nr < 0 ? job.frame_nr : take(taker, i, job.frame, job.frame_nr);
	}
	return err;
}
