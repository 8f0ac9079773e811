// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/recording/helpers.h"

#include <errno.h>
#include <string.h>

#include "base/reason.h"
#include "collect/process/file_system.h"
#include "collect/process/open_file.h"
#include "sandbox/client.h"

int helpers_open(struct helpers *helpers, bool ejects, struct reason *why)
{
	helpers->parser = parser__open(&(struct parser_options){}, why);
	if (!helpers->parser)
		return -errno;
	helpers->opener = file_opener__new(file_system_ask);
	if (!helpers->opener)
		return reason_set(why, -errno, "cannot start the process that opens files: %s", strerror(errno));
	helpers->link_holder = link_holder__open(ejects);
	if (!helpers->link_holder)
		return reason_set(why, -errno, "cannot start the process that keeps the probes: %s", strerror(errno));
	return 0;
}

int helpers_check(const struct helpers *helpers, struct reason *why)
{
	if (parser__has_ended(helpers->parser))
		return reason_set(why, -EPIPE, "the process that starts the readers of ELF files has ended");
	if (!helpers->link_holder || !link_holder__has_ended(helpers->link_holder))
		return 0;
	return reason_set(why, -EPIPE, "the process that keeps the probes has ended");
}
