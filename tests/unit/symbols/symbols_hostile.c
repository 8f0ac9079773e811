// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/array.h"
#include "full.h"
#include "skip.h"
#include "symbols_fixture.h"

static struct symbols *symbols;

static void open_all(void)
{
	workshop_open();
	symbols = names_new(NULL);
	cr_assert(symbols);
}

static void close_all(void)
{
	names_free(symbols);
	workshop_close();
}

TestSuite(symbols_hostile, .init = open_all, .fini = close_all);

static void expect_no_names(int fd, const char *path)
{
	struct symbol frame[SYMBOL_INLINE_MAX];
	uint32_t object;

	cr_assert(!symbols__object(symbols, path, "", fd, &object), "%s", path);
	for (uint64_t offset = 0; offset < 5000; offset += 100) {
		cr_expect_eq(symbols__lookup(symbols, object, offset, frame), 1, "%s", path);
		cr_expect(!frame[0].function && !frame[0].filename && !frame[0].lineno, "%s", path);
	}
}

static const char *const garbage[] = {
	": >file",
	"printf '\\177ELF' >file",
	"head -c 5000 /dev/zero >file",
	"head -c 5000 /dev/urandom >file",
	"cp program.c file",
	"gcc -c -g program.c -o file",			   /* an object file */
	"gcc -c -g program.c -o x.o; ar rc file x.o",	   /* an archive */
	"gcc -g program.c -o x; head -c 64 x >file",
	"gcc -g program.c -o x; gzip <x >file",
};

Test(symbols_hostile, files_that_are_no_program_have_no_names)
{
	int pipe_end[2];

	workshop_write_programs();
	for (size_t i = 0; i < ARRAY_SIZE(garbage); i++) {
		int fd;

		workshop_run("rm -f file; %s", garbage[i]);
		fd = open(workshop_path("file"), O_RDONLY);
		expect_no_names(fd, garbage[i]);
		close(fd);
	}
	expect_no_names(-1, "no file");
	cr_assert(!pipe(pipe_end));
	expect_no_names(pipe_end[0], "a pipe");
	expect_no_names(open("/tmp", O_RDONLY), "a directory");
}

Test(symbols_hostile, object_keeps_the_callers_descriptor_open_and_in_place)
{
	struct symbol frame[SYMBOL_INLINE_MAX];
	uint32_t object, again;
	int fd;

	workshop_write_programs();
	workshop_run("gcc -g program.c -o program");
	fd = open(workshop_path("program"), O_RDONLY);
	cr_assert(!symbols__object(symbols, "/bin/program", "abcd", fd, &object));
	cr_assert(!symbols__object(symbols, "/bin/program", "abcd", -1, &again));
	cr_expect_eq(object, again);
	cr_assert(!symbols__object(symbols, "/bin/program", "ef01", fd, &again));
	cr_expect_neq(object, again);
	symbols__lookup(symbols, object, 0x1200, frame);
	cr_expect_eq(lseek(fd, 0, SEEK_CUR), 0);
	cr_expect(!close(fd));
}

/* libdw would open these FIFOs by the names in the program, and wait for a writer forever. */
static const char *const fifo[] = {
	"gcc -O2 -g -gsplit-dwarf program.c -o program && "
	"for f in *.dwo; do rm $f && mkfifo $f; done",
	"gcc -O2 -gdwarf-4 -gsplit-dwarf program.c -o program && "
	"for f in *.dwo; do rm $f && mkfifo $f; done",
	"gcc -O2 -g program.c -o x && mkfifo alt && printf '%s/alt\\0abcdefghijklmnopqrst' $PWD >link && "
	"objcopy --add-section .gnu_debugaltlink=link x program",
	"gcc -O2 -g program.c -o x && strip x && mkfifo x.debug && printf 'x.debug\\0abcd' >link && "
	"objcopy --add-section .gnu_debuglink=link x program",
};

