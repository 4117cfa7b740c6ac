/* test_display_names.c - names are for people: a program whose every name is changed costs the
 * same, lies in the same places and exchanges the same messages. */
#include "ir/testing.h"

#include "predict/audit/trace.h"
#include "predict/stages.h"
#include "ir/memory/plan.h"

typedef struct built {
    arena *a;
    setup s;
    hardware hw;
    cost_model c;
    program **programs; /* of every pipeline rank */
} built;

static void build(built *x, const char *model_name, const char *words)
{
    error err = {{0}};
    x->a = arena_create();
    setup_of_words(&x->s, x->a, model_name, words);
    assert_true(x->s.possible);
    if (hardware_read(&x->hw, recipe_word(&x->s.r, K_GPU), x->a, &err)) fail_msg("%s", err.text);
    cost_init(&x->c, &x->hw, &x->s, NULL);
    x->programs = ARENA_ARRAY(x->a, program *, x->s.pipe.pp);
    for (int64_t i = 0; i < x->s.pipe.pp; i++) {
        x->programs[i] = ARENA_NEW(x->a, program);
        program_build(x->programs[i], &x->s, layout_stage_rank(&x->s.lay, i), x->a);
    }
}

static void rename_all(const built *x)
{
    for (int64_t i = 0; i < x->s.pipe.pp; i++)
        for (int k = 0; k < x->programs[i]->n_segments; k++) {
            segment *seg = x->programs[i]->segments[k];
            seg->name = "renamed";
            for (int id = 0; id < seg->n_bufs; id++) seg->bufs[id].name = "renamed";
            for (int phase = 0; phase < 2; phase++)
                for (int n = 0; n < seg->n_ops[phase]; n++) seg->ops[phase][n].name = "renamed";
        }
}

static void same_costs(const built *was, const built *is, const segment *a, const segment *b)
{
    assert_int_equal(a->kind, b->kind);
    for (int phase = 0; phase < 2; phase++) {
        assert_int_equal(a->n_ops[phase], b->n_ops[phase]);
        for (int i = 0; i < a->n_ops[phase]; i++) {
            const op *o = &a->ops[phase][i];
            op_cost x = cost_of(&was->c, a, o), y = cost_of(&is->c, b, &b->ops[phase][i]);
            if (x.kind != y.kind || x.part != y.part || x.seconds != y.seconds ||
                x.quantise != y.quantise || x.eager != y.eager || x.replayed != y.replayed)
                fail_msg("%s %s: %s %s costs other: %g s instead of %g", was->s.r.name, a->name,
                         op_infos[o->kind].name, o->name, y.seconds, x.seconds);
        }
    }
}

static void same_places(const program *a, const program *b)
{
    assert_int_equal(a->arena_bytes, b->arena_bytes);
    assert_int_equal(a->host_bytes, b->host_bytes);
    for (int part = 0; part < PART_COUNT; part++) {
        assert_int_equal(a->items[part].n, b->items[part].n);
        for (int64_t i = 0; i < a->items[part].n; i++) {
            const item *x = &a->items[part].list[i], *y = &b->items[part].list[i];
            for (int id = 0; id < x->seg->n_bufs; id++)
                if (program_place(a, x, id) != program_place(b, y, id))
                    fail_msg("%s: %s lies elsewhere", x->seg->name, x->seg->bufs[id].name);
        }
    }
}

static void same_entry(const audit_entry *x, const audit_entry *y)
{
    if (x->kind != y->kind || x->group != y->group || x->n != y->n || x->width != y->width ||
        x->event != y->event || x->owner != y->owner || x->shape.hop != y->shape.hop ||
        x->shape.back != y->shape.back || entry_bytes(x) != entry_bytes(y))
        fail_msg("the audit sees another %s %s", op_infos[x->kind].name, x->name);
}

