/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_FILTER_H
#define ALLOCSNAP_ENGINE_FILTER_H

#include "engine.h"

/* Whether the frame matches all of the filter's conditions for frames. Ignores the domain. */
bool filter_matches_frame(const struct filter *filter, const struct frame_view *frame);

#endif
