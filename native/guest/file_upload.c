/*
 * file upload: a tar archive from standard input, unpacked beneath a directory (../common/tar.h).
 *
 * Who made the archive is not believed. Each member is opened anew from the directory, by the kernel, without
 * a symlink anywhere on the way, so that neither a name nor a link that an earlier member made leads out. A
 * name with ".." or from the root ends it. Left out and reported are devices and FIFOs, links out of ROOT,
 * what the policy holds back, and what the guest's own permissions or an existing name refuse. An archive
 * that stops before its end is an error: half a tree must not look like a whole one.
 */
#include "../common/tar.h"
#include "line.h"
#include "records.h"
#include "tree.h"

#include <string.h>

enum { GLOBAL_MAX = 1 << 20, OPEN_DIRECTORIES = 512 };

/* A directory whose mode and time are set when the archive has left it: until then members go into it. */
struct pending {
    size_t length; /* of its path, which begins the path at hand */
    unsigned mode;
    int64_t mtime;
};

struct upload {
    const struct request *request;
    int root;     /* what is unpacked into */
    size_t depth; /* of it below ROOT */
    uint64_t entries, bytes;
    struct omissions omissions;
    struct tar_extended extended;
    struct tar_member member;
    char path[RELATIVE_MAX]; /* the member's, clean */
    struct pending pending[OPEN_DIRECTORIES];
    size_t pendings;
    char pending_path[RELATIVE_MAX]; /* of the innermost */
    size_t at, end;                  /* what is left of `input` */
    char input[CHUNK];
};

static enum status bad(const struct upload *upload, const char *reason) {
    return complain(upload->request, STATUS_BAD_ARCHIVE, reason);
}

/* Up to `most` bytes of the archive; 0 at its end, or -errno. They stay until the next call. */
static long next_bytes(struct upload *upload, uint64_t most, const char **ret) {
    while (upload->at == upload->end) {
        long got = sys_read(0, upload->input, sizeof upload->input);
        if (got == -EINTR) {
            continue;
        }
        if (got <= 0) {
            return got;
        }
        upload->at = 0;
        upload->end = (size_t)got;
    }
    size_t there = upload->end - upload->at;
    size_t part = most < there ? (size_t)most : there;
    *ret = upload->input + upload->at;
    upload->at += part;
    return (long)part;
}

/* Exactly `size` bytes; 0, -ENODATA where the archive ends first, or -errno. `to` may be NULL. */
static long take(struct upload *upload, uint64_t size, char *to) {
    while (size > 0) {
        const char *bytes;
        long got = next_bytes(upload, size, &bytes);
        if (got <= 0) {
            return got < 0 ? got : -ENODATA;
        }
        if (to) {
            memcpy(to, bytes, (size_t)got);
            to += got;
        }
        size -= (uint64_t)got;
    }
    return 0;
}

