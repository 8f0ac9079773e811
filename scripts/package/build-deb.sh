#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# build-deb.sh VERSION FOLDER: Debian packages of this commit, in FOLDER/deb.
set -eu
. scripts/package/export.sh
version=$1 folder=$2/deb
source=$folder/allocsnap-$version

rm -rf "$folder"
export_source "$source"
cp -R "$source/scripts/package/debian" "$source/debian"
cat >"$source/debian/changelog" <<EOF
allocsnap ($version) unstable; urgency=medium

  * CHANGELOG.md has what is new. Commit:
    $(cat "$source/scripts/commit")

 -- allocsnap maintainers <maintainers@allocsnap.example>  $(date -R -u -d "@$SOURCE_DATE_EPOCH")
EOF
(cd "$source" && dpkg-buildpackage --build=binary --no-sign)
rm -rf "$source"
ls -l "$folder"/*.deb
