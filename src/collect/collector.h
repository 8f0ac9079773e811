/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_COLLECTOR_H
#define ALLOCSNAP_COLLECT_COLLECTOR_H

/*
 * Recording: loads the BPF programs, attaches them to processes, and makes snapshots of what
 * they wrote into the maps. Everything in the kernel belongs to descriptors of this process:
 * when it ends, in whatever way, nothing stays behind.
 *
 *	collector = collector__open(&options, &why);
 *	err = collector__add(collector, pid, &why);          // once for each process
 *	while (recording) {
 *		collector__refresh(collector);               // each second: dlopen, exec, exit
 *		err = collector__drain(collector, &why);     // one pass for all processes
 *		for (i = 0; i < collector__target_nr(collector); i++)
 *			err = collector__save(collector, i, dir, &path, &why);
 *	}
 *	collector__close(collector);
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct reason;

#define COLLECTOR_TRACEBACK_LIMIT_MAX 127

/* Zero is the default. */
struct collector_options {
	uint32_t traceback_limit; /* frames; 64 */
	uint32_t max_blocks;	  /* live blocks, of all processes together; 4,194,304 */
	uint32_t max_tracebacks;  /* distinct tracebacks; 262,144 */
};

struct collector;

/* NULL and errno, with a line that says what to do: EPERM no privilege, ENOTSUP no BTF… */
struct collector *collector__open(const struct collector_options *options, struct reason *why);

/* Detaches, forgets. NULL is allowed. */
void collector__close(struct collector *collector);

/*
 * Starts to record the process that a PID or TID belongs to; a process that is recorded already
 * is left as it is. 0 or a negative errno with a line: -ESRCH no such process, -ENOENT no
 * allocator function found in what it maps…
 */
int collector__add(struct collector *collector, pid_t id, struct reason *why);

/*
 * Starts a program and records it from the C library's first allocation on; see launch.h. argv ends
 * with NULL. *ret_pid is set as soon as it runs, also where recording it failed: it is ours to wait
 * for (launch_wait()). Errors as above, and those of exec.
 */
int collector__run(struct collector *collector, const char *const argv[], pid_t *ret_pid,
		   struct reason *why);

size_t collector__target_nr(const struct collector *collector);

/* What a status line says of a process. Strings live until the next refresh. */
struct target_view {
	pid_t pid;
	const char *comm;
	bool has_ended;
	int pidfd; /* readable once it has ended */
	uint64_t current_bytes, current_blocks, allocations;
	uint64_t lost; /* the kernel's losses, all together */
};

/* 0 or the negative errno of reading the map. */
int collector__view(const struct collector *collector, size_t i, struct target_view *ret);

/*
 * What was decided while recording and should be told: a line that the caller frees, or NULL.
 * Where return probes could end a process, it is recorded without them.
 */
char *collector__next_note(struct collector *collector);

/*
 * tracemalloc.clear_traces() of process i: its books begin anew, empty, at one instant; frees of
 * blocks of before are unknown ones. 0 or a negative errno.
 */
int collector__clear_traces(struct collector *collector, size_t i);

/* tracemalloc.reset_peak() of process i: the peaks are what is live now. */
int collector__reset_peak(struct collector *collector, size_t i);

/*
 * Reads what the processes map by now, probes allocators that have come, notices execs and ends.
 * What cannot be had is counted in the snapshots.
 */
void collector__refresh(struct collector *collector);

/* Reads the books of all processes; the next snapshots are of this moment. */
int collector__drain(struct collector *collector, struct reason *why);

/*
 * Writes the snapshot of process i as DIR/HOST/COMM.PID/TIME.snap (folders are made, mode
 * 0700). The caller frees *ret_path.
 */
int collector__save(struct collector *collector, size_t i, const char *dir, char **ret_path,
		    struct reason *why);

#endif
