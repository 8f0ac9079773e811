// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/budget/calibrate.h"

#include <bpf/bpf.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/reason.h"
#include "collect/probe/attach_methods.h"
#include "collect/probe/detach.h"
#include "collect/probe/feature_probes.h"
#include "collect/probe/uprobe_multi.h"
#include "elf/machine.h"
#include "process/proc.h"

/* ---- recording cost ---- */

int cpu_time_read(pid_t pid, uint64_t *ret_ns)
{
	struct timespec time;
	clockid_t clock;
	int err = clock_getcpuclockid(pid, &clock);

	if (err)
		return -err;
	if (clock_gettime(clock, &time))
		return -errno;
	*ret_ns = (uint64_t)time.tv_sec * 1000000000 + time.tv_nsec;
	return 0;
}

uint64_t cost_of_account(const struct trap_costs *costs, const struct process *account)
{
	const uint64_t *counter = account->counter;

	if (!costs->entry_ns)
		return 0;
	return counter[COUNTER_entry_traps] * costs->entry_ns +
	       counter[COUNTER_stepped_traps] * costs->stepped_ns +
	       counter[COUNTER_return_traps] * costs->return_ns + counter[COUNTER_program_ns];
}

/* ---- calibrate ---- */

/*
 * Three functions for each machine; only this machine's are called. Each begins at a multiple of 16 with a landing pad of
 * four bytes (endbr64, bti c). Its probe sits behind that: on an emulated instruction, on one that is stepped, and on an
 * emulated one again.
 */
#define FUNCTION_BYTES 16
#define PAD_BYTES 4

__asm__(".pushsection .text\n"
	".balign 16\n"
	"calibrated_x86:\n"
	".byte 0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x5d, 0xc3\n.balign 16\n"       /* push %rbp; pop %rbp; ret */
	".byte 0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x85, 0xff, 0xc3\n.balign 16\n" /* test %rdi, %rdi; ret */
	".byte 0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x5d, 0xc3\n.balign 16\n"
	"calibrated_a64:\n"
	".4byte 0xd503245f, 0x14000001, 0xd65f03c0, 0\n" /* b to the next; ret */
	".4byte 0xd503245f, 0xaa0003e0, 0xd65f03c0, 0\n" /* mov x0, x0; ret */
	".4byte 0xd503245f, 0x14000001, 0xd65f03c0, 0\n"
	".popsection\n");

extern const char calibrated_x86[] __attribute__((visibility("hidden")));
extern const char calibrated_a64[] __attribute__((visibility("hidden")));

enum kind {
	KIND_ENTRY,
	KIND_STEPPED,
	KIND_RETURN, /* and its entry */
	KIND_NR,
};

/* The number of calls takes about a tenth of a millisecond. */
static const int call_nr[KIND_NR] = { [KIND_ENTRY] = 120, [KIND_STEPPED] = 12, [KIND_RETURN] = 75 };

static uint64_t function_address(enum kind kind)
{
	uint64_t functions = (uintptr_t)(machine_here() == EM_X86_64 ? calibrated_x86 :
					 machine_here() == EM_AARCH64 ? calibrated_a64 : NULL);

	return functions ? functions + kind * FUNCTION_BYTES : 0;
}

#define ROUNDS 15

/* Opens the file that contains these functions (it may be a library) and finds their offsets in it. */
static int find_calibration_functions(uint64_t offset[KIND_NR])
{
	uint64_t address = function_address(0), start, end, at;
	char *text = proc_read(getpid(), "maps", NULL), *rest = text, *line, path[64];
	int fd = address ? -ENOENT : -ENOTSUP;

	while (fd == -ENOENT && (line = strsep(&rest, "\n"))) {
		if (sscanf(line, "%lx-%lx %*s %lx", &start, &end, &at) != 3 || address < start ||
		    address >= end)
			continue;
		for (int i = 0; i < KIND_NR; i++)
			offset[i] = function_address(i) + PAD_BYTES - start + at;
		snprintf(path, sizeof(path), "/proc/self/map_files/%lx-%lx", start, end);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		fd = fd < 0 ? -errno : fd;
	}
	free(text);
	return fd;
}

