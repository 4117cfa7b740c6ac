/* bench.c - `moefold bench`: measures this machine, alone and as several ranks, and describes it.
 *
 * One description for each number of ranks, since ranks share cores and memory: local.yaml for one
 * rank with all cores, local-2.yaml and local-4.yaml for two and four that are busy at the same
 * time. Those are measured by this same command under mpirun, or under whatever started it as one
 * of several ranks. With --device cuda it is the GPU, whose file is called h200-measured.yaml and
 * the like; it is what prices of our own program on such a GPU are read from. GEMMs by cuBLASLt
 * are tuned before they are measured, and a recipe's without measuring (bench_gemms.c). Several
 * ranks of GPUs measure their messages alone (bench_ranks.c). */
#include <errno.h>
#include <limits.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/bench.h"
#include "cli/join.h"
#include "cli/ranks.h"
#include "backend/cpu/kernels/blas.h"

enum { RANKS_MAX = 64 }; /* whose descriptions are looked for (train/executor/timing.c) */
static const int rank_counts[] = {2, 4};
static const double much = 0.1;         /* part of the cores that may not go to others */
static const double usual_seconds = 45; /* of all measurements together */
static const char unknown_base[] =
    "H100"; /* whose links stand in for a GPU's that is not shipped */

/* ---- where it is written */

static bool make_folder(const char *path)
{
    return mkdir(path, 0777) == 0 || errno == EEXIST;
}

static bool writable(const char *folder)
{
    return file_is_folder(folder) && access(folder, W_OK) == 0;
}

/* hardware/ here, or the user's own. */
static status usual_place(bench *b, error *err)
{
    static const char *const parts[] = {"/.config", "/moefold", "/hardware"};
    const char *home = getenv("HOME");
    if (make_folder("hardware") && writable("hardware")) {
        b->out = arena_text(b->a, "hardware/%s", b->file);
        return OK;
    }
    const char *folder = home ? home : "";
    for (int i = 0; i < 3; i++) {
        folder = arena_text(b->a, "%s%s", folder, parts[i]);
        make_folder(folder);
    }
    b->out = arena_text(b->a, "%s/%s", folder, b->file);
    if (writable(folder)) return OK;
    return error_set(err, ERR_MACHINE,
                     "neither ./hardware nor %s can be written; repair: --out FILE", folder);
}

/* Better said before the measurement than after. */
static status check_place(bench *b, error *err)
{
    const char *folder = file_folder(b->a, b->out);
    if (file_is_folder(b->out))
        return error_set(err, ERR_INPUT,
                         "--out %s: is a folder; repair: name a file in it, as in %s/%s", b->out,
                         b->out, b->file);
    if (writable(*folder ? folder : ".")) return OK;
    return error_set(
        err, ERR_MACHINE,
        "--out %s: there is no folder %s, or it cannot be written to; repair: name another folder",
        b->out, folder);
}

/* "local.yaml" -> "local-2.yaml" */
static const char *for_ranks(bench *b, int ranks)
{
    size_t n = strlen(b->out), tail = n > 5 && text_equal(b->out + n - 5, ".yaml") ? 5 : 0;
    return arena_text(b->a, "%.*s-%d.yaml", (int)(n - tail), b->out, ranks);
}

/* ---- the GPU */

static status look_at_gpu(bench *b, error *err)
{
    static const char other[] = "moefold.device=cpu", here[] = "--device cpu";
    char found[512];
    const char *folder = strchr(b->device, ':');
    status st = device_cuda_look(&b->gpu, err);
    if (!st) st = device_cuda_cudnn(folder ? folder + 1 : "", found, sizeof found, err);
    char *said = st ? strstr(err->text, other) : NULL;
    if (said) { /* the same repair in this command's words */
        memmove(said + strlen(here), said + strlen(other), strlen(said + strlen(other)) + 1);
        memcpy(said, here, strlen(here));
    }
    return st ? error_prefix(err, st, "--device %s", b->device) : OK;
}

status bench_find_gpu(bench *b, error *err)
{
    status st = look_at_gpu(b, err);
    if (st) return st;
    const char *word = device_cuda_word(&b->gpu, b->a);
    const gpu *known = gpu_find(word);
    if (!known)
        fprintf(
            stderr,
            "moefold bench: no hardware description for %s: peaks and links are taken from %s\n",
            b->gpu.name, unknown_base);
    st = hardware_read(&b->base, known ? known->name : unknown_base, b->a, err);
    if (!known) b->base.name = word;
    b->file = arena_text(b->a, "%s-measured.yaml", word);
    return st;
}

