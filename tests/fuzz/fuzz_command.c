/* fuzz_command.c - plan, price, check and show with knobs that are of the right type, whatever
 * their values.
 *
 * Three bytes choose the command, its model and its cluster; every three bytes after them a knob
 * and a value that its type allows. So nearly all inputs get past the reader.
 *
 * I1  A command ends, and with one of the exit codes that are documented. */
#include "fuzz/mutate.h"

#include "cli/cli.h"
#include "cli/help.h"

typedef struct form {
    int (*run)(int argc, char **argv);
    const char *name, *words[6];
    bool pins; /* knobs are pinned */
} form;

static const form forms[] = {
    {command_plan, "plan", {"--seconds", "0.1"}, true},
    {command_plan, "plan", {"--seconds", "0.1", "--json"}, true},
    {command_plan, "plan", {"--seconds", "0.1", "--more"}, false},
    {command_price, "price", {NULL}, false},
    {command_price, "price", {"--json"}, false},
    {command_price, "price", {"--routing", "1.5"}, false},
    {command_check, "check", {NULL}, false},
    {command_check, "check", {"--json"}, false},
    {command_check, "check", {"--fix"}, false},
    {command_check, "check", {"--rank", "1"}, false},
    {command_show, "show", {NULL}, false},
    {command_show, "show", {"--params"}, false},
    {command_show, "show", {"--memory"}, false},
    {command_show, "show", {"--schedule"}, false},
    {command_show, "show", {"--ops"}, false},
    {command_show, "show", {"--rank", "1"}, false},
    {command_show, "show", {"--as", "megatron-lm"}, false},
    {command_show, "show", {"--as", "megatron-bridge"}, false},
};
enum { N_FORMS = sizeof forms / sizeof forms[0], KNOBS_MOST = 8, WORDS_MOST = 32 };

static const char *const models[] = {"tiny", "mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v3"};
static const char *const clusters[] = {"8xH100", "16xH100", "4xB200", "1xA100", "24xH200", "4xcpu"};
static const char *const lengths[] = {"4096", "128", "32768", "64"};

/* The commands that help lists; a program of its own has its own table. */
const char cli_absent[] = "";

const command *command_table(int *n)
{
    static const command table[] = {{"plan", "", "", false, command_plan}};
    *n = 1;
    return table;
}

static const char *value_of_byte(arena *a, const knob *k, unsigned byte)
{
    static const int64_t sizes[] = {1,        2,     3,   4,   5,       6,         7,
                                    8,        10,    12,  15,  16,      24,        31,
                                    32,       48,    60,  61,  64,      100,       128,
                                    255,      256,   257, 300, 512,     1000,      1024,
                                    4096,     65536, 0,   -1,  1000000, INT32_MAX, (int64_t)1 << 62,
                                    INT64_MAX};
    static const char *const reals[] = {"0",   "0.5",  "1",    "1.5", "-1", "1e-9",
                                        "1e9", "1e18", "0.25", "8",   "2",  "1e308"};
    if (k->form == LIST && k->allowed)
        return arena_text(a, "[%s]", mutate_word(a, k->allowed, &byte));
    if (k->allowed && k->kind != INT && k->kind != FLOAT) return mutate_word(a, k->allowed, &byte);
    if (k->kind == BOOL) return byte & 1 ? "true" : "false";
    if (k->kind == FLOAT) return reals[byte % (sizeof reals / sizeof *reals)];
    if (k->kind == TEXT) return mutate_value(a, k, &byte);
    int64_t n = sizes[byte % (sizeof sizes / sizeof *sizes)];
    if (k == &knobs[K_LAYERS] && n == 4096) n = 400; /* gigabytes; tests/cli/test_slow.sh has it */
    if (k->form == LIST) return arena_text(a, "[%lld,2]", (long long)n);
    return arena_text(a, "%lld", (long long)n);
}

