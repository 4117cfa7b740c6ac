/* test_parity_families.c - reference cases of the further families: loss, logits, every gradient
 * and the curve, on one rank and on several; and that their options matter. */
#include "parity_testing.h"

#define CASE(name) "tests/data/golden/" name "-tiny"

static const char *const cases[] = {CASE("deepseek-v2"), CASE("deepseek-v2-lite"),
                                    CASE("glm4-moe"),    CASE("qwen2-moe"),
                                    CASE("olmoe"),       CASE("minimax-m2"),
                                    CASE("qwen3"),       CASE("llama"),
                                    CASE("starcoder2"),  CASE("qwen2"),
                                    CASE("mistral")};
enum { N_CASES = sizeof cases / sizeof cases[0] };

static void one_rank_agrees_with_transformers(void **state)
{
    (void)state;
    cases_agree(cases, N_CASES);
}

static void two_ranks_agree(void **state)
{
    (void)state;
    for (int c = 0; c < N_CASES; c++) {
        bool window =
            strcmp(cases[c], CASE("starcoder2")) == 0 || strcmp(cases[c], CASE("mistral")) == 0;
        if (!window) /* it does not go round a ring */
            agrees_on(2, cases[c], N(2) CP2);
        agrees_on(2, cases[c], N(2) PP2);
    }
    for (int c = 0; c < 6; c++) agrees_on(2, cases[c], N(2) EP2);
    agrees_on(2, CASE("deepseek-v2"), N(2) TP2 ETP1);
    agrees_on(2, CASE("deepseek-v2-lite"), N(2) TP2 ETP1);
    agrees_on(2, CASE("glm4-moe"), N(2) TP2 ETP1);
    agrees_on(2, CASE("qwen2-moe"), N(2) TP2 ETP1);
    agrees_on(2, CASE("olmoe"), N(2) TP2 ETP1);
    agrees_on(2, CASE("minimax-m2"), N(2) TP2 ETP1);
    agrees_on(2, CASE("qwen3"), N(2) TP2);
    agrees_on(2, CASE("llama"), N(2) TP2);
    agrees_on(2, CASE("starcoder2"), N(2) TP2);
    agrees_on(2, CASE("starcoder2"), N(2) CP2 "model.cp_comm_type=a2a");
}

static void eight_ranks_agree(void **state)
{
    (void)state;
    agrees_on(8, CASE("deepseek-v2"), N(8) TP2 CP2 PP2 EP4 ETP1);
    agrees_on(8, CASE("glm4-moe"), N(8) TP2 CP2 PP2 EP4 ETP1);
    agrees_on(8, CASE("minimax-m2"), N(8) TP2 CP2 PP2 EP4 ETP1);
    agrees_on(8, CASE("llama"), N(8) TP2 CP2 PP2);
}

static void the_options_of_each_family_matter(void **state)
{
    (void)state;
    needs(CASE("deepseek-v2"), "moefold.moe_router_group_score=best_two");
    needs(CASE("deepseek-v2"), "model.moe_router_pre_softmax=false");
    needs(CASE("deepseek-v2"), "model.moe_router_topk_scaling_factor=1.0");
    needs(CASE("deepseek-v2-lite"), "model.mscale_all_dim=0.0");
    needs(CASE("glm4-moe"), "model.rotary_percent=1.0");
    needs(CASE("glm4-moe"), "model.moe_router_score_function=softmax");
    needs(CASE("qwen2-moe"), "model.moe_router_pre_softmax=false");
    needs(CASE("minimax-m2"), "model.rotary_percent=1.0");
    needs(CASE("llama"), "model.rope_scaling=false");
    needs(CASE("llama"), "model.rope_scaling_factor=2.0");
    needs(CASE("starcoder2"), "model.activation_func=gelu");
    needs(CASE("starcoder2"), "model.window_size=null");
    needs(CASE("starcoder2"), "model.layernorm_epsilon=1e-2");
}

int main(void)
{
    kernels_threads(2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_agrees_with_transformers),
        cmocka_unit_test(two_ranks_agree),
        cmocka_unit_test(eight_ranks_agree),
        cmocka_unit_test(the_options_of_each_family_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
