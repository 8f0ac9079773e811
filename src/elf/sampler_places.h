/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_SAMPLER_PLACES_H
#define ALLOCSNAP_ELF_SAMPLER_PLACES_H

/*
 * The probes of a sampler of the process itself: USDT of provider otel_memory or ddheap.
 *
 *	otel_memory:alloc(pointer, size, weight)	weight: the bytes that the sample stands for
 *	otel_memory:free(pointer)
 *
 * A sampler may report no frees: then only its allocations are known.
 */

#include "elf/usdt_places.h"

/* No places: the file has no sampler, or none that can be used. */
void sampler_places_read(struct elf_object *elf, struct usdt_places *ret);

bool sampler_place_is_free(const struct usdt_place *place);
bool sampler_places_tell_frees(const struct usdt_places *places);

/* Checks what another process sent, for a file of this size. */
bool sampler_places_are_sound(const struct usdt_places *places, uint64_t file_bytes);

#endif
