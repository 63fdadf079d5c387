/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pull.c: an image that is not here, brought from its registry for an environment: under way beside everything else, with one
 * line that says how far it is. What may be pulled is a rule of its own: a reference that a model makes up names the host
 * that is spoken to, which must not be any host of the world unless the user says so.
 */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/mcp.h"

#define PARTS_MAX 128

struct part {
    char digest[80];
    uint64_t done, total;
};

struct mcp_pull {
    char *image;
    mcp_pulled_fn fn;
    void *data;
    boxlite_transfer *transfer;
    bool ended, abandoned; /* both: to be freed; the library may still call until it has ended */
    struct part parts[PARTS_MAX];
    size_t nparts;
    char says[300];
};

/* ---- The rule */

char *mcp_image_full_name(const char *image)
{
    const char *slash = strchr(image, '/');
    size_t first = slash ? (size_t)(slash - image) : 0;
    bool has_host =
        slash && (memchr(image, '.', first) || memchr(image, ':', first) ||
                  (first == strlen("localhost") && strncmp(image, "localhost", first) == 0));
    return mcp_printf("%s%s%s", has_host ? "" : "docker.io/", slash ? "" : "library/", image);
}

bool mcp_patterns_match(const char *patterns, const char *text)
{
    _cleanup_free_ char *copy = strdup(patterns);
    char *rest = copy, *pattern;
    while (copy && (pattern = strsep(&rest, ",")) != NULL) {
        if (fnmatch(pattern, text, 0) == 0) {
            return true;
        }
    }
    return false;
}

bool mcp_pull_allowed(const struct mcp_options *o, const char *image)
{
    _cleanup_free_ char *full = mcp_image_full_name(image);
    return full && mcp_patterns_match(o->allow_pull, full);
}

/* ---- How far it is */

static struct part *part_of(struct mcp_pull *p, const char *digest)
{
    for (size_t i = 0; i < p->nparts; i++) {
        if (strcmp(p->parts[i].digest, digest) == 0) {
            return &p->parts[i];
        }
    }
    if (p->nparts == PARTS_MAX) {
        return NULL;
    }
    snprintf(p->parts[p->nparts].digest, sizeof(p->parts[0].digest), "%s", digest);
    return &p->parts[p->nparts++];
}

static void on_event(void *data, const boxlite_transfer_event *event)
{
    struct mcp_pull *p = data;
    struct part *part =
        event->digest && strcmp(event->kind, "layer") == 0 ? part_of(p, event->digest) : NULL;
    double done = 0, total = 0;

    if (part) {
        part->done = event->done;
        part->total = event->total;
    }
    for (size_t i = 0; i < p->nparts; i++) {
        done += (double)p->parts[i].done;
        total += (double)p->parts[i].total;
    }
    if (event->note) {
        snprintf(p->says, sizeof(p->says), "pulling %.100s: %s", p->image, event->note);
    } else if (strcmp(event->kind, "root") == 0) {
        snprintf(p->says, sizeof(p->says), "pulling %.100s: building its root file system",
                 p->image);
    } else if (total > 0) {
        snprintf(p->says, sizeof(p->says), "pulling %.100s: %.1f of %.1f MiB", p->image,
                 done / 1048576, total / 1048576);
    }
}

const char *mcp_pull_says(const struct mcp_pull *p)
{
    return p->says;
}

/* ---- Its life */

static void pull_free(struct mcp_pull *p)
{
    boxlite_transfer_free(p->transfer);
    free(p->image);
    free(p);
}

static void on_done(void *data, int result, const boxlite_error *err)
{
    struct mcp_pull *p = data;
    struct mcp_failure why = mcp_failure_of(err);

    p->ended = true;
    if (p->abandoned) {
        pull_free(p);
    } else {
        p->fn(p->data, result < 0 ? &why : NULL);
    }
}

void mcp_pull_free(struct mcp_pull *p)
{
    if (p && p->ended) {
        pull_free(p);
    } else if (p) {
        p->abandoned = true;
        boxlite_transfer_cancel(p->transfer);
    }
}

int mcp_pull_start(boxlite_runtime *rt, const char *image, mcp_pulled_fn fn, void *data,
                   struct mcp_pull **ret, boxlite_error **err)
{
    struct mcp_pull *p = calloc(1, sizeof(*p));
    boxlite_transfer_options *o = NULL;
    int r;

    if (!p || !(p->image = strdup(image))) {
        free(p);
        return BOXLITE_E_NO_MEMORY;
    }
    p->fn = fn;
    p->data = data;
    snprintf(p->says, sizeof(p->says), "pulling %.100s", image);
    r = boxlite_transfer_options_new(&o, err);
    r = r < 0 ? r : boxlite_transfer_options_set_progress(o, on_event, p, err);
    r = r < 0 ? r : boxlite_image_pull_async(rt, image, o, on_done, p, &p->transfer, err);
    boxlite_transfer_options_free(o);
    if (r < 0) {
        pull_free(p);
        return r;
    }
    *ret = p;
    return 0;
}
