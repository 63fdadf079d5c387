/* SPDX-License-Identifier: Apache-2.0 */
/*
 * import.c: an image from the tar of a root file system.
 *
 * One pass over the input does all: the bytes are stored as the layer's blob as they are (packed or not), digested, and
 * unpacked into the root image. The config carries no date, so the same tar with the same settings is the same
 * image with the same digest wherever and whenever it is imported.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "disk/rootfs.h"
#include "oci/layer.h"
#include "oci/record.h"
#include "oci/reference.h"
#include "oci/root.h"
#include "oci/stream.h"

struct import {
    const struct bx_images *im;
    struct bx_blob_tmp blob, root;
    uint64_t input_size; /* 0: unknown */
    uint64_t blob_size, root_size;
    char digest[BX_DIGEST_LEN + 1], diff_id[BX_DIGEST_LEN + 1];
    enum bx_packing packing;
};

static int open_input(struct import *imp, const char *path, int *ret, boxlite_error **err)
{
    _cleanup_close_ int fd = bx_streq(path, "-") ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                                                 : open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    int r;

    if (fd < 0 || fstat(fd, &st) < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "opening it");
    }
    if (S_ISDIR(st.st_mode)) {
        r = bx_fail(err, BOXLITE_E_INVALID, "it is a folder");
        bx_hint(
            err,
            "give a tar archive of it (tar -C %s -c .), or load it with `boxlite image load` if it is an OCI "
            "image layout",
            path);
        return r;
    }
    imp->input_size = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
    *ret = steal_fd(&fd);
    /* The copy, and a root image that compresses badly. */
    return bx_home_need_space(imp->im->home, 2 * imp->input_size, "the import", err);
}

static int read_layer(struct import *imp, struct bx_source *source, struct bx_unpack *unpack,
                      boxlite_error **err)
{
    struct bx_rootfs *root = NULL;
    int r =
        bx_unpack_init(unpack, &source->stream, bx_stream_max_bytes(imp->im), BX_HASH_PACKED, err);

    if (r == 0) {
        r = bx_rootfs_new(imp->root.fd, bx_image_max_bytes(imp->im), &root, err);
    }
    if (r == 0) {
        r = bx_layer_apply(&unpack->stream, root, 0, err);
    }
    if (r == 0) {
        r = bx_stream_drain(&source->stream, err);
    }
    if (r == 0) {
        r = bx_rootfs_finish(root, &imp->root_size, err);
    }
    bx_rootfs_free(root);
    return r;
}

static int read_input(struct import *imp, int fd, boxlite_error **err)
{
    _cleanup_source_ struct bx_source source = {.fd = -1};
    _cleanup_unpack_ struct bx_unpack unpack = {.first_len = -1};
    int r = bx_source_init(&source, fd, true, imp->blob.fd, err);

    if (r < 0) {
        return r;
    }
    source.progress = imp->im->progress;
    source.progress_data = imp->im->progress_data;
    source.progress_what = "importing";
    source.total = imp->input_size;
    r = read_layer(imp, &source, &unpack, err);
    if (r < 0) {
        return r;
    }
    imp->blob_size = source.bytes;
    imp->packing = unpack.packing;
    r = bx_source_digest(&source, imp->digest, err);
    if (r == 0 && unpack.sink) {
        r = bx_unpack_digest(&unpack, imp->diff_id, err);
    } else {
        memcpy(imp->diff_id, imp->digest, sizeof(imp->diff_id));
    }
    if (r < 0) {
        return r;
    }
    return fdatasync(imp->blob.fd) < 0 ? bx_fail_errno(err, BOXLITE_E_IO, errno, "storing it") : 0;
}

/* Documents, names and row for what lies in tmp/ so far. The row is read back under the same lock: a removal may be
 * waiting for it. */
static int record(struct import *imp, const json_t *config, const char *name,
                  struct bx_image_row *ret, boxlite_error **err)
{
    const struct bx_layer_info layer = {.digest = imp->digest,
                                        .diff_id = imp->diff_id,
                                        .media_type = bx_packing_media_type(imp->packing),
                                        .size = imp->blob_size};
    char config_digest[BX_DIGEST_LEN + 1], digest[BX_DIGEST_LEN + 1];
    _cleanup_free_ char *config_text = bx_config_make(config, imp->diff_id), *manifest = NULL;
    _cleanup_close_ int lock = -1;
    struct bx_record rec = {.digest = digest, .root_size = imp->root_size, .name = name};
    int r;

    if (!config_text) {
        return bx_fail_oom(err);
    }
    r = bx_blobs_lock(imp->im, &lock, err);
    if (r == 0) {
        r = bx_blob_commit(imp->im, &imp->blob, imp->digest, err);
    }
    if (r == 0) {
        r = bx_blob_write(imp->im, config_text, strlen(config_text), config_digest, err);
    }
    if (r < 0) {
        return r;
    }
    manifest = bx_manifest_make(config_digest, strlen(config_text), &layer, 1);
    r = manifest ? bx_blob_write(imp->im, manifest, strlen(manifest), digest, err)
                 : bx_fail_oom(err);
    if (r == 0) {
        r = bx_root_commit(imp->im, &imp->root, digest, err);
    }
    if (r < 0) {
        return r;
    }
    rec.manifest = manifest;
    rec.config = config_text;
    r = bx_record_image(imp->im, &rec, NULL, err);
    return r < 0 ? r : bx_store_image_find(imp->im->store, digest, ret, err);
}

static int import(struct import *imp, const char *path, const json_t *config, const char *name,
                  struct bx_image_row *ret, boxlite_error **err)
{
    _cleanup_close_ int fd = -1;
    int r = open_input(imp, path, &fd, err);

    if (r == 0) {
        r = bx_blob_tmp_new(imp->im, "blob", &imp->blob, err);
    }
    if (r == 0) {
        r = bx_blob_tmp_new(imp->im, "root", &imp->root, err);
    }
    if (r == 0) {
        r = read_input(imp, fd, err);
    }
    if (r == 0) {
        r = record(imp, config, name, ret, err);
    }
    bx_blob_tmp_done(&imp->blob);
    bx_blob_tmp_done(&imp->root);
    return r;
}

int bx_image_import_row(const struct bx_images *im, const char *path, const char *ref,
                        const json_t *config, struct bx_image_row *ret, boxlite_error **err)
{
    struct import imp = {.im = im, .blob = BX_BLOB_TMP_INIT, .root = BX_BLOB_TMP_INIT};
    _cleanup_free_ char *name = NULL;
    int r = bx_reference_tag(ref, &name, err);

    if (r < 0) {
        return r;
    }
    r = import(&imp, path, config, name, ret, err);
    if (r < 0) {
        bx_hint_space(err);
        bx_wrap(err, "importing %s", bx_streq(path, "-") ? "standard input" : path);
    }
    return r;
}

int bx_image_import(const struct bx_images *im, const char *path, const char *ref,
                    const json_t *config, char **ret_digest, boxlite_error **err)
{
    struct bx_image_row row = {0};
    int r = bx_image_import_row(im, path, ref, config, &row, err);

    if (r == 0 && ret_digest) {
        *ret_digest = steal_ptr(&row.digest);
    }
    bx_image_row_done(&row);
    return r;
}
