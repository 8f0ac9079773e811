/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SOURCES_SOURCES_PRIVATE_H
#define ALLOCSNAP_COLLECT_SOURCES_SOURCES_PRIVATE_H

#include <stdint.h>

struct collector;
struct reason;
struct target;

/* block_sources.c, for probe_process.c: the functions of struct block_source. */
void sources_prepare(const struct target *target);
int sources_attach(struct collector *collector, struct target *target, struct reason *why);
void sources_note_missing(struct collector *collector, const struct target *target, uint32_t object);

#endif
