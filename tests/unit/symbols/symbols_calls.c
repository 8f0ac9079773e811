// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "full.h"
#include "symbols_fixture.h"
#include "skip.h"

TestSuite(symbols_calls, .init = workshop_open, .fini = workshop_close);

/* Compiler and options of builds that lay files, DWARF or functions out differently; the most different ones first. */
#define FEW_BUILDS 6
static const char *const build[] = {
	"gcc -O2 -g program.c",
	"gcc -O3 -gdwarf-4 program.c",
	"gcc -O2 -g -ffunction-sections -Wl,--gc-sections -Wl,-z,noseparate-code program.c",
	"gcc -O2 -g -fuse-ld=lld program.c",
	"clang -x c++ -O2 -g program.cc",
	"g++ -O2 -g -fdebug-types-section program.cc",
	"gcc -O0 -g program.c",
	"gcc -O2 -g -gdwarf-3 program.c",
	"gcc -O2 -g -no-pie program.c",
	"gcc -O2 -g -Wl,-z,noseparate-code program.c",
	"gcc -O2 -g -Wl,-z,separate-code -Wl,-z,max-page-size=65536 program.c",
	"gcc -O2 -g -gz program.c",
	"gcc -O2 -g -flto program.c",
	"gcc -O2 -g -shared -fPIC program.c",
	"gcc -O2 -g -ffile-prefix-map=$PWD=. program.c",
	"gcc -O2 -g -fuse-ld=lld -Wl,-z,separate-loadable-segments program.c",
	"gcc -O2 -g -fuse-ld=lld -ffunction-sections -Wl,--gc-sections program.c",
	"clang -x c++ -O2 -gdwarf-4 -gline-tables-only program.cc",
	"g++ -O2 -g program.cc",
	"g++ -O0 -g program.cc",
	"g++ -O3 -gdwarf-4 -ffunction-sections -Wl,--gc-sections program.cc",
	"g++ -O2 -g -fuse-ld=lld program.cc",
};

static void expect_build(struct symbols *symbols, const char *command, size_t row)
{
	const char *path;
	char file[32];
	struct call *call;
	size_t nr;

	snprintf(file, sizeof(file), "build%zu", row);
	if (!workshop_can("%s -o %s -lstdc++ 2>errors", command, file)) {
		cr_log_warn("cannot be built here: %s", command);
		return;
	}
	nr = workshop_calls(workshop_path(file), &call);
	cr_log_info("%s: %zu calls", command, nr);
	path = workshop_path(file);
	expect_same(symbols, path, call, nr, !strstr(command, ".cc"));
	free(call);
}

Test(symbols_calls, have_the_same_names_and_lines_as_addr2line)
{
	struct symbols *symbols = names_new(NULL);

	if (!workshop_can("llvm-addr2line --version >/dev/null 2>&1"))
		skip_because("llvm-addr2line is not installed");
	workshop_write_programs();
	for (int i = 0; i < full_or(ARRAY_SIZE(build), FEW_BUILDS); i++)
		expect_build(symbols, build[i], i);
	names_free(symbols);
}

/* 40 functions, each inlined in the next; the innermost calls puts. */
static void write_deep_program(void)
{
	FILE *file = fopen(workshop_path("deep.c"), "w");

	fprintf(file, "#include <stdio.h>\n#define IN static inline __attribute__((always_inline))\n"
		      "IN int f0(int n) { return puts(\"deep\") + n; }\n");
	for (int i = 1; i < 40; i++)
		fprintf(file, "IN int f%d(int n) { return f%d(n) + 1; }\n", i, i - 1);
	fprintf(file, "__attribute__((noinline)) int outermost(int n) { return f39(n); }\n"
		      "int main(int argc, char **argv) { return outermost(argc) + !argv; }\n");
	fclose(file);
}

Test(symbols_calls, inlined_deeper_than_the_limit_lose_the_oldest_frames)
{
	struct symbols *symbols = names_new(NULL);
	struct symbol frame[SYMBOL_INLINE_MAX], again[SYMBOL_INLINE_MAX];
	struct call *call;
	size_t call_nr, deep_nr = 0;
	uint32_t object;

	write_deep_program();
	workshop_run("gcc -O2 -g -o deep deep.c");
	call_nr = workshop_calls(workshop_path("deep"), &call);
	object = open_object(symbols, workshop_path("deep"), "/deep");
	for (size_t c = 0; c < call_nr; c++) {
		if (symbols__lookup(symbols, object, call[c].return_offset, frame) < 2)
			continue;
		deep_nr++;
		for (int i = 0; i < SYMBOL_INLINE_MAX; i++) {
			char want[16];

			snprintf(want, sizeof(want), "f%d", i);
			cr_expect_str_eq(frame[i].function, want);
			cr_expect_eq((int)frame[i].lineno, i + 3);
		}
		cr_expect_eq(symbols__lookup(symbols, object, call[c].return_offset, again),
			     SYMBOL_INLINE_MAX);
		cr_expect(!memcmp(frame, again, sizeof(frame)), "the same strings");
	}
	cr_expect_eq(deep_nr, 1);
	free(call);
	names_free(symbols);
}
