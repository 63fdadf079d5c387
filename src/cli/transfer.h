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
extern const struct cli_option cli_transfer_options[],
    cli_transfer_file_options[]; /* only the first one */

/* Each gives 0 or an exit status, after telling why. The results, full name and digest, may be NULL; caller frees.
 * to may be NULL. */
int cli_pull(const char *name, char **ret_name, char **ret_digest);
int cli_push(const char *name, const char *to, char **ret_name, char **ret_digest);
/* Reports a successful end on standard output, as the user wants it shown. */
void cli_transfer_end(const char *name, const char *digest);
/* The library's options of cli_transfer, with progress. */
int cli_transfer_make_options(boxlite_transfer_options **ret, boxlite_error **err);

/* --quiet and --json of the commands that transfer. */
struct cli_transfer_output {
    bool quiet, json;
};
extern struct cli_transfer_output cli_transfer_output;
extern const struct cli_option cli_transfer_output_options[];
/* Takes them over. 0 or an exit status. */
int cli_transfer_choose_output(const char *command);

#endif
