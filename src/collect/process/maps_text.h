/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PROCESS_MAPS_TEXT_H
#define ALLOCSNAP_COLLECT_PROCESS_MAPS_TEXT_H

/* The text of /proc/PID/maps (fs/proc/task_mmu.c, show_map_vma). */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct maps_line {
	uint64_t start, end, offset, dev, inode;
	char perms[5];
	const char *path; /* "" for anonymous memory; in the text of the line */
};

bool maps_parse_line(const char *text, struct maps_line *line);

/* Reads the line of the mapping that holds an address, without its path. False: there is none, or it cannot be read. */
bool maps_find_line(pid_t pid, uint64_t address, struct maps_line *ret);

/* 65,530 mappings, the most that a process may have by default, take 8 MiB with paths of 60 bytes. */
#define MAPS_TEXT_MAX (32u << 20)

/*
 * Returns the lines of executable memory, for the caller to free; "" if the process has ended. *ret_is_cut: they
 * were more than MAPS_TEXT_MAX bytes, and the lines of higher addresses are missing. NULL and errno on failure.
 */
char *maps_read_code(pid_t pid, bool *ret_is_cut);

#endif
