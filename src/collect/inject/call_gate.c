// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Finds the call gate in the two files that stay mapped as long as the program runs: its dynamic linker, or the program
 * itself if it is static. Both come from the kernel's own word about them (AT_BASE, AT_ENTRY).
 */
#include <elf.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "collect/inject/found_samplers.h"
#include "collect/inject/inject_private.h"
#include "collect/process/proc.h"

#define SEARCH_MAX (64u << 20) /* bytes of both files together */
#define CHUNK_BYTES (64u << 10)

/* Other forms (a compare behind the call) lead a failed call to code that writes errno, so they are no gate. */
static const uint8_t call_code[] = { 0x0f, 0x05, 0xc3 }; /* syscall; ret */

static const struct way_back {
	uint32_t bytes;
	uint8_t byte[CALL_GATE_BYTES];
} ways_back[] = {
	{ 9, { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 } }, /* mov $15, %rax; syscall */
	{ 7, { 0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05 } },		/* mov $15, %eax; syscall */
};

struct gate_search {
	pid_t pid;
	const struct target_maps *maps;
	const struct found_samplers *found;
	uint64_t left_bytes;
	struct call_gate *gate;
};

static bool is_found(const struct call_gate *gate)
{
	return gate->syscall && gate->sigreturn;
}

static void search_for_gate(const uint8_t *code, size_t bytes, uint64_t address, struct call_gate *gate)
{
	const uint8_t *at = gate->syscall ? NULL : memmem(code, bytes, call_code, sizeof(call_code));

	if (at)
		gate->syscall = address + (at - code);
	for (size_t i = 0; i < ARRAY_SIZE(ways_back) && !gate->sigreturn; i++) {
		at = memmem(code, bytes, ways_back[i].byte, ways_back[i].bytes);
		if (!at)
			continue;
		gate->sigreturn = address + (at - code);
		gate->sigreturn_bytes = ways_back[i].bytes;
		memcpy(gate->sigreturn_code, ways_back[i].byte, sizeof(gate->sigreturn_code));
	}
}

static void search_mapping(struct gate_search *search, int fd, const struct maps_line *line)
{
	uint8_t code[CHUNK_BYTES];
	uint64_t left = line->end - line->start, at = 0;

	while (left - at > CALL_GATE_BYTES && search->left_bytes >= sizeof(code) && !is_found(search->gate)) {
		size_t wanted = left - at < sizeof(code) ? left - at : sizeof(code);
		ssize_t got = pread(fd, code, wanted, line->offset + at);

		if (got <= CALL_GATE_BYTES)
			return;
		search_for_gate(code, got, line->start + at, search->gate);
		search->left_bytes -= got;
		at += got - CALL_GATE_BYTES; /* it may lie on two chunks */
	}
}

/* A page of the allocator that a sampler has parked moves back. */
static bool is_parked_code(const struct found_samplers *found, const struct maps_line *line)
{
	for (size_t i = 0; found && i < found->sampler_nr; i++)
		if (line->start >= found->sampler[i].table.start && line->start < found->sampler[i].table.end)
			return true;
	return false;
}

/* All code of the file of which an address holds a part. */
static void search_file(struct gate_search *search, uint64_t address)
{
	const struct maps_line *of = target_maps_find(search->maps, address);
	int fd;

	if (is_found(search->gate) || !of || !of->inode || open_mapping(search->pid, of, &fd))
		return;
	for (size_t i = 0; i < search->maps->line_nr; i++) {
		const struct maps_line *line = &search->maps->line[i];

		if (line->inode == of->inode && line->dev == of->dev && line->perms[2] == 'x' &&
		    !is_parked_code(search->found, line))
			search_mapping(search, fd, line);
	}
	close(fd);
}

int find_call_gate(pid_t pid, const struct target_maps *maps, const struct found_samplers *found, struct call_gate *ret,
		   struct reason *why)
{
	struct gate_search search = { .pid = pid, .maps = maps, .found = found, .left_bytes = SEARCH_MAX, .gate = ret };

	*ret = (struct call_gate){};
	search_file(&search, proc_auxv(pid, AT_BASE));
	search_file(&search, proc_auxv(pid, AT_ENTRY));
	if (!is_found(ret))
		return reason_set(why, -ENOTSUP, "its code makes no system calls in a known way");
	return 0;
}

bool is_gate_whole(const struct call_gate *gate, int mem_fd)
{
	uint8_t call[sizeof(call_code)], way_back[CALL_GATE_BYTES];

	return pread(mem_fd, call, sizeof(call), gate->syscall) == sizeof(call) &&
	       !memcmp(call, call_code, sizeof(call)) &&
	       pread(mem_fd, way_back, gate->sigreturn_bytes, gate->sigreturn) == gate->sigreturn_bytes &&
	       !memcmp(way_back, gate->sigreturn_code, gate->sigreturn_bytes);
}
