/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_RECORDING_PLACE_H
#define ALLOCSNAP_CLI_RECORDING_PLACE_H

/*
 * Where a recording writes, and whose the files are. -o DIR is a folder; -o FILE.snap is the file of a single snapshot.
 * Behind sudo, new files and folders are given to the user who ran it, unless -o leads to a folder of somebody else.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "snapshot.h"

struct collector;
struct command;
struct recording_options;

/* Sets file and owner from dir, which has the text of -o. */
void recording_place_resolve(struct recording_options *recording);

/*
 * Checks that -o FILE.snap fits the other options, for so many processes, and then records a single snapshot. Returns
 * an exit status: EXIT_REFUSED, reported, if it does not fit.
 */
int recording_place_refuse(const struct command *command, struct recording_options *recording, size_t process_nr,
			   bool follows);

/*
 * Checks, without making anything, whether the folder can be written to or made. To be called before anything that takes
 * long. Returns an exit status.
 */
int recording_place_look(const struct recording_options *recording);

/* Makes the folder and checks that files can be written there. Returns an exit status. */
int recording_place_check(const struct recording_options *recording);

/* The capabilities needed to write into a folder, or to make it. */
uint64_t privileges_to_make(const char *path);

/*
 * Gives up, for good, every capability that recording to that place no longer needs, except those in `also`. To be
 * called when everything is loaded and `run` has started its program, which keeps the privileges it was started
 * with. EXIT_FAILED: it failed and reported why.
 */
int drop_privileges(const struct collector *collector, const struct recording_options *recording, uint64_t also);

#endif
