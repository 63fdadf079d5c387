/* SPDX-License-Identifier: Apache-2.0 */
/*
 * values.h: text to numbers and back. Each parser takes the whole text or refuses it: 0 or -1 (nonsense), -2 (too large
 * to represent).
 */
#ifndef CLI_VALUES_H
#define CLI_VALUES_H

#include "cli/util.h"

int cli_parse_number(const char *text, uint64_t *ret);
/* Bytes: a whole number with an optional k, m, g or t (powers of 1024, any case, "B" or "iB" may follow). */
int cli_parse_size(const char *text, uint64_t *ret);
/* Milliseconds: seconds as a decimal number, or numbers with h, m, s, ms in falling order: "1h30m", "1.5s". */
int cli_parse_time(const char *text, uint64_t *ret_ms);
/* A signal's number from "TERM", "SIGTERM", "15"; -1 if there is none. Linux numbers. */
int cli_parse_signal(const char *text);

#define CLI_VALUE_TEXT 32
/* "1.5 MiB"; "37 MiB"; "12 B" */
void cli_size_text(uint64_t bytes, char ret[CLI_VALUE_TEXT]);
/* The shortest form that cli_parse_size() reads back: "512M". */
void cli_size_exact(uint64_t bytes, char ret[CLI_VALUE_TEXT]);
/* In the largest unit that tells it whole: "87600h"; cli_parse_time() reads it back. */
void cli_time_exact(uint64_t ms, char ret[CLI_VALUE_TEXT]);
/* "3 minutes ago" */
void cli_age_text(int64_t then, int64_t now, char ret[CLI_VALUE_TEXT]);
/* "2026-11-30T16:40:02Z" */
void cli_time_text(int64_t then, char ret[CLI_VALUE_TEXT]);
/* "5 s", "1 m 30 s", "250 ms" */
void cli_duration_text(uint64_t ms, char ret[CLI_VALUE_TEXT]);

#endif
