// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/reason.h"
#include "collect/inject/found_samplers.h"
#include "collect/inject/inject_private.h"
#include "collect/inject/plan_functions.h"
#include "collect/process/proc.h"
#include "elf/probe_info.h"
#include "sandbox/client.h"

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
	struct parser *parser;
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
			  const struct entry_patches *patches, const struct probe_info *facts)
{
	struct inject_plan *plan = planning->plan;
	struct inject_allocator *allocator = &plan->allocator[plan->allocator_nr];
	struct planned_allocator *planned = &plan->details->allocator[plan->allocator_nr];
	int err;

	if (!has_allocator(patches))
		return 0;
	if (facts->copies_text)
		return reason_set(planning->why, -ENOTSUP, "%s may copy its code while it runs", line->path);
	if (plan->allocator_nr == INJECT_ALLOCATORS_MAX)
		return reason_set(planning->why, -ENOTSUP, "it has more than %d allocators", INJECT_ALLOCATORS_MAX);
	snprintf(allocator->path, sizeof(allocator->path), "%s", line->path);
	allocator->dev = line->dev;
	allocator->inode = line->inode;
	plan->allocator_nr++;
	err = plan_functions(patches, facts, allocator, planned, planning->why);
	if (!err)
		err = locate_functions(planning, line, allocator, planned);
	if (!err)
		err = add_pages(allocator, planned, planning->why);
	if (!err)
		err = check_code_mappings(planning, allocator);
	if (!err)
		err = read_original_pages(fd, allocator, &planned->original, planning->why);
	return err ?: check_code_pages(planning->mem_fd, planned->original, allocator, planning->why);
}

/* Whether the file has something to patch. Files that are no ELF files are passed over. */
static int plan_file(struct planning *planning, const struct maps_line *line)
{
	struct entry_patches patches = {};
	struct probe_info facts = {};
	struct reason why_not = {};
	int fd, err = open_mapping(planning->pid, line, &fd);

	if (err == -ENOENT)
		return 0; /* it has just been unmapped */
	if (err)
		return reason_set(planning->why, err == -ESRCH ? -ESRCH : -ENOTSUP, "%s cannot be read", line->path);
	err = parser__facts(planning->parser, fd, NULL, &facts, &why_not);
	if (!err && facts.has_sampler && facts.sampler->nr)
		err = reason_set(planning->why, -EEXIST, "the process has a sampler already: %s", line->path);
	else if (!err && facts.function_nr)
		err = parser__entries(planning->parser, fd, &patches, planning->why) ?:
			      plan_allocator(planning, line, fd, &patches, &facts);
	else if (err == -EIO)
		err = reason_set(planning->why, -E2BIG, "%s: %s", line->path, why_not.text);
	else if (err)
		err = 0;
	entry_patches_release(&patches);
	probe_info_release(&facts);
	close(fd);
	return err;
}

/* ---- the whole ---- */

/* The caller has blocked these, and will read them when the plan has ended. */
static bool must_end_plan(void)
{
	sigset_t pending;

	return !sigpending(&pending) &&
	       (sigismember(&pending, SIGTERM) || sigismember(&pending, SIGINT) || sigismember(&pending, SIGHUP));
}

static bool is_injected(const struct maps_line *line)
{
	return !strncmp(line->path, "/memfd:" INJECT_FILE_NAME, strlen("/memfd:" INJECT_FILE_NAME));
}

static int plan_each_file(struct planning *planning, const struct maps_line *const *file, size_t nr)
{
	int err = 0;

	if (nr > CODE_FILES_MAX)
		return reason_set(planning->why, -E2BIG, "its code comes from %zu files, more than %d", nr, CODE_FILES_MAX);
	for (size_t i = 0; i < nr && !err; i++)
		err = check_target_library(file[i]->path, planning->why);
	for (size_t i = 0; i < nr && !err; i++)
		err = must_end_plan() ? -EINTR : is_injected(file[i]) ? 0 : plan_file(planning, file[i]);
	return err && must_end_plan() ? reason_set(planning->why, -EINTR, "a signal asked allocsnap to end") : err;
}

static int plan_files(struct planning *planning)
{
	const struct maps_line **file;
	size_t nr;
	int err = target_maps_code_files(&planning->maps, &file, &nr);

	if (err)
		return err;
	parser__limit(planning->parser, READ_CPU_NS, must_end_plan);
	err = plan_each_file(planning, file, nr);
	parser__limit(planning->parser, UINT64_MAX, NULL);
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

static int check_not_injected(struct planning *planning)
{
	struct inject_found found;
	int err = find_in_maps(planning->pid, &planning->maps, &found, planning->why);

	if (err == -ENOENT || (!err && !found.is_active))
		return 0;
	return err ?: reason_set(planning->why, -EEXIST, "the process has an injected sampler already, of process %d%s",
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
	int err = check_target_process(pid, planning->why) ?: open_memory(planning);

	if (!err)
		err = proc_start_time(pid, &planning->plan->start_time) ?: read_planned_maps(planning);
	if (err)
		return *planning->why->text ? err : reason_set(planning->why, err, "process %d: %s", pid, strerror(-err));
	return check_not_injected(planning) ?: check_shared_memory(pid, planning->why) ?: plan_files(planning) ?:
	       find_call_gate(pid, &planning->maps, NULL, &planning->plan->details->gate, planning->why);
}

int inject_plan_make(struct parser *parser, pid_t pid, struct inject_plan **ret, struct reason *why)
{
	struct reason unsaid = {};
	struct planning planning = {
		.parser = parser, .pid = pid, .mem_fd = -1, .plan = calloc(1, sizeof(*planning.plan)), .why = why ?: &unsaid,
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
