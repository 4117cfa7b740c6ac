/* converting.h - `moefold convert` called within a test. */
#ifndef TESTS_CLI_CONVERTING_H
#define TESTS_CLI_CONVERTING_H

#include "train/hf_testing.h"

#include "cli/cli.h"

/* Runs the command with these words (separated by spaces); what it prints goes to `out`. */
static inline int convert(arena *a, const char *out, const char *words)
{
    char *argv[32] = {arena_copy(a, "convert", 7)};
    int argc = 1;
    for (const char *p = words; *p;) {
        size_t n = strcspn(p, " ");
        argv[argc++] = arena_copy(a, p, n);
        p += n + strspn(p + n, " ");
    }
    fflush(stdout);
    fflush(stderr);
    int streams[2] = {dup(1), dup(2)};
    FILE *file = fopen(out, "wb");
    assert_non_null(file);
    dup2(fileno(file), 1);
    dup2(fileno(file), 2);
    int code = command_convert(argc, argv);
    fflush(stdout);
    fflush(stderr);
    for (int i = 0; i < 2; i++) {
        dup2(streams[i], i + 1);
        close(streams[i]);
    }
    fclose(file);
    return code;
}

#endif
