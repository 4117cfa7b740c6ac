/* status.c - error text. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/text.h"

/* What a message names is foreign: a name of a file, a key, a value (text_escape). */
static void put(error *err, const char *text)
{
    text_escape(err->text, sizeof err->text, text, true);
}

status error_set(error *err, status code, const char *format, ...)
{
    char text[ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    put(err, text);
    return code;
}

status error_prefix(error *err, status code, const char *format, ...)
{
    char text[ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n >= 0 && (size_t)n < sizeof text)
        snprintf(text + n, sizeof text - (size_t)n, ": %.1500s", err->text);
    put(err, text);
    return code;
}
