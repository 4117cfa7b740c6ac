/* foreign.c - files and text from elsewhere: are they plain, and how text is shown that is not.
 *
 * It needs nothing else of ours: the GPU's object has a copy. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/text.h"

bool file_is_plain(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISREG(s.st_mode);
}

size_t text_character(const char *s, size_t left)
{
    const unsigned char *p = (const unsigned char *)s;
    if (*p < 0x80) return *p >= 0x20 || *p == '\t' || *p == '\n' || *p == '\r' ? *p != 0x7F : 0;
    size_t n = *p >= 0xF0 ? 4 : *p >= 0xE0 ? 3 : 2;
    if (*p < 0xC2 || *p > 0xF4 || n > left) return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xC0) != 0x80) return 0;
    bool overlong = (*p == 0xE0 && p[1] < 0xA0) || (*p == 0xF0 && p[1] < 0x90);
    bool beyond = (*p == 0xED && p[1] > 0x9F) || (*p == 0xF4 && p[1] > 0x8F);
    bool control = *p == 0xC2 && p[1] < 0xA0; /* U+0080 to U+009F: a terminal heeds them, too */
    return overlong || beyond || control ? 0 : n;
}

bool text_is_plain(const char *s)
{
    for (size_t left = strlen(s), n; left; s += n, left -= n) {
        n = text_character(s, left);
        if (!n || *s == '\n' || *s == '\r') return false;
    }
    return true;
}

void text_escape(char *out, size_t room, const char *s, bool lines)
{
    size_t left = strlen(s), at = 0;
    while (left) {
        char escape[8];
        size_t n = text_character(s, left);
        bool ends = *s == '\n' || *s == '\r', plain = n && (!ends || (lines && *s == '\n'));
        if (!plain)
            snprintf(escape, sizeof escape, ends ? "\\%c" : "\\x%02x",
                     ends ? (*s == '\n' ? 'n' : 'r') : (unsigned char)*s);
        size_t put = plain ? n : strlen(escape);
        if (at + put >= room) break;
        memcpy(out + at, plain ? s : escape, put);
        at += put;
        s += n ? n : 1;
        left -= n ? n : 1;
    }
    out[at] = 0;
}
