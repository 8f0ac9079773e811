// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stdio.h>

#include "cli/cmd_help.h"
#include "collect.h"

const struct program_texts program_texts = {
	.summary = "Shows which code allocated the live memory of a process, in C, C++, Rust or Python: like Python's tracemalloc, "
		   "but for any running program.",
	.examples = "  sudo allocsnap doctor 4711    # can it be recorded? attaches nothing\n"
		    "  sudo allocsnap leaks 4711     # which lines leak? observes it for 60 s\n"
		    "  sudo allocsnap attach 4711    # a snapshot every 10 s, for diff and report\n",
};

const char *program_features(void)
{
	static char text[32];

	snprintf(text, sizeof(text), "libbpf %s", collector__libbpf_version());
	return text;
}
