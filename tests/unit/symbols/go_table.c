// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Names from the table of Go's runtime: of a small program made for it, and of real ones if Go is installed. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "skip.h"
#include "symbols/go_program.h"
#include "symbols/symbols.h"
#include "symbols_fixture.h"

__asm__(".pushsection .rodata\n"
	"go_program: .incbin \"tests/unit/symbols/go_program.S\"\n"
	".byte 0\n"
	".popsection");
extern const char go_program[];

static struct symbols *symbols;

static void open_all(void)
{
	workshop_open();
	workshop_write("program.S", go_program);
	symbols = names_new(NULL);
}

static void close_all(void)
{
	names_free(symbols);
	workshop_close();
}

TestSuite(symbols_go, .init = open_all, .fini = close_all);

#define FRAMES 3

static const struct {
	unsigned int byte; /* of the code */
	struct symbol frame[FRAMES];
} expected[] = {
	{ 0, { { "main.leak", "/src/a.go", 10, 8 } } },
	{ 3, { { "main.leak", "/src/a.go", 10, 8 } } },
	{ 4, { { "main.small", "/src/b.go", 5, 3 }, { "main.leak", "/src/a.go", 10, 8 } } },
	{ 6, { { "main.tiny", "/src/b.go", 9, 7 }, { "main.small", "/src/b.go", 5, 3 }, { "main.leak", "/src/a.go", 10, 8 } } },
	{ 8, { { "main.leak", "/src/a.go", 12, 8 } } },
	{ 16, { { "main.part", "/src/a.go", 20, 19 } } }, /* no part of "main" */
	{ 31, { { "main.part", "/src/a.go", 20, 19 } } },
	{ 32, { { NULL } } },
};

static bool is_same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static void expect_frames(const char *file, uint64_t code, bool has_calls, bool has_first_lines)
{
	uint32_t object = open_object(symbols, workshop_path("program"), file);
	struct symbol frame[SYMBOL_INLINE_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		int nr = symbols__lookup(symbols, object, code + expected[i].byte + 1, frame), want_nr = 1;
		const struct symbol *want = expected[i].frame;

		while (has_calls && want_nr < FRAMES && want[want_nr].function)
			want_nr++;
		cr_assert_eq(nr, want_nr, "%s, byte %u: %d frames", file, expected[i].byte, nr);
		if (!has_calls && want[1].function) {
			cr_expect_str_eq(frame[0].function, "main.leak");
			cr_expect(!frame[0].lineno, "the line of another function");
			continue;
		}
		for (int k = 0; k < nr; k++) {
			cr_expect(is_same_text(frame[k].function, want[k].function), "%s, byte %u: %s", file, expected[i].byte,
				  frame[k].function);
			cr_expect(is_same_text(frame[k].filename, want[k].filename), "%s: %s", file, frame[k].filename);
			cr_expect_eq(frame[k].lineno, want[k].lineno, "%s: %u", file, frame[k].lineno);
			cr_expect_eq(frame[k].first_line, has_first_lines ? want[k].first_line : 0);
		}
	}
}

/* The offset of the code, then nothing is left that names a section or a symbol. */
static uint64_t build(const char *how)
{
	char *text;
	uint64_t address, offset, code;

	workshop_run("gcc %s -nostdlib -Wl,-e,code,--build-id=none program.S -o program", how);
	text = workshop_output("nm program | grep ' code$'; readelf -lW program | grep ' R E '");
	cr_assert_eq(sscanf(text, "%lx T code LOAD %lx %lx", &code, &offset, &address), 3, "%s", text);
	free(text);
	workshop_run("strip program && printf '\\0\\0\\0\\0\\0\\0\\0\\0' | dd of=program bs=1 seek=40 conv=notrunc 2>/dev/null && "
		     "printf '\\0\\0\\0\\0' | dd of=program bs=1 seek=60 conv=notrunc 2>/dev/null");
	return code - address + offset;
}

/* Layouts of Go 1.13, 1.16, 1.18, 1.20 and 1.27. */
static const char *const layouts[] = {
	"-DMAGIC=0xfb", "-DMAGIC=0xfa", "-DMAGIC=0xf0 -DTREES=38", "-DMAGIC=0xf1 -DTREES=40", "-DMAGIC=0xf1 -DTREES=43",
};