static void same_messages(const built *was, const built *is, int64_t rank)
{
    audit_book books[2] = {{.s = &was->s, .a = was->a}, {.s = &is->s, .a = is->a}};
    audit_trace a = trace_of(&books[0], was->programs[rank]);
    audit_trace b = trace_of(&books[1], is->programs[rank]);
    for (int part = 0; part < PART_COUNT; part++) {
        assert_int_equal(a.part[part]->n, b.part[part]->n);
        for (int64_t i = 0; i < a.part[part]->n; i++) {
            const audit_list *x = a.part[part]->items[i].list, *y = b.part[part]->items[i].list;
            assert_int_equal(x->n, y->n);
            for (int k = 0; k < x->n; k++) same_entry(&x->entries[k], &y->entries[k]);
        }
    }
}

static void compare(const char *model_name, const char *words)
{
    built was, is;
    build(&was, model_name, words);
    build(&is, model_name, words);
    rename_all(&is);
    int64_t pp = was.s.pipe.pp;
    for (int64_t i = 0; i < pp; i++) {
        plan_memory(is.programs[i], false, is.a); /* once more, under other names */
        same_places(was.programs[i], is.programs[i]);
        same_messages(&was, &is, i);
        for (int k = 0; k < was.programs[i]->n_segments; k++)
            same_costs(&was, &is, was.programs[i]->segments[k], is.programs[i]->segments[k]);
    }
    stage_time *a = ARENA_ARRAY(was.a, stage_time, pp), *b = ARENA_ARRAY(is.a, stage_time, pp);
    assert_true(simulate_stages(a, &(stage_simulation){&was.c, was.programs, NULL}, was.a));
    assert_true(simulate_stages(b, &(stage_simulation){&is.c, is.programs, NULL}, is.a));
    assert_memory_equal(a, b, sizeof *a * (size_t)pp);
    arena_destroy(was.a);
    arena_destroy(is.a);
}

#define H100(n)    "cluster.gpu=H100 cluster.n_gpus=" n " "
#define GB200(n)   "cluster.gpu=GB200 cluster.n_gpus=" n " "
#define EP(n)      "model.expert_model_parallel_size=" n " "
#define PP(n)      "model.pipeline_model_parallel_size=" n " "
#define TP(n)      "model.tensor_model_parallel_size=" n " model.sequence_parallel=true "
#define FLEX(how)  "model.moe_token_dispatcher_type=flex model.moe_flex_dispatcher_backend=" how " "
#define ALL_TO_ALL "model.moe_token_dispatcher_type=alltoall "
#define BATCH      "train.global_batch_size=64 train.micro_batch_size=1 "

static void names_change_no_price_no_place_and_no_message(void **state)
{
    (void)state;
    static const struct {
        const char *model, *words;
    } cases[] = {
        {"qwen3-30b-a3b", H100("16") BATCH EP("8") PP("2") ALL_TO_ALL},
        {"qwen3-30b-a3b",
         H100("16") BATCH TP("2") EP("16") FLEX("deepep") "mixed_precision=fp8_sc"},
        {"deepseek-v3", H100("64") BATCH EP("16") PP("4") FLEX("deepep")},
        {"tests/data/golden/mtp-tiny", GB200("4") BATCH EP("4") FLEX("hybridep")},
        {"tiny", GB200("4") BATCH EP("4") ALL_TO_ALL
         "mixed_precision=mxfp8 model.use_transformer_engine_op_fuser=true"},
        {"tiny",
         GB200("4") BATCH EP("4") ALL_TO_ALL "comm_overlap.overlap_moe_expert_parallel_comm=true "
                                             "comm_overlap.delay_wgrad_compute=true"},
        {"tiny", GB200("4") BATCH EP("4") ALL_TO_ALL
         "model.cuda_graph_impl=transformer_engine "
         "model.cuda_graph_modules=[attn,moe_router,moe_preprocess]"},
        {"tiny", GB200("4") BATCH EP("2") ALL_TO_ALL
         "model.fine_grained_activation_offloading=true "
         "model.offload_modules=[expert_fc1,moe_act,core_attn,attn_proj] "
         "model.min_offloaded_tensor_size=1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        compare(cases[i].model, cases[i].words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_change_no_price_no_place_and_no_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
