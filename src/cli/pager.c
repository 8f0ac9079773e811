// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/pager.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/log.h"
#include "base/terminal.h"

#define LESS_OPTIONS "FRX" /* quit if it fits on a screen, show colours, leave the text on the terminal */
#define PROGRAM_MISSING 126 /* and above: a shell could not run it */

extern char **environ;

static struct {
	bool is_forbidden, is_on;
	pid_t pid;
	int out, err; /* standard output and error as they were; err -1: standard error is not paged */
} pager;

void pager_forbid(void)
{
	pager.is_forbidden = true;
}

bool pager_is_on(void)
{
	return pager.is_on;
}

/* ---- which pager -------------------------------------------------------------------------- */

/* Whether the user of this process has rights that are another user's. */
static bool has_borrowed_rights(void)
{
	return getauxval(AT_SECURE) || geteuid() != getuid() ||
	       (!geteuid() && (getenv("SUDO_UID") || getenv("PKEXEC_UID") || getenv("DOAS_USER")));
}

static const char *wanted_pager(void)
{
	return getenv("ALLOCSNAP_PAGER") ?: getenv("PAGER") ?: "less";
}

/* Not by PATH, which may come from the user who lacks the rights. */
static const char *find_less(void)
{
	return !access("/usr/bin/less", X_OK) ? "/usr/bin/less" : !access("/bin/less", X_OK) ? "/bin/less" : NULL;
}

/* NULL: none. */
static const char *choose_pager(void)
{
	const char *command = wanted_pager();

	command += strspn(command, " ");
	if (!*command || !strcmp(command, "cat"))
		return NULL;
	return has_borrowed_rights() ? find_less() : command;
}

/* ---- the pager's environment -------------------------------------------------------------- */

static bool is_variable(const char *entry, const char *name)
{
	size_t len = strlen(name);

	return !strncmp(entry, name, len) && entry[len] == '=';
}

/* Variables by which less runs other programs or reads files. */
static bool is_unsafe_for_less(const char *entry)
{
	return !strncmp(entry, "LESS", 4) || is_variable(entry, "EDITOR") || is_variable(entry, "VISUAL") ||
	       is_variable(entry, "SHELL");
}

/* Ours, with the options of less. NULL: out of memory. The strings are not copied. */
static char **make_pager_environment(void)
{
	bool is_root = !geteuid() || has_borrowed_rights(), has_options = false;
	size_t nr = 0, kept = 0;
	char **copy;

	while (environ[nr])
		nr++;
	copy = calloc(nr + 3, sizeof(*copy));
	if (!copy)
		return NULL;
	for (size_t i = 0; i < nr; i++) {
		if (is_root && is_unsafe_for_less(environ[i]))
			continue;
		has_options |= is_variable(environ[i], "LESS");
		copy[kept++] = environ[i];
	}
	if (!has_options)
		copy[kept++] = "LESS=" LESS_OPTIONS;
	if (is_root)
		copy[kept++] = "LESSSECURE=1";
	return copy;
}

/* ---- beginning ---------------------------------------------------------------------------- */

/* The signals that we ignore or block, as a program expects them at its start. */
static int reset_signals(posix_spawnattr_t *attributes)
{
	sigset_t none, usual;

	sigemptyset(&none);
	sigemptyset(&usual);
	sigaddset(&usual, SIGPIPE);
	sigaddset(&usual, SIGINT);
	sigaddset(&usual, SIGQUIT);
	return posix_spawnattr_setsigmask(attributes, &none) ?: posix_spawnattr_setsigdefault(attributes, &usual) ?:
	       posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

/* A command that is one word is run without a shell, so that a missing program is known at once. */
static int spawn_command(const char *command, const posix_spawn_file_actions_t *actions,
			 const posix_spawnattr_t *attributes, char **environment)
{
	bool is_word = !strpbrk(command, " \t\n|&;<>()$`\\\"'*?[#~=%");
	char *const word[] = { (char *)command, NULL }, *const shell[] = { "sh", "-c", (char *)command, NULL };

	return is_word ? posix_spawnp(&pager.pid, command, actions, attributes, word, environment) :
			 posix_spawn(&pager.pid, "/bin/sh", actions, attributes, shell, environment);
}

/* Runs the pager with its input from `in`. Returns 0 or an errno. */
static int spawn_pager(const char *command, int in)
{
	char **environment = make_pager_environment();
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	int err;

	if (!environment)
		return ENOMEM;
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attributes);
	err = posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO) ?: reset_signals(&attributes);
	err = err ?: spawn_command(command, &actions, &attributes, environment);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	free(environment);
	return err;
}

/* Leads a standard descriptor into the pager. Returns a copy of what it was. */
static int redirect_to_pager(int fd, int pipe_fd)
{
	int before = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

	if (before >= 0)
		dup2(pipe_fd, fd);
	return before;
}

static void lead_output_to_pager(int pipe_fd)
{
	int width = terminal_width(STDOUT_FILENO);

	fflush(stderr);
	pager.err = isatty(STDERR_FILENO) ? redirect_to_pager(STDERR_FILENO, pipe_fd) : -1;
	pager.out = redirect_to_pager(STDOUT_FILENO, pipe_fd);
	pager.is_on = true;
	terminal_set_paged(width);
	signal(SIGPIPE, SIG_IGN); /* the user may leave it early */
	signal(SIGINT, SIG_IGN);  /* the pager handles them, and outlives them */
	signal(SIGQUIT, SIG_IGN);
}

void pager_begin(void)
{
	const char *command = choose_pager();
	int fd[2], err;

	status_line_clear();
	if (pager.is_forbidden || pager.is_on || !command || !terminal_has_cursor(STDOUT_FILENO))
		return;
	if (pipe2(fd, O_CLOEXEC))
		return;
	err = spawn_pager(command, fd[0]);
	if (!err)
		lead_output_to_pager(fd[1]);
	else if (err != ENOENT || strcmp(command, "less"))
		log_info("the pager %s cannot be run: %s", command, strerror(err));
	close(fd[0]);
	close(fd[1]);
}

/* ---- ending ------------------------------------------------------------------------------- */

static void restore_output(int *before, int fd)
{
	if (*before < 0)
		return;
	dup2(*before, fd);
	close(*before);
	*before = -1;
}

bool pager_end(void)
{
	int status = 0;

	if (!pager.is_on)
		return true;
	fflush(stdout);
	clearerr(stdout);
	fflush(stderr);
	restore_output(&pager.out, STDOUT_FILENO);
	restore_output(&pager.err, STDERR_FILENO);
	terminal_set_paged(0);
	while (waitpid(pager.pid, &status, 0) < 0 && errno == EINTR)
		;
	pager.is_on = false;
	if (!WIFEXITED(status) || WEXITSTATUS(status) < PROGRAM_MISSING)
		return true;
	log_failure("the pager %s cannot be run", wanted_pager());
	return false;
}
