// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The lines where the functions of frames are declared. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "symbols_fixture.h"

static const char header[] =
"\n"
"static inline __attribute__((always_inline)) char *in_header(unsigned long n)\n"
"{\n"
"	return get(n);\n"
"}\n";

/* from_body: a body in another file than the function that it is the body of. */
static const char source[] =
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
	workshop_write("x.c", source);
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
