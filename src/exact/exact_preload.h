/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_EXACT_PRELOAD_H
#define ALLOCSNAP_EXACT_PRELOAD_H

/* liballocsnap-exact.so (exact_preload.c) and the recorder that preloads it agree on these. */

/* The environment variable with the PID of the process that is recorded. */
#define EXACT_VARIABLE "ALLOCSNAP_EXACT"

/* The name of the memory file with the books. */
#define EXACT_BOOKS_NAME "allocsnap-books"

#endif
