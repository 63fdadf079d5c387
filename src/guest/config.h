/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.h: what the host wants the guest to be: the CONFIGURE message, checked.
 */
#ifndef BX_GUEST_CONFIG_H
#define BX_GUEST_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "wire/msg.h"

struct config_file {
    char *path;
    uint8_t *data;
    size_t len;
};

#define CONFIG_MOUNTS_MAX 128

struct config_mount {
    unsigned flags; /* BX_MOUNT_* */
    char *guest;    /* absolute */
};

struct config {
    char *root_dev;
    char *root_type;
    char *upper_dev; /* NULL: a tmpfs */
    char *upper_type;
    char *hostname;
    uint64_t clock_ns; /* 0: not told */
    char *net_addr;    /* NULL: loopback only */
    char *net_gateway;
    uint64_t net_mtu; /* 0: the device's */
    struct config_file *files;
    size_t nfiles;
    struct config_mount mounts[CONFIG_MOUNTS_MAX];
    size_t nmounts;
    char *user; /* whose the workspaces are; NULL: root */
};

/* 0, -EPROTO, -ENOMEM. On failure cfg still has to be released. */
int config_parse(const struct bx_msg *msg, struct config *cfg);
void config_done(struct config *cfg);
#define _cleanup_config_ _cleanup_(config_done)

#endif
