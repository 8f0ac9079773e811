/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_PROCESS_LIST_H
#define ALLOCSNAP_CLI_PROCESS_LIST_H

/* The processes of which a folder has snapshots, for `list`, and the table that it prints. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/moment.h"

/* One end of a process's series of snapshots; begins like a struct snapshot_file (archive/walk.h). */
struct listed_snapshot {
	struct moment moment; /* wall_ns 0: not known */
	char *path;
	uint64_t traced_bytes;
};

/* A process: one program run, from one exec to the next. Names are as untrusted as the files. */
struct listed_process {
	struct listed_snapshot last, first;
	char *identity; /* other processes with snapshots in the same folder have another one */
	char *host, *comm, *folder;
	uint64_t pid; /* 0: not known */
	size_t snapshot_nr;
	uint64_t disk_bytes;
	uint64_t peak_bytes; /* the highest that any snapshot knows of */
	bool is_estimated;   /* recorded by samples */
	const char *sampler; /* kind of the sampler in the process (render/facts.h) in the last snapshot; NULL: none */
	bool is_unseen;	     /* its allocator was probed too late to know what it held */
	bool has_pages;	     /* its resident pages were recorded, as nothing else sees its memory */
	char *end;	     /* how it ended, as of the last snapshot; "running" */
	char *pod;	     /* of Kubernetes, "NAMESPACE/NAME"; "" if it is in none, or that is not known */
};

struct process_list {
	struct listed_process *process; /* the process with the newest snapshot first */
	size_t process_nr, process_alloc;
	size_t damaged_nr; /* files that could not be read, each reported on stderr */
};

/*
 * Reads all snapshots below a folder; path may also be a snapshot file. Returns an exit status: EXIT_FAILED if some
 * files or folders could not be read; the list has the others then. process_list_release() frees *ret in any case.
 */
int process_list_read(const char *path, struct process_list *ret);
void process_list_release(struct process_list *list);

/* ---- the table ---- */

/*
 * Writes the table. If it is wider than `width` columns, times lose their year and then their seconds, the sizes on
 * disk are left out, and names and ends are shortened; width 0: any width is fine. Returns 0 or a negative errno.
 */
int list_table_print(const struct process_list *list, FILE *out, int width);

int process_list_put_json(const struct process_list *list, FILE *file);

/* "968K", "5.2M", "13.8M": shorter than format_size(). Returns text. */
#define LIST_SIZE_MAX 24
const char *list_size_text(char text[LIST_SIZE_MAX], double bytes, bool with_sign);

#endif