Test(symbols_hostile, program_cannot_make_the_reader_open_other_files, .timeout = 600)
{
	workshop_write_programs();
	cr_assert(!chdir(workshop_path("")));
	for (size_t i = 0; i < ARRAY_SIZE(fifo); i++) {
		struct call *call;
		uint32_t object;
		size_t nr;

		workshop_run("rm -f program *.dwo alt link x.debug; %s", fifo[i]);
		nr = workshop_calls(workshop_path("program"), &call);
		object = open_object(symbols, workshop_path("program"), fifo[i]);
		for (size_t c = 0; c < nr; c++)
			function_at(symbols, object, call[c].return_offset);
		free(call);
	}
}

/* A skeleton unit still has the lines, and the symbol table the names. */
Test(symbols_hostile, program_with_split_dwarf_has_lines_and_names)
{
	struct symbol frame[SYMBOL_INLINE_MAX];
	uint32_t object;

	workshop_write_programs();
	workshop_run("gcc -O0 -g -gsplit-dwarf program.c -o program");
	object = open_object(symbols, workshop_path("program"), "/x");
	cr_expect_eq(symbols__lookup(symbols, object,
				     offset_in(workshop_path("program"), workshop_path("program"),
					       "checked"),
				     frame), 1);
	cr_expect_str_eq(frame[0].function, "checked");
	cr_expect_str_eq(frame[0].filename, workshop_path("program.c"));
	cr_expect_eq(frame[0].lineno, 22);
}

/* ---- damage ---- */

static void look_up_everywhere(const void *bytes, size_t size, const struct call *call, size_t nr)
{
	struct symbols *fresh = names_new(NULL);
	const char *why;
	int fd = memfd_create("damaged", MFD_CLOEXEC);
	struct symbol frame[SYMBOL_INLINE_MAX];
	uint32_t object;

	cr_assert(write(fd, bytes, size) == (ssize_t)size);
	cr_assert(!symbols__object(fresh, "/damaged", "", fd, &object));
	for (size_t i = 0; i < nr; i++) {
		int frames = symbols__lookup(fresh, object, call[i].return_offset, frame);

		cr_expect(frames >= 1 && frames <= SYMBOL_INLINE_MAX);
		for (int f = 0; f < frames; f++)
			cr_expect_eq(!frame[f].lineno, !frame[f].filename);
	}
	why = symbols__unreadable(fresh, object);
	cr_expect(!why || strstr(why, "would unpack to more"), "%s", why);
	names_free(fresh);
	close(fd);
}

static uint8_t *read_program(size_t *ret_size)
{
	int fd = open(workshop_path("program"), O_RDONLY);
	uint8_t *bytes;

	*ret_size = lseek(fd, 0, SEEK_END);
	bytes = malloc(*ret_size);
	cr_assert(pread(fd, bytes, *ret_size, 0) == (ssize_t)*ret_size);
	close(fd);
	return bytes;
}

static const char *const damaged[] = {
	"gcc -O2 -g program.c -o program",
	"gcc -O2 -gdwarf-4 program.c -o program",
	"gcc -O1 -g -gz program.c -o program",
	"g++ -O1 -gdwarf-4 program.cc -o program",
};

/* Some bytes of the debug sections, the symbol table and the headers behind them. */
static void damage(uint8_t *bytes, size_t from, size_t size)
{
	static const uint8_t value[] = { 0, 1, 0x7f, 0x80, 0xff };

	for (int i = 1 + rand() % 8; i--;)
		bytes[from + rand() % (size - from)] = rand() % 3 ? value[rand() % 5] : rand();
}

Test(symbols_hostile, damaged_files_do_no_harm, .timeout = 600)
{
	workshop_write_programs();
	srand(7);
	for (size_t b = 0; b < ARRAY_SIZE(damaged); b++) {
		uint8_t *bytes, *copy;
		struct call *call;
		size_t size, nr;

		workshop_run("%s", damaged[b]);
		nr = workshop_calls(workshop_path("program"), &call);
		bytes = read_program(&size);
		copy = malloc(size);
		for (int i = full_or(300, 75); i--;) {
			memcpy(copy, bytes, size);
			damage(copy, i % 10 ? 0x3000 : 0, size);
			look_up_everywhere(copy, size, call, nr);
		}
		for (size_t cut = 0; cut < size; cut += size / 50)
			look_up_everywhere(bytes, cut, call, nr);
		free(copy);
		free(bytes);
		free(call);
	}
}

