/* test_parity_options.c - reference cases for options that the cases of whole families leave
 * alone: what transformers computes with them, on one rank and on several; and that each of them
 * matters. */
#include "parity_testing.h"

#define CASE(name) "tests/data/golden/" name "-options-tiny"

static const char *const cases[] = {CASE("deepseek-v3"), CASE("qwen3-moe"), CASE("gpt-oss"),
                                    CASE("llama"),       CASE("mixtral"),   CASE("qwen3-next"),
                                    CASE("mtp")};
enum { N_CASES = sizeof cases / sizeof cases[0] };

static void one_rank_agrees_with_transformers(void **state)
{
    (void)state;
    cases_agree(cases, N_CASES);
}

static void layouts_agree(void **state)
{
    (void)state;
    agrees_on(2, CASE("deepseek-v3"), N(2) TP2 ETP1);
    agrees_on(2, CASE("deepseek-v3"), N(2) CP2 "moefold.mla_latent_ring=true");
    agrees_on(2, CASE("qwen3-moe"), N(2) TP2 ETP1); /* one key/value head on two ranks */
    agrees_on(2, CASE("qwen3-moe"), N(2) CP2);      /* labels that do not count are on one rank */
    agrees_on(2, CASE("qwen3-moe"), N(2) EP2);      /* and of one replica */
    agrees_on(2, CASE("gpt-oss"), N(2) TP2 ETP1);
    agrees_on(2, CASE("llama"), N(2) TP2);
    agrees_on(2, CASE("mixtral"), N(2) CP2 "model.cp_comm_type=a2a");
    agrees_on(2, CASE("qwen3-next"), N(2) PP2);
    agrees_on(4, CASE("mtp"), N(4) EP2 PP2);
}

/* ---- losses of the router, and capacity */

#define ROUTED(name) "tests/data/golden/" name "-router-tiny"
#define BY_BATCH                                                                                   \
    "model.moe_router_load_balancing_type=aux_loss model.moe_aux_loss_coeff=0.5 "                  \
    "model.moe_z_loss_coeff=0.05 "
#define BY_SEQUENCE                                                                                \
    "train.micro_batch_size=2 model.moe_router_load_balancing_type=seq_aux_loss "                  \
    "model.moe_aux_loss_coeff=0.5 model.moe_z_loss_coeff=0.02 "
#define FIRST   "model.moe_expert_capacity_factor=0.75 model.moe_token_drop_policy=position "
#define LARGEST "model.moe_expert_capacity_factor=0.75 model.moe_token_drop_policy=probs "

static void router_losses_and_capacity_agree(void **state)
{
    (void)state;
    for (int plain = 0; plain < 2; plain++) {
        agrees(ROUTED("qwen3-moe"), BY_BATCH FIRST, plain, 0);
        agrees(ROUTED("deepseek-v3"), BY_SEQUENCE LARGEST, plain, 0);
    }
    agrees_on(2, ROUTED("qwen3-moe"), N(2) BY_BATCH FIRST PP2);
    agrees_on(2, ROUTED("deepseek-v3"), N(2) BY_SEQUENCE LARGEST EP2);
}

static void the_options_matter(void **state)
{
    (void)state;
    needs(CASE("deepseek-v3"), "moefold.latent_norm_epsilon=null");
    needs(CASE("deepseek-v3"), "model.mscale=1.2");
    needs(CASE("deepseek-v3"), "model.mscale_all_dim=0.0");
    needs(CASE("deepseek-v3"), "model.activation_func=silu");
    needs(CASE("qwen3-moe"), "model.seq_len_interpolation_factor=null");
    needs(CASE("gpt-oss"), "model.activation_func_clamp_value=7.0");
    needs(CASE("gpt-oss"), "model.mscale=1.0");
    needs(CASE("llama"), "moefold.rope_low_freq_factor=1.0");
    needs(CASE("llama"), "moefold.rope_high_freq_factor=4.0");
    needs(CASE("llama"), "moefold.rope_trained_length=8192");
    needs(CASE("mixtral"), "moefold.rope_dynamic_factor=null");
    needs(CASE("mixtral"), "moefold.rope_trained_length=32");
    needs(CASE("mtp"), "model.mtp_loss_scaling_factor=0.1");
    needs(ROUTED("qwen3-moe"), BY_BATCH LARGEST);
    needs(ROUTED("qwen3-moe"), BY_BATCH FIRST "model.moe_z_loss_coeff=null");
    needs(ROUTED("deepseek-v3"), BY_SEQUENCE LARGEST "model.moe_aux_loss_coeff=0.0");
    needs(ROUTED("deepseek-v3"),
          BY_SEQUENCE LARGEST "model.moe_router_load_balancing_type=aux_loss");
    needs(ROUTED("deepseek-v3"), BY_SEQUENCE "model.moe_expert_capacity_factor=null");
}

/* Rows that pad the vocabulary would change the loss: said, not shown as a difference. */
static void a_padded_vocabulary_is_refused(void **state)
{
    (void)state;
    parity_case q = {.folder = CASE("llama"), .words = "model.should_pad_vocab=true"};
    run_case(NULL, &q);
    assert_int_equal(q.s[0], ERR_INPUT);
    assert_non_null(strstr(q.err[0].text, "vocabulary of 96 is padded to 128"));
    assert_non_null(strstr(q.err[0].text, "repair: model.should_pad_vocab=false"));
}

int main(void)
{
    kernels_threads(2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_agrees_with_transformers), cmocka_unit_test(layouts_agree),
        cmocka_unit_test(router_losses_and_capacity_agree),  cmocka_unit_test(the_options_matter),
        cmocka_unit_test(a_padded_vocabulary_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