status bench_find_place(bench *b, error *err)
{
    status st = b->out ? OK : usual_place(b, err);
    return st ? st : check_place(b, err);
}

/* ---- what is printed */

static const char *rate(arena *a, double per_second, const char *unit)
{
    return arena_text(a, "%.1f %s", per_second * 1e-9, unit);
}

void bench_print_curve(bench *b, const char *name, const curve *c, const char *unit)
{
    double best = measured_best(c);
    printf("  %-24s", name);
    for (int i = 0; i < c->n; i++)
        printf(" %s:%.3g", text_count(b->a, (int64_t)c->x[i]), c->y[i] * 1e-9);
    printf("   best %s\n", rate(b->a, best, unit));
}

static void print_kinds(bench *b, const measured *m)
{
    static const char *const forms[] = {"", "  data gradient", "  weight gradient", "  added to"};
    for (int i = FORM_DATA; i < FORM_COUNT; i++) {
        bench_print_curve(b, arena_text(b->a, "GEMM%s", forms[i]), &m->gemm_form[i], "GFLOP/s");
        bench_print_curve(b, arena_text(b->a, "experts%s", forms[i]), &m->grouped_form[i],
                          "GFLOP/s");
    }
    bench_print_curve(b, "expert GEMM, by K", &m->grouped_deep, "GFLOP/s");
    for (int i = FORM_FORWARD; i < FORM_COUNT && m->narrow[i].n; i++) {
        bench_print_curve(b, arena_text(b->a, "FP8 GEMM%s", forms[i]), &m->narrow[i], "GFLOP/s");
        bench_print_curve(b, arena_text(b->a, "FP8 experts%s", forms[i]), &m->narrow_experts[i],
                          "GFLOP/s");
    }
    printf("  unequal heads %.3f forward, %.3f backward; sinks %.3f\n", m->unequal[0],
           m->unequal[1], m->sinks);
    printf("  bytes by kind           ");
    for (int k = 0; k < OP_COUNT; k++)
        if (m->kind[k] > 0) printf(" %s:%.0f", op_infos[k].name, m->kind[k] * 1e-9);
    printf(" GB/s\n  host's us by kind       ");
    for (int k = 0; k < LAUNCH_KINDS; k++)
        if (m->host[k] > 0) printf(" %.2f", m->host[k] * 1e6);
    if (m->graph_launch > 0)
        printf("\n"
               "  host's us in graphs       %.4f a kernel, plus %.2f a replay",
               m->graph_launch * 1e6, m->replay * 1e6);
    printf(
        "\n  host to device %s, device to host %s, both at once %s, the host knows after %.1f us\n",
        rate(b->a, m->to_device, "GB/s"), rate(b->a, m->to_host, "GB/s"),
        rate(b->a, m->both_ways, "GB/s"), m->wait * 1e6);
}

void bench_warn_of_others(const measured *m)
{
    if (m->others > much)
        fprintf(stderr,
                "moefold bench: other programs took %.0f %% of the cores meanwhile, so this "
                "machine can do more; measure again when it is idle\n",
                100 * m->others);
}

static void print_table(bench *b, const measured *m)
{
    if (m->gpu[0]) printf("%s\n", m->gpu);
    printf("%d rank%s of %d thread%s%s\n", m->ranks, m->ranks > 1 ? "s" : "", m->threads,
           m->threads > 1 ? "s" : "", m->ranks > 1 ? ", all busy; numbers are per rank" : "");
    bench_print_curve(b, "GEMM, by side", &m->gemm, "GFLOP/s");
    bench_print_curve(b, "  by K", &m->deep, "GFLOP/s");
    bench_print_curve(b, "expert GEMM, by rows", &m->grouped, "GFLOP/s");
    bench_print_curve(b, "attention, by length", &m->attention[0], "GFLOP/s");
    bench_print_curve(b, "  its gradient", &m->attention[1], "GFLOP/s");
    bench_print_curve(b, "  by size of a head", &m->heads, "GFLOP/s");
    bench_print_curve(b, "elementwise", &m->memory, "GB/s");
    bench_print_curve(b, "copies, by bytes", &m->copy, "GB/s");
    for (int k = 0; k < MEASURED_MESSAGES && m->ranks > 1; k++)
        bench_print_curve(b, measured_message_name((measured_message)k), &m->message[k], "GB/s");
    if (m->gpu[0]) print_kinds(b, m);
    printf("  head and loss %s, delta rule %s, optimizer %.3g M elements/s\n",
           rate(b->a, m->head, "GFLOP/s"), rate(b->a, m->linear, "GFLOP/s"), m->adam * 1e-6);
    printf("  smallest operation %.2f us, between two %.2f us", m->least * 1e6, m->launch * 1e6);
    if (m->ranks > 1) printf(", smallest message %.2f us", m->latency * 1e6);
    printf("\n\n");
    fflush(stdout);
    bench_warn_of_others(m);
}