static const char source[] =
"#include <stdlib.h>\n"
"__attribute__((noinline)) static void *hidden(size_t n) { return malloc(n); }\n"
"__attribute__((noinline)) void *exported(size_t n) { return hidden(n + 1); }\n"
"__attribute__((noinline)) static void *between(size_t n) { return calloc(n, 2); }\n"
"__attribute__((noinline)) void *last(size_t n) { return n ? between(n) : exported(n); }\n"
"__asm__(\".text\\n.globl by_hand\\nby_hand: call malloc@plt\\nnop\\nret\\n\"\n"
"        \".globl sized\\n.type sized,@function\\nsized: call malloc@plt\\n\"\n"
"        \"inner: nop\\nnop\\nret\\n\"\n"
"        \".size sized,.-sized\\n.skip 16,0x90\");\n";

static void build_library(void)
{
	workshop_open();
	workshop_write("hidden.c", source);
	workshop_run("gcc -O2 -g -shared -fPIC -Wl,--build-id -o full.so hidden.c");
	workshop_run("strip -o stripped.so full.so && objcopy --only-keep-debug full.so full.debug");
	workshop_run("mkdir debug");
	symbols = names_new(workshop_path("debug"));
	cr_assert(symbols);
}

static void remove_library(void)
{
	names_free(symbols);
	workshop_close();
}

TestSuite(symbols_debug_file, .init = build_library, .fini = remove_library);

/* debug/.build-id/ab/cdef….debug for file */
static void install_by_build_id(const char *file, const char *debug_file)
{
	char *id = workshop_output("readelf -n '%s' | sed -n 's/.*Build ID: //p'", file);

	id[strcspn(id, "\n")] = '\0';
	workshop_run("mkdir -p debug/.build-id/%.2s && cp '%s' debug/.build-id/%.2s/%s.debug", id,
		     debug_file, id, id + 2);
	free(id);
}

static uint64_t in(const char *function)
{
	return offset_in(workshop_path("stripped.so"), workshop_path("full.so"), function);
}

/* The name of `hidden` in file, opened at the path that the process has for it. */
static const char *name_of_hidden(const char *file, const char *path)
{
	return function_at(symbols, open_object(symbols, workshop_path(file), path), in("hidden"));
}

static void expect_name(const char *name, const char *want, const char *what)
{
	cr_expect(want ? name && !strcmp(name, want) : !name, "%s is called %s, not %s", what, name,
		  want);
}

Test(symbols_debug_file, is_needed_for_names_of_functions_that_are_not_exported)
{
	uint32_t object = open_object(symbols, workshop_path("stripped.so"), "/lib/x.so");

	expect_name(function_at(symbols, object, in("exported")), "exported", "exported");
	expect_name(function_at(symbols, object, in("last")), "last", "last");
	expect_name(function_at(symbols, object, in("sized")), "sized", "sized");
	expect_name(function_at(symbols, object, in("hidden")), NULL, "hidden");
	expect_name(function_at(symbols, object, in("between")), NULL, "between");
	expect_name(function_at(symbols, object, in("by_hand")), NULL, "by_hand");
	expect_name(function_at(symbols, object, 0), NULL, "offset 0");
	expect_name(function_at(symbols, object, UINT64_MAX), NULL, "the last offset");
}

Test(symbols_debug_file, symbols_without_a_size_extend_to_the_next_symbol)
{
	uint32_t object;

	workshop_run("gcc -O2 -shared -fPIC -o plain.so hidden.c");
	object = open_object(symbols, workshop_path("plain.so"), "/lib/x.so");
	expect_name(function_at(symbols, object, in("by_hand") + 4), "by_hand", "its call");
	expect_name(function_at(symbols, object, in("by_hand") + 5), "by_hand", "its nop");
	expect_name(function_at(symbols, object, in("inner")), "sized", "a label in a function");
	expect_name(function_at(symbols, object, in("inner") + 10), NULL, "the gap behind");
	expect_name(function_at(symbols, object, in("hidden")), "hidden", "hidden");
}

