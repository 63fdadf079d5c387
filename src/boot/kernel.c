/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel.c: the imported kernels of a home: opening, listing, removing.
 *
 * An initramfs is modules.cpio, an archive without its end, followed by /init (the agent) and the end.
 * Whether it is of this installation's agent is decided by comparing its tail with the agent's own
 * bytes: exact, and faster than a digest. If not, it is written anew under a temporary name and
 * renamed; two processes that do it at once write the same.
 */
#include "boot/kernel.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/io.h"
#include "base/json.h"
#include "base/path.h"
#include "base/str.h"
#include "boot/cpio.h"
#include "boot/elf.h"
#include "boot/store.h"

#define KERNELS_MAX 256
#define JSON_MAX (64u << 10)
#define AGENT_MAX (32u << 20)

int bx_kernel_check_name(const char *name, boxlite_error **err)
{
    bool good = bx_is_filename(name) && name[0] != '.' && strlen(name) <= 64;
    for (const char *p = name; good && *p; p++) {
        good = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') ||
               strchr("._-", *p);
    }
    if (good) {
        return 0;
    }
    int r = bx_fail(err, BOXLITE_E_INVALID, "bad kernel name");
    bx_hint(err,
            "a name has letters, digits, '.', '_', '-', at most 64, and does not begin with '.'");
    return r;
}

int bx_kernel_read_agent(const char *path, struct bx_buf *ret, boxlite_error **err)
{
    size_t max = ret->max;
    ret->max = AGENT_MAX;
    int r = bx_read_file(AT_FDCWD, path, ret);
    ret->max = max;
    if (r < 0) {
        r = bx_fail_errno(err, BOXLITE_E_IO, r, "reading the agent %s", path);
        bx_hint(err,
                "boxlite is not installed completely: boxlite-agent belongs beside boxlite-shim");
        return r;
    }
    if (!bx_elf_is(bx_buf_data(ret), ret->len)) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "the agent %s is no program", path);
    }
    return 0;
}

int bx_kernel_append_agent(struct bx_buf *cpio, const struct bx_buf *agent, boxlite_error **err)
{
    int r = bx_cpio_file(cpio, "init", 0755, bx_buf_data(agent), agent->len);
    r = r < 0 ? r : bx_cpio_end(cpio);
    return r < 0 ? bx_fail_errno(err, BOXLITE_E_IO, r, "writing the initramfs") : 0;
}

void bx_kernel_free(struct bx_kernel *k)
{
    if (k) {
        free(k->name);
        free(k->release);
        free(k->vmlinux);
        free(k->initramfs);
        free(k);
    }
}

void bx_kernel_list_free(struct bx_kernel **list)
{
    for (size_t i = 0; list && list[i]; i++) {
        bx_kernel_free(list[i]);
    }
    free(list);
}

static int fail_absent(boxlite_error **err, const char *name)
{
    int r = bx_fail(err, BOXLITE_E_NOT_FOUND, "no kernel \"%s\"", name);
    bx_hint(err, "import one: boxlite kernel import FILE.deb (Debian's linux-image-…-cloud-amd64)");
    return r;
}

static int open_folder(int home_fd, const char *name, int *ret, boxlite_error **err)
{
    int r = bx_kernel_check_name(name, err);
    if (r < 0) {
        return r;
    }
    _cleanup_close_ int kernels = bx_open_dir(home_fd, "kernels", 0);
    int fd = kernels < 0 ? kernels : bx_open_dir(kernels, name, 0);
    if (fd == -ENOENT) {
        return fail_absent(err, name);
    }
    if (fd < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, fd, "opening kernels/%s", name);
    }
    *ret = fd;
    return 0;
}

/* Path of a folder that is open. */
static char *folder_path(int fd)
{
    char link[64], target[PATH_MAX];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, target, sizeof(target) - 1);
    if (n <= 0) {
        return NULL;
    }
    target[n] = '\0';
    return strdup(target);
}

static int file_size(int dirfd, const char *name, uint64_t *sum, boxlite_error **err)
{
    struct stat st;
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "%s", name);
    }
    if (!S_ISREG(st.st_mode)) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "%s is no file", name);
    }
    *sum += (uint64_t)st.st_size;
    return 0;
}

static int describe(int fd, const char *name, struct bx_kernel **ret, boxlite_error **err)
{
    _cleanup_kernel_ struct bx_kernel *k = calloc(1, sizeof(*k));
    _cleanup_json_ json_t *doc = NULL;
    _cleanup_free_ char *dir = folder_path(fd);
    const char *release = NULL;
    if (!k || !dir) {
        return bx_fail_oom(err);
    }
    int r = bx_json_read(fd, BX_KERNEL_JSON, JSON_MAX, &doc, err);
    r = r < 0 ? r : bx_json_str(doc, "release", false, &release, err);
    r = r < 0 ? r : file_size(fd, BX_KERNEL_VMLINUX, &k->size, err);
    r = r < 0 ? r : file_size(fd, BX_KERNEL_INITRAMFS, &k->size, err);
    if (r < 0) {
        return r;
    }
    k->name = strdup(name);
    k->release = strdup(release);
    k->vmlinux = bx_path_join(dir, BX_KERNEL_VMLINUX);
    k->initramfs = bx_path_join(dir, BX_KERNEL_INITRAMFS);
    if (!k->name || !k->release || !k->vmlinux || !k->initramfs) {
        return bx_fail_oom(err);
    }
    *ret = steal_ptr(&k);
    return 0;
}

