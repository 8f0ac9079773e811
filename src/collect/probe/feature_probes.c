// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/probe/feature_probes.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <elf.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "process/proc.h"
#include "collect/probe/uprobe_multi.h"
#include "elf/machine.h"
#include "helper/helper.h"

/* The function that is probed. Only call_probe_target() calls it. */
__attribute__((noipa)) static int probe_target(int value)
{
	return value + 1;
}

/* The offset of allocsnap's own code in its file; 0: unknown. */
static uint64_t file_offset(uint64_t address)
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
	return file_offset((uintptr_t)probe_target);
}

static const struct bpf_insn return_0[] = {
	{ .code = BPF_ALU64 | BPF_MOV | BPF_K },
	{ .code = BPF_JMP | BPF_EXIT },
};

int trial_load_as(uint32_t attach_type)
{
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

int trial_read_kernel(void)
{
	static const struct bpf_insn read[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = BPF_REG_1, .src_reg = BPF_REG_10 },
		{ .code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = BPF_REG_1, .imm = -8 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_2, .imm = 8 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_3 },
		{ .code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_probe_read_kernel },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	int fd = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "allocsnap_trial", "GPL", read, ARRAY_SIZE(read), NULL);

	return close_after(fd < 0 ? -errno : fd);
}

#define ENOTSUPP 524 /* include/linux/errno.h of the kernel: not meant for user space */

int trial_trace(const char *function, uint32_t attach_type)
{
	int id = libbpf_find_vmlinux_btf_id(function, attach_type), fd, link;
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = attach_type, .attach_btf_id = id);

	if (id < 0)
		return id == -ENOENT ? -ESRCH : id;
	fd = bpf_prog_load(BPF_PROG_TYPE_TRACING, "allocsnap_trial", "GPL", return_0, ARRAY_SIZE(return_0), &opts);
	if (fd < 0)
		return -errno;
	link = bpf_link_create(fd, 0, attach_type, NULL);
	link = link >= 0 ? link : errno == ENOTSUPP ? -EOPNOTSUPP : -errno;
	close(fd);
	return close_after(link);
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

	err = err ?: read_pmu(PMU "format/retprobe", "config:%u", &bit);
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

static int attach_trial(pid_t pid, int program, uint32_t attach_type, uint64_t offset)
{
	uint64_t cookie = 0;

	return uprobe_multi_attach(program, &(struct uprobe_multi){
		.path = "/proc/self/exe",
		.pid = pid,
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
	err = close_after(attach_trial(getpid(), program, attach_type, own_offset()));
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
	int link = attach_trial(getpid(), program, UPROBE_MULTI_ATTACH_TYPE, own_offset()), err;
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

/* ---- what may kill a process is tried in a child ---- */

/* Handles fatal signals, because the kernel logs a process that dies without a handler. */
static void give_up(int)
{
	_exit(1);
}

/* Waits for the word to go. */
static int wait_and_act(void *act, int)
{
	struct message go;

	signal(SIGSEGV, give_up);
	signal(SIGILL, give_up);
	signal(SIGTRAP, give_up);
	return channel__head(&(struct channel){ .fd = CHILD_FD }, &go, NULL) ? 1 : (*(int (**)(void))act)();
}

/* The child acts if it is probed by this link. -EFAULT: it did not survive. */
static int end_trial(struct helper *child, int link)
{
	bool went = link >= 0 && !channel__send(&child->channel, 0, NULL, 0, -1);
	int status = helper__end(child, SIGCONT);

	if (link < 0)
		return link;
	close(link);
	return status < 0 ? status : went && !status ? 0 : -EFAULT;
}

/* Kernels without links of many probes are older than the behaviour that is tried here. */
static int try_in_child(void (*function)(void), int (*act)(void))
{
	uint64_t offset = file_offset((uintptr_t)function);
	int err = trial_uprobe_multi(), program;
	struct helper child;

	if (err)
		return err == -EINVAL ? 0 : err;
	program = offset ? trial_load_as(UPROBE_MULTI_ATTACH_TYPE) : -ENOENT;
	if (program < 0)
		return program;
	err = helper__start(&(struct helper_plan){ .is_killed = true, .work = wait_and_act, .self = &act }, &child);
	err = err ?: end_trial(&child, attach_trial(child.pid, program, UPROBE_MULTI_ATTACH_TYPE, offset));
	close(program);
	return err;
}

/* ---- filters of system calls ---- */

/* Allows only exit_group, and rt_sigreturn to return from a signal handler; any other call kills the process. */
static int filter_all(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = { ARRAY_SIZE(filter), filter };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static volatile sig_atomic_t is_ill;

static void note_sigill(int)
{
	is_ill = 1;
}

#define NO_SUCH_CALL 2
#define CALL_IS_HIDDEN 3

/* The uretprobe system call sends SIGILL to a caller that is not at a hijacked return. */
static int call_filtered(void *self, int)
{
	long call = *(const long *)self;

	signal(SIGILL, note_sigill);
	if (syscall(call) < 0 && !is_ill)
		return errno == ENOSYS ? NO_SUCH_CALL : CALL_IS_HIDDEN;
	if (prctl(PR_SET_DUMPABLE, 0) || filter_all())
		return 1;
	syscall(call);
	return 0;
}

int trial_filtered_call(long call)
{
	struct helper child;
	int status = helper__start(&(struct helper_plan){ .is_killed = true, .work = call_filtered, .self = &call }, &child);

	if (!status)
		status = helper__end(&child, SIGCONT);
	if (status < 0)
		return status;
	if (WIFEXITED(status) && WEXITSTATUS(status) == NO_SUCH_CALL)
		return -ENOSYS;
	if (WIFEXITED(status) && WEXITSTATUS(status) == CALL_IS_HIDDEN)
		return -EACCES;
	return status ? -EFAULT : 0;
}

/* ---- nops of five bytes (x86-64) ---- */

__asm__(".pushsection .text\n"
	".balign 16\n"
	"with_nop5:\n"
	".byte 0x0f, 0x1f, 0x44, 0, 0, 0xc3\n.balign 16\n" /* the nop; ret */
	".popsection\n");

extern void with_nop5(void) __attribute__((visibility("hidden")));

static void (*volatile call_nop5)(void) = with_nop5;

/* The kernel replaces the nop by a call when it is hit. */
static int hit_and_fork(void)
{
	int status;
	pid_t child;

	for (int i = 0; i < 10; i++)
		call_nop5();
	child = fork();
	if (!child) {
		call_nop5();
		_exit(0);
	}
	return child < 0 || waitpid(child, &status, 0) != child || status;
}

int trial_nop5(void)
{
	return machine_here() == EM_X86_64 ? try_in_child(with_nop5, hit_and_fork) : 0;
}

/* ---- returns by a system call ---- */

#define URETPROBE 335 /* arch/x86/entry/syscalls/syscall_64.tbl */

bool kernel_has(const char *name, uint32_t kind)
{
	struct btf *btf = btf__load_vmlinux_btf();
	bool has = !btf || btf__find_by_name_kind(btf, name, kind) >= 0;

	btf__free(btf);
	return has;
}

/* If the process already has a filter, that filter may answer for unknown calls, whether they exist or not. */
int trial_return_call(void)
{
	int err = machine_here() == EM_X86_64 ? trial_filtered_call(URETPROBE) : -ENOSYS;

	if (err != -EACCES)
		return err;
	return kernel_has("__x64_sys_uretprobe", BTF_KIND_FUNC) ? -EFAULT : -ENOSYS;
}
