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
