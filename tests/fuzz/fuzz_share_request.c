/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_share_request.c: what a guest's kernel sends to the file server: any bytes, as records one after the
 * other. The parser lets through only what an operation may rely on; then the requests are done on a small
 * tree, with few descriptors, and what lies beside it must stay as it was.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "share/export.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char base[] = "/tmp/fuzz-share-XXXXXX";
static int base_fd = -1, proc_fd = -1;

static void require(int good)
{
    if (!good) {
        abort();
    }
}

static void put(const char *path, mode_t mode)
{
    int fd = openat(base_fd, path, O_WRONLY | O_CREAT | O_CLOEXEC, mode);
    require(fd >= 0);
    (void)!write(fd, "canary", 6);
    (void)close(fd);
}

static void remove_all(void)
{
    (void)bx_rm_rf(AT_FDCWD, base);
}

static void begin(void)
{
    require(mkdtemp(base) != NULL);
    (void)atexit(remove_all);
    base_fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    proc_fd = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
    require(base_fd >= 0 && proc_fd >= 0);
    put("canary", 0600);
}

static int open_tree(void)
{
    (void)bx_rm_rf(base_fd, "tree");
    require(mkdirat(base_fd, "tree", 0755) == 0 && mkdirat(base_fd, "tree/d", 0755) == 0);
    put("tree/f", 0644);
    put("tree/d/g", 0644);
    require(symlinkat("../canary", base_fd, "tree/l") == 0);
    return openat(base_fd, "tree", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static void check_canary(void)
{
    struct stat st;
    require(fstatat(base_fd, "canary", &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size == 6 &&
            st.st_nlink == 1 && st.st_mode == (S_IFREG | 0600));
}

static void check_request(const struct bx_fuse_request *r, const uint8_t *msg, size_t len)
{
    const char *names[] = {r->name, r->name2};
    for (size_t i = 0; i < 2; i++) {
        if (names[i]) {
            const uint8_t *p = (const uint8_t *)names[i];
            require(p > msg && p < msg + len && memchr(p, 0, (size_t)(msg + len - p)) != NULL);
        }
    }
    require(r->len == 0 || (r->data > msg && r->data + r->len <= msg + len));
    if (r->name && r->head.opcode == FUSE_LOOKUP) {
        require(bx_is_filename(r->name));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t out[BX_FUSE_REPLY_MAX];
    struct bx_export t;
    if (base_fd < 0) {
        begin();
    }
    const struct bx_export_options opt = {
        .root_fd = open_tree(), .proc_fd = proc_fd, .max_fds = 2, .max_handles = 4};
    require(opt.root_fd >= 0 && bx_export_init(&t, &opt) == 0);
    while (size > 0) {
        struct bx_fuse_request r;
        struct fuse_out_header head = {0};
        uint32_t claimed = bx_fuse_length(data, size);
        size_t len = claimed && claimed < size ? claimed : size;
        if (bx_fuse_parse(data, len, &r) == 0) {
            check_request(&r, data, len);
        }
        if (bx_export_serve(&t, data, len, &head, out)) {
            require(head.len >= sizeof(head) && head.len <= sizeof(head) + sizeof(out));
            require(head.error <= 0 && head.error > -512 &&
                    (head.error == 0 || head.len == sizeof(head)));
        }
        data += len;
        size -= len;
    }
    bx_export_done(&t);
    (void)close(opt.root_fd);
    check_canary();
    return 0;
}
