/* refuse.c - a recipe that breaks a rule does not start, as `check` says. */
#include <stdio.h>

#include "cli/cli.h"

colour cli_colour(severity s)
{
    return s == ERROR ? COLOUR_ERROR : s == WARNING ? COLOUR_WARNING : COLOUR_NONE;
}

bool cli_refuse(const char *name, const setup *s, arena *a)
{
    violations found;
    rules_check(&found, s, false, a);
    rules_prove(&found, s, false, a);
    for (int i = 0; i < found.n; i++) {
        const violation *v = &found.list[i];
        if (v->rule->severity == NOTE) continue;
        severity kind = v->rule->severity;
        fprintf(stderr, "moefold %s: %s%s%s %s: %s\n", name, colour_on(stderr, cli_colour(kind)),
                severity_name(kind), colour_off(stderr), v->rule->id, v->message);
        if (!v->n_repairs) continue;
        const char *const *words = recipe_appended(&s->r, edits_words(v->repairs[0], a), a);
        fprintf(stderr, "    repair: %s\n", words_text(words, a));
    }
    return found.n_errors > 0;
}
