// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/reason.h"
#include "base/signals.h"
#include "base/units.h"
#include "exact/books.h"
#include "inject/found_samplers.h"
#include "inject/inject_private.h"
#include "inject/target_maps.h"
#include "process/mapped_file.h"
#include "process/proc.h"
#include "elf/allocators.h"
#include "elf/probe_info.h"
#include "sandbox/client.h"

/* ---- plan code ---- */

/* Reads the code of the process, and of its files. */

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

/* A breakpoint is most likely a uprobe's. The function in which it lies is marked as probed. */
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

/* Reads the pages that will be replaced; the caller frees *ret. 0, -EIO or -ENOMEM. */
static int read_original_pages(int fd, const struct inject_allocator *allocator, uint8_t **ret, struct reason *why)
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

/* ---- plan checks ---- */

/* Reasons not to inject that show without reading code. */

/* ---- the kernel and the process ---- */

/* The first line of a small file; "" if the file has none or cannot be read. */
static void read_line(const char *path, char *ret, size_t room)
{
	FILE *file = fopen(path, "re");

	if (!file || !fgets(ret, room, file))
		*ret = '\0';
	if (file)
		fclose(file);
}

static int check_kernel(struct reason *why)
{
	char lockdown[80], selinux[8], ptrace_scope[8];
	struct utsname name;

	if (uname(&name))
		return reason_set(why, -errno, "uname: %s", strerror(errno));
	read_line("/sys/kernel/security/lockdown", lockdown, sizeof(lockdown));
	read_line("/sys/fs/selinux/enforce", selinux, sizeof(selinux));
	read_line("/proc/sys/kernel/yama/ptrace_scope", ptrace_scope, sizeof(ptrace_scope));
	return judge_kernel(&(struct kernel_texts){ name.release, lockdown, selinux, ptrace_scope }, why);
}

int check_target_process(pid_t pid, struct reason *why)
{
	int err = check_kernel(why);
	char *status;

	if (err)
		return err;
	if (pid == getpid())
		return reason_set(why, -ENOTSUP, "this is allocsnap itself");
	status = proc_read(pid, "status", NULL);
	if (!status)
		return reason_set(why, errno == ENOENT || errno == ESRCH ? -ESRCH : -errno, "process %d: %s", pid,
				  errno == ENOENT ? "it does not exist" : strerror(errno));
	err = judge_target(pid, status, why);
	free(status);
	if (err == -ESRCH && proc_live_thread(pid))
		return reason_set(why, -ENOTSUP, "its first thread has ended, while others run");
	return err;
}

/* ---- what is in it ---- */

struct foreign_library {
	const char *file; /* fnmatch(3) pattern of its base name */
	const char *what;
};

/* They replace malloc for the program, or change its entries while the program runs. */
static const struct foreign_library foreign_libraries[] = {
	{ "libasan.so*", "AddressSanitizer" },
	{ "libclang_rt.*", "a sanitizer" },
	{ "libhwasan.so*", "HWAddressSanitizer" },
	{ "liblsan.so*", "LeakSanitizer" },
	{ "libtsan.so*", "ThreadSanitizer" },
	{ "libheaptrack_*.so*", "heaptrack" },
	{ "libdd_profiling*.so*", "ddprof" },
	{ "vgpreload_*.so*", "valgrind" },
	{ "_memray*.so", "memray" },
	{ "_inject*.so", "memray" },
	{ "libbytehound*.so*", "bytehound" },
	{ "libmemleak*.so*", "another profiler" },
	{ "libefence.so*", "Electric Fence" },
	{ "libduma.so*", "DUMA" },
};

/* Whether a library or a program is one that replaces the allocator or watches it. */
static int check_target_library(const char *path, struct reason *why)
{
	const char *name = path_name(path);

	for (size_t i = 0; i < ARRAY_SIZE(foreign_libraries); i++)
		if (!fnmatch(foreign_libraries[i].file, name, 0))
			return reason_set(why, -EEXIST, "its allocator belongs to %s (%s)", foreign_libraries[i].what,
					  name);
	return 0;
}

/* ---- its room ---- */

/* The kernel moves a mapping only if there is room for some more: the pieces into which it may cut the others. */
#define NR_TO_MOVE 8
/* A page in the middle of a mapping, and its copy, or what is kept, in the middle of another one. */
#define NR_OF_PAGE 4

