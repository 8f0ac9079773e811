/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_TESTS_SYMBOLS_FIXTURE_H
#define ALLOCSNAP_TESTS_SYMBOLS_FIXTURE_H

/*
 * A temporary directory in which a test builds programs with the machine's compiler, and the
 * truth about them from the machine's binutils. One per test process; what goes wrong here
 * fails the test.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox/client.h"
#include "symbols/symbols.h"

void workshop_open(void);
void workshop_close(void); /* and removes it */

/* The absolute path of a file there, in one of a few static buffers. */
const char *workshop_path(const char *name);

void workshop_write(const char *name, const char *text);

/* Runs a shell command there; it must succeed. */
__attribute__((format(printf, 1, 2))) void workshop_run(const char *fmt, ...);
/* Whether the command succeeds. */
__attribute__((format(printf, 1, 2))) bool workshop_can(const char *fmt, ...);
/* Returns the output of the shell command; the caller frees it. */
__attribute__((format(printf, 1, 2))) char *workshop_output(const char *fmt, ...);

/* A C and a C++ program with many kinds of calls, as cfi_program.c and program.cc. */
void workshop_write_programs(void);

/* A call in the machine code of a file, from `objdump -d` and `readelf -l`. */
struct call {
	uint64_t return_address; /* as in the file */
	uint64_t return_offset;	 /* the offset in the file */
};

/* All calls of a file; the caller frees *ret_call. At least one. */
size_t workshop_calls(const char *file, struct call **ret_call);

/*
 * The frames at every call are as many as llvm-addr2line gives, at the same lines, and with the same functions: for C
 * exactly as binutils' addr2line; for C++ one name must contain the other ("hidden" of the DWARF,
 * "shop::hidden(int)" of the symbol), because each tool names functions without a mangled name in its own way.
 * (binutils' 2.40 cannot be the only oracle: it mixes up the files of DWARF 5, does not read clang's ranges, and gives
 * an inlined function without a mangled name the name of the function around it. LLVM's keeps ".constprop.0".)
 */
void expect_same(struct symbols *symbols, const char *file, const struct call *call,
		 size_t call_nr, bool is_c);

/* The number of frames and their lines only; for tools that do not look for debug files. */
void expect_same_lines(struct symbols *symbols, const char *file, const char *debug_file,
		       const struct call *call, size_t call_nr);

/*
 * Names read in this process, or with SYMBOLS_PARSER in the environment by a process without privileges:
 * all tests of names run in both ways. NULL: debug files are in the default place.
 */
struct symbols *names_new(const char *debug_root);
void names_free(struct symbols *symbols);

/* A file as an object; it must open. */
uint32_t open_object(struct symbols *symbols, const char *file, const char *path);

/* The file offset behind the first instruction of a function, by `nm` of nm_file. */
uint64_t offset_in(const char *file, const char *nm_file, const char *function);

/* The outermost function at an offset, or NULL. */
const char *function_at(struct symbols *symbols, uint32_t object, uint64_t offset);

#endif
