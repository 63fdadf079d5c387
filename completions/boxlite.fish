# SPDX-License-Identifier: Apache-2.0
# fish completion for boxlite. The program itself knows what fits: `boxlite __complete WORD...` prints one
# candidate a line, "WORD<tab>description"; the line ":files" asks for file names.
function __boxlite_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in ($words[1] __complete $words[2..-1] 2>/dev/null)
        if test "$line" = ":files"
            __fish_complete_path (commandline -ct)
        else
            echo $line
        end
    end
end
complete -c boxlite -f -a '(__boxlite_complete)'
