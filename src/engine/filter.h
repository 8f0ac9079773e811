/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_FILTER_H
#define ALLOCSNAP_ENGINE_FILTER_H

#include "engine.h"

/* Does all that the filter asks of a frame hold for this one? Domains are not looked at. */
bool filter_matches_frame(const struct filter *filter, const struct frame_view *frame);

#endif
