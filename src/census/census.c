// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "census/census.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/units.h"
#include "census/census_json.h"
#include "census/glibc_heap.h"
#include "census/pymalloc.h"
#include "census/target_memory.h"
#include "process/pagemap.h"
#include "process/proc.h"
#include "elf/python/python_info.h"
#include "helper/helper.h"
#include "sandbox/seccomp.h"

/* ---- orders and answers ---- */

/*
 * A helper reads the memory of the other process. It has no privileges, as the sandbox (sandbox/seccomp.h): only
 * descriptors of /proc/PID/mem, pagemap and maps, and of Python's file, which were opened for it, and a socket for its
 * answer.
 */

#define MEMORY_BYTES (4ull << 30)
#define MAPPINGS_MOST (1u << 20)
#define MOVED_LEAST (UINT64_C(1) << 20) /* reading maps some pages of files: so few bytes say nothing */
#define CPU_MARGIN_S 30 /* an honest reader has stopped before */

struct census_order {
	uint64_t cpu_ns;
	uint64_t python_start; /* where the file of CENSUS_FD_PYTHON is mapped from its begin on */
};

enum census_fd {
	CENSUS_FD_MEMORY,
	CENSUS_FD_PAGES,
	CENSUS_FD_MAPS,
	CENSUS_FD_PYTHON, /* the program or library that may be CPython; -1: none */
	CENSUS_FD_NR,
};

/* An answer is JSON (census_json.h), or a message without bytes: out of memory. */
enum { CENSUS_ORDER, CENSUS_ANSWER };

/* ---- in the reader: memory ---- */

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
	return read_page_words(((struct target_files *)process)->fd[CENSUS_FD_PAGES], address, entry, nr);
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

/* ---- in the reader: Python ---- */

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

static char *read_census(const int fd[CENSUS_FD_NR], const struct census_order *order)
{
	struct target_files files = { .fd = fd, .maps = fdopen(fd[CENSUS_FD_MAPS], "r") };
	struct target_memory memory = {
		.read = pread_memory, .pages = read_pages, .map = read_target_mappings, .process = &files, .cpu_ns = order->cpu_ns,
	};
	struct census census = {};
	uint64_t begin = monotonic_now_ns();
	json_t *json = NULL;
	char *text;
	int err = files.maps ? read_target_mappings(&memory) : -ENOMEM;

	if (err == -ESRCH)
		err = 0; /* nothing is mapped: no heap is found */
	err = err ?: heap_census(&memory, &census);
	err = err ?: add_python(&memory, fd[CENSUS_FD_PYTHON], order->python_start, &census);
	census.read_ns = monotonic_now_ns() - begin;
	if (!err)
		json = census_to_json(&census);
	text = json ? json_dumps(json, JSON_COMPACT) : NULL;
	json_decref(json);
	census_release(&census);
	free(memory.mapping);
	return text;
}

static int read_and_answer(void *options, int)
{
	const uint64_t cpu_s = ((const struct census_options *)options)->cpu_ns / SECOND_NS + CPU_MARGIN_S;
	const struct channel channel = { .fd = CHILD_FD };
	struct census_order order;
	int fd[CENSUS_FD_NR];
	struct message head;
	struct iovec piece;
	char *text;

	if (setrlimit(RLIMIT_CPU, &(struct rlimit){ cpu_s, cpu_s }) || confine_to_reading(MEMORY_BYTES) ||
	    channel__head_fds(&channel, &head, fd, CENSUS_FD_NR) || fd[CENSUS_FD_MAPS] < 0 ||
	    head.bytes != sizeof(order) || channel__receive(&channel, &order, sizeof(order)))
		return 127;
	text = read_census(fd, &order);
	piece = (struct iovec){ text, text ? strlen(text) : 0 };
	channel__send(&channel, CENSUS_ANSWER, &piece, 1, -1);
	return 0;
}

static int start_reader(const struct census_options *options, struct helper *ret)
{
	json_object_seed(0); /* the reader could not open the kernel's random numbers */
	return helper__start(&(struct helper_plan){
		.name = "allocsnap-heap",
		.shown = "allocsnap: reads the heap of a process, without privileges",
		.is_killed = true,
		.give_up = confine_drop_rights,
		.work = read_and_answer,
		.self = (void *)options,
	}, ret);
}

/* ---- what the reader gets ---- */

static int open_proc_file(pid_t pid, const char *name, struct reason *why)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	if (errno == ENOENT || errno == ESRCH)
		return reason_set(why, -ESRCH, "there is no such process");
	if (errno == EACCES || errno == EPERM)
		return reason_set(why, -EACCES, "its memory may not be read: that needs root, or CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH");
	return reason_set(why, -errno, "%s: %s", path, strerror(errno));
}

