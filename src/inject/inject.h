/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_INJECT_INJECT_H
#define ALLOCSNAP_INJECT_INJECT_H

/*
 * Puts a sampler (sampler/injected.c), or the hooks of an exact recording (exact/python_hooks.h), into a process that runs,
 * and takes it out again.
 *
 *	plan     reads files and /proc only; finds the allocators, and whether their entries can be replaced
 *	inject   stops all threads; maps the sampler near each allocator; maps copies of the allocator's pages over the
 *	         pages themselves; writes jumps to the sampler into the copies; lets the threads go on
 *	eject    the same way back
 *
 * Hooks write books (exact/books.h), which are mapped with them. Hooks of malloc are called as the sampler is. Hooks of Python
 * replace no code: they stand in tables of pointers, in front of the functions that were there. Each pointer is right by
 * itself, so a thread may be anywhere meanwhile.
 *
 * The sampler is a sealed memory file, one for each allocator, with probes of provider otel_memory: collect/probe finds
 * them there as in any file. Without a listener it only counts bytes. All that an ejector needs to know is in the
 * sealed file, so any process may eject, also when the injector has ended.
 *
 * Both are done in a child that lives for a second at most (remote_call.h). If it is killed at any moment, the threads go on by
 * themselves: without a sampler, with all of it, or with jumps in some of the functions (is_unfinished). Only a process with
 * a seccomp filter that forbids mmap, mremap, munmap, close or rt_sigreturn then ends: the kernel suspends filters for a
 * living tracer only, and the thread that makes the calls finds its way back by these.
 *
 * None of this uses libbpf. Errors: -ENOTSUP refused, and will be again; -E2BIG the same, as it has more mappings or files
 * than any real program, or a file that cannot be read in time; -EAGAIN refused at this moment; -EPERM not allowed; -ESRCH
 * the process has ended; -EEXIST the process has a sampler, or another tool's allocator; -ENOENT it has none; -EINTR a
 * blocked signal asked the plan to end; -EIO, -ENOMEM. With each error *why has one line, and inject_times.change says
 * whether anything in the process is not as it was.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "exact/python_hooks.h"

struct sandbox;
struct reason;

enum inject_kind {
	INJECT_SAMPLER,
	INJECT_HOOKS, /* of an exact recording: Python's, in tables of pointers */
	INJECT_MALLOC_HOOKS, /* of an exact recording: at the entries of allocators, as the sampler's */
	INJECT_KIND_NR,
};

#define INJECT_FILE_NAME "allocsnap-sampler" /* "/memfd:allocsnap-sampler (deleted)" in /proc/PID/maps */
#define INJECT_HOOKS_NAME "allocsnap-hooks"
#define INJECT_BOOKS_NAME "allocsnap-books"

#define INJECT_LIMIT_NS UINT64_C(5000000000) /* for all tries to inject, or to eject */

#define INJECT_ALLOCATORS_MAX 4
#define INJECT_FUNCTIONS_MAX 128
#define INJECT_PAGES_MAX 32
#define INJECT_PATH_MAX 256

struct inject_function {
	const char *name;	/* as in allocator_functions[] */
	uint64_t address;	/* in the process: where its first instruction is */
	uint32_t moved_bytes;	/* the instructions there that a jump replaces */
	uint32_t moved_nr;
	bool is_probed;		/* another program's breakpoint lies there: it will not see this process meanwhile */
};

/* A page of the allocator's code for which a copy is mapped. */
struct inject_page {
	uint64_t address;	/* in the process */
	uint64_t offset;	/* of the original in the allocator's file */
};

struct inject_allocator {
	char path[INJECT_PATH_MAX]; /* of its file, as the process sees it */
	uint32_t domain;	/* elf/allocators.h */
	bool has_unseen_new;	/* some of its functions that give blocks are not sampled */
	uint32_t function_nr;
	struct inject_function function[INJECT_FUNCTIONS_MAX];
	uint32_t page_nr;
	struct inject_page page[INJECT_PAGES_MAX];
	uint64_t dev, inode;	/* of its file, as in /proc/PID/maps */
	uint64_t start, end;	/* where the sampler was mapped; 0: not yet. Its code begins at `start`, at offset 0 of its file */
	uint64_t sampler_dev, sampler_inode; /* of the sampler's file, as in /proc/PID/maps */
};

struct inject_plan {
	pid_t pid;
	uint64_t start_time;	/* proc_start_time(): the process that was looked at */
	uint32_t allocator_nr;
	struct inject_allocator allocator[INJECT_ALLOCATORS_MAX];
	struct inject_details *details; /* for inject_execute() */
};

/* The caller frees *ret with inject_plan_free(), which may be NULL. The process may be planned for any number of times. */
int inject_plan_make(struct sandbox *sandbox, pid_t pid, struct inject_plan **ret, struct reason *why);
void inject_plan_free(struct inject_plan *plan);

struct inject_options {
	uint64_t interval;	/* mean bytes between two samples, 1 to SAMPLER_INTERVAL_MAX; 0: SAMPLER_INTERVAL_DEFAULT */
	pid_t owner;		/* while this process of the same PID namespace as ours runs, only it ejects; 0: this one */
	bool is_exact;		/* not a sampler, but hooks that enter each block into books */
};

/* The books in the process, and their memory file. */
struct inject_books {
	uint64_t start, end, dev, inode;
	int fd; /* the caller's; -1: none */
};

enum inject_change {
	INJECT_UNCHANGED,	/* after an error: no thread has made a call */
	INJECT_TAKEN_BACK,	/* after an error: all of it was taken back */
	INJECT_LEFT,		/* after an error: something is in the process */
};

