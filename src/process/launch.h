/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PROCESS_LAUNCH_H
#define ALLOCSNAP_PROCESS_LAUNCH_H

/*
 * Starts a program so that it can be probed before it allocates. ptrace holds it after its exec, and each time
 * that its loader has mapped code. It is released for good when the loader is done: at the first system call
 * outside the loader. If the loader is also the C library (musl), at the first system call of the program. By
 * then everything that the program is linked to is mapped, and no constructor has run. If the recorder dies
 * meanwhile, the program continues.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>

struct launch_user;
struct mappings;
struct reason;

#define LAUNCH_PID_ROOM "0000000000" /* see launch_write_pid() */

/* The program to start. */
struct launch {
	const char *const *argv; /* ends with NULL; argv[0] is found on PATH */
	const struct rlimit *files; /* its RLIMIT_NOFILE */
	const struct launch_user *user; /* NULL: our own user */
	const char *preloaded; /* refuse a program that would not load this library; NULL: there is no such library */
	bool has_exec_failed; /* set by launch_start(): exec returned its error */
	bool has_ended;	      /* set by launch_start(): it was a launcher, and has ended as one, with a line in *why */
};

/*
 * Starts the program and holds it before its first instruction. A launcher (env, nice) runs on until it has become another
 * program, and that one is held. Returns its pid, or a negative errno with a line in
 * *why: -ENOENT, -EACCES… as exec returned it; -ENOTSUP for want of a loader. The program starts with no signal blocked, and with SIGPIPE and SIGXFSZ
 * at their defaults.
 */
pid_t launch_start(struct launch *launch, struct reason *why);

/*
 * Lets the program run until its loader is done, and holds it there. Calls mapped(what) each time that it has mapped code; the
 * callback must bring *mappings up to date before it returns. is_loader: the program is a loader itself, which will load
 * another one. 0; -ESRCH: it has ended; another negative errno: it cannot be held any more, and may be stopped.
 */
int launch_load(pid_t pid, bool is_loader, const struct mappings *mappings, void (*mapped)(void *what), void *what);

/* Lets a program that is held run until it has become another one, which is held then. Errors as above. */
int launch_next(pid_t pid, void (*waiting)(void *what), void *what);

/* Lets a program go that is held. 0, or a negative errno: then it is killed, so that it is not left stopped. */
int launch_let_go(pid_t pid);

/* The first of them, and the last. -ESRCH: it has ended; another negative errno: it is killed. */
int launch_release(pid_t pid, const struct mappings *mappings, void (*mapped)(void *what), void *what);

/* Writes its pid in place of LAUNCH_PID_ROOM, the value of a variable of its environment, while it is held. 0 or a negative errno. */
int launch_write_pid(pid_t pid, const char *name);

/* Ends a program that is held. */
void launch_end(pid_t pid);

/*
 * Waits until the program ends. Returns its exit status as a shell shows it (128 + signal if a signal killed it),
 * or -errno.
 */
int launch_wait(pid_t pid);

/* Another user that a program is started as. */
struct launch_user {
	uid_t uid;
	gid_t gid;
	gid_t *group; /* all groups of the user */
	int group_nr;
	char **environment; /* ours without sudo's; HOME, USER, LOGNAME and SHELL are the user's; ends with NULL */
};

/* Looks up a user by name or number. 0, or a negative errno with a line in *why. */
int launch_user_find(const char *name, struct launch_user *ret, struct reason *why);
void launch_user_release(struct launch_user *user);

#endif
