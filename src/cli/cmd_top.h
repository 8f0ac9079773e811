/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_CMD_TOP_H
#define ALLOCSNAP_CLI_CMD_TOP_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/cmd_attach.h"
#include "cli/cmd_select.h"
#include "top/model.h"
#include "top/viewer.h"

/* The options of `top`. */
struct top_command_options {
	struct select_options select;
	struct capture_options capture;
	enum key_type key_type;
	enum top_order order;
	uint64_t interval_ns, count, top;
	bool is_batch, is_system;
};

extern const struct command cmd_top;

/*
 * Shows a viewer on the terminal, or as text. model: what is new in it for this input; the function takes it over.
 * Returns an exit status.
 */
int top_show(const struct top_command_options *options, struct viewer_options *viewer_options, struct top_model *model);

/* Records processes, or all if there are no arguments, and shows them. Returns an exit status. */
int top_record(const struct top_command_options *options, const struct engine_options *engine, const struct arguments *args);

#endif