struct mappings_needed mappings_to_eject(void)
{
	return (struct mappings_needed){ .nr = NR_TO_MOVE, .bytes = PAGE_BYTES };
}

/* The segments, with unused pages between and behind them; the books, and a part of the data that is told apart. */
void add_mappings_needed(const struct injected_file *file, const struct injected_table *table, struct mappings_needed *needed)
{
	needed->nr += 2 * file->segment_nr + 1 + NR_OF_PAGE * table->page_nr + (table->books_start ? 3 : 0);
	needed->bytes += table->end - table->start + (has_books_apart(table) ? table->books_end - table->books_start : 0);
	for (uint32_t k = 0; k < file->segment_nr; k++)
		needed->data_bytes += file->segment[k].prot & PROT_WRITE ? file->segment[k].bytes : 0;
}

int check_room_for_mappings(pid_t pid, const struct target_maps *maps, const struct mappings_needed *needed,
			    struct reason *why)
{
	char max_map_count[32], *limits = proc_read(pid, "limits", NULL);
	int err;

	read_line("/proc/sys/vm/max_map_count", max_map_count, sizeof(max_map_count));
	err = judge_room(maps, needed, max_map_count, limits ?: "", why);
	free(limits);
	return err;
}

int inject_check_books(pid_t pid, struct reason *why)
{
	struct mappings_needed needed = mappings_to_eject();
	struct target_maps maps = {};
	int err = inject_check_overcommit(why);

	if (err)
		return err;
	needed.bytes += BOOKS_BYTES;
	err = target_maps_read(pid, &maps);
	err = err ? reason_set(why, err, "process %d: %s", pid, strerror(-err)) : check_room_for_mappings(pid, &maps, &needed, why);
	target_maps_release(&maps);
	return err;
}

/* ---- plan functions ---- */

static const struct allocator_function *row_of_patch(const struct entry_patch *patch)
{
	return &allocator_functions[patch->name];
}

/* Whether the file has functions that give blocks and functions that free them. */
static bool has_allocator(const struct entry_patches *patches)
{
	bool gives = false, takes = false;

	for (uint64_t i = 0; i < patches->nr; i++) {
		gives |= row_of_patch(&patches->patch[i])->shape == SHAPE_MALLOC;
		takes |= row_of_patch(&patches->patch[i])->shape == SHAPE_FREE;
	}
	return gives && takes;
}

/* ---- the choice ---- */

enum choice {
	CHOICE_PATCH,
	CHOICE_PASS,   /* it calls another function that is patched */
	CHOICE_UNSEEN, /* its blocks are not sampled */
	CHOICE_REFUSE, /* it frees blocks */
};

/*
 * A function that throws calls the language's runtime, so its callers expect any register to change that a callee may
 * change. One that goes nowhere throws nothing, and its callers may know which registers it leaves alone.
 */
static bool may_throw(const struct entry_patch *patch)
{
	return row_of_patch(patch)->throws && patch->goes_out;
}

/* The name of the variant of operator new that returns NULL instead of throwing. */
/* Its index in the plan so far, or function_nr. */
static uint32_t find_nothrow(const struct inject_allocator *allocator, const char *name)
{
	char wanted[128];
	uint32_t i = 0;

	snprintf(wanted, sizeof(wanted), "%s%s", name, strncmp(name, "_Zn", 3) ? "_nothrow" : "RKSt9nothrow_t");
	while (i < allocator->function_nr && strcmp(allocator->function[i].name, wanted))
		i++;
	return i;
}

static enum choice choice_of_missed(const struct entry_patch *patch)
{
	enum call_shape shape = row_of_patch(patch)->shape;

	if (shape_takes(shape) && !patch->calls_taker)
		return CHOICE_REFUSE;
	return patch->calls_giver || !shape_gives(shape) ? CHOICE_PASS : CHOICE_UNSEEN;
}

static enum choice choose(const struct inject_allocator *allocator, const struct entry_patch *patch)
{
	const struct allocator_function *row = row_of_patch(patch);

