/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_base_error.c: error objects: codes, chain of context, one line, and life without memory.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/str.h"
#include "harness.h"

TEST(a_failure_carries_code_message_and_no_more)
{
    boxlite_error *err = NULL;
    ASSERT_EQ(bx_fail(&err, BOXLITE_E_BUSY, "box %s is in use", "b1"), BOXLITE_E_BUSY);
    ASSERT_EQ(boxlite_error_code(err), BOXLITE_E_BUSY);
    ASSERT_EQ(boxlite_error_errno(err), 0);
    ASSERT_STREQ(boxlite_error_message(err), "box b1 is in use");
    ASSERT_NULL(boxlite_error_hint(err));
    boxlite_error_free(err);
}

TEST(no_error_object_is_wanted)
{
    ASSERT_EQ(bx_fail(NULL, BOXLITE_E_IO, "x"), BOXLITE_E_IO);
    ASSERT_EQ(bx_fail_errno(NULL, BOXLITE_E_IO, ENOSPC, "x"), BOXLITE_E_NO_SPACE);
    ASSERT_EQ(bx_fail_oom(NULL), BOXLITE_E_NO_MEMORY);
    ASSERT_EQ(bx_fail_copy(NULL, BOXLITE_E_GUEST, 0, "x", NULL), BOXLITE_E_GUEST);
    bx_wrap(NULL, "x");
    bx_hint(NULL, "x");
    boxlite_error *none = NULL;
    bx_wrap(&none, "x");
    bx_hint(&none, "x");
    ASSERT_NULL(none);
}

TEST(accessors_take_null)
{
    ASSERT_EQ(boxlite_error_code(NULL), BOXLITE_OK);
    ASSERT_EQ(boxlite_error_errno(NULL), 0);
    ASSERT_NOT_NULL(boxlite_error_message(NULL));
    ASSERT_NULL(boxlite_error_hint(NULL));
    boxlite_error_free(NULL);
}

TEST(errno_makes_only_io_finer)
{
    static const struct {
        int code, errnum, want;
    } cases[] = {
        {BOXLITE_E_IO, ENOSPC, BOXLITE_E_NO_SPACE},  {BOXLITE_E_IO, EDQUOT, BOXLITE_E_NO_SPACE},
        {BOXLITE_E_IO, ENOMEM, BOXLITE_E_NO_MEMORY}, {BOXLITE_E_IO, EACCES, BOXLITE_E_DENIED},
        {BOXLITE_E_IO, EPERM, BOXLITE_E_DENIED},     {BOXLITE_E_IO, ENOENT, BOXLITE_E_NOT_FOUND},
        {BOXLITE_E_IO, EIO, BOXLITE_E_IO},           {BOXLITE_E_ENGINE, ENOENT, BOXLITE_E_ENGINE},
        {BOXLITE_E_GUEST, EACCES, BOXLITE_E_GUEST},  {BOXLITE_E_IO, -ENOSPC, BOXLITE_E_NO_SPACE},
    };
    for (size_t i = 0; i < BX_ARRAY_SIZE(cases); i++) {
        ASSERT_FAILS(cases[i].want, bx_fail_errno(ERR, cases[i].code, cases[i].errnum, "x"));
        ASSERT_CONTAINS(err_message(), "x: ");
    }
}

TEST(errno_is_kept_and_named)
{
    boxlite_error *err = NULL;
    bx_fail_errno(&err, BOXLITE_E_IO, -EACCES, "opening %s", "f");
    ASSERT_EQ(boxlite_error_errno(err), EACCES);
    ASSERT_STREQ(boxlite_error_message(err), "opening f: Permission denied");
    boxlite_error_free(err);
}

TEST(odd_errnos_do_no_harm)
{
    ASSERT_FAILS(BOXLITE_E_IO, bx_fail_errno(ERR, BOXLITE_E_IO, 0, "x"));
    ASSERT_STREQ(err_message(), "x");
    ASSERT_FAILS(BOXLITE_E_IO, bx_fail_errno(ERR, BOXLITE_E_IO, INT_MIN, "x"));
    ASSERT_FAILS(BOXLITE_E_IO, bx_fail_errno(ERR, BOXLITE_E_IO, 99999, "x"));
}

TEST(a_failure_never_looks_like_success)
{
    ASSERT_FAILS(BOXLITE_E_INTERNAL, bx_fail(ERR, BOXLITE_OK, "x"));
    ASSERT_FAILS(BOXLITE_E_INTERNAL, bx_fail(ERR, 5, "x"));
    ASSERT_FAILS(BOXLITE_E_INTERNAL, bx_fail(ERR, -1000, "x"));
    ASSERT_FAILS(BOXLITE_E_INTERNAL, bx_fail_copy(ERR, INT_MIN, 0, "x", NULL));
}

TEST(context_goes_before_the_message)
{
    boxlite_error *err = NULL;
    bx_fail(&err, BOXLITE_E_NETWORK, "HTTP %d", 500);
    bx_wrap(&err, "manifest");
    bx_wrap(&err, "pulling %s", "alpine");
    ASSERT_STREQ(boxlite_error_message(err), "pulling alpine: manifest: HTTP 500");
    ASSERT_EQ(boxlite_error_code(err), BOXLITE_E_NETWORK);
    boxlite_error_free(err);
}

