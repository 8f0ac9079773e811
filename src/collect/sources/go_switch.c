// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/sources/go_switch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "process/proc.h"

/* The descriptor stays with the memory that the process had when it was opened. */
static int check_switched_memory(int memory_fd, const struct go_switch_place *place, struct reason *why)
{
	uint64_t word;

	if (!place->module || pread(memory_fd, &word, sizeof(word), place->module) != sizeof(word) || word != place->table)
		return reason_set(why, -ENOTSUP, "another program has begun in it, or its loader has not run");
	return 0;
}

static int check_variable(pid_t pid, int memory_fd, uint64_t address, struct reason *why)
{
	struct maps_line line;
	uint64_t rate;

	if (!maps_find_line(pid, address, &line) || strncmp(line.perms, "rw-p", 4) || line.end - address < sizeof(rate))
		return reason_set(why, -ENOTSUP, "runtime.MemProfileRate lies in no memory that the program may write");
	if (pread(memory_fd, &rate, sizeof(rate), address) != sizeof(rate))
		return reason_set(why, -errno, "runtime.MemProfileRate cannot be read: %s", strerror(errno));
	if (rate && rate != GO_SWITCHED_RATE)
		return reason_set(why, -EEXIST, "the program has set runtime.MemProfileRate itself, so the profile is on");
	return 0;
}

int go_switch_on(pid_t pid, const struct go_switch_place *place, int *ret_memory_fd, struct reason *why)
{
	const uint64_t rate = GO_SWITCHED_RATE, address = place->rate;
	char path[32];
	int fd, err;

	if (!address || address % sizeof(rate))
		return reason_set(why, -ENOTSUP, "it is not certain where runtime.MemProfileRate lies");
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return reason_set(why, -errno, "its memory cannot be written: %s", strerror(errno));
	err = check_switched_memory(fd, place, why) ?: check_variable(pid, fd, address, why);
	if (!err && pwrite(fd, &rate, sizeof(rate), address) != sizeof(rate))
		err = reason_set(why, -errno, "runtime.MemProfileRate cannot be written: %s", strerror(errno));
	if (err)
		close(fd);
	else
		*ret_memory_fd = fd;
	return err;
}

void go_switch_off(int memory_fd, uint64_t address)
{
	uint64_t rate;
	const uint64_t off = 0;

	if (memory_fd < 0)
		return;
	if (pread(memory_fd, &rate, sizeof(rate), address) == sizeof(rate) && rate == GO_SWITCHED_RATE)
		pwrite(memory_fd, &off, sizeof(off), address);
	close(memory_fd);
}
