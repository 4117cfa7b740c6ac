/* test_export.c - what `moefold convert` exports is the model that was trained.
 *
 * tests/data/export has the cases: a model, and knobs that differ from it. transformers has read
 * each of the exported folders; its logits are stored. Here the folder is made again: its
 * config.json must be the one that transformers read, and what our program computes with the
 * trained recipe must be what transformers computed of the folder.
 *
 * With the variable EXPORT_CASES=FOLDER nothing is compared and the folders are left there: make.py
 * begins so. Without TEST_ALL every third case is looked at, and the first of each model. */
#include "cli/converting.h"

#include <math.h>
#include <omp.h>

#include "base/json.h"
#include "train/checkpoint/checkpoint.h"
#include "train/parity/parity.h"

#define CASES "tests/data/export/"
#define FIXED                                                                                      \
    "cluster.gpu=cpu train.micro_batch_size=1 train.global_batch_size=1 model.seq_length=12 "      \
    "model.vocab_size=12 model.moe_aux_loss_coeff=0.0 model.moe_z_loss_coeff=null "                \
    "model.moe_router_bias_update_rate=0.0 model.mtp_loss_scaling_factor=0.0 "

enum { SEQ = 12, VOCAB = 12 };

/* args.c prints help from it; main.c, which has it, is not linked here. */
const char cli_absent[] = "";

const command *command_table(int *n)
{
    static const command table[] = {
        {.name = "convert", .usage = "SRC DST", .summary = "test", .run = command_convert}};
    *n = 1;
    return table;
}

/* ---- the command */

typedef struct told {
    int code;
    const char *text;
} told;

static told converted(arena *a, const char *scratch, const char *words)
{
    size_t n;
    const char *out = arena_text(a, "%s/out.txt", scratch);
    told t = {.code = convert(a, out, words)};
    t.text = get_file(a, out, &n);
    return t;
}

/* ---- a trained model: any numbers, so that each weight matters */

/* Norms keep their last bit when 1 is added and taken away again: few bits are used, and no -0. */
static float drawn(const param *p, const model *m, uint64_t *seed)
{
    float x = rintf(draw_real(seed) * 64) / 64 + 0.0f;
    int64_t in = p->n_dims > 1 ? p->dim[p->n_dims - 1] : 1;
    if (p->init == INIT_ONE) return 1 + 0.25f * x;
    if (p->init == INIT_A_LOG) return 1 + x;
    if (p->n_dims == 1) return 0.25f * x;
    if (p->kind == PARAM_EMBEDDING) return x / sqrtf((float)m->hidden) * 4;
    return 2 * x / sqrtf((float)in);
}

static void draw(loaded *x)
{
    uint64_t seed = 7;
    for (int i = 0; i < x->w.n; i++) {
        const weight *w = &x->w.list[i];
        for (int64_t e = 0; e < w->n; e++) x->flat[w->offset + e] = drawn(w->row, &x->s->m, &seed);
    }
}

static void save_checkpoint(loaded *x, const char *source, const char *folder)
{
    size_t n;
    const char *config = arena_text(x->a, "%s/config.json", source);
    checkpoint c = {.s = x->s, .w = &x->w, .weights = x->flat};
    if (file_exists(config)) c.config = get_file(x->a, config, &n);
    if (checkpoint_save(&c, folder, 0, &x->err)) fail_msg("%s", x->err.text);
}

/* ---- cases */

typedef struct one {
    const char *name, *source, *words, *refused; /* refused: part of the message; NULL: exported */
} one;

