// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "orders.h"
#include "full.h"
#include <criterion/criterion.h>
#include <stdlib.h>

#define CHOICES_MAX 256

static bool choice[CHOICES_MAX];
static int choice_nr, choices_known;

static struct {
	unsigned long left; /* 0: all orders are run */
	unsigned long long random;
} drawn;

void all_orders_begin(void)
{
	choice_nr = choices_known = 0;
	drawn.left = 0;
}

static unsigned long drawn_nr(void)
{
	const char *nr = getenv("ORDERS");

	return nr ? strtoul(nr, NULL, 10) : (unsigned long)full_or(0, 1000);
}

bool orders_are_drawn(void)
{
	return drawn_nr();
}

void orders_begin(void)
{
	all_orders_begin();
	drawn.left = drawn_nr();
	drawn.random = 88172645463325252;
}

static bool draw(void)
{
	drawn.random ^= drawn.random << 13;
	drawn.random ^= drawn.random >> 7;
	drawn.random ^= drawn.random << 17;
	return drawn.random >> 63;
}

bool choose(void)
{
	if (drawn.left)
		return draw();
	cr_assert_lt(choice_nr, CHOICES_MAX);
	if (choice_nr == choices_known)
		choice[choices_known++] = false;
	return choice[choice_nr++];
}

bool next_order(void)
{
	if (drawn.left)
		return --drawn.left;
	while (choices_known && choice[choices_known - 1])
		choices_known--;
	if (choices_known)
		choice[choices_known - 1] = true;
	choice_nr = 0;
	return choices_known;
}