static json_t *json_curve(const curve *c)
{
    json_t *list = json_array();
    for (int i = 0; i < c->n; i++)
        json_array_append_new(list, json_pack("[f, f]", c->x[i], c->y[i]));
    return list;
}

/* Of the forms from `first` on. */
static const value_answer *forms_of(int *n, const curve *forms, int first, arena *a)
{
    static const char *const names[] = {"forward", "data", "weight", "added"};
    value_answer *list = ARENA_ARRAY(a, value_answer, FORM_COUNT);
    *n = 0;
    for (int i = first; i < FORM_COUNT; i++)
        list[(*n)++] = (value_answer){names[i], json_curve(&forms[i])};
    return list;
}

/* What only GPUs are measured for. */
static const bench_gpu_answer *gpu_of(const bench *b, const measured *m)
{
    bench_gpu_answer *x = ARENA_NEW(b->a, bench_gpu_answer);
    graphs_answer *graphs = ARENA_NEW(b->a, graphs_answer);
    rate_answer *kinds = ARENA_ARRAY(b->a, rate_answer, OP_COUNT);
    *graphs = (graphs_answer){m->graph_launch, m->replay};
    *x = (bench_gpu_answer){.gpu = m->gpu,
                            .bytes_per_s = kinds,
                            .graphs = m->graph_launch > 0 ? graphs : NULL,
                            .to_device = m->to_device,
                            .to_host = m->to_host,
                            .both_ways = m->both_ways,
                            .products_file = b->tuned};
    x->fp8_gemm = forms_of(&x->n_fp8_gemm, m->narrow, FORM_FORWARD, b->a);
    x->fp8_grouped = forms_of(&x->n_fp8_grouped, m->narrow_experts, FORM_FORWARD, b->a);
    x->gemm_gradients = forms_of(&x->n_gemm_gradients, m->gemm_form, FORM_DATA, b->a);
    x->grouped_gradients = forms_of(&x->n_grouped_gradients, m->grouped_form, FORM_DATA, b->a);
    x->products = bench_products(&x->n_products, b);
    for (int k = 0; k < OP_COUNT; k++)
        if (m->kind[k] > 0) kinds[x->n_bytes_per_s++] = (rate_answer){op_infos[k].name, m->kind[k]};
    return x;
}

const value_answer *bench_messages_answer(int *n, const measured *m, arena *a)
{
    value_answer *list = ARENA_ARRAY(a, value_answer, MEASURED_MESSAGES);
    *n = m->ranks > 1 ? MEASURED_MESSAGES : 0;
    for (int k = 0; k < *n; k++)
        list[k] =
            (value_answer){measured_message_name((measured_message)k), json_curve(&m->message[k])};
    return list;
}

static void print_json(const bench *b, const measured *m)
{
    bench_answer x = {.ranks = m->ranks,
                      .threads = m->threads,
                      .file = b->out,
                      .others = m->others,
                      .gemm = json_curve(&m->gemm),
                      .grouped = json_curve(&m->grouped),
                      .attention = json_curve(&m->attention[0]),
                      .attention_backward = json_curve(&m->attention[1]),
                      .memory = json_curve(&m->memory),
                      .copy = json_curve(&m->copy),
                      .least_s = m->least,
                      .launch_s = m->launch,
                      .latency_s = m->latency,
                      .gpu = m->gpu[0] ? gpu_of(b, m) : NULL};
    x.messages = bench_messages_answer(&x.n_messages, m, b->a);
    cli_json_print(answer_json(bench_answer, &x));
}

/* ---- measuring */

void bench_progress(void *who, int done, int total)
{
    progress *bar = who;
    if (done == 1) bar->total = total;
    progress_step(bar, done, omp_get_wtime());
}

int bench_cores(int ranks)
{
    int cores = (int)sysconf(_SC_NPROCESSORS_ONLN), own = omp_get_num_procs();
    int share = cores / ranks < own ? cores / ranks : own;
    return share > 0 ? share : 1;
}

/* The job that this process is in; NULL: it is alone. */
static status open_job(bench *b, comm **c, error *err)
{
    setup *s;
    if (!comm_launched()) return OK;
    status st = bench_setup(b, comm_launched_ranks(), &s, err);
    return st ? st : cli_join(c, s, b->a, err);
}

