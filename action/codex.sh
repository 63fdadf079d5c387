#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# codex.sh: lets Codex run code in boxes.
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

boxlite mcp install codex
