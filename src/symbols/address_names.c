// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "symbols/address_names.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

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
