#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The arrows of docs/design.md, read from the includes: base ← snapshot ← engine ← render ← cmd,
# symbols, unwind, elf ← parser ← collect → snapshot, base ← symbols, unwind, elf, archive; libbpf
# only below src/collect; cmd, collect → service → base.
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
forbid base     "$libbpf|snapshot|engine|render|symbols/|unwind|elf/|parser/|collect/|archive/|service/|cmd"
forbid snapshot "$libbpf|engine|render|symbols/|unwind|elf/|parser/|collect/|archive/|service/|cmd"
forbid symbols  "$libbpf|snapshot|engine|render|unwind|elf/|parser/|collect/|archive/|service/|cmd"
forbid unwind   "$libbpf|snapshot|engine|render|symbols/|elf/|parser/|collect/|archive/|service/|cmd"
forbid elf      "$libbpf|snapshot|engine|render|symbols/|unwind|parser/|collect/|archive/|service/|cmd"
forbid parser   "$libbpf|snapshot|engine|render|collect/|archive/|service/|cmd"
forbid engine   "$libbpf|render|symbols/|unwind|elf/|parser/|collect/|archive/|service/|cmd|stdio"
forbid render   "$libbpf|symbols/|unwind|elf/|parser/|collect/|archive/|service/|cmd"
forbid service  "$libbpf|snapshot|engine|render|symbols/|unwind|elf/|parser/|collect|archive/|cmd"
forbid archive  "$libbpf|snapshot|engine|render|symbols/|unwind|elf/|parser/|collect/|service/|cmd"
forbid collect  "engine|render|cmd"
for file in src/*.c src/*.h; do
	if grep -nE "^#include [<\"]($libbpf)" "$file"; then
		echo "check-arrows: $file must not see libbpf" >&2
		bad=1
	fi
done
exit $bad
