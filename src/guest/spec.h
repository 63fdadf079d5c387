/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec.h: what to run: the EXEC message, checked.
 */
#ifndef BX_GUEST_SPEC_H
#define BX_GUEST_SPEC_H

#include <stdint.h>
#include <sys/resource.h>

#include "base/str.h"
#include "wire/msg.h"

#define SPEC_RLIMITS_MAX 16

struct spec_rlimit {
    int resource;
    struct rlimit limit;
};

struct spec {
    uint32_t id;
    struct bx_strv argv;
    struct bx_strv env;
    char *cwd;  /* NULL or "": / */
    char *user; /* NULL or "": root */
    char *builtin;
    uint64_t flags; /* BX_EXEC_* */
    uint64_t rows;
    uint64_t cols;
    uint64_t timeout_ms; /* 0: none */
    struct spec_rlimit rlimits[SPEC_RLIMITS_MAX];
    size_t nrlimits;
    struct bx_msg files; /* the message, for its FILE fields (files.h): borrowed */
};

/* 0, -EPROTO, -ENOMEM, -E2BIG. On failure s still has to be released. */
int spec_parse(const struct bx_msg *msg, struct spec *s);
void spec_done(struct spec *s);
#define _cleanup_spec_ _cleanup_(spec_done)

#endif
