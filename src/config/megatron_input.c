/* megatron_input.c - files that start Megatron-LM, told apart by what is in them. */
#include <string.h>

#include "base/file.h"
#include "config/megatron_reader.h"

/* ---- which kind */

typedef struct lines {
    const char *p, *end;
} lines;

/* The next line without blanks in front. */
static bool next_line(lines *in, slice *line)
{
    if (in->p >= in->end) return false;
    const char *stop = memchr(in->p, '\n', (size_t)(in->end - in->p));
    if (!stop) stop = in->end;
    const char *p = in->p;
    while (p < stop && (*p == ' ' || *p == '\t')) p++;
    *line = (slice){p, (size_t)(stop - p), 0};
    in->p = stop + 1;
    return true;
}

static bool begins(slice line, const char *word)
{
    size_t n = strlen(word);
    return line.n >= n && memcmp(line.s, word, n) == 0;
}

bool megatron_is_yaml(const char *data, size_t n)
{
    lines in = {data, data + n};
    slice line;
    while (next_line(&in, &line))
        if (begins(line, "MODEL_ARGS:") && (line.s == data || line.s[-1] == '\n')) return true;
    return false;
}

/* NAME=value or NAME=( with nothing behind it: no variable before a command. */
static bool is_assignment(slice line)
{
    const char *p = line.s, *end = line.s + line.n;
    p += shell_name_length(p, end);
    if (p == line.s || p >= end) return false;
    if (*p == '+') p++;
    if (p >= end || *p != '=') return false;
    if (++p < end && *p == '(') return true;
    size_t n;
    error ignored = {0};
    shell_source rest = {.name = "", .data = p, .n = (size_t)(end - p), .line = 1};
    if (shell_word_end(&rest, false, &n, &ignored)) return true; /* goes on in the next */
    for (p += n; p < end && (*p == ' ' || *p == '\t' || *p == '\r' || *p == ';');) p++;
    return p == end || *p == '#';
}

bool megatron_is_script(const char *data, size_t n)
{
    static const char *const words[] = {"export ", "declare ",  "local ", "readonly ", "if ",
                                        "for ",    "while ",    "case ",  "source ",   ". ",
                                        "set ",    "function ", "eval ",  "[ ",        "[[ "};
    lines in = {data, data + n};
    slice line;
    bool goes_on = false;
    if (n > 1 && memcmp(data, "#!", 2) == 0) return true;
    while (next_line(&in, &line)) {
        bool begun = !goes_on;
        while (line.n && line.s[line.n - 1] == '\r') line.n--;
        goes_on = line.n && line.s[line.n - 1] == '\\';
        if (!begun || !line.n || *line.s == '#') continue;
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
            if (begins(line, words[i])) return true;
        if (is_assignment(line)) return true;
    }
    return false;
}

/* ---- --set */

static status take_sets(recipe *r, const megatron_options *o, shell_set **sets, error *err)
{
    int n = o ? o->n_sets : 0;
    *sets = ARENA_ARRAY(r->a, shell_set, n ? n : 1);
    for (int i = 0; i < n; i++) {
        const char *word = o->sets[i], *end = word + strlen(word);
        size_t len = shell_name_length(word, end);
        if (len == 0) len = strspn(word, "0123456789"); /* $1 */
        if (len == 0 || word[len] != '=')
            return error_set(err, ERR_INPUT, "--set %.100s: NAME=value is needed", word);
        (*sets)[i] = (shell_set){arena_copy(r->a, word, len), word + len + 1, false};
    }
    return OK;
}

static status unused_sets(const char *name, const shell_set *sets, int n, error *err)
{
    for (int i = 0; i < n; i++)
        if (!sets[i].used)
            return error_set(err, ERR_INPUT,
                             "--set %.100s: %s uses no variable of this name; leave it out",
                             sets[i].name, name);
    return OK;
}

/* ---- reading */

static status read_list(reader *rd, const char *data, size_t n, shell_set *sets,
                        const megatron_options *o)
{
    if (o && o->command && strcmp(o->command, "1") != 0)
        return error_set(rd->err, ERR_INPUT,
                         "--command %.20s: %s is an argument list, which has one command",
                         o->command, rd->name);
    shell_words w;
    rd->in_launcher = true;
    shell_source from = {.name = rd->name,
                         .data = data,
                         .n = n,
                         .line = 1,
                         .sets = sets,
                         .n_sets = o ? o->n_sets : 0};
    TRY(shell_list(rd->r->a, &from, MEGATRON_WORDS_MAX, &w, rd->err));
    return reader_words(rd, &w, 0);
}

status megatron_parse_with(recipe *r, const char *name, const char *data, size_t n,
                           const megatron_options *o, error *err)
{
    if (n > MEGATRON_BYTES_MAX)
        return error_set(err, ERR_INPUT, "%s: a file of %zu bytes; at most %d are read", name, n,
                         MEGATRON_BYTES_MAX);
    reader rd = {.r = r, .name = name, .where = name, .err = err, .in_file = true};
    shell_set *sets;
    TRY(take_sets(r, o, &sets, err));
    recipe_set_system(r, MEGATRON_LM, "a Megatron-LM argument list");
    TRY(megatron_is_yaml(data, n)     ? megatron_yaml(&rd, data, n, sets, o)
        : megatron_is_script(data, n) ? megatron_script(&rd, data, n, sets, o)
                                      : read_list(&rd, data, n, sets, o));
    TRY(unused_sets(name, sets, o ? o->n_sets : 0, err));
    return reader_finish(&rd);
}

status megatron_read_with(recipe *r, const char *path, const megatron_options *o, error *err)
{
    char *data;
    size_t n;
    bool input = strcmp(path, "-") == 0;
    TRY(input ? file_read_input(r->a, MEGATRON_BYTES_MAX, &data, &n, err)
              : file_read(r->a, path, MEGATRON_BYTES_MAX, &data, &n, err));
    r->folder = input ? "" : file_folder(r->a, path);
    return megatron_parse_with(r, input ? "standard input" : path, data, n, o, err);
}

status megatron_parse(recipe *r, const char *name, const char *data, size_t n, error *err)
{
    return megatron_parse_with(r, name, data, n, NULL, err);
}

status megatron_read(recipe *r, const char *path, error *err)
{
    return megatron_read_with(r, path, NULL, err);
}
