#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# key.sh: where the cache is and the beginning of its key. A home of that beginning is good for a start: `prepare` fetches
# what has changed in the image since, and its own key ends with what is then in the home: image and kernel by digest.
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

home=$HOME/.boxlite
image=$(printf %s "$INPUT_IMAGE" | sha256sum | cut -c1-16)
version=$(boxlite version | sed -n 's/^libboxlite: *//p')
echo "BOXLITE_HOME=$home" >>"$GITHUB_ENV"
output path "$home"
output prefix "boxlite-$(uname -m)-$version-$image-"