/* Whether the initramfs is `head` bytes of something and then exactly `tail`. */
static bool has_tail(int dirfd, uint64_t head, const struct bx_buf *tail)
{
    _cleanup_close_ int fd =
        openat(dirfd, BX_KERNEL_INITRAMFS, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || (uint64_t)st.st_size != head + tail->len ||
        lseek(fd, (off_t)head, SEEK_SET) < 0) {
        return false;
    }
    _cleanup_free_ void *there = malloc(tail->len);
    return there && bx_read_full(fd, there, tail->len) == (ssize_t)tail->len &&
           memcmp(there, bx_buf_data(tail), tail->len) == 0;
}

static int renew_initramfs(int dirfd, const char *agent_path, boxlite_error **err)
{
    _cleanup_buf_ struct bx_buf agent = BX_BUF_INIT(BX_INITRAMFS_MAX);
    _cleanup_buf_ struct bx_buf tail = BX_BUF_INIT(BX_INITRAMFS_MAX);
    _cleanup_buf_ struct bx_buf whole = BX_BUF_INIT(BX_INITRAMFS_MAX);
    uint64_t head = 0;
    int r = bx_kernel_read_agent(agent_path, &agent, err);
    r = r < 0 ? r : file_size(dirfd, BX_KERNEL_MODULES, &head, err);
    r = r < 0 ? r : bx_kernel_append_agent(&tail, &agent, err);
    if (r < 0 || has_tail(dirfd, head, &tail)) {
        return r;
    }
    r = bx_read_file(dirfd, BX_KERNEL_MODULES, &whole);
    r = r < 0 ? r : bx_buf_append(&whole, bx_buf_data(&tail), tail.len);
    r = r < 0 ? r
              : bx_write_file(dirfd, BX_KERNEL_INITRAMFS, bx_buf_data(&whole), whole.len,
                              BX_KERNEL_MODE);
    return r < 0 ? bx_fail_errno(err, BOXLITE_E_IO, r, "putting the agent into its initramfs") : 0;
}

int bx_kernel_open(int home_fd, const char *name, const char *agent_path, struct bx_kernel **ret,
                   boxlite_error **err)
{
    _cleanup_close_ int fd = -1;
    name = name ? name : BX_KERNEL_DEFAULT;
    int r = open_folder(home_fd, name, &fd, err);
    if (r < 0) {
        return r;
    }
    r = renew_initramfs(fd, agent_path, err);
    r = r < 0 ? r : describe(fd, name, ret, err);
    if (r < 0) {
        bx_wrap(err, "kernel \"%s\"", name);
        if (r == BOXLITE_E_NOT_FOUND || r == BOXLITE_E_INTEGRITY) {
            bx_hint(err, "import it again: boxlite kernel import FILE.deb");
        }
    }
    return r;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(struct bx_kernel *const *)a)->name, (*(struct bx_kernel *const *)b)->name);
}

int bx_kernel_list(int home_fd, struct bx_kernel ***ret, size_t *ret_n, boxlite_error **err)
{
    _cleanup_close_ int fd = bx_open_dir(home_fd, "kernels", 0);
    if (fd < 0 && fd != -ENOENT) {
        return bx_fail_errno(err, BOXLITE_E_IO, fd, "opening kernels/");
    }
    int copy = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    _cleanup_closedir_ DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    struct bx_kernel **list = calloc(KERNELS_MAX + 1, sizeof(*list));
    if (!list || (fd >= 0 && !dir)) {
        free(list);
        if (copy >= 0 && !dir) {
            (void)close(copy);
        }
        return bx_fail_oom(err);
    }
    size_t n = 0;
    const struct dirent *e;
    while (dir && n < KERNELS_MAX && (e = readdir(dir))) {
        _cleanup_close_ int kernel = -1;
        if (bx_kernel_check_name(e->d_name, NULL) == 0 &&
            (kernel = bx_open_dir(fd, e->d_name, 0)) >= 0 &&
            describe(kernel, e->d_name, &list[n], NULL) == 0) {
            n++;
        }
    }
    qsort(list, n, sizeof(struct bx_kernel *), by_name);
    *ret = list;
    *ret_n = n;
    return 0;
}

int bx_kernel_remove(int home_fd, const char *name, boxlite_error **err)
{
    _cleanup_close_ int fd = -1;
    int r = open_folder(home_fd, name, &fd, err);
    if (r < 0) {
        return r;
    }
    _cleanup_close_ int kernels = bx_open_dir(home_fd, "kernels", 0);
    /* The description goes first: without it the rest is no kernel any more, however this ends. */
    if (unlinkat(fd, BX_KERNEL_JSON, 0) < 0 && errno != ENOENT) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "removing kernel \"%s\"", name);
    }
    r = kernels < 0 ? kernels : bx_rm_rf(kernels, name);
    return r < 0 ? bx_fail_errno(err, BOXLITE_E_IO, r, "removing kernel \"%s\"", name) : 0;
}
