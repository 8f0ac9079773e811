// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "inject/found_samplers.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "exact/books.h"
#include "inject/inject_private.h"
#include "inject/sampler_image.h"
#include "process/proc.h"

/* ---- call gate ---- */

/*
 * Finds the call gate in the two files that stay mapped as long as the program runs: its dynamic linker, or the program
 * itself if it is static. Both come from the kernel's own word about them (AT_BASE, AT_ENTRY).
 */

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

/* ---- found samplers ---- */

#define MAPPED_NAME(name) "/memfd:" name
#define ADDRESS_LIMIT (UINT64_C(1) << 47)
#define FILES_MAX 64 /* four for each recording; more if threads may return into files of earlier recordings */

/* ---- one file ---- */

static bool has_mapped_name(const char *path, const char *mapped_name)
{
	return !strncmp(path, mapped_name, strlen(mapped_name));
}

bool is_books(const struct maps_line *line)
{
	return has_mapped_name(line->path, MAPPED_NAME(INJECT_BOOKS_NAME));
}

static bool has_code_name(const char *path)
{
	return has_mapped_name(path, MAPPED_NAME(INJECT_FILE_NAME)) || has_mapped_name(path, MAPPED_NAME(INJECT_HOOKS_NAME));
}

static bool is_page_range(uint64_t start, uint64_t end)
{
	return !(start % PAGE_BYTES) && !(end % PAGE_BYTES) && start < end && end <= ADDRESS_LIMIT;
}

static bool are_hooks(const struct injected_table *table)
{
	return !memcmp(table->magic, INJECTED_HOOKS_MAGIC, sizeof(table->magic));
}

/* A table of any version has all that hooks need. */
static bool are_sound_hooks(const struct injected_table *table)
{
	uint64_t books = table->books_end - table->books_start;

	for (uint32_t i = 0; i < table->word_nr && i < INJECTED_WORDS_MAX; i++)
		if (table->word[i].address % sizeof(uint64_t) || table->word[i].address >= ADDRESS_LIMIT ||
		    table->word[i].put < table->start || table->word[i].put >= table->text_end)
			return false;
	return (!table->page_nr || !table->word_nr) && table->word_nr <= INJECTED_WORDS_MAX &&
	       is_page_range(table->books_start, table->books_end) &&
	       (table->books_end <= table->start || table->books_start >= table->text_end) && table->off_at < books &&
	       table->inside_at < books && table->inside_nr <= INJECTED_SLOTS_MAX && table->inside_step >= sizeof(uint64_t) &&
	       table->inside_step <= books;
}

/* A table of any version has the members up to the pages. Those behind them are of this version, or empty. */
static bool is_sound_table(struct injected_table *table)
{
	bool is_sampler = !memcmp(table->magic, INJECTED_MAGIC, sizeof(table->magic));

	if (!is_page_range(table->start, table->end) || table->text_end <= table->start || table->text_end > table->end ||
	    table->page_nr > INJECTED_PAGES_MAX || (!is_sampler && (!are_hooks(table) || !are_sound_hooks(table))))
		return false;
	if (is_sampler)
		table->word_nr = table->books_start = table->books_end = table->inside_nr = 0;
	for (uint32_t i = 0; i < table->page_nr; i++)
		if (!is_page_range(table->page[i].address, table->page[i].address + PAGE_BYTES) ||
		    table->page[i].parked < table->start || table->page[i].parked + PAGE_BYTES > table->end ||
		    table->page[i].parked % PAGE_BYTES)
			return false;
	if (table->version != INJECTED_VERSION || table->word_nr)
		table->function_nr = table->moved_nr = table->slot_nr = 0;
	return table->function_nr <= INJECTED_SITES && table->moved_nr <= INJECTED_MOVED_MAX &&
	       table->slot_nr <= INJECTED_SLOTS_MAX;
}

/* The file must be sealed: then no process changes it any more. */
static int read_injected_table(int fd, struct injected_table *ret)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	memset(ret, 0, sizeof(*ret));
	if (seals < 0 || !(seals & F_SEAL_WRITE) || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) ||
	    st.st_size < INJECTED_TABLE_BYTES || st.st_size % PAGE_BYTES)
		return -ENOENT;
	if (pread(fd, ret, sizeof(*ret), st.st_size - INJECTED_TABLE_BYTES) != sizeof(*ret))
		return -EIO;
	return is_sound_table(ret) ? 0 : -ENOENT;
}

bool read_injected_copies(int fd, uint64_t *ret_offset, uint64_t *ret_original)
{
	struct injected_table table;
	struct stat st;

	if (read_injected_table(fd, &table) || !table.page_nr || fstat(fd, &st))
		return false;
	*ret_offset = st.st_size - INJECTED_TABLE_BYTES - table.page_nr * PAGE_BYTES;
	*ret_original = table.page[0].parked;
	return true;
}

bool found_sampler_has_page(const struct found_sampler *sampler, const struct target_maps *maps, uint32_t page)
{
	const struct maps_line *line = target_maps_find(maps, sampler->table.page[page].address);

	return line && line->dev == sampler->dev && line->inode == sampler->inode;
}

