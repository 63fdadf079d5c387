/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.c: how an image wants its commands started, from the "config" object of its config.
 */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/str.h"
#include "oci/images.h"

static int copy_text(const json_t *config, const char *key, char **ret, boxlite_error **err)
{
    const char *text = "";
    int r = config ? bx_json_str(config, key, true, &text, err) : 0;

    if (r < 0) {
        return r;
    }
    *ret = strdup(text);
    return *ret ? 0 : bx_fail_oom(err);
}

static int parse(const char *config_json, struct bx_image_run *run, boxlite_error **err)
{
    const struct {
        const char *key;
        struct bx_strv *list;
        char **text;
    } fields[] = {
        {.key = "Entrypoint", .list = &run->entrypoint},
        {.key = "Cmd", .list = &run->cmd},
        {.key = "Env", .list = &run->env},
        {.key = "User", .text = &run->user},
        {.key = "WorkingDir", .text = &run->workdir},
        {.key = "StopSignal", .text = &run->stop_signal},
    };
    _cleanup_json_ json_t *doc = NULL;
    json_t *config = NULL;
    int r = bx_json_parse(config_json, strlen(config_json), "image config", &doc, err);

    if (r == 0) {
        r = bx_json_object(doc, "config", true, &config, err);
    }
    for (size_t i = 0; r == 0 && i < BX_ARRAY_SIZE(fields); i++) {
        if (fields[i].text) {
            r = copy_text(config, fields[i].key, fields[i].text, err);
        } else if (config) {
            r = bx_json_strv(config, fields[i].key, true, fields[i].list, err);
        }
    }
    return r;
}

int bx_image_run_parse(const char *config_json, struct bx_image_run *ret, boxlite_error **err)
{
    struct bx_image_run run = {0};
    int r = parse(config_json, &run, err);

    if (r < 0) {
        bx_image_run_done(&run);
        return r;
    }
    *ret = run;
    return 0;
}

void bx_image_run_done(struct bx_image_run *r)
{
    bx_strv_done(&r->entrypoint);
    bx_strv_done(&r->cmd);
    bx_strv_done(&r->env);
    free(r->user);
    free(r->workdir);
    free(r->stop_signal);
    *r = (struct bx_image_run){0};
}