static bool has_base_name(const char *path, const char *begin)
{
	const char *slash = strrchr(path, '/');

	return slash && !strncmp(slash + 1, begin, strlen(begin));
}

/* Finds the first mapping of a file that has the name of a library of Python, or else of a Python program. */
static bool find_python(pid_t pid, struct maps_line *ret)
{
	FILE *maps = proc_open(pid, "maps");
	struct maps_line line;
	bool is_found = false;
	char *text = NULL;
	size_t alloc = 0;

	while (maps && getline(&text, &alloc, maps) > 0) {
		bool is_library;

		if (!maps_parse_line(text, &line) || line.offset)
			continue;
		is_library = has_base_name(line.path, "libpython");
		if (!is_library && (is_found || !has_base_name(line.path, "python")))
			continue;
		*ret = line;
		is_found = true;
		if (is_library)
			break;
	}
	free(text);
	if (maps)
		fclose(maps);
	ret->path = "";
	return is_found;
}

/* Opens a file of Python. Files that are not named as one are not opened. -1: no file was opened. */
static int open_python(pid_t pid, uint64_t *ret_start)
{
	struct maps_line line;
	char path[96];

	if (!find_python(pid, &line))
		return -1;
	*ret_start = line.start;
	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, pid, line.start, line.end);
	return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

static int open_census_files(pid_t pid, int ret_fd[CENSUS_FD_NR], struct census_order *order, struct reason *why)
{
	static const char *const names[] = {
		[CENSUS_FD_MEMORY] = "mem", [CENSUS_FD_PAGES] = "pagemap", [CENSUS_FD_MAPS] = "maps",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		ret_fd[i] = open_proc_file(pid, names[i], why);
		if (ret_fd[i] < 0)
			return ret_fd[i];
	}
	ret_fd[CENSUS_FD_PYTHON] = open_python(pid, &order->python_start);
	return 0;
}

static int send_files(pid_t pid, const struct channel *channel, const struct census_options *options, struct reason *why)
{
	struct census_order order = { .cpu_ns = options->cpu_ns };
	int fd[CENSUS_FD_NR] = { -1, -1, -1, -1 };
	int err = open_census_files(pid, fd, &order, why);

	if (!err) {
		err = channel__send_fds(channel, CENSUS_ORDER, &(struct iovec){ &order, sizeof(order) }, 1, fd,
					fd[CENSUS_FD_PYTHON] < 0 ? CENSUS_FD_PYTHON : CENSUS_FD_NR);
		if (err)
			reason_set(why, err, "the process that reads its memory has ended");
	}
	for (size_t i = 0; i < CENSUS_FD_NR; i++)
		if (fd[i] >= 0)
			close(fd[i]);
	return err;
}

/* ---- what the reader answers ---- */

static int receive_census(const struct channel *channel, struct census *ret, struct reason *why)
{
	struct message head;
	char *text = NULL;
	int err = channel__head(channel, &head, NULL);

	if (!err && head.kind == CENSUS_ANSWER && !head.bytes)
		return reason_set(why, -ENOMEM, "out of memory while its memory was read");
	if (!err && (head.kind != CENSUS_ANSWER || head.bytes > CENSUS_JSON_MOST))
		err = -EPROTO;
	text = err ? NULL : malloc(head.bytes);
	if (!err && !text)
		return reason_set(why, -ENOMEM, "out of memory");
	err = err ?: channel__receive(channel, text, head.bytes);
	if (err)
		reason_set(why, -EIO, "the process that reads its memory has failed");
	else
		err = census_from_text(text, head.bytes, ret, why);
	free(text);
	return err;
}

/* ---- what only this process knows ---- */

static uint64_t resident_bytes_of(pid_t pid)
{
	char *statm = proc_text(pid, "statm");
	unsigned long long pages = 0;

	if (!statm || sscanf(statm, "%*u %llu", &pages) != 1)
		pages = 0;
	free(statm);
	return pages * sysconf(_SC_PAGESIZE);
}

