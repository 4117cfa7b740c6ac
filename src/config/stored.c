/* stored.c - which knobs make a model, a job and a run the same one. */
#include "config/stored.h"

#include <string.h>

#include "base/text.h"

enum { NAMED_MAX = 12 };

/* What the weights compute; sizes are compared by the weights themselves, too. */
static const knob_id of_the_model[] = {
    K_LAYERS,
    K_HIDDEN,
    K_HEADS,
    K_KV_HEADS,
    K_HEAD_DIM,
    K_VOCAB,
    K_TIED,
    K_NORM,
    K_NORM_EPS,
    K_LATENT_EPS,
    K_NORM_ZERO_CENTERED,
    K_GLU,
    K_ACTIVATION,
    K_GLU_OFFSET,
    K_GLU_CLAMP,
    K_LINEAR_BIAS,
    K_QKV_BIAS,
    K_ATTN_BIAS,
    K_MLP_BIAS_ALONE,
    K_QK_NORM,
    K_QK_NORM_WHOLE,
    K_POSITION,
    K_ROPE_BASE,
    K_ROPE_PERCENT,
    K_ROPE_TYPE,
    K_ROPE_INTERLEAVED,
    K_ROPE_HALVES,
    K_LLAMA3_ROPE,
    K_ROPE_FACTOR,
    K_ROPE_MSCALE,
    K_ROPE_MSCALE_ALL,
    K_LLAMA3_FACTOR,
    K_LLAMA3_LOW,
    K_LLAMA3_HIGH,
    K_ROPE_TRAINED,
    K_ROPE_DYNAMIC,
    K_ROPE_LINEAR,
    K_ROPE_ORIGINAL,
    K_ROPE_BETA_FAST,
    K_ROPE_BETA_SLOW,
    K_ROPE_TRUNCATE,
    K_WINDOW,
    K_WINDOW_SKIP,
    K_SOFTMAX,
    K_OUTPUT_GATE,
    K_MLA,
    K_VARIANT,
    K_LINEAR_FREQ,
    K_MTP,
    K_MTP_REPEATED,
    K_EXPERTS,
    K_TOPK,
    K_MOE_FREQ,
    K_SHARED_GATE,
    K_SCORE,
    K_PRE_SOFTMAX,
    K_ROUTER_NORM,
    K_SCALING,
    K_GROUPS,
    K_GROUP_TOPK,
    K_GROUP_SCORE,
    K_EXPERT_BIAS,
    K_PROBS_ON_INPUT,
    K_LATENT_MOE,
};

/* What else makes a job the same one beside its model: sizes, data, seed, optimizer, schedule. What
 * is not here may differ: layout, machine, number formats, length of the run, intervals. */
static const char *const of_the_job[] = {"dataset.", "optimizer.", "scheduler.", "rng."};
static const knob_id also_of_the_job[] = {
    K_SEQ,
    K_GBS,
    K_RAMPUP,
    K_SKIP_ITERS,
    K_MOCK_DATA,
    K_FFN,
    K_MOE_FFN,
    K_SHARED_FFN,
    K_Q_LORA,
    K_KV_LORA,
    K_QK_DIM,
    K_QK_ROPE_DIM,
    K_V_DIM,
    K_PER_TOKEN_LOSS,
    K_BALANCING,
    K_AUX_COEFF,
    K_Z_COEFF,
    K_BIAS_RATE,
    K_MTP_FACTOR,
    K_MTP_DETACH,
    K_CAPACITY,
    K_DROP_POLICY,
    K_JITTER,
    K_ATTENTION_DROPOUT,
    K_HIDDEN_DROPOUT,
    K_FORCE_RANDOM,
    K_INIT_STD,
    K_FORCE_BALANCE,
    K_EMBED_INIT_STD,
    K_GLOBAL_AUX_COMPAT,
};
static const knob_id not_of_the_job[] = {
    K_DATA_CACHE,          K_WORKERS,     K_MMAP,
    K_SKIP_MASK,           K_OPT_OFFLOAD, K_OPT_OFFLOAD_FRACTION,
    K_OPT_OFFLOAD_OVERLAP, K_OPT_STATES,  K_PRECISION_AWARE,
    K_MAIN_GRADS,          K_MAIN_PARAMS, K_EXP_AVG,
    K_EXP_AVG_SQ,          K_REMAINDERS,  K_SCHED_OVERRIDE,
    K_SCHED_CHECKPOINT,    K_TE_RNG,
};

