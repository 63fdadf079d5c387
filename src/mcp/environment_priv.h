/* SPDX-License-Identifier: Apache-2.0 */
/*
 * environment_priv.h: what environment.c (their life) and environment_show.c (what is told of them) share.
 */
#ifndef BX_MCP_ENVIRONMENT_PRIV_H
#define BX_MCP_ENVIRONMENT_PRIV_H

#include "mcp/mcp.h"

enum mcp_environment_state { IDLE, PULLING, STARTING, READY, PAUSED, STOPPING, STOPPED };

struct waiter {
    struct waiter *next;
    mcp_ready_fn fn;
    void *data;
};

struct mcp_environment {
    struct mcp_environment *next;
    struct mcp_environments *all;
    char *name, *image;
    struct mcp_pull *pull; /* PULLING */
    char *digest; /* of the image that its box was made from */
    uint32_t cpus;
    uint64_t memory;
    int network;
    json_t *env, *volumes;
    char *workspace;
    enum mcp_environment_state state;
    boxlite_box *box;
    struct waiter *waiters;
    uint64_t start_ns, boot_ns;
    unsigned starts;         /* of its boxes' VMs */
    bool again;              /* its box was stopped and is, or was, started again */
    bool again_untold;       /* no result has said so yet */
    bool restart_untold;     /* no result has said yet that it began afresh */
    bool dropped;            /* off the list */
    bool gone;               /* dropped, and its box has ended: to be freed */
    uint64_t made_ns, used_ns;
    struct mcp_timer resume;
    const void *slots[MCP_CALLS_MAX]; /* code files in use, by owner */
};

struct mcp_environments {
    struct mcp_server *server;
    struct mcp_environment *first;
    struct mcp_environment *dropped; /* waiting for the end of their boxes */
    unsigned count, serial;
    struct mcp_timer look; /* for idle ones */
    char message[640]; /* of the last refusal */
};

/* Its box is there no more. */
bool mcp_environment_lost(struct mcp_environment *env);

#endif
