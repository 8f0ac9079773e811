// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "orders.h"
#include <criterion/criterion.h>

#define CHOICES_MAX 256

static bool choice[CHOICES_MAX];
static int choice_nr, choices_known;

void orders_begin(void)
{
	choice_nr = choices_known = 0;
}

bool choose(void)
{
	cr_assert_lt(choice_nr, CHOICES_MAX);
	if (choice_nr == choices_known)
		choice[choices_known++] = false;
	return choice[choice_nr++];
}

bool next_order(void)
{
	while (choices_known && choice[choices_known - 1])
		choices_known--;
	if (choices_known)
		choice[choices_known - 1] = true;
	choice_nr = 0;
	return choices_known;
}
