/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sink.c: a ring of bytes between the reader and one thread.
 *
 * SHA-256 costs as much as all else that the reader does, so it runs beside it. `head` counts the bytes put in,
 * `tail` those done with; the ring holds what lies between. Only the thread touches the hash and the file. It starts
 * with all signals blocked: they are for the threads of the process that embeds us.
 */
#include "oci/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "base/io.h"

#define RING (2u << 20)
#define SPAN (256u << 10)
#define WRITEBACK (8u << 20)

struct bx_sink {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more, room;
    bool running, ending;
    int error; /* -errno of a write */
    uint64_t head, tail;
    int fd;
    uint64_t started; /* bytes whose way to the disk was started */
    struct bx_sha256 *hash;
    uint8_t ring[RING];
};

/* One contiguous piece, without the lock. */
static int consume(struct bx_sink *s, const uint8_t *data, size_t len)
{
    uint64_t end = s->tail + len;
    int r;

    bx_sha256_update(s->hash, data, len);
    if (s->fd < 0) {
        return 0;
    }
    r = bx_write_full(s->fd, data, len);
    if (r == 0 && end - s->started >= WRITEBACK) {
        /* So that the final fdatasync finds little to do. */
        (void)sync_file_range(s->fd, (off_t)s->started, (off_t)(end - s->started),
                              SYNC_FILE_RANGE_WRITE);
        s->started = end;
    }
    return r;
}

static void *run(void *arg)
{
    struct bx_sink *s = arg;

    pthread_mutex_lock(&s->lock);
    for (;;) {
        size_t at = s->tail % RING, n;
        int r;
        if (s->head == s->tail) {
            if (s->ending) {
                break;
            }
            pthread_cond_wait(&s->more, &s->lock);
            continue;
        }
        n = (size_t)(s->head - s->tail);
        n = n > RING - at ? RING - at : n;
        n = n > SPAN ? SPAN : n;
        pthread_mutex_unlock(&s->lock);
        r = consume(s, s->ring + at, n);
        pthread_mutex_lock(&s->lock);
        s->tail += n;
        if (r < 0) {
            s->error = r;
            s->tail = s->head;
        }
        pthread_cond_signal(&s->room);
        if (r < 0) {
            break;
        }
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

int bx_sink_new(int fd, struct bx_sink **ret, boxlite_error **err)
{
    struct bx_sink *s = malloc(sizeof(*s));
    sigset_t all, before;
    int r;

    if (!s) {
        return bx_fail_oom(err);
    }
    memset(s, 0, offsetof(struct bx_sink, ring));
    s->fd = fd;
    s->hash = bx_sha256_new();
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->more, NULL);
    pthread_cond_init(&s->room, NULL);
    if (!s->hash) {
        bx_sink_free(s);
        return bx_fail_oom(err);
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    r = pthread_create(&s->thread, NULL, run, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r != 0) {
        bx_sink_free(s);
        return bx_fail_errno(err, BOXLITE_E_IO, r, "starting a thread");
    }
    s->running = true;
    *ret = s;
    return 0;
}

static int check(const struct bx_sink *s, boxlite_error **err)
{
    return s->error < 0 ? bx_fail_errno(err, BOXLITE_E_IO, s->error, "storing") : 0;
}

int bx_sink_put(struct bx_sink *s, const void *data, size_t len, boxlite_error **err)
{
    int error;

    pthread_mutex_lock(&s->lock);
    while (len > 0 && s->error == 0) {
        size_t at = s->head % RING, n = RING - (size_t)(s->head - s->tail);
        if (n == 0) {
            pthread_cond_wait(&s->room, &s->lock);
            continue;
        }
        n = n > RING - at ? RING - at : n;
        n = n > len ? len : n;
        pthread_mutex_unlock(&s->lock);
        memcpy(s->ring + at, data, n);
        pthread_mutex_lock(&s->lock);
        s->head += n;
        data = (const uint8_t *)data + n;
        len -= n;
        pthread_cond_signal(&s->more);
    }
    error = s->error;
    pthread_mutex_unlock(&s->lock);
    return error < 0 ? check(s, err) : 0;
}

static void join(struct bx_sink *s)
{
    if (s->running) {
        pthread_mutex_lock(&s->lock);
        s->ending = true;
        pthread_cond_signal(&s->more);
        pthread_mutex_unlock(&s->lock);
        (void)pthread_join(s->thread, NULL);
        s->running = false;
    }
}

int bx_sink_finish(struct bx_sink *s, char *digest, boxlite_error **err)
{
    int r;

    join(s);
    r = check(s, err);
    if (r == 0) {
        bx_sha256_final(s->hash, digest);
    }
    return r;
}

void bx_sink_free(struct bx_sink *s)
{
    if (s) {
        join(s);
        bx_sha256_free(s->hash);
        pthread_cond_destroy(&s->room);
        pthread_cond_destroy(&s->more);
        pthread_mutex_destroy(&s->lock);
        free(s);
    }
}
