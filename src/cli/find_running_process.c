// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/find_running_process.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/log.h"
#include "base/reason.h"
#include "base/terminal.h"
#include "base/units.h"
#include "cli/cmd_attach.h"
#include "collect.h"
#include "process/proc.h"

bool process_ids_have(const struct process_ids *ids, pid_t pid)
{
	for (size_t i = 0; i < ids->pid_nr; i++)
		if (ids->pid[i] == pid)
			return true;
	return false;
}

int process_ids_add(struct process_ids *ids, pid_t pid)
{
	return array_push(ids, pid, pid) ? log_failure("%s", strerror(ENOMEM)) : EXIT_DONE;
}

/* ---- children of the processes ---- */

struct children_start {
	struct collector *collector;
	struct process_ids tried;
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

/* A child that has ended meanwhile is none. */
static int try_child(struct children_start *start, pid_t pid)
{
	struct reason why = { "out of memory" };
	int err;

	if (process_ids_have(&start->tried, pid))
		return EXIT_DONE;
	if (process_ids_add(&start->tried, pid))
		return EXIT_FAILED;
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
	free(start.tried.pid);
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

/* ---- processes by their name ---- */

#define COMM_LEN 15 /* the kernel cuts names */
#define PROCESSES_SHOWN 20

static bool has_comm(pid_t pid, const char *name)
{
	char *comm = proc_text(pid, "comm");
	bool has = comm && *comm && !strncmp(comm, name, COMM_LEN) &&
		   (strlen(name) <= COMM_LEN ? !strcmp(comm, name) : strlen(comm) == COMM_LEN);

	free(comm);
	return has;
}

/* An interpreter or a renamed process has another comm than its file. */
static bool has_program_name(pid_t pid, const char *name)
{
	char *exe = proc_link(pid, "exe");
	bool has = exe && !strcmp(path_name(exe), name);

	free(exe);
	return has;
}

/* Adds the processes that `has` says yes to, in the order of their PIDs. */
static int add_processes(struct process_ids *found, const char *name, bool (*has)(pid_t pid, const char *name))
{
	struct dirent **entry;
	int nr = scandir("/proc", &entry, NULL, versionsort), err = nr < 0 ? -errno : 0;

	for (int i = 0; i < nr; i++) {
		uint64_t pid;

		if (!err && !parse_count(entry[i]->d_name, 1, INT32_MAX, &pid) && (pid_t)pid != getpid() &&
		    has(pid, name))
			err = array_push(found, pid, pid);
		free(entry[i]);
	}
	if (nr >= 0)
		free(entry);
	return err;
}

static void log_process_line(pid_t pid)
{
	int width = terminal_width(STDERR_FILENO);
	char *args = proc_cmdline(pid), line[512];

	clean_text(line, sizeof(line), args && *args ? args : "?");
	log_info("  %d  %.*s", pid, width > 40 ? width - 24 : 200, line);
	free(args);
}

static int refuse_several_processes(const char *name, const struct process_ids *found)
{
	log_failure("%zu processes are called '%s'; choose one by its PID:", found->pid_nr, name);
	for (size_t i = 0; i < found->pid_nr && i < PROCESSES_SHOWN; i++)
		log_process_line(found->pid[i]);
	if (found->pid_nr > PROCESSES_SHOWN)
		log_info("  … and %zu more", found->pid_nr - PROCESSES_SHOWN);
	log_info("all of them: 'allocsnap attach PID PID…', 'allocsnap leaks PID PID…'");
	return EXIT_FAILED;
}

static int find_process_by_name(const char *name, pid_t *ret_pid)
{
	struct process_ids found = {};
	int err = add_processes(&found, name, has_comm), status = EXIT_DONE;

	if (!err && !found.pid_nr)
		err = add_processes(&found, name, has_program_name);
	if (err)
		status = log_failure("/proc: %s", strerror(-err));
	else if (!found.pid_nr)
		status = log_failure("'%s' is no PID, and no process has this name", name);
	else if (found.pid_nr > 1)
		status = refuse_several_processes(name, &found);
	else
		*ret_pid = found.pid[0];
	free(found.pid);
	return status;
}

int find_running_process(const char *text, pid_t *ret_pid)
{
	uint64_t pid;

	if (text[strspn(text, "-0123456789")])
		return find_process_by_name(text, ret_pid);
	if (parse_count(text, 1, INT32_MAX, &pid)) {
		log_failure("'%s' is no PID", text);
		return EXIT_REFUSED;
	}
	*ret_pid = pid;
	return EXIT_DONE;
}

static bool begins_with(const char *text, const char *begin)
{
	return !strncmp(text, begin, strlen(begin));
}

/* Says nothing of python3, which is python3.11, nor of a program that gave itself another name. */
static bool has_other_file_name(const char *comm, const char *started, const char *exe)
{
	const char *name = path_name(started), *file = path_name(exe);

	return *started == '/' && *exe == '/' && *comm && begins_with(name, comm) && !begins_with(file, comm) &&
	       !begins_with(name, file);
}

void log_other_file_name(pid_t pid)
{
	char *comm = proc_text(pid, "comm"), *exe = proc_link(pid, "exe"), *args = proc_cmdline(pid);

	if (args)
		args[strcspn(args, " ")] = '\0';
	if (comm && exe && args && has_other_file_name(comm, args, exe))
		log_info("process %d was started as %s, which is %s: frames have that name", pid, args, exe);
	free(comm);
	free(exe);
	free(args);
}
