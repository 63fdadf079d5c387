#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh: INPUT_RUN in a box whose workspace is the checkout. What it writes stays in the box; the files that
# INPUT_OUTPUTS names are brought back. The step ends with the command's exit code.
# Outputs: exit-code, output (a file), folder (to upload).
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

folder=$RUNNER_TEMP/boxlite-output
name=action-$$-${RANDOM}
rm -rf "$folder"
mkdir -p "$folder"
output output "$folder/output.txt"
output folder "$folder"

options=()
while IFS= read -r line; do
    [ -z "$line" ] || options+=(--env "$line")
done <<<"${INPUT_ENV:-}"

trap 'boxlite rm -f "$name" >/dev/null 2>&1 || true' EXIT
start() {
    boxlite run -d --idle --name "$name" "$@" --memory "${INPUT_MEMORY:-2g}" --cpus "${INPUT_CPUS:-2}" \
        --network "${INPUT_NETWORK:-none}" --env CI=true ${options[@]+"${options[@]}"} "$INPUT_IMAGE" >/dev/null
}
# A kernel without FUSE cannot show the checkout: then it is copied.
if ! start --workspace "$GITHUB_WORKSPACE:/workspace" 2>"$folder/start.txt"; then
    boxlite rm -f "$name" >/dev/null 2>&1 || true
    start || { cat "$folder/start.txt" >&2; die "the box did not start" 125; }
    boxlite cp "$GITHUB_WORKSPACE/." "$name:/workspace"
fi
rm -f "$folder/start.txt"

limit=()
[ "${INPUT_TIMEOUT:-0}" = 0 ] || limit=(--timeout "$INPUT_TIMEOUT")
set +e
boxlite exec --workdir /workspace ${limit[@]+"${limit[@]}"} "$name" /bin/sh -ec "$INPUT_RUN" 2>&1 | tee "$folder/output.txt"
status=${PIPESTATUS[0]}
set -e
output exit-code "$status"

while IFS= read -r path; do
    [ -n "$path" ] || continue
    case /$path/ in */../*) die "outputs: $path leads out of the checkout" ;; esac
    mkdir -p "$(dirname "$folder/$path")"
    boxlite cp "$name:/workspace/$path" "$folder/$path" || echo "::warning title=BoxLite::there is no $path"
done <<<"${INPUT_OUTPUTS:-}"

[ "$status" -eq 0 ] || echo "::error title=BoxLite::the command ended with exit code $status" >&2
exit "$status"
