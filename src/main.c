// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cmd.h"

int main(int argc, char **argv)
{
	/* In the order of `allocsnap --help`. */
	static const struct command *const commands[] = {
		NULL,
	};

	return commands_main(argc, argv, commands);
}
