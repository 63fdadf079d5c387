/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transfer.c: options and results of transfers.
 */
#include "oci/transfer.h"

#include <errno.h>
#include <string.h>

void bx_transfer_result_done(struct bx_transfer_result *r)
{
    free(r->digest);
    free(r->name);
    *r = (struct bx_transfer_result){0};
}

void bx_transfer_options_done(struct bx_transfer_options *o)
{
    free(o->platform);
    free(o->user);
    if (o->secret) {
        explicit_bzero(o->secret, strlen(o->secret));
    }
    free(o->secret);
    free(o->auth_file);
    free(o->ca_file);
    *o = (struct bx_transfer_options){0};
}

int bx_transfer_options_copy(const struct bx_transfer_options *from, struct bx_transfer_options *to)
{
    const char *const in[] = {from->platform, from->user, from->secret, from->auth_file,
                              from->ca_file};
    char **const out[] = {&to->platform, &to->user, &to->secret, &to->auth_file, &to->ca_file};

    for (size_t i = 0; i < BX_ARRAY_SIZE(in); i++) {
        if (in[i] && !(*out[i] = strdup(in[i]))) {
            bx_transfer_options_done(to);
            return -ENOMEM;
        }
    }
    to->plain_http = from->plain_http;
    return 0;
}
