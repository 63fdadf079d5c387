/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tar.c: the blocks of an archive, both ways. See tar.h.
 *
 * Reading trusts nothing: the checksum is verified, numbers are parsed strictly (octal, or GNU's base
 * 256), sizes of extension headers are bounded, and a record of a pax header must be exactly as long as
 * it says. Names may be anything: what they may touch is tar_in's business.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "guest/tar.h"

/* Longest extension header that is read: a name and a link of PATH_MAX and much else fit. */
#define EXTENSION_MAX (1u << 20)

struct raw {
    char name[100];
    char mode[8];
    char uid[8];
    char gid[8];
    char size[12];
    char mtime[12];
    char sum[8];
    char type;
    char link[100];
    char magic[6];
    char version[2];
    char uname[32];
    char gname[32];
    char major[8];
    char minor[8];
    char prefix[155];
    char pad[12];
};
_Static_assert(sizeof(struct raw) == TAR_BLOCK, "a header is one block");

static unsigned checksum(const struct raw *h)
{
    const uint8_t *p = (const uint8_t *)h;
    unsigned sum = 0;
    for (size_t i = 0; i < sizeof(*h); i++) {
        bool in_sum = i >= offsetof(struct raw, sum) && i < offsetof(struct raw, type);
        sum += in_sum ? ' ' : p[i];
    }
    return sum;
}

/* ---- writing ------------------------------------------------------------------------------------ */

/* Octal with a NUL; false if it does not fit. */
static bool put_octal(char *field, size_t size, uint64_t value)
{
    for (size_t i = size - 1; i-- > 0; value >>= 3) {
        field[i] = (char)('0' + (value & 7));
    }
    field[size - 1] = 0;
    return value == 0;
}

int tar_put_record(struct bx_buf *pax, const char *key, const void *value, size_t size)
{
    size_t rest = strlen(key) + size + 3; /* blank, '=', newline */
    size_t len = rest + 1;
    for (size_t last = 0; last != len;) { /* it counts its own length's digits */
        last = len;
        len = rest + (size_t)snprintf(NULL, 0, "%zu", len);
    }
    int r = bx_buf_appendf(pax, "%zu %s=", len, key);
    r = r < 0 ? r : bx_buf_append(pax, value, size);
    return r < 0 ? r : bx_buf_append(pax, "\n", 1);
}

static int put_record(struct bx_buf *pax, const char *key, const char *value)
{
    return tar_put_record(pax, key, value, strlen(value));
}

static int put_number(struct bx_buf *pax, const char *key, uint64_t value)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    return put_record(pax, key, text);
}

static int put_mtime(struct bx_buf *pax, const struct tar_entry *e)
{
    char text[64];
    (void)snprintf(text, sizeof(text), "%lld.%09u", (long long)e->mtime, e->mtime_nsec);
    return put_record(pax, "mtime", text);
}

static int put_block(struct bx_buf *b, struct raw *h)
{
    memcpy(h->magic, "ustar", 6);
    memcpy(h->version, "00", 2);
    (void)snprintf(h->sum, sizeof(h->sum), "%06o", checksum(h));
    h->sum[7] = ' ';
    return bx_buf_append(b, h, sizeof(*h));
}

static int put_padding(struct bx_buf *b, size_t len)
{
    static const char zeros[TAR_BLOCK];
    return bx_buf_append(b, zeros, (TAR_BLOCK - len % TAR_BLOCK) % TAR_BLOCK);
}

