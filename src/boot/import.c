/* SPDX-License-Identifier: Apache-2.0 */
/*
 * import.c: from a package, a vmlinuz or a vmlinux to kernels/NAME.
 *
 * The kind of source is seen from its first bytes. What comes out of it is checked before it is
 * stored: an x86-64 ELF with the PVH entry (engines start vmlinux there, without firmware code of its
 * own), and a driver for the virtio-mmio bus either built in or among the modules. The folder is made
 * in the home's tmp/ and renamed, so it is whole or not there; an older kernel of that name is
 * exchanged for it and then removed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/io.h"
#include "base/json.h"
#include "base/path.h"
#include "base/str.h"
#include "boot/bzimage.h"
#include "boot/cpio.h"
#include "boot/elf.h"
#include "boot/kernel.h"
#include "boot/modules.h"
#include "boot/source.h"
#include "boot/store.h"

#define PASSES_MAX 8
#define NEEDED_BUS "virtio-mmio" /* the driver's name; it is in every kernel that has it built in */

struct parts {
    struct bx_buf vmlinux;
    struct bx_buf modules; /* modules.cpio */
    struct bx_elf_kernel elf;
    struct bx_modules set;
    json_t *names; /* of the modules, in load order */
};

static void parts_done(struct parts *p)
{
    bx_buf_done(&p->vmlinux);
    bx_buf_done(&p->modules);
    bx_modules_done(&p->set);
    json_decref(p->names);
}

#define _cleanup_parts_ _cleanup_(parts_done)

static int fail_kind(boxlite_error **err, const char *what)
{
    int r = bx_fail(err, BOXLITE_E_INVALID, "%s", what);
    bx_hint(err,
            "give a Debian kernel package (linux-image-…-cloud-amd64, .deb), a vmlinuz with its "
            "modules folder, or a vmlinux");
    return r;
}

/* vmlinuz → vmlinux. A vmlinux is taken as it is. */
static int unpack_kernel(struct bx_buf *image, struct bx_buf *vmlinux, boxlite_error **err)
{
    struct bx_bzimage z;
    if (bx_elf_is(bx_buf_data(image), image->len)) {
        *vmlinux = *image;
        *image = (struct bx_buf){0};
        return 0;
    }
    switch (bx_bzimage_parse(bx_buf_data(image), image->len, &z)) {
    case 0:
        break;
    case -EBADMSG:
        return bx_fail(err, BOXLITE_E_INTEGRITY, "the kernel is cut off or damaged");
    case -ENOTSUP:
        return fail_kind(err, "the kernel is too old (boot protocol before 2.08)");
    default:
        return fail_kind(err, "this is no x86 Linux kernel");
    }
    if (!z.readable) {
        int r = bx_fail(err, BOXLITE_E_UNSUPPORTED,
                        "the kernel is compressed with %s, which is not supported", z.compression);
        bx_hint(
            err,
            "unpack it with the kernel source's scripts/extract-vmlinux and import the vmlinux");
        return r;
    }
    if (z.vmlinux_size > vmlinux->max) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "the kernel claims to unpack to over %zu MiB",
                       vmlinux->max >> 20);
    }
    int r = bx_source_unpack(bx_buf_data(image) + z.payload_off, z.payload_len,
                             "unpacking the kernel", vmlinux, err);
    if (r == 0 && vmlinux->len != z.vmlinux_size) {
        r = bx_fail(err, BOXLITE_E_INTEGRITY,
                    "the kernel is cut off or damaged: %zu bytes instead of %ju", vmlinux->len,
                    (uintmax_t)z.vmlinux_size);
    }
    return r;
}

static int check_kernel(struct parts *p, bool have_modules, boxlite_error **err)
{
    int r = bx_elf_kernel(bx_buf_data(&p->vmlinux), p->vmlinux.len, &p->elf);
    if (r == -EBADMSG) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "the kernel is cut off or damaged");
    }
    if (r < 0) {
        return fail_kind(err, "this is no x86-64 kernel");
    }
    if (p->elf.release[0] == '\0') {
        return fail_kind(err, "this is no Linux kernel");
    }
    if (!p->elf.pvh) {
        r = bx_fail(err, BOXLITE_E_UNSUPPORTED, "kernel %s has no PVH entry point", p->elf.release);
        bx_hint(err, "build it with CONFIG_PVH=y, or use Debian's cloud kernel");
        return r;
    }
    if (!have_modules &&
        !memmem(bx_buf_data(&p->vmlinux), p->vmlinux.len, NEEDED_BUS, sizeof(NEEDED_BUS) - 1)) {
        r = bx_fail(err, BOXLITE_E_INVALID,
                    "kernel %s has no virtio_mmio built in, and no modules were given",
                    p->elf.release);
        bx_hint(err, "give its modules folder: --modules /lib/modules/%s", p->elf.release);
        return r;
    }
    return 0;
}

