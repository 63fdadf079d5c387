/* SPDX-License-Identifier: Apache-2.0 */
/* history.c: see history.h. A history is for people to read; nothing depends on it. */
#include "oci/history.h"

#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/json.h"
#include "oci/manifest.h"

#define STEPS_MAX 4096u

int64_t bx_parse_date(const char *text)
{
    struct tm tm = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    int hours = 0, minutes = 0;
    int64_t at;

    if (!rest) {
        return 0;
    }
    at = (int64_t)timegm(&tm);
    if (*rest == '.') {
        rest += 1 + strspn(rest + 1, "0123456789");
    }
    if ((*rest == '+' || *rest == '-') && sscanf(rest + 1, "%2d:%2d", &hours, &minutes) == 2) {
        int64_t offset = hours * 3600 + minutes * 60;
        return *rest == '+' ? at - offset : at + offset;
    }
    return *rest == 'Z' || *rest == 'z' ? at : 0;
}

void bx_history_done(struct bx_history *h)
{
    for (size_t i = 0; i < h->n; i++) {
        free(h->v[i].created_by);
        free(h->v[i].comment);
        free(h->v[i].layer);
    }
    free(h->v);
    *h = (struct bx_history){0};
}

/* The member's text, "" if it has none. */
static char *copy_text(const json_t *v, const char *key)
{
    const char *text = json_string_value(json_object_get(v, key));

    return strdup(text ? text : "");
}

static int add_step(struct bx_history *h, const json_t *v, const struct bx_descriptor *layer,
                    boxlite_error **err)
{
    const char *created = json_string_value(json_object_get(v, "created"));
    struct bx_history_step *s = &h->v[h->n++];

    *s = (struct bx_history_step){.created = created ? bx_parse_date(created) : 0,
                                  .created_by = copy_text(v, "created_by"),
                                  .comment = copy_text(v, "comment"),
                                  .layer = layer ? strdup(layer->digest) : NULL,
                                  .size = layer ? layer->size : 0};
    return s->created_by && s->comment && (s->layer || !layer) ? 0 : bx_fail_oom(err);
}

static bool is_empty(const json_t *step)
{
    return json_is_true(json_object_get(step, "empty_layer"));
}

static bool fits(const json_t *steps, const struct bx_manifest *m)
{
    size_t layers = 0;

    for (size_t i = 0; i < json_array_size(steps); i++) {
        layers += !is_empty(json_array_get(steps, i));
    }
    return layers == m->n && json_array_size(steps) <= STEPS_MAX;
}

static int fill(struct bx_history *h, const json_t *steps, const struct bx_manifest *m,
                boxlite_error **err)
{
    size_t n = fits(steps, m) ? json_array_size(steps) : 0, layer = 0;
    int r = 0;

    h->v = calloc(n + m->n + 1, sizeof(*h->v));
    if (!h->v) {
        return bx_fail_oom(err);
    }
    for (size_t i = 0; r == 0 && i < n; i++) {
        const json_t *step = json_array_get(steps, i);
        r = add_step(h, step, is_empty(step) ? NULL : &m->items[layer++], err);
    }
    for (; r == 0 && layer < m->n; layer++) {
        r = add_step(h, NULL, &m->items[layer], err);
    }
    return r;
}

int bx_history_read(const struct bx_image_row *row, struct bx_history *ret, boxlite_error **err)
{
    _cleanup_manifest_ struct bx_manifest m = {0};
    _cleanup_json_ json_t *config = NULL;
    struct bx_history h = {0};
    int r = bx_manifest_parse(row->manifest, strlen(row->manifest), "manifest", &m, err);

    if (r == 0) {
        r = bx_json_parse(row->config, strlen(row->config), "image config", &config, err);
    }
    if (r == 0) {
        r = fill(&h, json_object_get(config, "history"), &m, err);
    }
    if (r < 0) {
        bx_history_done(&h);
        return r;
    }
    *ret = h;
    return 0;
}
