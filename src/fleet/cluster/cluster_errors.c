// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "fleet/cluster/cluster_private.h"

/* Numbers of ClickHouse's errors (its file ErrorCodes.cpp), and what they mean to a user. */
static const struct {
	int code, err;
	const char *text;
	bool has_detail; /* the server's own text follows */
} errors[] = {
	{ 16, -ENOENT, "its tables are not allocsnap's", true },
	{ 32, -EIO, "a connection to a shard broke off", true },
	{ 47, -ENOENT, "its tables are not allocsnap's", true },
	{ 60, -ENOENT, "it has no tables of allocsnap; 'allocsnap fleet init' makes them", false },
	{ 81, -ENOENT, "it has no such database; 'allocsnap fleet init' makes it", false },
	{ 158, -EIO, "the server's limit of rows", true },
	{ 159, -EIO, "the query took longer than the server allows", false },
	{ 160, -EIO, "the query would take longer than the server allows", false },
	{ 164, -EACCES, "the user may only read, and not change settings: questions need readonly = 2", false },
	{ 192, -EACCES, "it refuses the user or the password", false },
	{ 193, -EACCES, "it refuses the user or the password", false },
	{ 194, -EACCES, "it refuses the user or the password", false },
	{ 195, -EACCES, "it refuses this machine's address", false },
	{ 201, -EIO, "the user's quota is used up", false },
	{ 209, -EIO, "a shard does not answer", true },
	{ 210, -EIO, "a shard does not answer", true },
	{ 241, -EIO, "the query takes more memory than the server allows", false },
	{ 243, -ENOSPC, "its disk is full", true },
	{ 252, -EIO, "it has too many parts and cannot merge them in time; try again later", false },
	{ 279, -EIO, "a shard does not answer", true },
	{ 394, -EIO, "the query was killed", false },
	{ 497, -EACCES, "the user lacks the right", true },
	{ 516, -EACCES, "it refuses the user or the password", false },
};

/* The number in "Code: 60, e.displayText() = …" or "Code: 60. DB::Exception: …"; 0: none. */
static int error_code_of(const char *text)
{
	const char *at = strstr(text, "Code: ");

	return at ? atoi(at + strlen("Code: ")) : 0;
}

/* The text after the name of the exception; of several attempts, the first one's. */
static const char *exception_text(const char *text, char detail[256])
{
	static const char name[] = "Exception: ";
	const char *at = strstr(text, "Log: ") ?: text, *end;
	size_t len;

	at = strstr(at, name) ? strstr(at, name) + strlen(name) : at;
	len = strcspn(at, "\n");
	end = strstr(at, ", e.what()");
	len = end && (size_t)(end - at) < len ? (size_t)(end - at) : len;
	snprintf(detail, 256, "%.*s", len < 200 ? (int)len : 200, at);
	return detail;
}

int cluster_refuse_answer(const struct cluster *cluster, long status, struct reason *why)
{
	return reason_set(why, -EPROTO, "%s: no ClickHouse: HTTP status %ld with an answer that is not ClickHouse's",
			  cluster->options->url, status);
}

int cluster_explain_status(const struct cluster *cluster, long status, const char *text, struct reason *why)
{
	const char *url = cluster->options->url;
	int code = error_code_of(text);
	char detail[256];

	for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
		if (errors[i].code == code)
			return reason_set(why, errors[i].err, "%s: %s%s%s", url, errors[i].text,
					  errors[i].has_detail ? ": " : "",
					  errors[i].has_detail ? exception_text(text, detail) : "");
	if (code)
		return reason_set(why, -EIO, "%s: error %d of the server: %s", url, code, exception_text(text, detail));
	if (status == 401 || status == 403)
		return reason_set(why, -EACCES, "%s: it refuses the user or the password", url);
	if (status < 500 && status != 408 && status != 429) /* later ones are of a server on the way, or pass */
		return cluster_refuse_answer(cluster, status, why);
	return reason_set(why, -EIO, "%s: HTTP status %ld%s%s", url, status, *text ? ": " : "", exception_text(text, detail));
}
