// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The machine's C library and its separate debug file, if that is installed (libc6-dbg). */
#include <criterion/criterion.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "symbols_fixture.h"
#include "skip.h"

TestSuite(symbols_libc, .init = workshop_open, .fini = workshop_close);

static int take_libc(struct dl_phdr_info *info, size_t, void *path)
{
	if (!strstr(info->dlpi_name, "/libc.so"))
		return 0;
	*(const char **)path = info->dlpi_name;
	return 1;
}

static const char *libc_path(void)
{
	const char *path = NULL;

	dl_iterate_phdr(take_libc, &path);
	if (!path)
		skip_because("no libc.so in this process");
	return path;
}

static char *libc_debug_file(const char *libc)
{
	char *file = workshop_output("id=$(readelf -n '%s' | sed -n 's/.*Build ID: //p'); "
				     "ls /usr/lib/debug/.build-id/$(echo $id | cut -c1-2)/"
				     "$(echo $id | cut -c3-).debug 2>/dev/null || true", libc);

	file[strcspn(file, "\n")] = '\0';
	if (!*file)
		skip_because("the debug file of the C library is not installed");
	return file;
}

static const char *const exported[] = {
	"malloc", "calloc", "realloc", "free", "memalign", "posix_memalign", "qsort", "puts",
	"fopen", "strdup", "getenv", "pthread_create", "mmap",
};

Test(symbols_libc, exported_functions_have_their_public_names)
{
	struct symbols *symbols = names_new(NULL);
	const char *libc = libc_path();
	uint32_t object = open_object(symbols, libc, libc);

	for (size_t i = 0; i < ARRAY_SIZE(exported); i++) {
		char *text = workshop_output("readelf --dyn-syms -W '%s' | "
					     "awk '$8 ~ /^%s(@@.*)?$/ {print $2; exit}'", libc,
					     exported[i]);
		const char *name;

		/* file offsets of libc's code equal its addresses, up to the first page of data */
		name = function_at(symbols, object, strtoul(text, NULL, 16) + 1);
		cr_expect(name && !strcmp(name, exported[i]), "%s is called %s", exported[i], name);
		free(text);
	}
	names_free(symbols);
}

static const char *const hidden[] = {
	"_int_malloc", "sysmalloc", "_int_free", "int_mallinfo", "arena_get2",
};

Test(symbols_libc, static_functions_have_names_and_lines)
{
	struct symbols *symbols = names_new(NULL);
	struct symbol frame[SYMBOL_INLINE_MAX];
	const char *libc = libc_path();
	char *debug_file = libc_debug_file(libc);
	uint32_t object = open_object(symbols, libc, libc);

	for (size_t i = 0; i < ARRAY_SIZE(hidden); i++) {
		uint64_t offset = offset_in(libc, debug_file, hidden[i]);
		int nr = symbols__lookup(symbols, object, offset, frame);

		cr_assert(nr >= 1 && frame[nr - 1].function && frame[nr - 1].filename, "%s", hidden[i]);
		cr_expect_str_eq(frame[nr - 1].function, hidden[i]);
		cr_expect(strstr(frame[nr - 1].filename, "malloc/"), "%s", frame[nr - 1].filename);
		cr_expect(frame[nr - 1].lineno > 100, "%s", hidden[i]);
	}
	free(debug_file);
	names_free(symbols);
}

/* Every tenth call of the library; all inlined frames of it too. */
Test(symbols_libc, lines_match_addr2line, .timeout = 600)
{
	struct symbols *symbols = names_new(NULL);
	const char *libc = libc_path();
	char *debug_file = libc_debug_file(libc);
	struct call *call;
	size_t nr = workshop_calls(libc, &call), kept = 0;

	if (!workshop_can("llvm-addr2line --version >/dev/null 2>&1"))
		skip_because("llvm-addr2line is not installed");
	for (size_t i = 0; i < nr; i += 10)
		call[kept++] = call[i];
	expect_same_lines(symbols, libc, debug_file, call, kept);
	free(call);
	free(debug_file);
	names_free(symbols);
}