/* What says where a run saves, prints and ends changes from run to run. */
static const char *const of_the_run[] = {"checkpoint.", "logger.", "train.exit_", "moefold.model"};

static bool is_in(const knob_id *list, size_t n, knob_id k)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == k) return true;
    return false;
}

static bool starts_in(const char *const *list, size_t n, knob_id k)
{
    for (size_t i = 0; i < n; i++)
        if (text_starts(knobs[k].key, list[i])) return true;
    return false;
}

#define COUNT_OF(list) (sizeof(list) / sizeof *(list))

static bool is_of_the_model(knob_id k)
{
    return is_in(of_the_model, COUNT_OF(of_the_model), k);
}

/* Does a job with another value of this knob give other weights, on any machine, in any layout? */
static bool is_of_the_job(knob_id k)
{
    if (is_in(not_of_the_job, COUNT_OF(not_of_the_job), k)) return false;
    return is_of_the_model(k) || is_in(also_of_the_job, COUNT_OF(also_of_the_job), k) ||
           starts_in(of_the_job, COUNT_OF(of_the_job), k);
}

static bool differs(const recipe *then, const recipe *now, knob_id k)
{
    if (then->knob[k].from == FROM_NOTHING || now->knob[k].from == FROM_NOTHING) return false;
    return !value_equal(then->knob[k].v, now->knob[k].v); /* I1 */
}

/* Its weights would not fit. */
static bool is_of_the_shape(knob_id k)
{
    return k == K_LAYERS || k == K_HIDDEN || k == K_VOCAB || k == K_EXPERTS || k == K_TIED;
}

static status other_model(const stored_recipe *stored, const recipe *then, const recipe *now,
                          knob_id k, arena *a, error *err)
{
    const char *was = value_text(a, then->knob[k].v), *is = value_text(a, now->knob[k].v);
    const char *anew =
        arena_text(a, ", or %s=true to start anew from its weights", knobs[K_FINETUNE].key);
    return error_set(
        err, ERR_INPUT, "%s: is of another model: %s was %s there and is %s here; repair: %s=%s%s",
        stored->path, knobs[k].key, was, is, knobs[k].key, was, is_of_the_shape(k) ? "" : anew);
}

static void name_one(textbuf *out, const recipe *then, const recipe *now, knob_id k, int n)
{
    if (n > NAMED_MAX) return;
    text_add(out, "%s%s %s -> %s", n > 1 ? ", " : "", knobs[k].key,
             value_text(out->a, then->knob[k].v), value_text(out->a, now->knob[k].v));
}

static status read_then(recipe *then, const stored_recipe *stored, arena *a, error *err)
{
    recipe_init(then, a, stored->path);
    return recipe_parse_yaml(then, stored->path, stored->text, strlen(stored->text), err);
}

status stored_compare(const stored_recipe *stored, const recipe *now, bool resumes,
                      textbuf *changed, error *err)
{
    arena *a = changed->a;
    recipe *then = ARENA_NEW(a, recipe);
    error why = {{0}};
    int n = 0;
    if (read_then(then, stored, a, &why)) {
        text_add(changed, "the recipe in the checkpoint cannot be compared: %s", why.text);
        return OK;
    }
    for (int k = 0; k < K_COUNT; k++) {
        if (starts_in(of_the_run, COUNT_OF(of_the_run), (knob_id)k) ||
            (k == K_BUFFER_FACTOR && stored->grew) || !differs(then, now, (knob_id)k))
            continue;
        if (resumes && is_of_the_model((knob_id)k))
            return other_model(stored, then, now, (knob_id)k, a, err);
        name_one(changed, then, now, (knob_id)k, ++n);
    }
    if (n > NAMED_MAX) text_add(changed, " and %d more", n - NAMED_MAX);
    return OK;
}

/* Where the weights came from is a person's to leave out once there is a checkpoint. */
static bool is_another_job(const recipe *then, const recipe *now, knob_id k)
{
    if (k == K_PRETRAINED && !recipe_given(now, k)) return false;
    return (k == K_PRETRAINED || is_of_the_job(k)) && differs(then, now, k);
}

