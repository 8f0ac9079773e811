# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Completion in bash and zsh, the man pages, the pager and colours, in real shells and terminals.

.PHONY: test-terminal
test-terminal: $(BIN) man completion $(OUT)/golden-snapshots $(BENCH)/make_traces	## check completion in bash and zsh, man pages, pager, colours and progress
	$(Q)ALLOCSNAP=$(abspath $(BIN)) SNAPSHOTS=$(abspath $(OUT)/golden-snapshots.d) MAN=$(abspath $(OUT)/man) \
		COMPLETION=$(abspath $(OUT)/completion) MAKE_TRACES=$(abspath $(BENCH)/make_traces) tests/terminal/run.py $(TERMINAL_ARGS)
