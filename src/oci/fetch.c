/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fetch.c: one blob at a time.
 *
 * A blob grows in images/partial/HEX, locked by the one process that fetches it; whoever else wants it waits, and then
 * finds it in the store. It is digested as it comes. Only when size and digest are right it is renamed into the store, so
 * nothing wrong or half is ever seen there, whenever the process is killed.
 *
 * A cut is mended by asking for the rest (Range). What a failed or killed pull left is kept on purpose: the next pull
 * digests it and asks for the rest. A cancelled pull leaves nothing, and left-overs go after a day.
 *
 * The lock is on the open file, not on its name: after getting it one must see that the name still leads there.
 */
#include "oci/fetch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/sha256.h"
#include "oci/blobs.h"

#define CHUNK (256u << 10)
#define REPORT_STEP (512u << 10)
#define PATIENCE_STEP (1u << 20) /* an attempt that brought so much was a good one */
#define LOCK_LOOK_MS 100
#define STALE_SECONDS (24 * 3600)
#define WRITEBACK (8u << 20)

void bx_report(struct bx_reporter *r, const char *kind, const char *digest, int state,
               uint64_t done, uint64_t total, const char *note)
{
    boxlite_transfer_event e = {.struct_size = sizeof(e),
                                .kind = kind,
                                .digest = digest,
                                .state = state,
                                .done = done,
                                .total = total,
                                .note = note};

    if (r->t->event) {
        (void)pthread_mutex_lock(&r->lock);
        r->t->event(r->t->event_data, &e);
        (void)pthread_mutex_unlock(&r->lock);
    }
}

struct partial {
    const struct bx_fetch *f;
    int dirfd, fd;
    const char *name; /* digits of the digest */
    struct bx_sha256 *hash;
    uint64_t have, reported, written; /* bytes; told; whose way to the disk was started */
    bool resumed;                     /* some are from another pull */
};

static void partial_done(struct partial *p)
{
    bx_sha256_free(p->hash);
    bx_close(&p->fd);
    bx_close(&p->dirfd);
}

static void report(struct partial *p, int state, const char *note)
{
    bx_report(p->f->reporter, p->f->kind, p->f->blob->digest, state, p->have, p->f->blob->size,
              note);
    p->reported = p->have;
}

/* ---- the file */

static bool leads_to(const struct partial *p)
{
    struct stat there, here;

    return fstatat(p->dirfd, p->name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           fstat(p->fd, &here) == 0 && there.st_dev == here.st_dev && there.st_ino == here.st_ino;
}

/* Opens the file and gets its lock: 1, or 0 after a wait in vain. */
static int try_open(struct partial *p, boxlite_error **err)
{
    bx_close(&p->fd);
    p->fd = openat(p->dirfd, p->name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (p->fd < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "opening images/partial/%s", p->name);
    }
    if (flock(p->fd, LOCK_EX | LOCK_NB) == 0) {
        return leads_to(p) ? 1 : 0;
    }
    return errno == EWOULDBLOCK
               ? 0
               : bx_fail_errno(err, BOXLITE_E_IO, errno, "locking images/partial/%s", p->name);
}

static int open_locked(struct partial *p, struct bx_http *h, boxlite_error **err)
{
    int r = try_open(p, err);

    while (r == 0) {
        struct stat st;
        p->have = fstat(p->fd, &st) == 0 ? (uint64_t)st.st_size : 0;
        report(p, BOXLITE_TRANSFER_WAITING, "another pull is fetching it");
        r = bx_http_pause(h, LOCK_LOOK_MS, err);
        r = r < 0 ? r : try_open(p, err);
    }
    p->have = 0;
    return r < 0 ? r : 0;
}

static int start_over(struct partial *p, boxlite_error **err)
{
    bx_sha256_free(p->hash);
    p->hash = bx_sha256_new();
    p->have = p->reported = p->written = 0;
    p->resumed = false;
    if (!p->hash) {
        return bx_fail_oom(err);
    }
    return ftruncate(p->fd, 0) < 0
               ? bx_fail_errno(err, BOXLITE_E_IO, errno, "emptying images/partial/%s", p->name)
               : 0;
}

/* Digests what another pull left. */
static int take_rest(struct partial *p, boxlite_error **err)
{
    _cleanup_free_ uint8_t *buf = NULL;
    struct stat st;
    ssize_t n;

    if (fstat(p->fd, &st) < 0 || st.st_size == 0 || (uint64_t)st.st_size > p->f->blob->size) {
        return start_over(p, err);
    }
    p->hash = bx_sha256_new();
    buf = malloc(CHUNK);
    if (!buf || !p->hash) {
        return bx_fail_oom(err);
    }
    while ((n = bx_read_full(p->fd, buf, CHUNK)) > 0) {
        bx_sha256_update(p->hash, buf, (size_t)n);
        p->have += (uint64_t)n;
    }
    if (n < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, (int)n, "reading images/partial/%s", p->name);
    }
    p->resumed = true;
    p->written = p->have;
    return 0;
}

