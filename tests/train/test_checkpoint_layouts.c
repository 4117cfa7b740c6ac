/* test_checkpoint_layouts.c - what one layout saves every other loads, bit for bit: weights on all
 * ranks that hold them, moments in every slice; beside training or not; and one outcome for all. */
#include "parts_testing.h"

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/meta.h"

static const struct {
    const char *name, *overrides;
    bool threes; /* experts divide by 3 and not by 8 */
} models[] = {
    {GOLDEN "qwen3-moe-tiny", "", false},
    {GOLDEN "qwen3-next-tiny", "", false},
    {GOLDEN "deepseek-v3-tiny", "model.mtp_num_layers=1", false},
    {GOLDEN "gpt-oss-tiny", "model.share_embeddings_and_output_weights=true", false},
    {GOLDEN "mixtral-tiny",
     "model.num_moe_experts=12 model.should_pad_vocab=true model.make_vocab_size_divisible_by=20 "
     "model.share_embeddings_and_output_weights=true",
     true},
};
enum { N_MODELS = sizeof models / sizeof models[0] };

static checkpoint state_of(one_rank *r)
{
    return (checkpoint){.s = r->all->x.s,
                        .at = &r->at,
                        .c = r->c,
                        .w = &r->w,
                        .weights = r->values,
                        .exp_avg = r->first,
                        .exp_avg_sq = r->second,
                        .state = {.iteration = r->all->iteration, .consumed_samples = 3}};
}

static void note(one_rank *r, status s)
{
    r->s = s;
    if (s) snprintf(r->wrong, sizeof r->wrong, "rank %d: %.200s", (int)r->at.rank, r->err.text);
}

static void save_all(one_rank *r)
{
    ranks_join(r);
    see_arrays(r, false);
    checkpoint c = state_of(r);
    note(r, checkpoint_save(&c, r->all->folder, 0, &r->err));
}

static void load_all(one_rank *r)
{
    ranks_join(r);
    checkpoint c = state_of(r);
    note(r, checkpoint_load(&c, r->all->folder, r->all->iteration, &r->err));
    if (!r->s) see_arrays(r, true);
    if (c.state.consumed_samples != 3) snprintf(r->wrong, sizeof r->wrong, "counters are lost");
}

static void with_ranks(int m, const char *cut, const char *folder, int64_t iteration,
                       void (*work)(one_rank *r))
{
    ranks all;
    ranks_init(&all, models[m].name, models[m].overrides, cut);
    all.folder = folder;
    all.iteration = iteration;
    ranks_run(&all, work);
    ranks_release(&all);
}

static bool fits(int m, int i)
{
    return !strstr(layouts[i], models[m].threes ? EP(8) : EP(3));
}

static void every_layout_loads_what_another_saved(void **state)
{
    (void)state;
    arena *a = arena_create();
    for (int m = 0; m < N_MODELS; m++) {
        const char *folder = scratch_make(a);
        with_ranks(m, layouts[0], folder, 5, save_all);
        for (int i = 1; i < N_LAYOUTS; i++)
            if (fits(m, i)) with_ranks(m, layouts[i], folder, 5, load_all);
        for (int i = 1; i < N_LAYOUTS; i++) { /* and back, each into the next as well */
            if (!fits(m, i)) continue;
            with_ranks(m, layouts[i], folder, 6, save_all);
            with_ranks(m, layouts[0], folder, 6, load_all);
            with_ranks(m, layouts[i % 4 + 1], folder, 6, load_all);
        }
        scratch_remove(folder);
    }
    arena_destroy(a);
}

/* Layers of uneven stages, the head and the prediction module on stages of their own: each with a
 * copy of the word table. */
static void copies_of_the_word_table_are_one_weight(void **state)
{
    (void)state;
#define STAGES(x) " model.pipeline_model_parallel_layout=" x
    static const struct {
        int m;
        const char *cut;
    } rows[] = {
        {3, (RANKS(8) PP(4) EP(2) STAGES("E|ttt|t|L"))},
        {2, (RANKS(6) PP(3) TP(2) STAGES("Ettt|t|mL"))},
        {2, (RANKS(4) PP(2) CP(2) STAGES("Et|tt|t|mL"))},
    };
    arena *a = arena_create();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *folder = scratch_make(a);
        with_ranks(rows[i].m, rows[i].cut, folder, 5, save_all);
        with_ranks(rows[i].m, layouts[1], folder, 5, load_all);
        with_ranks(rows[i].m, layouts[7], folder, 6, save_all);
        with_ranks(rows[i].m, rows[i].cut, folder, 6, load_all);
        scratch_remove(folder);
    }
    arena_destroy(a);
}

/* ---- one rank with the whole model, as `convert` has it */

