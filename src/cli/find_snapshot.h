/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_FIND_SNAPSHOT_H
#define ALLOCSNAP_CLI_FIND_SNAPSHOT_H

/*
 * A command takes these texts for a snapshot:
 *
 *	FILE             a snapshot file
 *	FOLDER           a folder with the snapshots of one process
 *	PID or COMM      a process in ./allocsnap-data; COMM.PID if its name or PID is not enough
 *	PLACE@WHICH      one snapshot of FOLDER, PID or COMM: latest, first, or -1, -2… counted from the latest
 *	WHICH            the same of the only process in ./allocsnap-data
 *
 * A name of an existing file or folder is that file or folder, unless the file is executable. The functions report
 * failures on stderr, and list the candidates if a text fits several processes. They return an exit status.
 */

#include <stdbool.h>
#include <stddef.h>

/* Where recordings go, and where PID and COMM are looked up. */
#define DATA_DIR "./allocsnap-data"

/* For the detail of a command, which has one paragraph a line (cli/cmd_help.h). */
#define FIND_SNAPSHOT_DETAIL \
	"SNAP is a snapshot file, a folder of one process, or a PID or COMM of which ./allocsnap-data has snapshots. " \
	"Of several snapshots the latest one is read; @first, @latest, @-1 (the latest), @-2 (the one before) and so " \
	"on choose another one:\n" \
	"  redis-server  4711@first  allocsnap-data/HOST/COMM.PID@-2\n"

/* Whether the text is a file or folder that exists, and not the name of a program. */
bool is_input_path(const char *text);

/* Whether the text is a WHICH: latest, first, -1… */
bool is_which_snapshot(const char *text);

/* Whether it is a PID or a name, and no file or folder of that name. COMM.PID and NAME@WHICH name snapshots. */
bool names_process(const char *text);

struct snapshot_paths {
	char **path;
	size_t path_nr, path_alloc;
};

/* Copies the path. Returns 0 or -ENOMEM. */
int snapshot_paths_add(struct snapshot_paths *paths, const char *path);
void snapshot_paths_release(struct snapshot_paths *paths);

/*
 * The path of one snapshot: of a folder or a process, the latest. If text is not the path itself, the path is reported
 * on stderr. Other files, "-" and paths that do not exist are returned as they are: opening them gives the reason. The
 * caller frees *ret_path.
 */
int find_snapshot(const char *text, char **ret_path);

/*
 * All snapshots of one process, oldest first; text has no WHICH. EXIT_DONE with path_nr 0: text is a file, or does not
 * exist as a path. snapshot_paths_release() frees *ret, also after a failure.
 */
int find_process_snapshots(const char *text, struct snapshot_paths *ret);

/*
 * Adds all snapshots that a text names: with WHICH one; a folder names the snapshots of all processes below it. After
 * EXIT_FAILED some may be missing.
 */
int find_all_snapshots(const char *text, struct snapshot_paths *paths);

#endif