static const char *text_of(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

static one case_at(const json_t *list, size_t i)
{
    const json_t *o = json_array_get(list, i);
    return (one){text_of(o, "name"), text_of(o, "source"), text_of(o, "words"),
                 text_of(o, "refused")};
}

static const char *source_of(arena *a, const one *c)
{
    const char *folder = arena_text(a, GOLDEN "%s", c->source);
    return file_is_folder(folder) ? folder : c->source;
}

static json_t *read_json(const char *path)
{
    error err;
    json_t *root;
    if (json_read(path, &root, &err)) fail_msg("%s", err.text);
    return root;
}

/* The source's file with what differs, null where a field is gone; or the whole file. */
static void is_the_file_that_was_read(arena *a, const one *c, const json_t *expected,
                                      const char *folder)
{
    const char *source = arena_text(a, "%s/config.json", source_of(a, c));
    const json_t *whole = json_object_get(expected, "config");
    const json_t *changed = json_object_get(expected, "changed");
    json_t *want = whole ? json_deep_copy(whole) : read_json(source);
    json_t *got = read_json(arena_text(a, "%s/config.json", folder));
    const char *key;
    json_t *v;
    json_t *map = json_incref((json_t *)(uintptr_t)changed);
    json_object_foreach(map, key, v)
    {
        if (json_is_null(v) && !json_object_get(got, key))
            json_object_del(want, key);
        else
            json_object_set(want, key, v);
    }
    if (!json_equal(want, got))
        fail_msg("%s: config.json is\n%s\nbut transformers read\n%s", c->name,
                 json_indented(a, got), json_indented(a, want));
    json_decref(map);
    json_decref(want);
    json_decref(got);
}

/* The stored logits become a reference case in the exported folder. */
static void put_reference(arena *a, const one *c, const opened *logits, const json_t *expected,
                          const char *folder)
{
    int32_t ids[SEQ], labels[SEQ];
    for (int i = 0; i < SEQ; i++) {
        ids[i] = (7 * i * i + 3) % VOCAB;
        labels[i] = (5 * i + 1) % VOCAB;
    }
    made_file f = made_file_init(a);
    made_add(&f, "input_ids", "I32", "1,12", ids, sizeof ids);
    made_add(&f, "labels", "I32", "1,12", labels, sizeof labels);
    made_add(&f, "logits", "F32", "1,12,12", tensor_named(logits, c->name),
             SEQ * VOCAB * sizeof(float));
    made_write(&f, arena_text(a, "%s/golden.safetensors", folder));
    const char *json =
        arena_text(a, "{\"loss\": %.17g, \"losses\": [], \"tolerance\": {\"logits\": 2e-5}}",
                   json_number_value(json_object_get(expected, "loss")));
    put_file(arena_text(a, "%s/golden.json", folder), json, strlen(json));
}

static void computes_the_same(const one *c, const loaded *x, const char *folder)
{
    parity_result r;
    error err;
    parity_options o = {.folder = folder, .max_steps = 1};
    if (parity_run(&r, x->s, x->a, &o, NULL, &err)) fail_msg("%s: %s", c->name, err.text);
    if (!r.ok)
        fail_msg("%s: loss differs by %g, logits by %g", c->name, r.loss_rel_err, r.logits_rel_err);
}

static void comes_back(arena *a, const one *c, const char *scratch)
{
    told t = converted(a, scratch, arena_text(a, "%s/out %s/back", scratch, scratch));
    if (t.code) fail_msg("%s: %s", c->name, t.text);
    size_t n, m;
    const char *file = "iter_0000000/weights-00000-of-00001.safetensors";
    const char *was = get_file(a, arena_text(a, "%s/ours/%s", scratch, file), &n);
    const char *is = get_file(a, arena_text(a, "%s/back/%s", scratch, file), &m);
    if (n != m || memcmp(was, is, n) != 0)
        fail_msg("%s: %s: other weights come back", c->name, c->words);
}

static void keep(arena *a, const one *c, const char *scratch, const char *into)
{
    const char *to = arena_text(a, "%s/%s", into, c->name);
    told t = converted(a, scratch, arena_text(a, "%s/ours %s --to hf", scratch, to));
    if (t.code) printf("%s: %s", c->name, t.text);
}

static void look_at(const one *c, const json_t *all_expected, const opened *logits)
{
    loaded x;
    const char *into = getenv("EXPORT_CASES");
    arena *a = arena_create();
    const char *scratch = scratch_make(a), *source = source_of(a, c);
    loaded_init(&x, source, arena_text(a, FIXED "%s", c->words));
    draw(&x);
    save_checkpoint(&x, source, arena_text(a, "%s/ours", scratch));
    if (into) {
        keep(a, c, scratch, into);
    } else {
        const json_t *expected = json_object_get(all_expected, c->name);
        told t = converted(a, scratch, arena_text(a, "%s/ours %s/out", scratch, scratch));
        if (t.code != (c->refused ? ERR_INPUT : OK)) fail_msg("%s: %s", c->name, t.text);
        if (c->refused) {
            assert_has(t.text, c->refused);
            assert_has(t.text, "repair");
        } else {
            if (!expected) fail_msg("%s: no such case is stored", c->name);
            const char *folder = arena_text(a, "%s/out", scratch);
            is_the_file_that_was_read(a, c, expected, folder);
            comes_back(a, c, scratch);
            put_reference(a, c, logits, expected, folder);
            computes_the_same(c, &x, folder);
        }
    }
    scratch_remove(scratch);
    loaded_release(&x);
    arena_destroy(a);
}

static void transformers_computes_what_was_trained(void **state)
{
    (void)state;
    arena *a = arena_create();
    bool all = getenv("TEST_ALL") || getenv("EXPORT_CASES");
    json_t *list = read_json(CASES "cases.json"), *expected = NULL;
    opened logits = {0};
    if (!getenv("EXPORT_CASES")) {
        expected = read_json(CASES "expected.json");
        logits = open_file(a, CASES "logits.safetensors");
    }
    const char *last = "";
    for (size_t i = 0; i < json_array_size(list); i++) {
        one c = case_at(list, i);
        if (all || i % 3 == 0 || strcmp(last, c.source) != 0) look_at(&c, expected, &logits);
        last = c.source;
    }
    json_decref(list);
    json_decref(expected);
    arena_destroy(a);
}

/* ---- what goes with a model */

static void put_text(arena *a, const char *folder, const char *name, const char *text)
{
    put_file(arena_text(a, "%s/%s", folder, name), text, strlen(text));
}

static void holds(arena *a, const char *folder, const char *name, const char *text)
{
    size_t n;
    assert_string_equal(get_file(a, arena_text(a, "%s/%s", folder, name), &n), text);
}

/* A folder as from the hub: files that are links, a pipe, and what is none of ours. */
static const char *make_source(arena *a, const char *scratch)
{
    size_t n;
    const char *source = arena_text(a, "%s/source", scratch);
    assert_int_equal(mkdir(source, 0700), 0);
    put_text(a, source, "config.json", get_file(a, GOLDEN "qwen3-moe-tiny/config.json", &n));
    put_text(a, source, "tokenizer.json", "{}");
    put_text(a, source, "blob", "template");
    put_text(a, source, "generation_config.json", "{\"eos_token_id\": 3}");
    put_text(a, source, "README.md", "no");
    assert_int_equal(symlink("blob", arena_text(a, "%s/chat_template.jinja", source)), 0);
    assert_int_equal(mkfifo(arena_text(a, "%s/tokenizer.pipe", source), 0600), 0);
    return source;
}

static void files_of_the_source_go_along(void **state)
{
    (void)state;
    loaded x;
    arena *a = arena_create();
    const char *scratch = scratch_make(a), *source = make_source(a, scratch);
    loaded_init(&x, source, FIXED "model.moe_router_topk=3 model.moe_expert_capacity_factor=1.5");
    draw(&x);
    save_checkpoint(&x, source, arena_text(a, "%s/ours", scratch));
    told t = converted(a, scratch, arena_text(a, "%s/ours %s/out", scratch, scratch));
    assert_has(t.text, "chat_template.jinja, generation_config.json, tokenizer.json\n");
    assert_has(t.text, "the source's but for num_experts_per_tok, vocab_size");
    assert_has(t.text, "trained with model.moe_expert_capacity_factor=1.5: tokens beyond");
    const char *out = arena_text(a, "%s/out", scratch);
    holds(a, out, "tokenizer.json", "{}");
    holds(a, out, "chat_template.jinja", "template");
    holds(a, out, "generation_config.json", "{\"eos_token_id\": 3}");
    assert_false(file_exists(arena_text(a, "%s/README.md", out)));
    assert_false(file_exists(arena_text(a, "%s/tokenizer.pipe", out)));

    /* The folder is gone: nothing is copied, and it is said; another is named. */
    scratch_remove(source);
    t = converted(a, scratch, arena_text(a, "%s/ours %s/bare", scratch, scratch));
    assert_has(t.text, "no tokenizer files: the folder that the model came from is not known");
    t = converted(a, scratch,
                  arena_text(a, "%s/ours %s/named --tokenizer %s --json", scratch, scratch, out));
    assert_has(t.text, "\"copied\":[\"chat_template.jinja\",\"generation_config.json\",");
    assert_has(t.text, "\"config_changed\":\"num_experts_per_tok, vocab_size\"");
    holds(a, arena_text(a, "%s/named", scratch), "tokenizer.json", "{}");
    t = converted(a, scratch,
                  arena_text(a, "%s/ours %s/no --tokenizer %s/none", scratch, scratch, scratch));
    assert_int_equal(t.code, ERR_INPUT);
    assert_has(t.text, "is not a folder");
    scratch_remove(scratch);
    loaded_release(&x);
    arena_destroy(a);
}

int main(void)
{
    omp_set_num_threads(1); /* toys: threads would only wait for one another */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transformers_computes_what_was_trained),
        cmocka_unit_test(files_of_the_source_go_along),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
