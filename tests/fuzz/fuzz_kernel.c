/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_kernel.c: any file as a kernel and as a module. What is found lies inside the file.
 */
#include <stdint.h>
#include <stdlib.h>

#include "boot/bzimage.h"
#include "boot/elf.h"
#include "boot/modules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void as_kernel(const uint8_t *data, size_t size)
{
    struct bx_bzimage z;
    if (bx_bzimage_parse(data, size, &z) == 0 &&
        (z.payload_off > size || z.payload_len > size - z.payload_off)) {
        abort();
    }
    struct bx_elf_kernel k;
    if (bx_elf_kernel(data, size, &k) == 0 && strlen(k.release) >= sizeof(k.release)) {
        abort();
    }
}

static void as_module(const uint8_t *data, size_t size)
{
    size_t n = bx_elf_unsigned_len(data, size);
    if (n > size) {
        abort();
    }
    const char *s = bx_elf_modinfo(data, n, "depends", 0);
    if (s && ((const uint8_t *)s < data || (const uint8_t *)s + strlen(s) >= data + n)) {
        abort();
    }
}

/* The whole way of modules into an archive, all wanted names being this one file. */
static void as_all_modules(const uint8_t *data, size_t size)
{
    _cleanup_modules_ struct bx_modules m;
    _cleanup_buf_ struct bx_buf cpio = BX_BUF_INIT(64u << 20);
    _cleanup_json_ json_t *names = json_array();
    bx_modules_init(&m);
    bx_modules_builtin(&m, (const char *)data, size);
    for (size_t i = 0; i < m.n; i++) {
        if (bx_modules_give(&m.v[i], data, size, NULL) < 0) {
            return;
        }
    }
    bool more;
    if (bx_modules_scan(&m, &more, NULL) == 0) {
        (void)bx_modules_write(&m, &cpio, names, NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    as_kernel(data, size);
    as_module(data, size);
    if (size <= 65536) {
        as_all_modules(data, size);
    }
    return 0;
}
