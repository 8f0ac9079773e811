// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* own_sampler.c without a sampler, until it loads a library that has one. */
#define OWN_SAMPLER_LATE
#include "own_sampler.c"
