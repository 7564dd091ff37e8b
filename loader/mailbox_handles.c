/* SPDX-License-Identifier: Apache-2.0
 *
 * How the driver's handles get from rank to rank.
 *
 * Within a process a handle is passed by its number in a list, since a handle whose owner
 * released it must not be touched.  Between processes it is a file descriptor: fetched
 * from the owner with pidfd_getfd where the kernel allows it (same PID namespace and the
 * right to trace), else sent by the owner as SCM_RIGHTS.  The receiver has one datagram
 * socket for each sender, in the abstract namespace, so that sending never waits: nobody
 * else fills its queue.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* syscall */
#endif
#include "error.h"
#include "mailbox.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* The same numbers on all architectures; older C libraries lack the names. */
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

static bw_status fail_system(const char *call) {
  int error = errno;
  char room[128];
  const char *text = strerror_r(error, room, sizeof room); /* the GNU function */
  return bwi_fail(BW_ERROR_IO, "%s: %s", call, text);
}

static bool random_bytes(void *to, size_t size) {
  return getrandom(to, size, 0) == (ssize_t)size;
}

/* ---- handles within the process -------------------------------------------------------
 *
 * The list is the library's other mutable state outside of objects (see driver.c): a
 * mailbox finds there what another one of the process offers. */

static pthread_mutex_t handles_lock = PTHREAD_MUTEX_INITIALIZER;
static bwi_handle *handles;
static uint64_t last_token;

bw_status bwi_handle_new(const bwi_driver *driver, CUmemGenericAllocationHandle handle,
                         bwi_handle **out) {
  bwi_handle *h = calloc(1, sizeof *h);
  if (!h) {
    (void)driver->cuMemRelease(handle);
    return bwi_fail_memory("a handle");
  }
  *h = (bwi_handle){.driver = driver, .handle = handle, .references = 1};
  (void)pthread_mutex_lock(&handles_lock);
  h->token = ++last_token;
  h->next = handles;
  handles = h;
  (void)pthread_mutex_unlock(&handles_lock);
  *out = h;
  return BW_OK;
}

bwi_handle *bwi_handle_find(const bwi_driver *driver, uint64_t token) {
  (void)pthread_mutex_lock(&handles_lock);
  bwi_handle *h = handles;
  while (h && (h->token != token || h->driver != driver))
    h = h->next;
  if (h)
    h->references++;
  (void)pthread_mutex_unlock(&handles_lock);
  return h;
}

void bwi_handle_drop(bwi_handle **handle) {
  bwi_handle *h = *handle;
  if (!h)
    return;
  *handle = NULL;
  (void)pthread_mutex_lock(&handles_lock);
  bool last = --h->references == 0;
  if (last) {
    bwi_handle **p = &handles;
    while (*p != h)
      p = &(*p)->next;
    *p = h->next;
  }
  (void)pthread_mutex_unlock(&handles_lock);
  if (last) {
    (void)h->driver->cuMemRelease(h->handle);
    free(h);
  }
}

/* ---- where a process is ------------------------------------------------------------ */

/* Told apart from a process that forked from this one by its number. */
static uint8_t process_id[16];
static bool process_id_made;
static pthread_once_t process_once = PTHREAD_ONCE_INIT;

static void make_process_id(void) {
  process_id_made = random_bytes(process_id, sizeof process_id);
}

/* "01234567-89ab-..." to 16 bytes. */
static bool read_boot_id(uint8_t node[16]) {
  char text[64] = "";
  int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return false;
  ssize_t length = read(fd, text, sizeof text - 1);
  (void)close(fd);
  size_t digits = 0;
  for (ssize_t i = 0; i < length && digits < 32; i++) {
    static const char hex[] = "0123456789abcdef";
    const char *digit = text[i] ? strchr(hex, text[i]) : NULL;
    if (!digit)
      continue;
    uint8_t *byte = &node[digits / 2];
    *byte = (uint8_t)((unsigned)*byte << 4 | (unsigned)(digit - hex));
    digits++;
  }
  return digits == 32;
}

bw_status bwi_whereabouts_find(bwi_whereabouts *where) {
  memset(where, 0, sizeof *where);
  if (pthread_once(&process_once, make_process_id) != 0 || !process_id_made)
    return bwi_fail(BW_ERROR_IO, "getrandom gives no random bytes");
  memcpy(where->process, process_id, sizeof where->process);
  where->pid = (int32_t)getpid();
  struct stat status;
  if (stat("/proc/self/ns/pid", &status) == 0)
    where->pid_namespace = (uint64_t)status.st_ino;
  if (!read_boot_id(where->node))
    return bwi_fail(BW_ERROR_IO, "/proc/sys/kernel/random/boot_id cannot be read: it tells which "
                                 "ranks are on one node");
  return BW_OK;
}

bool bwi_same_process(const bwi_whereabouts *a, const bwi_whereabouts *b) {
  return a->pid == b->pid && memcmp(a->process, b->process, sizeof a->process) == 0;
}

bool bwi_same_node(const bwi_whereabouts *a, const bwi_whereabouts *b) {
  return memcmp(a->node, b->node, sizeof a->node) == 0;
}

/* ---- descriptors ------------------------------------------------------------------- */

int bwi_descriptor_fetch(const bwi_whereabouts *from, const bwi_whereabouts *self, int descriptor) {
  if (!self->pid_namespace || from->pid_namespace != self->pid_namespace)
    return -1; /* the number means another process here */
  int process = (int)syscall(SYS_pidfd_open, from->pid, 0);
  if (process < 0)
    return -1;
  int copy = (int)syscall(SYS_pidfd_getfd, process, descriptor, 0);
  (void)close(process);
  return copy;
}

