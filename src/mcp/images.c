/* SPDX-License-Identifier: Apache-2.0 */
/*
 * images.c: pictures that a program leaves. A call that names some ("plot.png", "*.png", in its code or command) gets those
 * that are newer than its start, as image content beside its result. Python code that plots runs with a backend of
 * matplotlib that saves what pyplot's show() would show, as main_figure_1.png and so on.
 *
 * The pictures are fetched by one more command in the environment, and only where a call names some. What only claims to
 * be a picture is told by its path: a client that hands it to its model as an image would break their conversation.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/mcp.h"

#define NAMED_MAX 16
#define NAME_MAX_LEN 255
#define SHOWN_MAX 8

/* The backend protocol of matplotlib ("module://NAME"): FigureCanvas, FigureManager, show. */
const char mcp_figures_module[] =
    "\"\"\"A matplotlib backend that saves the figures that pyplot shows.\"\"\"\n"
    "import os\n"
    "import sys\n"
    "\n"
    "from matplotlib._pylab_helpers import Gcf\n"
    "from matplotlib.backend_bases import FigureManagerBase\n"
    "from matplotlib.backends.backend_agg import FigureCanvasAgg\n"
    "\n"
    "_main = getattr(sys.modules.get('__main__'), '__file__', None) or 'main.py'\n"
    "_base = os.path.splitext(os.path.abspath(_main))[0]\n"
    "_shown = 0\n"
    "\n"
    "\n"
    "class FigureManager(FigureManagerBase):\n"
    "    @classmethod\n"
    "    def pyplot_show(cls, *, block=None):\n"
    "        show()\n"
    "\n"
    "    def show(self):\n"
    "        global _shown\n"
    "        _shown += 1\n"
    "        self.canvas.figure.savefig(f'{_base}_figure_{_shown}.png')\n"
    "\n"
    "\n"
    "class FigureCanvas(FigureCanvasAgg):\n"
    "    manager_class = FigureManager\n"
    "\n"
    "\n"
    "def show(*args, **kwargs):\n"
    "    for manager in Gcf.get_all_fig_managers():\n"
    "        manager.show()\n"
    "    Gcf.destroy_all()\n";

/* $1: a file as old as the call; $2: not empty: remove it; then patterns. Prints for each picture its path, its size (with a
 * minus if it is too large to be shown), and its bytes. */
static const char SCRIPT[] =
    "mark=$1; remove=$2; shift 2; [ -e \"$mark\" ] || cd /tmp; n=0; left=2097152; seen=/\n"
    "IFS='\n'\n"
    "for pattern; do for f in $pattern; do\n"
    "  [ -f \"$f\" ] && [ \"$f\" -nt \"$mark\" ] || continue\n"
    "  case $f in /*) p=$f;; *) p=$PWD/${f#./};; esac\n"
    "  case $seen in *\"//$p//\"*) continue;; esac\n"
    "  seen=$seen//$p//; n=$((n + 1)); [ $n -le 8 ] || break 2\n"
    "  size=$(($(wc -c < \"$f\")))\n"
    "  if [ $size -le $left ]; then left=$((left - size)); printf '%s\\n%d\\n' \"$p\" $size; cat \"$f\"\n"
    "  else printf '%s\\n-%d\\n' \"$p\" $size; fi\n"
    "done; done\n"
    "[ -z \"$remove\" ] || rm -f \"$mark\"";

/* ---- Kinds */

static const struct kind {
    const char *ending, *mime, *magic;
    size_t magic_len, magic_at;
} kinds[] = {
    {".png", "image/png", "\x89PNG\r\n\x1a\n", 8, 0},
    {".jpg", "image/jpeg", "\xff\xd8\xff", 3, 0},
    {".jpeg", "image/jpeg", "\xff\xd8\xff", 3, 0},
    {".gif", "image/gif", "GIF8", 4, 0},
    {".webp", "image/webp", "WEBP", 4, 8},
};

static const struct kind *kind_of(const char *path, size_t n)
{
    for (size_t i = 0; i < BX_ARRAY_SIZE(kinds); i++) {
        size_t k = strlen(kinds[i].ending);
        if (n > k && strncasecmp(path + n - k, kinds[i].ending, k) == 0) {
            return &kinds[i];
        }
    }
    return NULL;
}

bool mcp_image_named(const char *path)
{
    return kind_of(path, strlen(path)) != NULL;
}

