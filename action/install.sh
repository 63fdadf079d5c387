#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# install.sh: puts boxlite into the job's PATH: from the wheel INPUT_PACKAGE, or built from the source beside this action.
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

tools=${RUNNER_TOOL_CACHE:-$RUNNER_TEMP}/boxlite
source=$(cd "$(dirname "$0")/.." && pwd)

# The engine and the network helper are the distribution's.
engine() {
    case $(uname -m) in x86_64) echo qemu-system-x86 ;; *) echo qemu-system-arm ;; esac
}
missing=()
command -v "qemu-system-$(uname -m)" >/dev/null || missing+=("$(engine)")
command -v passt >/dev/null || missing+=(passt)
command -v mke2fs >/dev/null || missing+=(e2fsprogs)
if [ ${#missing[@]} -gt 0 ]; then
    as_root apt-get -qq update
    as_root apt-get -qq install -y --no-install-recommends "${missing[@]}"
fi

if [ -n "${INPUT_PACKAGE:-}" ]; then
    [ -f "$INPUT_PACKAGE" ] || die "package: there is no file $INPUT_PACKAGE"
    python3 -m venv "$tools"
    # The programs need no Python library; --no-index: nothing is taken from elsewhere.
    "$tools/bin/pip" install --quiet --disable-pip-version-check --no-index --no-deps --force-reinstall "$INPUT_PACKAGE"
else
    make -C "$source" setup all
    make -C "$source" install PREFIX="$tools"
fi
echo "$tools/bin" >>"$GITHUB_PATH"
"$tools/bin/boxlite" version
