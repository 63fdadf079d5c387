/* SPDX-License-Identifier: Apache-2.0 */
/*
 * util.c: see util.h. The edit distance is Damerau's restricted one: a swap of neighbours, the commonest slip of
 * fingers, counts as one.
 */
#include "cli/util.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "cli/errors.h"

#define WORD_MAX 40

void cli_die_memory(void)
{
    static const char message[] = "boxlite: out of memory\n";

    (void)!write(STDERR_FILENO, message, sizeof(message) - 1);
    exit(CLI_EXIT_ERROR);
}

void *cli_alloc(size_t size)
{
    void *p = calloc(1, size ? size : 1);

    if (!p) {
        cli_die_memory();
    }
    return p;
}

void *cli_grow(void *old, size_t size)
{
    void *p = realloc(old, size ? size : 1);

    if (!p) {
        cli_die_memory();
    }
    return p;
}

char *cli_text(const char *format, ...)
{
    char *text;
    va_list ap;

    va_start(ap, format);
    int n = vasprintf(&text, format, ap);
    va_end(ap);
    if (n < 0) {
        cli_die_memory();
    }
    return text;
}

char *cli_copy(const char *text, size_t length)
{
    char *copy = cli_alloc(length + 1);

    memcpy(copy, text, length);
    return copy;
}

void cli_list_add(struct cli_list *list, const char *item)
{
    list->items = cli_grow(list->items, (list->count + 1) * sizeof(*list->items));
    list->items[list->count++] = item;
}

void cli_list_done(struct cli_list *list)
{
    free(list->items);
    *list = (struct cli_list){0};
}

bool cli_words_have(const char *words, const char *word, size_t length)
{
    while (*words) {
        size_t n = strcspn(words, " ");

        if (n == length && memcmp(words, word, n) == 0) {
            return true;
        }
        words += n + (words[n] == ' ');
    }
    return false;
}

uint64_t cli_now_us(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000u + (uint64_t)ts.tv_nsec / 1000u;
}

int cli_write_all(int fd, const void *data, size_t size)
{
    const char *p = data;

    while (size > 0) {
        ssize_t n = write(fd, p, size);

        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            return -errno;
        }
        p += n;
        size -= (size_t)n;
    }
    return 0;
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

static unsigned distance(const char *a, const char *b)
{
    size_t na = strlen(a), nb = strlen(b);
    unsigned rows[3][WORD_MAX + 1];
    unsigned *before = rows[0], *last = rows[1], *row = rows[2];

    if (na > WORD_MAX || nb > WORD_MAX) {
        return WORD_MAX;
    }
    for (size_t j = 0; j <= nb; j++) {
        last[j] = (unsigned)j;
        before[j] = 0;
    }
    for (size_t i = 1; i <= na; i++) {
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= nb; j++) {
            row[j] = least(least(last[j], row[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                row[j] = least(row[j], before[j - 2] + 1);
            }
        }
        unsigned *spare = before;
        before = last;
        last = row;
        row = spare;
    }
    return last[nb];
}

const char *cli_nearest(const char *word, const char *const *words)
{
    const char *best = NULL;
    unsigned best_distance = (unsigned)least((unsigned)strlen(word) / 3 + 1, 3) + 1;

    for (; *words; words++) {
        unsigned d = distance(word, *words);

        if (d < best_distance) {
            best = *words;
            best_distance = d;
        }
    }
    return best;
}
