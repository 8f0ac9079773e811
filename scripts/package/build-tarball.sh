#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# build-tarball.sh VERSION FOLDER: FOLDER/allocsnap-VERSION-linux-x86_64.tar.xz and its SHA-256. What is in it runs from
# wherever it is unpacked.
set -eu
. scripts/package/export.sh
version=$1 folder=$2
name=allocsnap-$version-linux-x86_64
source=$folder/source-$name root=$folder/$name

export_source "$source"
make -C "$source" -j"$(nproc)" CI=1 .output/static/allocsnap
make -C "$source" install DESTDIR="$folder/installed"
rm -rf "$root"
mv "$folder/installed/usr/local" "$root"
rm -r "$folder/installed" "$root/include" "$root"/lib/*.a "$root/lib/pkgconfig"
install -m 755 "$source/.output/static/allocsnap" "$root/bin/allocsnap"
strip "$root/bin/allocsnap" "$root"/lib/allocsnap/*.so
cp -R "$source/LICENSE" "$source/LICENSES" "$source/README.md" "$source/CHANGELOG.md" "$source/docs" "$root"
tar -C "$folder" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -c "$name" | xz -T1 >"$root.tar.xz"
rm -rf "$source" "$root"
(cd "$folder" && sha256sum "$name.tar.xz" | tee "$name.tar.xz.sha256")
