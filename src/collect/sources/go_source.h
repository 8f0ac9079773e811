/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SOURCES_GO_SOURCE_H
#define ALLOCSNAP_COLLECT_SOURCES_GO_SOURCE_H

/* The heap of Go programs, of which Go's runtime keeps a profile (go/go_profile.h). */

#include <stdbool.h>
#include <stdint.h>

struct collector;
struct target;

/* Whether the process is a Go program whose heap profile can be read. */
bool has_go_profile(const struct collector *collector, const struct target *target);

/* The Go program in a process that was attached to, as its profile is now. */
struct go_look {
	bool is_there;
	const char *version, *why_not; /* why_not: its profile cannot be read; or NULL */
	uint64_t rate; /* bytes from sample to sample; 0: not known */
	uint64_t bucket_nr;
};
void go_look_at(struct collector *collector, struct target *target, struct go_look *ret);
void go_look_end(struct target *target); /* the texts end, too */

#endif
