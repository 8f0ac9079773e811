// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* own_sampler.c, whose sampler reports no frees. */
#define OWN_NO_FREES
#include "own_sampler.c"
