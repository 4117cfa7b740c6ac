/* megatron_derive.c - what Megatron-LM makes of flags that an argument list leaves out.
 *
 * Plain defaults are the `lm` column of knobs.def. Here are those that depend on other flags; each
 * function is one habit of that system's argument check. */
#include "config/megatron.h"

#include "base/maths.h"

static bool open_knob(const recipe *r, knob_id k)
{
    return r->knob[k].from == FROM_NOTHING;
}

/* A gated MLP gets about two thirds of 4 x hidden size, in units of 64, so that it weighs the
 * same. */
static void mlp_width(recipe *r)
{
    bool swiglu = recipe_on(r, K_GLU) && recipe_is(r, K_ACTIVATION, "silu");
    if (swiglu && recipe_given(r, K_HIDDEN))
        recipe_fill(r, K_FFN, value_of_int(mul_sat(recipe_int(r, K_HIDDEN) / 24, 64)), FROM_DERIVED,
                    "Megatron-LM with --swiglu: 8/3 of the hidden size, in units of 64");
}

static void qkv_bias(recipe *r)
{
    bool bias = open_knob(r, K_LINEAR_BIAS) || recipe_on(r, K_LINEAR_BIAS);
    if (bias)
        recipe_fill(r, K_QKV_BIAS, value_of_bool(true), FROM_DERIVED,
                    "Megatron-LM without --disable-bias-linear");
}

static void rotary(recipe *r)
{
    bool yarn = recipe_is(r, K_POSITION, "yarn");
    if (!recipe_on(r, K_MLA))
        recipe_fill(r, K_ROPE_TYPE, value_of_text(yarn ? "yarn" : "rope"), FROM_DERIVED,
                    "Megatron-LM without MLA: --position-embedding-type decides");
}

static void layer_offload(recipe *r)
{
    if (recipe_int(r, K_LAYER_OFFLOAD_N) > 0)
        recipe_fill(r, K_LAYER_OFFLOAD, value_of_bool(true), FROM_DERIVED,
                    "Megatron-LM with --cpu-offloading-num-layers");
}

/* BF16 weights with FP32 main gradients reduce in FP32 by themselves; nothing else does. */
static void gradient_type(recipe *r)
{
    const char *main_grads = recipe_word(r, K_MAIN_GRADS);
    if (recipe_on(r, K_FP16))
        recipe_fill(r, K_GRAD_FP32, value_of_bool(false), FROM_DERIVED,
                    "Megatron-LM with --fp16 and without --accumulate-allreduce-grads-in-fp32");
    if (recipe_on(r, K_BF16) && main_grads && !text_equal(main_grads, "fp32"))
        recipe_fill(r, K_GRAD_FP32, value_of_bool(false), FROM_DERIVED,
                    "Megatron-LM with --main-grads-dtype %s", main_grads);
}

/* NaN is how dynamic loss scaling learns that the scale is too large. */
static void nan_checks(recipe *r)
{
    if (!recipe_on(r, K_FP16) || recipe_real(r, K_LOSS_SCALE) > 0) return;
    recipe_fill(r, K_NAN_LOSS, value_of_bool(false), FROM_DERIVED,
                "Megatron-LM with dynamic loss scaling");
    recipe_fill(r, K_NAN_GRAD, value_of_bool(false), FROM_DERIVED,
                "Megatron-LM with dynamic loss scaling");
}

void megatron_derive(recipe *r)
{
    if (!recipe_is_lm(r)) return;
    mlp_width(r);
    qkv_bias(r);
    rotary(r);
    layer_offload(r);
    gradient_type(r);
    nan_checks(r);
}
