/* man.c - `moefold man`: the manual page in roff, from the tables that help is made from. */
#include <stdio.h>
#include <string.h>

#include "cli/help.h"

/* Text as roff takes it: a minus stays a minus, a backslash a backslash, and a line that starts
 * with a dot or a quote is not a request. */
static void put(const char *s)
{
    if (*s == '.' || *s == '\'') fputs("\\&", stdout);
    for (; *s; s++) {
        if (*s == '-')
            fputs("\\-", stdout);
        else if (*s == '\\')
            fputs("\\e", stdout);
        else
            putchar(*s);
    }
}

static void put_line(const char *macro, const char *s)
{
    printf("%s", macro);
    put(s);
    putchar('\n');
}

static void put_option(const cli_option *o)
{
    printf(".TP\n\\fB");
    put(o->name);
    printf("\\fR");
    if (o->value_name) {
        printf(" \\fI");
        put(o->value_name);
        printf("\\fR");
    }
    putchar('\n');
    put_line("", o->help);
}

static void put_command(const command *c)
{
    cli_option options[HELP_OPTIONS_MAX];
    int n = help_options(c, options, HELP_OPTIONS_MAX);
    put_line(".SS ", c->name);
    printf("\\fBmoefold %s\\fR ", c->name);
    put_line("", c->usage);
    puts(".PP");
    put_line("", c->summary);
    for (int i = 0; i < n; i++) put_option(&options[i]);
    const help_example *x = help_examples(c->name);
    for (int i = 0; x && i < HELP_EXAMPLES; i++) {
        puts(".PP");
        printf("%s:\n.PP\n.RS 4\n.nf\n", x[i].what);
        put_line("", x[i].line);
        puts(".fi\n.RE");
    }
}

static const char *const exits[][2] = {
    {"0", "success"},
    {"1", "a rule is broken, the recipe does not fit, or what was compared differs"},
    {"2", "an argument, a file or a knob cannot be read"},
    {"3", "the machine failed: memory, disk, a rank or the network"},
    {"4", "train was told to stop before its last step, and saved: started again it goes on"},
};
static const char *const variables[][2] = {
    {"NO_COLOR",
     "if set and not empty, output has no colours; otherwise only output to a terminal has"},
    {"OMP_NUM_THREADS", "CPU threads per rank if --threads is not given"},
};

static void put_pairs(const char *title, const char *const (*list)[2], size_t n)
{
    printf(".SH %s\n", title);
    for (size_t i = 0; i < n; i++) {
        printf(".TP\n\\fB%s\\fR\n", list[i][0]);
        put_line("", list[i][1]);
    }
}

int command_man(int argc, char **argv)
{
    const char *word = NULL;
    bool done = false;
    error err = {{0}};
    status s = cli_read_plain(&(cli_words){"man", argc, argv, NULL, 0}, &word, &done, &err);
    if (!s && word)
        s = error_set(&err, ERR_INPUT, "'%s' is not understood; `moefold man` takes no arguments",
                      word);
    if (s) return cli_fail("man", s, &err);
    if (done) return OK;
    int n;
    const command *commands = command_table(&n);
    printf(".TH MOEFOLD 1 \"\" \"moefold %s\" \"User Commands\"\n", cli_version);
    puts(
        ".SH NAME\nmoefold \\- plan, prove and run long\\-context Mixture\\-of\\-Experts training");
    puts(".SH SYNOPSIS\n\\fBmoefold\\fR \\fICOMMAND\\fR [\\fIRECIPE\\fR] [\\fIkey=value\\fR ...] "
         "[\\fIoptions\\fR]");
    puts(".SH DESCRIPTION");
    put_line("", help_recipe);
    puts(".SH COMMANDS");
    for (int i = 0; i < n; i++) put_command(&commands[i]);
    put_pairs("EXIT STATUS", exits, sizeof exits / sizeof exits[0]);
    put_pairs("ENVIRONMENT", variables, sizeof variables / sizeof variables[0]);
    return OK;
}
