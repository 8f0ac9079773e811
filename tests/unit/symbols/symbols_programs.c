// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "skip.h"
#include "symbols/ranges.h"
#include "symbols/symbols.h"
#include "symbols_fixture.h"

static const char c_program[] =
"#include <stdio.h>\n"
"#include <stdlib.h>\n"
"#include <string.h>\n"
"#include \"inline.h\"\n"
"__attribute__((noinline)) static void *leaf(size_t n) { return malloc(n + 1); }\n"
"static inline void *through(size_t n)\n"
"{\n"
"	void *p = leaf(n);\n"
"	return p ? p : leaf(1);\n"
"}\n"
"__attribute__((noinline)) static int twice(int n, int step)\n"
"{\n"
"	free(through(n));\n"
"	return n > 0 ? twice(n - step, step) + atoi(\"1\") : 0;\n"
"}\n"
"__attribute__((noinline, cold)) void complain(const char *why)\n"
"{\n"
"	puts(why);\n"
"	abort();\n"
"}\n"
"int checked(int n)\n"
"{\n"
"	if (__builtin_expect(n == 4711, 0))\n"
"		complain(\"no\");\n"
"	return header_call(n) + twice(n, 2);\n"
"}\n"
"int discarded(int n) { return header_call(n) + printf(\"%d\", n) + checked(n); }\n"
"int main(int argc, char **argv)\n"
"{\n"
"	int (*indirect)(int) = argc > 1 ? checked : abs;\n"
"	__attribute__((noinline)) int nested(int n) { return n + argc + atoi(argv[0]); }\n"
"	return indirect(argc) + nested(2);\n"
"}\n";

static const char c_header[] =
"static inline int header_leaf(int n)\n"
"{\n"
"	char *s = strdup(\"header\");\n"
"	int len = strlen(s) + n;\n"
"	free(s);\n"
"	return len;\n"
"}\n"
"static inline __attribute__((always_inline)) int header_call(int n)\n"
"{\n"
"	return header_leaf(n) + header_leaf(n * 2);\n"
"}\n";

static const char cc_program[] =
"#include <functional>\n"
"#include <map>\n"
"#include <memory>\n"
"#include <string>\n"
"#include <vector>\n"
"namespace shop {\n"
"template <typename T> struct shelf {\n"
"	std::vector<T> items;\n"
"	shelf() { items.reserve(3); }\n"
"	~shelf() { items.clear(); }\n"
"	void put(const T &item) { items.push_back(item); }\n"
"	T operator[](size_t i) const { return items.at(i); }\n"
"};\n"
"namespace {\n"
"__attribute__((noinline)) int hidden(int n) { return std::stoi(std::to_string(n)); }\n"
"int hidden_inline(int n) { return hidden(n) + hidden(n + 1); }\n"
"}\n"
"static int of_file(int n, const std::string &s)\n"
"{\n"
"	return hidden_inline(n) + s.substr(1).size();\n"
"}\n"
"struct base {\n"
"	virtual ~base() = default;\n"
"	virtual int run(int n) = 0;\n"
"};\n"
"struct derived : base {\n"
"	std::map<std::string, int> known;\n"
"	int run(int n) override { known[std::to_string(n)] = n; return known.size(); }\n"
"};\n"
"}\n"
"extern \"C\" int plain(int n) { return shop::hidden_inline(n); }\n"
"int discarded(int n) { return plain(n) + plain(n + 1) + shop::hidden_inline(n); }\n"
"int main(int argc, char **argv)\n"
"{\n"
"	struct local { int go(int n) { return n > 3 ? plain(n) : go(n + 1); } } l;\n"
"	shop::shelf<std::string> names;\n"
"	shop::shelf<double> numbers;\n"
"	std::unique_ptr<shop::base> thing(new shop::derived);\n"
"	auto lambda = [&](int n) { names.put(argv[0]); numbers.put(n); return thing->run(n); };\n"
"	std::function<int(int)> f = lambda;\n"
"	return f(argc) + names[0].size() + shop::of_file(argc, names[0]) + l.go(argc) + numbers[0];\n"
"}\n";

