/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole files in and out.
 */
#include "bundle.h"
#include "error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* strerror() in the calling thread's own buffer. */
static const char *reason(int error, char *buffer, size_t size) {
  if (strerror_r(error, buffer, size) != 0)
    (void)snprintf(buffer, size, "error %d", error);
  return buffer;
}

static bw_status fail_errno(const char *doing, const char *path, int error) {
  char text[128];
  return bwi_fail(error == ENOMEM ? BW_ERROR_NO_MEMORY : BW_ERROR_IO, "cannot %s %s: %s", doing,
                  path, reason(error, text, sizeof text));
}

/* Reads up to `size` bytes; fewer only at the end of the file.  -1: errno says why. */
static ssize_t read_full(int fd, uint8_t *data, size_t size) {
  size_t done = 0;
  while (done < size) {
    ssize_t n = read(fd, data + done, size - done);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return -1;
    if (n == 0)
      break;
    done += (size_t)n;
  }
  return (ssize_t)done;
}

static bw_status read_open_file(int fd, const char *path, void **data, size_t *size) {
  struct stat st;
  if (fstat(fd, &st) != 0)
    return fail_errno("read", path, errno);
  if (!S_ISREG(st.st_mode))
    return bwi_fail(BW_ERROR_IO, "cannot read %s: not a regular file", path);
  if ((uint64_t)st.st_size >= SIZE_MAX)
    return fail_errno("read", path, EFBIG);
  size_t want = (size_t)st.st_size;
  uint8_t *bytes = malloc(want + 1);
  if (!bytes)
    return bwi_fail_memory(path);
  ssize_t got = read_full(fd, bytes, want);
  if (got < 0 || (size_t)got != want) {
    int error = got < 0 ? errno : EIO; /* EIO: it shrank meanwhile */
    free(bytes);
    return fail_errno("read", path, error);
  }
  bytes[want] = 0;
  *data = bytes;
  *size = want;
  return BW_OK;
}

bw_status bwi_read_file(const char *path, void **data, size_t *size) {
  /* Not blocking: a pipe without a writer is refused, not waited for. */
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0)
    return fail_errno("open", path, errno);
  bw_status status = read_open_file(fd, path, data, size);
  (void)close(fd);
  return status;
}

/* 0 or an errno. */
static int write_full(int fd, const uint8_t *data, size_t size) {
  while (size > 0) {
    ssize_t n = write(fd, data, size);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return errno;
    data += n;
    size -= (size_t)n;
  }
  return 0;
}

/* A device or a pipe: what was there first stays there.  0 or an errno. */
static int write_into(const char *path, const void *data, size_t size) {
  int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
  if (fd < 0)
    return errno;
  int error = write_full(fd, data, size);
  return close(fd) != 0 && error == 0 ? errno : error;
}

/* 0 or an errno. */
static int replace(const char *path, const char *temporary, const void *data, size_t size) {
  (void)unlink(temporary); /* of a process of this number that was killed */
  int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0)
    return errno;
  int error = write_full(fd, data, size);
  if (error == 0 && fsync(fd) != 0)
    error = errno;
  if (close(fd) != 0 && error == 0)
    error = errno;
  if (error == 0 && rename(temporary, path) != 0)
    error = errno;
  if (error != 0)
    (void)unlink(temporary);
  return error;
}

bw_status bwi_write_file(const char *path, const void *data, size_t size) {
  struct stat st;
  if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
    int error = write_into(path, data, size);
    return error == 0 ? BW_OK : fail_errno("write", path, error);
  }
  char *resolved = realpath(path, NULL); /* of a link, what it points to is replaced */
  const char *target = resolved ? resolved : path;
  size_t length = strlen(target) + 32;
  char *temporary = malloc(length);
  bw_status status = BW_OK;
  if (temporary) {
    (void)snprintf(temporary, length, "%s.part%ld", target, (long)getpid());
    int error = replace(target, temporary, data, size);
    if (error != 0)
      status = fail_errno("write", path, error);
  } else {
    status = bwi_fail_memory(path);
  }
  free(temporary);
  free(resolved);
  return status;
}
