/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_LAYERS_BPF_H
#define ALLOCSNAP_LAYERS_BPF_H

#include "maps.bpf.h"

extern const volatile struct settings settings;

/* All code for mappings is behind this, so that the verifier takes it out of a recording without them. */
static __always_inline bool is_mapping(__u32 layer)
{
	return settings.has_mappings && layer == LAYER_MAPPING;
}

/* The layers that calls may be pending in. */
static __always_inline __u32 layer_nr(void)
{
	return settings.has_mappings ? LAYER_NR : LAYER_MAPPING;
}

#endif
