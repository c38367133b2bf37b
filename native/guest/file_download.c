/*
 * file download: a tree, or one file, as a tar archive on standard output (../common/tar.h).
 *
 * Links go as links; no symlink is followed, also not in REL. A file that shrinks meanwhile is filled up with
 * zeros, since its size has been said by then, and reported; one that grows is cut. Left out and reported are
 * what is neither file, directory nor symlink, what can't be read, and what the policy holds back.
 */
#include "../common/tar.h"
#include "line.h"
#include "records.h"
#include "tree.h"

#include <string.h>

struct download {
    const struct request *request;
    struct omissions omissions;
    uint64_t bytes;
    struct tar_member member;
    char extended[3 * RELATIVE_MAX];
    struct output output;
};

static const char ZEROS[TAR_BLOCK];

static enum status broken(const struct download *download) {
    return complain(download->request, STATUS_OTHER, "standard output");
}

static bool is_utf8(const char *text) {
    const unsigned char *at = (const unsigned char *)text;
    while (*at) {
        unsigned follow = *at < 0x80   ? 0
                          : *at < 0xc2 ? 9
                          : *at < 0xe0 ? 1
                          : *at < 0xf0 ? 2
                          : *at < 0xf5 ? 3
                                       : 9;
        if (follow == 9) {
            return false;
        }
        for (at++; follow > 0; follow--, at++) {
            if ((*at & 0xc0) != 0x80) {
                return false;
            }
        }
    }
    return true;
}

static long fill_block(struct download *download, uint64_t size) {
    size_t rest = (size_t)(size % TAR_BLOCK);
    return rest ? output_add(&download->output, ZEROS, TAR_BLOCK - rest) : 0;
}

/* What the header itself can't say; 0 where it can say all. */
static size_t extended_records(struct download *download, const char *size) {
    struct tar_member *member = &download->member;
    char *text = download->extended;
    const size_t room = sizeof download->extended;
    bool path = strlen(member->path) > TAR_NAME, target = strlen(member->target) > TAR_NAME;
    size_t length = 0;
    if ((path && !is_utf8(member->path)) || (target && !is_utf8(member->target))) {
        length = tar_write_record(text, length, room, "hdrcharset", "BINARY");
    }
    if (path) {
        length = tar_write_record(text, length, room, "path", member->path);
    }
    if (target) {
        length = tar_write_record(text, length, room, "linkpath", member->target);
    }
    return member->size > TAR_SIZE_MAX ? tar_write_record(text, length, room, "size", size) : length;
}

static long write_member(struct download *download, char type) {
    unsigned char block[TAR_BLOCK];
    struct line size = {.length = 0};
    line_number(&size, (int64_t)download->member.size);
    size.text[size.length] = '\0';
    size_t length = extended_records(download, size.text);
    long result = 0;
    if (length > 0) {
        struct tar_member header = {.size = length, .mode = 0600, .path = "extended"};
        tar_write_header(block, 'x', &header);
        result = output_add(&download->output, block, sizeof block);
        if (result >= 0) {
            result = output_add(&download->output, download->extended, length);
        }
        if (result >= 0) {
            result = fill_block(download, length);
        }
    }
    if (result >= 0) {
        tar_write_header(block, type, &download->member);
        result = output_add(&download->output, block, sizeof block);
    }
    return result;
}

/* `size` bytes, whatever the file has by now. */
static enum status write_content(struct download *download, int fd, uint64_t size, const char *path) {
    char chunk[CHUNK];
    long result = 0;
    bool complete = true;
    for (uint64_t done = 0; done < size && result >= 0;) {
        size_t part = size - done < CHUNK ? (size_t)(size - done) : CHUNK;
        long got = complete ? sys_pread(fd, chunk, part, done) : 0;
        if (got <= 0) {
            complete = false;
            memset(chunk, 0, part);
            got = (long)part;
        }
        result = output_add(&download->output, chunk, (size_t)got);
        done += (uint64_t)got;
    }
    if (!complete) {
        omit(&download->omissions, "changed", path);
    }
    if (result >= 0) {
        result = fill_block(download, size);
    }
    return result < 0 ? broken(download) : STATUS_OK;
}

static void set_times(struct tar_member *member, const struct statx *info) {
    member->mode = info->stx_mode & 0777U;
    member->mtime = info->stx_mtime.tv_sec;
    member->size = 0;
    member->target[0] = '\0';
}

