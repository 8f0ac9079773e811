#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# cfi_seeds.sh DIR SOURCE: its call frame information, as each kind of input of tests/fuzz/cfi.c.
set -eu
dir=$1
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT

# seed KIND (in octal) SECTION GCC_OPTION…
seed() {
	kind=$1
	section=$2
	shift 2
	gcc -O2 -fPIC -shared -nostdlib "$@" -o "$made/library"
	objcopy -O binary --set-section-flags "$section=alloc" --only-section="$section" \
		"$made/library" "$made/section"
	{
		# shellcheck disable=SC2059 # an octal number
		printf "\\$kind"
		head -c 2000 "$made/section"
	} >"$dir/seed-$kind"
}

mkdir -p "$dir"
seed 000 .eh_frame "$2"
seed 020 .debug_frame -g -fno-asynchronous-unwind-tables "$2" # KIND_DEBUG_FRAME
seed 040 .eh_frame -mstackrealign "$2"			      # KIND_NO_SECTIONS
