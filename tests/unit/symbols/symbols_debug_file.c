// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symbols_fixture.h"
#include "skip.h"

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

static struct symbols *symbols;

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
