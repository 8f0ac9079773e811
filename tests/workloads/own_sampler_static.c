// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* own_sampler.c, linked statically: it loads nothing. */
#define OWN_SAMPLER_STATIC
#include "own_sampler.c"
