// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/probe/feature_probes.h"
#include "collect/probe/feature_probes_private.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/array.h"
#include "collect/process/mappings.h"
#include "collect/process/proc.h"
#include "collect/probe/uprobe_multi.h"

/* The function that is probed. Only call_probe_target() calls it. */
__attribute__((noipa)) static int probe_target(int value)
{
	return value + 1;
}

uint64_t trial_offset(uint64_t address)
{
	uint64_t start, end, offset = 0, found = 0;
	char *text = proc_read(getpid(), "maps", NULL), *rest = text, *line;

	while (!found && (line = strsep(&rest, "\n")))
		if (sscanf(line, "%lx-%lx %*s %lx", &start, &end, &offset) == 3 &&
		    address >= start && address < end)
			found = address - start + offset;
	free(text);
	return found;
}

static uint64_t own_offset(void)
{
	return trial_offset((uintptr_t)probe_target);
}

int trial_load_as(uint32_t attach_type)
{
	static const struct bpf_insn return_0[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = attach_type);
	int fd = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "allocsnap_trial", "GPL", return_0,
			       ARRAY_SIZE(return_0), &opts);

	return fd < 0 ? -errno : fd;
}

static int close_after(int fd)
{
	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

int trial_load(void)
{
	return close_after(trial_load_as(0));
}

/* ---- perf ---- */

#define PMU "/sys/bus/event_source/devices/uprobe/"

/* Reads the number after a prefix in a file of the uprobe PMU. */
static int read_pmu(const char *name, const char *format, unsigned int *ret)
{
	FILE *file = fopen(name, "re");
	int err = file && fscanf(file, format, ret) == 1 ? 0 : -ENOENT;

	if (file)
		fclose(file);
	return err;
}

int trial_open_event(const char *path, uint64_t offset, bool is_return)
{
	unsigned int type, bit;
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.config1 = (uintptr_t)path,
		.config2 = offset,
	};
	int err = read_pmu(PMU "type", "%u", &type), fd;

	if (!err)
		err = read_pmu(PMU "format/retprobe", "config:%u", &bit);
	if (err)
		return err;
	attr.type = type;
	attr.config = (uint64_t)is_return << bit;
	fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int try_event(bool is_return)
{
	int program = trial_load_as(0), event, err = 0;

	if (program < 0)
		return program;
	event = trial_open_event("/proc/self/exe", own_offset(), is_return);
	if (event < 0)
		err = event;
	else if (ioctl(event, PERF_EVENT_IOC_SET_BPF, program))
		err = -errno;
	if (event >= 0)
		close(event);
	close(program);
	return err;
}

int trial_uprobe(void)
{
	return try_event(false);
}

int trial_uretprobe(void)
{
	return try_event(true);
}

/* ---- links ---- */

static int attach_to_own(int program, uint32_t attach_type)
{
	uint64_t offset = own_offset(), cookie = 0;

	return uprobe_multi_attach(program, &(struct uprobe_multi){
		.path = "/proc/self/exe",
		.pid = getpid(),
		.attach_type = attach_type,
		.nr = 1,
		.offset = &offset,
		.cookie = &cookie,
	});
}

static int try_link(uint32_t attach_type)
{
	int program = trial_load_as(attach_type), err;

	if (program < 0)
		return program;
	err = close_after(attach_to_own(program, attach_type));
	close(program);
	return err;
}

int trial_uprobe_multi(void)
{
	return try_link(UPROBE_MULTI_ATTACH_TYPE);
}

int trial_uprobe_session(void)
{
	return try_link(UPROBE_SESSION_ATTACH_TYPE);
}

/* ---- the pid of a link ---- */

/* Loads a program that writes 1 to the only value of the map. */
static int load_mark(int map)
{
	const struct bpf_insn mark[] = {
		{ .code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = BPF_REG_1,
		  .src_reg = BPF_PSEUDO_MAP_VALUE, .imm = map },
		{},
		{ .code = BPF_ST | BPF_DW | BPF_MEM, .dst_reg = BPF_REG_1, .imm = 1 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = UPROBE_MULTI_ATTACH_TYPE);
	int fd = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "allocsnap_mark", "GPL", mark,
			       ARRAY_SIZE(mark), &opts);

	return fd < 0 ? -errno : fd;
}

static void *call_probe_target(void *unused)
{
	(void)unused;
	probe_target(1);
	return NULL;
}

static int call_from_thread(void)
{
	pthread_t thread;
	int err = pthread_create(&thread, NULL, call_probe_target, NULL);

	return err ? -err : -pthread_join(thread, NULL);
}

/* 0 if the program runs for a thread that is not the main one. */
static int see_thread(int map, int program)
{
	int link = attach_to_own(program, UPROBE_MULTI_ATTACH_TYPE), err;
	uint64_t seen = 0;

	if (link < 0)
		return link;
	err = call_from_thread();
	if (!err && bpf_map_lookup_elem(map, &(uint32_t){ 0 }, &seen))
		err = -errno;
	close(link);
	return err ?: seen ? 0 : -EXDEV;
}

int trial_pid_of_link(void)
{
	int map = bpf_map_create(BPF_MAP_TYPE_ARRAY, "allocsnap_mark", sizeof(uint32_t),
				 sizeof(uint64_t), 1, NULL);
	int program = map < 0 ? -errno : load_mark(map);
	int err = program < 0 ? program : see_thread(map, program);

	if (program >= 0)
		close(program);
	if (map >= 0)
		close(map);
	return err;
}
