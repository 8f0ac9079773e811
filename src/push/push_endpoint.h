/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PUSH_PUSH_ENDPOINT_H
#define ALLOCSNAP_PUSH_PUSH_ENDPOINT_H

/*
 * Where profiles are pushed to, and how: one request for each profile, or many snapshots at once.
 *
 * An endpoint's URL ends with the path of its protocol. http_client.h says what goes over the net, and how.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reason.h"

struct push_batch;
struct push_batch_protocol;
struct push_endpoint;
struct push_protocol;

/* Zero is the default. */
struct push_endpoint_options {
	const char *url;
	const char *credentials; /* a file; NULL: the environment may have some */
	const char *tenant;	 /* for X-Scope-OrgID; NULL: none */
	const struct push_batch_protocol *batch; /* NULL: the URL says the protocol, of single profiles */
	const char *database; /* of a batch protocol; NULL: its default */
	uint64_t top;	      /* of a batch protocol: so many rows of each snapshot, and sums of the rest; 0: all */
	const char *ca_file;	 /* certificates to trust instead of the system's; NULL: the system's */
	uint64_t timeout_ns;	 /* of a request; 0: PUSH_TIMEOUT_NS */
};

#define PUSH_TIMEOUT_NS 30000000000

/* One label of a profile's series. */
struct push_label {
	const char *name, *value;
};

/* A profile and what it is of. */
struct push_profile {
	const void *bytes; /* pprof in gzip */
	size_t len;
	const char *service;
	const struct push_label *label;
	size_t label_nr;
	uint64_t from_s, until_s; /* UNIX time */
};

enum push_result {
	PUSH_DONE = 0,
	PUSH_REJECTED, /* this profile: another attempt would fail, too */
	PUSH_FAILED,   /* the endpoint: another attempt may succeed later */
	PUSH_LATER,    /* this profile: it cannot be read or made now, but may be later */
};

/* A snapshot file of a batch, and what became of it. */
struct push_file {
	const char *path;
	enum push_result result; /* PUSH_DONE at first */
	struct reason why;
};

/* A protocol of another room, which pushes many files at once. */
struct push_batch_protocol {
	/* Reads credentials; reaches no server. Options outlive it. NULL: it failed, with a line in *why. */
	struct push_batch *(*open)(const struct push_endpoint_options *options, struct reason *why);
	/* Returns PUSH_FAILED with a line in *why: all files wait; or PUSH_DONE, with a result for each. */
	enum push_result (*push)(struct push_batch *batch, struct push_file *file, size_t nr, struct reason *why);
	void (*set_timeout)(struct push_batch *batch, uint64_t timeout_ns);
	void (*close)(struct push_batch *batch);
};

/*
 * Returns 0, or a line in *why and -EINVAL: the URL of these options is refused; or another negative errno: it cannot be
 * checked.
 */
int push_url_check(const struct push_endpoint_options *options, struct reason *why);

/* Reads the credentials and the certificates. Options must outlive it. NULL: it failed, with a line in *why. */
struct push_endpoint *push_endpoint__new(const struct push_endpoint_options *options, struct reason *why);
void push_endpoint__free(struct push_endpoint *endpoint); /* NULL is allowed */

/* For the next requests. */
void push_endpoint__set_timeout(struct push_endpoint *endpoint, uint64_t timeout_ns);

/* Sends a profile. A line in *why says what went wrong; it has no credentials. */
enum push_result push_endpoint__send(struct push_endpoint *endpoint, const struct push_profile *profile,
				     struct reason *why);

/* Whether it takes files: push_endpoint__send_files(), as of struct push_batch_protocol, instead of the function above. */
bool push_endpoint__takes_files(const struct push_endpoint *endpoint);
enum push_result push_endpoint__send_files(struct push_endpoint *endpoint, struct push_file *file, size_t nr,
					   struct reason *why);

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
	int (*make)(struct push_request *request, const char *url, const struct push_profile *profile);
	bool may_reject_in_answer; /* the answer of success may be an OTLP one that says so */
};

/* The protocol of a URL that was checked, or NULL. */
const struct push_protocol *push_protocol_of(const char *url);

void push_request_release(struct push_request *request);

#endif
