/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_AT_PEAK_H
#define ALLOCSNAP_AT_PEAK_H

#include <stddef.h>

/*
 * Of several snapshots, and of those in folders among the paths, the one in which most is traced; says on stderr
 * which, when it was taken, and what share of its process's peak it shows, as far as the snapshots know
 * that. What cannot be read is said. An exit status: EXIT_FAILED with a path in *ret_path where some of
 * them could not be read, without one where none could. The caller frees *ret_path.
 */
int choose_at_peak(const char *const *path, size_t path_nr, char **ret_path);

#endif
