/*
 * file list: the entries of one directory in the order of their names' bytes, a page at a time.
 *
 * A page is those that follow a name, so that it means the same whatever was made or removed meanwhile. The
 * directory is read once; kept are the first of what follows, in a heap with the last of them on top.
 */
#include "names.h"
#include "records.h"

#include <string.h>

enum { PAGE_MAX = 10000, NAME_SIZE = 256, NAMES_AT_ONCE = 32768 };

struct page {
    unsigned most, count;
    bool more;
    unsigned short heap[PAGE_MAX]; /* numbers of names; each name comes after those below it */
    char names[PAGE_MAX][NAME_SIZE];
};

static bool before(const struct page *page, unsigned a, unsigned b) {
    return strcmp(page->names[page->heap[a]], page->names[page->heap[b]]) < 0;
}

static void swap(struct page *page, unsigned a, unsigned b) {
    unsigned short held = page->heap[a];
    page->heap[a] = page->heap[b];
    page->heap[b] = held;
}

static void sink(struct page *page, unsigned at, unsigned count) {
    for (;;) {
        unsigned largest = at, left = 2 * at + 1, right = left + 1;
        if (left < count && before(page, largest, left)) {
            largest = left;
        }
        if (right < count && before(page, largest, right)) {
            largest = right;
        }
        if (largest == at) {
            return;
        }
        swap(page, at, largest);
        at = largest;
    }
}

static void keep(struct page *page, const char *name) {
    size_t size = strlen(name) + 1;
    if (size > NAME_SIZE) {
        return; /* no filesystem here has such */
    }
    if (page->count == page->most) {
        page->more = true;
        char *last = page->names[page->heap[0]];
        if (strcmp(name, last) < 0) {
            memcpy(last, name, size);
            sink(page, 0, page->count);
        }
        return;
    }
    unsigned at = page->count++;
    page->heap[at] = (unsigned short)at;
    memcpy(page->names[at], name, size);
    for (; at > 0 && before(page, (at - 1) / 2, at); at = (at - 1) / 2) {
        swap(page, at, (at - 1) / 2);
    }
}

static void sort(struct page *page) {
    for (unsigned count = page->count; count > 1; count--) {
        swap(page, 0, count - 1);
        sink(page, 0, count - 1);
    }
}

static long read_page(int directory, const char *after, struct page *page) {
    _Alignas(NAMES_ALIGNMENT) char room[NAMES_AT_ONCE];
    struct names names = {.directory = directory, .room = room, .size = sizeof room};
    for (const char *name; (name = names_next(&names));) {
        if (strcmp(name, after) > 0) {
            keep(page, name);
        }
    }
    return names.got;
}

/* Digits in pairs, as file.c has checked. */
static void decode(const char *digits, char ret_name[static NAME_SIZE]) {
    size_t length = 0;
    for (; digits && digits[0] && digits[1]; digits += 2) {
        unsigned byte = 0;
        for (unsigned i = 0; i < 2; i++) {
            char c = digits[i];
            byte = byte << 4 | (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
        }
        ret_name[length++] = (char)byte;
    }
    ret_name[length] = '\0';
}

enum status file_list(const struct request *request) {
    long fd = open_beneath(request->root, request->path, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
    if (fd < 0) {
        return complain_errno(request, fd);
    }
    char after[NAME_SIZE];
    decode(request->after, after);
    struct page page;
    page.most = request->most < PAGE_MAX ? (unsigned)request->most : PAGE_MAX;
    page.count = 0;
    page.more = false;
    long result = page.most > 0 ? read_page((int)fd, after, &page) : 0;
    sort(&page);
    struct output output = {.length = 0};
    for (unsigned i = 0; i < page.count && result >= 0; i++) {
        const char *name = page.names[page.heap[i]];
        struct statx info;
        if (type_of((int)fd, name, 0, &info) >= 0) { /* else gone since it was read */
            result = record_entry(&output, &info, name);
        }
    }
    if (result >= 0 && page.more) {
        result = output_add(&output, "+", 2);
    }
    if (result >= 0) {
        result = output_flush(&output);
    }
    return result < 0 ? complain_errno(request, result) : STATUS_OK;
}
