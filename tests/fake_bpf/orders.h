/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ORDERS_H
#define ORDERS_H

/*
 * Runs code in all orders of the steps of two sides: at each place where the other side might act, the code asks
 * for a choice; it runs again until every choice has been made.
 *
 *	orders_begin();
 *	do
 *		run();
 *	while (next_order());
 *
 * All of them only with CHECK_FULL=1 in the environment: else 1,000 orders that are drawn at random, the same each
 * time, or ORDERS=n.
 */
#include <stdbool.h>

void orders_begin(void);
void all_orders_begin(void); /* in any case: a test that looks for an order that goes wrong needs all */
bool choose(void); /* first no, in the end yes */
bool next_order(void); /* false: that was the last one */
bool orders_are_drawn(void);

#endif