/* ---- what comes */

struct incoming {
    struct partial *p;
    bool begun,
        misplaced; /* the first bytes have come; they were from another place than asked for */
};

/* Before the first bytes of an answer: whether they are the ones that were asked for. */
static int check_head(struct incoming *in, const struct bx_http_response *head, boxlite_error **err)
{
    struct partial *p = in->p;

    if (p->have > 0 && (head->status == 200 || head->range_start != p->have)) {
        int r = start_over(p, err);
        if (r < 0) {
            return r;
        }
        in->misplaced = head->status != 200;
    } else {
        in->misplaced = head->status == 206 && head->range_start != p->have;
    }
    if (in->misplaced) {
        return bx_fail(err, BOXLITE_E_NETWORK, "the registry sent other bytes than were asked for");
    }
    if (head->length != UINT64_MAX && p->have + head->length != p->f->blob->size) {
        return bx_fail(
            err, BOXLITE_E_INTEGRITY, "the registry's blob has %llu bytes, the manifest says %llu",
            (unsigned long long)(p->have + head->length), (unsigned long long)p->f->blob->size);
    }
    return 0;
}

static int take(void *data, const struct bx_http_response *head, const void *bytes, size_t n,
                boxlite_error **err)
{
    struct incoming *in = data;
    struct partial *p = in->p;
    int r = in->begun ? 0 : check_head(in, head, err);

    in->begun = true;
    if (r < 0) {
        return r;
    }
    if (n > p->f->blob->size - p->have) {
        return bx_fail(err, BOXLITE_E_INTEGRITY,
                       "the registry's blob is longer than the manifest says");
    }
    r = bx_pwrite_full(p->fd, bytes, n, (off_t)p->have);
    if (r < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, r, "writing images/partial/%s", p->name);
    }
    bx_sha256_update(p->hash, bytes, n);
    p->have += n;
    if (p->have - p->written >=
        WRITEBACK) { /* so that the last sync is short, and few pages are dirty */
        (void)sync_file_range(p->fd, (off_t)p->written, (off_t)(p->have - p->written),
                              SYNC_FILE_RANGE_WRITE);
        p->written = p->have;
    }
    if (p->have - p->reported >= REPORT_STEP) {
        report(p, BOXLITE_TRANSFER_RUNNING, NULL);
    }
    return 0;
}

static void note_retry(void *data, const char *why)
{
    report(data, BOXLITE_TRANSFER_RETRYING, why);
}

static int get_once(struct partial *p, struct bx_http *h, const char *path,
                    struct bx_http_response *resp, enum bx_http_failure *failure,
                    boxlite_error **err)
{
    struct incoming in = {.p = p};
    _cleanup_(bx_registry_call_done) struct bx_registry_call call = {.http = {.method = "GET",
                                                                              .body_fd = -1,
                                                                              .range_from = p->have,
                                                                              .sink = take,
                                                                              .sink_data = &in},
                                                                     .path = path};
    int r = bx_registry_call(p->f->registry, h, &call, resp, err);

    *failure = in.misplaced ? BX_HTTP_TRANSIENT : call.failure;
    if (r < 0 && resp->status == 416) { /* what is there already is not what the registry has */
        *failure = BX_HTTP_TRANSIENT;
        if (start_over(p, NULL) < 0) {
            *failure = BX_HTTP_PERMANENT;
        }
    }
    if (r == 0 && p->have < p->f->blob->size) {
        *failure = BX_HTTP_TRANSIENT;
        r = bx_fail(err, BOXLITE_E_NETWORK, "the registry's blob ended early");
    }
    return r;
}

static int get(struct partial *p, struct bx_http *h, boxlite_error **err)
{
    _cleanup_free_ char *path = bx_asprintf("blobs/%s", p->f->blob->digest);
    _cleanup_response_ struct bx_http_response resp = {0};
    _cleanup_error_ boxlite_error *why = NULL;
    struct bx_attempts attempts = {0};
    enum bx_http_failure failure;
    uint64_t before;
    int r = path ? 0 : bx_fail_oom(&why);

    while (r == 0 && p->have < p->f->blob->size) {
        before = p->have;
        r = get_once(p, h, path, &resp, &failure, &why);
        if (p->have >= before + PATIENCE_STEP) {
            attempts.made = 0;
        }
        if (r < 0 && bx_registry_again(p->f->registry, h, &attempts, failure, resp.retry_after,
                                       note_retry, p, &why)) {
            r = 0;
        } else if (r < 0) {
            r = boxlite_error_code(why); /* it may have been cancelled meanwhile */
        }
    }
    return r < 0 ? bx_fail_again(err, why) : 0;
}

