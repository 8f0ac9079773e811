/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_REPORT_REPORT_PAGE_H
#define ALLOCSNAP_REPORT_REPORT_PAGE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * The page that a report's data go into (page/page.html, as it was built). It is constant: its
 * Content-Security-Policy has the hashes of its own script and styles, and data are neither.
 */

/* The length of the page without data. */
size_t report_page_len(void);

/* Writes the page with these bytes in it, in base64. Returns 0 or a negative errno. */
int report_page_write(FILE *out, const uint8_t *bytes, size_t bytes_nr);

#endif
