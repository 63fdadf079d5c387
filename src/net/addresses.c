/* SPDX-License-Identifier: Apache-2.0 */
/*
 * addresses.c: see addresses.h.
 *
 * One rtnetlink socket, which is told of every change and is asked for the whole list after each: the
 * list is never put together from changes, of which some may be lost. While an answer is under way
 * another change only notes that it must be asked again. What cannot be read, or is more than fits, is
 * told as unknown: the filter then lets nothing out.
 */
#include "net/addresses.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "net/filter.h"

#define ANSWER_MAX 32768 /* what the kernel sends at once at most */

struct bx_addresses {
    bx_addresses_fn fn;
    void *data;
    int fd;
    struct bx_source *source;
    uint32_t asked; /* sequence number of the question under way, 0: none */
    uint32_t questions;
    bool again;
    bool spoilt; /* the answer under way is not whole */
    uint32_t own[BX_OWN_MAX];
    size_t n;
};

static void unknown(struct bx_addresses *a)
{
    a->asked = 0;
    a->fn(a->data, NULL, 0);
}

static void ask(struct bx_addresses *a)
{
    const struct {
        struct nlmsghdr head;
        struct ifaddrmsg body;
    } question = {
        .head = {.nlmsg_len = sizeof(question),
                 .nlmsg_type = RTM_GETADDR,
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
                 .nlmsg_seq = a->questions + 1},
        .body = {.ifa_family = AF_INET},
    };
    a->again = a->spoilt = false;
    a->n = 0;
    if (send(a->fd, &question, sizeof(question), MSG_NOSIGNAL) != (ssize_t)sizeof(question)) {
        unknown(a);
        return;
    }
    a->asked = ++a->questions;
}

/* The address of an RTM_NEWADDR; false if it has none. */
static bool get_address(const struct nlmsghdr *m, uint32_t *ret)
{
    const struct ifaddrmsg *body = NLMSG_DATA(m);
    bool found = false;
    if (m->nlmsg_len < NLMSG_LENGTH(sizeof(*body)) || body->ifa_family != AF_INET) {
        return false;
    }
    int left = (int)(m->nlmsg_len - NLMSG_LENGTH(sizeof(*body)));
    for (const struct rtattr *t = IFA_RTA(body); RTA_OK(t, left); t = RTA_NEXT(t, left)) {
        bool local = t->rta_type == IFA_LOCAL;
        if ((local || (t->rta_type == IFA_ADDRESS && !found)) && RTA_PAYLOAD(t) == sizeof(*ret)) {
            memcpy(ret, RTA_DATA(t), sizeof(*ret));
            found = true;
        }
        if (local) {
            break; /* of a point-to-point link IFA_ADDRESS is the other end's */
        }
    }
    *ret = ntohl(*ret);
    return found;
}

static void finish(struct bx_addresses *a)
{
    a->asked = 0;
    if (a->spoilt) {
        unknown(a);
    } else if (!a->again) {
        a->fn(a->data, a->own, a->n);
    }
    if (a->again) {
        ask(a);
    }
}

static void take(struct bx_addresses *a, const struct nlmsghdr *m)
{
    uint32_t address = 0;
    if (a->asked == 0 || m->nlmsg_seq != a->asked) { /* a change, which has no number of ours */
        a->again = true;
        return;
    }
    a->again |= (m->nlmsg_flags & NLM_F_DUMP_INTR) != 0;
    if (m->nlmsg_type == NLMSG_DONE) {
        finish(a);
    } else if (m->nlmsg_type == NLMSG_ERROR) {
        a->spoilt = true;
        finish(a);
    } else if (m->nlmsg_type == RTM_NEWADDR && get_address(m, &address)) {
        if (a->n == BX_OWN_MAX) {
            a->spoilt = true;
        } else {
            a->own[a->n++] = address;
        }
    }
}

static void on_event(void *data, uint32_t events)
{
    struct bx_addresses *a = data;
    _Alignas(struct nlmsghdr) char text[ANSWER_MAX];
    struct sockaddr_nl from = {0};
    socklen_t size = sizeof(from);
    ssize_t n = recvfrom(a->fd, text, sizeof(text), MSG_DONTWAIT | MSG_TRUNC,
                         (struct sockaddr *)&from, &size);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n < 0 || (size_t)n > sizeof(text)) {
        /* ENOBUFS: changes were lost, and perhaps a part of the answer */
        a->asked = 0;
        a->again = true;
    } else if (from.nl_pid == 0) {
        unsigned left = (unsigned)n;
        for (const struct nlmsghdr *m = (const struct nlmsghdr *)text; NLMSG_OK(m, left);
             m = NLMSG_NEXT(m, left)) {
            take(a, m);
        }
    }
    if (a->again && a->asked == 0) {
        ask(a);
    }
}

int bx_addresses_new(struct bx_loop *loop, bx_addresses_fn fn, void *data,
                     struct bx_addresses **ret)
{
    const struct sockaddr_nl here = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_IPV4_IFADDR};
    struct bx_addresses *a = calloc(1, sizeof(*a));
    if (!a) {
        return -ENOMEM;
    }
    *a = (struct bx_addresses){.fn = fn, .data = data};
    a->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    int r = a->fd < 0 || bind(a->fd, (const struct sockaddr *)&here, sizeof(here)) < 0 ? -errno : 0;
    r = r < 0 ? r : bx_loop_add_fd(loop, a->fd, EPOLLIN, on_event, a, &a->source);
    if (r < 0) {
        bx_addresses_free(a);
        return r;
    }
    *ret = a;
    return 0;
}

void bx_addresses_free(struct bx_addresses *a)
{
    if (a) {
        bx_source_free(a->source);
        bx_close(&a->fd);
        free(a);
    }
}