	if (row->shape == SHAPE_XALLOCX) /* the block stays; without a hook it has the size that it had */
		return *patch->fault ? CHOICE_PASS : CHOICE_PATCH;
	if (row->shape == SHAPE_REALLOCARRAY && patch->passes_on) /* perhaps to another allocator, which counts the block */
		return CHOICE_PASS;
	if (*patch->fault)
		return choice_of_missed(patch);
	if (!may_throw(patch))
		return CHOICE_PATCH;
	if (patch->calls_giver || row->shape != SHAPE_MALLOC || row->of_heap ||
	    find_nothrow(allocator, row->name) == allocator->function_nr)
		return choice_of_missed(patch);
	return CHOICE_PATCH;
}

/* ---- sites ---- */

static const uint32_t kind_sites[INJECTED_KIND_NR] = {
	[INJECTED_MALLOC] = INJECTED_MALLOC_SITES,
	[INJECTED_CALLOC] = INJECTED_CALLOC_SITES,
	[INJECTED_FREE] = INJECTED_FREE_SITES,
	[INJECTED_OUTER] = INJECTED_OUTER_SITES,
	[INJECTED_OTHER] = INJECTED_OTHER_SITES,
};

static bool ends_with(const char *text, const char *end)
{
	size_t len = strlen(text), end_len = strlen(end);

	return len >= end_len && !strcmp(text + len - end_len, end);
}

/* The hook of a kind counts without looking at what the function calls. */
static enum injected_kind hook_kind_of(const struct planned_function *function)
{
	const struct entry_patch *patch = &function->patch;
	const struct allocator_function *row = row_of_patch(patch);

	if (row->shape == SHAPE_FREE)
		return INJECTED_FREE;
	if (function->is_above && row->shape == SHAPE_MALLOC && !function->throws && !row->of_heap)
		return INJECTED_OUTER;
	if (patch->calls_giver || row->of_heap || function->is_above)
		return row->shape == SHAPE_MALLOC && !row->of_heap && !function->throws ? INJECTED_OUTER : INJECTED_OTHER;
	if (row->shape == SHAPE_MALLOC)
		return INJECTED_MALLOC;
	return row->shape == SHAPE_CALLOC && ends_with(row->name, "calloc") ? INJECTED_CALLOC : INJECTED_OTHER;
}

/* The next free site; INJECTED_SITES: no site is free. */
static uint32_t take_site(uint32_t used[INJECTED_KIND_NR], enum injected_kind kind)
{
	uint32_t first = 0;

	if (used[kind] == kind_sites[kind])
		kind = INJECTED_OTHER;
	if (used[kind] == kind_sites[kind])
		return INJECTED_SITES;
	for (int i = 0; i < (int)kind; i++)
		first += kind_sites[i];
	return first + used[kind]++;
}

static int plan_sites_of(struct inject_allocator *allocator, struct planned_allocator *planned, bool is_alone,
			 struct reason *why)
{
	uint32_t used[INJECTED_KIND_NR] = {};

	for (uint32_t i = 0; i < allocator->function_nr; i++) {
		struct planned_function *function = &planned->function[i];

		function->is_above = (function->is_above && !is_alone) ||
				     (row_of_patch(&function->patch)->shape == SHAPE_FREE && function->patch.calls_taker);
		function->site = take_site(used, hook_kind_of(function));
		if (function->site == INJECTED_SITES)
			return reason_set(why, -ENOTSUP, "%s has too many functions", allocator->path);
	}
	return 0;
}

/*
 * Gives each function of the plan its site, once all allocators are in it: functions that may call another allocator take
 * the slow path. 0 or -ENOTSUP.
 */
static int plan_sites(struct inject_plan *plan, struct reason *why)
{
	int err = 0;

	for (uint32_t i = 0; i < plan->allocator_nr && !err; i++)
		err = plan_sites_of(&plan->allocator[i], &plan->details->allocator[i], plan->allocator_nr == 1, why);
	return err;
}

/* ---- the plan ---- */

struct planning_functions {
	const struct probe_info *probe_info;
	const char *path; /* of the file, without " (deleted)" */
	struct inject_allocator *allocator;
	struct planned_allocator *planned;
	struct reason *why;
};

/*
 * A C library, and the allocators of the table, take their memory from the kernel. Any other one may take it from them: a
 * library that counts bytes, or adds a header; a program's own malloc.
 */
static bool may_be_above(const struct planning_functions *planning, uint32_t name)
{
	for (uint32_t i = 0; i < planning->probe_info->function_nr; i++)
		if (planning->probe_info->function[i].name == name)
			return !heap_domain(planning->probe_info, i, planning->path) && !allocator_of(planning->path)->is_c_library;
	return true;
}

