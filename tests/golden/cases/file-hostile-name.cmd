printf x >"$(printf 'a\033[31m')"; allocsnap stats "$(printf 'a\033[31m')"
