/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SOURCES_BLOCK_SOURCES_H
#define ALLOCSNAP_COLLECT_SOURCES_BLOCK_SOURCES_H

/*
 * The table of sources (target/block_source.h), and what the recorder asks of all of them together. A process is asked
 * in the order of the rows: a source may leave less to those after it.
 */

#include <stdint.h>

#include "collect/recording/collector.h"
#include "collect/sources/injection.h"
#include "collect/sources/page_source.h"
#include "collect/sources/python_books.h"
#include "collect/sources/python_choice.h"
#include "collect/target/block_source.h"
#include "elf/user_allocators.h"

/* The state of the sources for the whole recording. */
struct source_state {
	struct user_allocators user_allocators; /* of --probe */
	struct python_choice python_choice;
	uint64_t python_noted_nr; /* processes of which a note says why their Python is not recorded */
	struct injections injections;
	struct all_python_books python_books;
	struct all_pages pages;
	struct java_loader *java_loader; /* with the domain java */
	bool is_interval_noted; /* a note named a process whose sampler's interval cannot be written */
};

/*
 * The functions of the allocators of --probe are probed with the heap's (probes_attach()): user_allocator_source reports
 * what happened to them, as the user may have misspelt a name.
 */
extern const struct block_source sampler_source, malloc_books_source, java_source, python_source, go_source,
	user_allocator_source, page_source;

/* Ends with NULL. */
extern const struct block_source *const block_sources[];

/* Call the functions of struct block_source. Those that return int stop at the first error. */
int sources_choose(struct collector *collector, struct reason *why);
int sources_configure(struct collector *collector, struct allocsnap_bpf *bpf);
int sources_open(struct collector *collector, struct reason *why);
int sources_preload(struct collector *collector);
bool sources_load_later(const struct collector *collector);
void sources_close(struct collector *collector);
int sources_check(struct collector *collector, const struct target *target, struct reason *why);
void sources_leave(struct collector *collector, struct target *target);
void sources_forget_program(struct target *target);
void sources_end(struct collector *collector, struct target *target);
uint64_t sources_keep_cost(struct collector *collector);
bool sources_can_save(const struct target *target);
bool sources_have_own_rate(const struct target *target);
void sources_before_cut(struct collector *collector);
int sources_after_read(struct collector *collector);
int sources_add_tracebacks(struct collector *collector);
void sources_look(struct target *target);
bool sources_are_estimated(const struct target *target, const struct settings *settings);

/* Whether a source sees blocks of the process, with or without probes. */
bool sources_are_used(const struct target *target);

/* Why a source that is for the process cannot be used; NULL: no source says so. */
const char *sources_why_unused(const struct target *target);

/* Whether only a domain is recorded of which there is nothing to show in this process. */
bool sources_show_nothing(const struct collector_options *options, const struct target *target);

/* An option that stands for a domain, and that domain; NULL: none was given. */
const char *sources_option_given(const struct collector_options *options, const char **ret_domain);

/*
 * Probes the objects of a process that have not been looked at yet: makes their unwind tables, avoids return probes
 * where these could end the process, and asks all sources. 0 or a negative errno.
 */
int probe_new_objects(struct collector *collector, struct target *target, struct reason *why);

/* The same for mappings that are new: what --probe names and they lack becomes a note. */
void probe_new_mappings(struct collector *collector, struct target *target);

#endif
