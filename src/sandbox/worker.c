// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sandbox/worker.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "helper/channel.h"
#include "sandbox/messages.h"
#include "symbols/direct.h"

/* ---- debug files ---- */

static int open_elsewhere(void *self, const char *, const struct debug_want *want)
{
	const struct channel *channel = self;
	struct file_wanted wanted = {
		.kind = want->kind, .build_id_len = want->build_id_len, .nr = want->nr,
	};
	struct message head;
	int fd;

	if (want->build_id_len > sizeof(wanted.build_id) ||
	    (want->name && strlen(want->name) >= sizeof(wanted.name)))
		return -1;
	if (want->build_id)
		memcpy(wanted.build_id, want->build_id, want->build_id_len);
	if (want->name)
		strcpy(wanted.name, want->name);
	if (channel__send(channel, WANT_FILE, &(struct iovec){ &wanted, sizeof(wanted) }, 1, -1) ||
	    channel__head(channel, &head, &fd))
		_exit(1);
	return fd;
}

/* ---- questions ---- */

static int (*const serve_file[])(const struct channel *channel, int fd) = {
	[ASK_TABLE] = serve_table,
	[ASK_FACTS] = serve_facts,
	[ASK_RETURNS] = serve_returns,
	[ASK_SWITCH] = serve_switch,
	[ASK_TRAITS] = serve_traits,
	[ASK_ENTRIES] = serve_entries,
	[ASK_PYTHON] = serve_python,
	[ASK_LINES] = serve_lines,
};

void serve_questions(int fd)
{
	const struct channel channel = { .fd = fd };
	const struct debug_opener opener = { .open = open_elsewhere, .self = (void *)&channel };
	struct direct *direct = direct__new(&opener);
	struct message head;
	int object, err = direct ? 0 : -ENOMEM;

	while (!err && !channel__head(&channel, &head, &object)) {
		err = head.kind == ASK_NAMES ? serve_names(&channel, direct, object) :
					       serve_file[head.kind](&channel, object);
		if (object >= 0)
			close(object);
	}
}
