/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_guest_config.c: any bytes as the agent's two big messages, and as the image's user files.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "guest/config.h"
#include "guest/spec.h"
#include "guest/users.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void as_messages(const uint8_t *data, size_t size)
{
    struct bx_msg m;
    if (bx_msg_parse(data, size, &m) < 0) {
        return;
    }
    _cleanup_config_ struct config cfg = {0};
    if (config_parse(&m, &cfg) == 0 && (!cfg.root_dev || (cfg.upper_dev && !cfg.upper_type))) {
        abort();
    }
    _cleanup_spec_ struct spec s = {0};
    if (spec_parse(&m, &s) == 0 && (s.id == 0 || s.nrlimits > SPEC_RLIMITS_MAX)) {
        abort();
    }
}

/* spec NUL passwd NUL group */
static void as_users(const uint8_t *data, size_t size)
{
    char *text = calloc(1, size + 3);
    struct user u;
    struct failure f = {0};
    if (!text) {
        return;
    }
    memcpy(text, data, size);
    const char *passwd = text + strlen(text) + 1;
    passwd = passwd > text + size ? "" : passwd;
    const char *group = *passwd ? passwd + strlen(passwd) + 1 : "";
    int r = users_resolve(text, passwd, group > text + size ? "" : group, &u, &f);
    if ((r < 0) != (f.errnum != 0) || (r == 0 && u.ngroups > USERS_GROUPS_MAX)) {
        abort();
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    as_messages(data, size);
    as_users(data, size);
    return 0;
}
