/* Launch scripts: what a shell would make of them, and which command trains. */
#include "config/megatron_testing.h"

#include "config/shell.h"

static void begin_again(void)
{
    end(NULL);
    begin(NULL);
}

static void set(const char *assignment)
{
    how.sets[how.n_sets++] = assignment;
}

static status parse(const char *text)
{
    recipe_init(&r, memory, "test");
    err.text[0] = 0;
    return megatron_parse_with(&r, "run.sh", text, strlen(text), &how, &err);
}

static void read_file(const char *path)
{
    if (megatron_read_with(&r, path, &how, &err)) fail_msg("%s", err.text);
}

static bool noted(const char *part)
{
    for (int i = 0; i < r.n_notes; i++)
        if (strstr(r.notes[i], part)) return true;
    return false;
}

/* The script is refused, and the message holds each of the |-separated parts. */
static void assert_refused(const char *text, const char *parts)
{
    assert_int_equal(parse(text), ERR_INPUT);
    char copy[512];
    snprintf(copy, sizeof copy, "%s", parts);
    for (char *p = strtok(copy, "|"); p; p = strtok(NULL, "|"))
        if (!strstr(err.text, p)) fail_msg("'%s' is not in: %s", p, err.text);
}

/* The last command of a script, its words between commas; marks as ${NAME}. */
static const char *last_words(const char *script)
{
    shell_result run;
    err.text[0] = 0;
    shell_source from = {.name = "run.sh", .data = script, .n = strlen(script), .line = 1};
    if (shell_read(memory, &from, &run, &err)) fail_msg("%s: %s", script, err.text);
    if (!run.n_commands) return "";
    const shell_words *w = &run.commands[run.n_commands - 1].words;
    textbuf t = text_init(memory);
    for (int i = 0; i < w->n; i++)
        text_add(&t, "%s%s", i ? "," : "", shell_plain(memory, w->text[i]));
    return t.s;
}

/* ---- the shell */

typedef struct example {
    const char *script, *words;
} example;

static void words_become_what_a_shell_makes_of_them(void **state)
{
    (void)state;
    static const example examples[] = {
        {"X=3\nrun $X ${X} \"$X\" '$X' \\$X", "run,3,3,3,$X,$X"},
        {"run ${X:-a} ${X-b} ${X:=c} $X", "run,a,b,c,c"},
        {"X=\nrun \"${X:-a}\" \"${X-b}\" ${X:+c} \"${Y:+d}\"", "run,a,,"},
        {"run ${A:-${B:-deep}} ${A:-\"two words\"}", "run,deep,two,words"},
        {"X='a b'\nrun $X \"$X\" x${X}y", "run,a,b,a b,xa,by"},
        {"A=(1 'b c' 3)\nA+=(d)\nrun ${A[@]}\nrun \"${A[@]}\" ${#A[@]} ${A[1]} $A",
         "run,1,b c,3,d,4,b,c,1"},
        {"A=(a b)\nA=(\"${A[@]}\" c)\nrun ${A[@]}", "run,a,b,c"},
        {"A=()\nrun \"${A[@]}\" ${A[@]} end", "run,end"},
        {"declare -A M=([x]=1 [y]=2)\nK=y\nM[z]=3\nrun ${M[$K]} ${M[z]} ${!M[@]}", "run,2,3,x,y,z"},
        {"X=/a/b.tar.gz\nrun ${X##*/} ${X%.*} ${X%%.*} ${X#*/} ${X/a/c} ${X:1:3} ${#X}",
         "run,b.tar.gz,/a/b.tar,/a/b,a/b.tar.gz,/c/b.tar.gz,a/b,11"},
        {"X=abC\nrun ${X^^} ${X,,} ${X^}", "run,ABC,abc,AbC"},
        {"N=8\nrun $((N*4+1)) $((2**10)) $(($N % 3)) $((N>4?N:4)) $((-7/2)) $((0x1f))",
         "run,33,1024,2,8,-3,31"},
        {"I=1\n((I++))\n((I+=5))\nlet x=1\nrun $I", "run,7"},
        {"P=X\nX=5\nrun ${!P}", "run,5"},
        {"X=1 # comment\nX=2;run $X#no #yes", "run,2#no"},
        {"run a\\\n b\\\nc 'd\ne'", "run,a,bc,d\ne"},
        {"X=$(nproc)\nrun $X/a $(date +%s) `pwd`", "run,${X}/a,$(date +%s),$(pwd)"},
        {"run $1 ${2:-two} $UNSET/x", "run,${1},two,${UNSET}/x"},
        {"X=$1\nrun ${X:-d}", "run,d"},
        {"A=$((N * 2))\nrun $A", "run,${N}"},
        {NULL, NULL},
    };
    for (const example *e = examples; e->script; e++)
        assert_string_equal(last_words(e->script), e->words);
}

