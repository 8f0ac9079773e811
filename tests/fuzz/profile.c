// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Any bytes as a heap profile of another tool: they are refused in one line, or make a snapshot that can be asked. */
#include <errno.h>

#include "check.h"
#include "formats/import.h"
#include "reason.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const int allowed[] = { -EBADMSG, -ERANGE, -EFBIG, -ENOMEM, 0 };
	struct reason why = { "" };
	struct snapshot *snapshot = import_profile((const char *)data, size, "fuzz.pb.gz", &why);

	if (!snapshot) {
		check_refused(-errno, &why, allowed);
		check_one_line(&why);
		return 0;
	}
	if (snapshot__tables(snapshot)->trace_nr < 100000) {
		for (int measure = 0; measure < MEASURE_NR; measure++) {
			struct engine_options options = { .key_type = KEY_TRACEBACK, .measure = measure };

			statistics_free(check_statistics(snapshot, &options));
		}
		check_round_trip(snapshot, &(struct engine_options){ .key_type = KEY_TRACEBACK });
	}
	snapshot__close(snapshot);
	return 0;
}
