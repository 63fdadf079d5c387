/* SPDX-License-Identifier: Apache-2.0 */
/*
 * images.h: local images: import of a bare root file system, load of OCI layouts and docker archives, removal.
 * Blobs lie in images/ as an OCI image layout; root images in rootfs/HEX.sqfs. Nothing half-done is ever visible:
 * blobs and roots are written under temporary names (home's tmp/) and renamed, rows come last.
 */
#ifndef BX_OCI_IMAGES_H
#define BX_OCI_IMAGES_H

#include <boxlite.h>
#include <stdint.h>

#include "base/json.h"
#include "base/log.h"
#include "state/home.h"
#include "state/store.h"

struct bx_images { /* what all calls here need; borrowed */
    const struct bx_home *home;
    struct bx_store *store;
    const struct bx_log *log;
    boxlite_progress_fn progress; /* may be NULL */
    void *progress_data;
    uint64_t max_bytes; /* largest unpacked image; 0: 64 GiB */
    uint64_t limit;     /* of what all images take on the disk (prune.h); 0: none */
};

/* config: the "config" object of an OCI image config (Env, Entrypoint, Cmd, User, WorkingDir, Labels) or NULL. */
int bx_image_import(const struct bx_images *im, const char *path, const char *ref,
                    const json_t *config, char **ret_digest, boxlite_error **err);
/* The same; its row as it was put in, whatever others do with the image from then on. */
int bx_image_import_row(const struct bx_images *im, const char *path, const char *ref,
                        const json_t *config, struct bx_image_row *ret, boxlite_error **err);
/* Adds the digests of all that was loaded to ret. */
int bx_image_load(const struct bx_images *im, const char *path, const char *ref,
                  struct bx_strv *ret, boxlite_error **err);
/* Finds by user's reference ("python:3.11-slim" finds "docker.io/library/python:3.11-slim", "boxlite/base:bookworm" …). */
int bx_image_find(const struct bx_images *im, const char *ref, struct bx_image_row *ret,
                  boxlite_error **err);
int bx_image_remove(const struct bx_images *im, const char *ref, bool force, boxlite_error **err);
/* Gives another name; it is taken from an image that has it. */
int bx_image_tag(const struct bx_images *im, const char *ref, const char *name,
                 boxlite_error **err);
/* Takes a name away and keeps the image: NOT_FOUND. */
int bx_image_untag(const struct bx_images *im, const char *name, boxlite_error **err);
/* Writes the images as one tar to fd: an OCI image layout, with docker one that `docker load` reads, too. */
int bx_image_save(const struct bx_images *im, const char *const *refs, size_t nrefs, bool docker,
                  int fd, boxlite_error **err);
/* INTEGRITY if the image's files are not what its digest promises. With repair, damaged files are removed. */
int bx_image_verify(const struct bx_images *im, const char *ref, bool repair, boxlite_error **err);
/* A checked read-only descriptor of the image's root, (re)built from the blobs if it is missing. Damaged: INTEGRITY with
 * a hint. ret_path (caller frees) may be NULL. */
int bx_image_root(const struct bx_images *im, const struct bx_image_row *row, int *ret_fd,
                  char **ret_path, boxlite_error **err);

/* How a box's main command starts. */
struct bx_image_run {
    struct bx_strv entrypoint, cmd, env;
    struct bx_strv labels; /* "name=value" */
    char *user, *workdir, *stop_signal; /* never NULL, may be "" */
};
int bx_image_run_parse(const char *config_json, struct bx_image_run *ret, boxlite_error **err);
void bx_image_run_done(struct bx_image_run *r);

#endif
