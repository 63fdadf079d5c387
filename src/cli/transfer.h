/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transfer.h: pulls and pushes as the user sees them: options, progress, the end. On a terminal the parts that move
 * have a bar each; elsewhere each part is one line when it is done; or all events are JSON objects, one a line.
 */
#ifndef CLI_TRANSFER_H
#define CLI_TRANSFER_H

#include "cli/options.h"

enum cli_transfer_show {
    CLI_SHOW_PROGRESS,
    CLI_SHOW_NOTHING,
    CLI_SHOW_JSON,
};

struct cli_transfer {
    const char *platform, *auth_file, *ca_file;
    bool plain_http;
    enum cli_transfer_show show;
};
/* The options --auth-file, --ca-file, --plain-http, which fill this. */
extern struct cli_transfer cli_transfer;
extern const struct cli_option cli_transfer_options[];

/* Pulls; the results may be NULL, caller frees. 0 or an exit status, after telling why. */
int cli_pull(const char *name, char **ret_name, char **ret_digest);

#endif
