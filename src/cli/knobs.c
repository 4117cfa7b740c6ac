/* knobs.c - `moefold knobs`: the table, for people, for docs/KNOBS.md, for programs. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "answer/answer.h"
#include "cli/cli.h"

static const char *const kind_names[] = {"true/false", "whole number", "number", "text", "word"};

static bool matches(const knob *k, const char *pattern)
{
    for (int i = 0; pattern && i < K_COUNT; i++) /* a short word means its knob alone */
        if (knobs[i].short_name && strcasecmp(knobs[i].short_name, pattern) == 0)
            return k == &knobs[i];
    return !pattern || text_contains(k->key, pattern) || text_contains(k->help, pattern) ||
           (k->flag && text_contains(k->flag, pattern)) ||
           (k->alias && text_contains(k->alias, pattern));
}

static const char *type_text(const knob *k, arena *a)
{
    const char *suffix = k->form == LIST ? ", list" : k->form == EITHER ? ", or list" : "";
    return arena_text(a, "%s%s", kind_names[k->kind], suffix);
}

/* Flags without the marks that say what they set. */
static const char *flag_text(const knob *k, arena *a)
{
    if (!k->flag) return "";
    textbuf t = text_init(a);
    for (const char *p = k->flag; *p; p++)
        if (!strchr("+!?", *p)) text_put(&t, p, 1);
    return t.s;
}

static void print_text(const char *pattern, arena *a)
{
    int n = 0;
    for (int i = 0; i < K_COUNT; i++) {
        const knob *k = &knobs[i];
        if (!matches(k, pattern)) continue;
        n++;
        printf("%s = %s\n    %s%s%s%s\n", k->key, k->dflt, k->help, k->unit ? " (" : "",
               k->unit ? k->unit : "", k->unit ? ")" : "");
        printf("    %s%s%s\n", type_text(k, a), k->allowed ? ": " : "",
               k->allowed ? k->allowed : "");
        if (k->flag) printf("    Megatron-LM: %s\n", flag_text(k, a));
        if (k->short_name) printf("    short: %s=8\n", k->short_name);
        if (k->alias) printf("    also: %s\n", k->alias);
        if (k->only) printf("    `train` runs only %s\n", k->only);
        if (k->lm || k->bridge)
            printf("    default of Megatron-LM %s, of Megatron-Bridge %s\n",
                   k->lm ? k->lm : k->dflt, k->bridge ? k->bridge : k->dflt);
    }
    if (!n) printf("no knob has '%s' in its key, flag or help\n", pattern);
}

static void print_cell(const char *s)
{
    for (; s && *s; s++) {
        if (*s == '|') putchar('\\');
        putchar(*s);
    }
    fputs(" | ", stdout);
}

static const char *meaning_text(const knob *k, arena *a)
{
    textbuf t = text_init(a);
    text_add(&t, "%s", k->help);
    if (k->short_name) text_add(&t, "; short `%s`", k->short_name);
    if (k->alias) text_add(&t, "; also `%s`", k->alias);
    if (k->only) text_add(&t, "; `train` runs only %s", k->only);
    return t.s;
}

static void print_markdown(arena *a)
{
    puts("# Knobs\n\n"
         "Written by `moefold knobs --markdown` from src/config/knobs.def; `make lint` checks that "
         "it is current.\n"
         "A default of `null` means that the value is derived (`moefold show` prints the reason) "
         "or that there is none.\n"
         "LM and Bridge: defaults of Megatron-LM and of Megatron-Bridge's classes where they "
         "differ.\n");
    const char *section = "";
    for (int i = 0; i < K_COUNT; i++) {
        const knob *k = &knobs[i];
        size_t n = strcspn(k->key, ".");
        if (strlen(section) != n || strncmp(section, k->key, n) != 0) {
            section = arena_copy(a, k->key, n);
            printf("\n| `%s.` | type | allowed | default | LM | Bridge | Megatron-LM flag | unit | "
                   "meaning |\n",
                   section);
            puts("|---|---|---|---|---|---|---|---|---|");
        }
        fputs("| ", stdout);
        print_cell(k->key[n] ? k->key + n + 1 : k->key);
        print_cell(type_text(k, a));
        print_cell(k->allowed);
        print_cell(k->dflt);
        print_cell(k->lm);
        print_cell(k->bridge);
        print_cell(flag_text(k, a));
        print_cell(k->unit);
        print_cell(meaning_text(k, a));
        puts("");
    }
}

static void print_json(const char *pattern, arena *a)
{
    knob_answer *list = ARENA_ARRAY(a, knob_answer, K_COUNT);
    int n = 0;
    for (int i = 0; i < K_COUNT; i++) {
        const knob *k = &knobs[i];
        if (!matches(k, pattern)) continue;
        list[n++] = (knob_answer){
            .key = k->key,
            .type = type_text(k, a),
            .allowed = k->allowed,
            .moefold = answer_value(knob_default(a, (knob_id)i, MOEFOLD)),
            .default_megatron_lm = answer_value(knob_default(a, (knob_id)i, MEGATRON_LM)),
            .default_megatron_bridge = answer_value(knob_default(a, (knob_id)i, MEGATRON_BRIDGE)),
            .flag = k->flag ? flag_text(k, a) : NULL,
            .unit = k->unit,
            .short_name = k->short_name,
            .alias = k->alias,
            .only = k->only,
            .help = k->help};
    }
    cli_json_print(fields_list(knob_answer_fields(), list, sizeof *list, n));
}

int command_knobs(int argc, char **argv)
{
    bool json = false, markdown = false, done = false;
    const char *pattern = NULL;
    const cli_option options[] = {
        {"--json", NULL, "print JSON (docs/JSON.md)", &json, NULL},
        {"--markdown", NULL, "print docs/KNOBS.md", &markdown, NULL},
    };
    error err = {{0}};
    status s = cli_read_plain(&(cli_words){"knobs", argc, argv, options, 2}, &pattern, &done, &err);
    if (s) return cli_fail("knobs", s, &err);
    if (done) return OK;
    arena *a = arena_create();
    if (json)
        print_json(pattern, a);
    else if (markdown)
        print_markdown(a);
    else
        print_text(pattern, a);
    arena_destroy(a);
    return OK;
}