const char *mcp_image_type(const char *path, const void *data, size_t len)
{
    const struct kind *k = kind_of(path, strlen(path));
    bool good = k && len >= k->magic_at + k->magic_len &&
                memcmp((const char *)data + k->magic_at, k->magic, k->magic_len) == 0;
    return good ? k->mime : NULL;
}

/* ---- Which ones */

static bool in_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("._-/+@*?", c));
}

void mcp_images_add(json_t *names, const char *name)
{
    size_t i;
    json_t *old;
    json_array_foreach(names, i, old)
    {
        if (strcmp(json_string_value(old), name) == 0) {
            return;
        }
    }
    if (json_array_size(names) < NAMED_MAX) {
        json_array_append_new(names, json_string(name));
    }
}

void mcp_images_named(json_t *names, const char *text)
{
    while (*text) {
        char name[NAME_MAX_LEN + 1];
        size_t n = 0;
        while (in_name(text[n])) {
            n++;
        }
        if (n <= NAME_MAX_LEN && kind_of(text, n) && text[0] != '-') {
            snprintf(name, sizeof(name), "%.*s", (int)n, text);
            mcp_images_add(names, name);
        }
        text += n > 0 ? n : 1;
    }
}

bool mcp_code_plots(const char *text)
{
    return strstr(text, "plot") || strstr(text, "seaborn") || strstr(text, "pylab");
}

/* ---- Fetching */

int mcp_images_start(struct mcp_server *s, struct mcp_environment *env,
                     const struct mcp_images *wanted, mcp_job_fn fn, void *data,
                     struct mcp_job **ret)
{
    const char *argv[6 + NAMED_MAX] = {
        "/bin/sh", "-c", SCRIPT, "sh", wanted->mark, wanted->remove_mark ? "remove" : ""};
    struct mcp_job_spec spec = {
        .argv = argv,
        .argc = 6,
        .workdir = wanted->workdir,
        .timeout_s = mcp_server_options(s)->timeout_s,
        .capture =
            9u << 20, /* the first third is kept from the beginning: all that the script gives */
    };
    size_t i;
    json_t *name;

    json_array_foreach(wanted->names, i, name)
    {
        argv[spec.argc++] = json_string_value(name);
    }
    return mcp_job_start(s, env, &spec, fn, data, ret);
}

/* One line up to its newline; NULL at the end. */
static char *take_line(const char **p, size_t *left)
{
    const char *nl = memchr(*p, '\n', *left);
    char *line = nl ? strndup(*p, (size_t)(nl - *p)) : NULL;
    if (line) {
        *left -= (size_t)(nl + 1 - *p);
        *p = nl + 1;
    }
    return line;
}

static void add_shown(json_t *list, json_t *content, const char *path, const char *data, size_t len,
                      bool here)
{
    const char *mime = here ? mcp_image_type(path, data, len) : NULL;
    _cleanup_free_ char *text = mime ? mcp_base64(data, len) : NULL;
    _cleanup_free_ char *clean = malloc(3 * strlen(path) + 1);
    bool bad = false;

    if (!clean) {
        return;
    }
    clean[mcp_utf8_clean(clean, path, strlen(path), &bad)] = '\0';
    if (text) {
        json_array_append_new(
            content, json_pack("{s:s, s:s, s:s}", "type", "image", "data", text, "mimeType", mime));
    }
    json_array_append_new(list, json_pack("{s:s, s:I, s:b}", "path", clean, "bytes",
                                          (json_int_t)len, "shown", text != NULL));
}

json_t *mcp_images_take(const struct mcp_job *job, json_t *result)
{
    struct mcp_failure why;
    struct mcp_outcome o;
    size_t left = 0;
    json_t *list = json_array(), *content = json_array();
    _cleanup_free_ char *bytes = NULL;

    if (!mcp_job_failed(job, &why)) {
        mcp_job_outcome(job, &o);
        bytes = mcp_capture_bytes(o.out, &left);
    }
    for (const char *p = bytes; p && left > 0 && json_array_size(list) < SHOWN_MAX;) {
        _cleanup_free_ char *path = take_line(&p, &left), *number = take_line(&p, &left);
        bool here = number && number[0] != '-';
        unsigned long long size = number ? strtoull(here ? number : number + 1, NULL, 10) : 0;
        if (!number || (here && size > left)) {
            break;
        }
        add_shown(list, content, path, p, (size_t)size, here);
        p += here ? size : 0;
        left -= here ? (size_t)size : 0;
    }
    if (json_array_size(list) > 0) {
        json_object_set(result, "images", list);
    }
    json_decref(list);
    return content;
}
