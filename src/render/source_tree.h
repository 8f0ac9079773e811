/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RENDER_SOURCE_TREE_H
#define ALLOCSNAP_RENDER_SOURCE_TREE_H

#include <stdint.h>

/*
 * Lines of source files below one directory, as Python's linecache gives them, stripped. The
 * filenames come from snapshots and are hostile: only regular files below the directory are
 * opened, and links that lead out of it are not followed (openat2(2); where the kernel has none,
 * there are no lines). "/build/x/src/a.c" is looked for as build/x/src/a.c, x/src/a.c, src/a.c
 * and a.c; never above a "..".
 *
 * The files read last are kept until source_tree__close(). Not for two threads at once.
 */
struct source_tree;

/* NULL where dir is NULL or cannot be opened, or without memory: then there are no lines. */
struct source_tree *source_tree__open(const char *dir);

/* NULL is allowed, here and below. */
void source_tree__close(struct source_tree *tree);

/* The line, without the white space around it; the caller frees it. NULL: none, or it is empty. */
char *source_tree__line(struct source_tree *tree, const char *filename, uint32_t lineno);

#endif