static const char *const kinds[] = { "-static", "-pie", "-static-pie", "-pie -fuse-ld=lld", "-static -DFALSE_FIRST" };

Test(symbols_go, every_layout_has_functions_lines_and_inlined_calls)
{
	for (size_t i = 0; i < ARRAY_SIZE(layouts) * ARRAY_SIZE(kinds); i++) {
		char how[128];

		snprintf(how, sizeof(how), "%s %s", layouts[i % ARRAY_SIZE(layouts)], kinds[i / ARRAY_SIZE(layouts)]);
		expect_frames(how, build(how), true, strstr(how, "0xf1"));
	}
}

Test(symbols_go, tree_that_makes_no_sense_is_not_used)
{
	expect_frames("elsewhere", build("-static -DMAGIC=0xf1 -DTREES=36"), false, true);
}

/* A program that has another one as data, whose code had the same addresses. */
static const char outer[] =
"	.section .rodata\n"
"	.balign 8\n"
"	.incbin \"inner\"\n"
"	.text\n"
"	.globl code\n"
"	.type code, @function\n"
"code:	.fill 32, 1, 0x90\n"
"	.size code, 32\n";

Test(symbols_go, table_of_a_program_that_is_data_does_not_count)
{
	workshop_write("outer.S", outer);
	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++) {
		struct symbol frame[SYMBOL_INLINE_MAX];
		uint64_t code, address, offset;
		uint32_t object;
		char *text;

		workshop_run("gcc %s -static -nostdlib -Wl,-e,code,--build-id=none program.S -o inner && "
			     "gcc -static -nostdlib -Wl,-e,code,--build-id=none outer.S -o program", layouts[i]);
		text = workshop_output("nm inner | grep ' code$' | cut -d' ' -f1; nm program | grep ' code$'; readelf -lW program | grep ' R E '");
		cr_assert_eq(sscanf(text, "%*x %lx T code LOAD %lx %lx", &code, &offset, &address), 3, "%s", text);
		cr_assert_eq(strtoul(text, NULL, 16), code, "%s", text);
		free(text);
		object = open_object(symbols, workshop_path("program"), layouts[i]);
		cr_expect_eq(symbols__lookup(symbols, object, code - address + offset + 1, frame), 1);
		cr_expect(is_same_text(frame[0].function, "code"), "%s: %s", layouts[i], frame[0].function);
	}
}

/* Prints addresses of its own code with what its runtime says of them, of the innermost frame. */
static const char own_names[] =
"package main\n"
"import (\"bufio\"; \"fmt\"; \"os\"; \"runtime\"; \"strconv\")\n"
"func main() {\n"
"	low, _ := strconv.ParseUint(os.Args[1], 16, 64)\n"
"	high, _ := strconv.ParseUint(os.Args[2], 16, 64)\n"
"	out := bufio.NewWriter(os.Stdout)\n"
"	defer out.Flush()\n"
"	for pc := uintptr(low); pc < uintptr(high); pc += 23 {\n"
"		behind := runtime.FuncForPC(pc + 1)\n"
"		if runtime.FuncForPC(pc) == nil || behind == nil || behind.Entry() == pc + 1 {\n"
"			continue\n"
"		}\n"
"		frame, _ := runtime.CallersFrames([]uintptr{pc + 1}).Next()\n"
"		fmt.Fprintf(out, \"%x\\t%s\\t%s\\t%d\\n\", pc, frame.Function, frame.File, frame.Line)\n"
"	}\n"
"}\n";

/* Go's runtime prints type arguments as "[...]". */
static bool is_name_of_runtime(const char *ours, const char *theirs)
{
	size_t before = strcspn(theirs, "[");

	return !strcmp(ours, theirs) || (theirs[before] && !strncmp(ours, theirs, before + 1));
}

