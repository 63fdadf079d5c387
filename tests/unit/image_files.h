/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image_files.h: tars made byte by byte (also such as no tar program makes), and what is in a squashfs as text.
 */
#ifndef BX_TESTS_IMAGE_FILES_H
#define BX_TESTS_IMAGE_FILES_H

#include "base/buf.h"
#include "oci/images.h"

#define TAR_MAX (64u << 20)

/* One entry. type: '0' file, '1' hard link, '2' symlink, '3' and '4' devices (major 1, minor 3), '5' folder, '6' fifo,
 * 'x' pax header (data: its records). Owner 0:0, mtime 1000. */
struct tar_entry {
    char type;
    const char *name;
    unsigned mode; /* 0: 0644, folders 0755; ~0u: 0 */
    const char *data;
    const char *link;
    uint64_t size;  /* declared; 0: the data's */
    unsigned owner; /* uid and gid */
};
void tar_add(struct bx_buf *tar, const struct tar_entry *e);
/* A pax header with one record "LEN KEY=VALUE\n". */
void tar_pax(struct bx_buf *tar, const char *key, const void *value, size_t len);
void tar_end(struct bx_buf *tar);
#define TAR(tar, ...) tar_add((tar), &(struct tar_entry){__VA_ARGS__})
/* Packs with gzip. */
void tar_gzip(const struct bx_buf *tar, struct bx_buf *ret);

/* All of the squashfs in fd, a line an entry: "PATH MODE UID:GID nLINKS REST", where REST is a file's text, a
 * symlink's "-> TARGET", a device's "MAJOR,MINOR"; then " NAME=VALUE" for each extended attribute. */
void squash_list(int fd, struct bx_buf *ret);

/* A home in tmpdir() and what bx_image_…() calls take. */
struct image_home {
    struct bx_home *home;
    struct bx_store *store;
    struct bx_images im;
};
void image_home_open(struct image_home *h);
void image_home_close(struct image_home *h);
/* Writes a file into tmpdir(): its path, static storage until the next call. */
const char *put_file(const char *name, const void *data, size_t len);
/* Entries of a folder below the home, -1 if there is none. */
int count_files(const struct image_home *h, const char *folder);

#endif
