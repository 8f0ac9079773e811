// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "process/launch.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "base/units.h"
#include "process/mappings.h"
#include "process/proc.h"

/* ---- the user ---- */

static const char *const replaced[] = { "HOME", "USER", "LOGNAME", "SHELL" };

/* They describe root, or the user behind sudo. */
static const char *const dropped[] = {
	"SUDO_UID", "SUDO_GID", "SUDO_USER", "SUDO_COMMAND", "SUDO_HOME", "MAIL", "XDG_RUNTIME_DIR",
	"DBUS_SESSION_BUS_ADDRESS",
};

static int add_variable(char **variable, const char *name, const char *value)
{
	return asprintf(variable, "%s=%s", name, value) < 0 ? (*variable = NULL, -ENOMEM) : 0;
}

static bool is_variable_of(const char *variable, const char *const *names, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		size_t len = strlen(names[i]);

		if (!strncmp(variable, names[i], len) && variable[len] == '=')
			return true;
	}
	return false;
}

static bool is_kept_variable(const char *variable)
{
	return !is_variable_of(variable, replaced, ARRAY_SIZE(replaced)) &&
	       !is_variable_of(variable, dropped, ARRAY_SIZE(dropped));
}

static int make_environment(struct launch_user *user, const struct passwd *entry)
{
	const char *const value[] = { entry->pw_dir, entry->pw_name, entry->pw_name, entry->pw_shell };
	size_t nr = 0, at = 0;
	int err = 0;

	while (environ && environ[nr])
		nr++;
	user->environment = calloc(nr + ARRAY_SIZE(replaced) + 1, sizeof(*user->environment));
	if (!user->environment)
		return -ENOMEM;
	for (size_t i = 0; i < nr && !err; i++)
		if (is_kept_variable(environ[i]) && !(user->environment[at++] = strdup(environ[i])))
			err = -ENOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(replaced) && !err; i++)
		err = add_variable(&user->environment[at++], replaced[i], value[i]);
	return err;
}

static int find_user_groups(struct launch_user *user, const char *name)
{
	int nr = 16;

	for (;;) {
		gid_t *group = realloc(user->group, nr * sizeof(*group));

		if (!group)
			return -ENOMEM;
		user->group = group;
		user->group_nr = nr;
		if (getgrouplist(name, user->gid, user->group, &user->group_nr) >= 0)
			return 0;
		nr = user->group_nr > nr ? user->group_nr : 2 * nr;
	}
}

static const struct passwd *find_user_entry(const char *name)
{
	const struct passwd *entry = getpwnam(name);
	uint64_t uid;

	if (!entry && !parse_count(name, 0, UINT32_MAX - 1, &uid))
		entry = getpwuid(uid);
	return entry;
}

int launch_user_find(const char *name, struct launch_user *ret, struct reason *why)
{
	const struct passwd *entry = find_user_entry(name);
	int err;

	*ret = (struct launch_user){};
	if (!entry)
		return reason_set(why, -ENOENT, "there is no user '%.100s'", name);
	ret->uid = entry->pw_uid;
	ret->gid = entry->pw_gid;
	err = make_environment(ret, entry) ?: find_user_groups(ret, entry->pw_name);
	if (err)
		launch_user_release(ret);
	return err;
}

void launch_user_release(struct launch_user *user)
{
	for (size_t i = 0; user->environment && user->environment[i]; i++)
		free(user->environment[i]);
	free(user->environment);
	free(user->group);
	*user = (struct launch_user){};
}

/* Makes the calling process this user's, for good. 0 or a negative errno. Safe after fork. */
static int launch_user_become(const struct launch_user *user)
{
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) || setgroups(user->group_nr, user->group) ||
	    setresgid(user->gid, user->gid, user->gid) || setresuid(user->uid, user->uid, user->uid))
		return -errno;
	return 0;
}

/* ---- the child, until its exec ------------------------------------------------------------ */

struct pipes {
	int go[2];    /* closed by the parent: the child may continue */
	int error[2]; /* carries a struct launch_error; a successful exec closes it */
};

struct launch_error {
	int err; /* errno */
	bool is_exec;
};

static void close_pipe(int pipe[2])
{
	for (int i = 0; i < 2; i++) {
		if (pipe[i] >= 0)
			close(pipe[i]);
		pipe[i] = -1;
	}
}

