/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay.c: runs a fuzz target as an ordinary test: replay CORPUS_FOLDER [MUTATIONS].
 *
 * Every file of the corpus goes in as it is, then a fixed number of mutations of them, made by a
 * generator with a fixed seed, so that a failure comes again in the next run. Each input lies in
 * memory of exactly its size, where a sanitizer sees a read behind its end. On a crash the
 * last input is in ./replay-crash.bin of the working folder.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"

#define FILES_MAX 4096
#define SIZE_LIMIT 65536
#define DEFAULT_MUTATIONS 4000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    uint8_t *data;
    size_t size;
};

static struct input corpus[FILES_MAX];
static size_t corpus_len;
static uint64_t state = 0x9e3779b97f4a7c15; /* xorshift64; any value but 0 */
static const uint8_t *current;
static size_t current_size;

static uint32_t below(uint32_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return n ? (uint32_t)(state >> 32) % n : 0;
}

/* Keeps the input that crashed; only system calls. */
static void on_crash(int signo)
{
    int fd = open("replay-crash.bin", O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
    ssize_t n = fd < 0 ? 0 : write(fd, current, current_size);
    (void)n;
    signal(signo, SIG_DFL);
    raise(signo);
}

static void feed(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size ? size : 1);
    if (!exact) {
        abort();
    }
    memcpy(exact, data, size);
    current = data;
    current_size = size;
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

static void load(const char *folder, const char *name)
{
    static uint8_t buf[SIZE_LIMIT];
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *f = fopen(path, "re");
    if (!f || corpus_len == FILES_MAX) {
        fprintf(stderr, "replay: cannot take %s\n", path);
        exit(2);
    }
    size_t n = fread(buf, 1, sizeof(buf), f);
    fclose(f);
    uint8_t *copy = malloc(n ? n : 1);
    if (!copy) {
        abort();
    }
    memcpy(copy, buf, n);
    corpus[corpus_len++] = (struct input){copy, n};
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* In the order of names, so that the mutations do not depend on the file system. */
static void load_all(const char *folder)
{
    char *names[FILES_MAX];
    size_t n = 0;
    DIR *d = opendir(folder);
    const struct dirent *e;
    while (d && (e = readdir(d)) && n < FILES_MAX) {
        if (e->d_name[0] != '.') {
            names[n++] = strdup(e->d_name);
        }
    }
    if (d) {
        closedir(d);
    }
    qsort(names, n, sizeof(names[0]), by_name);
    for (size_t i = 0; i < n; i++) {
        load(folder, names[i]);
        free(names[i]);
    }
}

/* ---- Mutations: each changes buf (of SIZE_LIMIT bytes, size in use) and returns its new size ----- */

static size_t flip_bit(uint8_t *buf, size_t size)
{
    if (size) {
        buf[below((uint32_t)size)] ^= (uint8_t)(1u << below(8));
    }
    return size;
}

static size_t set_byte(uint8_t *buf, size_t size)
{
    static const uint8_t odd[] = {0, 1, 0x7f, 0x80, 0xff, '"', '\\', '{', '[', '9', '-', '\n'};
    if (size) {
        buf[below((uint32_t)size)] = odd[below(sizeof(odd))];
    }
    return size;
}

/* A number of 1, 2, 4 or 8 bytes at the edge of its range, in either byte order. */
static size_t set_number(uint8_t *buf, size_t size)
{
    size_t width = (size_t)1 << below(4);
    if (size < width) {
        return size;
    }
    static const int64_t edges[] = {0, 1, -1, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, 65535};
    uint64_t v = (uint64_t)edges[below(BX_ARRAY_SIZE(edges))];
    uint8_t *at = buf + below((uint32_t)(size - width + 1));
    bool big = below(2);
    for (size_t i = 0; i < width; i++) {
        at[big ? width - 1 - i : i] = (uint8_t)(v >> (8 * i));
    }
    return size;
}

static size_t delete_range(uint8_t *buf, size_t size)
{
    if (size == 0) {
        return 0;
    }
    size_t at = below((uint32_t)size);
    size_t n = 1 + below((uint32_t)(size - at));
    memmove(buf + at, buf + at + n, size - at - n);
    return size - n;
}

static size_t insert(uint8_t *buf, size_t size, const uint8_t *what, size_t n)
{
    n = n > SIZE_LIMIT - size ? SIZE_LIMIT - size : n;
    size_t at = below((uint32_t)size + 1);
    memmove(buf + at + n, buf + at, size - at);
    memcpy(buf + at, what, n);
    return size + n;
}

static size_t insert_noise(uint8_t *buf, size_t size)
{
    uint8_t noise[16];
    size_t n = 1 + below(sizeof(noise));
    for (size_t i = 0; i < n; i++) {
        noise[i] = (uint8_t)below(256);
    }
    return insert(buf, size, noise, n);
}

/* A piece of a file of the corpus. */
static size_t insert_piece(uint8_t *buf, size_t size)
{
    const struct input *in = &corpus[below((uint32_t)corpus_len)];
    if (in->size == 0) {
        return size;
    }
    size_t at = below((uint32_t)in->size);
    return insert(buf, size, in->data + at, 1 + below((uint32_t)(in->size - at)));
}

static void feed_mutation(uint8_t *buf)
{
    static size_t (*const mutations[])(uint8_t *, size_t) = {
        flip_bit, set_byte, set_number, delete_range, insert_noise, insert_piece};
    const struct input *in = &corpus[below((uint32_t)corpus_len)];
    size_t size = in->size;
    memcpy(buf, in->data, size);
    for (uint32_t n = 1 + below(6); n > 0; n--) {
        size = mutations[below(BX_ARRAY_SIZE(mutations))](buf, size);
    }
    feed(buf, size);
}

int main(int argc, char **argv)
{
    static uint8_t buf[SIZE_LIMIT];
    uint64_t count = DEFAULT_MUTATIONS;
    if (argc < 2 || argc > 3 || (argc == 3 && bx_parse_u64(argv[2], UINT32_MAX, &count) < 0)) {
        fprintf(stderr, "usage: %s CORPUS_FOLDER [MUTATIONS]\n", argv[0]);
        return 2;
    }
    load_all(argv[1]);
    if (corpus_len == 0) {
        fprintf(stderr, "replay: no corpus in %s\n", argv[1]);
        return 2;
    }
    signal(SIGSEGV, on_crash);
    signal(SIGABRT, on_crash);
    feed(buf, 0);
    for (size_t i = 0; i < corpus_len; i++) {
        feed(corpus[i].data, corpus[i].size);
    }
    for (uint64_t i = 0; i < count; i++) {
        feed_mutation(buf);
    }
    for (size_t i = 0; i < corpus_len; i++) {
        free(corpus[i].data);
    }
    return 0;
}