static enum status write_file(struct download *download, int fd, const char *path) {
    struct statx info;
    long type = type_of(fd, "", AT_EMPTY_PATH, &info);
    if (type != S_IFREG) {
        omit(&download->omissions, type < 0 ? "unreadable" : "special", path);
        return STATUS_OK;
    }
    if (info.stx_size > download->request->most_bytes - download->bytes) {
        return complain(download->request, STATUS_TOO_LARGE, "more content than --max-bytes");
    }
    download->bytes += info.stx_size;
    set_times(&download->member, &info);
    download->member.size = info.stx_size;
    return write_member(download, '0') < 0 ? broken(download)
                                           : write_content(download, fd, info.stx_size, path);
}

static enum status write_link(struct download *download, int parent, const char *name, const char *path) {
    char *target = download->member.target;
    long length = sys_call(__NR_readlinkat, parent, (long)name, (long)target, RELATIVE_MAX - 1, 0, 0);
    if (length < 0) {
        omit(&download->omissions, "unreadable", path);
        return STATUS_OK;
    }
    target[length] = '\0';
    return write_member(download, '2') < 0 ? broken(download) : STATUS_OK;
}

static enum status enter(struct tree *tree, int parent, const char *name, const struct statx *info,
                         bool *ret_descend) {
    struct download *download = tree->own;
    unsigned type = info->stx_mode & S_IFMT;
    if (is_held(tree->request, tree->path)) {
        omit(&download->omissions, "held", tree->path);
        *ret_descend = false;
        return STATUS_OK;
    }
    set_times(&download->member, info);
    memcpy(download->member.path, tree->path, tree->length + 1);
    if (type == S_IFDIR) {
        if (tree->length + 2 < sizeof tree->path) {
            memcpy(download->member.path + tree->length, "/", 2);
        }
        return write_member(download, '5') < 0 ? broken(download) : STATUS_OK;
    }
    if (type == S_IFLNK) {
        return write_link(download, parent, name, tree->path);
    }
    if (type != S_IFREG) {
        omit(&download->omissions, "special", tree->path);
        return STATUS_OK;
    }
    long fd = open_strictly(parent, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
    if (fd < 0) {
        omit(&download->omissions, "unreadable", tree->path);
        return STATUS_OK;
    }
    enum status status = write_file(download, (int)fd, tree->path);
    sys_close((int)fd);
    return status;
}

static enum status failed(struct tree *tree, long error) {
    struct download *download = tree->own;
    omit(&download->omissions, error == -EMLINK || error == -ENAMETOOLONG ? "deep" : "unreadable",
         tree->path);
    return STATUS_OK;
}

static const char *last_component(const char *path) {
    const char *name = path;
    for (const char *at = path; *at; at++) {
        if (*at == '/' && at[1]) {
            name = at + 1;
        }
    }
    return name;
}

/* REL itself: a directory's content, or one file under its own name. */
static enum status write_tree(struct download *download, int fd, struct tree *tree) {
    struct statx info;
    long type = type_of(fd, "", AT_EMPTY_PATH, &info);
    if (type < 0) {
        return complain_errno(download->request, type);
    }
    if (type == S_IFDIR) {
        return tree_walk(tree, fd);
    }
    if (type != S_IFREG) {
        return complain(download->request, STATUS_WRONG_TYPE, "neither a directory nor a regular file");
    }
    const char *name = last_component(download->request->path);
    memcpy(download->member.path, name, strlen(name) + 1); /* a path that could be opened is no longer */
    return write_file(download, fd, name);
}

enum status file_download(const struct request *request) {
    struct download download = {.request = request};
    struct tree tree = {.request = request, .own = &download, .enter = enter, .failed = failed};
    long fd = open_strictly(request->root, request->path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
    if (fd < 0) {
        return complain_errno(request, fd);
    }
    enum status status = write_tree(&download, (int)fd, &tree);
    if (status != STATUS_OK) {
        return status;
    }
    for (unsigned i = 0; i < 2; i++) {
        if (output_add(&download.output, ZEROS, sizeof ZEROS) < 0) {
            return broken(&download);
        }
    }
    return output_flush(&download.output) < 0 ? broken(&download) : omitted(&download.omissions, request);
}