static void expect_line_of_runtime(uint32_t object, char *line, uint64_t address, uint64_t offset)
{
	struct symbol frame[SYMBOL_INLINE_MAX];
	uint64_t pc = strtoul(strsep(&line, "\t"), NULL, 16);
	const char *function = strsep(&line, "\t"), *filename = strsep(&line, "\t");

	symbols__lookup(symbols, object, pc - address + offset + 1, frame);
	if (!*function)
		return; /* code around Go's own */
	cr_expect(frame[0].function && is_name_of_runtime(frame[0].function, function), "%lx: %s, not %s", pc,
		  frame[0].function, function);
	cr_expect_str_eq(frame[0].filename ?: "?", filename, "%lx: %s, not %s", pc, frame[0].filename, filename);
	cr_expect_eq(frame[0].lineno, (uint32_t)atoi(line), "%lx: %u, not %s", pc, frame[0].lineno, line);
}

Test(symbols_go, stripped_program_has_the_names_of_its_own_runtime, .timeout = 600)
{
	uint64_t address, offset, size;
	char *text, *rest, *line;
	size_t nr = 0;
	uint32_t object;

	if (!workshop_can("go version >/dev/null 2>&1"))
		skip_because("Go is not installed");
	workshop_write("names.go", own_names);
	workshop_run("GOCACHE=$PWD/cache GO111MODULE=off go build -ldflags='-s -w' -o program names.go");
	text = workshop_output("readelf -SW program | sed -n 's/.* \\.text *PROGBITS *//p'");
	cr_assert_eq(sscanf(text, "%lx %lx %lx", &address, &offset, &size), 3, "%s", text);
	free(text);
	object = open_object(symbols, workshop_path("program"), "program");
	text = rest = workshop_output("./program %lx %lx", address, address + size);
	for (; (line = strsep(&rest, "\n")) && *line; nr++)
		expect_line_of_runtime(object, line, address, offset);
	cr_expect_gt(nr, 10000, "%zu addresses", nr);
	free(text);
}

/* ---- what a reader of its heap profile needs ---- */

static const char own_profile[] =
"package main\n"
"import (\"os\"; \"runtime/pprof\")\n"
"func main() { pprof.WriteHeapProfile(os.Stdout) }\n";

static struct go_program read_own(void)
{
	struct go_program program = {};
	struct reason why;
	int fd = open(workshop_path("program"), O_RDONLY);

	cr_assert_eq(go_program_read(fd, &program, &why), 0, "%s", why.text);
	cr_expect(go_program_is_sound(&program, lseek(fd, 0, SEEK_END)));
	close(fd);
	return program;
}

/* With its symbols, which say the same, and stripped. */
static void expect_variables(const char *source, bool has_profile)
{
	struct go_program program, stripped;
	unsigned long rate, text;
	char *symbol;

	workshop_run("GOCACHE=$PWD/cache GO111MODULE=off go build -o program %s", source);
	symbol = workshop_output("nm program | sed -n 's/ . runtime.MemProfileRate$//p; s/ . runtime.text$//p' | sort -r");
	cr_assert_eq(sscanf(symbol, "%lx %lx", &rate, &text), 2, "%s", symbol);
	free(symbol);
	program = read_own();
	cr_expect_eq(program.rate, rate, "%lx, not %lx", program.rate, rate);
	cr_expect_eq(program.code.start, text);
	cr_expect_eq(program.has_profile, has_profile, "%s", source);
	cr_expect_eq(strncmp(program.version, "go1.", 4), 0, "%s", program.version);
	workshop_run("strip program");
	stripped = read_own();
	cr_expect_arr_eq(&stripped, &program, sizeof(program), "%lx of a stripped one", stripped.rate);
}

Test(symbols_go, program_says_where_its_profile_is, .timeout = 600)
{
	if (!workshop_can("go version >/dev/null 2>&1"))
		skip_because("Go is not installed");
	workshop_write("names.go", own_names);
	workshop_write("profile.go", own_profile);
	expect_variables("names.go", false);
	expect_variables("profile.go", true);
}

Test(symbols_go, program_that_is_none_is_refused)
{
	struct go_program program;
	struct reason why;
	int fd;

	workshop_write("empty.c", "int main(void) { return 0; }");
	workshop_run("gcc empty.c -o program");
	fd = open(workshop_path("program"), O_RDONLY);
	cr_expect_eq(go_program_read(fd, &program, &why), -ENOENT);
	cr_expect_str_eq(why.text, "it is no Go program");
	close(fd);
}