static void one_rank_reads_and_writes_for_all(void **state)
{
    (void)state;
    for (int m = 0; m < N_MODELS; m++) {
        ranks all;
        ranks_init(&all, models[m].name, models[m].overrides, layouts[0]);
        all.folder = scratch_make(all.x.a);
        all.iteration = 2;
        ranks_run(&all, save_all);
        loaded *x = &all.x;
        checkpoint c = {.s = x->s, .w = &x->w, .weights = x->flat};
        c.exp_avg = calloc((size_t)x->w.owned, sizeof(float));
        c.exp_avg_sq = calloc((size_t)x->w.owned, sizeof(float));
        if (checkpoint_load(&c, all.folder, 2, &x->err)) fail_msg("%s", x->err.text);
        c.state.iteration = all.iteration = 3;
        if (checkpoint_save(&c, all.folder, 0, &x->err)) fail_msg("%s", x->err.text);
        for (int i = 0; i < all.n; i++) rank_arrays(&all.list[i]);
        ranks_run(&all, load_all);
        free(c.exp_avg);
        free(c.exp_avg_sq);
        scratch_remove(all.folder);
        ranks_release(&all);
    }
}

/* ---- each element is written once, by who answers for it */

static void every_element_is_in_one_file(void **state)
{
    (void)state;
    for (int i = 0; i < N_LAYOUTS; i++) {
        ranks all;
        checkpoint_info info;
        if (!fits(0, i)) continue;
        ranks_init(&all, models[0].name, models[0].overrides, layouts[i]);
        all.folder = scratch_make(all.x.a);
        ranks_run(&all, save_all);
        if (checkpoint_read_info(&info, all.x.a, all.folder, 0, &all.x.err))
            fail_msg("%s", all.x.err.text);
        int64_t elements = 0, whole = 0;
        for (int k = 0; k < info.n_files; k++) {
            const char *path = arena_text(all.x.a, "%s/%s", info.path, info.files[k].name);
            opened f = open_file(all.x.a, path);
            for (int t = 0; t < f.f.n_tensors; t++)
                elements += safetensor_elements(&f.f.tensors[t]);
        }
        for (int k = 0; k < all.x.w.n; k++)
            whole += all.x.w.list[k].n * (all.x.w.list[k].row->trained ? 3 : 1);
        assert_int_equal(elements, whole);
        bool sharded = !strstr(layouts[i], UNSHARDED);
        if (sharded) assert_true(info.n_files >= all.n); /* all write */
        scratch_remove(all.folder);
        ranks_release(&all);
    }
}

/* ---- beside training */

static void save_beside(one_rank *r)
{
    checkpoint_saving *v;
    ranks_join(r);
    see_arrays(r, false);
    checkpoint c = state_of(r);
    note(r, checkpoint_save_start(&v, &c, r->all->folder, 0, &r->err));
    if (r->s) return;
    memset(c.weights, 0x55, (size_t)r->w.elements * sizeof(float)); /* training goes on */
    memset(c.exp_avg, 0x55, (size_t)r->w.owned * sizeof(float));
    while (!checkpoint_save_done(v)) sched_yield();
    if (file_exists(arena_text(r->a, "%s/iter_0000005", r->all->folder)))
        snprintf(r->wrong, sizeof r->wrong, "named before all have finished");
    comm_barrier(r->c, GROUP_WORLD);
    note(r, checkpoint_save_finish(v, &r->err));
}

static void training_may_go_on_while_it_is_written(void **state)
{
    (void)state;
    arena *a = arena_create();
    const char *folder = scratch_make(a);
    with_ranks(2, layouts[0], folder, 5, save_beside);
    with_ranks(2, layouts[4], folder, 5, load_all);
    scratch_remove(folder);
    arena_destroy(a);
}

/* ---- one outcome */

static void must_fail(one_rank *r, status s, status wanted, const char *file)
{
    if (s != wanted || !strstr(r->err.text, file))
        snprintf(r->wrong, sizeof r->wrong, "rank %d: %d, %.200s", (int)r->at.rank, (int)s,
                 r->err.text);
}

static void load_damaged(one_rank *r)
{
    ranks_join(r);
    checkpoint c = state_of(r), before = c;
    r->s = checkpoint_load(&c, r->all->folder, r->all->iteration, &r->err);
    must_fail(r, r->s, ERR_INPUT, "decoder.layers.3.");
    if (memcmp(&c.state, &before.state, sizeof c.state) != 0)
        snprintf(r->wrong, sizeof r->wrong, "counters have changed");
}

static void same_message_on_all(const ranks *all)
{
    for (int i = 0; i < all->n; i++)
        assert_string_equal(all->list[i].err.text, all->list[0].err.text);
}

/* The last layer is on the last stage, and only that reads it. */
static void what_one_rank_finds_all_return(void **state)
{
    (void)state;
    arena *a = arena_create();
    const char *folder = scratch_make(a);
    with_ranks(0, layouts[1], folder, 1, save_all);
    const char *path = arena_text(a, "%s/iter_0000001/weights-00000-of-00001.safetensors", folder);
    opened f = open_file(a, path);
    size_t n;
    char *bytes = get_file(a, path, &n);
    const safetensor *t = safetensors_find(&f.f, "decoder.layers.3.mlp.router.weight");
    bytes[f.f.data + t->begin + 9] ^= 1;
    put_file(path, bytes, n);
    ranks all;
    ranks_init(&all, models[0].name, models[0].overrides, layouts[4]);
    all.folder = folder;
    all.iteration = 1;
    ranks_run(&all, load_damaged);
    same_message_on_all(&all);
    assert_has(all.list[0].err.text, "rank 2: ");
    ranks_release(&all);
    scratch_remove(folder);
    arena_destroy(a);
}

