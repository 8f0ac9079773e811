/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PUSH_LIBCURL_H
#define ALLOCSNAP_PUSH_LIBCURL_H

/*
 * libcurl's functions, loaded when something is pushed or fetched. A link to libcurl would load thirty more libraries into
 * each allocsnap, which mostly runs as root and does neither.
 */

#define CURL_DISABLE_TYPECHECK /* its macros call the functions by their names */
#include <curl/curl.h>

struct reason;

#define LIBCURL_FUNCTIONS(X)                                                                                           \
	X(curl_easy_cleanup) X(curl_easy_escape) X(curl_easy_getinfo) X(curl_easy_init) X(curl_easy_perform)           \
	X(curl_easy_reset) X(curl_easy_setopt) X(curl_easy_strerror) X(curl_free) X(curl_slist_append)                 \
	X(curl_slist_free_all) X(curl_url) X(curl_url_cleanup) X(curl_url_get) X(curl_url_set)

struct libcurl {
#define X(name) __typeof__(&name) name;
	LIBCURL_FUNCTIONS(X)
#undef X
};

extern struct libcurl libcurl;

/* Loads them, once. Returns 0, or -ENOENT and why. */
int libcurl_load(struct reason *why);

#endif