/* Fills the plain header; what does not fit goes into pax records. */
static int fill(struct raw *h, const struct tar_entry *e, struct bx_buf *pax)
{
    const char *link = e->link ? e->link : "";
    int r = 0;
    memcpy(h->name, e->name, strnlen(e->name, sizeof(h->name)));
    memcpy(h->link, link, strnlen(link, sizeof(h->link)));
    (void)put_octal(h->mode, sizeof(h->mode), e->mode & 07777);
    h->type = e->type;
    (void)put_octal(h->major, sizeof(h->major), e->major);
    (void)put_octal(h->minor, sizeof(h->minor), e->minor);
    bool long_name = strlen(e->name) > sizeof(h->name), long_link = strlen(link) > sizeof(h->link);
    if ((long_name && !bx_utf8_valid(e->name, strlen(e->name))) ||
        (long_link && !bx_utf8_valid(link, strlen(link)))) {
        r = put_record(pax, "hdrcharset", "BINARY"); /* else they would have to be UTF-8 */
    }
    if (r == 0 && long_name) {
        r = put_record(pax, "path", e->name);
    }
    if (r == 0 && long_link) {
        r = put_record(pax, "linkpath", link);
    }
    if (r == 0 && !put_octal(h->uid, sizeof(h->uid), e->uid)) {
        r = put_number(pax, "uid", e->uid);
    }
    if (r == 0 && !put_octal(h->gid, sizeof(h->gid), e->gid)) {
        r = put_number(pax, "gid", e->gid);
    }
    if (r == 0 && !put_octal(h->size, sizeof(h->size), e->size)) {
        r = put_number(pax, "size", e->size);
    }
    bool plain = e->mtime >= 0 && put_octal(h->mtime, sizeof(h->mtime), (uint64_t)e->mtime);
    if (e->mtime < 0) {
        (void)put_octal(h->mtime, sizeof(h->mtime), 0);
    }
    if (r == 0 && (!plain || e->mtime_nsec != 0)) {
        r = put_mtime(pax, e);
    }
    return r;
}

int tar_write_header(struct bx_buf *b, const struct tar_entry *e)
{
    struct raw h = {0};
    struct bx_buf pax = BX_BUF_INIT(EXTENSION_MAX);
    int r = fill(&h, e, &pax);
    if (r == 0 && e->extra) {
        r = bx_buf_append(&pax, bx_buf_data(e->extra), e->extra->len);
    }
    if (r == 0 && pax.len > 0) {
        struct raw x = {.name = "pax",
                        .mode = "0000644",
                        .uid = "0000000",
                        .gid = "0000000",
                        .mtime = "00000000000",
                        .type = 'x'};
        (void)put_octal(x.size, sizeof(x.size), pax.len);
        r = put_block(b, &x);
        r = r < 0 ? r : bx_buf_append(b, bx_buf_data(&pax), pax.len);
        r = r < 0 ? r : put_padding(b, pax.len);
    }
    bx_buf_done(&pax);
    return r < 0 ? r : put_block(b, &h);
}

/* ---- reading ------------------------------------------------------------------------------------ */

/* What extension headers say about the entry that follows. */
struct extension {
    char *path;
    char *link;
    uint64_t size, uid, gid;
    int64_t mtime;
    uint32_t mtime_nsec;
    bool has_size, has_uid, has_gid, has_mtime;
};

static void extension_done(struct extension *x)
{
    free(x->path);
    free(x->link);
    *x = (struct extension){0};
}

static int bad(struct tar_reader *r, const char *problem)
{
    r->problem = problem;
    return -EBADMSG;
}

/* Octal with blanks or NULs around it, or base 256 with the top bit set. */
static bool get_number(const char *field, size_t size, uint64_t *ret)
{
    const uint8_t *p = (const uint8_t *)field;
    const uint8_t *end = p + size;
    uint64_t v = 0;
    if (*p & 0x80) {
        if (*p & 0x40) {
            return false; /* negative */
        }
        for (v = *p++ & 0x3f; p < end; p++) {
            if (v >> 56) {
                return false;
            }
            v = v << 8 | *p;
        }
        *ret = v;
        return true;
    }
    while (p < end && *p == ' ') {
        p++;
    }
    for (; p < end && *p >= '0' && *p <= '7'; p++) {
        v = v << 3 | (uint64_t)(*p - '0'); /* 12 digits at most */
    }
    for (; p < end; p++) {
        if (*p != ' ' && *p != 0) {
            return false;
        }
    }
    *ret = v;
    return true;
}

static int skip_padding(struct tar_reader *r, uint64_t len)
{
    char pad[TAR_BLOCK];
    size_t n = (size_t)((TAR_BLOCK - len % TAR_BLOCK) % TAR_BLOCK);
    return n > 0 ? r->read(r->data, pad, n) : 0;
}

