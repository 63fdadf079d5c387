/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libexec.c: where the programs that the library starts are. Asked for, else from the environment,
 * else beside the library or the program (a build tree, a Python wheel, a moved installation), else
 * where the installation put them.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/path.h"
#include "base/str.h"
#include "box/runtime.h"
#include "box/shimproc.h"
#include "config.h"

static bool has_shim(const char *dir)
{
    char path[PATH_MAX]; /* no allocation: want of memory is not want of the program */
    int n = snprintf(path, sizeof(path), "%s/%s", dir, BX_SHIM_PROGRAM);
    return n > 0 && (size_t)n < sizeof(path) && access(path, X_OK) == 0;
}

/* The folders beside a file: FOLDER/libexec, FOLDER/../libexec/boxlite, and from lib/TRIPLET. */
static char *beside(const char *file)
{
    static const char *const places[] = {"libexec", "../libexec/boxlite", "../../libexec/boxlite"};
    _cleanup_free_ char *real = file ? realpath(file, NULL) : NULL;
    char *slash = real ? strrchr(real, '/') : NULL;

    if (!slash) {
        return NULL;
    }
    *slash = '\0';
    for (size_t i = 0; i < BX_ARRAY_SIZE(places); i++) {
        _cleanup_free_ char *dir = bx_path_join(real, places[i]);
        if (dir && has_shim(dir)) {
            return realpath(dir, NULL);
        }
    }
    return NULL;
}

static const char *own_file(void)
{
    static const char anchor = 0;
    Dl_info info;
    return dladdr(&anchor, &info) ? info.dli_fname : NULL;
}

int bx_libexec_find(const char *asked, char **ret, boxlite_error **err)
{
    const char *dir = asked ? asked : secure_getenv("BOXLITE_LIBEXEC");
    char *found;

    if (dir && *dir) {
        if (!has_shim(dir)) {
            bx_fail(err, BOXLITE_E_NOT_FOUND, "no program %s in %s", BX_SHIM_PROGRAM, dir);
            bx_hint(err,
                    asked ? "correct the runtime's libexec option" : "correct BOXLITE_LIBEXEC");
            return BOXLITE_E_NOT_FOUND;
        }
        found = bx_path_absolute(dir);
    } else {
        found = beside(own_file());
        found = found ? found : beside("/proc/self/exe");
        if (!found && has_shim(BX_LIBEXECDIR)) {
            found = strdup(BX_LIBEXECDIR);
        }
        if (!found) {
            bx_fail(err, BOXLITE_E_NOT_FOUND,
                    "the program %s was found neither beside the library nor in %s",
                    BX_SHIM_PROGRAM, BX_LIBEXECDIR);
            bx_hint(
                err,
                "install BoxLite completely, or set BOXLITE_LIBEXEC to the folder that holds it");
            return BOXLITE_E_NOT_FOUND;
        }
    }
    if (!found) {
        return bx_fail_oom(err);
    }
    *ret = found;
    return 0;
}
