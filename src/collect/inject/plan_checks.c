// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Reasons not to inject that show without reading code. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "collect/inject/inject_private.h"
#include "collect/process/proc.h"

#define SHARED_TRIES 20
#define SHARED_PAUSE_NS 10000000

/* ---- the kernel and the process ---- */

/* Linux moves pages of files with MREMAP_DONTUNMAP since 5.13. */
static int check_kernel_version(struct reason *why)
{
	unsigned int major = 0, minor = 0;
	struct utsname name;

	if (uname(&name) || sscanf(name.release, "%u.%u", &major, &minor) != 2 || major < 5 || (major == 5 && minor < 13))
		return reason_set(why, -ENOTSUP, "injection needs Linux 5.13");
	return 0;
}

/* The text of a line of /proc/PID/status, up to its end; "" if there is none. */
static void status_text(const char *status, const char *field, char *ret, size_t room)
{
	size_t len = strlen(field);
	const char *at = status;

	*ret = '\0';
	while (at && (strncmp(at, field, len) || at[len] != ':')) {
		at = strchr(at, '\n');
		at += at ? 1 : 0;
	}
	if (!at)
		return;
	at += len + 1;
	at += strspn(at, " \t");
	snprintf(ret, room, "%.*s", (int)strcspn(at, "\n"), at);
}

static int check_status(pid_t pid, const char *status, struct reason *why)
{
	char text[256];

	status_text(status, "State", text, sizeof(text));
	if (*text == 'Z' || *text == 'X')
		return reason_set(why, -ESRCH, "process %d has ended", pid);
	if (*text == 'T' || *text == 't')
		return reason_set(why, -EAGAIN, "process %d is stopped", pid);
	status_text(status, "VmSize", text, sizeof(text));
	if (!*text)
		return reason_set(why, -ENOTSUP, "process %d is a thread of the kernel", pid);
	status_text(status, "Tgid", text, sizeof(text));
	if (atoi(text) != pid)
		return reason_set(why, -ENOTSUP, "%d is a thread of process %.20s", pid, text);
	status_text(status, "TracerPid", text, sizeof(text));
	if (strcmp(text, "0"))
		return reason_set(why, -EAGAIN, "process %.20s traces it (a debugger, or strace)", text);
	status_text(status, "x86_Thread_features", text, sizeof(text));
	if (strstr(text, "shstk"))
		return reason_set(why, -ENOTSUP, "it has a shadow stack (CET), with which injection is not tested");
	return 0;
}

int check_target_process(pid_t pid, struct reason *why)
{
	int err = check_kernel_version(why);
	char *status;

	if (err)
		return err;
	if (pid == getpid())
		return reason_set(why, -ENOTSUP, "this is allocsnap itself");
	status = proc_read(pid, "status", NULL);
	if (!status)
		return reason_set(why, errno == ENOENT || errno == ESRCH ? -ESRCH : -errno, "process %d: %s", pid,
				  errno == ENOENT ? "there is none" : strerror(errno));
	err = check_status(pid, status, why);
	free(status);
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

static int check_library(const char *path, struct reason *why)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	for (size_t i = 0; i < ARRAY_SIZE(foreign_libraries); i++)
		if (!fnmatch(foreign_libraries[i].file, name, 0))
			return reason_set(why, -ENOTSUP, "its allocator is that of %s (%s)", foreign_libraries[i].what, name);
	return 0;
}

int check_target_libraries(const struct target_maps *maps, struct reason *why)
{
	int err = 0;

	for (size_t i = 0; i < maps->line_nr && !err; i++)
		if (maps->line[i].perms[2] == 'x' && maps->line[i].path[0] == '/')
			err = check_library(maps->line[i].path, why);
	return err;
}

/* ---- its memory ---- */

static bool shares_memory(pid_t a, pid_t b)
{
	return !syscall(SYS_kcmp, a, b, KCMP_VM, 0, 0);
}

/* A process with the same memory; 0: there is none. -errno */
static pid_t find_sharer(pid_t pid)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	pid_t found = 0;

	if (!dir)
		return -errno;
	while (!found && (entry = readdir(dir))) {
		pid_t other = isdigit((unsigned char)*entry->d_name) ? atoi(entry->d_name) : 0;

		if (other && other != pid && shares_memory(pid, other))
			found = other;
	}
	closedir(dir);
	return found;
}

/* A child of vfork() shares it until its exec. If one is there all the time, it may be another one each time. */
int check_shared_memory(pid_t pid, struct reason *why)
{
	pid_t other = find_sharer(pid);

	for (int i = 0; i < SHARED_TRIES && other > 0; i++) {
		nanosleep(&(struct timespec){ .tv_nsec = SHARED_PAUSE_NS }, NULL);
		if (!shares_memory(pid, other))
			return 0;
	}
	if (other > 0)
		return reason_set(why, -EAGAIN, "process %d uses the same memory (vfork, or clone with CLONE_VM)", other);
	return other ? reason_set(why, other, "/proc: %s", strerror(-other)) : 0;
}