status stored_same_job(const stored_recipe *stored, const recipe *now, const char *folder,
                       error *err)
{
    arena *a = arena_create();
    recipe *then = ARENA_NEW(a, recipe);
    const char *save = knobs[K_SAVE].key;
    status s = read_then(then, stored, a, err);
    for (knob_id k = 0; k < K_COUNT && !s; k++) {
        if (!is_another_job(then, now, k)) continue;
        const char *was = value_text(a, then->knob[k].v), *is = value_text(a, now->knob[k].v);
        const char *on = is_of_the_model(k)
                             ? ""
                             : arena_text(a, ", or %s=%s to go on from it with this recipe",
                                          knobs[K_LOAD].key, folder);
        s = error_set(err, ERR_INPUT,
                      "%s=%s: holds iteration %lld of another job: %s was %s there and is %s here; "
                      "repair: %s=ANOTHER_FOLDER to start at step 0, or %s=%s to go on with that "
                      "job%s",
                      save, folder, (long long)stored->iteration, knobs[k].key, was, is, save,
                      knobs[k].key, was, on);
    }
    arena_destroy(a);
    return s;
}

status stored_same_run(const stored_recipe *stored, const recipe *now, const char *folder,
                       error *err)
{
    arena *a = arena_create();
    recipe *then = ARENA_NEW(a, recipe);
    status s = read_then(then, stored, a, err);
    for (knob_id k = 0; k < K_COUNT && !s; k++) {
        const setting *is = &now->knob[k], *was = &then->knob[k];
        bool is_set = is->from == FROM_USER || is->from == FROM_MODEL;
        bool was_set = was->from == FROM_USER;
        if ((!is_set && !was_set) || !is_of_the_job(k)) continue;
        const char *x = was_set ? value_text(a, was->v) : "unset", *y = value_text(a, is->v);
        if (strcmp(x, y) != 0)
            s = error_set(err, ERR_INPUT,
                          "--run %s: the folder belongs to another run: %s=%s there, %s here; "
                          "repair: name another folder",
                          folder, knobs[k].key, x, y);
    }
    arena_destroy(a);
    return s;
}

/* Sizes of weights, and what says which data are read. */
static bool is_of_an_evaluation(knob_id k)
{
    static const knob_id list[] = {
        K_FFN,         K_MOE_FFN,   K_SHARED_FFN,    K_Q_LORA,        K_KV_LORA,    K_QK_DIM,
        K_QK_ROPE_DIM, K_V_DIM,     K_GDN_CONV,      K_GDN_K_DIM,     K_GDN_V_DIM,  K_GDN_K_HEADS,
        K_GDN_V_HEADS, K_VOCAB_PAD, K_VOCAB_DIVISOR, K_MAX_POSITIONS, K_MTP_FACTOR, K_SEQ,
        K_SEED,        K_CAPACITY,  K_DROP_POLICY,   K_ROUTER_DTYPE,  K_EVAL_ITERS};
    static const char *const data[] = {"dataset.", "tokenizer."};
    return is_of_the_model(k) || is_in(list, COUNT_OF(list), k) ||
           starts_in(data, COUNT_OF(data), k);
}

status stored_model(const stored_recipe *stored, recipe *out, error *err)
{
    recipe *then = ARENA_NEW(out->a, recipe);
    status s = read_then(then, stored, out->a, err);
    for (knob_id k = 0; k < K_COUNT && !s; k++)
        if (is_of_an_evaluation(k) && then->knob[k].from != FROM_NOTHING)
            recipe_set(out, k, then->knob[k].v, "the checkpoint's");
    return s;
}

status stored_job(const stored_recipe *stored, job *out, arena *a, error *err)
{
    recipe *then = ARENA_NEW(a, recipe);
    status s = read_then(then, stored, a, err);
    if (!s) job_of(out, then);
    return s;
}

int64_t stored_vocabulary(const stored_recipe *stored, arena *a)
{
    recipe *then = ARENA_NEW(a, recipe);
    error ignored;
    return read_then(then, stored, a, &ignored) ? 0 : recipe_int(then, K_VOCAB);
}
