/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_SAMPLER_PLACES_H
#define ALLOCSNAP_ELF_SAMPLER_PLACES_H

/*
 * The probes of a sampler of the process itself: USDT of provider otel_memory or ddheap, described by notes of type stapsdt in the
 * section .note.stapsdt:
 *
 *	otel_memory:alloc(pointer, size, weight)	weight: the bytes that the sample stands for
 *	otel_memory:free(pointer)
 *
 * A sampler may report no frees: then only its allocations are known. A compiler may have copied a probe to several places. All of them are used, or none: a free that is not seen would
 * leave its block in the account.
 */

#include <stdbool.h>
#include <stdint.h>

#include "shared/bpf_types.h"

struct elf_object;

#define SAMPLER_PLACES_MAX 64
#define SAMPLER_FAULT_MAX 128

struct sampler_place {
	uint64_t offset;    /* in the file */
	uint64_t semaphore; /* in the file: the kernel counts the probes there; 0: none */
	uint64_t is_free;
	struct sampler_call call;
};

struct sampler_places {
	uint64_t nr; /* 0: the file has no sampler, or none that can be used */
	int64_t info_distance; /* bytes from place[0] to its struct sampler_info, in memory; 0: it has none */
	char fault[SAMPLER_FAULT_MAX]; /* why the sampler cannot be used, or "" */
	struct sampler_place place[SAMPLER_PLACES_MAX];
};

void sampler_places_read(struct elf_object *elf, struct sampler_places *ret);

bool sampler_places_tell_frees(const struct sampler_places *places);

/* Checks what another process sent, for a file of this size. */
bool sampler_places_are_sound(const struct sampler_places *places, uint64_t file_bytes);

#endif