static void exec_held_child(const struct launch *launch, struct pipes *pipes)
{
	struct launch_error error = {};
	sigset_t none;
	char byte;

	close(pipes->go[1]);
	while (read(pipes->go[0], &byte, 1) < 0 && errno == EINTR)
		;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	setrlimit(RLIMIT_NOFILE, launch->files);
	if (launch->user)
		error.err = -launch_user_become(launch->user);
	if (!error.err) {
		execvpe(launch->argv[0], (char *const *)launch->argv,
			launch->user ? launch->user->environment : environ);
		error = (struct launch_error){ errno, true };
	}
	if (write(pipes->error[1], &error, sizeof(error)) < 0)
		_exit(126);
	_exit(127);
}

/* ---- holding it --------------------------------------------------------------------------- */

static int wait_uninterrupted(pid_t pid, siginfo_t *info, int options)
{
	int err;

	*info = (siginfo_t){};
	do
		err = waitid(P_PID, pid, info, options | __WALL) ? -errno : 0;
	while (err == -EINTR);
	return err;
}

/* 0 and the stop status, or -ESRCH: the process has ended, also right after a stop; launch_wait() gets its status. */
static int wait_for_stop(pid_t pid, int *ret_status)
{
	siginfo_t info;
	int err = wait_uninterrupted(pid, &info, WEXITED | WSTOPPED | WNOWAIT);
	bool has_stopped = info.si_code == CLD_TRAPPED || info.si_code == CLD_STOPPED;

	if (!err && has_stopped)
		err = wait_uninterrupted(pid, &info, WSTOPPED | WNOHANG);
	*ret_status = info.si_status << 8 | 0x7f;
	return err == -ECHILD || (!err && (!has_stopped || !info.si_pid)) ? -ESRCH : err;
}

static int event_of(int status)
{
	return status >> 16;
}

/* Continues to the next stop, and delivers the signal that stopped the process, if any. */
static int continue_child(pid_t pid, int how, int status)
{
	int signal_nr = WSTOPSIG(status);
	bool is_signal = !event_of(status) && signal_nr != (SIGTRAP | 0x80);

	if (event_of(status) == PTRACE_EVENT_STOP && signal_nr != SIGTRAP)
		how = PTRACE_LISTEN; /* a signal has stopped it, and it stays stopped */
	return ptrace(how, pid, 0, is_signal ? signal_nr : 0) ? -errno : 0;
}

static int seize_child(pid_t pid)
{
	long options = PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD;

	return ptrace(PTRACE_SEIZE, pid, 0, options) ? -errno : 0;
}

static int wait_for_exec(pid_t pid)
{
	int status, err;

	while (!(err = wait_for_stop(pid, &status)) && event_of(status) != PTRACE_EVENT_EXEC)
		if ((err = continue_child(pid, PTRACE_CONT, status)))
			break;
	return err;
}

/* Programs that only prepare the one that they become. */
static bool is_launcher(pid_t pid)
{
	static const char *const names[] = {
		"chrt", "env", "ionice", "nice", "nohup", "numactl", "prlimit", "setarch", "stdbuf", "taskset",
	};
	char *exe = proc_link(pid, "exe"), *slash = exe ? strrchr(exe, '/') : NULL;
	bool is = false;

	for (size_t i = 0; i < ARRAY_SIZE(names) && slash && !is; i++)
		is = !strcmp(slash + 1, names[i]);
	free(exe);
	return is;
}

/* Lets launchers run until they have become another program. 0, or -ESRCH: one has ended. */
static int pass_launchers(pid_t pid)
{
	int err = 0;

	while (!err && is_launcher(pid))
		err = ptrace(PTRACE_CONT, pid, 0, 0) ? -errno : wait_for_exec(pid);
	return err;
}

/* The child ended without an exec. The pipe has the errno. */
static int log_exec_failed(struct pipes *pipes, struct launch *launch, struct reason *why)
{
	const char *name = launch->argv[0];
	struct launch_error error;

	close(pipes->error[1]);
	pipes->error[1] = -1;
	if (read(pipes->error[0], &error, sizeof(error)) != sizeof(error))
		return reason_set(why, -ESRCH, "%s: it ended before it was started", name);
	launch->has_exec_failed = error.is_exec;
	if (!error.is_exec)
		return reason_set(why, -error.err, "%s: cannot become user %u: %s", name, launch->user->uid,
				  strerror(error.err));
	return reason_set(why, -error.err, "%s: %s", name, strerror(error.err));
}

/* A preloaded library is loaded by the program's loader, unless the program has more privileges than its user. */
static int check_loader(pid_t pid, const struct launch *launch, struct reason *why)
{
	const char *name = launch->argv[0], *what = NULL;

	if (!launch->preloaded)
		return 0;
	if (!proc_auxv(pid, AT_BASE))
		what = "is linked statically";
	else if (proc_auxv(pid, AT_SECURE))
		what = "runs with the privileges of its file (set-user-ID or capabilities)";
	if (!what)
		return 0;
	return reason_set(why, -ENOTSUP, "%s %s, so it would not load the %s; it was not started", name, what,
			  launch->preloaded);
}

