# SPDX-License-Identifier: Apache-2.0
# bash completion for boxlite. The program itself knows what fits: `boxlite __complete WORD...` prints one
# candidate a line, "WORD<tab>description"; the line ":files" asks for file names.
_boxlite()
{
    local current words=() line files=
    # readline splits words at ':' and '='; ours are the shell's
    read -ra words <<<"${COMP_LINE:0:COMP_POINT}"
    [[ ${COMP_LINE:0:COMP_POINT} == *[[:space:]] ]] && words+=("")
    current=${words[-1]}
    local before=${current%"${COMP_WORDS[COMP_CWORD]}"}
    [[ $before == "$current" ]] && before=

    COMPREPLY=()
    while IFS= read -r line; do
        if [[ $line == :files ]]; then
            files=1
        else
            line=${line%%$'\t'*}
            COMPREPLY+=("${line#"$before"}")
        fi
    done < <("${words[0]}" __complete "${words[@]:1}" 2>/dev/null)

    if [[ -n $files ]]; then
        compopt -o filenames 2>/dev/null
        while IFS= read -r line; do
            COMPREPLY+=("$line")
        done < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
    fi
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *: ]] && compopt -o nospace 2>/dev/null
    return 0
}
complete -F _boxlite boxlite
