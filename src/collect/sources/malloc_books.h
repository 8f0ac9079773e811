/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SOURCES_MALLOC_BOOKS_H
#define ALLOCSNAP_COLLECT_SOURCES_MALLOC_BOOKS_H

/*
 * The heap of a program that this recording has started with liballocsnap-exact.so, which enters each block into books
 * (exact/books.h). Its functions are not probed.
 *
 *	awaited ──► opened ──► a list of its code ──► other lists … ──► exec: awaited again
 */

struct malloc_books;

#endif
