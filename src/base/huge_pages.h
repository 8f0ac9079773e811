/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_HUGE_PAGES_H
#define ALLOCSNAP_BASE_HUGE_PAGES_H

#include <stddef.h>

/*
 * Allocates zeroed memory for large data, on huge pages if the system has them. Memory that is not
 * touched takes no pages. len may be 0. NULL with errno ENOMEM.
 */
void *huge_pages_new(size_t len);

/* len is the length that was allocated; 0 for memory from malloc(). pages may be NULL. */
void huge_pages_free(void *pages, size_t len);

/* Requests huge pages for large memory from any allocator that will soon be written to. */
void huge_pages_will_be_used(void *bytes, size_t len);

/* Gives back the pages of bytes that are no longer needed; their content is undefined from now on. */
void huge_pages_drop(void *pages, size_t len, size_t from, size_t to);

#endif
