// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Names of functions for which the compiler gives no mangled name: a template of a lambda has internal linkage. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbols_fixture.h"

/* GCC has no mangled name for make<F> if F is a lambda; the call of malloc in it is inlined into use_… */
static const char source[] =
	"#include <stdlib.h>\n"
	"#define IN static inline __attribute__((always_inline))\n"
	"#define OUT __attribute__((noinline)) void *\n"
	"namespace shop {\n"
	"struct Box { template <class F> IN void *make(F f) { return malloc(f()); } };\n"
	"namespace inner { template <class F> IN void *make(F f) { return malloc(f() + 1); } }\n"
	"}\n"
	"template <class F> IN void *plain(F f) { return malloc(f() + 2); }\n"
	"OUT use_box(int n) { void *p = shop::Box::make([n] { return n; }); *(char *)p = 1; return p; }\n"
	"OUT use_inner(int n) { void *p = shop::inner::make([n] { return n; }); *(char *)p = 1; return p; }\n"
	"OUT use_plain(int n) { void *p = plain([n] { return n; }); *(char *)p = 1; return p; }\n"
	"int main(int argc, char **) { free(use_box(argc)); free(use_inner(argc)); free(use_plain(argc)); }\n";

static struct symbols *symbols;

static void open_scopes(void)
{
	workshop_open();
	workshop_write("scopes.cc", source);
	symbols = names_new(workshop_path(""));
}

static void close_scopes(void)
{
	names_free(symbols);
	workshop_close();
}

TestSuite(symbols_scopes, .init = open_scopes, .fini = close_scopes, .timeout = 600);

/* Counts the calls with an inlined frame that has this beginning, in a function that has the other one. */
static int count_names(const char *file, const char *inlined, const char *outer)
{
	struct symbol frame[SYMBOL_INLINE_MAX];
	uint32_t object = open_object(symbols, workshop_path(file), file);
	struct call *call;
	size_t call_nr = workshop_calls(workshop_path(file), &call);
	int found = 0;

	for (size_t i = 0; i < call_nr; i++)
		found += symbols__lookup(symbols, object, call[i].return_offset, frame) == 2 && frame[0].function &&
			 frame[1].function && !strncmp(frame[0].function, inlined, strlen(inlined)) &&
			 !strncmp(frame[1].function, outer, strlen(outer));
	free(call);
	return found;
}

Test(symbols_scopes, are_those_around_the_function)
{
	static const char *const options[] = { "-O1", "-O2", "-O2 -gdwarf-4", "-O2 -fno-dwarf2-cfi-asm -gstrict-dwarf" };

	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++) {
		char file[16];

		snprintf(file, sizeof(file), "scopes%zu", i);
		workshop_run("g++ -g %s -o %s scopes.cc", options[i], file);
		cr_expect_eq(count_names(file, "shop::Box::make", "use_box"), 1, "%s: a class", options[i]);
		cr_expect_eq(count_names(file, "shop::inner::make", "use_inner"), 1, "%s: a namespace", options[i]);
		cr_expect_eq(count_names(file, "plain", "use_plain"), 1, "%s: none", options[i]);
	}
}
