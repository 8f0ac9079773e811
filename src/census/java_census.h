/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CENSUS_JAVA_CENSUS_H
#define ALLOCSNAP_CENSUS_JAVA_CENSUS_H

/*
 * The objects in the heap of a Java virtual machine by class, counted by itself (GC.class_histogram). It stops the program
 * meanwhile. Of two kinds: all objects, with the ones that no one can reach any more, or those that a full collection leaves.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct reason;

#define JAVA_CENSUS_SCHEMA "allocsnap.census.java/1"

enum java_census_kind {
	JAVA_CENSUS_NONE = 0,
	JAVA_CENSUS_ALL,
	JAVA_CENSUS_LIVE,
};

struct java_class {
	char *name;
	uint64_t count, bytes;
};

struct java_census {
	pid_t pid;
	uint32_t version;
	enum java_census_kind kind;
	struct java_class *class;
	size_t class_nr, class_alloc;
	uint64_t count, bytes; /* of all classes */
	uint64_t took_ns;
};

/*
 * The rows of the virtual machine's text; other lines are passed over. 0; -ENODATA: it has none; -EBADMSG: they do not make the
 * total at its end, as the answer was cut; or -ENOMEM.
 */
int java_census_parse(const char *text, struct java_census *ret);

/* 0 or a negative errno with a line in *why. */
int java_census_take(pid_t pid, enum java_census_kind kind, struct java_census *ret, struct reason *why);
void java_census_release(struct java_census *census);

/* 0 or a negative errno. */
int java_census_put(FILE *out, const struct java_census *census, uint64_t top, bool is_json);

#endif
