/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PUSH_HTTP_CLIENT_H
#define ALLOCSNAP_PUSH_HTTP_CLIENT_H

/*
 * Requests to one server. TLS certificates are verified, redirects are not followed, and a URL has no user and password
 * in it: those come from a file or from the environment, and go over https only, or to this machine.
 */

#include <stddef.h>
#include <stdint.h>

#include "reason.h"

struct http_options {
	const char *url;
	const char *credentials; /* a file; NULL: the environment may have some */
	const char *environment; /* what its variables begin with: "ALLOCSNAP_PUSH" for ALLOCSNAP_PUSH_TOKEN */
	const char *ca_file;	 /* certificates to trust instead of the system's; NULL: the system's */
	uint64_t timeout_ns;	 /* of a request */
};

/* One request: the body is posted, and take() gets the answer piece by piece. */
struct http_request {
	const char *url; /* of the same server */
	const char *const *header;
	size_t header_nr;
	const void *body;
	size_t body_len;
	int (*take)(void *what, const void *bytes, size_t len); /* a negative errno ends the request */
	void *what;
};

struct http_client;

/* Returns 0, or a line in *why and -EINVAL: such a URL is refused; or another negative errno: it cannot be checked. */
int http_url_check(const char *url, struct reason *why);

/* Reads the credentials and the certificates. Options must outlive it. NULL: it failed, with a line in *why. */
struct http_client *http_client__new(const struct http_options *options, struct reason *why);
void http_client__free(struct http_client *client); /* NULL is allowed */

/* For the next requests. */
void http_client__set_timeout(struct http_client *client, uint64_t timeout_ns);

/* Returns 0 and the status of a whole answer; or -EIO, with a line in *why without credentials. */
int http_client__send(struct http_client *client, const struct http_request *request, long *ret_status,
		      struct reason *why);

#endif