/* Knobs that name files and folders are left alone. */
static bool names_files(const knob *k)
{
    static const char *const words[] = {"path",        "dir",      "load",      "save",
                                        "file",        "cache",    "tokenizer", "moefold.model",
                                        "cluster.gpu", "data_args"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(k->key, words[i])) return true;
    return false;
}

/* Sizes of the layout meet most of the code behind: half of the time it is one of these. */
static const knob_id sizes_of_layout[] = {
    K_TP,  K_CP,     K_EP,           K_ETP,         K_PP,        K_VPP, K_MBS,       K_GBS,
    K_SEQ, K_LAYERS, K_FIRST_LAYERS, K_LAST_LAYERS, K_PP_LAYOUT, K_MTP, K_CP_LEVELS, K_TRAIN_ITERS};

static const knob *knob_of(unsigned number)
{
    unsigned n = sizeof sizes_of_layout / sizeof *sizes_of_layout;
    return &knobs[number & 1 ? (unsigned)sizes_of_layout[number / 2 % n] : number / 2 % K_COUNT];
}

/* Half of the time a new input: what one line of coverage is worth depends on all others. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned int seed)
{
    enum { MOST = 3 + 3 * KNOBS_MOST };
    if (mutate_random(&seed, 2) || max < MOST) return LLVMFuzzerMutate(data, n, max);
    n = 3 + 3 * mutate_random(&seed, KNOBS_MOST + 1);
    for (size_t i = 0; i < n; i++) data[i] = (uint8_t)mutate_random(&seed, 256);
    return n;
}

static int add_knobs(arena *a, char **words, int n, const form *f, const uint8_t *data, size_t left)
{
    for (int i = 0; i < KNOBS_MOST && left >= 3; i++, data += 3, left -= 3) {
        const knob *k = knob_of(data[0] | (unsigned)data[1] << 8);
        if (names_files(k)) continue;
        if (f->pins) words[n++] = arena_text(a, "--pin");
        words[n++] = arena_text(a, "%s=%s", k->key, value_of_byte(a, k, data[2]));
    }
    return n;
}

static void must_end(char **words, int n, int code)
{
    bool good = code >= OK && code <= ERR_MACHINE;
    for (int i = 0; i < n && !good; i++) fprintf(stderr, "%s ", words[i]);
    if (!good) fprintf(stderr, "\nexit code %d\n", code);
    MUST(good); /* I1 */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static FILE *nowhere;
    if (!nowhere) {
        nowhere = fopen("/dev/null", "w");
        MUST(nowhere);
    }
    if (n < 3) return 0;
    arena *a = arena_create();
    const form *f = &forms[data[0] % N_FORMS];
    char **words = ARENA_ARRAY(a, char *, WORDS_MOST + 1);
    int count = 0;
    words[count++] = arena_text(a, "%s", f->name);
    words[count++] = arena_text(a, "%s", models[data[1] % (sizeof models / sizeof *models)]);
    words[count++] = arena_text(a, "--gpus");
    words[count++] = arena_text(a, "%s", clusters[data[2] % (sizeof clusters / sizeof *clusters)]);
    words[count++] = arena_text(a, "--seq");
    words[count++] = arena_text(a, "%s", lengths[data[2] / 64]);
    words[count++] =
        arena_text(a, "train.global_batch_size=48"); /* few microbatches: soon priced */
    for (int i = 0; i < 6 && f->words[i]; i++) words[count++] = arena_text(a, "%s", f->words[i]);
    count = add_knobs(a, words, count, f, data + 3, n - 3);
    if (getenv("FUZZ_SHOW")) {
        for (int i = 0; i < count; i++) fprintf(stderr, "%s ", words[i]);
        fprintf(stderr, "\n");
    }
    FILE *out = stdout, *errors = stderr;
    stdout = stderr = nowhere;
    int code = f->run(count, words);
    stdout = out;
    stderr = errors;
    must_end(words, count, code);
    arena_destroy(a);
    return 0;
}