static int hold_child(pid_t pid, struct pipes *pipes, struct launch *launch, struct reason *why)
{
	bool has_begun = false;
	int err = seize_child(pid);

	if (!err) {
		close_pipe(pipes->go);
		err = wait_for_exec(pid);
		has_begun = !err;
	}
	err = err ?: pass_launchers(pid);
	if (err == -ESRCH && has_begun) {
		launch->has_ended = true;
		reason_set(why, 0, "%s has ended without starting another program: nothing was recorded", launch->argv[0]);
		return 0;
	}
	if (err && err != -ESRCH)
		reason_set(why, err, "cannot hold %s before it starts: %s; it was not started", launch->argv[0], strerror(-err));
	err = err ?: check_loader(pid, launch, why);
	if (err)
		launch_end(pid); /* it holds the pipe's other end */
	return err == -ESRCH ? log_exec_failed(pipes, launch, why) : err;
}

pid_t launch_start(struct launch *launch, struct reason *why)
{
	struct pipes pipes = { { -1, -1 }, { -1, -1 } };
	pid_t pid = -1;
	int err = 0;

	launch->has_exec_failed = false;
	if (pipe2(pipes.go, O_CLOEXEC) || pipe2(pipes.error, O_CLOEXEC) || (pid = fork()) < 0)
		err = reason_set(why, -errno, "cannot start %s: %s", launch->argv[0], strerror(errno));
	else if (!pid)
		exec_held_child(launch, &pipes);
	else
		err = hold_child(pid, &pipes, launch, why);
	close_pipe(pipes.go);
	close_pipe(pipes.error);
	return err ?: pid;
}

/* ---- until the loader is done ------------------------------------------------------------- */

struct loader {
	const struct mappings *mappings;
	uint64_t base;
	uint64_t end;		/* of the loader's code */
	uint64_t first_sp;	/* the stack pointer at the program's start; 0: not known */
	bool is_mapping_code;	/* the thread is in an mmap() that maps code */
};

static bool is_loader(const struct loader *loader, uint64_t address)
{
	return address - loader->base < loader->end - loader->base;
}

/* The loader's code is the mapping nearest above its base: it follows its headers. */
static void find_code_end(struct loader *loader)
{
	uint64_t nearest = UINT64_MAX;

	loader->end = loader->base;
	for (size_t i = 0; i < loader->mappings->mapping_nr; i++) {
		const struct mapping *mapping = &loader->mappings->mapping[i];

		if (mapping->start < loader->base || mapping->start - loader->base >= nearest)
			continue;
		nearest = mapping->start - loader->base;
		loader->end = mapping->end;
	}
}

/* The stack pointer right after the exec: the loader starts with it, and later the program. */
static uint64_t stack_pointer(pid_t pid)
{
	struct __ptrace_syscall_info info = {};

	return ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) < 0 ? 0 : info.stack_pointer;
}

/*
 * If the loader is also the C library (musl), it makes system calls for as long as the program runs. But the code
 * that runs first calls its C part with the first stack pointer, and this return address lies in the loader until
 * the program has begun.
 */
static bool program_has_begun(pid_t pid, const struct loader *loader)
{
	uint64_t return_address;

	if (!loader->first_sp)
		return false;
	errno = 0;
	return_address = ptrace(PTRACE_PEEKDATA, pid, loader->first_sp - sizeof(return_address), 0);
	return !errno && !is_loader(loader, return_address) &&
	       mappings_find(loader->mappings, return_address);
}

enum step {
	STEP_GO_ON,
	STEP_MAPPED,
	STEP_LOADED,
};

/* A negative errno, or enum step. */
static int inspect_stop(pid_t pid, struct loader *loader)
{
	struct __ptrace_syscall_info info = {};
	bool mapped = loader->is_mapping_code;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) < 0)
		return -errno;
	loader->is_mapping_code = false;
	if (info.op == PTRACE_SYSCALL_INFO_EXIT)
		return mapped ? STEP_MAPPED : STEP_GO_ON;
	if (info.op != PTRACE_SYSCALL_INFO_ENTRY)
		return STEP_GO_ON;
	if (!is_loader(loader, info.instruction_pointer) || program_has_begun(pid, loader))
		return STEP_LOADED;
	loader->is_mapping_code = info.entry.nr == SYS_mmap && info.entry.args[2] & PROT_EXEC;
	return STEP_GO_ON;
}

