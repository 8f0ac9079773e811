# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Completion in bash and zsh, the man pages, the pager and colours, in real shells and terminals.

.PHONY: test-terminal
test-terminal: $(BIN) man completion $(OUT)/golden-snapshots	## check completion in bash and zsh, man pages, pager and colours
	$(Q)ALLOCSNAP=$(abspath $(BIN)) SNAPSHOTS=$(abspath $(OUT)/golden-snapshots.d) MAN=$(abspath $(OUT)/man) \
		COMPLETION=$(abspath $(OUT)/completion) tests/terminal/run.py $(TERMINAL_ARGS)
