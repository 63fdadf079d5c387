/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upper.c: writable disks of boxes.
 *
 * mke2fs makes one empty ext4 of each size that is asked for; boxes get sparse copies of it. The options serve
 * three promises:
 * - An unused disk costs little: all metadata lies together (packed_meta_blocks) and almost none of it is
 *   written: no backup superblocks, unused groups have no bitmaps (uninit_bg), inode tables are known to be zero
 *   because the file's holes are (lazy_itable_init=0), so that the guest's kernel does not fill them later either.
 * - Mounting is quick also under emulation: no checksums over metadata but the 16-bit ones of uninit_bg.
 * - A killed engine does not damage it: there is a journal (8 MiB), so the next mount finds a consistent file
 *   system. What the guest had not synced is lost as by a power cut; a regular stop syncs.
 * The feature list starts from "none", so that no /etc/mke2fs.conf changes what guests must be able to mount.
 */
#include "disk/upper.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/path.h"
#include "base/spawn.h"
#include "base/str.h"
#include "base/timeutil.h"

#define MIB (UINT64_C(1) << 20)
#define OPTIONS_VERSION 1 /* in the template's name: raise it when the options change */
#define MKE2FS_TIMEOUT_MS 120000
#define FEATURES                                                                                   \
    "none,has_journal,ext_attr,dir_index,filetype,extent,64bit,flex_bg,large_file,dir_nlink,"      \
    "extra_isize,sparse_super2,uninit_bg"
#define EXTENDED                                                                                   \
    "lazy_itable_init=0,lazy_journal_init=1,root_owner=0:0,packed_meta_blocks=1,num_backup_sb=0"

static int run_mke2fs(const char *path, uint64_t size, boxlite_error **err)
{
    const char *ratio = size < (UINT64_C(1) << 30) ? "4096" : "16384"; /* bytes per inode */
    const char *const argv[] = {"mke2fs", "-q", "-F",     "-t",  "ext4",   "-b",  "4096",
                                "-m",     "0",  "-I",     "256", "-i",     ratio, "-J",
                                "size=8", "-O", FEATURES, "-E",  EXTENDED, path,  NULL};
    _cleanup_free_ char *program = bx_find_program(argv[0]);
    _cleanup_buf_ struct bx_buf errors = BX_BUF_INIT(4096);
    struct bx_spawn spec = {.path = program, .argv = argv};
    int status = 0, r;

    if (!program) {
        r = bx_fail(err, BOXLITE_E_ENGINE, "mke2fs is missing");
        bx_hint(err, "install the package e2fsprogs");
        return r;
    }
    r = bx_run(&spec, NULL, &errors, bx_deadline_ms(MKE2FS_TIMEOUT_MS), &status, err);
    if (r < 0) {
        return r;
    }
    if (status != 0) {
        _cleanup_free_ char *said =
            bx_escape(bx_buf_data(&errors), strcspn(bx_buf_str(&errors), "\n"), 200);
        return bx_fail(err, BOXLITE_E_ENGINE, "mke2fs failed with status %d: %s", status,
                       said && *said ? said : "no message");
    }
    return 0;
}

static int set_size(int fd, uint64_t size, boxlite_error **err)
{
    int r;

    if (ftruncate(fd, (off_t)size) == 0) {
        return 0;
    }
    if (errno != EFBIG) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "setting its size");
    }
    r = bx_fail(err, BOXLITE_E_INVALID, "the home's file system has no files of %llu MiB",
                (unsigned long long)(size / MIB));
    bx_hint(err, "choose a smaller disk");
    return r;
}

static int make_template(const struct bx_home *home, int dirfd, const char *name, uint64_t size,
                         boxlite_error **err)
{
    _cleanup_close_ int tmpdir = -1, fd = -1;
    _cleanup_free_ char *path = NULL;
    char tmp[64];
    int r = bx_home_tmp_file(home, "upper", &tmpdir, &fd, tmp, sizeof(tmp), err);

    if (r < 0) {
        return r;
    }
    path = bx_home_path(home, "tmp", tmp);
    r = path ? set_size(fd, size, err) : bx_fail_oom(err);
    if (r == 0) {
        r = run_mke2fs(path, size, err);
    }
    if (r == 0 && (fdatasync(fd) < 0 || renameat(tmpdir, tmp, dirfd, name) < 0)) {
        r = bx_fail_errno(err, BOXLITE_E_IO, errno, "storing it");
    }
    if (r < 0) {
        (void)unlinkat(tmpdir, tmp, 0);
    }
    return r;
}

static int open_template(const struct bx_home *home, uint64_t size, int *ret, boxlite_error **err)
{
    _cleanup_close_ int dirfd = -1;
    char name[64];
    struct stat st;
    int r = bx_home_dir(home, "templates", &dirfd, err);

    if (r < 0) {
        return r;
    }
    (void)snprintf(name, sizeof(name), "upper-%llu-%d.ext4", (unsigned long long)(size / MIB),
                   OPTIONS_VERSION);
    for (int attempt = 0; attempt < 2; attempt++) {
        _cleanup_close_ int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == size) {
            *ret = steal_fd(&fd);
            return 0;
        }
        if (fd < 0 && errno != ENOENT) {
            break;
        }
        r = make_template(home, dirfd, name, size, err);
        if (r < 0) {
            bx_wrap(err, "making the empty disk %s", name);
            return r;
        }
    }
    return bx_fail_errno(err, BOXLITE_E_IO, errno, "opening templates/%s", name);
}

int bx_upper_create(const struct bx_home *home, uint64_t size, int dirfd, const char *name,
                    boxlite_error **err)
{
    _cleanup_close_ int from = -1, to = -1;
    int r;

    if (size < BX_UPPER_MIN || size > BX_UPPER_MAX) {
        return bx_fail(err, BOXLITE_E_INVALID, "a disk has from %llu MiB to %llu GiB",
                       BX_UPPER_MIN / MIB, BX_UPPER_MAX / MIB / 1024);
    }
    size = (size + MIB - 1) / MIB * MIB;
    r = open_template(home, size, &from, err);
    if (r < 0) {
        return r;
    }
    to = openat(dirfd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (to < 0) {
        return bx_fail_errno(err, errno == EEXIST ? BOXLITE_E_EXISTS : BOXLITE_E_IO, errno,
                             "creating %s", name);
    }
    r = bx_copy_sparse(from, to);
    if (r < 0) {
        (void)unlinkat(dirfd, name, 0);
        r = bx_fail_errno(err, BOXLITE_E_IO, r, "copying the empty disk to %s", name);
        if (r == BOXLITE_E_NO_SPACE) {
            bx_hint(err, "free some space (boxlite image rm, boxlite rm)");
        }
    }
    return r;
}
