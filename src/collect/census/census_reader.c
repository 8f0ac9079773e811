// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/census/census_reader.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "collect/census/census_json.h"
#include "collect/census/glibc_heap.h"
#include "collect/census/pymalloc.h"
#include "collect/census/target_memory.h"
#include "collect/process/maps_text.h"
#include "elf/python/python_info.h"
#include "helper/channel.h"

#define MAPPINGS_MOST (1u << 20)

struct target_files {
	const int *fd; /* CENSUS_FD_* */
	FILE *maps;
};

static int pread_memory(void *process, uint64_t address, void *to, size_t bytes)
{
	const int *fd = ((struct target_files *)process)->fd;

	while (bytes) {
		ssize_t some = address < TARGET_TOP ? pread(fd[CENSUS_FD_MEMORY], to, bytes, address) : 0;

		if (some <= 0)
			return -EIO;
		to = (char *)to + some;
		address += some;
		bytes -= some;
	}
	return 0;
}

static int read_pages(void *process, uint64_t address, uint64_t *entry, size_t nr)
{
	const int *fd = ((struct target_files *)process)->fd;
	ssize_t bytes = nr * sizeof(*entry);

	return pread(fd[CENSUS_FD_PAGES], entry, bytes, address / TARGET_PAGE * sizeof(*entry)) == bytes ? 0 : -EIO;
}

static int keep_mapping(struct target_memory *memory, const struct maps_line *line)
{
	struct target_mapping mapping = {
		.start = line->start,
		.end = line->end,
		.is_writable = line->perms[1] == 'w',
		.is_file = line->inode && line->perms[3] == 'p',
		.is_heap = !strncmp(line->path, "[heap]", 6),
		.is_named = (*line->path == '[' && strncmp(line->path, "[anon: glibc: malloc", 20)) || (line->inode && line->perms[3] != 'p'),
	};

	if (memory->mapping_nr && memory->mapping[memory->mapping_nr - 1].end > mapping.start)
		return 0; /* a line that was read while the mappings changed */
	return memory->mapping_nr < MAPPINGS_MOST ? array_push(memory, mapping, mapping) : 0;
}

/* The file from its begin, as it is now: what stdio has kept of it goes. */
static void begin_maps(FILE *maps)
{
	lseek(fileno(maps), 0, SEEK_SET);
	__fpurge(maps);
	clearerr(maps);
}

static int read_target_mappings(struct target_memory *memory)
{
	FILE *maps = ((struct target_files *)memory->process)->maps;
	struct target_memory read = {};
	struct maps_line parsed;
	char *line = NULL;
	size_t alloc = 0;
	int err = 0;

	begin_maps(maps);
	while (!err && getline(&line, &alloc, maps) > 0)
		if (maps_parse_line(line, &parsed))
			err = keep_mapping(&read, &parsed);
	free(line);
	if (!err && !read.mapping_nr)
		err = -ESRCH; /* the program has ended */
	if (!err) {
		free(memory->mapping);
		memory->mapping = read.mapping;
		memory->mapping_nr = read.mapping_nr;
		memory->mapping_alloc = read.mapping_alloc;
	} else {
		free(read.mapping);
	}
	return err;
}

/* ---- Python ---- */

/* The load bias of an ELF file that is mapped there from its begin on. */
static int read_bias(int fd, uint64_t start, uint64_t *ret)
{
	Elf64_Ehdr head;
	Elf64_Phdr part;

	if (pread(fd, &head, sizeof(head), 0) != sizeof(head))
		return -ENOEXEC;
	for (unsigned int i = 0; i < head.e_phnum; i++) {
		if (pread(fd, &part, sizeof(part), head.e_phoff + i * sizeof(part)) != sizeof(part))
			return -ENOEXEC;
		if (part.p_type == PT_LOAD && part.p_offset < TARGET_PAGE) {
			*ret = start - (part.p_vaddr & -(uint64_t)TARGET_PAGE);
			return 0;
		}
	}
	return -ENOEXEC;
}

static int add_python(struct target_memory *memory, int fd, uint64_t start, struct census *census)
{
	struct python_info info;
	struct reason why;
	uint64_t bias;
	int err = fd < 0 ? -ENOENT : python_info_read(fd, NULL, &info, &why);

	if (err)
		return err == -ENOMEM ? err : 0; /* it is no CPython */
	if (!read_bias(fd, start, &bias))
		err = pymalloc_census(memory, &info, bias, census);
	python_info_release(&info);
	return err;
}

static uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * UINT64_C(1000000000) + now.tv_nsec;
}

static char *take_census(int fd[CENSUS_FD_NR], const struct census_order *order)
{
	struct target_files files = { .fd = fd, .maps = fdopen(fd[CENSUS_FD_MAPS], "r") };
	struct target_memory memory = {
		.read = pread_memory, .pages = read_pages, .map = read_target_mappings, .process = &files, .cpu_ns = order->cpu_ns,
	};
	struct census census = {};
	uint64_t begin = monotonic_ns();
	json_t *json = NULL;
	char *text;
	int err = files.maps ? read_target_mappings(&memory) : -ENOMEM;

	if (err == -ESRCH)
		err = 0; /* nothing is mapped: no heap is found */
	err = err ?: heap_census(&memory, &census);
	err = err ?: add_python(&memory, fd[CENSUS_FD_PYTHON], order->python_start, &census);
	census.read_ns = monotonic_ns() - begin;
	if (!err)
		json = census_to_json(&census);
	text = json ? json_dumps(json, JSON_COMPACT) : NULL;
	json_decref(json);
	census_release(&census);
	free(memory.mapping);
	return text;
}

void census_read_and_answer(int socket)
{
	const struct channel channel = { .fd = socket };
	struct census_order order = {};
	int fd[CENSUS_FD_NR];
	struct iovec piece;
	char *text;

	for (size_t i = 0; i < CENSUS_FD_NR; i++) {
		struct message head;

		if (channel__head(&channel, &head, &fd[i]) || (fd[i] < 0 && i != CENSUS_FD_PYTHON) || head.bytes != sizeof(order) ||
		    channel__receive(&channel, &order, sizeof(order)))
			return;
	}
	text = take_census(fd, &order);
	piece = (struct iovec){ text, text ? strlen(text) : 0 };
	channel__send(&channel, CENSUS_ANSWER, &piece, 1, -1);
	free(text);
}
