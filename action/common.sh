# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# common.sh: read by the scripts of the action. Inputs come as INPUT_NAME, never pasted into a script, so no text of theirs
# is code here.
set -euo pipefail

die() { echo "::error title=BoxLite::$1" >&2; exit "${2:-1}"; }

# An output of the step; a name that a value could forge is not used (values are one line).
output() { printf '%s=%s\n' "$1" "${2//$'\n'/ }" >>"$GITHUB_OUTPUT"; }

as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi; }
