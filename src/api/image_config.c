/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image_config.c: how commands of a new image start, as exported: the settings for an import or a commit.
 */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/image.h"
#include "box/options.h"

struct boxlite_image_config {
    struct bx_strv entrypoint, command, env, labels;
    char *workdir, *user;
};

int boxlite_image_config_new(boxlite_image_config **ret, boxlite_error **err)
{
    bx_need(ret, err);
    boxlite_image_config *config = calloc(1, sizeof(*config));
    if (!config) {
        return bx_fail_oom(err);
    }
    *ret = config;
    return 0;
}

void boxlite_image_config_free(boxlite_image_config *config)
{
    if (config) {
        bx_strv_done(&config->entrypoint);
        bx_strv_done(&config->command);
        bx_strv_done(&config->env);
        bx_strv_done(&config->labels);
        free(config->workdir);
        free(config->user);
        free(config);
    }
}

int boxlite_image_config_set_entrypoint(boxlite_image_config *config, const char *const *argv,
                                        size_t argc, boxlite_error **err)
{
    bx_need(config, err);
    bx_need(argv || argc == 0, err);
    return bx_set_argv(&config->entrypoint, "entrypoint", argv, argc, err);
}

int boxlite_image_config_set_command(boxlite_image_config *config, const char *const *argv,
                                     size_t argc, boxlite_error **err)
{
    bx_need(config, err);
    bx_need(argv || argc == 0, err);
    return bx_set_argv(&config->command, "command", argv, argc, err);
}

int boxlite_image_config_add_env(boxlite_image_config *config, const char *name, const char *value,
                                 boxlite_error **err)
{
    bx_need(config, err);
    bx_need(name, err);
    bx_need(value, err);
    return bx_set_env(&config->env, "env", name, value, err);
}

int boxlite_image_config_set_workdir(boxlite_image_config *config, const char *dir,
                                     boxlite_error **err)
{
    bx_need(config, err);
    bx_need(dir, err);
    int r = bx_check_guest_path("workdir", dir, err);
    return r < 0 ? r : bx_set_string(&config->workdir, dir, err);
}

int boxlite_image_config_set_user(boxlite_image_config *config, const char *user,
                                  boxlite_error **err)
{
    bx_need(config, err);
    bx_need(user, err);
    int r = bx_check_user("user", user, err);
    return r < 0 ? r : bx_set_string(&config->user, user, err);
}

int boxlite_image_config_add_label(boxlite_image_config *config, const char *name,
                                   const char *value, boxlite_error **err)
{
    bx_need(config, err);
    bx_need(name, err);
    bx_need(value, err);
    int r = bx_check_label(name, err);
    return r < 0 ? r : bx_set_env(&config->labels, "label", name, value, err);
}

static json_t *labels_json(const struct bx_strv *labels)
{
    json_t *obj = json_object();
    int r = obj ? 0 : -1;
    for (size_t i = 0; r == 0 && i < labels->n; i++) {
        const char *eq = strchr(labels->v[i], '=');
        _cleanup_free_ char *name = strndup(labels->v[i], (size_t)(eq - labels->v[i]));
        r = name ? bx_json_set(obj, name, bx_json_bytes(eq + 1, strlen(eq + 1))) : -1;
    }
    if (r < 0) {
        json_decref(obj);
        return NULL;
    }
    return obj;
}

json_t *bx_image_config_json(const boxlite_image_config *c)
{
    const struct {
        const char *key;
        const struct bx_strv *value;
    } lists[] = {{"Entrypoint", &c->entrypoint}, {"Cmd", &c->command}, {"Env", &c->env}};
    _cleanup_json_ json_t *obj = json_object();
    int r = obj ? 0 : -1;

    for (size_t i = 0; r == 0 && i < BX_ARRAY_SIZE(lists); i++) {
        if (lists[i].value->n) {
            r = bx_json_set(obj, lists[i].key, bx_json_from_strv(lists[i].value));
        }
    }
    if (r == 0 && c->workdir) {
        r = bx_json_set(obj, "WorkingDir", bx_json_bytes(c->workdir, strlen(c->workdir)));
    }
    if (r == 0 && c->user) {
        r = bx_json_set(obj, "User", bx_json_bytes(c->user, strlen(c->user)));
    }
    if (r == 0 && c->labels.n) {
        r = bx_json_set(obj, "Labels", labels_json(&c->labels));
    }
    return r < 0 ? NULL : steal_ptr(&obj);
}
