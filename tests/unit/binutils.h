/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_TESTS_BINUTILS_H
#define ALLOCSNAP_TESTS_BINUTILS_H

/*
 * The answers of binutils about an ELF file, as a judge that shares no code with us. Lists are empty if
 * the tool or the file is missing; a test skips then.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A defined function of readelf --dyn-syms. */
struct listed_symbol {
	char name[256]; /* without its version */
	uint64_t vaddr, size;
	bool is_ifunc, is_local;
};

struct listed_symbols {
	struct listed_symbol *item;
	size_t item_nr, item_alloc;
};

void readelf_functions(struct listed_symbols *symbols, const char *path);

/* An instruction of objdump -d, in AT&T syntax without its comment. */
struct listed_insn {
	uint64_t vaddr;
	uint8_t byte[16], byte_nr;
	char text[96];
};

struct listed_code {
	struct listed_insn *item; /* by address */
	size_t item_nr, item_alloc;
};

void objdump_code(struct listed_code *code, const char *path);
void objdump_a64(struct listed_code *code, const char *path); /* of a file for arm64: "mnemonic operands" */
void objdump_between(struct listed_code *code, const char *path, uint64_t from, uint64_t to);

/* The instruction that starts there, or NULL. */
const struct listed_insn *listed_code__at(const struct listed_code *code, uint64_t vaddr);

/* The first line of a command's output without its newline, "" if none. */
void first_line(char *line, size_t room, const char *command);

#endif