/* ---- probes: descriptors that end them ---- */

#define OTHERS 8 /* links of another process */
#define PROBES_MAX (4 + OTHERS)
#define OTHER_PID 1 /* any process but this one; none of its code is probed */

struct calibration {
	char path[64];
	uint64_t offset[KIND_NR];
	struct held_probes probe[PROBES_MAX];
	size_t probe_nr;
};

static uint32_t attach_type_of(const struct probe_way *way)
{
	return way->has_sessions ? UPROBE_SESSION_ATTACH_TYPE :
	       way->is_alone	 ? 0 : UPROBE_MULTI_ATTACH_TYPE;
}

/* The program returns its cookie. In a session, 1 means that the return is not wanted. */
static int load_empty_program(uint32_t attach_type)
{
	static const struct bpf_insn return_cookie[] = {
		{ .code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_get_attach_cookie },
		{ .code = BPF_ALU64 | BPF_AND | BPF_K, .imm = 1 }, /* a session may return nothing else */
		{ .code = BPF_JMP | BPF_EXIT },
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = attach_type);
	int fd = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "allocsnap_empty", "GPL", return_cookie,
			       ARRAY_SIZE(return_cookie), &opts);

	return fd < 0 ? -errno : fd;
}

static int calibration_attach_link(struct calibration *calibration, int program, const struct uprobe_multi *link)
{
	static const uint64_t cookie[KIND_NR] = { [KIND_ENTRY] = 1, [KIND_STEPPED] = 1 };
	struct uprobe_multi uprobes = *link;
	int fd;

	uprobes.path = calibration->path;
	uprobes.pid = link->pid ?: getpid();
	uprobes.cookie = cookie;
	fd = uprobe_multi_attach(program, &uprobes);
	if (fd < 0)
		return fd;
	calibration->probe[calibration->probe_nr++].fd = fd;
	return 0;
}

static int calibration_attach_links(struct calibration *calibration, int program, const struct probe_way *way)
{
	const struct uprobe_multi all = {
		.attach_type = attach_type_of(way), .nr = KIND_NR, .offset = calibration->offset,
	};
	const struct uprobe_multi returns = {
		.attach_type = attach_type_of(way), .nr = 1, .of_returns = true,
		.offset = &calibration->offset[KIND_RETURN],
	};
	int err = way->has_sessions ? 0 : calibration_attach_link(calibration, program, &returns);

	return err ?: calibration_attach_link(calibration, program, &all);
}

static int calibration_attach_others(struct calibration *calibration, const struct probe_way *way)
{
	const struct uprobe_multi other = {
		.pid = OTHER_PID, .attach_type = attach_type_of(way), .nr = 1,
		.offset = &calibration->offset[KIND_ENTRY],
	};
	int program = getpid() == OTHER_PID ? -ESRCH : load_empty_program(attach_type_of(way));
	int err = program < 0 ? program : 0;

	for (int i = 0; i < OTHERS && !err; i++)
		err = calibration_attach_link(calibration, program, &other);
	if (program >= 0)
		close(program);
	return err;
}

static int calibration_attach_event(struct calibration *calibration, int program, enum kind kind,
				    bool is_return)
{
	int fd = trial_open_event(calibration->path, calibration->offset[kind], is_return);

	if (fd < 0)
		return fd;
	calibration->probe[calibration->probe_nr++].fd = fd;
	return ioctl(fd, PERF_EVENT_IOC_SET_BPF, program) ? -errno : 0;
}

static int calibration_attach_events(struct calibration *calibration, int program)
{
	int err = calibration_attach_event(calibration, program, KIND_RETURN, true);

	for (int i = 0; i < KIND_NR && !err; i++)
		err = calibration_attach_event(calibration, program, i, false);
	return err;
}

