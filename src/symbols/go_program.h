/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SYMBOLS_GO_PROGRAM_H
#define ALLOCSNAP_SYMBOLS_GO_PROGRAM_H

/*
 * Where a Go program has what a reader of its heap profile needs (go/go_profile.h): its code, its variables, and how often the
 * runtime takes a sample. All addresses are the file's. The runtime's description of the program (symbols/go_table.h) has them,
 * so a stripped program has them, too.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/reason.h"

#define GO_VERSION_MAX 48

struct go_range {
	uint64_t start, end;
};

/* 8 bytes a member, so that it has no padding. */
struct go_program {
	char version[GO_VERSION_MAX]; /* "go1.19.8"; "": not known. It is for texts only */
	uint64_t table, module;	      /* the word at `module` is the address of the table */
	struct go_range code;
	uint64_t code_offset;	   /* of the code's beginning, in the file */
	struct go_range zeroed[2]; /* variables that begin with zeros: without pointers, and with them */
	uint64_t rate;	     /* runtime.MemProfileRate: bytes from sample to sample; 0: it was not found */
	uint64_t has_profile; /* a function that reads the profile is linked in: without one the linker turns the profile off */
};

/* 0; -ENOENT: it is no Go program that is known; -ENOMEM, or an error of elf_object__open(), with a line in *why. */
int go_program_read(int fd, struct go_program *ret, struct reason *why);

/* Whether its numbers may be of one file of that size. */
bool go_program_is_sound(const struct go_program *program, uint64_t file_bytes);

#endif
