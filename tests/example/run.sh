#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Installs into a folder of its own and uses the libraries from there, as another program would.
# Environment: MAKE, CC (it may be two words), WORKLOADS (the folder of the compiled tests/workloads).
set -u
cd "$(dirname "$0")/../.." || exit 1
: "${MAKE:=make}" "${CC:=cc}" "${WORKLOADS:=.output/workloads}"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root prefix=/opt/allocsnap
installed=$root$prefix
PKG_CONFIG_PATH=$installed/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root
export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR

passed=0
failed=0
skipped=0

# check WHAT COMMAND…: the command must succeed; otherwise its output is shown
check() {
	what=$1
	shift
	if "$@" >"$work/log" 2>&1; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAIL example: $what"
		sed 's/^/    /' "$work/log"
	fi
}

# ---- the installed files ----

is_installed() {
	for file in bin/allocsnap lib/liballocsnap.a lib/pkgconfig/allocsnap.pc \
		lib/liballocsnap-collect.a lib/pkgconfig/allocsnap-collect.pc include/allocsnap/collect.h \
		include/allocsnap/allocsnap.h include/allocsnap/engine.h include/allocsnap/reason.h \
		include/allocsnap/render.h include/allocsnap/snapshot.h \
		share/man/man1/allocsnap.1 share/man/man1/allocsnap-fleet-diff.1; do
		[ -s "$installed/$file" ] || { echo "$file is not there"; return 1; }
	done
}

says_version() {
	version=$(cat VERSION)
	[ "$(pkg-config --modversion allocsnap)" = "$version" ] &&
		[ "$(pkg-config --modversion allocsnap-collect)" = "$version" ] &&
		"$installed/bin/allocsnap" --version | grep -F "$version"
}

# The service starts the installed program.
unit_knows_prefix() {
	unit=$installed/lib/systemd/system/allocsnap.service
	grep -q "^ExecStart=$prefix/bin/allocsnap record " "$unit" && ! grep -n '@bindir@' "$unit"
}

knows_prefix() {
	for name in allocsnap allocsnap-collect; do
		[ "$(PKG_CONFIG_SYSROOT_DIR='' pkg-config --variable=prefix $name)" = "$prefix" ] || return 1
	done
	! grep -n '@' "$installed"/lib/pkgconfig/*.pc
}

# exports LIBRARY HEADER…
exports() {
	nm --extern-only --defined-only -f posix "$installed/lib/$1" |
		awk 'NF > 1 { print $1 }' | LC_ALL=C sort >"$work/exported"
	shift
	scripts/public-names.sh "$@" >"$work/declared"
	[ -s "$work/declared" ] && diff "$work/declared" "$work/exported"
}

exports_public_names() {
	(cd "$installed/include/allocsnap" && ls | grep -v '^collect\.h$') >"$work/headers"
	exports liballocsnap.a $(sed "s|^|$installed/include/allocsnap/|" "$work/headers") &&
		exports liballocsnap-collect.a "$installed/include/allocsnap/collect.h"
}

# The script finds the same declarations as a compiler.
names_all() {
	printf '#include <allocsnap/allocsnap.h>\n#include <allocsnap/collect.h>\n' >"$work/all.c"
	scripts/public-names.sh "$installed"/include/allocsnap/*.h >"$work/declared"
	$CC $(pkg-config --cflags allocsnap) -fsyntax-only -aux-info "$work/aux" "$work/all.c" &&
		grep -F "/* $installed/" "$work/aux" | sed -E 's/^[^*]*\*\/ //; s/ \(.*//; s/.*[ *]//' |
		LC_ALL=C sort -u >"$work/known" && diff "$work/known" "$work/declared"
}

# ---- headers ----

