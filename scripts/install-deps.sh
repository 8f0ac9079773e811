#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# install-deps.sh [bench]: installs the packages of Debian 12 that building and testing need, or what
# only the benchmarks compare with; those that are missing.
# As root; where nothing is missing it does nothing and anybody may run it.
set -eu

# The one list.
packages='
	make gcc g++ libc6-dev binutils
	clang llvm bpftool libbpf-dev
	libelf-dev libdw-dev libcapstone-dev libiberty-dev libjansson-dev libsqlite3-dev libxxhash-dev libzstd-dev zlib1g-dev
	libcriterion-dev libclang-rt-14-dev pkg-config
	lld dwz libc6-dbg musl-tools libjemalloc-dev libgoogle-perftools-dev libmimalloc-dev
	python3 python3.11-dbg sqlite3 redis-server redis-tools jq git gh ripgrep
	mount util-linux systemd python3-prometheus-client
'
bench_packages='heaptrack bpftrace bpfcc-tools'

PATH=$PATH:/usr/sbin:/sbin
policy=/usr/sbin/policy-rc.d

die() {
	echo "install-deps: $*" >&2
	exit 1
}

is_installed() {
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

[ "${1:-}" != bench ] || packages=$bench_packages
if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
	die "this is not Debian: install the equivalents of$(echo "$packages" | tr -s '\n\t' ' ')"
fi

missing=
for package in $packages; do
	is_installed "$package" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
[ "$(id -u)" = 0 ] || die "run me as root to install:$missing"

# Packages that start services ask this file first: the tests want redis-server, not its service.
restore_policy() {
	rm -f "$policy"
	[ ! -e "$policy.allocsnap" ] || mv "$policy.allocsnap" "$policy"
}
trap restore_policy EXIT
trap 'exit 1' HUP INT TERM
[ ! -e "$policy" ] || mv "$policy" "$policy.allocsnap"
printf '#!/bin/sh\nexit 101\n' >"$policy"
chmod 755 "$policy"

echo "install-deps: installing$missing"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq || die "apt-get update failed"
install() {
	apt-get install -qq -y -o Dpkg::Use-Pty=0 --no-install-recommends "$@"
}
if [ "${1:-}" = bench ]; then # one that cannot be had keeps nobody from comparing with the others
	for package in $missing; do
		install "$package" || echo "install-deps: cannot install $package" >&2
	done
	exit 0
fi
# shellcheck disable=SC2086 # a list
install $missing || die "apt-get install failed"
