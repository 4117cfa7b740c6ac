/* bench_ranks.c - `moefold bench --device cuda --ranks N`: messages between ranks of GPUs.
 *
 * They go as in a run: from a device's memory to another's on the devices' streams, through the
 * transport that the device chooses when its ranks join. Kernels are what one rank measures, with a
 * GPU to itself: their numbers are those of its file (h200-measured.yaml), where there is one, else
 * those of the shipped file, and the file of the ranks (h200-measured-2.yaml) says which.
 *
 * Devices of the CPU that run ahead take the same way: it is tested on them. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/models/models.h"
#include "cli/bench.h"
#include "cli/join.h"
#include "cli/rank_threads.h"

bool bench_on_gpu(const bench *b)
{
    return text_starts(b->device, "cuda");
}

bool bench_by_device(const bench *b)
{
    return !text_equal(b->device, "cpu");
}

/* ---- ranks */

status bench_setup(bench *b, int n, setup **out, error *err)
{
    const char *words[] = {"cluster.gpu=cpu", arena_text(b->a, "cluster.n_gpus=%d", n),
                           arena_text(b->a, "cluster.gpus_per_node=%d", n)};
    recipe *r = ARENA_NEW(b->a, recipe);
    setup *s = *out = ARENA_NEW(b->a, setup);
    recipe_init(r, b->a, "bench");
    recipe_set(r, K_MODEL, value_of_text("tiny"), "bench");
    for (int i = 0; i < 3; i++) TRY(recipe_override(r, words[i], "bench", err));
    TRY(model_fill(r, err));
    return setup_init(s, r, b->a, err);
}

/* ---- files */

status bench_find_base(bench *b, error *err)
{
    const size_t n = strcspn(b->device, ":");
    const char *name =
        bench_on_gpu(b) ? device_cuda_word(&b->gpu, b->a) : arena_copy(b->a, b->device, n);
    const char *measured_file = arena_text(b->a, "%s-measured.yaml", name);
    const char *path = hardware_file(measured_file, b->a);
    b->file = measured_file;
    if (comm_launched()) /* by hand: whoever starts ranks here says where it goes */
        b->file = arena_text(b->a, "%s-measured-%d.yaml", name, comm_launched_ranks());
    if (path) return hardware_read(&b->base, path, b->a, err);
    return bench_on_gpu(b) ? OK : hardware_read(&b->base, "cpu", b->a, err);
}

/* "NVIDIA H200", "device peers" */
static void name_device(const bench *b, measured *m)
{
    const int n = (int)strcspn(b->device, ":");
    snprintf(m->device, sizeof m->device, "%.*s", n, b->device);
    if (bench_on_gpu(b))
        snprintf(m->gpu, sizeof m->gpu, "%s", b->gpu.name);
    else
        snprintf(m->gpu, sizeof m->gpu, "Device %s", b->device);
}

/* ---- what is printed */

static const char *shared(const bench *b, const measured *m)
{
    if (m->devices == m->ranks) return "";
    return arena_text(b->a, "; %d ranks share %d device%s: copies inside one memory, no NVLink",
                      m->ranks, m->devices, m->devices > 1 ? "s" : "");
}

static void print_messages(bench *b, const measured *m)
{
    printf("%s\n%d ranks; transport: %s%s\n", m->gpu, m->ranks, m->transport, shared(b, m));
    for (int k = 0; k < MEASURED_MESSAGES; k++)
        bench_print_curve(b, measured_message_name((measured_message)k), &m->message[k], "GB/s");
    printf("  smallest message %.2f us\n  all else from %s\n\n", m->latency * 1e6, b->base.path);
    fflush(stdout);
    bench_warn_of_others(m);
}

static void print_json(const bench *b, const measured *m)
{
    bench_ranks_answer x = {.ranks = m->ranks,
                            .threads = m->threads,
                            .file = b->out,
                            .base = b->base.path,
                            .device = m->device,
                            .gpu = m->gpu,
                            .transport = m->transport,
                            .devices = m->devices,
                            .others = m->others,
                            .latency_s = m->latency};
    x.messages = bench_messages_answer(&x.n_messages, m, b->a);
    cli_json_print(answer_json(bench_ranks_answer, &x));
}