static int calibration_attach(struct calibration *calibration, const struct probe_way *way)
{
	int program = load_empty_program(attach_type_of(way)), err;

	if (program < 0)
		return program;
	err = way->is_alone ? calibration_attach_events(calibration, program) :
			      calibration_attach_links(calibration, program, way);
	close(program);
	return err;
}

/* ---- time ---- */

/* Returns the time of one call in ns. */
static double time_calls(enum kind kind)
{
	void (*volatile function)(void) = (void (*)(void))(uintptr_t)function_address(kind);
	uint64_t begin_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID);

	for (int i = 0; i < call_nr[kind]; i++)
		function();
	return (double)(clock_now_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns) / call_nr[kind];
}

static int compare_doubles(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

/*
 * Times the kinds in turn, so that a disturbance affects all of them. Takes the first quartile of each kind:
 * other processes make a call slower, but never faster.
 */
static void time_all(double ret[KIND_NR])
{
	double ns[KIND_NR][ROUNDS];

	for (int round = 0; round < ROUNDS; round++)
		for (int kind = 0; kind < KIND_NR; kind++)
			ns[kind][round] = time_calls(kind);
	for (int kind = 0; kind < KIND_NR; kind++) {
		qsort(ns[kind], ROUNDS, sizeof(ns[kind][0]), compare_doubles);
		ret[kind] = ns[kind][ROUNDS / 4];
	}
}

static uint64_t measure_link_ns(struct calibration *calibration, const struct probe_way *way, double alone_ns)
{
	double with[KIND_NR];

	if (way->is_alone || calibration_attach_others(calibration, way))
		return 0;
	time_all(with);
	return with[KIND_ENTRY] > alone_ns ? (with[KIND_ENTRY] - alone_ns) / OTHERS : 0;
}

#define TRIES 5

/* Whether other work on the machine has not hidden what the probes cost. */
static bool is_plausible(const double without[KIND_NR], const double with[KIND_NR])
{
	for (int i = 0; i < KIND_NR; i++)
		if (with[i] <= without[i])
			return false;
	return with[KIND_RETURN] > with[KIND_ENTRY];
}

/* Subtracts the time of the same calls without probes, which is some nanoseconds. */
static int measure_trap_costs(struct calibration *calibration, const struct probe_way *way, bool has_others,
			      struct trap_costs *ret)
{
	double without[KIND_NR], with[KIND_NR];
	int err;

	time_all(without);
	err = calibration_attach(calibration, way);
	if (err)
		return err;
	time_all(with);
	for (int i = 1; i < TRIES && !is_plausible(without, with); i++)
		time_all(with);
	if (!is_plausible(without, with))
		return -ENODATA;
	*ret = (struct trap_costs){
		.entry_ns = with[KIND_ENTRY] - without[KIND_ENTRY],
		.stepped_ns = with[KIND_STEPPED] - without[KIND_STEPPED],
		.return_ns = with[KIND_RETURN] - with[KIND_ENTRY],
		.link_ns = has_others ? measure_link_ns(calibration, way, with[KIND_ENTRY]) : 0,
	};
	return 0;
}

int calibrate_traps(const struct probe_way *way, bool has_others, struct detacher *detacher, struct trap_costs *ret,
		    struct reason *why)
{
	struct calibration calibration = {};
	int fd = find_calibration_functions(calibration.offset), err;

	if (fd < 0)
		return reason_set(why, fd, "what recording costs cannot be measured on ourselves: %s",
				  strerror(-fd));
	snprintf(calibration.path, sizeof(calibration.path), "/proc/self/fd/%d", fd);
	err = measure_trap_costs(&calibration, way, has_others, ret);
	close(fd);
	if (calibration.probe_nr)
		detach_begin(detacher, calibration.probe, calibration.probe_nr);
	return err ? reason_set(why, err, "what recording costs cannot be measured on ourselves: %s",
				err == -ENODATA ? "other work on this machine hides it" : strerror(-err)) : 0;
}
