// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#define PYTHON_HOOKS_COMPARE
#include "exact/python_hooks.c"

#include "compared_hooks.h"

void turn_compared_hooks(int on)
{
	python_hooks_on.is_on = on;
}