static void control_flow_is_followed(void **state)
{
    (void)state;
    static const example examples[] = {
        {"X=2\nif [ $X -gt 1 ] && [ $X != 3 ]; then run yes; else run no; fi", "run,yes"},
        {"X=ab\nif [[ $X == a* && ! $X =~ c ]]; then run yes; else run no; fi", "run,yes"},
        {"X=b\nif [ \"$X\" = a ]; then run 1\nelif [ $X == b ]\nthen run 2; else run 3\nfi",
         "run,2"},
        {"X=fp8\ncase $X in bf16) run 1;; fp4|fp8) run 2;; *) run 3;; esac", "run,2"},
        {"X=z\ncase \"$X\" in [a-c]) run 1;; ?) run 2;; esac", "run,2"},
        {"for i in 1 2 3; do [ $i = 2 ] && continue; X=$X$i; done\nX=${X:-}\nrun $i", "run,3"},
        {"X=\nfor ((i=0; i<3; i++)); do X+=$i; done\nrun $X", "run,012"},
        {"i=0\nwhile [ $i -lt 4 ]; do i=$((i+1)); [[ $i -eq 3 ]] && break; done\nrun $i", "run,3"},
        {"f() { local x=$1; shift; run $x $# \"$@\"; }\nf a b 'c d'", "run,a,2,b,c d"},
        {"X=1\n(X=2)\n{ Y=3; }\nrun $X $Y", "run,1,3"},
        {"CMD='run a'\neval \"$CMD 'b c'\"", "run,a,b c"},
        {"X=1\nsrun -n 2 bash -c \"run $X \\$X\"", "srun,-n,2,run,1,1"},
        {"X=1\nbash <<EOF\nrun $X \\$X x.py\nEOF", "run,1,1,x.py"},
        {"X=1\nbash <<'EOF'\nrun $X x.py\nEOF\n", "run,1,x.py"},
        {"mkdir x || exit 1\ncd y && run there > out.txt 2>&1 | tee log", "tee,log"},
        {"[ -f x ] || run missing", "run,missing"},
        {"run 1\nexit 0\nrun 2", "run,1"},
        {"if [ -z \"$1\" ]; then echo usage; exit 1; fi\nrun on", "run,on"},
        {"if [ $# -lt 2 ]; then exit 1; fi\nwhile [[ $# -gt 0 ]]; do X=$1; shift; done\nrun on",
         "run,on"},
        {"while getopts a:b o; do X=$o; done\nrun on", "run,on"},
        {"while read -r l; do X=$l; done < <(cat f)\nrun $X", "run,${X}"},
        {NULL, NULL},
    };
    for (const example *e = examples; e->script; e++)
        assert_string_equal(last_words(e->script), e->words);
}

static void what_an_open_test_assigns_is_not_known(void **state)
{
    (void)state;
    assert_string_equal(last_words("A=1\nif [ -f x ]; then A=2; fi\nrun $A"), "run,${A}");
    assert_string_equal(last_words("A=1\nif [ \"$P\" = x ]; then A=2; fi\nrun $A"), "run,${P}");
    assert_string_equal(last_words("A=(1)\n[[ $P == x ]] && A+=(2)\nrun ${A[@]}"), "run,1,${P}");
    assert_string_equal(last_words("A=1\nif [ -f x ]; then echo; fi\nrun $A"), "run,1");
}