static status write_messages(bench *b, const measured *m, error *err)
{
    status st = measured_write_links(m, &b->base, b->out, err);
    if (st) return st;
    if (b->json)
        print_json(b, m);
    else
        print_messages(b, m);
    fprintf(stderr, "moefold bench: wrote %s\n", b->out);
    return OK;
}

/* ---- measuring */

static void say(const bench *b, int ranks)
{
    fprintf(stderr,
            "moefold bench: %s, communication between %d ranks, about %.0f s; all else is taken "
            "from %s\n",
            bench_on_gpu(b) ? b->gpu.name : b->device, ranks, b->seconds, b->base.path);
}

/* Devices that the ranks are on. Collective. */
static int count_devices(const bench *b, comm *c, error *err)
{
    const size_t bytes = sizeof b->gpu.uuid;
    const int64_t n = comm_size(c);
    char *all = calloc((size_t)n, bytes);
    int count = 0;
    if (!all) {
        error_set(err, ERR_MACHINE, "no host memory for the ranks' devices");
        comm_abort(c, ERR_MACHINE, err->text); /* others wait */
        return 0;
    }
    comm_collect(c, GROUP_WORLD, b->gpu.uuid, bytes, all);
    for (int64_t r = 0; r < n; r++) {
        bool first = true;
        for (int64_t q = 0; q < r; q++)
            first = first && memcmp(all + (size_t)q * bytes, all + (size_t)r * bytes, bytes) != 0;
        count += first;
    }
    free(all);
    return count;
}

/* Of one rank; nothing of the arena is taken, which threads share. */
static status measure_rank(bench *b, comm *c, measured *m, error *err)
{
    const bool speaks = comm_rank(c) == 0;
    const device_options on = {.name = b->device};
    measure_options o = {.seconds = b->seconds,
                         .threads = bench_cores((int)comm_size(c)),
                         .device = &on,
                         .scale = bench_on_gpu(b) ? &measure_scale_gpu : &measure_scale_cpu,
                         .messages = true};
    if (speaks) {
        say(b, (int)comm_size(c));
        progress_init(&b->bar, stderr, 0, 1, omp_get_wtime());
        o.says = bench_progress;
        o.who = &b->bar;
    }
    int devices = count_devices(b, c, err);
    status st = measure_machine(m, c, &o, err);
    if (speaks) progress_finish(&b->bar);
    m->devices = devices;
    name_device(b, m);
    return st;
}

status bench_messages(bench *b, comm *c, error *err)
{
    measured m;
    status st = measure_rank(b, c, &m, err);
    return st || comm_rank(c) > 0 ? st : write_messages(b, &m, err);
}

/* ---- as threads */

typedef struct rank_job {
    bench *b;
    comm *c;
    const setup *s;
    measured m;
    status st;
    error err;
} rank_job;

static void *run_rank(void *with)
{
    rank_job *k = with;
    comm_here(k->c);
    k->st = comm_groups(k->c, k->s, &k->err);
    if (!k->st) k->st = measure_rank(k->b, k->c, &k->m, &k->err);
    comm_close(k->c);
    return NULL;
}

status bench_threads(bench *b, error *err)
{
    const int n = b->ranks;
    rank_job *jobs = ARENA_ARRAY(b->a, rank_job, n);
    comm **comms = ARENA_ARRAY(b->a, comm *, n);
    void **with = ARENA_ARRAY(b->a, void *, n);
    setup *s;
    TRY(bench_setup(b, n, &s, err));
    TRY(comm_open_threads(comms, n, err));
    for (int i = 0; i < n; i++) {
        jobs[i] = (rank_job){.b = b, .c = comms[i], .s = s};
        with[i] = &jobs[i];
    }
    cli_rank_threads(comms, n, run_rank, with);
    if (jobs[0].st) { /* all have the same */
        *err = jobs[0].err;
        return jobs[0].st;
    }
    return write_messages(b, &jobs[0].m, err);
}
