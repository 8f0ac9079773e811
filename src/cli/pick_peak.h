/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_PICK_PEAK_H
#define ALLOCSNAP_CLI_PICK_PEAK_H

#include <stddef.h>

/*
 * Chooses the snapshot with the most traced bytes of those that the texts name (find_all_snapshots()): of a folder,
 * those of all processes below it. Reports on stderr which snapshot it is, when it was taken and, if the snapshots
 * know, its share of the process's peak. Files that cannot be read are reported. Returns an exit status: EXIT_FAILED
 * with a path in *ret_path if some files could not be read, without a path if none could. The caller frees *ret_path.
 */
int at_peak_choose(const char *const *text, size_t text_nr, char **ret_path);

#endif