uint64_t found_sampler_word(pid_t pid, const struct found_sampler *sampler, uint32_t word)
{
	uint64_t value;
	struct iovec ours = { &value, sizeof(value) }, theirs = { (void *)sampler->table.word[word].address, sizeof(value) };

	return process_vm_readv(pid, &ours, 1, &theirs, 1, 0) == sizeof(value) ? value : UINT64_MAX;
}

static int add_sampler(pid_t pid, const struct target_maps *maps, const struct maps_line *line, struct found_samplers *ret,
		       struct reason *why)
{
	struct found_sampler sampler = { .dev = line->dev, .inode = line->inode };
	int fd, err = open_mapping(pid, line, &fd);

	if (err)
		return reason_set(why, err == -ENOENT ? -EAGAIN : -EPERM, "%s cannot be read", line->path);
	err = read_injected_table(fd, &sampler.table);
	close(fd);
	if (err == -ENOENT)
		return 0;
	if (err)
		return reason_set(why, err, "%s cannot be read: %s", line->path, strerror(-err));
	for (uint32_t i = 0; i < sampler.table.page_nr; i++)
		sampler.is_active |= found_sampler_has_page(&sampler, maps, i);
	for (uint32_t i = 0; i < sampler.table.word_nr; i++)
		sampler.is_active |= found_sampler_word(pid, &sampler, i) == sampler.table.word[i].put;
	sampler.kind = !are_hooks(&sampler.table) ? INJECT_SAMPLER : sampler.table.page_nr ? INJECT_MALLOC_HOOKS : INJECT_HOOKS;
	return array_push(ret, sampler, sampler);
}

static bool is_known_sampler(const struct found_samplers *found, const struct maps_line *line)
{
	return array_any(found->sampler_nr, i,
			 found->sampler[i].inode == line->inode && found->sampler[i].dev == line->dev);
}

int found_samplers_read(pid_t pid, const struct target_maps *maps, struct found_samplers *ret, struct reason *why)
{
	unsigned int file_nr = 0;
	int err = 0;

	*ret = (struct found_samplers){};
	for (size_t i = 0; i < maps->line_nr && !err; i++) {
		const struct maps_line *line = &maps->line[i];

		if (!has_code_name(line->path) || is_known_sampler(ret, line))
			continue;
		err = ++file_nr > FILES_MAX ?
			      reason_set(why, -E2BIG, "more than %d files have the name of a sampler", FILES_MAX) :
			      add_sampler(pid, maps, line, ret, why);
	}
	if (err)
		found_samplers_release(ret);
	return err;
}

void found_samplers_release(struct found_samplers *found)
{
	free(found->sampler);
	*found = (struct found_samplers){};
}

int left_file(pid_t pid)
{
	char path[64], link[64];
	struct dirent *entry;
	int found = -1;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	while (dir && found < 0 && (entry = readdir(dir))) {
		ssize_t bytes = readlinkat(dirfd(dir), entry->d_name, link, sizeof(link) - 1);

		link[bytes > 0 ? bytes : 0] = '\0';
		if (has_code_name(link) || has_mapped_name(link, MAPPED_NAME(INJECT_BOOKS_NAME)))
			found = atoi(entry->d_name);
	}
	if (dir)
		closedir(dir);
	return found;
}

/* ---- the answer ---- */

static bool is_running(pid_t pid, uint64_t start_time)
{
	uint64_t is;

	return pid > 0 && !proc_start_time(pid, &is) && is == start_time && proc_live_thread(pid);
}

/* A debugger's breakpoint may lie on the first byte. */
static bool has_jump(pid_t pid, const struct injected_table *table, uint64_t function)
{
	uint8_t jump[ENTRY_JUMP_BYTES], code[ENTRY_JUMP_BYTES];
	struct iovec ours = { code, sizeof(code) }, theirs = { (void *)table->function[function].entry, sizeof(code) };

	if (!injected_jump(table, function, jump) || process_vm_readv(pid, &ours, 1, &theirs, 1, 0) != sizeof(code))
		return true; /* unknown: no jump to compare, or no memory to read */
	return !memcmp(code + 1, jump + 1, sizeof(code) - 1);
}

/* Whether each function that should call it does, and no pointer is the one that was there before. */
static bool is_called_by_all(pid_t pid, const struct target_maps *maps, const struct found_sampler *sampler)
{
	const struct injected_table *table = &sampler->table;

	for (uint32_t i = 0; i < table->page_nr; i++)
		if (!found_sampler_has_page(sampler, maps, i))
			return false;
	return !array_any(table->function_nr, i, !has_jump(pid, table, i)) &&
	       !array_any(table->word_nr, i, found_sampler_word(pid, sampler, i) == table->word[i].was);
}