static status measure_here(bench *b, error *err)
{
    comm *c = NULL;
    measured m;
    status st = open_job(b, &c, err);
    if (st) return st;
    if (c && bench_by_device(b)) {
        st = bench_messages(b, c, err);
        comm_close(c);
        return st;
    }
    measure_options o = {.seconds = b->seconds, .threads = bench_cores(c ? (int)comm_size(c) : 1)};
    const device_options on =
        bench_on_gpu(b) ? bench_tuning_device(b) : (device_options){.name = b->device};
    o.device = &on;
    o.scale = bench_on_gpu(b) ? &measure_scale_gpu : &measure_scale_cpu;
    progress_init(&b->bar, stderr, 0, 1, omp_get_wtime());
    if (!cli_speaks()) b->bar.on = false;
    o.says = bench_progress;
    o.who = &b->bar;
    blas_ready();
    if (cli_speaks() && bench_on_gpu(b))
        fprintf(stderr,
                "moefold bench: %s, %.0f s of measurements and as long again to prepare them\n",
                b->gpu.name, b->seconds);
    else if (cli_speaks())
        fprintf(stderr, "moefold bench: %d rank%s, about %.0f s; %s\n", c ? (int)comm_size(c) : 1,
                c ? "s" : "", b->seconds, blas_describe());
    st = measure_machine(&m, c, &o, err);
    progress_finish(&b->bar);
    if (!st && bench_on_gpu(b))
        st = device_cuda_look(&b->gpu, err); /* now with code and libraries */
    if (!st && bench_on_gpu(b)) {
        snprintf(m.gpu, sizeof m.gpu, "%s", b->gpu.name);
        snprintf(m.device, sizeof m.device, "cuda");
        m.gpu_total = b->gpu.total;
        m.gpu_free = b->gpu.free;
    }
    if (!st && cli_speaks()) {
        st = bench_on_gpu(b) ? measured_write_gpu(&m, &b->base, b->out, err)
                             : measured_write(&m, b->out, err);
        if (!st && b->json) print_json(b, &m);
        if (!st && !b->json) print_table(b, &m);
        if (!st && bench_on_gpu(b) && !b->json) bench_print_gemms(b, "these measurements");
        if (!st) fprintf(stderr, "moefold bench: wrote %s\n", b->out);
    }
    if (c) comm_close(c);
    return st;
}

/* This command once more as n ranks. Returns its exit code. */
static int measure_ranks(bench *b, int n)
{
    bool own_threads = getenv("OMP_NUM_THREADS") != NULL;
    char *words[8] = {"bench", "--out", (char *)for_ranks(b, n), "--seconds",
                      arena_text(b->a, "%g", b->seconds)};
    int count = 5;
    if (bench_by_device(b)) {
        words[count++] = "--device";
        words[count++] = (char *)b->device;
    }
    if (b->json) words[count++] = "--json";
    int code = cli_run_ranks(count, words, n);
    if (!own_threads) unsetenv("OMP_NUM_THREADS");
    if (code && !cli_ranks_ended() && !bench_by_device(b))
        fprintf(stderr,
                "moefold bench: %d ranks were not measured: predictions for them will use "
                "the description of fewer\n",
                n);
    return code;
}

/* A machine without mpirun keeps what was measured so far; who interrupts it, too. */
static status measure_machines(bench *b, error *err)
{
    bool alone = b->ranks == 1 || (bench_by_device(b) && b->ranks == 0);
    if (comm_launched() || alone) return measure_here(b, err);
    if (b->as_threads) {
        b->out = for_ranks(b, b->ranks);
        return bench_threads(b, err);
    }
    if (b->ranks > 1) {
        int code = measure_ranks(b, b->ranks);
        return code ? error_set(err, (status)code, "--ranks %d: nothing was written", b->ranks)
                    : OK;
    }
    enum { COUNTS = sizeof rank_counts / sizeof rank_counts[0] };
    b->seconds /= COUNTS + 1;
    status st = measure_here(b, err);
    for (int i = 0; i < COUNTS && !st; i++) {
        (void)measure_ranks(b, rank_counts[i]);
        if (cli_ranks_ended())
            return error_set(err, ERR_MACHINE,
                             "interrupted: %d ranks and more were not measured; the files written "
                             "before are complete",
                             rank_counts[i]);
    }
    return st;
}

/* Kernels of ranks of a CPU are measured too, and those want cores of their own. */
static status check_threads(const bench *b, error *err)
{
    if (!b->as_threads) return OK;
    if (b->ranks < 2)
        return error_set(err, ERR_INPUT,
                         "--as-threads is for --ranks N, which is not given; repair: --ranks 2");
    if (bench_by_device(b)) return OK;
    return error_set(err, ERR_INPUT,
                     "--as-threads with --device cpu: ranks of a CPU are measured as processes; "
                     "repair: leave --as-threads out, or give --device cuda");
}

