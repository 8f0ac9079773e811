// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "base/array.h"
#include "cpu_limit.h"
#include "full.h"
#include "skip.h"
#include "symbols/direct.h"
#include "symbols/symbols.h"
#include "symbols_fixture.h"

struct row {
	const char *raw, *want;
};

static const struct row demangled[] = {
	{ "main", "main" },
	{ "", "" },
	{ "_", "_" },
	{ "__libc_malloc", "__libc_malloc" },
	{ "_Zebra", "_Zebra" },
	{ "_Z3barv", "bar()" },
	{ "_ZN3foo3barEi", "foo::bar(int)" },
	{ "_ZNK3foo3barIiEEvT_", "void foo::bar<int>(int) const" },
	{ "_ZN3fooC4Ev", "foo::foo()" },
	{ "_ZN12_GLOBAL__N_16hiddenEi", "(anonymous namespace)::hidden(int)" },
	{ "_ZN5alloc3vec12Vec$LT$T$GT$4push17h0123456789abcdefE", "alloc::vec::Vec<T>::push" },
	{ "_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar" },
	{ "_RINvNtCs1234_7mycrate3foo3barlE", "mycrate::foo::bar::<i32>" },
	{ "_D3std5stdio7writelnFZv", "std.stdio.writeln()" },
};

static const struct row function[] = {
	{ "memcpy@@GLIBC_2.14", "memcpy" },
	{ "memcpy@GLIBC_2.2.5", "memcpy" },
	{ "work.cold", "work" },
	{ "work.constprop.0", "work" },
	{ "work.part.0.isra.1.cold", "work" },
	{ "work.lto_priv.12.lto_priv.3", "work" },
	{ "work.llvm.1234567890", "work" },
	{ "_ZN3foo3barEi.constprop.0", "foo::bar(int)" },
	{ "main.main.func1.2", "main.main.func1.2" }, /* Go */
	{ "nested.0", "nested.0" },
	{ "work.cold.go", "work.cold.go" },
	{ ".cold", ".cold" },
	{ "@", "@" },
	{ ".", "." },
};

struct source_row {
	const char *directory, *raw, *want;
};

static const struct source_row source_rows[] = {
	{ NULL, "/a/b.c", "/a/b.c" },
	{ NULL, "b.c", "b.c" },
	{ NULL, "./b.c", "b.c" },
	{ "/build", "b.c", "/build/b.c" },
	{ "/build/", "./x/./b.c", "/build/x/b.c" },
	{ "/build", "../x/b.c", "/build/../x/b.c" },
	{ "/build", "/usr/include/b.h", "/usr/include/b.h" },
	{ "/build", "/usr//include/./b.h", "/usr/include/b.h" },
	{ "./nptl", "../sysdeps/b.c", "nptl/../sysdeps/b.c" },
	{ "./nptl", "./nptl/b.c", "nptl/b.c" },
	{ ".", "b.c", "b.c" },
	{ "", "b.c", "b.c" },
	{ "/build", ".hidden/..b/c.c", "/build/.hidden/..b/c.c" },
	{ "/", "b.c", "/b.c" },
};

Test(symbols_names, are_demangled)
{
	for (size_t i = 0; i < ARRAY_SIZE(demangled); i++) {
		char *name = symbol_demangle(demangled[i].raw);

		cr_expect_str_eq(name, demangled[i].want, "%s is %s", demangled[i].raw, name);
		free(name);
	}
}

Test(symbols_names, of_compiler_copies_are_those_of_the_function)
{
	for (size_t i = 0; i < ARRAY_SIZE(function); i++) {
		char *name = function_name(function[i].raw);

		cr_expect_str_eq(name, function[i].want, "%s is %s", function[i].raw, name);
		free(name);
	}
}

Test(symbols_names, of_sources_are_absolute_if_the_directory_is_known)
{
	for (size_t i = 0; i < ARRAY_SIZE(source_rows); i++) {
		char *name = source_name(source_rows[i].directory, source_rows[i].raw);

		cr_expect_str_eq(name, source_rows[i].want, "%s is %s", source_rows[i].raw, name);
		free(name);
	}
}