Test(symbols_debug_file, is_found_by_build_id)
{
	struct symbol frame[SYMBOL_INLINE_MAX];
	uint32_t object;

	install_by_build_id(workshop_path("full.so"), workshop_path("full.debug"));
	object = open_object(symbols, workshop_path("stripped.so"), "/lib/x.so");
	cr_expect_eq(symbols__lookup(symbols, object, in("hidden"), frame), 1);
	expect_name(frame[0].function, "hidden", "hidden");
	cr_expect_str_eq(frame[0].filename, workshop_path("hidden.c"));
	cr_expect_eq(frame[0].lineno, 2);
	expect_name(function_at(symbols, object, in("by_hand")), "by_hand", "by_hand");
}

Test(symbols_debug_file, that_has_another_build_id_is_not_used)
{
	workshop_run("gcc -O1 -g -shared -fPIC -Wl,--build-id -o other.so hidden.c");
	install_by_build_id(workshop_path("full.so"), workshop_path("other.so"));
	expect_name(name_of_hidden("stripped.so", "/lib/x.so"), NULL, "hidden");
}

static void link_to(const char *library)
{
	workshop_run("objcopy --remove-section .note.gnu.build-id --add-gnu-debuglink=full.debug "
		     "stripped.so %s", library);
}

Test(symbols_debug_file, is_found_by_link_below_the_directory_of_the_path)
{
	link_to("linked.so");
	workshop_run("mkdir -p debug/opt/lib && cp full.debug debug/opt/lib");
	expect_name(name_of_hidden("linked.so", "/opt/lib/x.so"), "hidden", "hidden");
	expect_name(name_of_hidden("linked.so", "/opt/x.so"), NULL, "in another directory");
}

Test(symbols_debug_file, that_has_another_checksum_is_not_used)
{
	link_to("linked.so");
	workshop_run("mkdir -p debug/opt && cp full.debug debug/opt && echo >>debug/opt/full.debug");
	expect_name(name_of_hidden("linked.so", "/opt/x.so"), NULL, "hidden");
}

/* Beside the object, below it in .debug, in the working directory, or up and out of the root. */
Test(symbols_debug_file, outside_the_root_is_not_used)
{
	char path[300];

	link_to("linked.so");
	workshop_run("mkdir .debug debug/opt && cp full.debug .debug");
	cr_assert(!chdir(workshop_path("")));
	snprintf(path, sizeof(path), "%s", workshop_path("linked.so"));
	expect_name(name_of_hidden("linked.so", path), NULL, "hidden beside its debug file");
	expect_name(name_of_hidden("linked.so", "/../x.so"), NULL, "hidden above the root");
	expect_name(name_of_hidden("linked.so", "/opt/../../x.so"), NULL, "hidden up and down");
	expect_name(name_of_hidden("linked.so", "linked.so"), NULL, "hidden with a relative path");
	expect_name(name_of_hidden("linked.so", ""), NULL, "hidden without a path");
}

/* Opening a FIFO for reading would wait for a writer. */
Test(symbols_debug_file, must_be_a_regular_file, .timeout = 600)
{
	link_to("linked.so");
	workshop_run("mkdir -p debug/opt && mkfifo debug/opt/full.debug");
	expect_name(name_of_hidden("linked.so", "/opt/x.so"), NULL, "hidden");
}

static void expect_hidden_at(const char *path, uint32_t lineno)
{
	uint32_t object = open_object(symbols, workshop_path("stripped.so"), path);
	struct symbol frame[SYMBOL_INLINE_MAX];

	cr_expect_eq(symbols__lookup(symbols, object, in("hidden"), frame), 1);
	expect_name(frame[0].function, "hidden", "hidden");
	cr_expect_eq(frame[0].lineno, lineno, "%s: line %u", path, frame[0].lineno);
}