static status read_words(bench *b, const char *seconds, const char *ranks, error *err)
{
    char *end;
    if (seconds) {
        b->seconds = strtod(seconds, &end);
        if (end == seconds || *end || !(b->seconds >= 0.1 && b->seconds <= 86400))
            return error_set(err, ERR_INPUT, "--seconds %s: a number from 0.1 to 86400", seconds);
    }
    if (ranks) {
        long n = strtol(ranks, &end, 10);
        if (end == ranks || *end || n < 1 || n > RANKS_MAX)
            return error_set(err, ERR_INPUT, "--ranks %s: a number of ranks from 1 to %d", ranks,
                             (int)RANKS_MAX);
        b->ranks = (int)n;
    }
    if (!device_is_named(b->device))
        return error_set(err, ERR_INPUT, "--device %s: cpu, or cuda for the GPU", b->device);
    if (comm_launched_ranks() == LAUNCHED_UNCOUNTED)
        return error_set(err, ERR_INPUT,
                         "this process is one of several ranks (PMIX_RANK=%s), but their number is "
                         "unknown; repair: start it with mpirun -n N or srun -n N",
                         getenv("PMIX_RANK"));
    TRY(check_threads(b, err));
    if (b->out) TRY(check_place(b, err));
    if (bench_on_gpu(b)) TRY(bench_find_gpu(b, err));
    if (bench_by_device(b) && (b->ranks > 1 || comm_launched())) TRY(bench_find_base(b, err));
    TRY(bench_find_place(b, err));
    if (bench_on_gpu(b))
        b->tuned = arena_text(b->a, "%s%s-cublaslt.txt", file_folder(b->a, b->out),
                              device_cuda_word(&b->gpu, b->a));
    return OK;
}

static bool is_cluster(const char *word)
{
    return text_starts(word, "cluster.") && strchr(word, '=');
}

/* Is there a word that is no option of ours, nor what the launcher of ranks adds? */
static bool names_recipe(const cli_words *w)
{
    for (int i = 1; i < w->argc; i++) {
        const char *word = w->argv[i];
        if (is_cluster(word)) continue;
        if (word[0] != '-' || !word[1]) return true;
        for (int k = 0; k < w->n_options; k++)
            if (text_equal(word, w->options[k].name) && w->options[k].text) i++;
    }
    return false;
}

/* The launcher of ranks adds the cluster to the words of a command; here it has no meaning. */
static int without_cluster(int argc, char **argv)
{
    int n = 0;
    for (int i = 0; i < argc; i++)
        if (!is_cluster(argv[i])) argv[n++] = argv[i];
    return n;
}

int command_bench(int argc, char **argv)
{
    bench b = {
        .a = arena_create(), .seconds = usual_seconds, .device = "cpu", .file = "local.yaml"};
    const char *seconds = NULL, *ranks = NULL, *word = NULL;
    bool done = false;
    error err = {{0}};
    const cli_option options[] = {
        {"--out", "FILE",
         "file to write; unset: hardware/local.yaml, local-N.yaml or NAME-measured.yaml", NULL,
         &b.out},
        {"--seconds", "S", "total measuring time; unset: 45", NULL, &seconds},
        {"--device", "NAME",
         "what to measure: cpu, or cuda (writes NAME-measured.yaml); unset: cpu", NULL, &b.device},
        {"--ranks", "N",
         "measure N ranks only (local-N.yaml); unset: one, two and four. With cuda: measure "
         "communication between N ranks (NAME-measured-N.yaml); unset: one",
         NULL, &ranks},
        {"--as-threads", NULL,
         "with --device cuda --ranks N: run ranks as threads of this process, without mpirun",
         &b.as_threads, NULL},
        {"--json", NULL, "print JSON, one object for each number of ranks", &b.json, NULL},
    };
    const cli_words all = {"bench", argc, argv, options, 6};
    status st;
    if (names_recipe(&all))
        st = bench_recipe(&b, &all, &done, &err);
    else {
        st = cli_read_plain(&(cli_words){"bench", without_cluster(argc, argv), argv, options, 6},
                            &word, &done, &err);
        if (!st && !done) st = read_words(&b, seconds, ranks, &err);
        if (!st && !done) st = measure_machines(&b, &err);
    }
    int code = st ? cli_fail_alone("bench", st, &err) : OK;
    arena_destroy(b.a);
    return code;
}