/* Whether it is the blob; the digest can be asked for once. */
static bool is_right(struct partial *p)
{
    char found[BX_DIGEST_LEN + 1];

    bx_sha256_final(p->hash, found);
    return bx_streq(found, p->f->blob->digest);
}

static int get_checked(struct partial *p, struct bx_http *h, boxlite_error **err)
{
    bool resumed = p->resumed;
    int r = get(p, h, err);

    if (r < 0) {
        return r;
    }
    if (is_right(p)) {
        return 0;
    }
    if (resumed) { /* it may be the part that another pull left */
        r = start_over(p, err);
        r = r < 0 ? r : get(p, h, err);
        if (r < 0 || is_right(p)) {
            return r;
        }
    }
    return bx_fail(err, BOXLITE_E_INTEGRITY, "the registry sent other bytes than the digest says");
}

/* ---- one blob */

static int check_stored(const struct bx_fetch *f, boxlite_error **err)
{
    _cleanup_close_ int fd = -1;
    uint64_t size;
    int r = bx_blob_open(f->im, f->blob->digest, &fd, &size, err);

    if (r == 0 && size != f->blob->size) {
        r = bx_fail(err, BOXLITE_E_INTEGRITY,
                    "the store has it with %llu bytes, the manifest says %llu",
                    (unsigned long long)size, (unsigned long long)f->blob->size);
    }
    if (r == 0) {
        bx_report(f->reporter, f->kind, f->blob->digest, BOXLITE_TRANSFER_PRESENT, size, size,
                  NULL);
    }
    return r;
}

/* What is to become of the file after a failure: a cut is worth going on from. */
static bool worth_keeping(const struct partial *p, int error)
{
    return p->have > 0 && (error == BOXLITE_E_NETWORK || error == BOXLITE_E_TIMEOUT);
}

static int fetch_locked(struct partial *p, struct bx_http *h, boxlite_error **err)
{
    const struct bx_fetch *f = p->f;
    int r;

    if (bx_blob_exists(f->im, f->blob->digest)) { /* another process was faster */
        (void)unlinkat(p->dirfd, p->name, 0);
        return check_stored(f, err);
    }
    r = take_rest(p, err);
    if (r == 0) {
        report(p, BOXLITE_TRANSFER_RUNNING, NULL);
        r = get_checked(p, h, err);
    }
    if (r == 0 && fdatasync(p->fd) < 0) {
        r = bx_fail_errno(err, BOXLITE_E_IO, errno, "writing images/partial/%s", p->name);
    }
    if (r == 0) {
        r = bx_blob_adopt(f->im, p->dirfd, p->name, f->blob->digest, err);
    }
    if (r == 0) {
        report(p, BOXLITE_TRANSFER_DONE, NULL);
    } else if (!worth_keeping(p, r)) {
        (void)unlinkat(p->dirfd, p->name, 0);
    }
    return r;
}

int bx_fetch_blob(const struct bx_fetch *f, struct bx_http *h, boxlite_error **err)
{
    _cleanup_(partial_done) struct partial p = {
        .f = f, .dirfd = -1, .fd = -1, .name = f->blob->digest + strlen("sha256:")};
    int r;

    if (bx_blob_exists(f->im, f->blob->digest)) {
        return check_stored(f, err);
    }
    r = bx_blobs_partial_dir(f->im, &p.dirfd, err);
    r = r < 0 ? r : open_locked(&p, h, err);
    r = r < 0 ? r : fetch_locked(&p, h, err);
    return r;
}

/* ---- left-overs */

static void sweep_one(int dirfd, const char *name)
{
    struct partial p = {.dirfd = dirfd, .fd = -1, .name = name};
    struct stat st;

    p.fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (p.fd >= 0 && fstat(p.fd, &st) == 0 && time(NULL) - st.st_mtime > STALE_SECONDS &&
        flock(p.fd, LOCK_EX | LOCK_NB) == 0 && leads_to(&p)) {
        (void)unlinkat(dirfd, name, 0);
    }
    bx_close(&p.fd);
}

void bx_fetch_sweep(const struct bx_home *home)
{
    int fd = openat(home->fd, "images/partial", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    _cleanup_closedir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir) {
        bx_close(&fd);
        return;
    }
    for (struct dirent *e; (e = readdir(dir));) {
        if (e->d_name[0] != '.') {
            sweep_one(dirfd(dir), e->d_name);
        }
    }
}