/* Passes over the source until no module lacks one that it depends on. */
static int collect(const char *source, bool deb, struct parts *p, struct bx_buf *image,
                   boxlite_error **err)
{
    bool more = true;
    for (int pass = 0; more; pass++) {
        if (pass == PASSES_MAX) {
            return bx_fail(err, BOXLITE_E_INTEGRITY,
                           "the modules depend on one another without end");
        }
        int r =
            deb ? bx_source_deb(source, &p->set, image, err) : bx_source_dir(source, &p->set, err);
        if (r == 0) {
            r = bx_modules_scan(&p->set, &more, err);
        }
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int start_cpio(struct bx_buf *cpio, boxlite_error **err)
{
    int r = bx_cpio_dir(cpio, "dev");
    r = r < 0 ? r : bx_cpio_char_device(cpio, "dev/console", 0600, 5, 1);
    r = r < 0 ? r : bx_cpio_char_device(cpio, "dev/null", 0666, 1, 3);
    r = r < 0 ? r : bx_cpio_dir(cpio, "modules");
    return r < 0 ? bx_fail_errno(err, BOXLITE_E_IO, r, "writing the initramfs") : 0;
}

static bool is_deb(const struct bx_buf *head)
{
    return head->len >= 8 && memcmp(bx_buf_data(head), "!<arch>\n", 8) == 0;
}

static int read_head(const char *path, struct bx_buf *head, boxlite_error **err)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "opening it");
    }
    if (!S_ISREG(st.st_mode)) {
        return fail_kind(err, "this is no file");
    }
    char first[8];
    ssize_t n = bx_read_full(fd, first, sizeof(first));
    if (n < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, (int)n, "reading it");
    }
    return bx_buf_append(head, first, (size_t)n) < 0 ? bx_fail_oom(err) : 0;
}

static int take_apart(const char *source, const char *modules_dir, struct parts *p,
                      boxlite_error **err)
{
    _cleanup_buf_ struct bx_buf head = BX_BUF_INIT(64);
    _cleanup_buf_ struct bx_buf image = BX_BUF_INIT(BX_VMLINUX_MAX);
    int r = read_head(source, &head, err);
    if (r < 0) {
        return r;
    }
    bool deb = is_deb(&head);
    if (deb) {
        image.max = BX_VMLINUZ_MAX;
        r = collect(source, true, p, &image, err);
        if (r == 0 && image.len == 0) {
            r = fail_kind(err, "the package has no boot/vmlinuz");
            bx_hint(err, "linux-image-cloud-amd64 only names the real package: fetch the one it "
                         "depends on, linux-image-VERSION-cloud-amd64");
        }
    } else {
        r = bx_read_file(AT_FDCWD, source, &image);
        r = r < 0 ? bx_fail_errno(err, BOXLITE_E_IO, r, "reading it") : 0;
    }
    r = r < 0 ? r : unpack_kernel(&image, &p->vmlinux, err);
    r = r < 0 ? r : check_kernel(p, deb || modules_dir, err);
    if (r < 0) {
        return r;
    }
    if (!deb && modules_dir) {
        r = collect(modules_dir, false, p, NULL, err);
        if (r < 0) {
            bx_wrap(err, "modules folder %s", modules_dir);
            return r;
        }
    }
    r = start_cpio(&p->modules, err);
    if (r == 0 && (deb || modules_dir)) {
        r = bx_modules_write(&p->set, &p->modules, p->names, err);
    }
    return r;
}

static int write_part(int dirfd, const char *name, const void *data, size_t len,
                      boxlite_error **err)
{
    int r = bx_write_file(dirfd, name, data, len, BX_KERNEL_MODE);
    return r < 0 ? bx_fail_errno(err, BOXLITE_E_IO, r, "writing %s", name) : 0;
}

