/* status.c - error text. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

status error_set(error *err, status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    return code;
}

status error_prefix(error *err, status code, const char *format, ...)
{
    char tail[ERROR_TEXT_MAX];
    memcpy(tail, err->text, sizeof tail);
    va_list args;
    va_start(args, format);
    int n = vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    if (n >= 0 && (size_t)n < sizeof err->text)
        snprintf(err->text + n, sizeof err->text - (size_t)n, ": %.1500s", tail);
    return code;
}