static uint64_t padding(uint64_t size) {
    return (TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK;
}

static enum status input_failed(const struct upload *upload, long error) {
    return error == -ENODATA ? bad(upload, "it ends in the middle") : complain_errno(upload->request, error);
}

static enum status skip(struct upload *upload, uint64_t size) {
    /* The two are taken apart: their sum may not fit. */
    long result = take(upload, size, NULL);
    if (result >= 0) {
        result = take(upload, padding(size), NULL);
    }
    return result < 0 ? input_failed(upload, result) : STATUS_OK;
}

/* The member's content is passed over, and why is said. */
static enum status leave_out(struct upload *upload, const char *reason) {
    omit(&upload->omissions, reason, upload->path);
    return skip(upload, upload->member.size);
}

/* What one member meets is its own; a full disk and the like are everybody's. */
static enum status refused(struct upload *upload, long error) {
    enum status status = status_of(error);
    if (status == STATUS_OUTSIDE) {
        return leave_out(upload, "link");
    }
    if (status == STATUS_DENIED) {
        return leave_out(upload, "denied");
    }
    if (status == STATUS_EXISTS || status == STATUS_WRONG_TYPE || status == STATUS_NOT_FOUND) {
        return leave_out(upload, "exists");
    }
    return complain_errno(upload->request, error);
}

static void set_times(int fd, const char *name, int64_t mtime, int flags) {
    struct __kernel_timespec times[2] = {{mtime, 0}, {mtime, 0}};
    sys_call(__NR_utimensat, fd, (long)name, (long)times, flags, 0, 0);
}

static void settle_one(struct upload *upload) {
    const struct pending *last = &upload->pending[--upload->pendings];
    upload->pending_path[last->length] = '\0';
    long fd = open_strictly(upload->root, upload->pending_path, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0) {
        return; /* somebody took it away meanwhile */
    }
    sys_call(__NR_fchmod, fd, last->mode, 0, 0, 0, 0);
    set_times((int)fd, NULL, last->mtime, 0);
    sys_close((int)fd);
}

/* Settles the directories that `path` no longer lies in. */
static void settle(struct upload *upload, const char *path) {
    while (upload->pendings > 0) {
        size_t length = upload->pending[upload->pendings - 1].length;
        if (path && strncmp(path, upload->pending_path, length) == 0 && path[length] == '/') {
            return;
        }
        settle_one(upload);
    }
}

static void settle_later(struct upload *upload) {
    if (upload->pendings == OPEN_DIRECTORIES) {
        settle_one(upload);
    }
    size_t length = strlen(upload->path);
    memcpy(upload->pending_path, upload->path, length + 1);
    upload->pending[upload->pendings++] = (struct pending){length, upload->member.mode, upload->member.mtime};
}

/* The directory that holds `path`, made with its parents where missing; its name there. Or -errno. */
static long open_parent(struct upload *upload, const char *path, bool make, struct relative *at) {
    if (relative_split(path, at) != RELATIVE_OK) {
        return -ENAMETOOLONG;
    }
    long fd = open_strictly(upload->root, at->directory, O_RDONLY | O_DIRECTORY, 0);
    if (fd == -ENOENT && make) {
        fd = make_directories(upload->root, at->directory, true);
    }
    return fd;
}

/* Takes a name away, unless a directory has it. */
static long make_way(int parent, const char *name) {
    struct statx info;
    long type = type_of(parent, name, 0, &info);
    if (type == -ENOENT) {
        return 0;
    }
    if (type < 0 || type == S_IFDIR) {
        return type < 0 ? type : -EEXIST;
    }
    return sys_call(__NR_unlinkat, parent, (long)name, 0, 0, 0, 0);
}

static enum status put_content(struct upload *upload, int fd) {
    uint64_t left = upload->member.size;
    while (left > 0) {
        const char *bytes;
        long got = next_bytes(upload, left, &bytes);
        if (got <= 0) {
            return input_failed(upload, got < 0 ? got : -ENODATA);
        }
        long result = write_all(fd, bytes, (size_t)got);
        if (result < 0) {
            return complain_errno(upload->request, result);
        }
        left -= (uint64_t)got;
    }
    sys_call(__NR_fchmod, fd, upload->member.mode, 0, 0, 0, 0);
    set_times(fd, NULL, upload->member.mtime, 0);
    return STATUS_OK;
}

static enum status put_file(struct upload *upload, int parent, const char *name) {
    long fd = make_way(parent, name);
    if (fd >= 0) {
        fd = open_strictly(parent, name, O_WRONLY | O_CREAT | O_EXCL, 0600);
    }
    if (fd < 0) {
        return refused(upload, fd);
    }
    enum status status = put_content(upload, (int)fd);
    sys_close((int)fd);
    if (status != STATUS_OK) {
        sys_call(__NR_unlinkat, parent, (long)name, 0, 0, 0, 0);
        return status;
    }
    long result = take(upload, padding(upload->member.size), NULL);
    return result < 0 ? input_failed(upload, result) : STATUS_OK;
}

static enum status put_directory(struct upload *upload, int parent, const char *name) {
    long result = sys_call(__NR_mkdirat, parent, (long)name, upload->member.mode | 0700U, 0, 0, 0);
    struct statx info;
    if (result == -EEXIST && type_of(parent, name, 0, &info) == S_IFDIR) {
        result = 0;
    }
    if (result < 0) {
        return refused(upload, result);
    }
    settle_later(upload);
    return STATUS_OK;
}

static size_t directories_in(const char *path) {
    size_t count = 0;
    for (; *path; path++) {
        count += *path == '/';
    }
    return count;
}

static enum status put_symlink(struct upload *upload, int parent, const char *name) {
    const char *target = upload->member.target;
    size_t depth = upload->depth + directories_in(upload->path);
    if (!relative_stays(upload->request->root_path, depth, target)) {
        return leave_out(upload, "link");
    }
    long result = make_way(parent, name);
    if (result >= 0) {
        result = sys_call(__NR_symlinkat, (long)target, parent, (long)name, 0, 0, 0);
    }
    if (result < 0) {
        return refused(upload, result);
    }
    set_times(parent, name, upload->member.mtime, AT_SYMLINK_NOFOLLOW);
    return STATUS_OK;
}

static enum status put_hard_link(struct upload *upload, int parent, const char *name) {
    char path[RELATIVE_MAX];
    struct relative at;
    struct statx info;
    if (relative_clean(upload->member.target, path) != RELATIVE_OK || is_held(upload->request, path)) {
        return leave_out(upload, "link");
    }
    long from = open_parent(upload, path, false, &at);
    if (from < 0) {
        return leave_out(upload, "link");
    }
    bool same = strcmp(path, upload->path) == 0;
    bool regular = type_of((int)from, at.name, 0, &info) == S_IFREG;
    long result = regular && !same ? make_way(parent, name) : 0;
    if (regular && !same && result >= 0) {
        result = sys_call(__NR_linkat, from, (long)at.name, parent, (long)name, 0, 0);
    }
    sys_close((int)from);
    return !regular ? leave_out(upload, "link") : result < 0 ? refused(upload, result) : STATUS_OK;
}

static enum status put_member(struct upload *upload) {
    struct relative at;
    long parent = open_parent(upload, upload->path, true, &at);
    if (parent < 0) {
        return refused(upload, parent);
    }
    enum status status = STATUS_OK;
    switch (upload->member.type) {
    case TAR_DIRECTORY:
        status = put_directory(upload, (int)parent, at.name);
        break;
    case TAR_SYMLINK:
        status = put_symlink(upload, (int)parent, at.name);
        break;
    case TAR_HARD_LINK:
        status = put_hard_link(upload, (int)parent, at.name);
        break;
    case TAR_FILE:
    case TAR_SPECIAL:
    case TAR_PAX:
    case TAR_PAX_GLOBAL:
    case TAR_GNU_NAME:
    case TAR_GNU_LINK_NAME:
        status = put_file(upload, (int)parent, at.name);
        break;
    }
    sys_close((int)parent);
    return status;
}

/* One member with content, held against the caps and the policy. */
static enum status take_member(struct upload *upload) {
    const struct request *request = upload->request;
    struct tar_member *member = &upload->member;
    tar_apply(&upload->extended, member);
    memset(&upload->extended, 0, sizeof upload->extended);
    enum relative_result result = relative_clean(member->path, upload->path);
    if (result != RELATIVE_OK) {
        return bad(upload, relative_result_to_string(result));
    }
    if (member->size > 0 && member->type != TAR_FILE && member->type != TAR_SPECIAL) {
        return bad(upload, tar_result_to_string(TAR_BAD_TYPE));
    }
    if (++upload->entries > request->most) {
        return complain(request, STATUS_TOO_LARGE, "more members than --max");
    }
    if (member->size > request->most_bytes - upload->bytes) {
        return complain(request, STATUS_TOO_LARGE, "more content than --max-bytes");
    }
    upload->bytes += member->size;
    if (!upload->path[0]) {
        return skip(upload, member->size); /* the directory itself */
    }
    settle(upload, upload->path);
    if (is_held(request, upload->path)) {
        return leave_out(upload, "held");
    }
    return member->type == TAR_SPECIAL ? leave_out(upload, "special") : put_member(upload);
}

static enum status take_extended(struct upload *upload) {
    static const char MUCH[] = "extended header too large";
    const struct tar_member *member = &upload->member;
    if (member->type == TAR_PAX_GLOBAL) {
        return member->size > GLOBAL_MAX ? bad(upload, MUCH) : skip(upload, member->size);
    }
    char text[TAR_EXTENDED];
    if (member->size > sizeof text) {
        return bad(upload, MUCH);
    }
    long taken = take(upload, member->size, text);
    if (taken >= 0) {
        taken = take(upload, padding(member->size), NULL);
    }
    if (taken < 0) {
        return input_failed(upload, taken);
    }
    size_t size = (size_t)member->size;
    enum tar_result result = member->type == TAR_PAX ? tar_read_pax(text, size, &upload->extended)
                             : member->type == TAR_GNU_NAME
                                 ? tar_read_gnu_name(text, size, upload->extended.path)
                                 : tar_read_gnu_name(text, size, upload->extended.target);
    return result == TAR_OK ? STATUS_OK : bad(upload, tar_result_to_string(result));
}

static enum status unpack(struct upload *upload) {
    for (;;) {
        char block[TAR_BLOCK];
        long taken = take(upload, sizeof block, block);
        if (taken < 0) {
            return input_failed(upload, taken);
        }
        enum tar_result result = tar_read_header((const unsigned char *)block, &upload->member);
        if (result == TAR_END) {
            return STATUS_OK;
        }
        if (result != TAR_OK) {
            return bad(upload, tar_result_to_string(result));
        }
        enum status status = upload->member.type >= TAR_PAX ? take_extended(upload) : take_member(upload);
        if (status != STATUS_OK) {
            return status;
        }
    }
}

enum status file_upload(const struct request *request) {
    struct upload upload = {.request = request};
    sys_call(__NR_umask, 0, 0, 0, 0, 0, 0);
    long root = make_directories(request->root, request->path, true);
    if (root < 0) {
        return complain_errno(request, root);
    }
    upload.root = (int)root;
    upload.depth = strcmp(request->path, ".") == 0 ? 0 : 1 + directories_in(request->path);
    enum status status = unpack(&upload);
    settle(&upload, NULL);
    struct line line = {.length = 0};
    line_number(&line, (int64_t)upload.entries);
    line_text(&line, " ");
    line_number(&line, (int64_t)upload.bytes);
    line.text[line.length++] = '\0';
    write_all(1, line.text, line.length);
    return status != STATUS_OK ? status : omitted(&upload.omissions, request);
}