static void read_census_identity(pid_t pid, uint64_t resident_before, struct census *census)
{
	char *comm = proc_text(pid, "comm");
	struct timespec now;
	uint64_t moved;

	clock_gettime(CLOCK_REALTIME, &now);
	census->pid = pid;
	census->time_ns = now.tv_sec * SECOND_NS + now.tv_nsec;
	clean_text(census->name, sizeof(census->name), comm ?: "");
	census->resident_bytes = resident_bytes_of(pid);
	moved = census->resident_bytes > resident_before ? census->resident_bytes - resident_before :
							    resident_before - census->resident_bytes;
	if (moved >= MOVED_LEAST)
		census->loss[CENSUS_LOSS_RESIDENT_MOVED] += moved;
	free(comm);
}

int census_take(pid_t pid, const struct census_options *options, struct census *ret, struct reason *why)
{
	uint64_t resident_before = resident_bytes_of(pid);
	struct helper reader;
	int err = start_reader(options, &reader);

	*ret = (struct census){};
	if (err)
		return reason_set(why, err, "cannot start the process that reads its memory: %s", strerror(-err));
	err = send_files(pid, &reader.channel, options, why) ?: receive_census(&reader.channel, ret, why);
	helper__end(&reader, SIGKILL);
	if (!err)
		read_census_identity(pid, resident_before, ret);
	return err;
}

/* ---- taking a census ---- */

#define SMALLEST_CHUNK 32
#define CHUNK_STEP 16
#define LARGEST_EXACT (SMALLEST_CHUNK + CHUNK_STEP * (CENSUS_EXACT_CLASSES - 1))
#define FIRST_POWER 11

const char *const census_state_names[CENSUS_STATE_NR] = {
#define X(NAME, name) [CENSUS_##NAME] = #name,
	CENSUS_STATES(X)
#undef X
};

const char *const census_loss_names[CENSUS_LOSS_NR] = {
#define X(NAME, name, text) [CENSUS_LOSS_##NAME] = #name,
	CENSUS_LOSSES(X)
#undef X
};

const char *const census_loss_texts[CENSUS_LOSS_NR] = {
#define X(NAME, name, text) [CENSUS_LOSS_##NAME] = text,
	CENSUS_LOSSES(X)
#undef X
};

size_t census_class_of(uint64_t chunk_bytes)
{
	size_t class = CENSUS_EXACT_CLASSES;

	if (chunk_bytes <= SMALLEST_CHUNK)
		return 0;
	if (chunk_bytes <= LARGEST_EXACT)
		return (chunk_bytes - SMALLEST_CHUNK + CHUNK_STEP - 1) / CHUNK_STEP;
	while (class < CENSUS_CLASS_NR - 1 && chunk_bytes > census_class_most(class))
		class++;
	return class;
}

uint64_t census_class_most(size_t class)
{
	if (class < CENSUS_EXACT_CLASSES)
		return SMALLEST_CHUNK + class * CHUNK_STEP;
	return UINT64_C(1) << (FIRST_POWER + class - CENSUS_EXACT_CLASSES);
}

void census_add_count(struct census_count *to, const struct census_count *more)
{
	to->count += more->count;
	to->bytes += more->bytes;
}

void census_add_up(const struct census *census, struct census_sum *ret)
{
	struct census_sum sum = { .in_use = census->mmapped.told };

	for (size_t i = 0; i < census->arena_nr; i++) {
		const struct census_arena *arena = &census->arena[i];

		for (enum census_state s = 0; s < CENSUS_STATE_NR; s++) {
			census_add_count(&sum.state[s], &arena->state[s]);
			census_add_count(s == CENSUS_IN_USE ? &sum.in_use : &sum.free, &arena->state[s]);
		}
		for (size_t c = 0; c < CENSUS_CLASS_NR; c++) {
			census_add_count(&sum.class[c].in_use, &arena->class[c].in_use);
			census_add_count(&sum.class[c].cached, &arena->class[c].cached);
			census_add_count(&sum.class[c].free, &arena->class[c].free);
		}
		sum.system_bytes += arena->system_bytes;
		sum.overhead_bytes += arena->overhead_bytes;
		sum.unwalked_bytes += arena->unwalked_bytes;
		sum.absent_bytes += arena->absent_bytes;
		sum.resident_bytes += arena->resident_bytes;
		sum.trimmable_bytes += arena->trimmable_bytes;
	}
	for (size_t c = 0; c < CENSUS_CLASS_NR; c++)
		census_add_count(&sum.class[c].in_use, &census->mmapped.class[c]);
	*ret = sum;
}

uint64_t census_unknown_bytes(const struct census *census)
{
	return census->loss[CENSUS_LOSS_BYTES_UNWALKED] + census->loss[CENSUS_LOSS_RESIDENT_MOVED];
}

void census_release(struct census *census)
{
	free(census->arena);
	free(census->python.type);
	*census = (struct census){};
}
