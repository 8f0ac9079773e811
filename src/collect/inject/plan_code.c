// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Reads the code of the process, and of its files. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/reason.h"
#include "collect/inject/inject_private.h"
#include "collect/process/file_identity.h"
#include "collect/process/mapped_file.h"

#define BREAKPOINT 0xcc

int open_mapping(pid_t pid, const struct maps_line *line, int *ret_fd)
{
	const struct mapped_file file = {
		.pid = pid, .start = line->start, .end = line->end, .dev = line->dev, .inode = line->inode,
		.path = line->path,
	};
	struct opened opened;
	int err = open_mapped(NULL, &file, &opened);

	if (err)
		return err;
	*ret_fd = opened.fd < 0 ? -1 : fcntl(opened.fd, F_DUPFD_CLOEXEC, 3);
	close_opened(&opened);
	return *ret_fd < 0 ? -EACCES : 0;
}

/* ---- pages that will be replaced ---- */

/* A breakpoint is most likely a uprobe's. The function in which it lies is told. */
static void note_breakpoint(struct inject_allocator *allocator, uint64_t address)
{
	struct inject_function *nearest = NULL;

	for (uint32_t i = 0; i < allocator->function_nr; i++) {
		struct inject_function *function = &allocator->function[i];

		if (function->address <= address && (!nearest || function->address > nearest->address))
			nearest = function;
	}
	if (nearest)
		nearest->is_probed = true;
}

static int compare_page(struct inject_allocator *allocator, uint64_t address, const uint8_t *memory, const uint8_t *file,
			struct reason *why)
{
	for (size_t i = 0; i < PAGE_BYTES; i++) {
		if (memory[i] == file[i])
			continue;
		if (memory[i] != BREAKPOINT)
			return reason_set(why, -ENOTSUP,
					  "the code of %s differs from its file at %#lx: another tool has changed it",
					  allocator->path, address + i);
		note_breakpoint(allocator, address + i);
	}
	return 0;
}

int read_original_pages(int fd, const struct inject_allocator *allocator, uint8_t **ret, struct reason *why)
{
	*ret = calloc(allocator->page_nr ?: 1, PAGE_BYTES);
	if (!*ret)
		return reason_set(why, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < allocator->page_nr; i++)
		if (pread(fd, *ret + i * PAGE_BYTES, PAGE_BYTES, allocator->page[i].offset) <= 0)
			return reason_set(why, -EIO, "%s cannot be read", allocator->path);
	return 0;
}

int check_code_pages(int mem_fd, const uint8_t *original, struct inject_allocator *allocator, struct reason *why)
{
	uint8_t memory[PAGE_BYTES];
	int err = 0;

	for (uint32_t i = 0; i < allocator->page_nr && !err; i++) {
		uint64_t address = allocator->page[i].address;

		if (pread(mem_fd, memory, sizeof(memory), address) != sizeof(memory))
			return reason_set(why, errno == EPERM ? -EPERM : -EIO, "its code cannot be read: %s", strerror(errno));
		err = compare_page(allocator, address, memory, original + i * PAGE_BYTES, why);
	}
	return err;
}