static void scripts_that_cannot_be_read_say_where(void **state)
{
    (void)state;
    assert_refused("#!/bin/sh\nif [ a = a ]; then\n", "run.sh:2: 'if' has no 'fi'");
    assert_refused("#!/bin/sh\nX=(a b\n", "run.sh:2: the array has no ')'");
    assert_refused("#!/bin/sh\n\necho 'a\n", "run.sh:3: the quote ' has no end");
    assert_refused("#!/bin/sh\necho ${X", "run.sh:2: the quote ${ has no end");
    assert_refused("#!/bin/sh\nfi", "run.sh:2: 'fi' is not expected here");
    assert_refused("#!/bin/sh\ncase x in\n", "run.sh:2: 'case' has no 'esac'");
    assert_refused("#!/bin/sh\necho \001", "run.sh:2: a byte 1 is not text");
}

static void no_script_takes_for_ever(void **state)
{
    (void)state;
    assert_refused("#!/bin/sh\nwhile true; do X=1; done", "more than 50000 steps");
    assert_refused("#!/bin/sh\nf() { f; }\nf", "nested too deeply");
    assert_refused("#!/bin/sh\nX=aaaaaaaa\nwhile true; do X=$X$X; done", "too long to be read");
    assert_refused("#!/bin/sh\nfor ((;1;)); do :; done", "run.sh:2:");
}

/* ---- the training command */

static void a_launch_script_is_read(void **state)
{
    (void)state;
    read_file("tests/data/megatron/launch.sh");
    assert_knob("cluster.n_gpus", "32");
    assert_knob("cluster.gpus_per_node", "8");
    assert_knob("env_vars.CUDA_DEVICE_MAX_CONNECTIONS", "1");
    assert_knob("model.num_layers", "16");
    assert_knob("model.num_query_groups", "4");
    assert_knob("model.vocab_size", "32000");
    assert_knob("model.num_moe_experts", "32");
    assert_int_equal(r.knob[K_MOE_FREQ].v.list.n, 16);
    assert_knob("model.moe_router_topk", "4");
    assert_knob("model.expert_model_parallel_size", "4");
    assert_knob("model.sequence_parallel", "true");
    assert_knob("mixed_precision.fp8", "hybrid");
    assert_knob("mixed_precision.fp8_recipe", "tensorwise");
    assert_knob("train.global_batch_size", "256");
    assert_knob("moefold.mock_data", "true");
    assert_knob("dataset.split", "'99,1,0'");
    assert_knob("dataset.path_to_cache", "'${PWD}/cache'");
    assert_knob("checkpoint.save", "checkpoints/moe");
    assert_int_equal(r.knob[K_WANDB].from, FROM_NOTHING);
    assert_true(noted("/opt/cluster.conf is sourced there; it is not read"));
    assert_true(noted("WANDB_API_KEY is not set here and taken as empty"));
    assert_true(noted("nothing was executed"));
    assert_string_equal(r.knob[K_VOCAB].why, "tests/data/megatron/launch.sh:62"); /* of the item */
}

static void given_values_win_over_the_script(void **state)
{
    (void)state;
    set("TP=4");
    set("SLURM_NNODES=8");
    set("LAYERS=8");
    set("WANDB_API_KEY=x");
    read_file("tests/data/megatron/launch.sh");
    assert_knob("model.tensor_model_parallel_size", "4");
    assert_knob("model.num_layers", "8");
    assert_knob("cluster.n_gpus", "64");
    assert_knob("logger.wandb_project", "moe");
    begin_again();
    set("TPP=4");
    assert_refused("#!/bin/sh\nTP=1\npython pretrain_gpt.py --lr 1", "--set TPP|no variable");
    begin_again();
    set("=4");
    assert_refused("#!/bin/sh\n", "--set =4: NAME=value is needed");
}

static void one_of_several_commands_is_picked(void **state)
{
    (void)state;
    assert_int_equal(megatron_read_with(&r, "tests/data/megatron/several.sh", &how, &err),
                     ERR_INPUT);
    assert_non_null(strstr(err.text, "3 training commands; --command N picks one"));
    assert_non_null(strstr(err.text, "\n  3: line 20: pretrain_gpt.py"));
    begin_again();
    how.command = "2";
    read_file("tests/data/megatron/several.sh");
    assert_knob("model.tensor_model_parallel_size", "2");
    assert_knob("train.global_batch_size", "16");
    assert_knob("cluster.n_gpus", "2");
    assert_true(noted("it calls ./after.sh, which is not read"));
    begin_again();
    how.command = "3";
    assert_int_equal(megatron_read_with(&r, "tests/data/megatron/several.sh", &how, &err),
                     ERR_INPUT);
    assert_non_null(strstr(err.text, "NODES for --nodes"));
    begin_again();
    how.command = "3";
    set("NODES=2");
    read_file("tests/data/megatron/several.sh");
    assert_knob("cluster.n_gpus", "16");
    assert_knob("model.expert_model_parallel_size", "8");
    begin_again();
    how.command = "4";
    assert_int_equal(megatron_read_with(&r, "tests/data/megatron/several.sh", &how, &err),
                     ERR_INPUT);
    assert_non_null(strstr(err.text, "a number from 1 to 3"));
}

