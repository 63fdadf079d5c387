/* SPDX-License-Identifier: Apache-2.0 */
/*
 * modules.c: the wanted modules, their dependencies, their order.
 *
 * Names are compared in the form the kernel uses ('-' is '_'). Depth and number are bounded by the
 * size of the set; a dependency that turns back on itself is refused, as the kernel could not load it
 * either. Signatures are left out: checking one costs the guest 5 ms under emulation and proves
 * nothing, as the initramfs comes from the host, like the kernel itself.
 */
#include "boot/modules.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "boot/cpio.h"
#include "boot/elf.h"

/* A PROBABLE one is a dependency of others in today's kernels. It stands here only to be found in the
 * first pass over a package, which saves the second, and is left out when nothing depends on it. */
enum want { PROBABLE, OPTIONAL, REQUIRED };

static const struct {
    const char *name;
    enum bx_module_stage stage;
    enum want want;
} wanted[] = {
    {"virtio", BX_MODULE_ROOT, PROBABLE},
    {"virtio_ring", BX_MODULE_ROOT, PROBABLE},
    {"libcrc32c", BX_MODULE_ROOT, PROBABLE},
    {"jbd2", BX_MODULE_ROOT, PROBABLE},
    {"mbcache", BX_MODULE_ROOT, PROBABLE},
    {"crc16", BX_MODULE_ROOT, PROBABLE},
    {"virtio_mmio", BX_MODULE_ROOT, REQUIRED},
    {"virtio_console", BX_MODULE_ROOT, REQUIRED},
    {"virtio_blk", BX_MODULE_ROOT, REQUIRED},
    {"squashfs", BX_MODULE_ROOT, REQUIRED},
    {"crc32c_generic", BX_MODULE_ROOT, OPTIONAL}, /* ext4 asks for it by alias, not by dependency */
    {"ext4", BX_MODULE_ROOT, REQUIRED},
    {"overlay", BX_MODULE_ROOT, REQUIRED},
    {"failover", BX_MODULE_NET, PROBABLE},
    {"net_failover", BX_MODULE_NET, PROBABLE},
    {"virtio_net", BX_MODULE_NET, OPTIONAL},
    {"virtio_rng", BX_MODULE_LATER, OPTIONAL},
    {"virtio_balloon", BX_MODULE_LATER, OPTIONAL},
    {"fuse", BX_MODULE_LATER, OPTIONAL},
    {"virtiofs", BX_MODULE_LATER, OPTIONAL},
    {"tun", BX_MODULE_LATER, OPTIONAL},
};

/* Copies a module's name from a file name or a dependency list, '-' as '_': false if it is none. */
static bool normal_name(const char *s, size_t len, char *ret, size_t size)
{
    if (len == 0 || len >= size) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        char c = s[i] == '-' ? '_' : s[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '_')) {
            return false;
        }
        ret[i] = c;
    }
    ret[len] = '\0';
    return true;
}

/* The module's name in a path that ends in NAME.ko or NAME.ko.COMPRESSION. */
static bool path_name(const char *path, size_t len, char *ret, size_t size)
{
    const char *slash = memrchr(path, '/', len);
    const char *base = slash ? slash + 1 : path;
    size_t n = len - (size_t)(base - path);
    const char *dot = memchr(base, '.', n);
    if (!dot || base + n - dot < 3 || memcmp(dot, ".ko", 3) != 0 ||
        (dot + 3 < base + n && dot[3] != '.')) {
        return false;
    }
    return normal_name(base, (size_t)(dot - base), ret, size);
}

static struct bx_module *find(struct bx_modules *m, const char *name)
{
    for (size_t i = 0; i < m->n; i++) {
        if (strcmp(m->v[i].name, name) == 0) {
            return &m->v[i];
        }
    }
    return NULL;
}

static struct bx_module *add(struct bx_modules *m, const char *name, enum bx_module_stage stage)
{
    struct bx_module *mod = find(m, name);
    if (!mod) {
        if (m->n == BX_MODULES_MAX) {
            return NULL;
        }
        mod = &m->v[m->n++];
        *mod = (struct bx_module){.stage = stage};
        snprintf(mod->name, sizeof(mod->name), "%s", name);
    }
    mod->stage = stage < mod->stage ? stage : mod->stage;
    return mod;
}

void bx_modules_init(struct bx_modules *m)
{
    m->n = 0;
    for (size_t i = 0; i < BX_ARRAY_SIZE(wanted); i++) {
        struct bx_module *mod = add(m, wanted[i].name, wanted[i].stage);
        mod->wanted = wanted[i].want != PROBABLE;
        mod->required = wanted[i].want == REQUIRED;
    }
}

void bx_modules_done(struct bx_modules *m)
{
    for (size_t i = 0; i < m->n; i++) {
        free(m->v[i].data);
    }
    m->n = 0;
}

struct bx_module *bx_modules_wants(struct bx_modules *m, const char *path)
{
    char name[sizeof(m->v[0].name)];
    struct bx_module *mod =
        path_name(path, strlen(path), name, sizeof(name)) ? find(m, name) : NULL;
    return mod && !mod->data ? mod : NULL;
}

