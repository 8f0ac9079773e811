/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SESSION_SESSION_H
#define ALLOCSNAP_COLLECT_SESSION_SESSION_H

/*
 * A recording from its begin to its end, the only room that knows all others of collect.
 *
 *	open_collector.c ──► start.c ──► events.c ──► take_pass.c ──► save_views.c
 *	                     a process   children,    reads the       snapshots
 *	                     begins      execs, code  maps
 *
 * tracemalloc_api.c answers questions about one process, save_views.c and health.c about all. inject_target.c puts samplers
 * and hooks in, and takes them out; run_exact.c starts a program for that.
 */

#include "collect/files/unused_files.h"
#include "collect/limits/own_links.h"
#include "collect/recording/collector.h"
#include "collect/sources/block_sources.h"
#include "inject/inject.h"

/* A collector that has nothing yet; options NULL: none. NULL: no memory. */
struct collector *collector_new(const struct collector_options *options);

/* Reads the accounting as it is now, or as it was last read if the slot is empty. */
void read_traced_memory(const struct accounts *accounts, const struct target *target, struct traced_memory *ret);

/* Takes ownership of an open target if it returns 0. */
int add_target(struct collector *collector, struct target *target);

/* Removes target i, and its own probes. */
void remove_target(struct collector *collector, size_t i);

/* Whether a process can be injected into at all, and whether the blocks of books can be read at one instant. 0 or -ENOTSUP… */
int check_injector(struct collector *collector, struct reason *why);
int check_books_can_cut(struct reason *why);

/* Words for the state in which a failed injection has left the process. */
const char *inject_change_text(enum inject_change change);

/* Puts hooks into a process, which has books then. wait: as for inject_python_execute(). 0 or a negative errno. */
int inject_hooks(struct collector *collector, const struct target *target, struct inject_python *python,
		 const struct inject_wait *wait, struct inject_times *ret, struct reason *why);

/* Starts the program, held. Its pid, or a negative errno; *ret_pid as for collector__run(). */
pid_t launch_program(struct collector *collector, const char *const argv[], pid_t *ret_pid, struct reason *why);

/* collector__run() with options.run_exact (run_exact.c). */
int run_exactly(struct collector *collector, const char *const argv[], pid_t *ret_pid, struct reason *why);

/* The account of a program that is held begins: no call can be in flight, so it is open from the start. 0 or a negative errno. */
int begin_held(struct collector *collector, struct target *target, struct reason *why);

/* It is recorded from now on; or, after an error, it is closed. Returns the error. */
int take_held(struct collector *collector, struct target *target, int err);

/* Closes a target that was not added, with its accounting and its own probes. */
void close_target(struct collector *collector, struct target *target);

/*
 * Probes the objects of a process at the start of a recording. -ENOENT with a line in *why if no function that gives out
 * blocks was found. If target->probes.used are a trial's, nothing is attached.
 */
int find_probes(struct collector *collector, struct target *target, struct reason *why);

/* Looks at all processes, at their mappings and identities, whatever has happened. */
void collector_refresh_all(struct collector *collector);

/* Handles events and accounting only: then children and execs are known, but not the mappings of new images. */
void collector_read_news(struct collector *collector, bool whole);

/*
 * Notices, once and with a note, that a helper process has ended. If it is the link holder, the probes are gone, too,
 * and each process gets a gap that has no end. The other helpers read and open files.
 */
void notice_blindness(struct collector *collector);

/* Fills in a snapshot's facts about its recording, as it is now. */
struct snapshot_context snapshot_context_now(const struct collector *collector);

/* "cannot …: process PID is not traced", in tracemalloc's words. */
int log_not_tracing(pid_t pid, struct reason *why);

#endif