Test(symbols_debug_file, may_share_dies_with_others, .timeout = 600)
{
	if (!workshop_can("dwz --version >/dev/null 2>&1"))
		skip_because("dwz is not installed");
	workshop_run("gcc -O2 -g -shared -fPIC -gdwarf-4 -Wl,--build-id -o full.so hidden.c && "
		     "cp full.so second.so && strip -o stripped.so full.so && mkdir -p debug/.dwz && "
		     "dwz -m debug/.dwz/both.debug -M /usr/lib/debug/.dwz/both.debug full.so second.so");
	cr_assert(workshop_can("readelf -SW full.so | grep -q gnu_debugaltlink"));
	install_by_build_id(workshop_path("full.so"), workshop_path("full.so"));
	expect_hidden_at("/lib/x.so", 2);
	/* libdw would open it by its name, and wait for a writer; so there are no lines then. */
	workshop_run("rm debug/.dwz/both.debug && mkfifo debug/.dwz/both.debug");
	expect_hidden_at("/lib/y.so", 0);
}

/* ---- .gnu_debugdata: a symbol table, compressed by xz, in the stripped file itself ---- */

static void need_xz(void)
{
	if (!workshop_can("xz --version >/dev/null 2>&1"))
		skip_because("xz is not installed");
}

/* mini.so, with a file that is compressed as its table. */
static void build_with_table(const char *file)
{
	workshop_run("xz -0 -T1 <%s >table.xz && objcopy --add-section .gnu_debugdata=table.xz stripped.so mini.so", file);
}

Test(symbols_debug_file, in_the_file_itself_has_functions_that_are_not_exported)
{
	need_xz();
	workshop_run("objcopy --only-keep-debug full.so t && objcopy -S --keep-symbol=hidden --keep-symbol=between t table");
	build_with_table("table");
	expect_name(name_of_hidden("mini.so", "/lib/x.so"), "hidden", "hidden");
	expect_name(function_at(symbols, open_object(symbols, workshop_path("mini.so"), "/lib/x.so"), in("exported")), "exported",
		    "exported");
}

Test(symbols_debug_file, in_the_file_itself_may_be_anything)
{
	need_xz();
	build_with_table("/dev/null");
	expect_name(name_of_hidden("mini.so", "/lib/empty.so"), NULL, "hidden");
	build_with_table("hidden.c");
	expect_name(name_of_hidden("mini.so", "/lib/text.so"), NULL, "hidden");
	workshop_run("objcopy --add-section .gnu_debugdata=hidden.c stripped.so mini.so");
	expect_name(name_of_hidden("mini.so", "/lib/not_xz.so"), NULL, "hidden");
}

#ifndef __SANITIZE_ADDRESS__ /* a sanitizer needs more memory than this limit */

Test(symbols_debug_file, in_the_file_itself_is_not_unpacked_beyond_the_memory_of_the_reader, .timeout = 600)
{
	const struct sandbox_options options = { .memory_bytes = 64 << 20 };
	struct sandbox *sandbox;
	struct symbols *few;
	const char *why;
	uint32_t object;

	need_xz();
	workshop_run("truncate -s 96M zeros");
	build_with_table("zeros");
	sandbox = sandbox__open(&options, NULL);
	cr_assert(sandbox);
	few = symbols__new(sandbox__source(sandbox));
	object = open_object(few, workshop_path("mini.so"), "/lib/bomb.so");
	expect_name(function_at(few, object, in("hidden")), NULL, "hidden");
	why = symbols__unreadable(few, object); /* libdw may have given up in time */
	cr_expect(!why || !strcmp(why, "reading it takes more than 64 MiB of memory"), "%s", why);
	object = open_object(few, workshop_path("stripped.so"), "/lib/x.so");
	expect_name(function_at(few, object, in("exported")), "exported", "a function of another file");
	symbols__free(few);
	sandbox__close(sandbox);
}

#endif
