/*
 * file watch: what changes in a directory, or with --recursive in the tree below it, as records until it is
 * ended: "EVENT COOKIE TYPE PATH" and a NUL.
 *
 * A directory that appears is watched as soon as it is seen, and what already lies in it then is told as
 * created: an event may come twice that way, and none is lost. What the kernel dropped is told as well.
 */
#include "line.h"
#include "names.h"
#include "records.h"
#include "tree.h"

#include <linux/inotify.h>
#include <string.h>

enum {
    WATCHES_MAX = 1024,
    NAMES_AT_ONCE = 4096,
    EVENTS_AT_ONCE = 16384,
    NAME_SIZE = 256,
    NO_PARENT = -1,
    GONE = -1
};

/* One watched directory, by the number that the kernel gave it. */
struct watched {
    int descriptor;
    int parent;   /* index, NO_PARENT for the root */
    bool leaving; /* its old name is gone, and no new one was seen */
    char name[NAME_SIZE];
};

struct watch {
    const struct request *request;
    int inotify;
    unsigned most, count;
    bool telling; /* entries that are found are told as created */
    struct watched item[WATCHES_MAX];
};

static const uint32_t EVENTS = IN_CREATE | IN_DELETE | IN_CLOSE_WRITE | IN_MODIFY | IN_ATTRIB |
                               IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR |
                               IN_DONT_FOLLOW;

static long tell(char event, uint32_t cookie, char type, const char *path) {
    struct line line = {.length = 0};
    char words[] = {event, ' ', '\0'};
    line_text(&line, words);
    line_number(&line, cookie);
    char kind[] = {' ', type, ' ', '\0'};
    line_text(&line, kind);
    long result = write_all(1, line.text, line.length);
    return result < 0 ? result : write_all(1, path, strlen(path) + 1);
}

static int index_of(const struct watch *watch, int descriptor) {
    for (unsigned i = 0; i < watch->count; i++) {
        if (watch->item[i].descriptor == descriptor) {
            return (int)i;
        }
    }
    return -1;
}

/* The path of `name` in a watched directory, from the root's on. False where it is too long. */
static bool path_of(const struct watch *watch, int at, const char *name, char ret[static RELATIVE_MAX]) {
    size_t start = RELATIVE_MAX - 1;
    ret[start] = '\0';
    const char *part = name;
    for (unsigned steps = 0; steps <= WATCHES_MAX; steps++) {
        size_t size = strlen(part);
        if (size + 1 > start) {
            return false;
        }
        start -= size;
        memcpy(ret + start, part, size);
        if (at < 0 || watch->item[at].parent == NO_PARENT) {
            break;
        }
        if (size > 0) {
            ret[--start] = '/';
        }
        part = watch->item[at].name;
        at = watch->item[at].parent;
    }
    size_t length = RELATIVE_MAX - 1 - start;
    for (size_t i = 0; i <= length; i++) {
        ret[i] = ret[start + i];
    }
    return true;
}

/* Watches the directory `fd`; its index, -ENOSPC where there is no room for more, or -errno. */
static long add(struct watch *watch, int fd, int parent, const char *name) {
    /* inotify knows no descriptors of directories, but the working directory is one. */
    long result = sys_call(__NR_fchdir, fd, 0, 0, 0, 0, 0);
    if (result >= 0) {
        result = sys_call(__NR_inotify_add_watch, watch->inotify, (long)".", EVENTS, 0, 0, 0);
    }
    /* What is held open tells nothing of its removal. */
    sys_call(__NR_fchdir, watch->request->root, 0, 0, 0, 0, 0);
    if (result < 0) {
        return result;
    }
    int at = index_of(watch, (int)result); /* known: it was moved */
    if (at < 0) {
        at = index_of(watch, GONE);
    }
    if (at < 0) {
        if (watch->count == watch->most) {
            sys_call(__NR_inotify_rm_watch, watch->inotify, result, 0, 0, 0, 0);
            return -ENOSPC;
        }
        at = (int)watch->count++;
    }
    struct watched *item = &watch->item[at];
    item->descriptor = (int)result;
    item->parent = parent;
    item->leaving = false;
    memcpy(item->name, name, strlen(name) + 1);
    return at;
}

static bool lies_in(const struct watch *watch, int at, int top) {
    for (unsigned steps = 0; at >= 0 && at != top && steps <= WATCHES_MAX; steps++) {
        at = watch->item[at].parent;
    }
    return at == top;
}

/* A directory that left the tree is watched no more, nor is what lies in it. */
static void forget(struct watch *watch, int top) {
    for (unsigned i = 0; i < watch->count; i++) {
        struct watched *item = &watch->item[i];
        if (item->descriptor != GONE && lies_in(watch, (int)i, top)) {
            sys_call(__NR_inotify_rm_watch, watch->inotify, item->descriptor, 0, 0, 0, 0);
            item->descriptor = GONE;
        }
    }
}

static void mark_leaving(struct watch *watch, int parent, const char *name) {
    for (unsigned i = 0; i < watch->count; i++) {
        struct watched *item = &watch->item[i];
        if (item->descriptor != GONE && item->parent == parent && strcmp(item->name, name) == 0) {
            item->leaving = true;
        }
    }
}

static long watch_below(struct watch *watch, int fd, int at, unsigned depth);

