/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.c: see config.h.
 */
#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "guest/config.h"
#include "wire/proto.h"

#define FILES_MAX 64

struct string_field {
    uint16_t tag;
    size_t offset;
};

static const struct string_field string_fields[] = {
    {BX_T_ROOT_DEV, offsetof(struct config, root_dev)},
    {BX_T_ROOT_TYPE, offsetof(struct config, root_type)},
    {BX_T_UPPER_DEV, offsetof(struct config, upper_dev)},
    {BX_T_UPPER_TYPE, offsetof(struct config, upper_type)},
    {BX_T_HOSTNAME, offsetof(struct config, hostname)},
    {BX_T_NET_ADDR, offsetof(struct config, net_addr)},
    {BX_T_NET_GATEWAY, offsetof(struct config, net_gateway)},
    {BX_T_USER, offsetof(struct config, user)},
};

static int parse_file(const struct bx_field *f, struct config *cfg)
{
    const uint8_t *nul = f->len > 0 ? memchr(f->data, 0, f->len) : NULL;
    if (!nul || f->data[0] != '/' || cfg->nfiles >= FILES_MAX) {
        return -EPROTO;
    }
    struct config_file *files = realloc(cfg->files, (cfg->nfiles + 1) * sizeof(*files));
    if (!files) {
        return -ENOMEM;
    }
    cfg->files = files;
    struct config_file *file = &files[cfg->nfiles];
    file->len = f->len - (size_t)(nul + 1 - f->data);
    file->path = strdup((const char *)f->data);
    file->data = malloc(file->len + 1);
    cfg->nfiles++;
    if (!file->path || !file->data) {
        return -ENOMEM;
    }
    memcpy(file->data, nul + 1, file->len);
    return 0;
}

static int parse_mount(const struct bx_field *f, struct config *cfg)
{
    if (f->len < 3 || f->data[1] != '/' || memchr(f->data + 1, 0, f->len - 1) ||
        cfg->nmounts >= CONFIG_MOUNTS_MAX) {
        return -EPROTO;
    }
    struct config_mount *m = &cfg->mounts[cfg->nmounts];
    m->flags = f->data[0];
    m->guest = strndup((const char *)f->data + 1, f->len - 1);
    cfg->nmounts += m->guest != NULL;
    return m->guest ? 0 : -ENOMEM;
}

static int parse_string(const struct bx_field *f, struct config *cfg)
{
    for (size_t i = 0; i < BX_ARRAY_SIZE(string_fields); i++) {
        if (string_fields[i].tag == f->tag) {
            char **p = (char **)((char *)cfg + string_fields[i].offset);
            free(*p);
            *p = NULL;
            return bx_field_str(f, p);
        }
    }
    return 0; /* unknown: a newer host */
}

int config_parse(const struct bx_msg *msg, struct config *cfg)
{
    struct bx_msg walk = *msg;
    struct bx_field f;
    int r;
    *cfg = (struct config){0};
    while ((r = bx_msg_next(&walk, &f)) > 0) {
        switch (f.tag) {
        case BX_T_FILE:
            r = parse_file(&f, cfg);
            break;
        case BX_T_MOUNT:
            r = parse_mount(&f, cfg);
            break;
        case BX_T_CLOCK_NS:
            r = bx_field_u64(&f, INT64_MAX, &cfg->clock_ns);
            break;
        case BX_T_NET_MTU:
            r = bx_field_u64(&f, 65535, &cfg->net_mtu);
            break;
        default:
            r = parse_string(&f, cfg);
        }
        if (r < 0) {
            return r;
        }
    }
    if (r == 0 && (!cfg->root_dev || !cfg->root_type || (cfg->upper_dev && !cfg->upper_type))) {
        r = -EPROTO;
    }
    return r;
}

void config_done(struct config *cfg)
{
    for (size_t i = 0; i < BX_ARRAY_SIZE(string_fields); i++) {
        free(*(char **)((char *)cfg + string_fields[i].offset));
    }
    for (size_t i = 0; i < cfg->nfiles; i++) {
        free(cfg->files[i].path);
        free(cfg->files[i].data);
    }
    free(cfg->files);
    for (size_t i = 0; i < cfg->nmounts; i++) {
        free(cfg->mounts[i].guest);
    }
    *cfg = (struct config){0};
}
