#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# fetch-source.sh DIR PACKAGE: Debian's source of a package, unpacked as DIR/PACKAGE; nothing is
# installed, and the machine's lists and packages stay as they are. Reads the machine's own mirror.
set -eu

dir=$(mkdir -p "$1" && cd "$1" && pwd)
package=$2
apt=$dir/apt
[ ! -d "$dir/$package" ] || exit 0

die() {
	echo "fetch-source: $package: $*" >&2
	exit 1
}

# URI and suite of Debian itself as the machine's apt has them; the names are apt's to fill in.
# shellcheck disable=SC2016
target=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(ORIGIN)' 'Created-By: Packages' |
	awk '$3 == "Debian" && $2 !~ /-/ { print $1, $2; exit }')
[ -n "$target" ] || die "apt knows no mirror of Debian"

mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial"
: >"$apt/state/status"
echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $target main" >"$apt/sources.list"
cat >"$apt/apt.conf" <<-END
	Dir::State "$apt/state";
	Dir::State::status "$apt/state/status";
	Dir::Cache "$apt/cache";
	Dir::Etc::sourcelist "$apt/sources.list";
	Dir::Etc::sourceparts "/dev/null";
	Dir::Etc::preferencesparts "/dev/null";
	APT::Sandbox::User "root";
	Acquire::Languages "none";
END
export APT_CONFIG="$apt/apt.conf"

apt-get -qq update || die "the mirror has no list of sources"
cd "$apt"
apt-get -qq source --download-only "$package" || die "the mirror does not have it"
# By hand: dpkg-source is of dpkg-dev, which nothing else here needs.
tar -xf "$package"_*.orig.tar.* || die "its archive can't be unpacked"
mv "$(tar -tf "$package"_*.orig.tar.* | head -1 | cut -d/ -f1)" "$dir/$package"
