/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ORDERS_H
#define ORDERS_H

/*
 * All orders in which the steps of two sides can fall: what runs asks at each place where the other side might
 * come in, and is run again until each answer has been given.
 *
 *	orders_begin();
 *	do
 *		run();
 *	while (next_order());
 */
#include <stdbool.h>

void orders_begin(void);
bool choose(void); /* first no, in the end yes */
bool next_order(void); /* false: that was the last one */

#endif
