/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reference.h: image references as Docker reads them: [HOST[:PORT]/]PATH[:TAG][@DIGEST].
 * "python:3.11" is "docker.io/library/python:3.11"; no tag and no digest means ":latest".
 */
#ifndef BX_OCI_REFERENCE_H
#define BX_OCI_REFERENCE_H

#include <boxlite.h>

struct bx_reference {
    char *host;   /* "docker.io" */
    char *path;   /* "library/python" */
    char *tag;    /* or NULL */
    char *digest; /* or NULL */
};
/* INVALID, with the part that is wrong named. */
int bx_reference_parse(const char *text, struct bx_reference *ret, boxlite_error **err);
void bx_reference_done(struct bx_reference *r);
/* Full form, caller frees; and the short one for people ("python:3.11"). */
char *bx_reference_full(const struct bx_reference *r);
char *bx_reference_short(const struct bx_reference *r);
/* The full form of a name that an image is to get: NAME[:TAG], no digest. Caller frees. */
int bx_reference_tag(const char *text, char **ret, boxlite_error **err);

#endif
