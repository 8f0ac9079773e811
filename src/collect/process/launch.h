/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_LAUNCH_H
#define ALLOCSNAP_COLLECT_LAUNCH_H

/*
 * Starting a program so that it can be probed before it allocates. It is held (ptrace) after
 * its exec and each time that its loader has mapped code, and let go for good when the loader is
 * done: at the first system call that is not the loader's own, or where the loader is the C
 * library, too (musl), the first of the program. By then everything that the program is linked to
 * is mapped, and no constructor has run. If we die meanwhile, it goes on.
 */

#include <sys/resource.h>
#include <sys/types.h>

struct mappings;
struct reason;

/*
 * Starts argv (which ends with NULL; found on PATH) and holds it before its first instruction:
 * its pid, or a negative errno with a line in *why: -ENOENT, -EACCES… as exec gave it. Signals
 * are unblocked in it, SIGPIPE and SIGXFSZ are as they are by default, and `files` its RLIMIT_NOFILE.
 */
pid_t launch_start(const char *const argv[], const struct rlimit *files, struct reason *why);

/*
 * Lets it go on, and calls mapped(what) each time it has mapped code; *mappings must be up to date
 * by then. Also returns when it ends, or where it cannot be held any more.
 */
void launch_release(pid_t pid, const struct mappings *mappings, void (*mapped)(void *what),
		    void *what);

/* Waits for its end: the exit status as a shell has it, 128 + signal where one ended it; -errno. */
int launch_wait(pid_t pid);

#endif