TEST(the_last_hint_stays)
{
    boxlite_error *err = NULL;
    bx_fail(&err, BOXLITE_E_ENGINE, "no qemu");
    bx_hint(&err, "first");
    bx_hint(&err, "install %s", "qemu-system-x86");
    ASSERT_STREQ(boxlite_error_hint(err), "install qemu-system-x86");
    boxlite_error_free(err);
}

TEST(a_message_is_one_line)
{
    ASSERT_FAILS(BOXLITE_E_IO, bx_fail(ERR, BOXLITE_E_IO, "a\nb\x1b[31mc\x7f"));
    ASSERT_STREQ(err_message(), "a?b?[31mc?");
    boxlite_error *err = NULL;
    bx_fail_copy(&err, BOXLITE_E_GUEST, 0, "guest\nsays", "do\rthis");
    ASSERT_STREQ(boxlite_error_message(err), "guest?says");
    ASSERT_STREQ(boxlite_error_hint(err), "do?this");
    boxlite_error_free(err);
}

TEST(a_message_is_bounded)
{
    _cleanup_free_ char *big = malloc(100001);
    ASSERT_NOT_NULL(big);
    memset(big, 'x', 100000);
    big[100000] = '\0';
    boxlite_error *err = NULL;
    bx_fail(&err, BOXLITE_E_IO, "%s", big);
    for (int i = 0; i < 3; i++) {
        bx_wrap(&err, "%s", big);
    }
    ASSERT_EQ(strlen(boxlite_error_message(err)), 4096);
    ASSERT(bx_endswith(boxlite_error_message(err), "..."));
    boxlite_error_free(err);
    err = NULL;
    bx_fail_copy(&err, BOXLITE_E_IO, 0, big, big);
    ASSERT_EQ(strlen(boxlite_error_message(err)), 4096);
    ASSERT_EQ(strlen(boxlite_error_hint(err)), 4096);
    boxlite_error_free(err);
}

TEST(every_code_has_a_name)
{
    ASSERT_STREQ(boxlite_error_name(BOXLITE_OK), "OK");
    ASSERT_STREQ(boxlite_error_name(BOXLITE_E_NOT_FOUND), "NOT_FOUND");
    ASSERT_STREQ(boxlite_error_name(BOXLITE_E_AGAIN), "AGAIN");
    for (int code = 0; code >= BOXLITE_E_AGAIN; code--) {
        ASSERT_NOT_NULL(boxlite_error_name(code));
        ASSERT(!bx_streq(boxlite_error_name(code), "UNKNOWN"));
    }
    ASSERT_STREQ(boxlite_error_name(1), "UNKNOWN");
    ASSERT_STREQ(boxlite_error_name(BOXLITE_E_AGAIN - 1), "UNKNOWN");
    ASSERT_STREQ(boxlite_error_name(INT_MIN), "UNKNOWN");
}

TEST(out_of_memory_is_an_error_like_any)
{
    boxlite_error *err = NULL;
    ASSERT_EQ(bx_fail_oom(&err), BOXLITE_E_NO_MEMORY);
    bx_wrap(&err, "x");
    bx_hint(&err, "y");
    ASSERT_EQ(boxlite_error_code(err), BOXLITE_E_NO_MEMORY);
    ASSERT_EQ(boxlite_error_errno(err), ENOMEM);
    ASSERT_STREQ(boxlite_error_message(err), "out of memory");
    boxlite_error_free(err);
    boxlite_error_free(err); /* static: twice is no harm */
}

TEST(an_error_that_was_forgotten_is_replaced)
{
    boxlite_error *err = NULL;
    bx_fail(&err, BOXLITE_E_IO, "first");
    bx_fail(&err, BOXLITE_E_BUSY, "second");
    ASSERT_STREQ(boxlite_error_message(err), "second");
    boxlite_error_free(err);
}

TEST(every_allocation_may_fail)
{
    TORTURE
    {
        boxlite_error *err = NULL;
        int r = bx_fail_errno(&err, BOXLITE_E_IO, EIO, "reading");
        ASSERT(r == BOXLITE_E_IO || (r == BOXLITE_E_NO_MEMORY && allocation_failed()));
        ASSERT_EQ(boxlite_error_code(err), r);
        bx_wrap(&err, "importing");
        bx_hint(&err, "try again");
        ASSERT_NOT_NULL(err);
        if (!allocation_failed()) {
            ASSERT_STREQ(boxlite_error_message(err), "importing: reading: Input/output error");
            ASSERT_STREQ(boxlite_error_hint(err), "try again");
        }
        boxlite_error_free(err);
    }
    TORTURE
    {
        boxlite_error *err = NULL;
        int r = bx_fail_copy(&err, BOXLITE_E_GUEST, 0, "m", "h");
        ASSERT(r == BOXLITE_E_GUEST || (r == BOXLITE_E_NO_MEMORY && allocation_failed()));
        boxlite_error_free(err);
    }
}
