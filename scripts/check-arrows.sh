#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The arrows of docs/design.md, read from the includes: base ← snapshot ← engine ← render ← cmd,
# symbols, unwind, elf ← parser ← collect → snapshot, base ← symbols, unwind, elf, archive; snapshot,
# parser ← naming ← collect, cmd; libbpf only below src/collect; cmd, collect → service → base; engine ←
# fleet ← render, cmd.
set -eu
cd "$(dirname "$0")/.."

bad=0
# forbid FOLDER REGEX: no file of src/FOLDER may include what matches
forbid() {
	if grep -nE "^#include [<\"]($2)" -r "src/$1"; then
		echo "check-arrows: src/$1 must not include $2" >&2
		bad=1
	fi
}

libbpf='bpf/|linux/bpf|.*\.skel\.h'
forbid base     "$libbpf|snapshot|engine|render|symbols/|unwind|elf/|parser/|naming/|collect/|archive/|service/|fleet/|cmd"
forbid snapshot "$libbpf|engine|render|symbols/|unwind|elf/|parser/|naming/|collect/|archive/|service/|fleet/|cmd"
forbid symbols  "$libbpf|snapshot|engine|render|unwind|elf/|parser/|naming/|collect/|archive/|service/|fleet/|cmd"
forbid unwind   "$libbpf|snapshot|engine|render|symbols/|elf/|parser/|naming/|collect/|archive/|service/|fleet/|cmd"
forbid elf      "$libbpf|snapshot|engine|render|symbols/|unwind|parser/|naming/|collect/|archive/|service/|fleet/|cmd"
forbid parser   "$libbpf|snapshot|engine|render|naming/|collect/|archive/|service/|fleet/|cmd"
forbid engine   "$libbpf|render|symbols/|unwind|elf/|parser/|naming/|collect/|archive/|service/|fleet/|cmd|stdio"
forbid render   "$libbpf|symbols/|unwind|elf/|parser/|naming/|collect/|archive/|service/|cmd"
forbid service  "$libbpf|snapshot|engine|render|symbols/|unwind|elf/|parser/|naming/|collect|archive/|fleet/|cmd"
forbid archive  "$libbpf|snapshot|engine|render|symbols/|unwind|elf/|parser/|naming/|collect/|service/|fleet/|cmd"
forbid naming   "$libbpf|engine|render|unwind|collect/|archive/|service/|fleet/|cmd"
forbid collect  "engine|render|fleet/|cmd"
forbid fleet    "$libbpf|render|symbols/|unwind|elf/|parser/|naming/|collect/|archive/|service/|cmd"
for file in src/*.c src/*.h; do
	if grep -nE "^#include [<\"]($libbpf)" "$file"; then
		echo "check-arrows: $file must not see libbpf" >&2
		bad=1
	fi
done
exit $bad
