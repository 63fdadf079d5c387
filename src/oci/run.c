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

#define OWN_LABELS "org.boxlite."
#define LABELS_MAX 256u
#define LABEL_BYTES_MAX 4096u

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

/* Labels come with an image and are no command of its author to us: those in our own name, and such as no box may
 * have, are left out. */
static int read_labels(const json_t *doc, struct bx_image_run *run, boxlite_error **err)
{
    json_t *labels = json_object_get(json_object_get(doc, "config"), "Labels"), *value;
    const char *name;
    int r = 0;

    json_object_foreach(labels, name, value)
    {
        const char *text = json_string_value(value);
        if (r < 0 || !text || *name == '\0' || strchr(name, '=') || run->labels.n == LABELS_MAX ||
            bx_startswith(name, OWN_LABELS) || strlen(name) + strlen(text) > LABEL_BYTES_MAX) {
            continue;
        }
        r = bx_strv_setenv(&run->labels, name, text);
    }
    return r < 0 ? bx_fail_oom(err) : 0;
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
    return r < 0 ? r : read_labels(doc, run, err);
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
    bx_strv_done(&r->labels);
    free(r->user);
    free(r->workdir);
    free(r->stop_signal);
    *r = (struct bx_image_run){0};
}