int bx_modules_give(struct bx_module *mod, const void *data, size_t len, boxlite_error **err)
{
    size_t n = bx_elf_unsigned_len(data, len);
    if (!bx_elf_modinfo(data, n, "vermagic", 0)) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "module %s is damaged", mod->name);
    }
    uint8_t *copy = malloc(n);
    if (!copy) {
        return bx_fail_oom(err);
    }
    memcpy(copy, data, n);
    free(mod->data);
    mod->data = copy;
    mod->len = n;
    return 0;
}

void bx_modules_builtin(struct bx_modules *m, const char *text, size_t len)
{
    char name[sizeof(m->v[0].name)];
    while (len > 0) {
        const char *end = memchr(text, '\n', len);
        size_t line = end ? (size_t)(end - text) : len;
        struct bx_module *mod = path_name(text, line, name, sizeof(name)) ? find(m, name) : NULL;
        if (mod) {
            mod->builtin = true;
        }
        line += end ? 1 : 0;
        text += line;
        len -= line;
    }
}

/* Adds the names of a list separated by commas. */
static int add_names(struct bx_modules *m, const struct bx_module *of, const char *list,
                     bool *added, boxlite_error **err)
{
    char name[sizeof(m->v[0].name)];
    while (*list) {
        size_t n = strcspn(list, ",");
        if (n > 0 && !normal_name(list, n, name, sizeof(name))) {
            return bx_fail(err, BOXLITE_E_INTEGRITY, "module %s is damaged", of->name);
        }
        if (n > 0) {
            size_t before = m->n;
            const struct bx_module *dep = add(m, name, of->stage);
            if (!dep) {
                return bx_fail(err, BOXLITE_E_INTEGRITY, "modules depend on more than %d others",
                               BX_MODULES_MAX);
            }
            *added |= m->n > before;
        }
        list += n + (list[n] == ',');
    }
    return 0;
}

int bx_modules_scan(struct bx_modules *m, bool *ret, boxlite_error **err)
{
    bool added = false;
    for (size_t i = 0; i < m->n; i++) {
        struct bx_module *mod = &m->v[i];
        const char *depends = mod->data ? bx_elf_modinfo(mod->data, mod->len, "depends", 0) : NULL;
        if (!depends) {
            continue;
        }
        int r = add_names(m, mod, depends, &added, err);
        if (r < 0) {
            return r;
        }
    }
    *ret = added;
    return 0;
}

struct writer {
    struct bx_modules *m;
    struct bx_buf *cpio;
    json_t *list;
    unsigned next;
    boxlite_error **err;
};

static int place(struct writer *w, struct bx_module *mod, unsigned depth);

static int place_dependencies(struct writer *w, const struct bx_module *mod, unsigned depth)
{
    const char *list = bx_elf_modinfo(mod->data, mod->len, "depends", 0);
    char name[sizeof(mod->name)];
    while (list && *list) {
        size_t n = strcspn(list, ",");
        struct bx_module *dep = normal_name(list, n, name, sizeof(name)) ? find(w->m, name) : NULL;
        if (dep && !dep->builtin && !dep->placed) {
            if (!dep->data) {
                return bx_fail(w->err, BOXLITE_E_NOT_FOUND, "module %s needs %s, which is missing",
                               mod->name, dep->name);
            }
            int r = place(w, dep, depth + 1);
            if (r < 0) {
                return r;
            }
        }
        list += n + (list[n] == ',');
    }
    return 0;
}

static int place(struct writer *w, struct bx_module *mod, unsigned depth)
{
    if (mod->placed) {
        return 0;
    }
    if (depth > BX_MODULES_MAX) {
        return bx_fail(w->err, BOXLITE_E_INTEGRITY, "module %s depends on itself", mod->name);
    }
    int r = place_dependencies(w, mod, depth);
    if (r < 0) {
        return r;
    }
    mod->placed = true;
    char path[96];
    snprintf(path, sizeof(path), "modules/%03u-%s.ko", w->next++, mod->name);
    r = bx_cpio_file(w->cpio, path, 0644, mod->data, mod->len);
    if (r == 0) {
        r = json_array_append_new(w->list, json_string(mod->name)) < 0 ? -ENOMEM : 0;
    }
    return r < 0 ? bx_fail_errno(w->err, BOXLITE_E_IO, r, "writing the initramfs") : 0;
}

int bx_modules_write(struct bx_modules *m, struct bx_buf *cpio, json_t *list, boxlite_error **err)
{
    struct writer w = {.m = m, .cpio = cpio, .list = list, .err = err};
    for (size_t i = 0; i < m->n; i++) {
        const struct bx_module *mod = &m->v[i];
        if (mod->required && !mod->builtin && !mod->data) {
            int r = bx_fail(err, BOXLITE_E_UNSUPPORTED, "the kernel has no %s", mod->name);
            bx_hint(err, "give the modules folder of this kernel, or use Debian's cloud kernel");
            return r;
        }
    }
    for (unsigned stage = BX_MODULE_ROOT; stage <= BX_MODULE_LATER; stage++) {
        w.next = stage * 100 + 1;
        for (size_t i = 0; i < m->n; i++) {
            struct bx_module *mod = &m->v[i];
            int r = mod->wanted && mod->stage == stage && mod->data ? place(&w, mod, 0) : 0;
            if (r < 0) {
                return r;
            }
        }
    }
    return 0;
}
