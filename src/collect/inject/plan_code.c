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
#include "collect/inject/found_samplers.h"
#include "collect/inject/inject_private.h"
#include "collect/process/file_identity.h"
#include "collect/process/mapped_file.h"

#define GATE_SEARCH_MAX (64u << 20) /* bytes of one file's code */
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

/* ---- the call gate ---- */

/* syscall; [cmp $-4096, %rax; ja or jae;] ret: as the C library makes calls */
static bool is_syscall_and_return(const uint8_t *code)
{
	static const uint8_t compare[] = { 0x48, 0x3d };

	if (code[0] != 0x0f || code[1] != 0x05)
		return false;
	return code[2] == 0xc3 || (!memcmp(code + 2, compare, 2) && code[5] == 0xf0 && code[6] == 0xff && code[7] == 0xff &&
				   (code[8] == 0x77 || code[8] == 0x73) && code[10] == 0xc3);
}

static bool is_sigreturn(const uint8_t *code)
{
	static const uint8_t wide[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };
	static const uint8_t narrow[] = { 0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05 };

	return !memcmp(code, wide, sizeof(wide)) || !memcmp(code, narrow, sizeof(narrow));
}

static void search_gate(const uint8_t *code, size_t bytes, uint64_t address, struct call_gate *gate)
{
	for (size_t at = 0; at + 16 <= bytes && !(gate->syscall && gate->sigreturn); at++) {
		if (!gate->syscall && is_syscall_and_return(code + at))
			gate->syscall = address + at;
		if (!gate->sigreturn && is_sigreturn(code + at))
			gate->sigreturn = address + at;
	}
}

static void search_mapping(pid_t pid, const struct maps_line *line, struct call_gate *gate)
{
	size_t bytes = line->end - line->start < GATE_SEARCH_MAX ? line->end - line->start : GATE_SEARCH_MAX;
	uint8_t *code = malloc(bytes);
	ssize_t got;
	int fd;

	if (!code)
		return;
	if (!open_mapping(pid, line, &fd)) {
		got = pread(fd, code, bytes, line->offset);
		if (got > 0)
			search_gate(code, got, line->start, gate);
		close(fd);
	}
	free(code);
}

static bool is_sampler_path(const char *path)
{
	return !strncmp(path, "/memfd:" INJECT_FILE_NAME, strlen("/memfd:" INJECT_FILE_NAME));
}

static bool holds_parked_page(const struct found_samplers *found, const struct maps_line *line)
{
	for (size_t i = 0; found && i < found->sampler_nr; i++) {
		const struct injected_table *table = &found->sampler[i].table;

		for (uint32_t page = 0; page < table->page_nr; page++)
			if (line->start <= table->page[page].parked && table->page[page].parked < line->end)
				return true;
	}
	return false;
}

int find_call_gate(pid_t pid, const struct target_maps *maps, const struct found_samplers *found, struct call_gate *ret,
		   struct reason *why)
{
	*ret = (struct call_gate){};
	for (size_t i = 0; i < maps->line_nr && !(ret->syscall && ret->sigreturn); i++)
		if (maps->line[i].perms[2] == 'x' && maps->line[i].inode && !is_sampler_path(maps->line[i].path) &&
		    !holds_parked_page(found, &maps->line[i]))
			search_mapping(pid, &maps->line[i], ret);
	if (!ret->syscall || !ret->sigreturn)
		return reason_set(why, -ENOTSUP, "its code makes no system calls in a known way");
	return 0;
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
					  "the code of %s is not that of its file at %#lx: another tool has changed it",
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
