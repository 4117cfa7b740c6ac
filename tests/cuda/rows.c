/* rows.c - every row of the GPU against row 0 of the CPU: odd sizes, nothing at all, experts
 * that are empty or have everything; FP32, BF16 and both; twice the same bits, captured the same
 * bits.
 *
 *     rows [--exact] [--once] [--small] [--large] [KIND ...]
 *
 * --once runs each once, in FP32; --small leaves out cases that a checker of races takes long
 * for.
 *
 * --large tries tensors of more than 2^31 numbers instead, which takes 20 GB of the GPU.
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

/* Kinds that the CPU has and we have not yet: what a step ends with. */
static bool is_missing(op_kind k)
{
    return k == OP_SQUARES || k == OP_TALLY || k == OP_SUM || k == OP_VERDICT || k == OP_ADAMW ||
           k == OP_BIAS_UPDATE;
}

static int missing_kinds(void)
{
    int bad = 0, n;
    const sizes *s = all_sizes(&n);
    for (int k = 0; k < OP_COUNT; k++) {
        bool tried = false;
        for (int i = 0; i < n; i++) tried |= s[i].kind == (op_kind)k;
        if (is_message((op_kind)k) || is_missing((op_kind)k)) continue;
        if (!row_of((op_kind)k)) bad++, printf("%s: there is no row\n", op_infos[k].name);
        if (!tried) bad++, printf("%s: there is no case\n", op_infos[k].name);
    }
    return bad;
}

/* What no row of ours can run is known before anything is launched. */
static int wrong_answers(void)
{
    static const struct {
        op o;
        op_types types;
        bool taken;
    } asked[] = {
        {{.kind = OP_NORM, .dim = {4, 8}}, {{0}, {0}}, true},
        {{.kind = OP_NORM, .dim = {4, 8}}, {{DTYPE_BF16, DTYPE_F32}, {DTYPE_BF16}}, true},
        {{.kind = OP_NORM, .dim = {4, 8}}, {{0}, {DTYPE_BF16, DTYPE_BF16}}, false}, /* rstd */
        {{.kind = OP_NORM, .dim = {4, 8}}, {{DTYPE_F16}, {0}}, false},
        {{.kind = OP_EMBED, .dim = {4, 8, 3}}, {{0}, {0}}, false}, /* ids are int32 */
        {{.kind = OP_EMBED, .dim = {4, 8, 3}}, {{DTYPE_F32, DTYPE_I32}, {0}}, true},
        {{.kind = OP_ATTN_D, .dim = {1, 8, 2, 1, 289, 289}}, {{0}, {0}}, true},
        {{.kind = OP_ATTN_D, .dim = {1, 8, 2, 1, 400, 400}}, {{0}, {0}}, false},
        {{.kind = OP_Z_LOSS, .dim = {8, 4097}}, {{0}, {0}}, false},
        {{.kind = OP_POSITIONS_W, .dim = {8, 4, 8, 0, 0, 2}}, {{0}, {0}}, false}, /* halves meet */
        {{.kind = OP_ALL_GATHER, .dim = {8}}, {{0}, {0}}, false},
    };
    int bad = 0;
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        if ((cuda_row_for(&asked[i].o, &asked[i].types) != NULL) == asked[i].taken) continue;
        printf("%s, question %d: %s\n", op_infos[asked[i].o.kind].name, (int)i,
               asked[i].taken ? "is refused" : "is not refused");
        bad++;
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
    int n, n_gpus = 0, done = 0, bad = missing_kinds() + wrong_answers();
    const sizes *s = all_sizes(&n);
    if (cudaGetDeviceCount(&n_gpus) != cudaSuccess || n_gpus == 0) {
        printf("%d wrong without a GPU; there is none here: %d cases skipped\n", bad, n);
        return bad ? 1 : 77;
    }
    if (has_flag(argc, argv, "--large")) return bad + check_large() != 0;
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
