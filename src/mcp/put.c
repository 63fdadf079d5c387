/* SPDX-License-Identifier: Apache-2.0 */
/*
 * put.c: files into an environment, as a shell script that carries them in base64: it needs nothing in the image but a
 * shell and base64, takes any bytes and names, and never a command line's length. A file appears whole: it is written
 * beside its place and renamed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/mcp.h"

/* 'a'\''b' */
static void put_quoted(FILE *f, const char *s)
{
    fputc('\'', f);
    for (; *s; s++) {
        if (*s == '\'') {
            fputs("'\\''", f);
        } else {
            fputc(*s, f);
        }
    }
    fputc('\'', f);
}

static int put_file(FILE *f, const struct mcp_file *file)
{
    _cleanup_free_ char *text = mcp_base64(file->data, file->len);
    if (!text) {
        return -1;
    }
    fputs("p=", f);
    put_quoted(f, file->path);
    fputs("\ncase $p in /*) ;; *) p=./$p;; esac\nd=${p%/*}; [ -z \"$d\" ] || mkdir -p \"$d\" || exit 1\n"
          "[ ! -d \"$p\" ] || { echo \"boxlite: $p is a folder\" >&2; exit 1; }\n", f);
    fputs(file->append ? "base64 -d >> \"$p\" <<'END' || exit 1\n"
                       : "t=$p.boxlite.$$; [ ! -e \"$p\" ] || cp -p \"$p\" \"$t\" 2>/dev/null\n"
                         "base64 -d > \"$t\" <<'END' && mv -f \"$t\" \"$p\" || { rm -f \"$t\"; exit 1; }\n", f);
    for (size_t off = 0, len = strlen(text); off < len; off += 76) {
        fprintf(f, "%.76s\n", text + off);
    }
    fputs("END\n", f);
    return 0;
}

char *mcp_put_script(const struct mcp_file *files, size_t n)
{
    char *script = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&script, &size);
    int r = f ? 0 : -1;

    if (f) {
        fputs("mkdir -p /workspace 2>/dev/null; cd /workspace 2>/dev/null && [ -w . ] || cd /tmp || exit 126\n", f);
    }
    for (size_t i = 0; i < n && r == 0; i++) {
        r = put_file(f, &files[i]);
    }
    if (f && (fclose(f) != 0 || r < 0)) {
        free(script);
        return NULL;
    }
    return script;
}