/* Whether a sampler that is active belongs to others that are not. */
static bool is_one_of_more(const struct found_samplers *found, const struct found_sampler *active)
{
	for (size_t i = 0; i < found->sampler_nr; i++) {
		const struct injected_table *table = &found->sampler[i].table;

		if (!found->sampler[i].is_active && active->kind != INJECT_HOOKS && found->sampler[i].kind == active->kind &&
		    table->owner == active->table.owner && table->owner_start_time == active->table.owner_start_time)
			return true;
	}
	return false;
}

static void describe_samplers(pid_t pid, const struct target_maps *maps, const struct found_samplers *found,
			      struct inject_found *ret)
{
	*ret = (struct inject_found){};
	for (size_t i = 0; i < found->sampler_nr; i++) {
		const struct injected_table *table = &found->sampler[i].table;

		if (ret->is_active && !found->sampler[i].is_active)
			continue; /* what is active says more */
		if (found->sampler[i].is_active && !ret->is_active)
			*ret = (struct inject_found){ .is_active = true };
		ret->kind = found->sampler[i].kind;
		ret->version = table->version;
		ret->allocator_nr++;
		ret->owner = table->owner;
		ret->owner_is_running = is_running(table->owner, table->owner_start_time);
		ret->interval = table->interval;
		ret->function_nr += table->function_nr + table->word_nr;
		ret->is_unfinished |= ret->is_active && !ret->owner_is_running &&
				      (!is_called_by_all(pid, maps, &found->sampler[i]) || is_one_of_more(found, &found->sampler[i]));
	}
}

static int find_in_maps(pid_t pid, const struct target_maps *maps, struct inject_found *ret, struct reason *why)
{
	struct found_samplers found;
	int err = found_samplers_read(pid, maps, &found, why);

	*ret = (struct inject_found){};
	if (!err && !found.sampler_nr)
		err = reason_set(why, -ENOENT, "process %d has no injected sampler, and no hooks", pid);
	if (!err)
		describe_samplers(pid, maps, &found, ret);
	found_samplers_release(&found);
	return err;
}

int inject_find(pid_t pid, struct inject_found *ret, struct reason *why)
{
	struct target_maps maps;
	int err = target_maps_read(pid, &maps);

	*ret = (struct inject_found){};
	if (err)
		return reason_set(why, err, "process %d: %s", pid, err == -ESRCH ? "it has ended" : strerror(-err));
	err = find_in_maps(pid, &maps, ret, why);
	target_maps_release(&maps);
	return err;
}

const char *inject_kind_text(enum inject_kind kind)
{
	return kind == INJECT_SAMPLER ? "an injected sampler" : "hooks of an exact recording";
}

/* ---- its files ---- */

static bool is_file_of(const struct stat *st, uint64_t dev, uint64_t inode)
{
	return st->st_ino == inode && ((uint64_t)major(st->st_dev) << 32 | minor(st->st_dev)) == dev;
}

static bool has_file_of_kind(pid_t pid, enum inject_kind kind, const struct inject_file *file)
{
	struct injected_file built;
	char path[96];
	struct stat st;

	if (injected_file_open(kind, &built))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, pid, file->start,
		 file->start + built.segment[0].bytes);
	return !stat(path, &st) && is_file_of(&st, file->dev, file->inode);
}

bool inject_has_file(pid_t pid, const struct inject_file *file)
{
	for (int kind = 0; kind < INJECT_KIND_NR; kind++)
		if (has_file_of_kind(pid, kind, file))
			return true;
	return false;
}

/* A memory file of this size that no process can cut, so that no access to it fails. */
static int check_books(int fd, const struct inject_books *books)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	return is_file_of(&st, books->dev, books->inode) && seals >= 0 && seals & F_SEAL_SHRINK &&
	       (uint64_t)st.st_size == BOOKS_BYTES ? 0 : -ENOENT;
}

int inject_open_books(pid_t pid, const struct inject_books *books, int *ret_fd)
{
	char path[96];
	struct stat st;
	int err;

	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, pid, books->start, books->end);
	if (stat(path, &st))
		return -errno;
	if (!is_file_of(&st, books->dev, books->inode) || !S_ISREG(st.st_mode))
		return -ENOENT;
	*ret_fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (*ret_fd < 0)
		return -errno;
	err = check_books(*ret_fd, books);
	if (err) {
		close(*ret_fd);
		*ret_fd = -1;
	}
	return err;
}

uint32_t inject_files(pid_t pid, struct inject_file ret[INJECT_ALLOCATORS_MAX])
{
	struct found_samplers found = {};
	struct target_maps maps;
	uint32_t nr = 0;

	if (target_maps_read(pid, &maps))
		return 0;
	if (found_samplers_read(pid, &maps, &found, NULL))
		found = (struct found_samplers){};
	for (size_t i = 0; i < found.sampler_nr && nr < INJECT_ALLOCATORS_MAX; i++) {
		const struct found_sampler *sampler = &found.sampler[i];

		if (sampler->table.owner == getpid())
			ret[nr++] = (struct inject_file){ sampler->table.start, sampler->dev, sampler->inode };
	}
	found_samplers_release(&found);
	target_maps_release(&maps);
	return nr;
}
