/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_registries.c: any bytes as registries.json. What is taken has limits in their ranges and hosts that references can name.
 */
#include <stdint.h>
#include <stdlib.h>

#include "oci/registries.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_registries_ struct bx_registries r = {0};
    _cleanup_strv_ struct bx_strv names = {0};

    if (bx_registries_parse(data, size, "registries.json", &r, NULL) < 0) {
        return 0;
    }
    require(r.connect_ms >= 1000 && r.stall_ms >= 1000 && r.retries <= 20);
    require(r.parallel >= 1 && r.parallel <= 16);
    for (size_t i = 0; i < r.n; i++) {
        require(r.v[i].host && !strpbrk(r.v[i].host, "/@ "));
        require(bx_registries_find(&r, r.v[i].host) != NULL);
    }
    if (bx_registries_candidates(&r, "x", &names, NULL) == 0) {
        require(names.n >= 1);
    }
    return 0;
}
