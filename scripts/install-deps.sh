#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# install-deps.sh [WHAT…]: installs the Debian packages (12 or newer) that are missing for
#
#	build	what make needs; so it is without an argument
#	demo	what make demo records, beside
#	test	what make check needs, beside
#	answers	programs that make test-answers records, beside test; a missing one does not stop the others
#	formats	tools that make test-formats judges files with, beside test; a missing one does not stop the others
#	fleet	the server that make test-fleet also asks; without it that is a skipped test
#	kernels	what make test-kernels boots older kernels with; without it that is a skipped test
#	machines	a compiler and an emulator of arm64: make test-machines
#	package	what make deb, make rpm and make tarball need, beside build; and the judges of packages
#	deploy	a container engine, and what reads deploy/daemonset.yaml: make test-deploy
#	bench	what only the benchmarks compare with; a missing one does not stop the others
#
# As root; where nothing is missing it does nothing and anybody may run it.
set -eu

# The lists. A package whose name contains a version follows a name without one: NAME>PACKAGE.
build_packages='
	make gcc libc6-dev binutils
	clang llvm bpftool libbpf-dev
	libelf-dev libdw-dev libcapstone-dev libcurl4-openssl-dev libiberty-dev libjansson-dev libncurses-dev libsqlite3-dev libxxhash-dev libzstd-dev zlib1g-dev
'
demo_packages='sqlite3 g++'
test_packages='
	g++ libcriterion-dev libclang-rt-dev>libclang-rt-[0-9]+-dev pkg-config
	lld dwz libc6-dbg musl-dev musl-tools libjemalloc-dev libgoogle-perftools-dev libmimalloc-dev libunwind-dev
	python3 python3-dbg>python3\.[0-9]+-dbg sqlite3 redis-server redis-tools jq git gh ripgrep
	mount util-linux btrfs-progs systemd python3-prometheus-client
	chromium chromium-driver python3-selenium esbuild tmux
	bash-completion zsh man-db mandoc less
	nodejs openssl procps python3-jsonschema gdb heaptrack debuginfod elfutils systemtap-sdt-dev
'
answers_packages='
	nginx-light apache2-utils postgresql default-jdk-headless>openjdk-[0-9]+-jdk-headless golang-go rustc
	python3-flask gunicorn python3-numpy python3-pandas mercurial ansible-core
'
formats_packages='protobuf-compiler python3-protobuf golang-go google-perftools chromium chromium-driver python3-selenium npm'
fleet_packages='clickhouse-server clickhouse-client clickhouse-common curl'
machines_packages='gcc-aarch64-linux-gnu g++-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static mmdebstrap'
package_packages='build-essential debhelper lintian mmdebstrap rpm xz-utils liblzma-dev libbz2-dev'
kernels_packages='qemu-system-x86 seabios apparmor qemu-system-arm gcc-aarch64-linux-gnu g++-aarch64-linux-gnu mmdebstrap'
deploy_packages='podman runc netavark python3-yaml mmdebstrap'
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

# The suite's own package of NAME>PACKAGE, as apt's lists have it; without any lists NAME, which needs it.
name_here() {
	name=${1%%>*}
	[ "$name" != "$1" ] || { echo "$1"; return; }
	own=$(apt-cache depends "$name" 2>/dev/null | sed -nE "s/^ *Depends: (${1#*>})$/\1/p" | head -n 1)
	echo "${own:-$name}"
}

[ $# != 0 ] || set -- build
packages='' optional=''
for what in "$@"; do
	case $what in
	build) packages="$packages $build_packages" ;;
	demo) packages="$packages $demo_packages" ;;
	test) packages="$packages $test_packages" ;;
	answers) optional="$optional $answers_packages" ;;
	formats) optional="$optional $formats_packages" ;;
	fleet) optional="$optional $fleet_packages" ;;
	kernels) optional="$optional $kernels_packages" ;;
	package) packages="$packages $package_packages" ;;
	machines) packages="$packages $machines_packages" ;;
	deploy) packages="$packages $deploy_packages" ;;
	bench) optional="$optional $bench_packages" ;;
	*) die "$what: build, demo, test, answers, formats, fleet, kernels, machines, package, deploy or bench" ;;
	esac
done
if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
	die "this is not Debian: install the equivalents of$(echo "$packages $optional" | sed 's/>[^ ]*//g' | tr -s '\n\t' ' ')"
fi

# missing PACKAGE…: those that are not installed, each after a space
missing() {
	for package in "$@"; do
		package=$(name_here "$package")
		is_installed "$package" || printf ' %s' "$package"
	done
}

# shellcheck disable=SC2086 # lists
needed=$(missing $packages) optional=$(missing $optional)
[ -n "$needed$optional" ] || exit 0
[ "$(id -u)" = 0 ] || die "run me as root to install:$needed$optional"
exec 9>/run/allocsnap-deps.lock
flock 9 # another clone may install, too

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

echo "install-deps: installing$needed$optional"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq || die "apt-get update failed"
install() {
	apt-get install -qq -y -o Dpkg::Use-Pty=0 --no-install-recommends "$@"
}
# shellcheck disable=SC2086 # a list
[ -z "$needed" ] || install $needed || die "apt-get install failed"
for package in $optional; do
	install "$package" || echo "install-deps: cannot install $package" >&2
done
