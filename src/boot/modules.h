/* SPDX-License-Identifier: Apache-2.0 */
/*
 * modules.h: which modules of a kernel go into the initramfs, and in what order they are loaded.
 *
 * The wanted ones stand in a table. A source (package or folder) offers its files; what a taken module
 * depends on is found in its own .modinfo and asked for in the next pass, until nothing is missing.
 * Debian's packages have no modules.dep (it is made when they are installed), so it is not used.
 */
#ifndef BX_BOOT_MODULES_H
#define BX_BOOT_MODULES_H

#include <boxlite.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/json.h"

#define BX_MODULES_MAX 96
#define BX_MODULE_SIZE_MAX (16u << 20)
#define BX_MODULES_BUILTIN_MAX (4u << 20)

/* Needed to get to the root file system; to have a network; later, by some commands. */
enum bx_module_stage { BX_MODULE_ROOT, BX_MODULE_NET, BX_MODULE_LATER };

struct bx_module {
    char name[64]; /* as in .modinfo: '_', never '-' */
    enum bx_module_stage stage;
    bool wanted;   /* for itself, not only as a dependency */
    bool required; /* no kernel without it */
    bool builtin;
    bool placed; /* it stands in the load order */
    uint8_t *data;
    size_t len;
};

struct bx_modules {
    struct bx_module v[BX_MODULES_MAX];
    size_t n;
};

void bx_modules_init(struct bx_modules *m); /* the wanted ones */
void bx_modules_done(struct bx_modules *m);
#define _cleanup_modules_ _cleanup_(bx_modules_done)

/* Which wanted module a file would be ("…/virtio_blk.ko", ".ko.xz", …), or NULL if none that is still
 * without data. */
struct bx_module *bx_modules_wants(struct bx_modules *m, const char *path);
/* Gives it its bytes (copied, the signature left out). INTEGRITY if they are no module. */
int bx_modules_give(struct bx_module *mod, const void *data, size_t len, boxlite_error **err);
/* Reads a modules.builtin file: marks what is in the kernel. */
void bx_modules_builtin(struct bx_modules *m, const char *text, size_t len);
/* Adds what the modules with data depend on. *ret: whether another pass is needed. */
int bx_modules_scan(struct bx_modules *m, bool *ret, boxlite_error **err);
/* Checks that nothing required is missing and appends modules/NNN-NAME.ko in load order to the
 * archive (NNN: 0xx root, 1xx network, 2xx later); names also to `list`. */
int bx_modules_write(struct bx_modules *m, struct bx_buf *cpio, json_t *list, boxlite_error **err);

#endif
