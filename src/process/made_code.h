/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PROCESS_MADE_CODE_H
#define ALLOCSNAP_PROCESS_MADE_CODE_H

/*
 * Names of code that a process makes at run time. Its runtime writes them to /tmp/perf-PID.map if it is asked to (node
 * --perf-basic-prof, python -X perf, Java with an agent): a perf map (symbols/perf_map.h). PID and /tmp are of the process's
 * own namespaces. Or it writes a jitdump, of any folder and the name jit-PID.dump, and maps it, so that profilers find it (node
 * --perf-prof, python -X perf_jit, Java with perf's agent).
 *
 * Anyone may put a file of this name there. So a map counts only if it belongs to the process's user or to root, is a regular
 * file on a local file system, and no symbolic link leads to it. Its text is read in the sandbox. The map is kept open, so
 * that the last snapshot of a process has its names, too.
 *
 * A file that was not written to since the process began is of another process, which had its PID before. A map that was
 * removed and made anew is read from its begin, and what the old one said stays.
 *
 * Code may go and other code come to its address: the map then has another name for it. Nothing says when, so from then on
 * the address has "[code that was replaced]" for a name. Only names that the map had before the code can have run are over:
 * an address that a pass is the first to see has run since the pass before, so what the map said before that pass's drain
 * is settled.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/file_replace.h"
#include "base/idmap.h"
#include "base/reason.h"
#include "process/mapped_file.h"
#include "symbols/perf_map.h"

struct mappings;
struct sandbox;

struct made_name {
	uint64_t address;
	uint32_t text; /* id in text; 0: none is known */
};

/* Zeroed, with fd -1: nothing is known. */
struct made_code {
	int fd; /* the perf map or jitdump */
	struct file_identity dump; /* of the jitdump; zeroed: a map */
	bool is_refused, is_told; /* it could not be read; made_code_next_refusal() has said so */
	struct reason why;
	struct file_version read; /* the map as it was read last */
	struct perf_map_part old; /* where that reading ended */
	size_t read_nr; /* addresses that were asked for then */
	uint64_t settled[2]; /* bytes of the map at the last pass but one, and at the last one */
	uint64_t pass_ns;
	struct made_name *name;
	size_t name_nr, name_alloc;
	struct idmap ids; /* by address */
	struct strpool text;
};

/* Opens the map if there is one, or a new one in place of one that was removed, and the process has code that lies in no file. */
void made_code_open(struct made_code *made, const struct mappings *mappings, pid_t pid);

/* Call before anything is recorded: all that the map has now is settled. */
void made_code_begin(struct made_code *made);

/* Return addresses whose names are wanted. 0 or -ENOMEM. */
int made_code_add(struct made_code *made, uint64_t return_address);

/* Reads the map, if it has changed since, or addresses were added. pass_ns tells passes apart. 0 or -ENOMEM. */
int made_code_look_up(struct made_code *made, struct sandbox *sandbox, uint64_t pass_ns);

/* NULL: it is not known. Valid until the next look-up. */
const char *made_code_name(const struct made_code *made, uint64_t return_address);

/* Whether the map was refused, and the reason; once. */
bool made_code_next_refusal(struct made_code *made, struct reason *why);

/* Whether the map has more than is read (PERF_MAP_BYTES_MAX). */
bool made_code_is_too_large(const struct made_code *made);

/* After an exec; and at the end. */
void made_code_forget(struct made_code *made);

#endif
