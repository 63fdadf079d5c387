/* SPDX-License-Identifier: Apache-2.0 */
/* archive.c: see archive.h. Sizes over 8 GiB are written in base 256, as GNU tar, libarchive and Go read them. */
#include "oci/archive.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/io.h"
#include "base/sha256.h"
#include "base/str.h"

#define BLOCK 512u
#define CHUNK (256u << 10)
#define OCTAL_MAX 077777777777ull

struct header { /* POSIX.1-1988 "ustar" */
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8];
    char type, link[100], magic[8], owner[32], group[32], major[8], minor[8], prefix[155], pad[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a tar header is one block");

static void put_size(char field[12], uint64_t size)
{
    if (size <= OCTAL_MAX) {
        (void)snprintf(field, 12, "%011llo", (unsigned long long)size);
        return;
    }
    field[0] = (char)0x80;
    for (int i = 11; i > 0; i--, size >>= 8) {
        field[i] = (char)(size & 0xff);
    }
}

/* A folder's name ends with a slash. */
static void make_header(struct header *h, const char *name, uint64_t size)
{
    bool folder = name[strlen(name) - 1] == '/';
    unsigned sum = 0;

    memset(h, 0, sizeof(*h));
    (void)snprintf(h->name, sizeof(h->name), "%s", name);
    memcpy(h->mode, folder ? "0000755" : "0000644", 8);
    memcpy(h->uid, "0000000", 8);
    memcpy(h->gid, "0000000", 8);
    memcpy(h->mtime, "00000000000", 12);
    put_size(h->size, size);
    h->type = folder ? '5' : '0';
    memcpy(h->magic, "ustar\00000", 8);
    memset(h->sum, ' ', sizeof(h->sum));
    for (size_t i = 0; i < sizeof(*h); i++) {
        sum += ((const unsigned char *)h)[i];
    }
    (void)snprintf(h->sum, sizeof(h->sum), "%06o", sum);
}

static int put(int fd, const void *data, size_t len, boxlite_error **err)
{
    int r = bx_write_full(fd, data, len);

    return r < 0 ? bx_fail_errno(err, BOXLITE_E_IO, r, "writing the archive") : 0;
}

static int put_header(int fd, const char *name, uint64_t size, boxlite_error **err)
{
    struct header h;

    if (strlen(name) >= sizeof(h.name)) {
        return bx_fail(err, BOXLITE_E_INTERNAL, "the name %s is too long for the archive", name);
    }
    make_header(&h, name, size);
    return put(fd, &h, sizeof(h), err);
}

int bx_archive_add_folder(int fd, const char *name, boxlite_error **err)
{
    return put_header(fd, name, 0, err);
}

static int put_padding(int fd, uint64_t size, boxlite_error **err)
{
    static const char zeros[BLOCK];

    return size % BLOCK ? put(fd, zeros, BLOCK - size % BLOCK, err) : 0;
}

int bx_archive_add(int fd, const char *name, const void *data, size_t len, boxlite_error **err)
{
    int r = put_header(fd, name, len, err);

    if (r == 0) {
        r = put(fd, data, len, err);
    }
    return r < 0 ? r : put_padding(fd, len, err);
}

static int copy_blob(int fd, int from, uint64_t size, struct bx_sha256 *hash, boxlite_error **err)
{
    _cleanup_free_ uint8_t *buf = malloc(CHUNK);
    uint64_t left = size;
    int r = buf ? 0 : bx_fail_oom(err);

    while (r == 0 && left > 0) {
        size_t want = left < CHUNK ? (size_t)left : CHUNK;
        ssize_t n = bx_read_full(from, buf, want);
        if (n < 0) {
            return bx_fail_errno(err, BOXLITE_E_IO, (int)n, "reading it");
        }
        if ((size_t)n < want) {
            return bx_fail(err, BOXLITE_E_INTEGRITY, "it is shorter than its manifest says");
        }
        bx_sha256_update(hash, buf, want);
        r = put(fd, buf, want, err);
        left -= want;
    }
    return r;
}

int bx_archive_add_blob(int fd, const char *name, int from, uint64_t size, const char *digest,
                        boxlite_error **err)
{
    _cleanup_sha256_ struct bx_sha256 *hash = bx_sha256_new();
    char found[BX_DIGEST_LEN + 1];
    int r = hash ? put_header(fd, name, size, err) : bx_fail_oom(err);

    if (r == 0) {
        r = copy_blob(fd, from, size, hash, err);
    }
    if (r < 0) {
        return r;
    }
    bx_sha256_final(hash, found);
    return bx_streq(found, digest) ? put_padding(fd, size, err)
                                   : bx_fail(err, BOXLITE_E_INTEGRITY, "it is damaged");
}

int bx_archive_end(int fd, boxlite_error **err)
{
    static const char zeros[2 * BLOCK];

    return put(fd, zeros, sizeof(zeros), err);
}
