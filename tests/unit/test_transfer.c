/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_transfer.c: transfers that are ended, through the public interface: a registry that takes the connection and says
 * nothing is there for them. Whoever ends one, and how, its function is called once, and no thread or descriptor stays.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "harness.h"

#define SOON_MS 10000

struct silent {
    int fd, taken; /* a listener; the connection, once it came */
    char name[64];
};

static struct silent silent_registry(void)
{
    struct silent s = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), .taken = -1};
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);

    ASSERT(s.fd >= 0 && bind(s.fd, (struct sockaddr *)&a, len) == 0 && listen(s.fd, 4) == 0);
    ASSERT_EQ(getsockname(s.fd, (struct sockaddr *)&a, &len), 0);
    (void)snprintf(s.name, sizeof(s.name), "127.0.0.1:%u/x", ntohs(a.sin_port));
    return s;
}

/* Waits until the client has connected. */
static void take(struct silent *s)
{
    struct pollfd p = {.fd = s->fd, .events = POLLIN};

    ASSERT_EQ(poll(&p, 1, SOON_MS), 1);
    s->taken = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC);
    ASSERT(s->taken >= 0);
}

static void silent_done(struct silent *s)
{
    (void)close(s->fd);
    if (s->taken >= 0) {
        (void)close(s->taken);
    }
}

static boxlite_runtime *open_runtime(void)
{
    boxlite_runtime_options o;
    boxlite_runtime *rt;

    boxlite_runtime_options_init(&o);
    o.home = tmpdir();
    ASSERT_OK(boxlite_runtime_new(&o, &rt, ERR));
    return rt;
}

struct seen {
    int calls, result;
    bool in_start;
};

static void on_done(void *data, int result, const boxlite_error *error)
{
    struct seen *s = data;

    ASSERT(!s->in_start);
    ASSERT((result < 0) == (error != NULL));
    s->calls++;
    s->result = result;
}

static boxlite_transfer *begin(boxlite_runtime *rt, struct silent *s, struct seen *seen)
{
    boxlite_transfer *t = NULL;

    seen->in_start = true;
    ASSERT_OK(boxlite_image_pull_async(rt, s->name, NULL, on_done, seen, &t, ERR));
    seen->in_start = false;
    take(s);
    return t;
}

static void dispatch_to_the_end(boxlite_runtime *rt, const struct seen *seen)
{
    for (int i = 0; i < 1000 && seen->calls == 0; i++) {
        ASSERT_OK(boxlite_runtime_dispatch(rt, SOON_MS, ERR));
    }
    ASSERT_EQ(seen->calls, 1);
}

TEST(cancelled)
{
    boxlite_runtime *rt = open_runtime();
    struct silent s = silent_registry();
    struct seen seen = {0};
    boxlite_transfer *t = begin(rt, &s, &seen);

    ASSERT_NULL(boxlite_transfer_digest(t));
    boxlite_transfer_cancel(t);
    boxlite_transfer_cancel(t);
    ASSERT_EQ(seen.calls, 0);
    dispatch_to_the_end(rt, &seen);
    ASSERT_EQ(seen.result, BOXLITE_E_CANCELLED);
    boxlite_transfer_cancel(t); /* too late */
    ASSERT_NULL(boxlite_transfer_digest(t));
    ASSERT_NULL(boxlite_transfer_name(t));
    boxlite_transfer_free(t);
    boxlite_runtime_free(rt);
    ASSERT_EQ(seen.calls, 1);
    silent_done(&s);
}

TEST(freed_under_way)
{
    boxlite_runtime *rt = open_runtime();
    struct silent s = silent_registry();
    struct seen seen = {0};

    boxlite_transfer_free(begin(rt, &s, &seen));
    dispatch_to_the_end(rt, &seen);
    ASSERT_EQ(seen.result, BOXLITE_E_CANCELLED);
    boxlite_runtime_free(rt);
    silent_done(&s);
}

TEST(runtime_closed_under_way)
{
    boxlite_runtime *rt = open_runtime();
    struct silent one = silent_registry(), two = silent_registry();
    struct seen seen = {0}, other = {0};

    boxlite_transfer *t = begin(rt, &one, &seen);
    ASSERT_OK(boxlite_image_pull_async(rt, two.name, NULL, on_done, &other, NULL, ERR));
    take(&two);
    boxlite_transfer_free(t);
    boxlite_runtime_free(rt);
    ASSERT_EQ(seen.calls, 1);
    ASSERT_EQ(seen.result, BOXLITE_E_CANCELLED);
    ASSERT_EQ(other.calls, 1);
    ASSERT_EQ(other.result, BOXLITE_E_CANCELLED);
    silent_done(&one);
    silent_done(&two);
}

struct waker {
    struct silent *s;
    boxlite_runtime *rt;
};

static void *wake(void *data)
{
    struct waker *w = data;

    take(w->s);
    boxlite_runtime_wakeup(w->rt);
    return NULL;
}

TEST(a_blocking_pull_is_woken)
{
    boxlite_runtime *rt = open_runtime();
    struct silent s = silent_registry();
    struct waker w = {.s = &s, .rt = rt};
    boxlite_image *image = NULL;
    pthread_t thread;

    ASSERT_EQ(pthread_create(&thread, NULL, wake, &w), 0);
    ASSERT_FAILS(BOXLITE_E_CANCELLED, boxlite_image_pull(rt, s.name, NULL, &image, ERR));
    ASSERT_NULL(image);
    ASSERT_EQ(pthread_join(thread, NULL), 0);
    boxlite_runtime_free(rt);
    silent_done(&s);
}

static bool called_inside;

static void pull_inside(void *data, int result, const boxlite_error *error)
{
    (void)error;
    called_inside = true;
    ASSERT_EQ(result, BOXLITE_E_INVALID);
    ASSERT_FAILS(BOXLITE_E_STATE, boxlite_image_pull(data, "x.test/y", NULL, NULL, ERR));
}

TEST(no_blocking_pull_inside_a_callback)
{
    boxlite_runtime *rt = open_runtime();

    /* A name that is none fails in the thread, without a network. */
    ASSERT_OK(boxlite_image_pull_async(rt, "NOT//A NAME", NULL, pull_inside, rt, NULL, ERR));
    for (called_inside = false; !called_inside;) {
        ASSERT_EQ(boxlite_runtime_dispatch(rt, SOON_MS, NULL), 0);
    }
    boxlite_runtime_free(rt);
}

TEST(wrong_from_the_start)
{
    boxlite_runtime *rt = open_runtime();
    boxlite_transfer_options *o;

    ASSERT_FAILS(BOXLITE_E_INVALID, boxlite_image_pull(rt, "UPPER/case", NULL, NULL, ERR));
    ASSERT_CONTAINS(err_message(), "pulling UPPER/case");
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, boxlite_image_push(rt, "a.test/none", NULL, NULL, ERR));
    ASSERT_OK(boxlite_transfer_options_new(&o, ERR));
    ASSERT_FAILS(BOXLITE_E_INVALID, boxlite_transfer_options_set_credentials(o, "a:b", "c", ERR));
    ASSERT_FAILS(BOXLITE_E_INVALID, boxlite_transfer_options_set_credentials(o, "", "c", ERR));
    boxlite_transfer_options_free(o);
    ASSERT_FAILS(BOXLITE_E_INVALID, boxlite_registry_logout(rt, "no host", NULL, ERR));
    boxlite_runtime_free(rt);
}