void workshop_write_programs(void)
{
	workshop_write("program.c", c_program);
	workshop_write("inline.h", c_header);
	workshop_write("program.cc", cc_program);
}

/* The machine's C library and its separate debug file, if that is installed (libc6-dbg). */

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

/* Objects whose names are forgotten. The source notes which object it was asked about. */

struct source {
	struct symbol_source source;
	unsigned int asked_nr, forgotten_nr;
	uint32_t forgotten;
};

static int look_up(void *self, const struct source_object *object, const uint64_t *return_offset, size_t nr,
		   take_frames_fn take, void *taker, struct reason *)
{
	struct source *source = self;
	int err = 0;

	for (size_t i = 0; i < nr && !err; i++) {
		char function[64];
		const struct symbol frame = { .function = function };

		source->asked_nr++;
		snprintf(function, sizeof(function), "%s+%d", object->path, (int)return_offset[i]);
		err = take(taker, i, &frame, 1);
	}
	return err;
}

static void forget(void *self, uint32_t id)
{
	struct source *source = self;

	source->forgotten = id;
	source->forgotten_nr++;
}

static struct symbols *begin(struct source *source)
{
	*source = (struct source){ .source = { look_up, forget, source } };
	return symbols__new(&source->source);
}

static uint32_t add(struct symbols *symbols, const char *path)
{
	uint32_t object;

	cr_assert_eq(symbols__object(symbols, path, "key", 0, &object), 0);
	return object;
}

static void expect_name(struct symbols *symbols, uint32_t object, uint64_t offset, const char *name)
{
	struct symbol frame[SYMBOL_INLINE_MAX];

	cr_assert_eq(symbols__lookup(symbols, object, offset, frame), 1);
	cr_expect_str_eq(frame[0].function, name);
}

Test(symbols_forget, keeps_the_names_of_other_objects)
{
	struct source source;
	struct symbols *symbols = begin(&source);
	uint32_t a = add(symbols, "a"), b = add(symbols, "b"), c;

	expect_name(symbols, a, 1, "a+1");
	expect_name(symbols, b, 1, "b+1");
	symbols__forget(symbols, (const bool[]){ false, true });
	cr_expect_eq(source.forgotten_nr, 1);
	cr_expect_eq(source.forgotten, a);
	cr_expect_eq(symbols__find(symbols, "a", "key"), SYMBOLS_NONE);
	cr_expect_eq(symbols__find(symbols, "b", "key"), b);
	expect_name(symbols, b, 1, "b+1");
	cr_expect_eq(source.asked_nr, 2, "it was known");
	c = add(symbols, "c");
	cr_expect_eq(c, a, "the index is free");
	expect_name(symbols, c, 1, "c+1");
	cr_expect_eq(symbols__object_nr(symbols), 2);
	symbols__free(symbols);
}

Test(symbols_forget, changes_nothing_when_nothing_is_forgotten)
{
	struct source source;
	struct symbols *symbols = begin(&source);
	uint32_t a = add(symbols, "a");

	expect_name(symbols, a, 1, "a+1");
	symbols__forget(symbols, (const bool[]){ true });
	cr_expect_eq(source.forgotten_nr, 0);
	expect_name(symbols, a, 1, "a+1");
	cr_expect_eq(source.asked_nr, 1);
	symbols__free(symbols);
}

Test(symbols_forget, stays_bounded_over_many_objects)
{
	struct source source;
	struct symbols *symbols = begin(&source);
	char path[32], name[64];

	for (int i = 0; i < 1000; i++) {
		uint32_t object;

		snprintf(path, sizeof(path), "file%d", i);
		object = add(symbols, path);
		cr_assert_lt(object, 2, "indices are used again");
		for (int offset = 1; offset < 20; offset++) {
			snprintf(name, sizeof(name), "%s+%d", path, offset);
			expect_name(symbols, object, offset, name);
		}
		symbols__forget(symbols, (const bool[]){ i % 2 == 0, i % 2 == 1 });
	}
	symbols__free(symbols);
}