/* An entry of a watched directory that was just found. */
static long found(struct watch *watch, int parent_fd, int parent, const char *name, unsigned depth) {
    char path[RELATIVE_MAX];
    struct statx info;
    long type = type_of(parent_fd, name, 0, &info);
    if (type < 0 || strlen(name) >= NAME_SIZE || !path_of(watch, parent, name, path)) {
        return 0;
    }
    long result = watch->telling ? tell('c', 0, type_letter((unsigned)type), path) : 0;
    if (result < 0 || type != S_IFDIR || !watch->request->recursive) {
        return result;
    }
    long fd = depth < DEPTH_MAX ? open_strictly(parent_fd, name, O_RDONLY | O_DIRECTORY, 0) : -ENOSPC;
    long at = fd < 0 ? fd : add(watch, (int)fd, parent, name);
    if (at >= 0) {
        result = watch_below(watch, (int)fd, (int)at, depth + 1);
    } else if (at == -ENOSPC) {
        result = tell('x', 0, 'd', path);
    }
    if (fd >= 0) {
        sys_close((int)fd);
    }
    return result;
}

static long watch_below(struct watch *watch, int fd, int at, unsigned depth) {
    _Alignas(NAMES_ALIGNMENT) char room[NAMES_AT_ONCE];
    struct names names = {.directory = fd, .room = room, .size = sizeof room};
    long result = 0;
    for (const char *name; result >= 0 && (name = names_next(&names));) {
        result = found(watch, fd, at, name, depth);
    }
    return result; /* a directory that went meanwhile has nothing to tell */
}

/* What a path from the watched root's on names, opened anew: nothing is held open. */
static long open_below(const struct watch *watch, const char *path) {
    long root = open_strictly(watch->request->root, watch->request->path, O_RDONLY | O_DIRECTORY, 0);
    if (root < 0) {
        return root;
    }
    long fd = open_strictly((int)root, path, O_RDONLY | O_DIRECTORY, 0);
    sys_close((int)root);
    return fd;
}

static char event_letter(uint32_t mask) {
    static const struct {
        uint32_t bit;
        char letter;
    } LETTERS[] = {{IN_CREATE, 'c'},     {IN_DELETE, 'd'},   {IN_CLOSE_WRITE, 'w'}, {IN_MODIFY, 'm'},
                   {IN_MOVED_FROM, 'f'}, {IN_MOVED_TO, 't'}, {IN_ATTRIB, 'a'}};
    for (size_t i = 0; i < sizeof LETTERS / sizeof LETTERS[0]; i++) {
        if (mask & LETTERS[i].bit) {
            return LETTERS[i].letter;
        }
    }
    return '\0';
}

/* What is told of one event; 1 where the watched root is gone. */
static long handle(struct watch *watch, const struct inotify_event *event) {
    if (event->mask & IN_Q_OVERFLOW) {
        return tell('o', 0, '-', "");
    }
    int at = index_of(watch, event->wd);
    if (at < 0) {
        return 0;
    }
    if (event->mask & IN_IGNORED) {
        watch->item[at].descriptor = GONE; /* what lay in it is gone as well */
    }
    /* The third word on a move, after its old and its new name. */
    if (event->mask & IN_MOVE_SELF && watch->item[at].leaving) {
        forget(watch, at);
    }
    if (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED)) {
        return watch->item[at].parent == NO_PARENT;
    }
    const char *name = event->len > 0 ? event->name : "";
    char letter = event_letter(event->mask), path[RELATIVE_MAX];
    if (!letter || !path_of(watch, at, name, path)) {
        return 0;
    }
    bool directory = (event->mask & IN_ISDIR) != 0;
    if (directory && event->mask & IN_MOVED_FROM) {
        mark_leaving(watch, at, name);
    }
    long result = tell(letter, event->cookie, directory ? 'd' : 'f', path);
    if (result < 0 || !directory || !watch->request->recursive ||
        !(event->mask & (IN_CREATE | IN_MOVED_TO))) {
        return result;
    }
    long fd = open_below(watch, path);
    if (fd < 0) {
        return 0;
    }
    long added = add(watch, (int)fd, at, name);
    result = added >= 0         ? watch_below(watch, (int)fd, (int)added, 1)
             : added == -ENOSPC ? tell('x', 0, 'd', path)
                                : 0;
    sys_close((int)fd);
    return result;
}

enum status file_watch(const struct request *request) {
    struct watch watch = {.request = request};
    watch.most = request->most < WATCHES_MAX ? (unsigned)request->most : WATCHES_MAX;
    long root = open_strictly(request->root, request->path, O_RDONLY | O_DIRECTORY, 0);
    if (root < 0) {
        return complain_errno(request, root);
    }
    long result = sys_call(__NR_inotify_init1, O_CLOEXEC, 0, 0, 0, 0, 0);
    if (result >= 0) {
        watch.inotify = (int)result;
        result = add(&watch, (int)root, NO_PARENT, "");
    }
    if (result >= 0 && request->recursive) {
        result = watch_below(&watch, (int)root, 0, 1);
    }
    sys_close((int)root);
    if (result >= 0) {
        watch.telling = true;
        result = tell('s', 0, 'd', "");
    }
    while (result == 0) {
        _Alignas(struct inotify_event) char events[EVENTS_AT_ONCE];
        long got = sys_read(watch.inotify, events, sizeof events);
        result = got == -EINTR ? 0 : got;
        for (long at = 0; at < got && result >= 0;) {
            const struct inotify_event *event = (const void *)(events + at);
            at += (long)(sizeof *event + event->len);
            result = handle(&watch, event);
            if (result == 1) {
                tell('g', 0, 'd', "");
                return STATUS_OK;
            }
        }
        if (result > 0) {
            result = 0;
        }
    }
    return complain_errno(request, result);
}
