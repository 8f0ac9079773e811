/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef FAKE_RANGES_H
#define FAKE_RANGES_H

/* Checks of the accounting of mappings. */

#include "target.h"

#define MAP 0x7f0000100000ULL
#define PAGE 4096ULL

static inline struct block *mapping_at(__u64 address)
{
	return block_in(process, LAYER_MAPPING, address);
}

#define expect_mapped(address, bytes) \
	do { \
		const struct block *block_ = mapping_at(address); \
		cr_expect(block_ && block_->size == (bytes), #address " has not " #bytes); \
	} while (0)
#define expect_unmapped(address) cr_expect(!mapping_at(address), #address " is still live")

#endif
