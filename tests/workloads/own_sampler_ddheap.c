// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* own_sampler.c, whose probes have the provider of libdatadog's sampler. */
#define OWN_PROVIDER "ddheap"
#include "own_sampler.c"
