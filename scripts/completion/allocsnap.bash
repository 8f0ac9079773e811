# bash completion for allocsnap                            -*- shell-script -*-
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash disable=SC2207,SC2154 # bash-completion's way; its variables, and the tables below
#
# `allocsnap --completion bash` writes the tables below these functions from the tables of its options:
#
#	_allocsnap_commands	the commands of the program and of fleet
#	_allocsnap_options	of each command
#	_allocsnap_values	of "COMMAND OPTION": a kind of value; of the kinds words and list, also the words
#	_allocsnap_arguments	of each command: kinds of values
#
# A kind is one of the functions _allocsnap_offer_KIND. They add to COMPREPLY what fits $cur.

# ---- kinds of values ----

_allocsnap_offer_words() {
	COMPREPLY+=($(compgen -W "$*" -- "$cur"))
}

# Words separated by commas: the last one is completed.
_allocsnap_offer_list() {
	local before=''
	[[ $cur != *,* ]] || before=${cur%,*},
	COMPREPLY+=($(compgen -P "$before" -W "$*" -- "${cur#"$before"}"))
}

_allocsnap_offer_nothing() {
	:
}

_allocsnap_offer_files() {
	_filedir
}

_allocsnap_offer_folders() {
	_filedir -d
}

_allocsnap_offer_users() {
	COMPREPLY+=($(compgen -u -- "$cur"))
}

# Offers the lines of stdin that fit; readline quotes them.
_allocsnap_offer_lines() {
	local line
	compopt -o filenames 2>/dev/null
	while IFS= read -r line; do
		[[ -z $line || $line != "$cur"* ]] || COMPREPLY+=("$line")
	done
}

# Writes what $1 says of each process: pid or name. Kernel threads have no command line.
_allocsnap_processes() {
	local dir name
	for dir in /proc/[0-9]*; do
		{ IFS= read -r -n 1 name <"$dir/cmdline" && IFS= read -r name <"$dir/comm"; } 2>/dev/null || continue
		case $1 in
		pid) echo "${dir#/proc/}" ;;
		name) printf '%s\n' "$name" ;;
		esac
	done
}

_allocsnap_offer_pids() {
	_allocsnap_offer_lines < <(_allocsnap_processes pid)
}

_allocsnap_offer_names() {
	_allocsnap_offer_lines < <(_allocsnap_processes name | sort -u)
}

# Processes that have snapshots in ./allocsnap-data: COMM.PID and COMM; PID after a digit.
_allocsnap_recorded() {
	local dir name
	for dir in ./allocsnap-data/*/*/; do
		name=${dir%/} name=${name##*/}
		[[ $name =~ ^(.+)\.([0-9]+)$ ]] || continue
		printf '%s\n' "$name" "${BASH_REMATCH[1]}"
		[[ $cur != [0-9]* ]] || echo "${BASH_REMATCH[2]}"
	done | sort -u
}

# Snapshot files, folders and recorded processes; after @, which snapshot of them.
_allocsnap_offer_snapshots() {
	if [[ $cur == *@* ]]; then
		COMPREPLY+=($(compgen -P "${cur%@*}@" -W 'first latest -1 -2' -- "${cur##*@}"))
		return
	fi
	_filedir snap
	_allocsnap_offer_lines < <(_allocsnap_recorded)
}

# What convert reads: snapshots, and files of other formats.
_allocsnap_offer_inputs() {
	_allocsnap_offer_snapshots
	[[ $cur == *@* ]] || _filedir
}

# ---- the command line ----

# Sets command to the command of words[], and first to the index of the word after it.
_allocsnap_find_command() {
	command=allocsnap
	for ((first = 1; first < cword; first++)); do
		case ${words[first]} in
		--no-pager) ;;
		-*) return ;;
		*)
			[[ " ${_allocsnap_commands[$command]-} " == *" ${words[first]} "* ]] || return
			[[ ${words[first]} != help ]] || return
			[[ $command == allocsnap ]] && command=${words[first]} || command+=" ${words[first]}"
			[[ ${_allocsnap_commands[$command]-} ]] || { ((first++)); return; }
			;;
		esac
	done
}

# Whether the word is an option whose value is the next word.
_allocsnap_takes_next() {
	[[ $1 == -* && ${_allocsnap_values["$command $1"]-} ]]
}

# `run`: completes the words of the program as its own completion does. Fails if the program is not there yet.
_allocsnap_complete_program() {
	local at
	[[ ${_allocsnap_arguments[$command]-} == programs ]] || return
	for ((at = first; at <= cword; at++)); do
		if [[ ${words[at]} == -- ]] && ((at < cword)); then
			_command_offset $((at + 1))
			return 0
		elif _allocsnap_takes_next "${words[at]}"; then
			((at++))
		elif [[ ${words[at]} != -* ]]; then
			_command_offset "$at"
			return 0
		fi
	done
	return 1
}

_allocsnap_has_ended_options() {
	local at
	for ((at = first; at < cword; at++)); do
		[[ ${words[at]} != -- ]] || return 0
	done
	return 1
}

_allocsnap_complete_word() {
	local kind
	if [[ $cur == -* ]] && ! _allocsnap_has_ended_options; then
		_allocsnap_offer_words "${_allocsnap_options[$command]-}"
		return
	fi
	if [[ ${_allocsnap_commands[$command]-} ]]; then
		_allocsnap_offer_words "${_allocsnap_commands[$command]}"
		return
	fi
	for kind in ${_allocsnap_arguments[$command]-}; do
		"_allocsnap_offer_$kind"
	done
}

# Readline replaces the part behind the last @ only, where @ separates words.
_allocsnap_trim_at() {
	local at
	[[ $cur == *@* && $COMP_WORDBREAKS == *@* ]] || return
	for at in "${!COMPREPLY[@]}"; do
		COMPREPLY[at]=${COMPREPLY[at]#"${cur%@*}@"}
	done
}

_allocsnap() {
	local cur prev words cword split command first kind
	_init_completion -s -n @ || return
	_allocsnap_find_command
	_allocsnap_complete_program && return
	if _allocsnap_takes_next "$prev" && { [[ $split == true ]] || ! _allocsnap_has_ended_options; }; then
		kind=${_allocsnap_values["$command $prev"]}
		# shellcheck disable=SC2086 # the words of the kind
		_allocsnap_offer_$kind
	elif [[ $split != true ]]; then
		_allocsnap_complete_word
	fi
	_allocsnap_trim_at
}

complete -F _allocsnap allocsnap