static void add_planned_function(const struct planning_functions *planning, const struct entry_patch *patch)
{
	const struct allocator_function *row = row_of_patch(patch);
	struct inject_allocator *allocator = planning->allocator;

	planning->planned->function[allocator->function_nr] = (struct planned_function){
		.patch = *patch,
		.throws = may_throw(patch),
		.plain = may_throw(patch) ? find_nothrow(allocator, row->name) : 0,
		.is_above = may_be_above(planning, patch->name),
	};
	allocator->function[allocator->function_nr++] = (struct inject_function){
		.name = row->name, .moved_bytes = entry_patch_moved_bytes(patch), .moved_nr = patch->insn_nr,
	};
}

static int plan_function(const struct planning_functions *planning, const struct entry_patch *patch)
{
	const struct allocator_function *row = row_of_patch(patch);
	struct inject_allocator *allocator = planning->allocator;

	switch (choose(allocator, patch)) {
	case CHOICE_REFUSE:
		return reason_set(planning->why, -ENOTSUP, "%s of %s: %s", row->name, allocator->path,
				  *patch->fault ? patch->fault : "it may throw an exception");
	case CHOICE_UNSEEN:
		allocator->has_unseen_new = true;
		return !strcmp(row->name, "malloc") ?
			       reason_set(planning->why, -ENOTSUP, "malloc of %s: %s", allocator->path, patch->fault) : 0;
	case CHOICE_PASS:
		return 0;
	case CHOICE_PATCH:
		break;
	}
	if (allocator->function_nr == INJECT_FUNCTIONS_MAX)
		return reason_set(planning->why, -ENOTSUP, "%s has too many functions", allocator->path);
	add_planned_function(planning, patch);
	return 0;
}

/*
 * Fills the functions of *allocator and of *planned. A function that cannot be moved is left out if no block is missed by
 * that; -ENOTSUP if a block could be freed unseen.
 */
static int plan_functions(const struct entry_patches *patches, const struct probe_info *probe_info,
		   struct inject_allocator *allocator, struct planned_allocator *planned, struct reason *why)
{
	char *path = path_of_mapping(allocator->path);
	const struct planning_functions planning = { probe_info, path, allocator, planned, why };
	int err = 0;

	planned->function = calloc(INJECT_FUNCTIONS_MAX, sizeof(*planned->function));
	if (!path || !planned->function)
		err = -ENOMEM;
	else
		allocator->domain = probe_info->function_nr ? heap_domain(probe_info, 0, path) : 0;
	for (int throws = 0; throws < 2 && !err; throws++) /* those that throw need the others */
		for (uint64_t i = 0; i < patches->nr && !err; i++)
			if (may_throw(&patches->patch[i]) == throws)
				err = plan_function(&planning, &patches->patch[i]);
	free(path);
	return err;
}

/* ---- plan ---- */

/* Far more than real programs have: 111 files of code (Chromium), 1 s (its largest file, 280 MiB). */
#define CODE_FILES_MAX 1024
#define READ_CPU_NS (10 * SECOND_NS)

void (*inject_moment)(const char *what);

/* ---- pages ---- */

static int add_page(struct inject_allocator *allocator, uint64_t address, uint64_t offset, struct reason *why)
{
	for (uint32_t i = 0; i < allocator->page_nr; i++)
		if (allocator->page[i].address == address)
			return 0;
	if (allocator->page_nr == INJECT_PAGES_MAX)
		return reason_set(why, -ENOTSUP, "the functions of %s lie on more than %d pages", allocator->path,
				  INJECT_PAGES_MAX);
	allocator->page[allocator->page_nr++] = (struct inject_page){ .address = address, .offset = offset };
	return 0;
}

static int add_pages(struct inject_allocator *allocator, const struct planned_allocator *planned, struct reason *why)
{
	int err = 0;

	for (uint32_t i = 0; i < allocator->function_nr && !err; i++) {
		const struct planned_function *function = &planned->function[i];

		err = add_page(allocator, PAGE_OF(function->address), PAGE_OF(function->patch.offset), why);
	}
	return err;
}

/* ---- one file ---- */

struct planning {
	struct sandbox *sandbox;
	pid_t pid;
	int mem_fd;
	struct target_maps maps;
	struct inject_plan *plan;
	struct reason *why;
};