struct inject_times {
	uint64_t stopped_ns;	/* how long any thread was stopped, all tries together */
	uint32_t thread_nr;	/* threads that were stopped in the last try */
	uint32_t tries;
	enum inject_change change;
};

/* A sealed file, and where its first page is mapped. */
struct inject_file {
	uint64_t start, dev, inode;
};

/* Fills start, end, sampler_dev, sampler_inode of each allocator. ret_books is for is_exact; it and ret may be NULL. */
int inject_execute(struct inject_plan *plan, const struct inject_options *options, struct inject_books *ret_books,
		   struct inject_times *ret, struct reason *why);

/* The tables of a CPython's allocators, and what its hooks need to know. */
struct inject_python {
	uint64_t dev, inode;	   /* of the file that has the tables, as in /proc/PID/maps */
	struct python_hooks hooks; /* `books`, `old` and `old_tracer` are filled in */
	uint32_t tid_at; /* PYTHON_HOOKS_TID_AT: where each thread has to have its number */
	struct inject_word {
		uint64_t address, was; /* a pointer in a table, and the function that it leads to now */
		uint64_t put; /* filled in: the hook that it leads to then */
	} word[PYTHON_DOMAIN_NR][PYTHON_OPERATION_NR];
	struct inject_word tracer; /* to the function that is called when objects begin, which may be none; address 0: it stays */
	/* inject_wait.plan() notes its time (monotonic_now_ns()), and the small blocks that are live then; UINT64_MAX: not known. */
	uint64_t planned_ns, older_nr, older_bytes;
};

/*
 * Makes the checks of an injection that need no stopped threads, and changes nothing. 0, or the error that the injection would
 * end with, which may still find threads where they must not be.
 */
int inject_python_check(pid_t pid, uint64_t start_time, struct inject_python *python, struct reason *why);

/*
 * A program that is being started has no Python yet, and the caller holds it by ptrace. The tracer takes it over, and lets it
 * run from call to call until the hooks can go in.
 */
struct inject_wait {
	void (*let_go)(void *what); /* called once the tracer stands ready; or not at all, after an error */
	/* Called in the tracer, with all threads stopped: what to inject; -EINPROGRESS: its Python has not begun. */
	int (*plan)(void *what, struct inject_python *ret, struct reason *why);
	void *what;
	uint64_t arena_bytes; /* its allocator of small objects gets so many from the kernel at once */
};

/*
 * Injects hooks, with options->owner. start_time: of the process that was looked at. The books have their head, and epoch 1.
 * -EAGAIN, too, if a pointer is not what it was. wait: NULL, or who fills in *python in its moment. ret_file is for
 * inject_has_file(). ret and why may be NULL.
 */
int inject_python_execute(pid_t pid, uint64_t start_time, struct inject_python *python, const struct inject_wait *wait,
			  const struct inject_options *options, struct inject_books *ret_books,
			  struct inject_file *ret_file, struct inject_times *ret, struct reason *why);

/*
 * Whether the system promises memory that it may not have (vm.overcommit_memory). A page of the books is promised at its first
 * write only: without the promise the write would end the process. 0 or -ENOTSUP.
 */
int inject_check_overcommit(struct reason *why);

/* Whether a process has room for the books of its heap: the same, and its limit on addresses. 0 or a negative errno. */
int inject_check_books(pid_t pid, struct reason *why);

/* The books, to read and write, by the mapping of a process that still has them. 0, or -errno: -ENOENT it maps others there. */
int inject_open_books(pid_t pid, const struct inject_books *books, int *ret_fd);

/* Samplers or hooks in a process, by their sealed files. The active ones count; if none is, all that are still mapped. */
struct inject_found {
	enum inject_kind kind;
	uint32_t version;	/* INJECTED_VERSION of this program, or another one, which can be ejected all the same */
	uint32_t allocator_nr;	/* for hooks: of their files */
	bool is_active;		/* the allocators call it; else it is only still mapped */
	bool is_unfinished;	/* it is active, its owner has ended, and not all functions call it */
	pid_t owner;
	bool owner_is_running;
	uint64_t interval;	/* at the time of injection */
	uint32_t function_nr;	/* of all allocators */
};

/* 0; -ENOENT: the process has no sampler. */
int inject_find(pid_t pid, struct inject_found *ret, struct reason *why);

/* "a sampler", "hooks of an exact recording" */
const char *inject_kind_text(enum inject_kind kind);

/* Whether a process maps just this file just there, as do the one that was injected and those forked from it since. */
bool inject_has_file(pid_t pid, const struct inject_file *file);

/* The sealed files in a process that name this process as their owner. Returns how many there are. */
uint32_t inject_files(pid_t pid, struct inject_file ret[INJECT_ALLOCATORS_MAX]);

struct eject_result {
	struct inject_times times;
	uint32_t function_nr;	/* functions that have their own entries again */
	uint32_t kept_nr;	/* samplers and hooks that stay mapped, and do nothing any more: a thread may return to them, or a copy of a pointer lead to them */
};

/* How long to wait before another try, after one that has stopped the threads so long: they run most of the time. */
static inline uint64_t inject_pause_ns(uint64_t least_ns, uint64_t stopped_ns)
{
	return 10 * stopped_ns > least_ns ? 10 * stopped_ns : least_ns;
}

/*
 * Gives the allocators their pages back, also after another injector; -EAGAIN if its owner runs and is not `owner` (0: this
 * process). No try begins after until_ns (monotonic_now_ns(); 0: in INJECT_LIMIT_NS) but the first one. A sampler that stayed
 * mapped goes with the next call, if it can, as does the memory file of an injector that was killed. ret and why may be NULL.
 */
int inject_eject(pid_t pid, pid_t owner, uint64_t until_ns, struct eject_result *ret, struct reason *why);

#endif
