/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_EXACT_BOOKS_EPOCHS_H
#define ALLOCSNAP_EXACT_BOOKS_EPOCHS_H

#include <stdint.h>

/*
 * Gives all blocks of the books in this file the epochs map[epoch], while the process goes on writing: a word is replaced only
 * if it is as it was read. Blocks that come meanwhile keep their epoch. map has BOOKS_EPOCHS_MAX elements. 0 or a negative errno.
 */
int books_map_epochs(int fd, const uint16_t *map);

#endif
