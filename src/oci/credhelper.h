/* SPDX-License-Identifier: Apache-2.0 */
/*
 * credhelper.h: Docker's credential helpers, the programs "docker-credential-NAME".
 */
#ifndef BX_OCI_CREDHELPER_H
#define BX_OCI_CREDHELPER_H

#include "oci/credentials.h"

/* Whether NAME may become part of a program's name. */
bool bx_credhelper_valid(const char *name);
/* user stays NULL if it knows none. */
int bx_credhelper_get(const char *name, const char *server, struct bx_credential *ret,
                      boxlite_error **err);
int bx_credhelper_store(const char *name, const char *server, const char *user, const char *secret,
                        boxlite_error **err);
int bx_credhelper_erase(const char *name, const char *server, boxlite_error **err);

#endif