/* The data of an extension header as a string of its own. */
static int read_extension(struct tar_reader *r, uint64_t size, char **ret)
{
    if (size > EXTENSION_MAX) {
        return bad(r, "an extension header is too long");
    }
    _cleanup_free_ char *text = malloc(size + 1);
    if (!text) {
        return -ENOMEM;
    }
    int k = size > 0 ? r->read(r->data, text, size) : 0;
    k = k < 0 ? k : skip_padding(r, size);
    if (k < 0) {
        return k;
    }
    text[size] = 0;
    *ret = steal_ptr(&text);
    return 0;
}

/* "1733000000.123456789"; the fraction beyond nanoseconds is dropped. */
static bool get_mtime(const char *s, struct extension *x)
{
    char *end;
    bool negative = *s == '-';
    errno = 0;
    long long sec = strtoll(s, &end, 10);
    uint32_t nsec = 0;
    if (end == s || errno || (*end && *end != '.')) {
        return false;
    }
    uint32_t unit = 100000000;
    for (const char *p = *end ? end + 1 : end; *p; p++, unit /= 10) {
        if (*p < '0' || *p > '9') {
            return false;
        }
        nsec += (uint32_t)(*p - '0') * unit;
    }
    if (negative && nsec > 0 && sec > INT64_MIN) {
        sec--;
        nsec = 1000000000 - nsec;
    }
    x->mtime = sec;
    x->mtime_nsec = nsec;
    x->has_mtime = true;
    return true;
}

static int set_string(char **field, const char *value)
{
    char *copy = strdup(value);
    if (!copy) {
        return -ENOMEM;
    }
    free(*field);
    *field = copy;
    return 0;
}

static int apply_record(struct tar_reader *r, struct extension *x, const char *key,
                        const char *value)
{
    bool good = true;
    if (bx_streq(key, "path")) {
        return set_string(&x->path, value);
    }
    if (bx_streq(key, "linkpath")) {
        return set_string(&x->link, value);
    }
    if (bx_streq(key, "size")) {
        good = x->has_size = bx_parse_u64(value, INT64_MAX, &x->size) == 0;
    } else if (bx_streq(key, "uid")) {
        good = x->has_uid = bx_parse_u64(value, UINT32_MAX - 1, &x->uid) == 0;
    } else if (bx_streq(key, "gid")) {
        good = x->has_gid = bx_parse_u64(value, UINT32_MAX - 1, &x->gid) == 0;
    } else if (bx_streq(key, "mtime")) {
        good = get_mtime(value, x);
    } else if (bx_startswith(key, "GNU.sparse.")) {
        return bad(r, "sparse files are not supported");
    }
    return good ? 0 : bad(r, "a pax record has a bad value");
}

/* "LENGTH KEY=VALUE\n", one after the other. */
static int parse_pax(struct tar_reader *r, struct extension *x, char *p, size_t left)
{
    while (left > 0) {
        size_t len = 0, digits = 0;
        while (digits < left && digits < 7 && p[digits] >= '0' && p[digits] <= '9') {
            len = len * 10 + (size_t)(p[digits++] - '0');
        }
        if (digits == 0 || len > left || len < digits + 3 || p[digits] != ' ' ||
            p[len - 1] != '\n') {
            return bad(r, "a pax record has a bad length");
        }
        p[len - 1] = 0;
        char *key = p + digits + 1;
        char *value = strchr(key, '=');
        if (!value || value > p + len - 1 || strlen(value) != (size_t)(p + len - 1 - value)) {
            return bad(r, "a pax record has no value");
        }
        *value++ = 0;
        int k = apply_record(r, x, key, value);
        if (k < 0) {
            return k;
        }
        p += len;
        left -= len;
    }
    return 0;
}

static int read_pax(struct tar_reader *r, uint64_t size, struct extension *x, bool apply)
{
    char *text = NULL;
    int k = read_extension(r, size, &text);
    if (k == 0 && apply) {
        k = parse_pax(r, x, text, size);
    }
    free(text);
    return k;
}

static int read_gnu_name(struct tar_reader *r, uint64_t size, char **field)
{
    char *text = NULL;
    int k = read_extension(r, size, &text);
    if (k == 0) {
        free(*field);
        *field = text;
    }
    return k;
}