/* Types nested deeper than the demangler may follow, in the three manglings. */
Test(symbols_names, that_are_nested_too_deeply_are_not_demangled)
{
	static const char *const start[] = { "_Z1f", "_RMC0", "_D1f" };
	static const char nest[] = { 'P', 'R', 'P' };

	limit_cpu_seconds(20);
	for (size_t i = 0; i < ARRAY_SIZE(start); i++) {
		char *deep = malloc(1000000), *name;

		memset(deep, nest[i], 999999);
		memcpy(deep, start[i], strlen(start[i]));
		deep[999999] = '\0';
		name = symbol_demangle(deep);
		cr_expect_str_eq(name, deep, "%s", start[i]);
		free(name);
		free(deep);
	}
}

/* f(pair<A, A>, pair<the one before, the one before>…): each twice as long as the one before. */
Test(symbols_names, that_would_grow_too_large_are_not_demangled)
{
	static const char digit[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	char mangled[1024] = "_Z1f4pairI1AS0_E", *name, *end = strchr(mangled, '\0');

	limit_cpu_seconds(20);
	for (int i = 1; i < 35; i++)
		end += sprintf(end, "S_IS%c_S%c_E", digit[i], digit[i]);
	name = symbol_demangle(mangled);
	cr_expect_str_eq(name, mangled);
	free(name);
}

Test(symbols_names, of_d_that_would_grow_too_large_are_not_demangled)
{
	char mangled[4096] = "_D1fFS1aZv", *name;

	limit_cpu_seconds(20);
	for (size_t i = strlen(mangled); i < sizeof(mangled) - 1; i++)
		mangled[i] = "QbQc"[i % 4];
	name = symbol_demangle(mangled);
	cr_expect_str_eq(name, mangled);
	free(name);
}

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

/* The lines where the functions of frames are declared. */

static const char header[] =
"\n"
"static inline __attribute__((always_inline)) char *in_header(unsigned long n)\n"
"{\n"
"	return get(n);\n"
"}\n";

/* from_body: a body in another file than the function that it is the body of. */
static const char declared_source[] =
"char *get(unsigned long n);\n"
"#include \"x.h\"\n"
"static inline __attribute__((always_inline)) char *\n"
"inlined(unsigned long n)\n"
"{\n"
"	return in_header(n);\n"
"}\n"
"__attribute__((noinline)) char *\n"
"outer(unsigned long n)\n"
"{\n"
"	char *p = inlined(n);\n"
"	*p = 1;\n"
"	return p;\n"
"}\n"
"__attribute__((noinline)) char *from_body(unsigned long n)\n"
"{\n"
"	char *p;\n"
"#include \"body.h\"\n"
"	*p = 2;\n"
"	return p;\n"
"}\n"
"#ifdef __cplusplus\n"
"namespace shop { struct Shelf { char *place; void fill(unsigned long n); }; }\n"
"void shop::Shelf::fill(unsigned long n)\n"
"{\n"
"	place = get(n);\n"
"	*place = 3;\n"
"}\n"
"#endif\n";

static struct symbols *symbols;

static void open_workshop(void)
{
	workshop_open();
	workshop_write("x.h", header);
	workshop_write("body.h", "p = get(n + 1);\n");
	workshop_write("x.c", declared_source);
	workshop_run("cp x.c x.cc");
	symbols = names_new(workshop_path(""));
}

static void close_workshop(void)
{
	names_free(symbols);
	workshop_close();
}

TestSuite(symbols_declared, .init = open_workshop, .fini = close_workshop, .timeout = 600);

struct want {
	const char *function;
	uint32_t lineno, first_line;
};

/* Checks the frames at those calls of the library whose outermost function is the last wanted one. */
static void expect_at(uint32_t object, const struct call *call, size_t call_nr,
		      const struct want *want, int nr)
{
	struct symbol frame[SYMBOL_INLINE_MAX];

	for (size_t i = 0; i < call_nr; i++) {
		int found = symbols__lookup(symbols, object, call[i].return_offset, frame);
		const char *outermost = frame[found - 1].function;

		if (!outermost || !strstr(outermost, want[nr - 1].function))
			continue;
		cr_expect_eq(found, nr, "%s: %d frames", outermost, found);
		for (int f = 0; f < nr && f < found; f++) {
			cr_expect(strstr(frame[f].function, want[f].function), "%s",
				  frame[f].function);
			cr_expect_eq(frame[f].lineno, want[f].lineno, "%s: line %u",
				     want[f].function, frame[f].lineno);
			cr_expect_eq(frame[f].first_line, want[f].first_line, "%s: declared at %u",
				     want[f].function, frame[f].first_line);
		}
		return;
	}
	cr_assert_fail("no call in %s", want[nr - 1].function);
}

static void expect_declarations(const char *compile, bool is_cxx)
{
	static const struct want chain[] = {
		{ "in_header", 4, 2 }, { "inlined", 6, 4 }, { "outer", 11, 9 },
	}, body[] = { { "from_body", 1, 0 } }, method[] = { { "fill", 26, 24 } };
	struct call *call;
	size_t call_nr;
	uint32_t object;

	workshop_run("%s -shared -fPIC -o x.so", compile);
	call_nr = workshop_calls(workshop_path("x.so"), &call);
	object = open_object(symbols, workshop_path("x.so"), compile);
	expect_at(object, call, call_nr, chain, 3);
	expect_at(object, call, call_nr, body, 1);
	if (is_cxx)
		expect_at(object, call, call_nr, method, 1);
	free(call);
}

Test(symbols_declared, lines_are_found_in_the_file_of_the_frame)
{
	expect_declarations("gcc -g -O2 x.c", false);
	expect_declarations("gcc -gdwarf-4 -O1 x.c", false);
	expect_declarations("g++ -g -O2 x.cc", true);
	expect_declarations("clang -g -O2 x.c", false);
	expect_declarations("clang -gdwarf-4 -O2 x.c", false);
	expect_declarations("clang++ -g -O2 x.cc", true);
}

/* Functions that are described in one unit and inlined in another. */
Test(symbols_declared, lines_are_found_in_another_unit)
{
	expect_declarations("gcc -g -O2 -flto x.c", false);
}

/* Names of functions for which the compiler gives no mangled name: a template of a lambda has internal linkage. */

/* GCC has no mangled name for make<F> if F is a lambda; the call of malloc in it is inlined into use_… */
static const char scopes_source[] =
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

static void open_scopes(void)
{
	workshop_open();
	workshop_write("scopes.cc", scopes_source);
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

/* A file that shrinks while it is mapped: `cp new.so old.so` under a running program. */

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#include "symbols_fixture.h"

#if defined(__SANITIZE_ADDRESS__)
#define HAS_SANITIZER 1
#else
#define HAS_SANITIZER 0
#endif

/* Memory that libdw allocates for such a file cannot be freed. */
static void expect_leak(void)
{
#ifdef __SANITIZE_ADDRESS__
	__lsan_disable();
#endif
}

static int copy_of_ourselves(void)
{
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	char path[] = "/tmp/allocsnap-unit-XXXXXX";
	int to = mkstemp(path);
	ssize_t nr;

	cr_assert(from >= 0 && to >= 0);
	unlink(path);
	do {
		nr = sendfile(to, from, NULL, 1 << 20);
	} while (nr > 0);
	close(from);
	return to;
}

Test(symbols_cut_short, loses_only_names)
{
	struct symbol frame[SYMBOL_INLINE_MAX] = {};
	int fd = copy_of_ourselves();
	struct symbols *symbols;
	const char *path, *why;
	uint32_t object;

	expect_leak();
	symbols = names_new(NULL);
	cr_assert_eq(symbols__object(symbols, "/x", "ab", fd, &object), 0);
	/* Opens it. Nothing more is read before an offset in code is asked for. */
	cr_assert_eq(symbols__lookup(symbols, object, 0, frame), 1);
	cr_assert_eq(ftruncate(fd, 4096), 0);
	for (uint64_t offset = 0x1000; offset < 0x1000000; offset += 0x1000) {
		cr_assert_eq(symbols__lookup(symbols, object, offset, frame), 1);
		cr_assert_null(frame[0].function);
	}
	why = symbols__unreadable(symbols, object);
	cr_assert_not_null(why);
	/* AddressSanitizer looks into /proc at a siglongjmp(), and cannot where we are confined. */
	if (!HAS_SANITIZER || !getenv("SYMBOLS_PARSER"))
		cr_expect_str_eq(why, "it was cut short while it was being read");
	cr_expect(symbols__next_unreadable(symbols, &path, &why));
	cr_expect_str_eq(path, "/x");
	cr_expect(!symbols__next_unreadable(symbols, &path, &why), "it is told once");
	names_free(symbols);
	close(fd);
}