static int count_tmp(const char *folder)
{
    DIR *d = opendir(folder);
    int n = 0;
    for (const struct dirent *e; d && (e = readdir(d));) n += strstr(e->d_name, ".tmp-") != NULL;
    if (d) closedir(d);
    return n;
}

static void save_in_vain(one_rank *r)
{
    checkpoint_saving *v;
    checkpoint c = state_of(r);
    r->s = checkpoint_save_start(&v, &c, r->all->folder, 0, &r->err);
    if (!r->s) r->s = checkpoint_save_finish(v, &r->err);
    must_fail(r, r->s, ERR_MACHINE, r->all->folder);
}

static void a_failed_save_leaves_the_last_one_whole(void **state)
{
    (void)state;
    ranks all;
    struct rlimit old;
    ranks_init(&all, models[0].name, models[0].overrides, layouts[5]);
    all.folder = scratch_make(all.x.a);
    all.iteration = 1;
    ranks_run(&all, save_all);
    all.iteration = 2;
    getrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit tight = {100000, old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &tight);
    ranks_run(&all, save_in_vain);
    setrlimit(RLIMIT_FSIZE, &old);
    same_message_on_all(&all);
    assert_false(file_exists(arena_text(all.x.a, "%s/iter_0000002", all.folder)));
    assert_int_equal(count_tmp(all.folder), 0);
    with_ranks(0, layouts[6], all.folder, 1, load_all);
    const char *file = arena_text(all.x.a, "%s/in-the-way", all.folder), *last = all.folder;
    put_file(file, "x", 1);
    all.folder = file;
    ranks_run(&all, save_in_vain);
    same_message_on_all(&all);
    scratch_remove(last);
    ranks_release(&all);
}

/* ---- kill -9 */

/* One rank counts for all: between two barriers nobody reads what it sets. */
static void save_forever(one_rank *r)
{
    checkpoint_saving *v;
    ranks_join(r);
    for (;;) {
        comm_barrier(r->c, GROUP_WORLD);
        if (r->at.rank == 0) r->all->salt = (int)++r->all->iteration;
        comm_barrier(r->c, GROUP_WORLD);
        see_arrays(r, false);
        checkpoint c = state_of(r);
        if (checkpoint_save_start(&v, &c, r->all->folder, 2, &r->err)) _exit(1);
        memset(c.weights, 0x55, (size_t)r->w.elements * sizeof(float));
        if (checkpoint_save_finish(v, &r->err)) _exit(1);
    }
}

_Noreturn static void child(const char *folder, int64_t from)
{
    ranks all;
    ranks_init(&all, models[0].name, models[0].overrides, layouts[5]);
    all.folder = folder;
    all.iteration = from;
    ranks_run(&all, save_forever);
    _exit(1);
}

static void killed_at_any_moment_a_whole_one_is_left(void **state)
{
    (void)state;
    ranks all;
    uint64_t seed = 3;
    int64_t first;
    ranks_init(&all, models[0].name, models[0].overrides, layouts[3]);
    all.folder = scratch_make(all.x.a);
    ranks_run(&all, save_all);
    for (int round = 0; round < 12; round++) {
        first = all.iteration;
        pid_t pid = fork();
        if (pid == 0) child(all.folder, all.iteration - round % 2);
        int ended;
        do { /* until it has saved at least one, and then a little more */
            struct timespec pause = {0, 1000 * (1000 + (long)draw_below(&seed, 50000))};
            nanosleep(&pause, NULL);
            assert_true(waitpid(pid, &ended, WNOHANG) == 0); /* it does not end by itself */
            assert_int_equal(checkpoint_latest(all.folder, &all.iteration, &all.x.err), OK);
        } while (all.iteration <= first);
        kill(pid, SIGKILL);
        assert_true(waitpid(pid, &ended, 0) == pid && WIFSIGNALED(ended));
        assert_int_equal(checkpoint_latest(all.folder, &all.iteration, &all.x.err), OK);
        all.salt = (int)all.iteration;
        for (int i = 0; i < all.n; i++) rank_arrays(&all.list[i]);
        ranks_run(&all, load_all);
    }
    scratch_remove(all.folder);
    ranks_release(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout_loads_what_another_saved),
        cmocka_unit_test(copies_of_the_word_table_are_one_weight),
        cmocka_unit_test(one_rank_reads_and_writes_for_all),
        cmocka_unit_test(every_element_is_in_one_file),
        cmocka_unit_test(training_may_go_on_while_it_is_written),
        cmocka_unit_test(what_one_rank_finds_all_return),
        cmocka_unit_test(a_failed_save_leaves_the_last_one_whole),
        cmocka_unit_test(killed_at_any_moment_a_whole_one_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
