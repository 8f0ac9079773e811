/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

/*
 * The kernel types that bpf/ touches, and nothing else. CO-RE finds each field in the running
 * kernel's BTF by its name, so only names and types matter here, not offsets or order.
 * `bpftool btf dump file /sys/kernel/btf/vmlinux format c` prints them all.
 */

#ifndef BPF_NO_PRESERVE_ACCESS_INDEX
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#endif

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef __s64 s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef int pid_t;
typedef _Bool bool;

enum { false = 0, true = 1 };

#define NULL ((void *)0)
#define ENOENT 2
#define ESRCH 3
#define EEXIST 17
#define EBUSY 16
#define ENOSPC 28
#define VM_EXEC 4

/* include/uapi/linux/bpf.h */
enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_EXIST = 2,
};

enum { BPF_F_NO_PREALLOC = 1, BPF_F_MMAPABLE = 1024 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax;
	unsigned long ip, cs, flags, sp, ss;
};
#elif defined(__TARGET_ARCH_arm64)
struct user_pt_regs {
	__u64 regs[31], sp, pc, pstate;
};
struct pt_regs {
	struct user_pt_regs user_regs;
};
#endif

typedef struct {
	int counter;
} atomic_t;

struct xol_area {
	unsigned long vaddr; /* of the page with the return probes' trampoline */
};

struct uprobes_state {
	struct xol_area *xol_area;
};

typedef struct {
	void *vdso;
} mm_context_t;

struct file;
struct task_struct;

typedef struct {
	long long counter;
} atomic64_t;

struct rw_semaphore {
	atomic64_t owner;
};

struct mm_struct {
	mm_context_t context; /* x86 */
	struct file *exe_file;
	unsigned long arg_start, arg_end;
	unsigned long start_stack; /* in the main thread's stack */
	int map_count;
	struct rw_semaphore mmap_lock;
	struct task_struct *owner;
	struct uprobes_state uprobes_state;
};

enum pageflags {
	PG_head = 6,
};

struct folio {
	unsigned long flags; /* a structure since 6.18 */
	unsigned long _flags_1; /* of its second page */
};

/* Linux 6.1 to 6.5. */
struct folio___with_order {
	unsigned long flags;
	unsigned char _folio_order;
};

struct file_system_type {
	const char *name;
	int fs_flags;
};

struct super_block {
	unsigned int s_dev;
	struct file_system_type *s_type;
	unsigned long s_magic;
};

struct inode {
	struct super_block *i_sb;
	unsigned long i_ino;
	unsigned short i_mode;
	unsigned int i_generation;
	long long i_size;
	long long i_mtime_sec;
	unsigned int i_mtime_nsec;
};

struct timespec64 {
	long long tv_sec;
	long tv_nsec;
};

/* Linux 6.7 to 6.10, and before. */
struct inode___with_timespec {
	struct timespec64 __i_mtime;
};

struct inode___older {
	struct timespec64 i_mtime;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
};

struct vfsmount {
	struct dentry *mnt_root;
};

struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct file {
	struct inode *f_inode;
	struct path f_path;
};

struct fs_struct {
	struct path root;
};

struct kernfs_node {
	struct kernfs_node *parent; /* before 6.15 */
	const char *name;
};

struct kernfs_node___rcu {
	struct kernfs_node___rcu *__parent;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct cgroup_subsys_state {
	__u64 serial_nr; /* never given twice */
};

struct css_set {
	struct cgroup_subsys_state *subsys[1]; /* of each kind: enum cgroup_subsys_id */
	struct cgroup *dfl_cgrp;
};

enum cgroup_subsys_id {
	memory_cgrp_id,
};

struct cgroup_namespace {
	struct css_set *root_cset;
};

struct nsproxy {
	struct cgroup_namespace *cgroup_ns;
};

typedef struct {
	__u32 val;
} kuid_t;

struct cred {
	kuid_t uid;
	kuid_t euid;
};

struct vm_unmapped_area_info {
	long unsigned int flags;
	long unsigned int length;
};

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_end;
	unsigned long vm_flags;
	unsigned long vm_pgoff;
	struct file *vm_file;
	struct mm_struct *vm_mm;
};

/* A call whose return address a return probe has replaced. */
struct return_instance {
	unsigned long stack; /* where that lay */
	unsigned long orig_ret_vaddr;
	struct return_instance *next; /* older */
};

struct uprobe_task {
	struct return_instance *return_instances;
};

struct thread_struct {
	unsigned long fsbase; /* x86: the thread's control block, at the top of a pthread's stack */
};

struct signal_struct {
	atomic_t live; /* threads that have not exited */
	int group_exit_code;
	unsigned long long sum_sched_runtime; /* of threads that are gone */
	struct mm_struct *oom_mm; /* not NULL: the OOM killer has chosen the process */
};

struct sched_entity {
	__u64 sum_exec_runtime;
};

struct trace_event_raw_mark_victim {
	__u32 uid;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

/* What else the entry of a system call does. */
enum syscall_work_bit {
	SYSCALL_WORK_BIT_SYSCALL_EMU = 3,
	SYSCALL_WORK_BIT_SYSCALL_USER_DISPATCH = 5,
};

struct thread_info {
	unsigned long syscall_work; /* bits of enum syscall_work_bit; kernels with the generic entry (5.11) have it */
};

#define PF_IO_WORKER 0x10 /* include/linux/sched.h */
#define PF_KTHREAD 0x200000

struct task_struct {
	struct thread_info thread_info;
	unsigned int flags; /* PF_… */
	struct files_struct *files;
	pid_t pid;
	pid_t tgid;
	int exit_code;
	struct sched_entity se;
	__u64 start_time; /* CLOCK_MONOTONIC */
	__u64 start_boottime;
	__u64 self_exec_id; /* its execs, and those of the tasks that it comes from */
	char comm[16];
	const struct cred *cred;
	struct fs_struct *fs;
	struct nsproxy *nsproxy;
	struct css_set *cgroups;
	struct task_struct *real_parent;
	unsigned long sas_ss_sp; /* the alternate signal stack */
	unsigned long sas_ss_size;
	struct mm_struct *mm;
	struct task_struct *group_leader; /* the main thread */
	struct signal_struct *signal;
	int pagefault_disabled; /* a fault in the kernel is not handled: user memory that is not there cannot be read */
	struct uprobe_task *utask;
	struct thread_struct thread;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#ifndef BPF_NO_PRESERVE_ACCESS_INDEX
#pragma clang attribute pop
#endif

/* include/uapi/linux/bpf_perf_event.h: the verifier knows its offsets */
struct bpf_perf_event_data {
	struct pt_regs regs;
	__u64 sample_period;
	__u64 addr;
};

#endif
