/* recipe.c - the recipe that a checkpoint was written with beside the one it is loaded
 * into.
 *
 * Weights fit wherever names and shapes do; what they compute depends on more. A run that resumes
 * with another rotary base is another model from that step on, and nothing in the weights says so.
 *
 * I1  Knobs that the checkpoint's recipe does not have (it is older than they are) are not
 *     compared. */
#include <string.h>

#include "base/text.h"
#include "run/checkpoint/checkpoint.h"

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

/* What says where a run saves, prints and ends changes from run to run. */
static const char *const of_the_run[] = {"checkpoint.", "logger.", "train.exit_", "moefold.model"};

static bool is_of_the_model(knob_id k)
{
    for (size_t i = 0; i < sizeof of_the_model / sizeof *of_the_model; i++)
        if (of_the_model[i] == k) return true;
    return false;
}

static bool is_of_the_run(knob_id k)
{
    for (size_t i = 0; i < sizeof of_the_run / sizeof *of_the_run; i++)
        if (text_starts(knobs[k].key, of_the_run[i])) return true;
    return false;
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

static status other_model(const checkpoint_info *info, const recipe *then, const recipe *now,
                          knob_id k, arena *a, error *err)
{
    const char *was = value_text(a, then->knob[k].v), *is = value_text(a, now->knob[k].v);
    const char *anew =
        arena_text(a, ", or %s=true to start anew from its weights", knobs[K_FINETUNE].key);
    return error_set(
        err, ERR_INPUT, "%s: is of another model: %s was %s there and is %s here; repair: %s=%s%s",
        info->path, knobs[k].key, was, is, knobs[k].key, was, is_of_the_shape(k) ? "" : anew);
}

static void name_one(textbuf *out, const recipe *then, const recipe *now, knob_id k, int n)
{
    if (n > NAMED_MAX) return;
    text_add(out, "%s%s %s -> %s", n > 1 ? ", " : "", knobs[k].key,
             value_text(out->a, then->knob[k].v), value_text(out->a, now->knob[k].v));
}

static status read_then(recipe *then, const checkpoint_info *info, arena *a, error *err)
{
    recipe_init(then, a, info->path);
    return recipe_parse_yaml(then, info->path, info->recipe, strlen(info->recipe), err);
}

status checkpoint_compare(const checkpoint_info *info, const recipe *now, bool resumes,
                          textbuf *changed, error *err)
{
    arena *a = changed->a;
    recipe *then = ARENA_NEW(a, recipe);
    error why = {{0}};
    int n = 0;
    if (read_then(then, info, a, &why)) {
        text_add(changed, "the recipe in the checkpoint cannot be compared: %s", why.text);
        return OK;
    }
    for (int k = 0; k < K_COUNT; k++) {
        if (is_of_the_run((knob_id)k) || !differs(then, now, (knob_id)k)) continue;
        if (resumes && is_of_the_model((knob_id)k))
            return other_model(info, then, now, (knob_id)k, a, err);
        name_one(changed, then, now, (knob_id)k, ++n);
    }
    if (n > NAMED_MAX) text_add(changed, " and %d more", n - NAMED_MAX);
    return OK;
}

int64_t checkpoint_vocabulary(const checkpoint_info *info, arena *a)
{
    recipe *then = ARENA_NEW(a, recipe);
    error ignored;
    return read_then(then, info, a, &ignored) ? 0 : recipe_int(then, K_VOCAB);
}