static int write_json(int dirfd, const char *source, const struct parts *p, boxlite_error **err)
{
    const char *slash = strrchr(source, '/');
    const char *base = slash ? slash + 1 : source;
    _cleanup_json_ json_t *doc = json_object();
    int r = bx_json_set(doc, "release", json_string(p->elf.release));
    r = r < 0 ? r : bx_json_set(doc, "arch", json_string("amd64"));
    r = r < 0 ? r : bx_json_set(doc, "source", bx_json_bytes(base, strlen(base)));
    r = r < 0 ? r : bx_json_set(doc, "modules", json_incref(p->names));
    _cleanup_free_ char *text = r < 0 ? NULL : bx_json_text_pretty(doc);
    return text ? write_part(dirfd, BX_KERNEL_JSON, text, strlen(text), err) : bx_fail_oom(err);
}

/* Moves tmp/NAME to kernels/NAME; an older one takes its place in tmp/ and is removed. */
static int put_in_place(const struct bx_home *home, int tmp_dirfd, const char *tmp,
                        const char *name, boxlite_error **err)
{
    _cleanup_close_ int kernels = -1;
    int r = bx_home_dir(home, "kernels", &kernels, err);
    if (r < 0) {
        return r;
    }
    if (renameat2(tmp_dirfd, tmp, kernels, name, RENAME_NOREPLACE) == 0) {
        return 0;
    }
    if (errno == EEXIST && renameat2(tmp_dirfd, tmp, kernels, name, RENAME_EXCHANGE) == 0) {
        (void)bx_rm_rf(tmp_dirfd, tmp); /* what stays is swept later */
        return 0;
    }
    return bx_fail_errno(err, BOXLITE_E_IO, errno, "moving the kernel to kernels/%s", name);
}

static int store(const struct bx_home *home, const char *source, const char *agent_path,
                 const char *name, const struct parts *p, boxlite_error **err)
{
    _cleanup_close_ int tmp_dirfd = -1;
    _cleanup_close_ int fd = -1;
    _cleanup_buf_ struct bx_buf agent = BX_BUF_INIT(BX_INITRAMFS_MAX);
    _cleanup_buf_ struct bx_buf initramfs = BX_BUF_INIT(BX_INITRAMFS_MAX);
    char tmp[64];
    int r = bx_kernel_read_agent(agent_path, &agent, err);
    if (r < 0) {
        return r;
    }
    if (bx_buf_append(&initramfs, bx_buf_data(&p->modules), p->modules.len) < 0) {
        return bx_fail_oom(err);
    }
    r = bx_kernel_append_agent(&initramfs, &agent, err);
    r = r < 0 ? r
              : bx_home_need_space(home, p->vmlinux.len + p->modules.len + initramfs.len,
                                   "a kernel", err);
    r = r < 0 ? r : bx_home_tmp_dir(home, "kernel", &tmp_dirfd, &fd, tmp, sizeof(tmp), err);
    if (r < 0) {
        return r;
    }
    r = write_part(fd, BX_KERNEL_VMLINUX, bx_buf_data(&p->vmlinux), p->vmlinux.len, err);
    r = r < 0 ? r
              : write_part(fd, BX_KERNEL_MODULES, bx_buf_data(&p->modules), p->modules.len, err);
    r = r < 0 ? r
              : write_part(fd, BX_KERNEL_INITRAMFS, bx_buf_data(&initramfs), initramfs.len, err);
    r = r < 0 ? r : write_json(fd, source, p, err);
    r = r < 0 ? r : put_in_place(home, tmp_dirfd, tmp, name, err);
    if (r < 0) {
        (void)bx_rm_rf(tmp_dirfd, tmp);
    }
    return r;
}

int bx_kernel_import(const struct bx_home *home, const char *source, const char *modules_dir,
                     const char *agent_path, const char *name, boxlite_error **err)
{
    name = name ? name : BX_KERNEL_DEFAULT;
    int r = bx_kernel_check_name(name, err);
    if (r < 0) {
        return r;
    }
    _cleanup_parts_ struct parts p = {
        .vmlinux = BX_BUF_INIT(BX_VMLINUX_MAX),
        .modules = BX_BUF_INIT(BX_INITRAMFS_MAX),
        .names = json_array(),
    };
    if (!p.names) {
        return bx_fail_oom(err);
    }
    bx_modules_init(&p.set);
    r = take_apart(source, modules_dir, &p, err);
    r = r < 0 ? r : store(home, source, agent_path, name, &p, err);
    if (r < 0) {
        bx_wrap(err, "importing kernel %s", source);
    }
    if (r == BOXLITE_E_INTEGRITY) {
        bx_hint(err, "the file is not whole: fetch it again");
    }
    return r;
}
