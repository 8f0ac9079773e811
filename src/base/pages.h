/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_PAGES_H
#define ALLOCSNAP_BASE_PAGES_H

#include <stddef.h>

/*
 * Zeroed memory for large data, on huge pages where the system has them; what was not touched is
 * not used. len may be 0. NULL with errno ENOMEM.
 */
void *pages_new(size_t len);

/* len as it was asked for; 0 for what came from malloc(). pages may be NULL. */
void pages_free(void *pages, size_t len);

/* Memory of anybody's, large and soon to be written: on huge pages from now on, where they can be had. */
void pages_will_be_used(void *bytes, size_t len);

/* The bytes are not needed any more, the rest is; they read as anything from now on. */
void pages_drop(void *pages, size_t len, size_t from, size_t to);

#endif
