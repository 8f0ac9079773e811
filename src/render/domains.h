/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RENDER_DOMAINS_H
#define ALLOCSNAP_RENDER_DOMAINS_H

/* Domains are numbers; who recorded them may have told their names. */

#include "render.h"
#include "snapshot.h"

/* "16 (pool)", or "16". A long name is cut. Returns text. */
#define DOMAIN_TEXT_MAX 128
const char *domain_text(char text[DOMAIN_TEXT_MAX], const struct snapshot *snapshot, uint32_t domain);

/* Of a statistic by domain, its name; NULL: it has none, or is another kind of statistic. */
const char *statistic_domain_name(const struct report *report, const struct statistic *statistic);

#endif