static char *plain_name(const struct raw *h)
{
    int len = (int)strnlen(h->name, sizeof(h->name));
    int prefix =
        memcmp(h->magic, "ustar\0", 6) == 0 ? (int)strnlen(h->prefix, sizeof(h->prefix)) : 0;
    return prefix > 0 ? bx_asprintf("%.*s/%.*s", prefix, h->prefix, len, h->name)
                      : bx_asprintf("%.*s", len, h->name);
}

static int make_entry(struct tar_reader *r, const struct raw *h, struct extension *x)
{
    struct tar_entry *e = &r->entry;
    uint64_t mode, uid, gid, size, mtime, major = 0, minor = 0;
    if (!get_number(h->mode, sizeof(h->mode), &mode) || !get_number(h->uid, sizeof(h->uid), &uid) ||
        !get_number(h->gid, sizeof(h->gid), &gid) || !get_number(h->size, sizeof(h->size), &size) ||
        !get_number(h->mtime, sizeof(h->mtime), &mtime)) {
        return bad(r, "a header has a bad number");
    }
    (void)get_number(h->major, sizeof(h->major), &major);
    (void)get_number(h->minor, sizeof(h->minor), &minor);
    *e = (struct tar_entry){.type = h->type == 0 || h->type == '7' ? TAR_FILE : h->type};
    e->name = x->path ? steal_ptr(&x->path) : plain_name(h);
    e->link = x->link ? steal_ptr(&x->link) : strndup(h->link, sizeof(h->link));
    if (!e->name || !e->link) {
        return -ENOMEM;
    }
    e->mode = (uint32_t)(mode & 07777);
    e->uid = (uint32_t)(x->has_uid ? x->uid : uid);
    e->gid = (uint32_t)(x->has_gid ? x->gid : gid);
    e->size = x->has_size ? x->size : size;
    e->mtime = x->has_mtime ? x->mtime : (int64_t)(mtime & INT64_MAX);
    e->mtime_nsec = x->mtime_nsec;
    e->major = (uint32_t)major;
    e->minor = (uint32_t)minor;
    size_t len = strlen(e->name);
    if (e->type == TAR_FILE && len > 0 && e->name[len - 1] == '/') {
        e->type = TAR_DIR; /* how archives before POSIX say it */
    }
    if (e->size > INT64_MAX) {
        return bad(r, "a file is too large");
    }
    if (e->type != TAR_FILE && strchr("123456", e->type)) {
        e->size = 0; /* POSIX: no data follows whatever the header says */
    }
    return 1;
}

static int read_entry(struct tar_reader *r, struct extension *x)
{
    static const struct raw zero;
    for (bool first = true;; first = false) {
        struct raw h;
        uint64_t size, sum;
        int k = r->read(r->data, &h, sizeof(h));
        if (k < 0) {
            return k == -ENODATA && first ? 0
                   : k == -ENODATA        ? bad(r, "the archive is cut off")
                                          : k;
        }
        if (memcmp(&h, &zero, sizeof(h)) == 0) {
            return first ? 0 : bad(r, "an extension header without its entry");
        }
        if (!get_number(h.sum, sizeof(h.sum), &sum) || sum != checksum(&h)) {
            return bad(r, "not a tar archive, or damaged (checksum)");
        }
        if (!get_number(h.size, sizeof(h.size), &size)) {
            return bad(r, "a header has a bad number");
        }
        if (h.type == 'x' || h.type == 'g') {
            k = read_pax(r, size, x, h.type == 'x');
        } else if (h.type == 'L' || h.type == 'K') {
            k = read_gnu_name(r, size, h.type == 'L' ? &x->path : &x->link);
        } else {
            return make_entry(r, &h, x);
        }
        if (k < 0) {
            return k == -ENODATA ? bad(r, "the archive is cut off") : k;
        }
    }
}

int tar_read_header(struct tar_reader *r)
{
    struct extension x = {0};
    tar_reader_done(r);
    int k = read_entry(r, &x);
    extension_done(&x);
    return k;
}

void tar_reader_done(struct tar_reader *r)
{
    free(r->entry.name);
    free(r->entry.link);
    r->entry = (struct tar_entry){0};
}
