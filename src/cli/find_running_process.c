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
#include "base/terminal.h"
#include "base/units.h"
#include "collect/process/proc.h"

#define COMM_LEN 15 /* the kernel cuts names */
#define PROCESSES_SHOWN 20

struct found_processes {
	pid_t *pid;
	size_t pid_nr, pid_alloc;
};

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
	const char *slash = exe ? strrchr(exe, '/') : NULL;
	bool has = slash && !strcmp(slash + 1, name);

	free(exe);
	return has;
}

/* Adds the processes that `has` says yes to, in the order of their PIDs. */
static int add_processes(struct found_processes *found, const char *name, bool (*has)(pid_t pid, const char *name))
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

static int refuse_several_processes(const char *name, const struct found_processes *found)
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
	struct found_processes found = {};
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

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool begins_with(const char *text, const char *begin)
{
	return !strncmp(text, begin, strlen(begin));
}

/* Says nothing of python3, which is python3.11, nor of a program that gave itself another name. */
static bool has_other_file_name(const char *comm, const char *started, const char *exe)
{
	const char *name = base_name(started), *file = base_name(exe);

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
