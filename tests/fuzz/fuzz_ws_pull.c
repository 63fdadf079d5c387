/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_ws_pull.c: a layer from a hostile guest. Whatever it holds, the list that comes out is sorted, without doubles, with
 * checked paths, nothing lies in something that is no folder, and nothing but numbered files is written.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "workspace/workspace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *p;
    size_t left;
};

static ssize_t take(void *data, void *p, size_t size, boxlite_error **err)
{
    struct input *in = data;
    size_t n = in->left < size ? in->left : size;
    (void)err;
    memcpy(p, in->p, n);
    in->p += n;
    in->left -= n;
    return (ssize_t)n;
}

static void check_list(const struct bx_ws_pulled *l)
{
    for (size_t i = 0; i < l->n; i++) {
        const struct bx_ws_item *it = &l->v[i];
        if ((!bx_ws_path_ok(it->path) && !(it->opaque && strcmp(it->path, ".") == 0)) ||
            (i > 0 && bx_ws_path_cmp(l->v[i - 1].path, it->path) >= 0) ||
            (it->type == BX_WS_LINK) != (it->target != NULL)) {
            abort();
        }
    }
}

static void check_folder(int dirfd)
{
    int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *d;
    while (dir && (d = readdir(dir))) {
        if (*d->d_name != '.' && strspn(d->d_name, "0123456789") != strlen(d->d_name)) {
            abort();
        }
    }
    if (dir) {
        (void)closedir(dir);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char memory[] = "/dev/shm/bx-fuzz-XXXXXX", disk[] = "/tmp/bx-fuzz-XXXXXX";
    const char *base = mkdtemp(memory) ? memory : mkdtemp(disk);
    struct input in = {data, size};
    struct bx_ws_pulled list;
    boxlite_error *err = NULL;
    if (!base) {
        return 0;
    }
    int fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = bx_ws_pull(take, &in, fd, 1 << 20, &list, &err);
    if ((r < 0) != (err != NULL)) {
        abort();
    }
    if (r == 0) {
        check_list(&list);
        bx_ws_pulled_done(&list);
    }
    check_folder(fd);
    boxlite_error_free(err);
    (void)close(fd);
    (void)bx_rm_rf(AT_FDCWD, base);
    return 0;
}
