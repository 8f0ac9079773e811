#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A real program grows, allocsnap looks at it: records a live sqlite3 shell, reads two snapshots; then it finds the
# leak of a C++ service. As root. Everything is gone afterwards; with an argument, the snapshots stay in that folder.
set -eu
cd "$(dirname "$0")/.."

[ "$(id -u)" = 0 ] || { echo "demo: attaching to a process takes root: run me as root" >&2; exit 1; }
[ -x ./allocsnap ] || { echo "demo: there is no ./allocsnap: run 'make' first" >&2; exit 1; }

shopcache=${SHOPCACHE:-.output/answers/shopcache}
[ -x "$shopcache" ] || { echo "demo: there is no $shopcache: run 'make demo'" >&2; exit 1; }

work=$(mktemp -d)
out=${1:-$work/snapshots}
sqlite_pid='' feeder_pid='' shop_pid=''

cleanup() {
	for pid in $feeder_pid $sqlite_pid $shop_pid; do
		kill "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

heading() {
	printf '\n### %s\n\n' "$*"
}

# Prints the command as a user would type it, then its output.
show() {
	printf '$ %s\n' "$*"
	"$@"
}

# Ten seconds at most: the program adds sessions and never deletes them, and searches now and then.
feed() {
	echo 'CREATE TABLE session (id INTEGER PRIMARY KEY, user TEXT, state BLOB);'
	echo 'CREATE INDEX by_user ON session (user);'
	for step in $(seq 200); do
		echo "INSERT INTO session (user, state) SELECT 'user-' || value, randomblob(900)" \
			"FROM generate_series(1, 100);"
		echo "SELECT count(*) FROM session WHERE user = 'user-$step';"
		sleep 0.05
	done
}

heading "A sqlite3 shell with a database in memory, which grows"
mkfifo "$work/sql"
sqlite3 -batch :memory: <"$work/sql" >/dev/null &
sqlite_pid=$!
feed >"$work/sql" &
feeder_pid=$!
sleep 1
echo "it runs as process $sqlite_pid"

heading "Two snapshots, three seconds apart; it never stops for that"
show ./allocsnap attach "$sqlite_pid" -o "$out" --interval 3s --count 2 | tee "$work/attach"
mapfile -t snapshots < <(grep '\.snap$' "$work/attach")
[ "${#snapshots[@]}" = 2 ] || { echo "demo: there should be two snapshots" >&2; exit 1; }
old=${snapshots[0]} new=${snapshots[1]}

heading "Where is the memory? The largest call sites of the second"
show ./allocsnap stats "$new" --top 5

heading "What grew? The second compared to the first, by line"
show ./allocsnap diff "$old" "$new" --top 5

heading "The same by traceback: who called"
show ./allocsnap diff "$old" "$new" --group-by traceback --top 2

heading "What the snapshot knows of itself, and what it does not know"
show ./allocsnap show "$new"

if kill -0 "$sqlite_pid" 2>/dev/null; then
	echo
	echo "sqlite3 (process $sqlite_pid) is still at work, without probes now; the demo ends it."
fi

heading "A C++ service, optimized, with four threads: its cache has a second index that is never evicted"
"$shopcache" &
shop_pid=$!
echo "it runs as process $shop_pid; its source is tests/answers/planted/shopcache.cc"

heading "Which of its lines leak? One command, 20 seconds"
show ./allocsnap leaks "$shop_pid" --for 20s
