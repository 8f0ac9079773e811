// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Any text as CPython's tuples: it is refused in one line, or written and read again unchanged. */
#include <errno.h>

#include "check.h"
#include "reason.h"

static void exercise(const struct snapshot *snapshot)
{
	for (int key_type = 0; key_type < KEY_TYPE_NR; key_type++) {
		struct engine_options options = { .key_type = key_type };

		statistics_free(check_statistics(snapshot, &options));
	}
	check_export(snapshot);
	check_round_trip(snapshot, &(struct engine_options){ .key_type = KEY_TRACEBACK });
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const int allowed[] = { -EBADMSG, -ERANGE, -ENOMEM, 0 };
	struct reason why = { "" };
	struct snapshot *snapshot;

	snapshot = snapshot__import_json((const char *)data, size, "fuzz.json", &why);
	if (snapshot) {
		exercise(snapshot);
	} else {
		check_refused(-errno, &why, allowed);
		check_one_line(&why);
	}
	snapshot__close(snapshot);
	return 0;
}
