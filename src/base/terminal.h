/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_TERMINAL_H
#define ALLOCSNAP_BASE_TERMINAL_H

/* The width of the terminal behind a descriptor; 80 if the terminal does not tell it, 0 if it is no terminal. */
int terminal_width(int fd);

#endif
