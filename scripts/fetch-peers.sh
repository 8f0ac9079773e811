#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# fetch-peers.sh DIR: what the benchmarks compare with and this Debian does not have, unpacked below
# DIR and not installed. memleak of libbpf-tools: the newest suite's, which runs with the libraries
# and the ld.so that come with it. Kernel headers for memleak-bpfcc: any will do for uprobes.
# Reads the machine's own mirror. Leaves DIR/missing, a line NAME: REASON for each that it did not get.
set -eu

dir=$(mkdir -p "$1" && cd "$1" && pwd)
suite=sid
apt=$dir/apt

is_there() {
	[ -e "$dir/$1/done" ]
}

missing() {
	echo "$1: $2" >>"$dir/missing"
}

# The first mirror of Debian itself that the machine's apt has; the names are apt's to fill in.
# shellcheck disable=SC2016
mirror() {
	apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(RELEASE)' 'Created-By: Packages' |
		awk '$2 == "Debian" && $3 !~ /-/ { print $1; exit }'
}

# With a folder of its own: the machine's lists and packages stay as they are.
make_apt() {
	mkdir -p "$apt/etc" "$apt/state/lists/partial" "$apt/cache/archives/partial"
	: >"$apt/state/status"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $1 $suite main" >"$apt/etc/sources.list"
	cat >"$apt/apt.conf" <<-END
		Dir::State "$apt/state";
		Dir::State::status "$apt/state/status";
		Dir::Cache "$apt/cache";
		Dir::Etc::sourcelist "$apt/etc/sources.list";
		Dir::Etc::sourceparts "/dev/null";
		Dir::Etc::preferencesparts "/dev/null";
		APT::Sandbox::User "root";
		Acquire::Languages "none";
	END
}

newer() {
	APT_CONFIG="$apt/apt.conf" "$@"
}

# unpack DIR: the packages in the current folder
unpack() {
	for deb in ./*.deb; do
		dpkg-deb -x "$deb" "$1"
	done
}

fetch_memleak() {
	uri=$(mirror)
	[ -n "$uri" ] || { missing memleak "apt knows no mirror of Debian"; return; }
	make_apt "$uri"
	newer apt-get -qq update || { missing memleak "the mirror has no list of $suite"; return; }
	mkdir -p "$dir/memleak/deb" && cd "$dir/memleak/deb"
	newer apt-get -qq download libbpf-tools libc6 libbpf1 libelf1t64 zlib1g libzstd1 ||
		{ missing memleak "the mirror's $suite has no libbpf-tools, or not what it needs"; return; }
	unpack ..
	touch ../done
}

# The kernel's own headers are best; for a kernel that is not Debian's, Debian's are used.
fetch_headers() {
	package=$(apt-cache depends linux-headers-amd64 2>/dev/null | sed -n 's/.*Depends: //p' | head -n 1)
	[ -n "$package" ] || { missing headers "apt knows no linux-headers-amd64: apt-get update"; return; }
	common=${package%-amd64}-common
	mkdir -p "$dir/headers/deb" && cd "$dir/headers/deb"
	apt-get -qq -o APT::Sandbox::User=root download "$package" "$common" || { missing headers "the mirror has no $package"; return; }
	unpack ..
	mv ../usr/src/"$common" ../merged
	cp -a ../usr/src/"$package"/. ../merged
	touch ../done
}

rm -f "$dir/missing"
if [ "$(id -u)" != 0 ]; then
	missing all "only root can attach probes"
	exit 0
fi
is_there memleak || (fetch_memleak)
[ -e "/lib/modules/$(uname -r)/build" ] || is_there headers || (fetch_headers)
