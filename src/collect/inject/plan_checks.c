// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Reasons not to inject that show without reading code. */
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "collect/inject/inject_private.h"
#include "collect/inject/inject_rules.h"
#include "collect/inject/sampler_image.h"
#include "collect/process/proc.h"

/* ---- the kernel and the process ---- */

/* The first line of a small file; "" if there is none. */
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

int check_target_library(const char *path, struct reason *why)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

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

/* The segments of a sampler, with unused pages between and behind them. */
struct mappings_needed mappings_to_inject(const struct inject_plan *plan, const struct injected_file *file)
{
	struct mappings_needed needed = mappings_to_eject();

	for (uint32_t i = 0; i < plan->allocator_nr; i++) {
		needed.nr += 2 * file->segment_nr + 1 + NR_OF_PAGE * plan->allocator[i].page_nr;
		needed.bytes += sampler_image_room(file, &plan->allocator[i]);
		for (uint32_t k = 0; k < file->segment_nr; k++)
			needed.data_bytes += file->segment[k].prot & PROT_WRITE ? file->segment[k].bytes : 0;
	}
	return needed;
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
