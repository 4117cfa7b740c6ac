/* rows.c - every row of the GPU against row 0 of the CPU: odd sizes, nothing at all, experts
 * that are empty or have everything; FP32, BF16 and both; twice the same bits, captured the same
 * bits.
 *
 *     rows [--exact] [--once] [--small] [KIND ...]
 *
 * --once runs each once, in FP32; --small leaves out cases that a checker of races takes long
 * for.
 *
 * Without a GPU it says so and counts as skipped (exit code 77). */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

#include "cuda/cases.h"

static const cuda_row *row_of(op_kind kind)
{
    int n;
    const cuda_row *rows = cuda_rows(&n);
    for (int i = 0; i < n; i++)
        if (rows[i].kind == kind) return &rows[i];
    return NULL;
}

/* Kinds that no row of ours has to know: messages, and waiting for them. */
static bool is_message(op_kind k)
{
    return op_is_comm(k) || k == OP_WAIT;
}

static int missing_kinds(void)
{
    int bad = 0, n;
    const sizes *s = all_sizes(&n);
    for (int k = 0; k < OP_COUNT; k++) {
        bool tried = false;
        for (int i = 0; i < n; i++) tried |= s[i].kind == (op_kind)k;
        if (is_message((op_kind)k)) continue;
        if (!row_of((op_kind)k)) bad++, printf("%s: there is no row\n", op_infos[k].name);
        if (!tried) bad++, printf("%s: there is no case\n", op_infos[k].name);
    }
    return bad;
}

static bool asked_for(int argc, char **argv, const char *name)
{
    bool any = false, this = false;
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-') continue;
        any = true;
        this |= strcmp(argv[i], name) == 0;
    }
    return !any || this;
}

static bool has_flag(int argc, char **argv, const char *flag)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], flag) == 0) return true;
    return false;
}

static void print_failure(const sizes *s, formats f, const char *text)
{
    printf("%s", op_infos[s->kind].name);
    for (int i = 0; i < OP_DIM_MAX; i++) printf(" %lld", (long long)s->dim[i]);
    printf(", flags %u, without '%s', way %d, %s: %s\n", s->flags, s->without ? s->without : "",
           s->way, format_names[f], text);
}

static bool is_large(const trial *t)
{
    int64_t n = 0;
    for (int i = 0; i < OP_IN_MAX; i++) n += t->in[i].n;
    return n > 12000;
}

int main(int argc, char **argv)
{
    const manner how = {has_flag(argc, argv, "--exact"), has_flag(argc, argv, "--once")};
    const bool small = has_flag(argc, argv, "--small");
    int n, n_gpus = 0, done = 0, bad = missing_kinds();
    const sizes *s = all_sizes(&n);
    if (cudaGetDeviceCount(&n_gpus) != cudaSuccess || n_gpus == 0) {
        printf("%d kinds lack a row or a case; there is no GPU here: %d cases skipped\n", bad, n);
        return bad ? 1 : 77;
    }
    for (int i = 0; i < n; i++) {
        const cuda_row *row = row_of(s[i].kind);
        if (!row || !asked_for(argc, argv, op_infos[s[i].kind].name)) continue;
        for (int f = 0; f < (how.once ? 1 : N_FORMATS); f++) {
            char text[200] = "";
            trial t;
            trial_init(&t, &s[i]);
            t.row = row;
            if (!small || !is_large(&t)) {
                const bool fine = trial_check(&t, (formats)f, &how, text, sizeof text);
                if (!fine) print_failure(&s[i], (formats)f, text);
                bad += !fine;
                done++;
            }
            trial_release(&t);
        }
        fflush(stdout);
    }
    printf("%d cases, %d wrong\n", done, bad);
    return bad != 0;
}
