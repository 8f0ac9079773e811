/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_DIAGNOSIS_H
#define ALLOCSNAP_COLLECT_DIAGNOSIS_H

/*
 * Whether recording would work here, for a process, and what it would not see, and why. It is found
 * by what attach does itself (target.h, probes.h, hazards.h), up to where probes would be placed, so
 * that the two cannot differ. Nothing is attached to the process; what the kernel can do is tried
 * on ourselves (trials.h).
 *
 *	diagnosis.c   who the process is, and the whole
 *	diagnosed.c   its files and probes
 *	machine.c     the checks of the machine: a row in a table each
 *	unseen.c      what would not be seen: likewise
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/reason.h"
#include "collect/budget/calibrate.h"

struct placement;

enum check_state {
	CHECK_GOOD,
	CHECK_COSTS,   /* recording works without, at a price */
	CHECK_UNKNOWN, /* cannot be looked at */
	CHECK_BAD,     /* recording does not work */
};

struct check {
	const char *name; /* "uprobe" */
	enum check_state state;
	struct reason found; /* "attached to allocsnap itself" */
};

struct diagnosed_machine {
	char kernel[65];
	struct trap_costs costs;
	struct check *check;
	size_t check_nr, check_alloc;
	bool records;
	struct reason why; /* it does not */
};

/* How callers are found in a file's code. */
enum diagnosed_unwinding {
	UNWINDING_UNKNOWN,
	UNWINDING_TABLE,
	UNWINDING_NONE,	   /* it has no call frame information: by frame pointers, guessed */
	UNWINDING_MISSING, /* it could not be made into a table */
};

/* A file that the process runs code from. Text is borrowed from the diagnosis. */
struct diagnosed_file {
	const char *path;
	const char *build_id;	/* "" */
	const char *unreadable; /* why; or NULL */
	const char *same_as;	/* one with the same bytes, whose facts it has; or NULL */
	const char *allocator;	/* "glibc"; NULL: no probe would be placed in it */
	uint32_t domain;
	size_t probe_nr;
	bool is_program;
	bool is_32_bit;
	bool is_copied; /* its code may be copied while it runs: no probe is placed in it */
	bool has_traits;
	uint64_t traits; /* enum object_trait */
	bool has_debug_file;
	enum diagnosed_unwinding unwinding;
};

enum diagnosed_return {
	RETURN_NONE,	/* a free */
	RETURN_SESSION, /* of both ends of a call */
	RETURN_PROBE,
	RETURN_RET, /* probes on its `ret` instructions */
};

struct diagnosed_probe {
	size_t file; /* index */
	const char *function;
	uint64_t offset; /* of the function in the file */
	const struct placement *placement;
	enum diagnosed_return returns;
	bool is_placed;
	bool is_another; /* not placed: all its calls go on in another function, which is probed */
};

/* What a recording would not have. */
struct unseen {
	const char *name; /* "go-heap": for programs, and stays */
	const char *what;
	struct reason why;
	const char *todo; /* or NULL */
	bool is_grave;	  /* likely what was to be looked at */
};

struct diagnosed_process {
	pid_t pid;
	char *comm, *exe;
	char state;	    /* as ps has it; 0: there is no such process */
	uint64_t thread_nr, child_nr, rss_bytes;
	bool is_kernel_thread;
	bool in_pid_namespace, in_mount_namespace, in_root; /* not in ours */
	const char *linking; /* "dynamic", "static", "static PIE", "32-bit"; NULL: not known */
	bool python_malloc;  /* PYTHONMALLOC=malloc is in its environment */
	uint64_t traits;     /* of all files */
	uint64_t code_bytes; /* that lie in no file: made at run time */
	const char *probe_kind;
	struct diagnosed_file *file;
	size_t file_nr, file_alloc;
	struct diagnosed_probe *probe;
	size_t probe_nr, probe_alloc;
	struct unseen *unseen;
	size_t unseen_nr, unseen_alloc;
	char **note; /* what attach would say, and go on */
	size_t note_nr, note_alloc;
	size_t failed_nr; /* functions found that cannot be probed */
	bool records;
	struct reason why; /* it does not */
};

struct collector;
struct target;

struct diagnosis {
	struct diagnosed_machine machine;
	struct diagnosed_process process; /* pid 0: none was asked for */
	struct collector *collector;
	struct target *target; /* NULL: it could not be opened */
};

/* pid 0: of the machine only. NULL: no memory. Forks: before there are threads. */
struct diagnosis *diagnosis__new(pid_t pid);
void diagnosis__free(struct diagnosis *diagnosis); /* NULL is allowed */

/* Whether all that was asked for would be recorded. */
bool diagnosis__records(const struct diagnosis *diagnosis);

/* Its parts. 0 or -ENOMEM. Files before probes, when probes have been looked for. */
int diagnose_machine(struct diagnosed_machine *machine);
int diagnose_files(struct diagnosis *diagnosis);
int diagnose_probes(struct diagnosis *diagnosis);
int diagnose_unseen(struct diagnosed_process *process);

#endif