/* The functions' addresses. All code of the file must be mapped once. */
static int locate_functions(struct planning *planning, const struct maps_line *line, struct inject_allocator *allocator,
			    struct planned_allocator *planned)
{
	for (uint32_t i = 0; i < allocator->function_nr; i++) {
		struct planned_function *function = &planned->function[i];
		size_t nr;

		function->address = target_maps_code(&planning->maps, line->dev, line->inode, function->patch.offset, &nr);
		if (nr != 1)
			return reason_set(planning->why, -ENOTSUP, "%s is mapped %s", allocator->path,
					  nr ? "more than once" : "only in part");
		allocator->function[i].address = function->address - function->patch.skipped;
	}
	return 0;
}

/* The mappings must be the loader's: private, of the file, not writable. */
static int check_code_mappings(struct planning *planning, const struct inject_allocator *allocator)
{
	for (uint32_t i = 0; i < allocator->page_nr; i++) {
		const struct maps_line *line = target_maps_find(&planning->maps, allocator->page[i].address);

		if (!line || strcmp(line->perms, "r-xp") || line->inode != allocator->inode)
			return reason_set(planning->why, -ENOTSUP, "the code of %s is not mapped as a file of code: %.4s",
					  allocator->path, line ? line->perms : "----");
	}
	return 0;
}

static int plan_allocator(struct planning *planning, const struct maps_line *line, int fd,
			  const struct entry_patches *patches, const struct probe_info *probe_info)
{
	struct inject_plan *plan = planning->plan;
	struct inject_allocator *allocator = &plan->allocator[plan->allocator_nr];
	struct planned_allocator *planned = &plan->details->allocator[plan->allocator_nr];
	int err;

	if (!has_allocator(patches))
		return 0;
	if (probe_info->copies_text)
		return reason_set(planning->why, -ENOTSUP, "%s may copy its code while it runs", line->path);
	if (plan->allocator_nr == INJECT_ALLOCATORS_MAX)
		return reason_set(planning->why, -ENOTSUP, "it has more than %d allocators", INJECT_ALLOCATORS_MAX);
	snprintf(allocator->path, sizeof(allocator->path), "%s", line->path);
	allocator->dev = line->dev;
	allocator->inode = line->inode;
	plan->allocator_nr++;
	err = plan_functions(patches, probe_info, allocator, planned, planning->why);
	err = err ?: locate_functions(planning, line, allocator, planned);
	err = err ?: add_pages(allocator, planned, planning->why) ?: check_code_mappings(planning, allocator);
	err = err ?: read_original_pages(fd, allocator, &planned->original, planning->why);
	return err ?: check_code_pages(planning->mem_fd, planned->original, allocator, planning->why);
}

/* Whether the file has something to patch. Files that are no ELF files are passed over. */
static int plan_file(struct planning *planning, const struct maps_line *line)
{
	struct entry_patches patches = {};
	struct probe_info probe_info = {};
	struct reason why_not = {};
	int fd, err = open_mapping(planning->pid, line, &fd);

	if (err == -ENOENT)
		return 0; /* it has just been unmapped */
	if (err)
		return reason_set(planning->why, err == -ESRCH ? -ESRCH : -ENOTSUP, "%s cannot be read", line->path);
	err = sandbox__probe_info(planning->sandbox, fd, NULL, &probe_info, &why_not);
	if (!err && probe_info.has_sampler && probe_info.sampler->nr)
		err = reason_set(planning->why, -EEXIST, "the process has a sampler already: %s", line->path);
	else if (!err && probe_info.function_nr)
		err = sandbox__entries(planning->sandbox, fd, &patches, planning->why) ?:
			      plan_allocator(planning, line, fd, &patches, &probe_info);
	else if (err == -EIO)
		err = reason_set(planning->why, -E2BIG, "%s: %s", line->path, why_not.text);
	else if (err)
		err = 0;
	entry_patches_release(&patches);
	probe_info_release(&probe_info);
	close(fd);
	return err;
}

/* ---- the whole ---- */

static bool is_injected(const struct maps_line *line)
{
	return !strncmp(line->path, "/memfd:" INJECT_FILE_NAME, strlen("/memfd:" INJECT_FILE_NAME)) ||
	       !strncmp(line->path, "/memfd:" INJECT_HOOKS_NAME, strlen("/memfd:" INJECT_HOOKS_NAME));
}

