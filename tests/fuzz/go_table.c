// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Names from the table of Go's runtime: an ELF file. Every file has no table, or one in which any address can be looked
 * up. All texts end.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "elf/elf_object.h"
#include "symbols/go_table.h"
#include "symbols/symbols.h"

static size_t length(const char *text)
{
	return text ? strlen(text) : 0;
}

static void look_up(const struct go_table *table, uint64_t address)
{
	struct place place[SYMBOL_INLINE_MAX];
	int nr = go_table__lookup(table, address, place, SYMBOL_INLINE_MAX);
	size_t bytes = 0;

	MUST(nr >= 0 && nr <= SYMBOL_INLINE_MAX);
	for (int i = 0; i < nr; i++) {
		bytes += length(place[i].name) + length(place[i].filename) + length(place[i].decl_filename);
		MUST(!place[i].filename == !place[i].lineno);
		MUST(!place[i].is_outermost || i + 1 == nr);
	}
	MUST(bytes < 1 << 26);
	MUST(!nr || nr == SYMBOL_INLINE_MAX || place[nr - 1].is_outermost);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("go", MFD_CLOEXEC);
	struct go_table *table = NULL;
	struct elf_object *elf;
	uint64_t entry;

	MUST(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	elf = elf_object__open(fd, NULL);
	entry = elf ? elf_object__entry(elf) : 0;
	if (elf && !go_table__open(elf, &table) && table)
		for (uint64_t at = 0; at < 64; at++)
			look_up(table, entry - 16 + at);
	go_table__free(table);
	close(fd);
	return 0;
}
