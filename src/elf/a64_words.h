/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_A64_WORDS_H
#define ALLOCSNAP_ELF_A64_WORDS_H

/* Instructions of arm64 are words of four bytes, and a word has fields. */

#include <stdint.h>

static inline uint32_t a64_word(const uint8_t *code)
{
	return code[0] | code[1] << 8 | code[2] << 16 | (uint32_t)code[3] << 24;
}

/* A field of a word, with its sign. */
static inline int64_t signed_field(uint32_t word, unsigned int low, unsigned int bits)
{
	return (int64_t)((uint64_t)word << (64 - low - bits)) >> (64 - bits);
}

static inline uint32_t field(uint32_t word, unsigned int low, unsigned int bits)
{
	return word >> low & ((1u << bits) - 1);
}

/* The address that adr or adrp makes. */
static inline uint64_t a64_page_address(uint32_t word, uint64_t vaddr)
{
	uint64_t distance = (uint64_t)signed_field(word, 5, 19) << 2 | field(word, 29, 2);

	return word >> 31 ? (vaddr & ~0xfffull) + (distance << 12) : vaddr + distance;
}

#endif
