#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# build-rpm.sh VERSION FOLDER: an RPM of this commit, in FOLDER/rpm. On Debian rpmbuild does not know which packages are
# there, so it does not ask.
set -eu
. scripts/package/export.sh
version=$1 folder=$2/rpm
source=$folder/allocsnap-$version

rm -rf "$folder"
export_source "$source"
mkdir -p "$folder/SOURCES"
tar -C "$folder" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cz \
	-f "$folder/SOURCES/allocsnap-$version.tar.gz" "allocsnap-$version"
rpmbuild -bb --nodeps --define "_topdir $folder" --define "version_of_source $version" \
	--define 'use_source_date_epoch_as_buildtime 1' --define 'clamp_mtime_to_source_date_epoch 1' --define '_buildhost localhost' \
	"$source/scripts/package/allocsnap.spec"
rm -rf "$source" "$folder/BUILD" "$folder/BUILDROOT"
ls -l "$folder"/RPMS/*/*.rpm
