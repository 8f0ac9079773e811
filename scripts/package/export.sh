# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# export_source FOLDER: this commit's files, as of a release, in a folder that was not there before. To be sourced.
export_source() {
	rm -rf "$1"
	mkdir -p "$1"
	git -c safe.directory='*' archive HEAD | tar -x -C "$1"
}

: "${SOURCE_DATE_EPOCH:?there is no commit here: make it in a clone}"
export SOURCE_DATE_EPOCH
umask 022