int64_t bwi_milliseconds(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

typedef struct letter {
  uint64_t mailbox; /* the receiver's random number: nobody else knows it */
  uint32_t sender;
  uint32_t kind;
} letter;

/* The name of the socket where `address` expects the letters of `sender`. */
static socklen_t socket_name(struct sockaddr_un *name, const char *address, uint32_t sender) {
  memset(name, 0, sizeof *name);
  name->sun_family = AF_UNIX;
  int length = snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "%s-%u", address, sender);
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

void bwi_mail_init(bwi_mail *mail) {
  memset(mail->address, 0, sizeof mail->address);
  for (uint32_t r = 0; r < BW_MAILBOX_MAX_RANKS; r++)
    mail->sockets[r] = mail->taken[r] = -1;
  mail->offered[0] = mail->offered[1] = mail->taken_multicast = -1;
}

bw_status bwi_mail_open(bwi_mail *mail, uint32_t ranks) {
  uint64_t random;
  if (!random_bytes(&random, sizeof random))
    return bwi_fail(BW_ERROR_IO, "getrandom gives no random bytes");
  (void)snprintf(mail->address, sizeof mail->address, "bw-%016" PRIx64, random);
  for (uint32_t r = 0; r < ranks; r++) {
    struct sockaddr_un name;
    socklen_t length = socket_name(&name, mail->address, r);
    mail->sockets[r] = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (mail->sockets[r] < 0)
      return fail_system("socket");
    if (bind(mail->sockets[r], (const struct sockaddr *)&name, length) != 0)
      return fail_system("bind");
  }
  return BW_OK;
}

static void close_descriptor(int *descriptor) {
  if (*descriptor >= 0)
    (void)close(*descriptor);
  *descriptor = -1;
}

void bwi_mail_close(bwi_mail *mail) {
  for (uint32_t r = 0; r < BW_MAILBOX_MAX_RANKS; r++) {
    close_descriptor(&mail->sockets[r]);
    close_descriptor(&mail->taken[r]);
  }
  close_descriptor(&mail->offered[0]);
  close_descriptor(&mail->offered[1]);
  close_descriptor(&mail->taken_multicast);
}

/* Room for one descriptor, aligned as the kernel wants it. */
typedef union control {
  struct cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
} control;

bw_status bwi_descriptor_send(const char *address, uint32_t sender, uint64_t mailbox, int kind,
                              int descriptor) {
  int from = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (from < 0)
    return fail_system("socket");
  struct sockaddr_un name;
  socklen_t length = socket_name(&name, address, sender);
  letter text = {.mailbox = mailbox, .sender = sender, .kind = (uint32_t)kind};
  struct iovec part = {.iov_base = &text, .iov_len = sizeof text};
  control room = {.bytes = {0}};
  struct msghdr message = {.msg_name = &name,
                           .msg_namelen = length,
                           .msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = &room,
                           .msg_controllen = sizeof room};
  struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
  ssize_t sent = sendmsg(from, &message, MSG_NOSIGNAL);
  bw_status status = sent == (ssize_t)sizeof text ? BW_OK : fail_system("sendmsg (SCM_RIGHTS)");
  (void)close(from);
  return status;
}

/* One datagram from a socket.  The descriptor in it, if it has one, is the caller's. */
static bool receive_letter(int socket, letter *text, int *descriptor) {
  struct iovec part = {.iov_base = text, .iov_len = sizeof *text};
  control room = {.bytes = {0}};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = &room, .msg_controllen = sizeof room};
  *descriptor = -1;
  ssize_t length = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (length < 0)
    return false;
  for (struct cmsghdr *h = CMSG_FIRSTHDR(&message); h; h = CMSG_NXTHDR(&message, h))
    if (h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS &&
        h->cmsg_len == CMSG_LEN(sizeof(int)))
      memcpy(descriptor, CMSG_DATA(h), sizeof *descriptor);
  return length == (ssize_t)sizeof *text && *descriptor >= 0;
}

/* Waits until the socket has a datagram; false: not before the deadline. */
static bool wait_for_letter(int socket, int64_t deadline) {
  for (;;) {
    int64_t left = deadline - bwi_milliseconds();
    struct pollfd fd = {.fd = socket, .events = POLLIN};
    int ready = poll(&fd, 1, left > 0 ? (int)left : 0);
    if (ready > 0)
      return true;
    if (ready == 0 || errno != EINTR)
      return false;
  }
}

bw_status bwi_descriptor_receive(bwi_mail *mail, uint32_t sender, uint64_t mailbox, int *memory,
                                 int *multicast, int64_t deadline) {
  while ((memory && *memory < 0) || (multicast && *multicast < 0)) {
    if (!wait_for_letter(mail->sockets[sender], deadline))
      return bwi_fail(BW_ERROR_IO,
                      "no descriptor came from rank %u within %d s, by pidfd_getfd nor by a "
                      "socket (SCM_RIGHTS)",
                      sender, BWI_MAIL_TIMEOUT_MS / 1000);
    letter text;
    int descriptor;
    bool good = receive_letter(mail->sockets[sender], &text, &descriptor);
    int *place = NULL;
    if (good && text.mailbox == mailbox && text.sender == sender)
      place = text.kind == BWI_MAIL_MULTICAST ? multicast : memory;
    if (place && *place < 0)
      *place = descriptor;
    else if (descriptor >= 0)
      (void)close(descriptor); /* not for us */
  }
  return BW_OK;
}
