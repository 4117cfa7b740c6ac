/* rows.c - every row of the GPU against row 0 of the CPU: odd sizes, nothing at all, experts
 * that are empty or have everything; FP32, BF16 and both; twice the same bits, captured the same
 * bits.
 *
 *     rows [--exact] [--once] [--bits] [--small] [--fast] [--no-tma] [--list] [--large]
 *          [--quantised] [--no-wgmma] [KIND ...]
 *
 * --once runs each once, in FP32; --bits prints what the results of each case hash to, to compare
 * two builds; --small leaves out cases that a checker of races takes long for; --fast leaves out
 * plain rows; --no-tma leaves out those that the copy engine (TMA) fills shared memory for, which a
 * checker of races does not see; --list prints all rows, and which of them those are.
 *
 * --large tries tensors of more than 2^31 numbers instead, which takes 20 GB of the GPU;
 * --quantised tries kinds of codes alone. --no-wgmma is for rows-sm_100a (`make cuda-blackwell`),
 * which has no rows with wgmma: whether programs get those is not asked.
 *
 * Without a GPU it says so and counts as skipped (exit code 77). */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

#include "cuda/cases.h"

enum { ROWS_MOST = 4 * OP_COUNT };

static bool has_row(op_kind kind)
{
    int n;
    const kernel *rows = kernels_cuda(&n);
    for (int i = 0; i < n; i++)
        if (rows[i].kind == kind) return true;
    return false;
}

/* Kinds that no row of ours has to know: messages, and waiting for them. */
static bool is_message(op_kind k)
{
    return op_is_comm(k) || k == OP_WAIT;
}

/* Kinds of codes, which random bytes are no test of: quantised.c and quantised_fused.c try them. */
static bool is_codes(op_kind k)
{
    return op_is_quantised(k) || op_makes_codes(k);
}

static int missing_kinds(void)
{
    int bad = 0, n;
    const sizes *s = all_sizes(&n);
    for (int k = 0; k < OP_COUNT; k++) {
        bool tried = false;
        for (int i = 0; i < n; i++) tried |= s[i].kind == (op_kind)k;
        if (is_message((op_kind)k)) continue;
        if (!has_row((op_kind)k)) bad++, printf("%s: there is no row\n", op_infos[k].name);
        if (!tried && !is_codes((op_kind)k))
            bad++, printf("%s: there is no case\n", op_infos[k].name);
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
        {{.kind = OP_NORM, .dim = {4, 8}}, {.in = {0}}, true},
        {{.kind = OP_NORM, .dim = {4, 8}},
         {.in = {DTYPE_BF16, DTYPE_F32}, .out = {DTYPE_BF16}},
         true},
        {{.kind = OP_NORM, .dim = {4, 8}}, {.out = {DTYPE_BF16, DTYPE_BF16}}, false}, /* rstd */
        {{.kind = OP_NORM, .dim = {4, 8}}, {.in = {DTYPE_F16}}, false},
        {{.kind = OP_EMBED, .dim = {4, 8, 3}}, {.in = {0}}, false}, /* ids are int32 */
        {{.kind = OP_EMBED, .dim = {4, 8, 3}}, {.in = {DTYPE_F32, DTYPE_I32}}, true},
        {{.kind = OP_ATTN_D, .dim = {1, 8, 2, 1, 289, 289}}, {.in = {0}}, true},
        {{.kind = OP_ATTN_D, .dim = {1, 8, 2, 1, 400, 400}}, {.in = {0}}, false},
        {{.kind = OP_Z_LOSS, .dim = {8, 4097}}, {.in = {0}}, false},
        {{.kind = OP_POSITIONS_W, .dim = {8, 4, 8, 0, 0, 2}}, {.in = {0}}, false}, /* halves meet */
        {{.kind = OP_ALL_GATHER, .dim = {8}}, {.in = {0}}, false},
    };
    int bad = 0, n;
    const kernel *rows = kernels_cuda(&n);
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        const kernel *k = kernel_pick(rows, n, &asked[i].o, &asked[i].types, false);
        if ((k != NULL) == asked[i].taken) continue;
        printf("%s, question %d: %s\n", op_infos[asked[i].o.kind].name, (int)i,
               asked[i].taken ? "is refused" : "is not refused");
        bad++;
    }
    return bad;
}

