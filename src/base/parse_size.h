/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_PARSE_SIZE_H
#define ALLOCSNAP_BASE_PARSE_SIZE_H

#include <stdint.h>

/* "4096", "64K", "64KiB", "10MiB", "2g": whole numbers, powers of 1024. 0, or -EINVAL, -ERANGE. */
int parse_size(const char *text, uint64_t *ret_bytes);

#endif
