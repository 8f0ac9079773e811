#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Installs into a folder of its own and uses the library from there, as another program would.
# Environment: MAKE, CC.
set -u
cd "$(dirname "$0")/../.." || exit 1
: "${MAKE:=make}" "${CC:=cc}"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root prefix=/opt/allocsnap
installed=$root$prefix
PKG_CONFIG_PATH=$installed/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root
export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR

passed=0
failed=0

# check WHAT COMMAND…: it must succeed; what it says is shown if it does not
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

# ---- what is installed ----

is_installed() {
	for file in bin/allocsnap lib/liballocsnap.a lib/pkgconfig/allocsnap.pc \
		include/allocsnap/allocsnap.h include/allocsnap/engine.h include/allocsnap/reason.h \
		include/allocsnap/render.h include/allocsnap/snapshot.h; do
		[ -s "$installed/$file" ] || { echo "$file is not there"; return 1; }
	done
}

says_version() {
	version=$(cat VERSION)
	[ "$(pkg-config --modversion allocsnap)" = "$version" ] &&
		"$installed/bin/allocsnap" --version | grep -F "$version"
}

knows_prefix() {
	[ "$(PKG_CONFIG_SYSROOT_DIR='' pkg-config --variable=prefix allocsnap)" = "$prefix" ] || return 1
	! grep -n '@' "$installed/lib/pkgconfig/allocsnap.pc"
}

exports_public_names() {
	nm --extern-only --defined-only -f posix "$installed/lib/liballocsnap.a" |
		awk 'NF > 1 { print $1 }' | LC_ALL=C sort >"$work/exported"
	scripts/public-names.sh "$installed"/include/allocsnap/*.h >"$work/declared"
	[ -s "$work/declared" ] && diff "$work/declared" "$work/exported"
}

# What compilers take for a declaration is what the script takes for one.
names_all() {
	printf '#include <allocsnap/allocsnap.h>\n' >"$work/all.c"
	"$CC" $(pkg-config --cflags allocsnap) -fsyntax-only -aux-info "$work/aux" "$work/all.c" &&
		grep -F "/* $installed/" "$work/aux" | sed -E 's/^[^*]*\*\/ //; s/ \(.*//; s/.*[ *]//' |
		LC_ALL=C sort -u >"$work/known" && diff "$work/known" "$work/declared"
}

# ---- headers ----

# Each by itself, in the strictest C that has what they use.
headers_compile() {
	for header in "$installed"/include/allocsnap/*.h; do
		printf '#include <allocsnap/%s>\nint unit;\n' "$(basename "$header")" >"$work/header.c"
		"$CC" -std=c11 -Wall -Wextra -Wpedantic -Werror $(pkg-config --cflags allocsnap) \
			-fsyntax-only "$work/header.c" || return 1
	done
}

headers_compile_as_cxx() {
	printf '#include <allocsnap/allocsnap.h>\nint main() { return sizeof(struct filter) == 0; }\n' \
		>"$work/header.cc"
	"${CC%gcc}g++" -std=c++17 -Wall -Wextra -Werror $(pkg-config --cflags allocsnap) \
		-fsyntax-only "$work/header.cc"
}

# ---- programs ----

compile() {
	"$CC" -std=c11 -O1 -Wall -Wextra -Wpedantic -Werror "tests/example/$1.c" \
		$(pkg-config --cflags --libs allocsnap) -o "$work/$1"
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

# The program's own answer is the same, but for its total.
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

own_names() {
	[ "$("$work/own_names")" = 'both are there' ]
}

allocsnap=$installed/bin/allocsnap
check 'make install' "$MAKE" install DESTDIR="$root" prefix="$prefix"
check 'all is installed' is_installed
check 'pkg-config and the program say the same version' says_version
check 'allocsnap.pc names the prefix' knows_prefix
check 'the archive exports what the headers declare' exports_public_names
check 'public-names.sh finds what the compiler finds' names_all
check 'each header compiles by itself' headers_compile
check 'they are for C++, too' headers_compile_as_cxx
check 'heapdiff.c compiles' compile heapdiff
check 'snapshots from JSON' write_snapshots
check 'heapdiff runs' heapdiff
check 'heapdiff agrees with allocsnap diff' agrees_with_diff
check 'heapdiff saves what convert saves' saves_part
check 'heapdiff says what it cannot open' refuses
check 'a program with names of its own links' compile own_names
check 'and calls its own' own_names
echo "example: $passed passed, $failed failed"
[ "$failed" = 0 ]
