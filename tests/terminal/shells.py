# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Asks real shells what they complete: types a command line and the Tab key, and reads what the shell offers."""
import os

from terminal import Terminal

# Both shells write what they offer to $OFFERED, the last line is "end", and show nothing.
BASH = r"""
PS1='ready> '
source /usr/share/bash-completion/bash_completion
source "$COMPLETION/allocsnap"
capture() {
	_allocsnap "$@"
	{ printf '%s\n' "${COMPREPLY[@]}"; echo end; } >"$OFFERED.new"
	mv "$OFFERED.new" "$OFFERED"
	COMPREPLY=()
}
complete -F capture allocsnap
"""

ZSH = r"""
PS1='ready> '
fpath=("$COMPLETION" $fpath)
autoload -Uz compinit
compinit -u -D
zstyle ':completion:*' completer _complete
compadd() {
	local -a captured
	if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then # it only asks
		builtin compadd "$@"
		return
	fi
	builtin compadd -O captured "$@"
	print -rl -- $captured >>$OFFERED.new
	builtin compadd "$@"
}
capture() {
	: >$OFFERED.new
	_main_complete
	compstate[insert]=
	compstate[list]=
	print end >>$OFFERED.new
	mv $OFFERED.new $OFFERED
}
zle -C capture complete-word capture
bindkey '^I' capture
"""


class Shell:
    """bash or zsh, in a folder."""

    def __init__(self, name, folder, completion, scratch):
        self.name, self.offered = name, os.path.join(scratch, f"offered.{name}")
        rc = os.path.join(scratch, "bashrc" if name == "bash" else ".zshrc")
        with open(rc, "w", encoding="utf-8") as file:
            file.write(BASH if name == "bash" else ZSH)
        argv = ["bash", "--noprofile", "--rcfile", rc, "-i"] if name == "bash" else ["zsh", "-d", "-i"]
        env = {"COMPLETION": completion, "OFFERED": self.offered, "ZDOTDIR": scratch, "HISTFILE": ""}
        self.terminal = Terminal(argv, columns=500, cwd=folder, env=env)
        if "ready> " not in self.terminal.read(lambda text: "ready> " in text):
            raise RuntimeError(f"{name} does not start: {self.terminal.text!r}")

    def offers(self, line):
        """The words that the shell offers at the end of the line, sorted, each once."""
        if os.path.exists(self.offered):
            os.unlink(self.offered)
        self.terminal.type("\x15" + line + "\t")
        self.terminal.read(lambda text: os.path.exists(self.offered))
        if not os.path.exists(self.offered):
            raise RuntimeError(f"{self.name} has ended at {line!r}: {self.terminal.text[-300:]!r}")
        with open(self.offered, encoding="utf-8") as file:
            found = file.read().split("\n")
        assert found[-2:] == ["end", ""], found
        return sorted({word.removesuffix("=") for word in found[:-2]} - {""})

    def close(self):
        self.terminal.kill()
