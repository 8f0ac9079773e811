// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * names_of FILE: reads file offsets behind calls, in hexadecimal, and writes the frames at each call:
 *
 *	0xOFFSET
 *	FUNCTION TAB FILE TAB LINE	the innermost inlined function first; empty and 0 if not known
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "symbols/debug_file.h"
#include "symbols/direct.h"

static int open_debug_file(void *root_fd, const char *object_path, const struct debug_want *want)
{
	return want->nr ? -1 : debug_file__candidate(*(int *)root_fd, object_path, want);
}

static int print_names(struct symbols *symbols, uint32_t object)
{
	struct symbol frame[SYMBOL_INLINE_MAX];
	uint64_t offset;

	while (scanf("%" SCNx64, &offset) == 1) {
		int nr = symbols__lookup(symbols, object, offset, frame);

		if (nr < 0)
			return 1;
		printf("0x%" PRIx64 "\n", offset);
		for (int i = 0; i < nr; i++)
			printf("%s\t%s\t%u\n", frame[i].function ?: "", frame[i].filename ?: "", frame[i].lineno);
	}
	return 0;
}

int main(int argc, char **argv)
{
	int root_fd = open(DEBUG_FILE_ROOT, O_PATH | O_DIRECTORY | O_CLOEXEC), fd = argc == 2 ? open(argv[1], O_RDONLY) : -1;
	const struct debug_opener opener = { .open = open_debug_file, .self = &root_fd };
	const struct symbol_source source = { .look_up = direct__look_up, .self = direct__new(&opener) };
	struct symbols *symbols = source.self ? symbols__new(&source) : NULL;
	uint32_t object;
	int status = 2;

	if (fd >= 0 && symbols && !symbols__object(symbols, argv[1], "", fd, &object))
		status = print_names(symbols, object);
	symbols__free(symbols);
	direct__free(source.self);
	if (root_fd >= 0)
		close(root_fd);
	close(fd);
	return status;
}
