/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_USDT_PLACES_H
#define ALLOCSNAP_ELF_USDT_PLACES_H

/*
 * USDT: probes that a program has in its code, each on a nop, described by notes of type stapsdt in the section
 * .note.stapsdt (SystemTap, "UserSpaceProbeImplementation"). A compiler may have copied a probe to several places.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/bpf_types.h"

struct elf_object;

#define USDT_PLACES_MAX 64 /* in a file */
#define USDT_FAULT_MAX 128
#define USDT_POSITION_MAX 12 /* arguments of a probe (sys/sdt.h) */

/* A probe to look for, and which of its arguments are taken. */
struct usdt_wanted {
	const char *name; /* PROVIDER:NAME */
	uint32_t argument_nr; /* it must have so many; 0: as many as are taken, or more */
	uint32_t position[USDT_ARGUMENTS]; /* from 1; 0: constant[] instead */
	uint64_t constant[USDT_ARGUMENTS];
};

struct usdt_place {
	uint64_t offset;    /* in the file */
	uint64_t address;   /* that the file says */
	uint64_t semaphore; /* in the file: the kernel counts the probes there; 0: none */
	uint64_t wanted;    /* index */
	struct usdt_call call;
};

/* All places of the wanted probes, or none: a free that is not seen would leave its block in the account. */
struct usdt_places {
	uint64_t nr;
	char fault[USDT_FAULT_MAX]; /* why none of the places can be used, or "" */
	int64_t info_distance; /* bytes from place[0] to the sampler's struct sampler_info, in memory; 0: it has none */
	struct usdt_place place[USDT_PLACES_MAX];
};

void usdt_places_read(struct elf_object *elf, const struct usdt_wanted *wanted, size_t wanted_nr,
		      struct usdt_places *ret);

/* Checks what another process sent, for a file of this size. */
bool usdt_places_are_sound(const struct usdt_places *places, size_t wanted_nr, uint64_t file_bytes);

#endif