static void all_that_is_missing_is_named_at_once(void **state)
{
    (void)state;
    assert_refused("#!/bin/sh\npython pretrain_gpt.py --num-layers $LAYERS --hidden-size ${H}\\\n"
                   " --save $OUT --wandb-entity $WHO $MORE --nothing 3 --bf17",
                   "2 unknown flags|run.sh:3: unknown flag '--nothing'|'--bf17'|3 variables have "
                   "no value here; --set NAME=value|LAYERS for --num-layers|H for --hidden-size|"
                   "MORE for a word of the command");
    assert_null(strstr(err.text, "OUT"));
    assert_null(strstr(err.text, "WHO"));
}

static void a_variable_may_be_a_path_without_a_value(void **state)
{
    (void)state;
    assert_int_equal(
        parse("#!/bin/sh\npython pretrain_gpt.py --save $OUT/a --data-path 1 ${D}/x\n"), OK);
    assert_string_equal(r.knob[K_SAVE].v.text, "${OUT}/a");
    assert_string_equal(r.knob[K_DATA_PATH].v.list.items[1].text, "${D}/x");
    assert_true(noted("--save: '${OUT}/a' is kept unexpanded"));
}

static void lists_take_variables_too(void **state)
{
    (void)state;
    set("L=4");
    assert_int_equal(parse("--num-layers $L --hidden-size ${H:-64}\n"
                           "--pipeline-model-parallel-layout Et|(tt|)*2L"),
                     OK);
    assert_knob("model.num_layers", "4");
    assert_knob("model.hidden_size", "64");
    assert_string_equal(r.knob[K_PP_LAYOUT].v.text, "Et|(tt|)*2L");
}

static void scripts_without_training_say_so(void **state)
{
    (void)state;
    assert_refused("#!/bin/sh\nTP=1 bash ./sub.sh --lr 1\n",
                   "it has no training command|it calls ./sub.sh, which is not read");
    assert_refused("#!/bin/sh\necho python pretrain_gpt.py --lr 1\n", "no training command");
    assert_int_equal(parse("#!/bin/sh\nARGS=(--num-layers 4 --lr 1)\n"), OK);
    assert_knob("model.num_layers", "4");
    assert_true(noted("the words of its arrays are read"));
}

static void old_spellings_are_migrated_and_noted(void **state)
{
    (void)state;
    assert_int_equal(parse("--cuda-graph-scope full_iteration --recompute-activations"), OK);
    assert_knob("model.cuda_graph_impl", "full_iteration");
    assert_knob("model.cuda_graph_modules", "[]");
    assert_true(noted("--cuda-graph-modules full_iteration: an old spelling, read as "
                      "--cuda-graph-impl full_iteration"));
    assert_true(noted("--recompute-activations: an old spelling, read as "
                      "--recompute-granularity selective"));
    assert_int_equal(parse("--optimizer dist_muon"), OK);
    assert_knob("optimizer.optimizer", "muon");
    assert_knob("ddp.use_distributed_optimizer", "true");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(words_become_what_a_shell_makes_of_them),
        TEST(control_flow_is_followed),
        TEST(what_an_open_test_assigns_is_not_known),
        TEST(scripts_that_cannot_be_read_say_where),
        TEST(no_script_takes_for_ever),
        TEST(a_launch_script_is_read),
        TEST(given_values_win_over_the_script),
        TEST(one_of_several_commands_is_picked),
        TEST(all_that_is_missing_is_named_at_once),
        TEST(a_variable_may_be_a_path_without_a_value),
        TEST(lists_take_variables_too),
        TEST(scripts_without_training_say_so),
        TEST(old_spellings_are_migrated_and_noted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
