/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PUSH_PUSH_REQUEST_H
#define ALLOCSNAP_PUSH_PUSH_REQUEST_H

#include "push/push_endpoint.h"

/* A request, made for one profile. */
struct push_request {
	char *url;
	const char *content_type;
	void *body; /* own_body, or the profile's bytes */
	size_t body_len;
	char *own_body;
};

/* The protocols, as rows. */
struct push_protocol {
	const char *path; /* the end of URLs */
	const char *help;
	int (*make)(struct push_request *request, const char *url, const struct push_profile *profile);
};

/* The protocol of a URL that was checked, or NULL. */
const struct push_protocol *push_protocol_of(const char *url);

void push_request_release(struct push_request *request);

#endif
