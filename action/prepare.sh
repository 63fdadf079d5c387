#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# prepare.sh: kernel and image, as far as the restored cache has not brought them.
# Outputs: digest (of the image), key (of the cache that holds just these).
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

boxlite setup
if ! boxlite pull --quiet "$INPUT_IMAGE"; then
    # A registry that is down is no reason to fail when the image is here.
    boxlite image inspect "$INPUT_IMAGE" >/dev/null 2>&1 || die "there is no image $INPUT_IMAGE"
    echo "::warning title=BoxLite::$INPUT_IMAGE could not be checked for changes; the cached one is used"
fi
digest=$(boxlite image inspect "$INPUT_IMAGE" | sed -n 's/^    "digest": "\(sha256:[0-9a-f]*\)".*/\1/p' | head -n 1)
[ -n "$digest" ] || die "the digest of $INPUT_IMAGE is not known"
kernel=$(sha256sum "$BOXLITE_HOME/kernels/default/vmlinux" | cut -c1-16)
output digest "$digest"
output key "$KEY_PREFIX${digest#sha256:}-$kernel"
