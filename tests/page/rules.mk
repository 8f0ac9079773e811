# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The page of `allocsnap report`: its sources, and headless Chromium driving it.

.PHONY: test-page bench-page page pictures

test-page: $(BIN) $(OUT)/golden-snapshots	## the page of `report` in headless Chromium, its sums beside stats and diff
	$(Q)ALLOCSNAP=$(abspath $(BIN)) SNAPSHOTS=$(abspath $(OUT)/golden-snapshots.d) tests/page/run.py $(PAGE_ARGS)

bench-page: $(BIN)	## how long pages of 20,000 tracebacks take to open, to redraw, to search; one of a recording (as root)
	$(Q)ALLOCSNAP=$(abspath $(BIN)) tests/page/run.py --bench $(PAGE_ARGS)

page:	## build src/report/page/page.html of its sources, with esbuild
	$(Q)scripts/bundle-report.py

pictures: $(BIN)	## record a service with a planted leak and take the pictures of docs/pictures (as root, two minutes)
	$(Q)ALLOCSNAP=$(abspath $(BIN)) tests/page/pictures.py docs/pictures $(PAGE_ARGS)
