/* In a flush of a file below a directory the disk fails, or the process is killed: for a process that
 * loads this first.
 *
 * FLUSH_BELOW   the directory
 * FLUSH_CALL    in which call: fsync, fdatasync or sync_file_range
 * FLUSH_AFTER   how many of these succeed before
 * FLUSH_THEN    what happens: `fail`, in this and in all that follow, or `kill`
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static long calls;
static struct stat last;

/* Whether nothing was written to the file since it was flushed last: then there is nothing to fail. */
static int is_clean(const struct stat *now)
{
    return now->st_dev == last.st_dev && now->st_ino == last.st_ino && now->st_size == last.st_size &&
           now->st_mtim.tv_sec == last.st_mtim.tv_sec &&
           now->st_mtim.tv_nsec == last.st_mtim.tv_nsec;
}

static int fails(const char *call, int file)
{
    const char *below = getenv("FLUSH_BELOW"), *failing = getenv("FLUSH_CALL");
    const char *after = getenv("FLUSH_AFTER"), *then = getenv("FLUSH_THEN");
    char link[64], path[PATH_MAX];

    if (!below || !failing || !after || !then || strcmp(call, failing) != 0)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    if (strncmp(path, below, strlen(below)) != 0)
        return 0;
    struct stat now;
    if (fstat(file, &now) < 0 || is_clean(&now))
        return 0;
    if (__atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST) > atol(after)) {
        if (strcmp(then, "kill") == 0)
            kill(getpid(), SIGKILL);
        return 1;
    }
    last = now;
    return 0;
}

#define FLUSH(name, parameters, arguments)                                  \
    int name parameters                                                     \
    {                                                                       \
        int(*really) parameters = (int(*) parameters)dlsym(RTLD_NEXT, #name); \
        if (fails(#name, file)) {                                           \
            errno = EIO;                                                    \
            return -1;                                                      \
        }                                                                   \
        return really arguments;                                            \
    }

FLUSH(fsync, (int file), (file))
FLUSH(fdatasync, (int file), (file))
FLUSH(sync_file_range, (int file, off64_t from, off64_t bytes, unsigned flags),
      (file, from, bytes, flags))
