/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_DIAGNOSIS_DIAGNOSIS_H
#define ALLOCSNAP_COLLECT_DIAGNOSIS_DIAGNOSIS_H

/*
 * Reports whether recording would work here for a process, and which data it would lack, and why. It runs
 * attach's own code (target.h, probes.h, hazards.h) up to the place where probes would be attached, so that the
 * two cannot differ. Nothing is attached to the process. Features of the kernel are tried on our own process
 * (feature_probes.h).
 *
 *	diagnosis.c   the identity of the process, and the whole report
 *	diagnosis.c   its files and probes
 *	host.c     the checks of the machine, one table row each
 *	blind_spots.c      the blind spots, one table row each
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/reason.h"
#include "collect/budget/calibrate.h"
#include "collect/sources/go_source.h"
#include "collect/sources/ways.h"
#include "elf/probe_info.h"

struct inject_plan;

enum check_state {
	CHECK_GOOD,
	CHECK_COSTS,   /* recording works without it, at a price */
	CHECK_UNKNOWN, /* cannot be checked */
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
	bool records, records_pages;
	struct reason why; /* why it does not record */
};

/* How callers are found in a file's code. */
enum diagnosed_unwinding {
	UNWINDING_UNKNOWN,
	UNWINDING_TABLE,
	UNWINDING_NONE,	   /* no call frame information: callers are guessed by frame pointers */
	UNWINDING_MISSING, /* the call frame information could not be made into a table */
};

/* A file that the process runs code from. The diagnosis owns the texts. */
struct diagnosed_file {
	const char *path;
	const char *build_id;	/* "" */
	const char *unreadable; /* why it cannot be read; or NULL */
	const char *same_as;	/* a file with the same bytes and so the same probe_info; or NULL */
	const char *allocator;	/* "glibc"; NULL: no probe would be placed in it */
	uint32_t domain;
	size_t probe_nr;
	bool is_program;
	bool is_32_bit;
	bool is_copied; /* its code may be copied while it runs: no probe is placed in it */
	bool has_nameless_heap; /* an allocator is linked in, but none of its functions has a name */
	bool has_more_heaps; /* or may have: under prefixes, more than are recorded */
	bool has_traits;
	uint64_t traits; /* enum object_trait */
	bool has_debug_file;
	enum diagnosed_unwinding unwinding;
};

/* Which of its code the file names: each has what the ones before it have. */
enum diagnosed_names {
	DIAGNOSED_UNKNOWN, /* it could not be looked at */
	DIAGNOSED_EXPORTED, /* exported functions */
	DIAGNOSED_FUNCTIONS,
	DIAGNOSED_LINES,
};

enum diagnosed_names diagnosed_names(const struct diagnosed_file *file);

enum diagnosed_return {
	RETURN_NONE,	/* a free */
	RETURN_SESSION, /* one probe for both ends of a call */
	RETURN_PROBE,
	RETURN_RET, /* probes on its `ret` instructions */
};

struct diagnosed_probe {
	size_t file; /* index */
	char function[FUNCTION_NAME_MAX];
	uint64_t offset; /* of the function in the file */
	const struct placement *placement;
	enum diagnosed_return returns;
	bool is_placed;
	bool is_python;	 /* at many places (struct diagnosed_python), of which this is the first */
	bool is_another; /* not placed: all its calls go on in another function, which is probed */
};

/* A blind spot: data that a recording would lack. */
struct unseen {
	const char *name; /* a stable name for programs: "go-heap" */
	const char *what;
	struct reason why;
	const char *todo; /* or NULL */
	bool is_grave;	  /* likely the data that the user wants */
	bool is_common;	  /* true of nearly every process */
};

/* CPython in the process, as attach would record it without --domain. */
struct diagnosed_python {
	bool is_there;
	bool is_used; /* its objects would be recorded, not the heap */
	char version[16];
	uint32_t place_nr, unknown_nr; /* places to probe; places that look like them and were not understood */
	const char *why_not; /* or NULL */
	bool is_refused; /* also if they are asked for */
};

/* A Java virtual machine in the process, and whether --domain java could load an agent into it. */
struct diagnosed_java {
	bool is_there;
	uint32_t version; /* 0: older than 11, or not known */
	struct reason why_not; /* "": it could */
};

struct diagnosed_process {
	pid_t pid;
	char *comm, *exe;
	char state;	    /* as in ps; 0: no such process */
	uint64_t thread_nr, child_nr, rss_bytes;
	bool is_kernel_thread;
	bool in_pid_namespace, in_mount_namespace, in_root; /* differ from ours */
	const char *linking; /* "dynamic", "static", "static PIE", "32-bit"; NULL: not known */
	bool python_malloc;  /* PYTHONMALLOC=malloc is in its environment */
	struct diagnosed_python python;
	struct go_look go;
	struct diagnosed_java java;
	uint64_t traits;     /* of all files */
	uint64_t code_bytes; /* bytes of code in no file: made at run time */
	bool has_perf_map;   /* that names it (process/made_code.h) */
	bool is_map_too_large; /* to be read */
	const char *probe_kind;
	struct diagnosed_file *file;
	size_t file_nr, file_alloc;
	struct diagnosed_probe *probe;
	size_t probe_nr, probe_alloc;
	struct unseen *unseen;
	size_t unseen_nr, unseen_alloc;
	char **note; /* what attach would log before it goes on */
	size_t note_nr, note_alloc;
	size_t failed_nr; /* functions found that cannot be probed */
	struct inject_plan *injection; /* what attach --inject would do; NULL: it would be refused */
	struct reason not_injected;    /* why */
	struct exact_plan *exact; /* the same of attach --inject=exact */
	struct reason not_exact;
	bool records;
	struct reason why; /* why it would not be recorded */
};

struct collector;
struct target;

struct diagnosis {
	struct diagnosed_machine machine;
	struct diagnosed_process process; /* pid 0: none was asked for */
	struct collector *collector;
	struct target *target; /* NULL: it could not be opened */
};

/*
 * pid 0: checks only the machine. NULL, with a line in *why: no memory, or a file system that allocsnap needs is missing.
 * Forks, so call it before there are threads.
 */
struct diagnosis *diagnosis__new(pid_t pid, struct reason *why);

/* Only process.pid, injection and not_injected, or exact and not_exact. domains: enum collector_domains; 0: none was named. */
struct diagnosis *diagnosis__of_injection(pid_t pid, bool is_exact, uint32_t domains, struct reason *why);

/* The ways to record a process that is not recorded yet. *ret_core_percent: how busy it is now. 0 or a negative errno. */
int diagnose_ways(pid_t pid, struct ways *ret, double *ret_core_percent, struct reason *why);

void diagnosis__free(struct diagnosis *diagnosis); /* NULL is allowed */

/* Whether everything that was asked for would be recorded. */
bool diagnosis__records(const struct diagnosis *diagnosis);

/* The parts of a diagnosis. 0 or -ENOMEM. diagnose_files() before diagnose_probes(), after the search for probes. */
int diagnose_machine(struct diagnosed_machine *machine);
int diagnose_unseen(struct diagnosed_process *process);

#endif