static int plan_each_file(struct planning *planning, const struct maps_line *const *file, size_t nr)
{
	int err = 0;

	if (nr > CODE_FILES_MAX)
		return reason_set(planning->why, -E2BIG, "its code comes from %zu files, more than %d", nr, CODE_FILES_MAX);
	for (size_t i = 0; i < nr && !err; i++)
		err = check_target_library(file[i]->path, planning->why);
	for (size_t i = 0; i < nr && !err; i++)
		err = is_told_to_end() ? -EINTR : is_injected(file[i]) ? 0 : plan_file(planning, file[i]);
	return err && is_told_to_end() ? reason_set(planning->why, -EINTR, "a signal asked allocsnap to end") : err;
}

static int plan_files(struct planning *planning)
{
	const struct maps_line **file;
	size_t nr;
	int err = target_maps_code_files(&planning->maps, &file, &nr);

	if (err)
		return err;
	sandbox__limit(planning->sandbox, READ_CPU_NS, is_told_to_end);
	err = plan_each_file(planning, file, nr);
	sandbox__limit(planning->sandbox, UINT64_MAX, NULL);
	free(file);
	if (!err && !planning->plan->allocator_nr)
		err = reason_set(planning->why, -ENOTSUP, "no known allocator is in it: no malloc and free by name");
	return err ?: plan_sites(planning->plan, planning->why);
}

static int open_memory(struct planning *planning)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mem", planning->pid);
	planning->mem_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (planning->mem_fd >= 0)
		return 0;
	return reason_set(planning->why, errno == EACCES || errno == EPERM ? -EPERM : errno == ENOENT ? -ESRCH : -errno,
			  "%s: %s", path, strerror(errno));
}

int check_not_injected(pid_t pid, struct reason *why)
{
	struct inject_found found;
	int err = inject_find(pid, &found, why);

	if (err == -ENOENT || (!err && !found.is_active)) {
		why->text[0] = '\0';
		return 0;
	}
	return err ?: reason_set(why, -EEXIST, "the process has %s already, of process %d%s", inject_kind_text(found.kind),
				 found.owner, found.owner_is_running ? "" : ", which has ended: `allocsnap eject` removes it");
}

static int read_planned_maps(struct planning *planning)
{
	int err = target_maps_read(planning->pid, &planning->maps);

	if (err == -E2BIG)
		return reason_set(planning->why, err, "its list of mappings has more than %u MiB", MAPS_TEXT_MAX >> 20);
	return err;
}

static int make_plan(struct planning *planning)
{
	pid_t pid = planning->pid;
	int err = check_target_process(pid, planning->why) ?: open_memory(planning) ?:
			  proc_start_time(pid, &planning->plan->start_time) ?: read_planned_maps(planning);
	if (err)
		return *planning->why->text ? err : reason_set(planning->why, err, "process %d: %s", pid, strerror(-err));
	return check_not_injected(pid, planning->why) ?: check_shared_memory(pid, planning->why) ?: plan_files(planning) ?:
	       find_call_gate(pid, &planning->maps, NULL, &planning->plan->details->gate, planning->why);
}

int inject_plan_make(struct sandbox *sandbox, pid_t pid, struct inject_plan **ret, struct reason *why)
{
	struct reason unsaid = {};
	struct planning planning = {
		.sandbox = sandbox, .pid = pid, .mem_fd = -1, .plan = calloc(1, sizeof(*planning.plan)), .why = why ?: &unsaid,
	};
	int err = -ENOMEM;

	*ret = NULL;
	planning.why->text[0] = '\0';
	if (planning.plan)
		planning.plan->details = calloc(1, sizeof(*planning.plan->details));
	if (planning.plan && planning.plan->details) {
		planning.plan->pid = pid;
		err = make_plan(&planning);
	}
	target_maps_release(&planning.maps);
	if (planning.mem_fd >= 0)
		close(planning.mem_fd);
	if (err)
		inject_plan_free(planning.plan);
	else
		*ret = planning.plan;
	return err;
}

void inject_plan_free(struct inject_plan *plan)
{
	if (!plan)
		return;
	for (size_t i = 0; plan->details && i < INJECT_ALLOCATORS_MAX; i++) {
		free(plan->details->allocator[i].original);
		free(plan->details->allocator[i].function);
	}
	free(plan->details);
	free(plan);
}