static const struct {
	uint64_t low, high;
	uint32_t id;
} filled[] = {
	{ 100, 200, 1 }, { 200, 300, 2 }, { 120, 150, 3 }, /* inside 1 */
	{ 400, 500, 5 }, { 400, 500, 4 }, { 400, 450, 6 }, /* folded: 6 is shorter, 4 before 5 */
	{ 600, 600, 7 }, { 700, 650, 8 }, { UINT64_MAX - 1, UINT64_MAX, 9 },
};

static const struct {
	uint64_t address;
	uint32_t want;
} asked[] = {
	{ 0, RANGE_NONE },  { 99, RANGE_NONE },	 { 100, 1 },	     { 119, 1 },
	{ 120, 3 },	    { 149, 3 },		 { 150, 1 },	     { 199, 1 },
	{ 200, 2 },	    { 300, RANGE_NONE }, { 400, 6 },	     { 450, 4 },
	{ 600, RANGE_NONE }, { 680, RANGE_NONE }, { UINT64_MAX - 1, 9 }, { UINT64_MAX, RANGE_NONE },
};

Test(symbols_ranges, find_the_innermost_range)
{
	struct ranges ranges = {};

	cr_expect_eq(ranges_find(&ranges, 1), RANGE_NONE);
	for (size_t i = 0; i < ARRAY_SIZE(filled); i++)
		cr_assert(!ranges_add(&ranges, filled[i].low, filled[i].high, filled[i].id));
	ranges_sort(&ranges);
	for (size_t i = 0; i < ARRAY_SIZE(asked); i++)
		cr_expect_eq(ranges_find(&ranges, asked[i].address), asked[i].want, "%lu",
			     asked[i].address);
	ranges_release(&ranges);
}

/* The ranges overlap seldom, as in honest files. */
Test(symbols_ranges, find_the_same_as_a_linear_search)
{
	struct ranges ranges = {};
	uint64_t low[1000], high[1000];

	srand(1);
	for (size_t i = 0; i < ARRAY_SIZE(low); i++) {
		low[i] = rand() % 50000;
		high[i] = low[i] + rand() % 100;
		cr_assert(!ranges_add(&ranges, low[i], high[i], i));
	}
	ranges_sort(&ranges);
	for (uint64_t address = 0; address < 50200; address++) {
		uint32_t found = ranges_find(&ranges, address);
		bool any = false;

		for (size_t i = 0; i < ARRAY_SIZE(low); i++)
			any |= low[i] <= address && address < high[i];
		cr_expect_eq(any, found != RANGE_NONE, "%lu", address);
		if (found != RANGE_NONE)
			cr_expect(low[found] <= address && address < high[found], "%lu", address);
	}
	ranges_release(&ranges);
}

/* A compiler makes one code of equal functions, and gives it both symbols. The line is of the function that was compiled. */
static const char merged[] =
"#include <stdlib.h>\n"
"__attribute__((noinline)) static void *shelf_of(size_t n) { return malloc(n + 1); }\n"
"asm(\".local pot\\n.set pot, shelf_of\\n.type pot, %function\");\n"
"int main(int argc, char **argv) { (void)argv; return shelf_of(argc) != NULL; }\n";

TestSuite(symbols_merged, .init = workshop_open, .fini = workshop_close);

Test(symbols_merged, static_functions_have_the_name_that_their_lines_are_of)
{
	struct symbols *symbols = names_new(NULL);
	const char *program = workshop_path("merged"), *name;
	uint32_t object;

	workshop_write("merged.c", merged);
	workshop_run("gcc -O1 -g -o merged merged.c && nm merged | grep -q ' t pot$'");
	object = open_object(symbols, program, program);
	name = function_at(symbols, object, offset_in(program, program, "shelf_of"));
	cr_expect_str_eq(name ?: "", "shelf_of");
	names_free(symbols);
}
