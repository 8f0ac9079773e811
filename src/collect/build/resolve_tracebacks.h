/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_BUILD_RESOLVE_TRACEBACKS_H
#define ALLOCSNAP_COLLECT_BUILD_RESOLVE_TRACEBACKS_H

/*
 * Converts the addresses of tracebacks to places in objects. Places stay true when the process unmaps a library,
 * maps another one there, or ends.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/drain/map_reader.h"
#include "process/mappings.h"
#include "collect/target/tracebacks.h"

/*
 * At each drain, call resolve_begin() once, then resolve_held() for each traceback of the target's image, then
 * resolve_drained() for each, which makes it known with its churn. A known traceback is not resolved again.
 * Between resolve_held() and resolve_drained() others can be forgotten (traceback_versions.h). Call versions_credit()
 * when all are known (traceback_versions.h). 0 or -ENOMEM.
 */
void resolve_begin(struct tracebacks *tracebacks);
void resolve_held(struct tracebacks *tracebacks, uint64_t id);
int resolve_drained(struct tracebacks *tracebacks, const struct mappings *mappings, uint64_t id,
		    const struct traceback *traceback);

/* Takes over the churn of a traceback that has just been taken out of the map. 0 or -ENOMEM. */
int resolve_retired(struct tracebacks *tracebacks, const struct mappings *mappings, uint64_t id,
		    const struct traceback *traceback);

/*
 * Resolves one traceback as the addresses were mapped at a time, or HISTORY_NOW or HISTORY_ANY, and adds its places.
 * 0 or -ENOMEM.
 */
int resolve_at(struct tracebacks *tracebacks, const struct mappings *mappings, uint64_t time_ns,
	       const struct traceback *traceback, struct known_traceback *ret);

struct churn churn_sum(const struct churn *a, const struct churn *b);

/*
 * Decides whether an address can be a return address. A walk by frame pointers through code that has none takes
 * the memory that rbp points at for a frame. Such junk is hardly ever an address right behind a call instruction.
 * So a frame without a call in front of it ends the traceback: a short traceback is better than a made-up one.
 */

/* How many bytes before the address, and from the address on, the decision may read. */
#define RETURN_ADDRESS_BEFORE 7
#define RETURN_ADDRESS_AFTER 9

/*
 * code points at the address itself, with `before` readable bytes in front of it and `after` from it on. True if
 * a call ends right there, or if it is where a signal handler returns to (x86-64: mov $15,%rax; syscall). Always
 * true on machines that are not known.
 */
bool is_return_address(const uint8_t *code, size_t before, size_t after, uint16_t elf_machine);

#endif
