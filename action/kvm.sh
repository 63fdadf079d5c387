#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kvm.sh [DEVICE]: lets this user open /dev/kvm where the runner has it; without it boxes are emulated.
# Output: acceleration=kvm|none.
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

device=${1:-/dev/kvm}
if [ ! -e "$device" ]; then
    echo "no $device: boxes are emulated, which is slower and isolates the same"
    output acceleration none
    exit 0
fi
if [ ! -r "$device" ] || [ ! -w "$device" ]; then
    as_root chmod a+rw "$device" || die "$device cannot be made accessible"
fi
echo "$device can be used"
output acceleration kvm
