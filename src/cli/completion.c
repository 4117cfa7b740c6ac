/* completion.c - `moefold completion bash|zsh`: scripts made from the tables of commands, options,
 * knobs and presets, so that they know what this program knows. */
#include <stdio.h>
#include <string.h>

#include "config/models/models.h"
#include "cli/help.h"

/* ---- the tables as words of a shell */

/* Inside single quotes. */
static void put_quoted(const char *s)
{
    for (; *s; s++) {
        if (*s == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*s);
    }
}

static void put_commands(void)
{
    int n;
    const command *c = command_table(&n);
    for (int i = 0; i < n; i++) printf("%s%s", i ? " " : "", c[i].name);
}

static void put_options(const command *c)
{
    cli_option options[HELP_OPTIONS_MAX];
    int n = help_options(c, options, HELP_OPTIONS_MAX);
    for (int i = 0; i < n; i++) printf("%s ", options[i].name);
    printf("--help");
}

static void put_presets(void)
{
    int n;
    const char *const *presets = model_presets(&n);
    for (int i = 0; i < n; i++) printf("%s%s", i ? " " : "", presets[i]);
}

static void put_keys(void)
{
    for (int k = 0; k < K_COUNT; k++) printf("%s%s=", k ? " " : "", knobs[k].key);
    for (int k = 0; k < K_COUNT; k++)
        if (knobs[k].short_name) printf(" %s=", knobs[k].short_name);
}

/* Cases of a shell's `case`: the words that a knob takes. */
static void put_values(const char *before, const char *after)
{
    for (int k = 0; k < K_COUNT; k++) {
        const knob *x = &knobs[k];
        bool words = x->kind == ENUM && x->allowed;
        if (!words && x->kind != BOOL) continue;
        printf("        %s) %s", x->key, before);
        for (const char *p = words ? x->allowed : "true|false"; *p; p++)
            putchar(*p == '|' ? ' ' : *p);
        printf("%s ;;\n", after);
    }
}

/* Options whose value is a file, a GPU or one of few words. */
static const struct value_words {
    const char *option, *words;
} option_values[] = {
    {"--as", "recipe megatron-lm megatron-bridge config.json"},
    {"--to", "hf moefold"},
    {"--dtype", "float32 bfloat16"},
    {"--precision", "any"},
    {"--without", "optimizer"},
};

static void put_option_values(const char *before, const char *after)
{
    for (size_t i = 0; i < sizeof option_values / sizeof option_values[0]; i++)
        printf("        %s) %s%s%s ;;\n", option_values[i].option, before, option_values[i].words,
               after);
}

/* ---- bash */

/* Bash cuts words at =, so the current word is read off the line. */
static void print_bash(void)
{
    int n;
    const command *commands = command_table(&n);
    printf("# Completion of moefold for bash, made by `moefold completion bash`.\n"
           "_moefold() {\n"
           "    local line=${COMP_LINE:0:COMP_POINT} cur prev command options= values=\n"
           "    cur=${line##*[[:blank:]]}\n"
           "    prev=${COMP_WORDS[COMP_CWORD-1]}\n"
           "    command=${COMP_WORDS[1]}\n"
           "    COMPREPLY=()\n"
           "    if ((COMP_CWORD == 1)); then\n"
           "        COMPREPLY=($(compgen -W '");
    put_commands();
    printf("' -- \"$cur\"))\n        return\n    fi\n    case $command in\n");
    for (int i = 0; i < n; i++) {
        printf("        %s) options='", commands[i].name);
        put_options(&commands[i]);
        printf("' ;;\n");
    }
    printf("    esac\n    case $command in\n        help) COMPREPLY=($(compgen -W '");
    put_commands();
    printf("' -- \"$cur\")) ; return ;;\n"
           "        completion) COMPREPLY=($(compgen -W 'bash zsh' -- \"$cur\")) ; return ;;\n"
           "    esac\n    case $prev in\n");
    put_option_values("values='", "'");
    printf("    esac\n"
           "    if [[ -n $values ]]; then\n"
           "        COMPREPLY=($(compgen -W \"$values\" -- \"$cur\"))\n        return\n    fi\n"
           "    if [[ $cur == -* ]]; then\n"
           "        COMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n        return\n    fi\n"
           "    if [[ $cur == *=* ]]; then\n        case ${cur%%%%=*} in\n");
    put_values("values='", "'");
    printf(
        "        esac\n"
        "        COMPREPLY=($(compgen -W \"$values\" -- \"${cur#*=}\"))\n        return\n    fi\n"
        "    COMPREPLY=($(compgen -W '");
    put_presets();
    putchar(' ');
    put_keys();
    printf("' -- \"$cur\") $(compgen -f -X '!*.yaml' -- \"$cur\") $(compgen -d -S / -- \"$cur\"))\n"
           "    [[ ${COMPREPLY[0]-} == *[=/] ]] && compopt -o nospace 2>/dev/null\n"
           "    return 0\n"
           "}\n"
           "complete -F _moefold moefold\n");
}

/* ---- zsh */

static void print_zsh_described(void)
{
    int n;
    const command *c = command_table(&n);
    printf("    commands=(\n");
    for (int i = 0; i < n; i++) {
        printf("        '%s:", c[i].name);
        put_quoted(c[i].summary);
        printf("'\n");
    }
    printf("    )\n");
}

static void print_zsh(void)
{
    int n;
    const command *commands = command_table(&n);
    printf("#compdef moefold\n"
           "# Completion of moefold for zsh, made by `moefold completion zsh`.\n"
           "_moefold() {\n"
           "    local cur=${words[CURRENT]} prev=${words[CURRENT-1]}\n"
           "    local -a commands options values presets keys\n");
    print_zsh_described();
    printf("    if ((CURRENT == 2)); then\n        _describe command commands\n        return\n"
           "    fi\n    case ${words[2]} in\n");
    for (int i = 0; i < n; i++) {
        printf("        %s) options=(", commands[i].name);
        put_options(&commands[i]);
        printf(") ;;\n");
    }
    printf("    esac\n    case ${words[2]} in\n"
           "        help) _describe command commands; return ;;\n"
           "        completion) compadd -- bash zsh; return ;;\n"
           "    esac\n    case $prev in\n");
    put_option_values("values=(", ")");
    printf("    esac\n"
           "    if (($#values)); then\n        compadd -a values\n        return\n    fi\n"
           "    if [[ $cur == -* ]]; then\n        compadd -a options\n        return\n    fi\n"
           "    if [[ $cur == *=* ]]; then\n        case ${cur%%%%=*} in\n");
    put_values("values=(", ")");
    printf(
        "        esac\n        compset -P '*='\n        compadd -a values\n        return\n    fi\n"
        "    presets=(");
    put_presets();
    printf(")\n    keys=(");
    put_keys();
    printf(")\n"
           "    compadd -a presets\n    compadd -S '' -a keys\n    _files -g "
           "'*.(yaml|json|gz|log|sqlite)'\n"
           "}\n"
           "_moefold \"$@\"\n");
}

int command_completion(int argc, char **argv)
{
    const char *word = NULL;
    bool done = false;
    error err = {{0}};
    status s = cli_read_plain(&(cli_words){"completion", argc, argv, NULL, 0}, &word, &done, &err);
    if (!s && !done && !(word && text_in("bash|zsh", '|', word)))
        s = error_set(&err, ERR_INPUT, "%s%sname a shell: bash or zsh", word ? word : "",
                      word ? ": " : "");
    if (s) return cli_fail("completion", s, &err);
    if (done) return OK;
    if (strcmp(word, "bash") == 0)
        print_bash();
    else
        print_zsh();
    return OK;
}