/* What a row asks for is planned: without a GPU, too. */
static int unplanned_rooms(void)
{
    int bad = 0, n, n_rows;
    const sizes *s = all_sizes(&n);
    const kernel *rows = kernels_cuda(&n_rows);
    for (int i = 0; i < n; i++) {
        trial t;
        trial_init(&t, &s[i]);
        for (int k = 0; k < n_rows; k++) {
            if (rows[k].kind != s[i].kind) continue;
            t.row = &rows[k];
            for (int f = 0; f < N_FORMATS; f++) bad += !trial_is_planned(&t, (formats)f);
        }
        trial_release(&t);
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

static void print_failure(const trial *t, const sizes *s, formats f, const char *text)
{
    printf("%s, %s:", op_infos[s->kind].name, t->row->name);
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

/* What is asked for, and how it went. */
typedef struct course {
    manner how;
    bool small, fast, no_tma;
    const kernel *rows;
    int n_rows, done, bad;
    int tries[ROWS_MOST]; /* of each row */
} course;

/* Copies to and from the host have no other row. */
static bool is_plain(const kernel *k)
{
    return strcmp(k->name, "plain") == 0 || strcmp(k->name, "copy") == 0;
}

/* Our kernels of wgmma, and libraries' own. */
static bool uses_tma(const kernel *k)
{
    static const char *const names[] = {"wgmma", "cublaslt", "cudnn"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(k->name, names[i], strlen(names[i])) == 0) return true;
    return false;
}

static int list_rows(void)
{
    int n;
    const kernel *rows = kernels_cuda(&n);
    for (int i = 0; i < n; i++)
        printf("%-16s %s%s\n", op_infos[rows[i].kind].name, rows[i].name,
               uses_tma(&rows[i]) ? " (TMA)" : "");
    return 0;
}

static bool is_left_out(const course *c, const kernel *k)
{
    return (c->fast && is_plain(k)) || (c->no_tma && uses_tma(k));
}

static void try_row(course *c, const sizes *s, formats f, int k)
{
    char text[200] = "";
    trial t;
    trial_init(&t, s);
    t.row = &c->rows[k];
    const bool plain = is_plain(t.row);
    const bool taken = trial_is_taken(&t, f);
    const bool left_out = (c->small && is_large(&t)) || is_left_out(c, t.row);
    if (!left_out && (plain || taken)) {
        bool fine = taken;
        if (taken)
            fine = trial_check(&t, f, &c->how, text, sizeof text);
        else
            snprintf(text, sizeof text, "is refused");
        if (!fine) print_failure(&t, s, f, text);
        c->bad += !fine;
        c->done++;
        c->tries[k]++;
    }
    trial_release(&t);
}

/* A row that no case reaches is not tested. */
static int rows_without_tries(const course *c)
{
    int bad = 0;
    for (int k = 0; k < c->n_rows; k++) {
        if (c->tries[k] || is_left_out(c, &c->rows[k]) || is_codes(c->rows[k].kind)) continue;
        printf("%s, %s: no case tries it\n", op_infos[c->rows[k].kind].name, c->rows[k].name);
        bad++;
    }
    return bad;
}

int main(int argc, char **argv)
{
    static course c;
    c.how = (manner){has_flag(argc, argv, "--exact"), has_flag(argc, argv, "--once"),
                     has_flag(argc, argv, "--bits")};
    c.small = has_flag(argc, argv, "--small");
    c.fast = has_flag(argc, argv, "--fast");
    c.no_tma = has_flag(argc, argv, "--no-tma");
    kernels_cuda_host(kernels_cpu);
    c.rows = kernels_cuda(&c.n_rows);
    if (has_flag(argc, argv, "--list")) return list_rows();
    int n, n_gpus = 0;
    const bool all = asked_for(argc, argv, "");
    const sizes *s = all_sizes(&n);
    c.bad = missing_kinds() + wrong_answers() + unplanned_rooms();
    if (!has_flag(argc, argv, "--no-wgmma")) c.bad += wrong_programs();
    if (cudaGetDeviceCount(&n_gpus) != cudaSuccess || n_gpus == 0) {
        printf("%d wrong without a GPU; there is none here: %d cases skipped\n", c.bad, n);
        return c.bad ? 1 : 77;
    }
    if (has_flag(argc, argv, "--time")) time_quantised();
    if (has_flag(argc, argv, "--casts")) return c.bad + wrong_quantised_fused() != 0;
    if (all || has_flag(argc, argv, "--quantised"))
        c.bad += wrong_quantised() + wrong_quantised_fused();
    if (has_flag(argc, argv, "--quantised")) return c.bad != 0;
    if (has_flag(argc, argv, "--large")) return c.bad + check_large() != 0;
    for (int i = 0; i < n; i++) {
        if (!asked_for(argc, argv, op_infos[s[i].kind].name)) continue;
        for (int f = 0; f < (c.how.once && !c.fast ? 1 : N_FORMATS); f++)
            for (int k = 0; k < c.n_rows; k++)
                if (c.rows[k].kind == s[i].kind) try_row(&c, &s[i], (formats)f, k);
        fflush(stdout);
    }
    if (all && !c.small && !(c.how.once && !c.fast)) c.bad += rows_without_tries(&c);
    printf("%d cases, %d wrong\n", c.done, c.bad);
    return c.bad != 0;
}
