/* bench_gemms.c - tuning: which algorithm of cuBLASLt is fastest for each GEMM.
 *
 * `bench --device cuda` tunes what it measures; `bench --device cuda RECIPE` tunes the GEMMs of
 * a recipe and measures nothing else. Both add to the same file of the machine, h200-cublaslt.txt
 * and the like, from which runs take them (moefold.cublaslt). How they are timed is lt_tune.c's. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "cli/bench.h"
#include "cli/join.h"
#include "cli/runtime.h"
#include "measure/bench/algorithms.h"

enum { PRODUCTS_MAX = 256 };

device_options bench_tuning_device(const bench *b)
{
    return (device_options){.name = b->device, .tuned_algorithms = b->tuned, .tunes = true};
}

/* ---- what is printed */

static int tuned_of_process(lt_use *list, int room)
{
    const device_table *table;
    error ignored;
    int n =
        device_cuda_table(&table, &ignored) || !table->gemms ? 0 : table->gemms(NULL, list, room);
    return n < room ? n : room;
}

static double gain(const lt_use *u)
{
    return u->tried ? 1 - u->own_s / u->first_s : 0;
}

static void print_line(const bench *b, const lt_use *u)
{
    const lt_shape *s = &u->shape;
    const char *sizes = arena_text(b->a, "%s x %s x %s", text_grouped(b->a, s->m),
                                   text_grouped(b->a, s->n), text_grouped(b->a, s->k));
    const char *formats = arena_text(b->a, "%s -> %s%s%s", dtype_name(s->in), dtype_name(s->out),
                                     s->add ? ", added" : "",
                                     s->a_turned   ? ", A turned"
                                     : s->b_turned ? ""
                                                   : ", B turned");
    printf("  %-28s %-26s %-30s %9.4f ms", u->name, sizes, formats, 1e3 * u->first_s);
    if (u->place > 0)
        printf(" %9.4f ms  %5.1f %%  number %d of %d\n", 1e3 * u->own_s, -100 * gain(u),
               u->place + 1, u->tried);
    else
        printf("   the heuristic's first of %d stays\n", u->tried);
}

const product_answer *bench_products(int *n, const bench *b)
{
    lt_use *list = ARENA_ARRAY(b->a, lt_use, PRODUCTS_MAX);
    product_answer *out = ARENA_ARRAY(b->a, product_answer, PRODUCTS_MAX);
    *n = tuned_of_process(list, PRODUCTS_MAX);
    for (int i = 0; i < *n; i++) {
        const lt_use *u = &list[i];
        const lt_shape *s = &u->shape;
        out[i] = (product_answer){.name = u->name,
                                  .m = s->m,
                                  .n = s->n,
                                  .k = s->k,
                                  .in = dtype_name(s->in),
                                  .out = dtype_name(s->out),
                                  .added = s->add,
                                  .a_turned = s->a_turned,
                                  .b_turned = s->b_turned,
                                  .tried = u->tried,
                                  .number = u->place + 1,
                                  .first_s = u->first_s,
                                  .tuned_s = u->own_s};
    }
    return out;
}

void bench_print_gemms(const bench *b, const char *of)
{
    lt_use *list = ARENA_ARRAY(b->a, lt_use, PRODUCTS_MAX);
    int n = tuned_of_process(list, PRODUCTS_MAX), faster = 0;
    double first = 0, own = 0;
    for (int i = 0; i < n; i++) {
        faster += list[i].place > 0;
        first += list[i].first_s;
        own += list[i].own_s;
    }
    if (!n) return;
    printf("GEMM by cuBLASLt in %s: %d shapes, %d faster with another algorithm than the "
           "heuristic's first; one of each takes %.3f instead of %.3f ms (%.1f %%)\n",
           of, n, faster, 1e3 * own, 1e3 * first, 100 * (own / first - 1));
    for (int i = 0; i < n; i++) print_line(b, &list[i]);
    fprintf(stderr, "moefold bench: wrote %s\n", b->tuned);
}

/* ---- a recipe */

static status tune(bench *b, const setup *s, int *others, error *err)
{
    comm *own = NULL;
    device *d = NULL;
    const device_options tuning = bench_tuning_device(b);
    status st = comm_open_self(&own, err);
    if (!st) st = device_open(&d, &tuning, own, err);
    if (!st) st = measure_algorithms(s, d, others, err);
    if (d) device_close(d);
    if (own) comm_close(own);
    return st;
}

static status find_gpu_and_file(bench *b, error *err)
{
    if (!text_starts(b->device, "cuda"))
        return error_set(
            err, ERR_INPUT,
            "--device %s with a recipe: a recipe tunes cuBLASLt GEMMs, which need a GPU; repair: "
            "give --device cuda, or leave the recipe out to measure this machine",
            b->device);
    status st =
        b->out ? bench_find_place(b, err) : OK; /* better said before the GPU is looked at */
    if (!st) st = bench_find_gpu(b, err);
    if (st) return st;
    b->file = arena_text(b->a, "%s-cublaslt.txt", device_cuda_word(&b->gpu, b->a));
    st = bench_find_place(b, err);
    b->tuned = b->out;
    return st;
}

static void print_recipe(const bench *b, const recipe *r, int others)
{
    if (b->json) {
        bench_recipe_answer x = {b->gpu.name, r->name, others, .products_file = b->tuned};
        x.products = bench_products(&x.n_products, b);
        cli_json_print(answer_json(bench_recipe_answer, &x));
        return;
    }
    bench_print_gemms(b, r->name);
    printf("  %d operations of the program are GEMMs by our own kernels\n", others);
}

status bench_recipe(bench *b, const cli_words *w, bool *done, error *err)
{
    recipe *r = ARENA_NEW(b->a, recipe);
    setup *s = ARENA_NEW(b->a, setup);
    int others = 0;
    status st = cli_read(b->a, w, r, done, err);
    if (st || *done) return st;
    st = find_gpu_and_file(b, err);
    if (st) return st;
    recipe_fill(r, K_GPU, value_of_text(b->base.name), FROM_DERIVED, "this machine's GPU");
    recipe_set(r, K_DEVICE, value_of_text("cuda"), "--device cuda");
    cli_own_target(r, false);
    st = setup_init(s, r, b->a, err);
    if (!st && cli_refuse("bench", s, b->a))
        st = error_set(err, ERR_RULE, "%s breaks rules (above), so its GEMMs are not tuned",
                       r->name);
    if (!st) st = tune(b, s, &others, err);
    if (!st) print_recipe(b, r, others);
    return st;
}
