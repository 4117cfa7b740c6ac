/* test_convert.c - `moefold convert`: there and back, by itself, and told. */
#include "cli/converting.h"

#include "train/checkpoint/checkpoint.h"

/* args.c prints help from it; main.c, which has it, is not linked here. */
const char cli_absent[] = "";

const command *command_table(int *n)
{
    static const command table[] = {
        {.name = "convert", .usage = "SRC DST", .summary = "test", .run = command_convert}};
    *n = 1;
    return table;
}

static void converted(arena *a, const char *folder, int code, const char *words, const char *says)
{
    size_t n;
    const char *out = arena_text(a, "%s/out.txt", folder);
    int got = convert(a, out, words);
    const char *text = get_file(a, out, &n);
    if (got != code) fail_msg("%s: exit code %d: %s", words, got, text);
    assert_has(text, says);
}

static void hugging_face_there_and_back_is_the_same_file(void **state)
{
    (void)state;
    for (int i = 0; i < N_GOLDEN; i++) {
        arena *a = arena_create();
        const char *t = scratch_make(a), *name = golden_cases[i];
        converted(a, t, OK, arena_text(a, GOLDEN "%s %s/ours", name, t), "each written once");
        converted(a, t, OK, arena_text(a, "%s/ours %s/back", t, t), "every checksum is right");
        const char *source = arena_text(a, GOLDEN "%s/", name);
        if (strcmp(name, "mtp-tiny") != 0) /* its file has another header */
            same_files(a, arena_text(a, "%smodel.safetensors", source),
                       arena_text(a, "%s/back/model.safetensors", t));
        if (strcmp(name, "deepseek-v3-tiny") != 0) /* it names a module that it does not have */
            same_files(a, arena_text(a, "%sconfig.json", source),
                       arena_text(a, "%s/back/config.json", t));
        converted(a, t, OK, arena_text(a, "%s/back %s/again", t, t), "xxh64");
        same_files(a, arena_text(a, "%s/ours/iter_0000000/weights-00000-of-00001.safetensors", t),
                   arena_text(a, "%s/again/iter_0000000/weights-00000-of-00001.safetensors", t));
        scratch_remove(t);
        arena_destroy(a);
    }
}

static void what_is_left_out_is_printed(void **state)
{
    (void)state;
    arena *a = arena_create();
    const char *t = scratch_make(a);
    converted(
        a, t, OK, arena_text(a, GOLDEN "mtp-tiny %s/x model.mtp_num_layers=0", t),
        "leaves out (model.mtp_num_layers is 0):\n              model.layers.3.eh_proj.weight");
    converted(a, t, OK, arena_text(a, GOLDEN "mtp-tiny %s/y model.mtp_num_layers=0 --json", t),
              "\"reason\":\"a prediction module");
    converted(a, t, OK, arena_text(a, "%s/x %s/z --dtype bfloat16", t, t), "bfloat16");
    converted(a, t, OK, arena_text(a, "%s/z %s/w --to hf --dtype=float32", t, t), "ignored   0");
    converted(a, t, OK, arena_text(a, "%s/x/iter_0000000 %s/v --to=moefold", t, t), "iteration 0");
    scratch_remove(t);
    arena_destroy(a);
}

static void wrong_words_are_refused(void **state)
{
    (void)state;
    arena *a = arena_create();
    const char *t = scratch_make(a);
    converted(a, t, OK, "--help", "--dtype TYPE");
    converted(a, t, ERR_INPUT, "", "name a source and a destination");
    converted(a, t, ERR_INPUT, "a b c", "'c'");
    converted(a, t, ERR_INPUT, "nowhere b", "nowhere: is not a folder");
    converted(a, t, ERR_INPUT, arena_text(a, "%s b", t), "neither");
    converted(a, t, ERR_INPUT, GOLDEN "mtp-tiny x --to other", "--to other");
    converted(a, t, ERR_INPUT, GOLDEN "mtp-tiny x --dtype int8", "--dtype int8");
    converted(a, t, ERR_INPUT, GOLDEN "mtp-tiny x --dtype bfloat16", "checkpoints are FP32");
    converted(a, t, ERR_INPUT, GOLDEN "mtp-tiny x --what", "--what");
    converted(a, t, ERR_INPUT, GOLDEN "mtp-tiny x model.num_layer=3", "model.num_layer");
    converted(a, t, ERR_INPUT, arena_text(a, GOLDEN "mtp-tiny %s/x model.num_layers=2", t),
              "layer");
    converted(a, t, OK, arena_text(a, GOLDEN "mtp-tiny %s/x", t), "Written");
    converted(a, t, ERR_INPUT, arena_text(a, GOLDEN "mtp-tiny %s/x", t), "has checkpoints already");
    converted(a, t, ERR_INPUT, arena_text(a, "%s/x %s/y checkpoint.ckpt_step=3", t, t),
              "iter_0000003");
    converted(a, t, ERR_INPUT, arena_text(a, "%s/x %s", t, t), "is there already");
    scratch_remove(t);
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hugging_face_there_and_back_is_the_same_file),
        cmocka_unit_test(what_is_left_out_is_printed),
        cmocka_unit_test(wrong_words_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