# Each by itself, in the strictest C that has what they use.
headers_compile() {
	for header in "$installed"/include/allocsnap/*.h; do
		printf '#include <allocsnap/%s>\nint unit;\n' "$(basename "$header")" >"$work/header.c"
		$CC -std=c11 -Wall -Wextra -Wpedantic -Werror $(pkg-config --cflags allocsnap) \
			-fsyntax-only "$work/header.c" || return 1
	done
}

headers_compile_as_cxx() {
	for order in 'allocsnap collect' 'collect allocsnap'; do
		printf '#include <allocsnap/%s.h>\n' $order >"$work/header.cc"
		echo 'int main() { return sizeof(filter) == 0 || !collector__open(nullptr, nullptr); }' \
			>>"$work/header.cc"
		${CC%gcc}g++ -std=c++17 -Wall -Wextra -Wpedantic -Werror "$work/header.cc" \
			$(pkg-config --cflags --libs allocsnap-collect) -o "$work/header" || return 1
	done
}

# ---- programs ----

# compile NAME PACKAGE
compile() {
	$CC -std=c11 -O1 -Wall -Wextra -Wpedantic -Werror "tests/example/$1.c" \
		$(pkg-config --cflags --libs "$2") -o "$work/$1"
}

write_snapshots() {
	cat >"$work/old.json" <<-'EOF' || return 1
	{"traceback_limit": 2, "traces": [
	[0, 10, [["a.py", 2], ["b.py", 4]], 3], [0, 10, [["a.py", 2], ["b.py", 4]], 3],
	[1, 2, [["a.py", 5], ["b.py", 4]], 3], [2, 66, [["b.py", 1]], 1], [3, 7, [["<unknown>", 0]], 1]]}
	EOF
	cat >"$work/new.json" <<-'EOF' || return 1
	{"traceback_limit": 2, "traces": [
	[0, 10, [["a.py", 2], ["b.py", 4]], 3], [2, 2, [["a.py", 5], ["b.py", 4]], 3],
	[2, 5000, [["a.py", 5], ["b.py", 4]], 3], [4, 400, [["c.py", 578]], 1]]}
	EOF
	for name in old new; do
		"$allocsnap" convert "$work/$name.json" -o "$work/$name.snap" || return 1
	done
}

heapdiff() {
	"$work/heapdiff" "$work/old.snap" "$work/new.snap" 'file=a.py,all-frames' "$work/part.snap" \
		>"$work/heapdiff.out" || return 1
	cat >"$work/expected" <<-'EOF'
	a.py:5: size=5002 B (+5000 B), count=2 (+1), average=2501 B
	a.py:2: size=10 B (-10 B), count=1 (-1), average=10 B
	Most changed (+5000 B):
	  File "b.py", line 4
	  File "a.py", line 5
	EOF
	diff "$work/expected" "$work/heapdiff.out"
}

# The program's own answer is the same, except for its total.
agrees_with_diff() {
	"$allocsnap" diff "$work/old.snap" "$work/new.snap" --include 'file=a.py,all-frames' --top 0 |
		grep -v '^total:' >"$work/diff.out"
	sed '/^Most changed/,$d' "$work/heapdiff.out" | diff "$work/diff.out" -
}

saves_part() {
	"$allocsnap" convert "$work/part.snap" -o "$work/part.json" &&
		"$allocsnap" convert "$work/new.snap" --include 'file=a.py,all-frames' \
			-o "$work/same.json" && diff "$work/part.json" "$work/same.json"
}

refuses() {
	"$work/heapdiff" "$work/old.snap" "$work/none.snap" a.py "$work/x.snap" 2>"$work/err"
	[ $? = 1 ] && [ "$(wc -l <"$work/err")" = 1 ] && grep -F none.snap "$work/err"
}

# until_line FILE PATTERN NR: waits for the NRth line that matches
until_line() {
	tries=3000
	until [ "$(grep -c "$2" "$1")" -ge "$3" ]; do
		[ $((tries -= 1)) -gt 0 ] || { echo "no line '$2' in:"; cat "$1"; return 1; }
		sleep 0.1
	done
}

# heapwatch counts four blocks, clears its counts, and then counts two new blocks only.
converse() {
	until_line "$work/blocks.out" ready 1 || return 1
	"$work/heapwatch" "$blocks" <"$work/watch.in" >"$work/watch.out" 2>&1 3>&- &
	watch=$!
	exec 4>"$work/watch.in"
	until_line "$work/watch.out" tracing 1 || return 1
	for nr in 1 2; do
		echo "make $((nr * 10)) $((6 - 2 * nr)) 1009" >&3
		until_line "$work/blocks.out" done $nr || return 1
		echo >&4
		until_line "$work/watch.out" cleared $nr || return 1
	done
	exec 4>&-
	wait "$watch"
}

heapwatch() {
	mkfifo "$work/blocks.in" "$work/watch.in" && : >"$work/watch.out" || return 1
	"$WORKLOADS/blocks" <"$work/blocks.in" >"$work/blocks.out" &
	blocks=$!
	exec 3>"$work/blocks.in"
	converse
	status=$?
	exec 3>&- 4>&-
	wait "$blocks" || status=1
	[ $status = 0 ] || return 1
	cat >"$work/expected" <<-EOF
	tracing $blocks
	traced: 4036 B in 4 blocks, peak 4036 B
	blocks.c:LINE: size=4036 B, count=4, average=1009 B
	ADDRESS:
	cleared
	traced: 2018 B in 2 blocks, peak 2018 B
	blocks.c:LINE: size=2018 B, count=2, average=1009 B
	ADDRESS:
	cleared
	traced: 0 B in 0 blocks, peak 0 B
	EOF
	grep -v '^  File' "$work/watch.out" |
		sed -E 's|^/.*/blocks\.c:[1-9][0-9]*:|blocks.c:LINE:|; s|^0x[0-9a-f]+:|ADDRESS:|' |
		diff "$work/expected" - &&
		[ "$(grep -c '^  File ".*/blocks\.c", line [1-9]' "$work/watch.out")" -ge 2 ]
}

refuses_to_watch() {
	"$work/heapwatch" "$1" 2>"$work/err"
	[ $? = 1 ] && [ "$(wc -l <"$work/err")" = 1 ] && grep -F "$2" "$work/err"
}

own_names() {
	[ "$("$work/own_names")" = 'both are there' ]
}

allocsnap=$installed/bin/allocsnap
check 'make install' "$MAKE" install DESTDIR="$root" prefix="$prefix"
check 'all is installed' is_installed
check 'pkg-config and the program say the same version' says_version
check 'allocsnap.pc names the prefix' knows_prefix
check 'allocsnap.service names the prefix' unit_knows_prefix
check 'the archive exports what the headers declare' exports_public_names
check 'public-names.sh finds what the compiler finds' names_all
check 'each header compiles by itself' headers_compile
check 'they are for C++, too' headers_compile_as_cxx
check 'heapdiff.c compiles' compile heapdiff allocsnap
check 'snapshots from JSON' write_snapshots
check 'heapdiff runs' heapdiff
check 'heapdiff agrees with allocsnap diff' agrees_with_diff
check 'heapdiff saves what convert saves' saves_part
check 'heapdiff says what it cannot open' refuses
check 'a program with names of its own links' compile own_names allocsnap-collect
check 'and calls its own' own_names
check 'heapwatch.c compiles' compile heapwatch allocsnap-collect
if [ "$(id -u)" = 0 ]; then
	check 'heapwatch follows what a process does' heapwatch
	check 'and says that there is no such process' refuses_to_watch 4194305 'no process 4194305'
else
	skipped=2
	echo 'skip example: heapwatch follows what a process does: because it needs root'
fi
check 'and that it needs a PID' refuses_to_watch '' 'which PID?'
echo "example: $passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
