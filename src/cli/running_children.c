// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/running_children.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/array.h"
#include "base/log.h"
#include "base/reason.h"
#include "cli/cmd_attach.h"
#include "collect.h"
#include "collect/process/proc.h"

struct children_start {
	struct collector *collector;
	struct descendants tried;
	size_t begun_nr, refused_nr; /* children */
	struct reason why; /* of the first one that is refused */
};

/* Finds descendants that are not recorded: those that were forked since are followed, and the refresh knows them. */
static int find_unrecorded(struct collector *collector, const pid_t *pid, size_t nr, struct descendants *ret)
{
	size_t kept_nr = 0;
	int err = descendants_find(pid, nr, ret);

	collector__refresh(collector);
	for (size_t i = 0; i < ret->pid_nr; i++)
		if (!collector__is_tracing(collector, ret->pid[i]))
			ret->pid[kept_nr++] = ret->pid[i];
	ret->pid_nr = kept_nr;
	return err ? log_failure("/proc: %s", strerror(-err)) : EXIT_DONE;
}

static bool has_tried(const struct descendants *tried, pid_t pid)
{
	for (size_t i = 0; i < tried->pid_nr; i++)
		if (tried->pid[i] == pid)
			return true;
	return false;
}

/* A child that has ended meanwhile is none. */
static int try_child(struct children_start *start, pid_t pid)
{
	struct reason why = { "out of memory" };
	int err;

	if (has_tried(&start->tried, pid))
		return EXIT_DONE;
	if (array_push(&start->tried, pid, pid))
		return log_failure("%s", strerror(ENOMEM));
	err = collector__start(start->collector, pid, &why);
	start->begun_nr += !err;
	if (err && err != -ESRCH && !start->refused_nr++)
		start->why = why;
	return EXIT_DONE;
}

/* Until no child is new, if children are followed: one may have been forked before its parent was followed. */
static int try_children(struct children_start *start, bool follows, const pid_t *pid, size_t nr)
{
	size_t before_nr;
	int status;

	do {
		struct descendants found = {};

		before_nr = start->begun_nr;
		status = find_unrecorded(start->collector, pid, nr, &found);
		for (size_t i = 0; i < found.pid_nr && !status; i++)
			status = try_child(start, found.pid[i]);
		descendants_release(&found);
	} while (!status && follows && start->begun_nr > before_nr);
	return status;
}

static int record_children(struct collector *collector, bool follows, const pid_t *pid, size_t nr)
{
	struct children_start start = { .collector = collector };
	int status = try_children(&start, follows, pid, nr);

	if (!status && start.begun_nr)
		log_info("%zu running child%s recorded, too", start.begun_nr, start.begun_nr == 1 ? " is" : "ren are");
	if (!status && start.refused_nr)
		log_info("%zu running child%s not recorded: %s", start.refused_nr,
			 start.refused_nr == 1 ? " is" : "ren are", start.why.text);
	descendants_release(&start.tried);
	return status;
}

/* The options that record children. An injected sampler goes into one process, so there they must be named. */
static const char *advice_about(const struct capture_options *options, bool is_one)
{
	if (options->inject_bytes)
		return is_one ? ": name its PID, too" : ": name their PIDs, too";
	if (options->follow_forks)
		return is_one ? ", only new ones: --children records it, too" : ", only new ones: --children records them, too";
	return is_one ? ": --children records it, --follow-forks new ones" : ": --children records them, --follow-forks new ones";
}

static int name_children(struct collector *collector, const struct capture_options *options, const pid_t *pid, size_t nr)
{
	struct descendants found = {};
	int status = find_unrecorded(collector, pid, nr, &found);

	if (!status && found.pid_nr)
		log_info("%zu running child%s not recorded%s", found.pid_nr, found.pid_nr == 1 ? " is" : "ren are",
			 advice_about(options, found.pid_nr == 1));
	descendants_release(&found);
	return status;
}

int start_running_children(struct collector *collector, const struct capture_options *options, const pid_t *pid, size_t nr)
{
	if (!nr)
		return EXIT_DONE;
	return options->children ? record_children(collector, options->follow_forks, pid, nr) :
				   name_children(collector, options, pid, nr);
}