#define HEADERS_PAGE UINT64_C(4095)

int launch_load(pid_t pid, bool is_loader, const struct mappings *mappings, void (*mapped)(void *what), void *what)
{
	struct loader loader = {
		.mappings = mappings,
		.base = is_loader ? proc_auxv(pid, AT_PHDR) & ~HEADERS_PAGE : proc_auxv(pid, AT_BASE),
		.first_sp = stack_pointer(pid),
	};
	int step = loader.base ? STEP_GO_ON : STEP_LOADED, status = 0, err;

	find_code_end(&loader);
	while (step != STEP_LOADED) {
		err = continue_child(pid, PTRACE_SYSCALL, status) ?: wait_for_stop(pid, &status);
		step = err ?: inspect_stop(pid, &loader);
		if (step < 0)
			return step;
		if (step == STEP_MAPPED)
			mapped(what);
	}
	return 0;
}

int launch_let_go(pid_t pid)
{
	int err = ptrace(PTRACE_DETACH, pid, 0, 0) ? -errno : 0;

	if (err)
		kill(pid, SIGKILL);
	return err;
}

int launch_release(pid_t pid, const struct mappings *mappings, void (*mapped)(void *what), void *what)
{
	int err = launch_load(pid, false, mappings, mapped, what);

	if (err)
		kill(pid, SIGKILL); /* unless it has ended */
	return err ?: launch_let_go(pid);
}

/* Fields 50 and 51 of /proc/PID/stat are the bounds of the environment (proc(5)). */
static uint64_t environment_start(pid_t pid)
{
	char *text = proc_read(pid, "stat", NULL), *field = text ? strrchr(text, ')') : NULL;
	uint64_t start = 0;

	for (int i = 2; field && i < 50; i++)
		field = strchr(field + 1, ' ');
	if (field)
		start = strtoull(field, NULL, 10);
	free(text);
	return start;
}

int launch_write_pid(pid_t pid, const char *name)
{
	size_t bytes = 0, len = strlen(name);
	char *environment = proc_read(pid, "environ", &bytes), digits[sizeof(LAUNCH_PID_ROOM)];
	struct iovec ours = { digits, strlen(LAUNCH_PID_ROOM) }, theirs = { NULL, ours.iov_len };
	uint64_t start = environment_start(pid);
	int err = environment && start ? 0 : -EIO;

	snprintf(digits, sizeof(digits), "%0*d", (int)ours.iov_len, proc_own_tid(pid, pid));
	for (size_t at = 0; !err && at < bytes; at += strlen(environment + at) + 1) {
		const char *value = environment + at + len + 1;

		if (strncmp(environment + at, name, len) || environment[at + len] != '=' || strlen(value) != ours.iov_len)
			continue;
		theirs.iov_base = (void *)(start + (value - environment));
		err = process_vm_writev(pid, &ours, 1, &theirs, 1, 0) == (ssize_t)ours.iov_len ? 0 : -errno;
	}
	free(environment);
	return err;
}

void launch_end(pid_t pid)
{
	kill(pid, SIGKILL);
	launch_wait(pid);
}

/* ---- until it is another program ---- */

#define WAITING_SLICE_NS 50000000

/* Whether there is something to wait for: the kernel says by SIGCHLD when there may be. */
static bool has_changed_state(pid_t pid)
{
	siginfo_t info = {};

	return waitid(P_PID, pid, &info, WEXITED | WSTOPPED | WNOWAIT | WNOHANG | __WALL) || info.si_pid;
}

int launch_next(pid_t pid, void (*waiting)(void *what), void *what)
{
	const struct timespec slice = { .tv_nsec = WAITING_SLICE_NS };
	sigset_t child, before;
	int status, err = continue_child(pid, PTRACE_CONT, PTRACE_EVENT_EXEC << 16 | SIGTRAP << 8 | 0x7f);

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, &before);
	while (!err) {
		while (!has_changed_state(pid)) {
			sigtimedwait(&child, NULL, &slice);
			waiting(what);
		}
		err = wait_for_stop(pid, &status);
		if (err || event_of(status) == PTRACE_EVENT_EXEC)
			break;
		err = continue_child(pid, PTRACE_CONT, status);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	return err;
}

int launch_wait(pid_t pid)
{
	int status;
	pid_t got;

	do
		got = waitpid(pid, &status, __WALL);
	while ((got < 0 && errno == EINTR) || (got == pid && WIFSTOPPED(status)));
	if (got < 0)
		return -errno;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
